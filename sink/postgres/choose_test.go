package postgres

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink"
)

// What Auto becomes, by who decides and what the server has. Where no mode holds it is an error, with what is lacking: never another promise.
func TestChoose(t *testing.T) {
	cockroach := func(c *capabilities) { c.product, c.version, c.advisory, c.prepared = "CockroachDB", 130000, false, -1 }
	for _, tc := range []struct {
		name   string
		change func(c *capabilities)
		lane   sink.Lane
		taken  int // prepared transactions of others
		want   Mode
		why    []string
		lacks  string // "": the mode holds
	}{
		{"Postgres", func(c *capabilities) {}, sink.Lane{}, 0, InTransaction, []string{"store of its lane"}, ""},
		{"Postgres that prepares", func(c *capabilities) { c.prepared = 50 }, sink.Lane{}, 0, InTransaction, []string{"store of its lane"}, ""},
		{"another store", func(c *capabilities) {}, sink.Lane{OtherStore: true}, 0, Staged, []string{"another store", "max_prepared_transactions is 0"}, ""},
		{"another store, and it prepares", func(c *capabilities) { c.prepared = 2 }, sink.Lane{OtherStore: true, Number: 1}, 0, Prepared, []string{"another store", "max_prepared_transactions is 2"}, ""},
		{"another store, and it prepares for fewer lanes", func(c *capabilities) { c.prepared = 2 }, sink.Lane{OtherStore: true, Number: 2}, 0, Staged, []string{"max_prepared_transactions is 2: too few, as this is lane 3"}, ""},
		{"another store, and others hold some", func(c *capabilities) { c.prepared = 50 }, sink.Lane{OtherStore: true, Number: 9}, 40, Prepared, []string{"max_prepared_transactions is 50, of which others hold 40"}, ""},
		{"another store, and others leave too few", func(c *capabilities) { c.prepared = 50 }, sink.Lane{OtherStore: true, Number: 10}, 40, Staged, []string{"max_prepared_transactions is 50, of which others hold 40: too few, as this is lane 11"}, ""},
		{"another store, and others hold all", func(c *capabilities) { c.prepared = 2 }, sink.Lane{OtherStore: true}, 2, Staged, []string{"max_prepared_transactions is 2, of which others hold 2: too few, as this is lane 1"}, ""},
		{"its own store, whatever others hold", func(c *capabilities) { c.prepared = 2 }, sink.Lane{}, 2, InTransaction, []string{"store of its lane"}, ""},
		{"AlloyDB as it comes", func(c *capabilities) { c.version = 150007 }, sink.Lane{OtherStore: true}, 0, Staged, []string{"max_prepared_transactions is 0"}, ""},
		{"a pooler", func(c *capabilities) { c.renames = true }, sink.Lane{}, 0, InTransaction, []string{"store of its lane"}, ""},
		{"a pooler, statements by name", func(c *capabilities) { c.renames, c.byName = true, true }, sink.Lane{}, 0, InTransaction, nil, "42P05"},
		{"CockroachDB up to 25", cockroach, sink.Lane{}, 0, Staged, []string{"CockroachDB", "advisory locks", "prepared transactions are not relied on"}, ""},
		{"CockroachDB up to 25, another store", cockroach, sink.Lane{OtherStore: true}, 0, Staged, []string{"another store"}, ""},
		{"CockroachDB from 26", func(c *capabilities) { c.product, c.version, c.prepared = "CockroachDB", 130000, -1 }, sink.Lane{}, 0, InTransaction, nil, ""},
		{"CockroachDB without READ COMMITTED", func(c *capabilities) { cockroach(c); c.readCommitted = false }, sink.Lane{}, 0, Staged, nil, "sql.txn.read_committed_isolation.enabled"},
		{"YugabyteDB, which has the setting and does not prepare", func(c *capabilities) { c.product, c.version, c.prepared = "YugabyteDB", 150002, 10 }, sink.Lane{OtherStore: true}, 0, Staged, []string{"YugabyteDB"}, ""},
		{"YugabyteDB with its old default", func(c *capabilities) { c.product, c.readCommitted = "YugabyteDB", false }, sink.Lane{}, 0, InTransaction, nil, "yb_enable_read_committed_isolation"},
		{"YugabyteDB without advisory locks", func(c *capabilities) { c.product, c.advisory, c.callable = "YugabyteDB", false, false }, sink.Lane{}, 0, Staged, nil, "functions of advisory locks"},
		{"Hologres", func(c *capabilities) { c.product, c.savepoints, c.atomic, c.advisory = "Hologres", false, false, false }, sink.Lane{}, 0, Staged, nil, "hg_experimental_enable_transaction"},
		{"no pg_terminate_backend", func(c *capabilities) { c.terminates = false }, sink.Lane{}, 0, Staged, []string{"pg_terminate_backend"}, ""},
		{"a standby", func(c *capabilities) { c.readOnly = true }, sink.Lane{}, 0, InTransaction, nil, "target_session_attrs"},
	} {
		c := plain()
		tc.change(&c)
		got := c.choose(tc.lane, tc.taken)
		if got.mode != tc.want {
			t.Errorf("%s: %s", tc.name, got)
		}
		for _, w := range tc.why {
			if !strings.Contains(got.why, w) {
				t.Errorf("%s: no %q in %q", tc.name, w, got.why)
			}
		}
		if lacks := strings.Join(c.problems(got.mode), "\n"); (tc.lacks == "") != (lacks == "") || !strings.Contains(lacks, tc.lacks) {
			t.Errorf("%s: %s lacks %q", tc.name, got, lacks)
		}
	}
}

// The guarantee says what was chosen and why, of the last start, and of all its lanes.
func TestChoices_Guarantee(t *testing.T) {
	cs := &choices{}
	if g := cs.guarantee(); g.Level != sink.ExactlyOnce || !strings.Contains(g.How, "the start chooses") {
		t.Errorf("before a start: %s", g)
	}
	cs.add(0, choice{Staged, "of old"})
	cs.add(0, choice{Prepared, "of one"})
	cs.add(1, choice{Prepared, "of one"})
	cs.add(2, choice{Staged, "of two with others"})
	cs.add(3, choice{Staged, "of two"})
	text := cs.guarantee().String()
	for _, w := range []string{"exactly once: PREPARE TRANSACTION", "(mode prepared, chosen since of one); in other lanes rows in a staging table", "(mode staged, chosen since of two)", "fenced"} {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in %q", w, text)
		}
	}
	if strings.Contains(text, "of old") || strings.Count(text, "of one") != 1 || strings.Contains(text, "with others") {
		t.Error(text)
	}
}
