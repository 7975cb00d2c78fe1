package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What bulk order fails is done again in the topic's order, and where two rows swap a value, with the rows taken out first; at the end of the checkpoint too, where its batches cut that in two. Nothing is rejected
// that some order can write, and what came before in the checkpoint is there too.
func TestWrite_OrderMatters(t *testing.T) {
	row := func(kind changelog.Kind, k, u int64, v string) changelog.Change {
		return changelog.Change{Kind: kind, Row: changelog.Row{num(k), num(u), str(v)}}
	}
	const ins, before, after, del = changelog.Insert, changelog.UpdateBefore, changelog.UpdateAfter, changelog.Delete
	const unique = "CREATE UNIQUE INDEX ON kv (u)"
	for _, tc := range []struct {
		name, ddl string
		changes   []changelog.Change // after (1, 1, a), (2, 2, b), (3, 3, c)
		want      string
	}{
		{"swapped by updates", unique, []changelog.Change{row(after, 1, 2, "a"), row(after, 2, 1, "b")}, "(1,2,a) (2,1,b) (3,3,c)"},
		{"swapped, retracted first", unique, []changelog.Change{row(before, 1, 1, "a"), row(before, 2, 2, "b"), row(after, 1, 2, "a"), row(after, 2, 1, "b")}, "(1,2,a) (2,1,b) (3,3,c)"},
		{"swapped through a third value", unique, []changelog.Change{row(after, 1, 9, "a"), row(after, 2, 1, "b"), row(after, 1, 2, "a")}, "(1,2,a) (2,1,b) (3,3,c)"},
		{"a ring of three", unique, []changelog.Change{row(after, 1, 2, "a"), row(after, 2, 3, "b"), row(after, 3, 1, "c")}, "(1,2,a) (2,3,b) (3,1,c)"},
		{"passed on against the order of keys", unique, []changelog.Change{row(after, 3, 4, "c"), row(after, 2, 3, "b"), row(after, 1, 2, "a")}, "(1,2,a) (2,3,b) (3,4,c)"},
		{"deleted and taken over, then new", unique, []changelog.Change{row(del, 3, 3, "c"), row(after, 1, 3, "a"), row(ins, 3, 1, "c")}, "(1,3,a) (2,2,b) (3,1,c)"},
		{"exclusion", "ALTER TABLE kv ADD EXCLUDE USING btree (u WITH =)", []changelog.Change{row(after, 3, 4, "c"), row(after, 2, 3, "b"), row(after, 1, 2, "a")}, "(1,2,a) (2,3,b) (3,4,c)"},
		{"exclusion, swapped", "ALTER TABLE kv ADD EXCLUDE USING btree (u WITH =)", []changelog.Change{row(after, 1, 2, "a"), row(after, 2, 1, "b")}, "(1,2,a) (2,1,b) (3,3,c)"},
		{"swapped where rows are referred to, which the topic's order can", unique + "; CREATE TABLE child (k bigint REFERENCES kv ON DELETE CASCADE); INSERT INTO child VALUES (1), (2)",
			[]changelog.Change{row(after, 1, 9, "a"), row(after, 2, 1, "b"), row(after, 1, 2, "a")}, "(1,2,a) (2,1,b) (3,3,c)"},
		{"a trigger that wants the topic's order", `CREATE FUNCTION rising() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF EXISTS (SELECT FROM kv WHERE u > NEW.u AND k >= 10) THEN RAISE EXCEPTION 'not rising'; END IF; RETURN NEW; END $$;
				CREATE TRIGGER rising BEFORE INSERT ON kv FOR EACH ROW WHEN (NEW.k >= 10) EXECUTE FUNCTION rising()`,
			[]changelog.Change{row(ins, 12, 100, "x"), row(ins, 11, 101, "x"), row(ins, 10, 102, "x")}, "(1,1,a) (10,102,x) (11,101,x) (12,100,x) (2,2,b) (3,3,c)"},
	} {
		run := func(t *testing.T, batches ...[]changelog.Change) {
			e := newEnv(t)
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint NOT NULL, v text)")
			e.exec("INSERT INTO kv VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
			e.exec(tc.ddl)
			w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT", "v STRING"))
			if err := w.write(w.place(row(ins, 50, 50, "first"))...); err != nil {
				t.Fatal(err)
			}
			for _, b := range batches {
				if err := w.write(w.place(b...)...); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.write(w.place(row(del, 50, 50, "first"))...); err != nil {
				t.Fatal(err)
			}
			w.finish()
			if got := strings.Join(e.all("SELECT * FROM kv"), " "); got != tc.want {
				t.Errorf("%s, expected %s", got, tc.want)
			}
			if got := e.one("SELECT count(*) FROM pg_class WHERE relname = 'child' AND relnamespace = '" + e.schema + "'::regnamespace"); got == "1" {
				if got := e.one("SELECT count(*) FROM child"); got != "2" {
					t.Errorf("%s children are left of 2: a row was taken out that others refer to", got)
				}
			}
		}
		t.Run(tc.name, func(t *testing.T) { run(t, tc.changes) })
		t.Run(tc.name+", each in a Write of its own", func(t *testing.T) { run(t, slices.Collect(slices.Chunk(tc.changes, 1))...) })
	}
}

// place gives changes the next offsets.
func (w *writer) place(changes ...changelog.Change) []changelog.Change {
	out := slices.Clone(changes)
	for i := range out {
		out[i].Partition, out[i].Offset = part0, w.at
		w.at++
	}
	return out
}

// Rows are not taken out where they would not come back as they were: columns of somebody else, rows that refer to them, triggers. They give up their values in place.
func TestWrite_SwapWhereRowsCannotComeBack(t *testing.T) {
	for what, more := range map[string]string{
		"a column that the stream does not have": "ALTER TABLE kv ADD COLUMN note text; UPDATE kv SET note = 'mine'",
		"ON DELETE CASCADE":                      "CREATE TABLE child (k bigint REFERENCES kv ON DELETE CASCADE); INSERT INTO child VALUES (1)",
		"ON DELETE SET NULL":                     "CREATE TABLE child (k bigint REFERENCES kv ON DELETE SET NULL); INSERT INTO child VALUES (1)",
		"a trigger": `CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'row % goes', OLD.k; END $$;
			CREATE TRIGGER g BEFORE DELETE ON kv FOR EACH ROW EXECUTE FUNCTION f()`,
	} {
		e := newEnv(t)
		e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE); INSERT INTO kv VALUES (1, 1), (2, 2); CREATE VIEW others AS SELECT k FROM kv")
		e.exec(more)
		if e.one("SELECT to_regclass('child') IS NOT NULL") == "true" {
			e.exec("CREATE OR REPLACE VIEW others AS SELECT k FROM child")
		}
		others := e.all("SELECT k FROM others")
		w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"))
		w.put(w.change(changelog.Delete, num(1), num(1)), w.change(changelog.UpdateAfter, num(2), num(1)), w.change(changelog.Insert, num(1), num(2)))
		if got := strings.Join(e.all("SELECT * FROM kv"), ""); got != "(1,2)(2,1)" && got != "(1,2,mine)(2,1,mine)" {
			t.Errorf("%s: %s", what, got)
		}
		if got := e.all("SELECT k FROM others"); !slices.Equal(got, others) {
			t.Errorf("%s: %v, was %v: a row was taken out that others refer to", what, got, others)
		}
	}
}

