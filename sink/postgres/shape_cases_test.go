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
	"github.com/flinksink/flinksink/sink/postgres"
)

func (w *writer) wantSuperseded(n int64) {
	w.t.Helper()
	if got := w.c.(sink.Superseder).Superseded(); got != n {
		w.t.Errorf("%d changes were superseded, expected %d", got, n)
	}
}

func wantRows(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

// A row that holds already what a change says is not written: no version of it, no trigger. Types that cannot be compared by = are compared as
// they are stored, and a difference that = does not see is written.
func TestSkipUnchanged(t *testing.T) {
	e := newEnv(t)
	e.exec(`CREATE TABLE wide (k int PRIMARY KEY, j json, x xml, b jsonb, n numeric, p numeric(10,3), c char(5), i interval, d timestamp(3), a int[], other text DEFAULT 'o');
		CREATE TABLE seen (what text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (TG_OP); RETURN NEW; END $$;
		CREATE TRIGGER see BEFORE UPDATE ON wide FOR EACH ROW EXECUTE FUNCTION see()`)
	o := e.options()
	o.SkipUnchanged = true
	w := e.writer(e.pool(nil), o, table(t, "wide", upsert, "k", "k INT", "j STRING", "x STRING", "b MAP<STRING, INT>", "n DECIMAL(10, 2)", "p DECIMAL(10, 3)", "c STRING",
		"i INTERVAL DAY TO SECOND", "d TIMESTAMP(3)", "a ARRAY<INT>"))
	row := func() changelog.Row {
		return changelog.Row{num(1), str(`{"a": 1}`), str("<a/>"), mapOf(str("k"), num(1)), changelog.DecimalValue(0, 150, 2), changelog.DecimalValue(0, 1500, 3), str("ab"),
			num(1000), stamp(2024, 2, 29, 1, 500000000), array(num(1), null)}
	}
	w.put(w.change(changelog.Insert, row()...))
	w.wantSuperseded(0)
	xmin := e.one("SELECT xmin FROM wide")
	w.put(w.change(changelog.UpdateAfter, row()...))
	w.wantSuperseded(1)
	for _, i := range []int{1, 5, 9} { // sent without one column
		part := row()
		part[i] = changelog.UnchangedValue()
		w.put(w.change(changelog.UpdateAfter, part...))
		w.wantSuperseded(1)
	}
	nothing := changelog.Row{num(1)}
	for range 9 {
		nothing = append(nothing, changelog.UnchangedValue())
	}
	w.put(w.change(changelog.UpdateAfter, nothing...))
	w.wantSuperseded(1)
	if got := e.one("SELECT xmin FROM wide"); got != xmin || e.one("SELECT count(*) FROM seen") != "0" {
		t.Errorf("an equal row was written")
	}
	for n, different := range map[int]changelog.Value{1: str(`{"a":1}`), 4: changelog.DecimalValue(0, 151, 2), 6: null, 7: num(2000), 9: array(num(1), num(2))} {
		next := row()
		next[n] = different
		w.put(w.change(changelog.UpdateAfter, next...))
		w.wantSuperseded(0)
		for i := range next {
			if i != 0 && i != n {
				next[i] = changelog.UnchangedValue()
			}
		}
		w.put(w.change(changelog.UpdateAfter, row()...))
		w.wantSuperseded(0)
		w.put(w.change(changelog.UpdateAfter, next...))
		w.wantSuperseded(0)
	}
	if got := e.one("SELECT count(*) FROM seen"); got != "15" {
		t.Errorf("%s updates, expected 15", got)
	}
}

// What = takes for equal and readers do not is a difference.
func TestSkipUnchanged_LooseTypes(t *testing.T) {
	e := newEnv(t)
	e.exec(`CREATE COLLATION IF NOT EXISTS loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE TABLE kv (k int PRIMARY KEY, v text COLLATE loose, f double precision)`)
	o := e.options()
	o.SkipUnchanged = true
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT", "v STRING", "f DOUBLE"))
	w.put(w.change(changelog.Insert, num(1), str("a"), changelog.DoubleValue(0)))
	w.put(w.change(changelog.UpdateAfter, num(1), str("A"), changelog.DoubleValue(0)))
	w.wantSuperseded(0)
	if got := e.one("SELECT v FROM kv"); got != "A" {
		t.Errorf("%s", got)
	}
}

// A delete marks, and the marks and rows of one batch are those of many; here the statements are looked at one by one.
func TestSoftDelete(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text NOT NULL, gone_at timestamptz)")
	o := e.options()
	o.SoftDelete = postgres.SoftDelete{Column: "gone_at", Deleted: postgres.Now}
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT", "v STRING"))
	gone := func(k int64) changelog.Change {
		c := w.change(changelog.Delete, num(k), null)
		c.KeyOnly = true
		return c
	}
	w.put(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(2), str("b")), gone(2), gone(7))
	wantRows(t, e.all("SELECT k, v, gone_at IS NOT NULL FROM kv"), "(1,a,f)", "(2,b,t)")
	w.put(gone(1))
	first := e.one("SELECT gone_at FROM kv WHERE k = 1")
	w.put(gone(1), gone(7))
	if got := e.one("SELECT gone_at FROM kv WHERE k = 1"); got != first || first == "NULL" {
		t.Errorf("marked at %s, then at %s", first, got)
	}
	// A column that was not sent has nothing to be kept from in a row that was deleted.
	wantBlamed(t, w.write(w.change(changelog.UpdateAfter, num(1), changelog.UnchangedValue())), fmt.Sprint(w.at-1))
	w.acquire()
	w.put(w.change(changelog.Insert, num(1), str("again")))
	wantRows(t, e.all("SELECT k, v, gone_at IS NOT NULL FROM kv"), "(1,again,f)", "(2,b,t)")
}

