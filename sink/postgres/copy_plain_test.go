package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/postgres"
)

// Backfills in which now and then a key comes twice, is there, goes, is updated by a pair or lacks a column: the table holds what it holds after the same changes in
// batches that are too small for COPY.
func TestCopy_SameAsInSmallBatches(t *testing.T) {
	batches := 10
	if os.Getenv("FLINKSINK_LONG") != "" {
		batches = 60
	}
	const plainTable = "CREATE TABLE kv (k bigint PRIMARY KEY, v text, n bigint)"
	for _, tt := range []struct {
		name    string
		create  string
		mode    string // of the source; "": upsert
		options func(o *postgres.Options)
		never   string // kinds of trouble that this cannot take, see backfill
		stages  bool   // rows are not copied into the table as they come
	}{
		{name: "plain", create: plainTable},
		{name: "retract", create: plainTable, mode: "[I,UB,UA,D]"},
		{name: "soft delete", create: "CREATE TABLE kv (k bigint PRIMARY KEY, v text, n bigint, gone boolean)",
			options: func(o *postgres.Options) { o.SoftDelete.Column = "gone" }},
		{name: "deletes ignored", create: plainTable, options: func(o *postgres.Options) { o.IgnoreDeletes = true }},
		{name: "equal rows skipped", create: plainTable, options: func(o *postgres.Options) { o.SkipUnchanged = true }},
		{name: "version", create: plainTable, options: func(o *postgres.Options) { o.Version, o.IgnoreDeletes = "n", true }},
		{name: "version and mark", create: "CREATE TABLE kv (k bigint PRIMARY KEY, v text, n bigint, gone boolean)",
			options: func(o *postgres.Options) { o.Version, o.SoftDelete.Column = "n", "gone" }},
		{name: "audit", create: "CREATE TABLE kv (k bigint PRIMARY KEY, v text, n bigint, at bigint, i integer)",
			options: func(o *postgres.Options) { o.Audit.Offset, o.Audit.Index = "at", "i" }},
		{name: "generated", create: "CREATE TABLE kv (k bigint PRIMARY KEY, v text, n bigint, twice bigint GENERATED ALWAYS AS (n * 2) STORED, d text DEFAULT 'd')"},
		{name: "partitioned", create: `CREATE TABLE kv (k bigint PRIMARY KEY, v text, n bigint) PARTITION BY HASH (k);
			CREATE TABLE kv0 PARTITION OF kv FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE kv1 PARTITION OF kv FOR VALUES WITH (MODULUS 2, REMAINDER 1)`},
		{name: "trigger", create: plainTable + `;
			CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := coalesce(NEW.v, '') || NEW.n; RETURN NEW; END $$;
			CREATE TRIGGER stamp BEFORE INSERT ON kv FOR EACH ROW EXECUTE FUNCTION stamp()`, never: "present twice gone partial"},
		{name: "unique value", create: "CREATE TABLE kv (k bigint PRIMARY KEY, v text, n bigint UNIQUE)"},
		{name: "refers to itself", create: "CREATE TABLE kv (k bigint PRIMARY KEY, v text, n bigint REFERENCES kv (k) DEFERRABLE INITIALLY DEFERRED)", never: "gone value"},
		{name: "prepared", create: plainTable, options: func(o *postgres.Options) { o.Mode = postgres.Prepared }},
		{name: "staged", create: plainTable, options: func(o *postgres.Options) { o.Mode = postgres.Staged }, stages: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			run := func(rows int) ([]string, *copies) {
				e := newEnv(t)
				o := e.options()
				if tt.options != nil {
					tt.options(o)
				}
				if o.Mode == postgres.Prepared && e.one("SELECT current_setting('max_prepared_transactions')") == "0" {
					t.Skip("the server has no prepared transactions: max_prepared_transactions is 0")
				}
				e.exec(tt.create)
				mode := upsert
				if tt.mode != "" {
					mode = tt.mode
				}
				c := newCopies()
				w := e.writer(e.pool(c.through), o, table(t, "kv", mode, "k", "k BIGINT NOT NULL", "v STRING", "n BIGINT"))
				g := &backfill{rnd: rand.New(rand.NewPCG(seed, 0)), never: tt.never, retract: tt.mode != ""}
				for range batches {
					all := g.batch()
					for i := range all {
						all[i].Partition, all[i].Offset = part0, w.at
						w.at++
					}
					for part := range slices.Chunk(all, rows) {
						if err := w.write(part...); err != nil {
							t.Fatal(err)
						}
					}
					w.finish()
				}
				got := e.all("SELECT * FROM kv")
				slices.Sort(got)
				return got, c
			}
			got, c := run(1000)
			want, none := run(100)
			none.want(t, 0, 0)
			if !slices.Equal(got, want) {
				missing := slices.DeleteFunc(slices.Clone(want), func(r string) bool { _, ok := slices.BinarySearch(got, r); return ok })
				more := slices.DeleteFunc(slices.Clone(got), func(r string) bool { _, ok := slices.BinarySearch(want, r); return ok })
				t.Errorf("%d rows, in small batches %d; not there: %.300v; only there: %.300v", len(got), len(want), missing, more)
			}
			if !tt.stages && (c.tried == 0 || c.tried == c.taken) {
				t.Errorf("%d COPY of which %d were taken back: this shows nothing", c.tried, c.taken)
			}
		})
	}
}