// A row whose partition changes with its key leaves the one and comes into the other; a row that no partition takes is named; columns that the server
// generates follow.
func TestWrite_PartitionMoves(t *testing.T) {
	e := newEnv(t)
	e.exec(`CREATE TABLE kv (day int, k bigint, v text, twice text GENERATED ALWAYS AS (v || v) STORED, serial int GENERATED BY DEFAULT AS IDENTITY, PRIMARY KEY (day, k)) PARTITION BY RANGE (day);
		CREATE TABLE kv1 PARTITION OF kv FOR VALUES FROM (0) TO (10); CREATE TABLE kv2 PARTITION OF kv FOR VALUES FROM (10) TO (20)`)
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "day k", "day INT NOT NULL", "k BIGINT NOT NULL", "v STRING"))
	w.put(w.change(changelog.Insert, num(1), num(1), str("a")), w.change(changelog.Insert, num(1), num(2), str("b")))
	w.put(w.change(changelog.UpdateBefore, num(1), num(1), str("a")), w.change(changelog.UpdateAfter, num(15), num(1), str("c")))
	if got := e.all("SELECT tableoid::regclass::text, k, v, twice FROM kv"); !slices.Equal(got, []string{"(kv1,2,b,bb)", "(kv2,1,c,cc)"}) {
		t.Errorf("%v", got)
	}
	err := w.write(w.change(changelog.Insert, num(2), num(5), str("x")), w.change(changelog.Insert, num(77), num(5), str("x")))
	wantBlamed(t, err, "5")
}