// The mark is the delete's own time, which a METADATA column has also where the delete knows its key only.
func TestSoftDelete_From(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text, at timestamptz(3), gone timestamptz(3))")
	o := e.options()
	o.SoftDelete = postgres.SoftDelete{Column: "gone", From: "at"}
	tb := table(t, "kv", upsert, "k", "k INT", "v STRING", "at TIMESTAMP_LTZ(3)")
	tb.Schema.Columns[2].Metadata = "timestamp"
	w := e.writer(e.pool(nil), o, tb)
	at := func(sec int64) changelog.Value { return changelog.TimestampLTZValue(sec, 0) }
	gone := func(k int64, at changelog.Value) changelog.Change {
		c := w.change(changelog.Delete, num(k), null, at)
		c.KeyOnly = true
		return c
	}
	w.put(w.change(changelog.Insert, num(1), str("a"), at(10)), gone(1, at(20)), w.change(changelog.Insert, num(2), str("b"), at(30)))
	w.put(gone(2, at(40)))
	wantRows(t, e.all("SELECT k, extract(epoch FROM at)::int, extract(epoch FROM gone)::int FROM kv"), "(1,10,20)", "(2,30,40)")
	err := w.write(gone(1, null), gone(2, null))
	wantBlamed(t, err, fmt.Sprintf("%d gone, %d gone", w.at-2, w.at-1))
	if !strings.Contains(err.Error(), "Options.SoftDelete.From") {
		t.Error(err)
	}
}

// Refusals of the server are told apart in marks and guarded rows as elsewhere, also where the role may not delete.
func TestShapes_Blamed(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text UNIQUE CHECK (v <> 'bad'), n bigint, gone boolean, CHECK (NOT (gone AND k = 3)))")
	o := e.options()
	o.SoftDelete.Column, o.Version, o.SkipUnchanged = "gone", "n", true
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT", "v STRING", "n BIGINT"))
	row := func(kind changelog.Kind, k int64, v changelog.Value, n changelog.Value) changelog.Change {
		return w.change(kind, num(k), v, n)
	}
	w.put(row(changelog.Insert, 1, str("a"), num(1)), row(changelog.Insert, 3, str("c"), num(1)))
	tombstone := row(changelog.Delete, 9, null, null)
	tombstone.KeyOnly = true
	unsent := row(changelog.UpdateAfter, 1, str("b"), changelog.UnchangedValue())
	err := w.write(tombstone, unsent, row(changelog.Insert, 5, str("e"), null))
	wantBlamed(t, err, "2 n, 3 n, 4 n")
	if !strings.Contains(err.Error(), "Options.Version") {
		t.Error(err)
	}
	w.acquire()
	from := w.at
	all := []changelog.Change{row(changelog.Delete, 3, str("c"), num(2)), row(changelog.Insert, 4, str("bad"), num(2)), row(changelog.Insert, 5, str("ok"), num(2)), row(changelog.Insert, 6, str("a"), num(2))}
	wantBlamed(t, w.refusal(all), fmt.Sprintf("%d, %d", from, from+1))
	w.acquire()
	w.at = from + 4
	wantBlamed(t, w.refusal(all[2:]), fmt.Sprint(from+3)) // of a value that the rest of the checkpoint might have given up
}

