package bridge

import (
	"errors"
	"testing"

	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

func table(t *testing.T, with string) *ddl.Table {
	t.Helper()
	tables, err := ddl.Parse("CREATE TABLE texts (id BIGINT, v STRING) WITH (" + with + ")")
	if err != nil {
		t.Fatal(err)
	}
	return tables[0]
}

// A table and its broker are all that a bridge needs.
func TestFromTable(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 3)...)
	in, err := FromTable(table(t, `'connector' = 'kafka', 'topic' = 'texts', 'format' = 'json', 'scan.startup.mode' = 'specific-offsets',
		'scan.startup.specific-offsets' = 'partition:0,offset:1', 'properties.group.id' = 'mine', 'properties.bootstrap.servers' = '`+k.addr+`'`), texts{sinktest.Appended()})
	if err != nil {
		t.Fatal(err)
	}
	o := options(g)
	o.UntilEnd = true
	b, err := New("test", in, g, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	g.wantValues(t, []string{"a00001", "a00002"})
	if s := b.Status(); s.Group != "mine" {
		t.Fatalf("group %q", s.Group)
	}
}

func TestFromTable_TellsAllMistakes(t *testing.T) {
	_, err := FromTable(table(t, `'connector' = 'kafka', 'format' = 'json', 'scan.startup.mode' = 'tomorrow', 'properties.bootstrap.servers' = 'a:1', 'properties.nonsense' = '1'`), texts{sinktest.Appended()})
	configError(t, err, "'topic'", "scan.startup.mode", "properties.nonsense")
	if !errors.Is(err, sink.ErrConfig) {
		t.Fatal(err)
	}
}