// lanes runs n lanes of several processes at once over keys that they share, each within one batch, and returns what the server said of them.
func sharedKeys(t *testing.T, e *env, tb *changelog.Table, rounds int, row func(lane, round, i int) changelog.Change) []error {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for n := range errs {
		p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["deadlock_timeout"] = "10ms" })
		c, err := e.lane(p, "", e.options(), tb)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
		part := w.other(int32(n))
		wg.Go(func() {
			for round := range rounds {
				var cs []changelog.Change
				for i := range 200 {
					ch := row(n, round, i)
					ch.Partition, ch.Offset = part, int64(round*200+i)
					cs = append(cs, ch)
				}
				at := func(o int) []changelog.Position {
					return []changelog.Position{{Partition: part, Offset: int64(o), LeaderEpoch: -1}}
				}
				cp := sink.Checkpoint{ID: sink.CheckpointID(round + 1), From: at(round * 200), To: at(round*200 + 200)}
				err := w.write(cs...)
				for tries := 0; sink.ClassOf(err) == sink.ErrTransient && tries < 20; tries++ { // the victim more often than the sink tries, as chance has it; a bridge tries on
					w.c.Discard(w.ctx)
					err = w.write(cs...)
				}
				if err == nil {
					_, err = w.c.Prepare(w.ctx, sink.Cut{Generation: w.claim.Generation, Checkpoint: cp.ID, From: cp.From, To: cp.To})
				}
				if err == nil {
					err = w.store().Save(w.ctx, w.claim.Generation, cp)
				}
				if err != nil {
					errs[n] = fmt.Errorf("lane %d, round %d: %w", n, round, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errs
}

// Two lanes write the same keys in opposite orders: rows are locked in the order of their keys, and what the server still ends as a deadlock (deletes,
// whose order is the plan's) is done again within the sink, and by the caller where that was not enough. Neither lane fails (P34).
func TestWrite_LanesShareKeys(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	errs := sharedKeys(t, e, tb, 20, func(lane, round, i int) changelog.Change {
		k := int64(i)
		if lane == 1 {
			k = 199 - k
		}
		if (round+i)%3 == 0 {
			return changelog.Change{Kind: changelog.Delete, Row: changelog.Row{num(k), {}}, KeyOnly: true}
		}
		return changelog.Change{Kind: changelog.UpdateAfter, Row: changelog.Row{num(k), str(fmt.Sprint("lane", lane))}}
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// A deadlock or a serialization failure is done again within the sink, three times, with everything that the checkpoint had taken before. After that it is the
// coordinator's.
func TestWrite_VictimDoneAgain(t *testing.T) {
	for _, code := range []string{"40001", "40P01"} {
		for fails, want := range map[int]error{1: nil, 3: nil, 4: sink.ErrTransient} {
			e := newEnv(t)
			// A sequence counts beyond the rollback.
			e.exec(fmt.Sprintf(`CREATE SEQUENCE tries; CREATE FUNCTION victim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF nextval('tries') <= %d THEN RAISE EXCEPTION 'x' USING ERRCODE = '%s'; END IF; RETURN NEW; END $$`, fails, code))
			tb := e.keyed()
			e.exec("CREATE TRIGGER victim BEFORE INSERT ON kv FOR EACH ROW WHEN (NEW.k = 7) EXECUTE FUNCTION victim()")
			w := e.writer(e.pool(nil), e.options(), tb)
			err := w.write(w.change(changelog.Insert, num(1), str("a")))
			if err == nil {
				err = w.write(w.change(changelog.Insert, num(7), str("b")))
			}
			if got := sink.ClassOf(err); got != want {
				t.Errorf("%s %d times: %v", code, fails, err)
				continue
			}
			if want != nil {
				continue
			}
			w.finish()
			if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,a)", "(7,b)"}) {
				t.Errorf("%s %d times: %v", code, fails, got)
			}
		}
	}
}

// The same at the end of the checkpoint, where a deferred constraint trigger is run.
func TestPrepare_VictimDoneAgain(t *testing.T) {
	e := newEnv(t)
	e.exec(`CREATE SEQUENCE tries; CREATE FUNCTION victim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('tries') <= 2 THEN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$`)
	tb := e.keyed()
	e.exec("CREATE CONSTRAINT TRIGGER victim AFTER INSERT ON kv DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION victim()")
	w := e.writer(e.pool(nil), e.options(), tb)
	w.put(w.change(changelog.Insert, num(1), str("a")))
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,a)"}) {
		t.Errorf("%v", got)
	}
	var pe *pgconn.PgError
	if err := w.write(w.change(changelog.Insert, num(1), num(1))); errors.As(err, &pe) {
		t.Errorf("%v", err)
	}
}