// Never an older row, whoever wrote the newer one; a delete is no exception, and its row stays to be compared with.
func TestVersion(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text, n bigint, gone boolean NOT NULL DEFAULT false)")
	o := e.options()
	o.SoftDelete.Column, o.Version = "gone", "n"
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT", "v STRING", "n BIGINT"))
	row := func(kind changelog.Kind, k int64, v string, n int64) changelog.Change {
		return w.change(kind, num(k), str(v), num(n))
	}
	w.put(row(changelog.Insert, 1, "new", 5), row(changelog.UpdateAfter, 1, "old", 3))
	w.wantSuperseded(1)
	w.put(row(changelog.UpdateAfter, 1, "older", 4), row(changelog.Insert, 2, "x", 1))
	w.wantSuperseded(1)
	w.put(row(changelog.Delete, 1, "old", 4))
	w.wantSuperseded(1)
	wantRows(t, e.all("SELECT k, v, n, gone FROM kv"), "(1,new,5,f)", "(2,x,1,f)")
	w.put(row(changelog.UpdateAfter, 1, "same", 5)) // as new as the row: the later of two
	w.wantSuperseded(0)
	// A delete of a row that never came keeps the place of its version.
	w.put(row(changelog.Delete, 3, "gone", 9))
	w.put(row(changelog.Insert, 3, "late", 8))
	w.wantSuperseded(1)
	// As does one that knows its key and its version only.
	only := w.change(changelog.Delete, num(4), null, num(9))
	only.KeyOnly = true
	w.put(only)
	w.wantSuperseded(0)
	w.put(row(changelog.Insert, 4, "late", 8))
	w.wantSuperseded(1)
	again := w.change(changelog.Delete, num(4), null, num(7))
	again.KeyOnly = true
	w.put(again)
	w.wantSuperseded(1)
	wantRows(t, e.all("SELECT k, v, n, gone FROM kv"), "(1,same,5,f)", "(2,x,1,f)", "(3,gone,9,t)", "(4,,9,t)")
	w.put(row(changelog.Insert, 4, "back", 10))
	if got := e.one("SELECT v || gone FROM kv WHERE k = 4"); got != "backfalse" {
		t.Errorf("%s", got)
	}
	// Rows from before there were versions give way.
	e.exec("INSERT INTO kv VALUES (8, 'none', NULL)")
	w.put(row(changelog.UpdateAfter, 8, "some", -5))
	if got := e.one("SELECT v FROM kv WHERE k = 8"); got != "some" {
		t.Errorf("%s", got)
	}
}

// Many new rows go by COPY, and as many old ones behind them by the guarded statement.
func TestVersion_Copy(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text, n bigint)")
	o := e.options()
	o.IgnoreDeletes, o.Version = true, "n"
	c := newCopies()
	w := e.writer(e.pool(c.through), o, table(t, "kv", upsert, "k", "k INT", "v STRING", "n BIGINT"))
	for n, text := range []string{"first", "second"} {
		var changes []changelog.Change
		for k := range int64(many) {
			changes = append(changes, w.change(changelog.UpdateAfter, num(k), str(text), num(5-k%2*int64(n))))
		}
		w.put(changes...)
	}
	c.want(t, 2, 1)
	w.wantSuperseded(many / 2)
	wantRows(t, e.all("SELECT v, count(*) FROM kv GROUP BY v"), fmt.Sprintf("(first,%d)", many/2), fmt.Sprintf("(second,%d)", many/2))
}

