package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// holder is a row of a table with two unique columns, of which one may not be NULL.
type holder struct {
	email, phone int64 // 0: NULL, of phone
	note         int64
	version      int64
}

// ownership is a history of such rows, in which no value has two owners at the end of a deed.
type ownership struct {
	r     *rand.Rand
	rows  map[int64]*holder
	parts bool // changes may lack columns
	stale bool // some are older than the row
	clock int64
}

func (o *ownership) keys() []int64 {
	keys := make([]int64, 0, len(o.rows))
	for k := range o.rows {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (o *ownership) unused() int64 {
	for {
		v := 100 + o.r.Int64N(200)
		if !slices.ContainsFunc(o.keys(), func(k int64) bool { return o.rows[k].email == v || o.rows[k].phone == v }) {
			return v
		}
	}
}

func orNull(n int64) changelog.Value {
	if n == 0 {
		return null
	}
	return num(n)
}

// tell is the change that makes a row what it is now, perhaps without what was the same before.
func (o *ownership) tell(k int64, was *holder) changelog.Change {
	is := o.rows[k]
	o.clock++
	is.version = o.clock
	row := changelog.Row{num(k), str(fmt.Sprint(is.email)), orNull(is.phone), num(is.note), num(is.version)}
	for i, same := range []bool{was != nil && was.email == is.email, was != nil && was.phone == is.phone, was != nil && was.note == is.note} {
		if o.parts && same && o.r.IntN(2) == 0 {
			row[i+1] = changelog.UnchangedValue()
		}
	}
	return changelog.Change{Kind: changelog.UpdateAfter, Row: row}
}

func (o *ownership) deed() (out []changelog.Change) {
	keys := o.keys()
	if len(keys) < 5 || len(keys) < 15 && o.r.IntN(6) == 0 {
		k := 1 + o.r.Int64N(30)
		for o.rows[k] != nil {
			k = 1 + o.r.Int64N(30)
		}
		v := o.unused()
		o.rows[k] = &holder{email: v, phone: v + 1000, note: o.r.Int64N(9)}
		return append(out, o.tell(k, nil))
	}
	o.r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	some := keys[:2+o.r.IntN(3)]
	was := make([]holder, len(some))
	for i, k := range some {
		was[i] = *o.rows[k]
	}
	what, spare := o.r.IntN(5), o.unused()
	for i, k := range some {
		next := &was[(i+1)%len(some)]
		row := o.rows[k]
		if what != 1 {
			row.email = next.email
		}
		if what != 0 {
			row.phone = next.phone
		}
		if what == 3 && i == 0 {
			row.email, row.phone = spare, 0
		}
		if o.r.IntN(2) == 0 {
			row.note = o.r.Int64N(9)
		}
	}
	if o.stale && o.r.IntN(2) == 0 { // nobody may hear of it
		old := changelog.Change{Kind: changelog.UpdateAfter, Row: changelog.Row{num(keys[0]), str("9999"), num(9999), num(1), num(0)}}
		if o.r.IntN(2) == 0 {
			old.Row[1], old.Row[2] = str(fmt.Sprint(was[1].email)), orNull(was[1].phone)
		}
		out = append(out, old)
	}
	for i, k := range some {
		out = append(out, o.tell(k, &was[i]))
	}
	return out
}

func (o *ownership) want() (out []string) {
	for k, r := range o.rows {
		phone := ""
		if r.phone != 0 {
			phone = fmt.Sprint(r.phone)
		}
		out = append(out, fmt.Sprintf("(%d,%d,%s,%d,mine)", k, r.email, phone, r.note))
	}
	slices.Sort(out)
	return out
}

// Rows pass their unique values on in rings, in a table whose rows cannot be taken out and put there anew: with columns that the sink does not write, triggers, references, guarded
// by a version, told in parts. Wherever batches and checkpoints end, the table holds what the source holds then, in every mode, nothing is refused, and nobody else's columns change.
func TestPark_Histories(t *testing.T) {
	seeds := uint64(2)
	if os.Getenv("FLINKSINK_LONG") != "" {
		seeds = 60
	}
	for _, tc := range []struct {
		name         string
		ddl          string
		parts, stale bool
		set          func(o *postgres.Options)
	}{
		{name: "whole rows", set: func(o *postgres.Options) {}},
		{name: "in parts, with a trigger", parts: true, set: func(o *postgres.Options) {}, ddl: `CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF OLD.phone IS DISTINCT FROM NEW.phone THEN NEW.seen := coalesce(OLD.seen, 0) + 1; END IF; RETURN NEW; END $$; CREATE TRIGGER see BEFORE UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION see()`},
		{name: "guarded", stale: true, set: func(o *postgres.Options) { o.Version, o.IgnoreDeletes = "version", true }},
		{name: "guarded, in parts, equal rows not written", parts: true, stale: true, set: func(o *postgres.Options) { o.Version, o.IgnoreDeletes, o.SkipUnchanged = "version", true, true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
				tc.set(o)
				e.exec(`CREATE TABLE kv (k bigint PRIMARY KEY, email text NOT NULL, phone bigint, note bigint, version bigint, own text DEFAULT 'mine', seen bigint);
					CREATE UNIQUE INDEX ON kv (lower(email)); ALTER TABLE kv ADD EXCLUDE (phone WITH =); CREATE TABLE child (k bigint REFERENCES kv ON DELETE CASCADE)`)
				e.exec(tc.ddl)
				w := e.drive(o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "email STRING", "phone BIGINT", "note BIGINT", "version BIGINT"))
				for seed := range seeds {
					h := &ownership{r: rand.New(rand.NewPCG(seed, 5)), rows: map[int64]*holder{}, parts: tc.parts, stale: tc.stale}
					e.exec("TRUNCATE kv, child")
					for cp := range 3 {
						var all []changelog.Change
						for range 8 {
							all = append(all, h.deed()...)
						}
						for n := 0; n < len(all); {
							end := n + 1
							for h.r.IntN(3) > 0 && end < len(all) {
								end++
							}
							if err := w.write(w.place(all[n:end]...)...); err != nil {
								t.Fatalf("seed %d, checkpoint %d, change %d of %d: %v", seed, cp, n, len(all), err)
							}
							n = end
						}
						if err := w.prepare(); err != nil {
							t.Fatalf("seed %d, checkpoint %d: %v", seed, cp, err)
						}
						w.finishPrepared()
						if got, want := e.all("SELECT k, email, phone, note, own FROM kv"), h.want(); !slices.Equal(got, want) {
							t.Fatalf("seed %d, checkpoint %d:\n%s, expected\n%s", seed, cp, got, want)
						}
						e.exec("INSERT INTO child SELECT k FROM kv EXCEPT SELECT k FROM child")
					}
					if got, want := e.one("SELECT count(*) FROM child"), fmt.Sprint(len(h.rows)); got != want {
						t.Errorf("seed %d: %s children of %s", seed, got, want)
					}
				}
			})
		})
	}
}