// backfill makes batches of new keys, half of them with trouble.
type backfill struct {
	rnd     *rand.Rand
	never   string // kinds of trouble, and "value": n stays the key
	retract bool
	rows    []changelog.Row // by key, the last of each; nil: it is gone
	out     []changelog.Change
}

func (g *backfill) add(kind changelog.Kind, row changelog.Row) {
	g.out = append(g.out, changelog.Change{Kind: kind, Row: row})
}

// put makes another row of a key. n differs from that of any other key, and is less than before at times.
func (g *backfill) put(k int) {
	old := g.rows[k]
	n := int64(k)
	if old != nil && !strings.Contains(g.never, "value") {
		n += int64(g.rnd.IntN(10)) * 1_000_000
	}
	row := changelog.Row{num(int64(k)), str(fmt.Sprint("v", g.rnd.IntN(3))), num(n)}
	g.rows[k] = row
	switch {
	case g.retract && old != nil:
		g.add(changelog.UpdateBefore, old)
		g.add(changelog.UpdateAfter, row)
	case g.retract || g.rnd.IntN(2) == 0:
		g.add(changelog.Insert, row)
	default:
		g.add(changelog.UpdateAfter, row)
	}
}

func (g *backfill) batch() []changelog.Change {
	g.out = nil
	first := len(g.rows)
	g.rows = append(g.rows, make([]changelog.Row, 280)...)
	for _, k := range g.rnd.Perm(280) {
		g.put(first + k)
	}
	if g.rnd.IntN(2) == 0 {
		return g.out
	}
	for range 1 + g.rnd.IntN(4) {
		kind := []string{"present", "twice", "gone", "partial"}[g.rnd.IntN(4)]
		if strings.Contains(g.never, kind) {
			continue
		}
		k := g.rnd.IntN(len(g.rows))
		if kind == "twice" {
			k = first + g.rnd.IntN(280)
		}
		switch old := g.rows[k]; {
		case kind == "gone" && old != nil && g.retract:
			g.add(changelog.Delete, old)
			g.rows[k] = nil
		case kind == "gone" && old != nil:
			g.out = append(g.out, changelog.Change{Kind: changelog.Delete, KeyOnly: true, Row: changelog.Row{old[0], changelog.Value{}, old[2]}})
			g.rows[k] = nil
		case kind == "partial" && old != nil && !g.retract:
			g.add(changelog.UpdateAfter, changelog.Row{old[0], changelog.UnchangedValue(), old[2]})
		case kind == "present", kind == "twice":
			g.put(k)
		}
	}
	return g.out
}