// The store is lost and everything is read again, in other batches: no row doubles.
func TestAppendOnce(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.AppendOnce, o.CreateTable = true, true
	tb := table(t, "log", appnd, "", "v STRING")
	p := e.pool(nil)
	for round, sizes := range [][]int{{many, 50}, {50, many}, {1, many + 49}} {
		e.exec("DROP SCHEMA IF EXISTS " + e.own + " CASCADE")
		w := e.writer(p, o, tb)
		for _, n := range sizes {
			var changes []changelog.Change
			for range n {
				changes = append(changes, w.change(changelog.Insert, str("x")))
			}
			if n == 50 { // several changes of one message are several rows
				changes[1].Offset, changes[1].Index = changes[0].Offset, 1
			}
			w.put(changes...)
			if round > 0 && n > 1 && n != 50 {
				if got := w.c.(sink.Superseder).Superseded(); got == 0 {
					t.Error("no change was counted as superseded")
				}
			}
		}
		if got := e.one("SELECT count(*) FROM log"); round == 0 && got != fmt.Sprint(many+50) {
			t.Errorf("%s rows", got)
		}
	}
	if got := e.one("SELECT count(*) || ' ' || count(DISTINCT (flinksink_topic, flinksink_partition, flinksink_offset, flinksink_index)) FROM log"); got != fmt.Sprintf("%d %[1]d", many+52) {
		t.Errorf("%s rows", got) // the two messages of two changes are others in each round of the first two
	}
}

// Audit columns are right in every statement: COPY, upsert, columns that were not sent, marks; and in every checkpoint and generation.
func TestAudit(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable = true
	o.SoftDelete.Column = "gone"
	o.Audit = postgres.AuditColumns{Bridge: "bridge", Generation: "gen", Checkpoint: "cp", Topic: "topic", Partition: "part", Offset: "off", Index: "idx", Time: "at"}
	began := e.one("SELECT now()")
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT", "v STRING", "w STRING"))
	var changes []changelog.Change
	for k := range int64(many) {
		changes = append(changes, w.change(changelog.Insert, num(k), str("a"), str("w")))
	}
	changes[5].Index = 3
	w.put(changes...)
	w.put(w.change(changelog.UpdateAfter, num(0), str("b"), str("w")), w.change(changelog.UpdateAfter, num(1), str("b"), changelog.UnchangedValue()))
	w.acquire()
	w.put(w.change(changelog.Delete, num(2), str("a"), str("w")))
	const cols = "k, v, w, gone, bridge, gen, cp, topic, part, off, idx FROM kv"
	wantRows(t, e.all("SELECT "+cols+" WHERE k <= 5"),
		fmt.Sprintf("(0,b,w,f,bridge,1,2,topic,0,%d,0)", many), fmt.Sprintf("(1,b,w,f,bridge,1,2,topic,0,%d,0)", many+1), fmt.Sprintf("(2,a,w,t,bridge,2,1,topic,0,%d,0)", many+2),
		"(3,a,w,f,bridge,1,1,topic,0,3,0)", "(4,a,w,f,bridge,1,1,topic,0,4,0)", "(5,a,w,f,bridge,1,1,topic,0,5,3)")
	if got := e.one("SELECT count(DISTINCT at) || ' ' || bool_and(at BETWEEN $1::text::timestamptz AND now()) FROM kv", began); got != "3 true" {
		t.Errorf("%s", got)
	}
	if err := w.write(w.change(changelog.Insert, num(1), str("x"), null)); err != nil {
		t.Fatal(err)
	}
	w.cp += 5
	if err := w.prepare(); sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), "Audit.Checkpoint") {
		t.Errorf("%v", err)
	}
}

// A table without a key has audit columns too, and rows are taken away from it without regard to them.
func TestAudit_Multiset(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable = true
	o.Audit = postgres.AuditColumns{Offset: "off"}
	w := e.writer(e.pool(nil), o, table(t, "bag", retract, "", "a INT"))
	w.put(w.change(changelog.Insert, num(1)), w.change(changelog.Insert, num(2)))
	w.put(w.change(changelog.Delete, num(1)), w.change(changelog.Insert, num(3)))
	wantRows(t, e.all("SELECT * FROM bag"), "(2,1)", "(3,3)")
}