// Somebody makes a trigger between Prepare and Commit that keeps rows from being written which have given up their values: the merge is refused, undone, and goes through once the trigger is gone.
func TestPark_MergeKept(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.Mode = postgres.Staged
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE, note text DEFAULT 'mine'); INSERT INTO kv VALUES (1, 1), (2, 2)")
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"))
	if err := w.write(w.change(changelog.UpdateAfter, num(1), num(2)), w.change(changelog.UpdateAfter, num(2), num(1))); err != nil {
		t.Fatal(err)
	}
	if err := w.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := w.save(); err != nil {
		t.Fatal(err)
	}
	e.exec(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.u = 2 THEN RETURN NULL; END IF; RETURN NEW; END $$;
		CREATE TRIGGER keep BEFORE UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION keep()`)
	if err := w.c.Commit(w.ctx, w.receipt); sink.ClassOf(err) != sink.ErrTransient {
		t.Fatalf("expected a refusal that waits: %v", err)
	}
	wantRows(t, e.all("SELECT * FROM kv"), "(1,1,mine)", "(2,2,mine)")
	e.exec("DROP TRIGGER keep ON kv")
	if err := w.c.Commit(w.ctx, w.receipt); err != nil {
		t.Fatal(err)
	}
	wantRows(t, e.all("SELECT * FROM kv"), "(1,2,mine)", "(2,1,mine)")
}
