package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// pendingOfStop looks at what a bridge leaves that stops in good order, without and with the target asked.
type pendingOfStop struct {
	name  string
	run   []string // of run and check
	store []string // of pending
	to    []string // of pending: the target; nil: the store is asked, and is enough
}

func (p pendingOfStop) test(t *testing.T, broker, ddl string) {
	t.Helper()
	const nothing = "nothing is in doubt\n"
	with := func(name string, args []string, more ...string) result {
		t.Helper()
		return command(t, append(append([]string{name, "--bridge", p.name}, args...), more...)...)
	}
	at := append([]string{"--ddl", ddl, "--brokers", broker}, p.run...)
	if got := with("run", at, "--until-end"); got.status != exitDone {
		t.Fatalf("%s: %+v", p.name, got)
	}
	if got := with("check", at); got.status != exitDone || strings.Contains(got.out, "not yet known to be committed") {
		t.Errorf("%s: check: %+v", p.name, got)
	}
	if p.to != nil {
		if got := with("pending", p.store); got.status != exitDone || !strings.Contains(got.out, "leave: it is decided, and may be committed already") || strings.Contains(got.out, nothing) {
			t.Errorf("%s: pending without its target: %+v", p.name, got)
		}
	}
	asked := append(append([]string(nil), p.store...), p.to...)
	if got := with("pending", asked); got.status != exitDone || got.out != nothing {
		t.Errorf("%s: pending: %+v", p.name, got)
	}
	if got := with("pending", asked, "--all"); got.status != exitDone || !strings.Contains(got.out, "settled: it is committed") || !strings.HasSuffix(got.out, nothing) {
		t.Errorf("%s: pending --all: %+v", p.name, got)
	}
	if got := with("pending", asked, "--json"); got.status != exitDone || !strings.Contains(got.out, `"pending": []`) {
		t.Errorf("%s: pending --json: %+v", p.name, got)
	}
}

// After an orderly stop nothing is in doubt, whatever the target and the store are: its receipts are proven where they were committed.
func TestPending_AfterAnOrderlyStop(t *testing.T) {
	broker := newBroker(t)
	lake := newBucket(t)
	keyed(t, broker, 5)
	makeTopic(t, broker, "copy", 2)
	ddl := write(t, "ddl.sql", keyedDDL)
	file := "file:" + filepath.Join(t.TempDir(), "s")
	s3, kafka := []string{"--s3-endpoint", lake.URL}, "kafka://"+broker
	for _, p := range []pendingOfStop{
		{"lake", append(s3, "--to", "s3://lake/raw", "--s3-kind", "changelog"), append(s3, "--store", "s3://lake/raw"), nil},
		{"lake-renames", append(s3, "--to", "s3://lake/raw", "--s3-kind", "changelog", "--mode", "rename", "--s3-manifest=false"), append(s3, "--store", "s3://lake/raw"), nil},
		{"lake-by-file", append(s3, "--to", "s3://lake/raw", "--s3-kind", "changelog", "--store", file), []string{"--store", file}, append(s3, "--to", "s3://lake/raw")},
		{"copy", []string{"--to", kafka + "/copy", "--mode", "two-phase"}, []string{"--store", kafka}, nil},
		{"copy-by-file", []string{"--to", kafka + "/copy", "--store", file}, []string{"--store", file}, []string{"--to", kafka}},
		{"both", append(s3, "--to", kafka+"/copy", "--mode", "two-phase", "--to", "s3://lake/raw", "--s3-kind", "changelog", "--store", "s3://lake/raw"), append(s3, "--store", "s3://lake/raw"), []string{"--to", kafka + "/copy"}},
	} {
		p.test(t, broker, ddl)
	}
	// A target that does not answer leaves the doubt, and is said.
	lake.Intercept = func(r s3test.Request) *s3test.Fault {
		if r.Op == "HeadObject" {
			return &s3test.Fault{Status: 503, Code: "SlowDown"}
		}
		return nil
	}
	got := impatient(t, append(s3, "pending", "--bridge", "lake-by-file", "--store", file, "--to", "s3://lake/raw")...)
	if got.status != exitDone || !strings.Contains(got.out, "Its target could not be asked: ") {
		t.Errorf("%+v", got)
	}
}

// A bridge that writes into Postgres and has its positions elsewhere is seen by both commands alike, and what it left is proven there.
func TestPending_PositionsElsewhere(t *testing.T) {
	s := newSteered(t)
	s.produce(`{"id":1}`, `{"id":2}`)
	file := "file:" + filepath.Join(t.TempDir(), "s")
	p := pendingOfStop{"people", append(s.flags("--create-table"), "--mode", "staged", "--store", file), []string{"--store", file}, s.flags()}
	p.test(t, s.broker, s.ddl)
	at := []string{"--store", s.to, "--store-schema", s.schema}
	all := command(t, append([]string{"pending"}, at...)...)
	one := command(t, append([]string{"pending", "--bridge", "people"}, at...)...)
	const note = "nothing is in doubt\nbridge \"people\" writes here and has its positions in another store: "
	if clock := strings.NewReplacer("(0s)", "", "(1s)", "", "(2s)", ""); all.status != exitDone || one.status != exitDone || clock.Replace(all.out) != clock.Replace(one.out) || !strings.Contains(all.out, note) {
		t.Errorf("of all: %+v\nof one: %+v", all, one)
	}
	if got := command(t, append([]string{"settle", "--bridge", "people", "--yes"}, at...)...); got.status != exitDone || !strings.HasSuffix(got.out, "nothing is in doubt\n") {
		t.Errorf("settle: %+v", got)
	}
	got := command(t, append([]string{"positions", "show", "--bridge", "people"}, at...)...)
	if got.status != exitConfig || !strings.Contains(got.errs, `"people" writes into this database, and its positions are in another store: name that one by --store`) {
		t.Errorf("positions: %+v", got)
	}
	if got := command(t, append([]string{"pending", "--bridge", "poeple"}, at...)...); got.status != exitConfig || !strings.Contains(got.errs, "knows no bridge") {
		t.Errorf("a misspelt bridge: %+v", got)
	}
}