// With deletes ignored, a table without a key takes what a retract stream puts there, and nothing goes.
func TestIgnoreDeletes_WithoutKey(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable, o.IgnoreDeletes = true, true
	w := e.writer(e.pool(nil), o, table(t, "bag", retract, "", "a INT"))
	w.put(w.change(changelog.Insert, num(1)), w.change(changelog.UpdateBefore, num(1)), w.change(changelog.UpdateAfter, num(2)), w.change(changelog.Delete, num(2)))
	w.wantSuperseded(2)
	w.put(w.change(changelog.Delete, num(1)))
	w.wantSuperseded(1)
	wantRows(t, e.all("SELECT * FROM bag"), "(1)", "(2)")
}

// Columns that the source table does not have are left alone, whatever is written beside them: so several bridges may fill one table.
func TestUpsert_OtherColumnsStay(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text, other text DEFAULT 'd', gone boolean)")
	o := e.options()
	o.SoftDelete.Column = "gone"
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT", "v STRING"))
	w.put(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(2), str("a")))
	e.exec("UPDATE kv SET other = 'mine'")
	w.put(w.change(changelog.UpdateAfter, num(1), str("b")), w.change(changelog.Delete, num(2), null))
	w.put(w.change(changelog.UpdateAfter, num(1), changelog.UnchangedValue()), w.change(changelog.Insert, num(2), str("c")), w.change(changelog.Insert, num(3), str("c")))
	wantRows(t, e.all("SELECT * FROM kv"), "(1,b,mine,f)", "(2,c,mine,f)", "(3,c,d,f)")
}

// A marked row keeps what it holds, so a unique index over other columns is one over live rows (WHERE NOT gone). Values then pass on to another
// row in any order that the topic may have.
func TestSoftDelete_UniqueValues(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text, gone boolean NOT NULL DEFAULT false); CREATE UNIQUE INDEX ON kv (v) WHERE NOT gone")
	o := e.options()
	o.SoftDelete.Column = "gone"
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT", "v STRING"))
	w.put(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(5), str("e")))
	w.put(w.change(changelog.Delete, num(1), str("a")), w.change(changelog.Insert, num(2), str("a")))      // from a row that goes
	w.put(w.change(changelog.UpdateAfter, num(5), str("f")), w.change(changelog.Insert, num(4), str("e"))) // from a row that changes, and comes later by key
	w.put(w.change(changelog.Insert, num(6), str("x")), w.change(changelog.Delete, num(6), str("x")), w.change(changelog.Insert, num(3), str("x")))
	w.put(w.change(changelog.UpdateAfter, num(4), str("f")), w.change(changelog.UpdateAfter, num(5), str("e"))) // swapped
	wantRows(t, e.all("SELECT * FROM kv"), "(1,a,t)", "(2,a,f)", "(3,x,f)", "(4,f,f)", "(5,e,f)", "(6,x,t)")
}

