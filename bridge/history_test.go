package bridge

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debezium"
)

func TestHistory(t *testing.T) {
	k := newCluster(t, 2)
	change := func(i int) []byte {
		return fmt.Appendf(nil, `{"after":{"id":%d},"source":{"connector":"mysql","file":"bin.000001","pos":%d,"ts_ms":%d},"op":"c"}`, i, i, i)
	}
	for i := range 40 {
		if err := k.cl.ProduceSync(t.Context(), &kgo.Record{Topic: k.topic, Partition: 1, Value: change(i % 30)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	at := changelog.Partition{Topic: k.topic, Partition: 1}
	history := History([]kgo.Opt{kgo.SeedBrokers(k.addr)})
	var got []int64
	if err := history(at, 7, 12, func(r *changelog.Record) error {
		if got = append(got, r.Offset); r.Partition != at || string(r.Value) != string(change(int(r.Offset))) {
			t.Errorf("%+v", r)
		}
		return nil
	}); err != nil || fmt.Sprint(got) != "[7 8 9 10 11]" {
		t.Errorf("%v, %v", got, err)
	}
	stop := errors.New("enough")
	if err := history(at, 0, 12, func(*changelog.Record) error { return stop }); err != stop {
		t.Errorf("%v", err)
	}

	// A guard that begins in the middle knows what was there before.
	table, err := ddl.Find("CREATE TABLE t (id INT) WITH ('connector' = 'kafka', 'topic' = 'texts', 'format' = 'debezium-json')", "t")
	if err != nil {
		t.Fatal(err)
	}
	d, err := format.New(table, []changelog.Format{debezium.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[int]*format.GuardOptions{0: {History: history}, 1: nil} {
		g, err := format.NewReplayGuard(table, d, o)
		if err != nil {
			t.Fatal(err)
		}
		b := changelog.NewBatch(d.Table())
		if err := g.Decode(b, &changelog.Record{Partition: at, Offset: 33, Value: change(3)}); err != nil || b.Len() != want {
			t.Errorf("%d changes, %v; want %d", b.Len(), err, want)
		}
	}
}