// Lanes that write the same rows at the same time leave the newest of each.
func TestVersion_SideBySide(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text, n bigint, gone boolean NOT NULL DEFAULT false)")
	tb := table(t, "kv", upsert, "k", "k INT", "v STRING", "n BIGINT")
	var wg sync.WaitGroup
	const lanes, rounds, keys = 4, 8, 25
	for lane := range int32(lanes) {
		o := e.options()
		o.SoftDelete.Column, o.Version = "gone", "n"
		s, err := postgres.New(e.pool(nil), "", o)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			name := fmt.Sprint("bridge", lane)
			c, err := s.Lane(t.Context(), sink.Lane{Bridge: name, Sink: "target", Tables: []*changelog.Table{tb}})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close(context.Background())
			part := changelog.Partition{Topic: "topic", Partition: lane}
			claim, err := c.(sink.Store).Acquire(t.Context(), sink.AcquireRequest{Bridge: name, Partitions: []changelog.Partition{part}, GroupGeneration: -1})
			if err := errors.Join(err, c.Open(t.Context(), claim)); err != nil {
				t.Error(err)
				return
			}
			for i := range int64(rounds) {
				b := changelog.NewBatch(tb)
				for k := range int64(keys) {
					n := i*lanes + int64(lane)
					kind := changelog.UpdateAfter
					if n%5 == 4 {
						kind = changelog.Delete
					}
					b.Append(changelog.Change{Partition: part, Offset: i*keys + k, Kind: kind, Row: changelog.Row{num(k), str(fmt.Sprint("v", n)), num(n)}})
				}
				at := func(o int64) []changelog.Position { return []changelog.Position{{Partition: part, Offset: o}} }
				cut := sink.Cut{Generation: claim.Generation, Checkpoint: sink.CheckpointID(i + 1), From: at(i * keys), To: at(i*keys + keys)}
				if err := c.Write(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				_, err := c.Prepare(t.Context(), cut)
				if err == nil {
					err = c.(sink.Store).Save(t.Context(), claim.Generation, sink.Checkpoint{ID: cut.Checkpoint, From: cut.From, To: cut.To})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	const last = lanes*rounds - 1
	if got, want := e.one("SELECT count(*) FROM kv WHERE n = $1 AND v = 'v' || $1::bigint AND gone = ($1 % 5 = 4)", last), fmt.Sprint(keys); got != want {
		t.Errorf("%s rows are the newest, expected %s", got, want)
	}
}

// A batch that goes through only in the order of the topic has the same marks, versions and columns.
func TestShapes_ExactOrder(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v text, n bigint, gone boolean NOT NULL DEFAULT false, off bigint); CREATE UNIQUE INDEX ON kv (v) WHERE NOT gone")
	o := e.options()
	o.SoftDelete.Column, o.Version, o.Audit.Offset = "gone", "n", "off"
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT", "v STRING", "n BIGINT"))
	row := func(kind changelog.Kind, k int64, v string, n int64) changelog.Change {
		return w.change(kind, num(k), str(v), num(n))
	}
	w.put(row(changelog.Insert, 5, "e", 1), row(changelog.Insert, 6, "g", 7), row(changelog.Insert, 8, "h", 1))
	only := row(changelog.Delete, 8, "", 2)
	only.KeyOnly, only.Row[1] = true, null
	w.put(row(changelog.UpdateAfter, 5, "f", 2), row(changelog.Insert, 4, "e", 2), // by key, 4 comes before 5 has given its value up
		row(changelog.Delete, 9, "never", 3), row(changelog.Insert, 9, "late", 2), row(changelog.UpdateAfter, 6, "old", 6), only)
	w.wantSuperseded(2)
	wantRows(t, e.all("SELECT * FROM kv"), "(4,e,2,f,5)", "(5,f,2,f,4)", "(6,g,7,f,1)", "(8,h,2,t,3)", "(9,never,3,t,6)")
}

// A change that lacks a column comes in one batch behind one that the table is ahead of: what it lacks is taken from the table, and not from the older change. Likewise with parts of other columns.
func TestVersion_PartBehindOlder(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, a text, b text, ver bigint); INSERT INTO kv VALUES (1, 'newer', 'newer', 5), (2, 'newer', 'newer', 5), (3, 'newer', 'newer', 5)")
		o.Version, o.IgnoreDeletes = "ver", true
		w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "a STRING", "b STRING", "ver BIGINT"))
		old := changelog.UnchangedValue()
		w.put(w.change(changelog.UpdateAfter, num(1), str("older"), str("older"), num(4)), w.change(changelog.UpdateAfter, num(1), old, str("last"), num(6)),
			w.change(changelog.UpdateAfter, num(2), str("older"), old, num(4)), w.change(changelog.UpdateAfter, num(2), old, str("last"), num(6)),
			w.change(changelog.UpdateAfter, num(3), str("older"), str("older"), num(4)), w.change(changelog.UpdateAfter, num(3), old, str("first"), num(6)),
			w.change(changelog.UpdateAfter, num(3), old, str("last"), num(7)), w.change(changelog.UpdateAfter, num(3), str("and this"), old, num(8)),
			w.change(changelog.Insert, num(4), str("new"), str("new"), num(1)), w.change(changelog.UpdateAfter, num(4), old, str("last"), num(2)))
		wantRows(t, e.all("SELECT * FROM kv"), "(1,newer,last,6)", "(2,newer,last,6)", `(3,"and this",last,8)`, "(4,new,last,2)")
		w.wantSuperseded(4)
	})
}
