package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// view opens a view of t as the bridge of [env.writer] writes it.
func (e *env) view(o *postgres.Options, t *changelog.Table) sink.View {
	e.t.Helper()
	s, err := postgres.New(e.pool(nil), "", o)
	if err != nil {
		e.t.Fatal(err)
	}
	v, err := s.View(e.t.Context(), sink.ViewRequest{Bridge: "bridge", Sink: "target", Table: t, Keys: true})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { v.Close(context.Background()) })
	return v
}

// A table that the bridge does not write into is not compared, let alone mended: its rows would be extra.
func TestView_OtherTable(t *testing.T) {
	e := newEnv(t)
	kv := e.keyed()
	e.exec("CREATE TABLE other (k bigint PRIMARY KEY, v text); INSERT INTO other VALUES (1, 'precious')")
	w := e.writer(e.pool(nil), e.options(), kv)
	w.put(w.change(changelog.Insert, num(2), str("a")))
	for into, want := range map[string]string{"": "", "kv": "", "other": `writes into "` + e.schema + `"."kv", and not into "` + e.schema + `"."other"`,
		"nowhere": `"nowhere" does not exist: there is nothing to compare: name the table`} {
		s, err := postgres.New(e.pool(nil), into, e.options())
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.View(t.Context(), sink.ViewRequest{Bridge: "bridge", Sink: "target", Table: kv})
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", into, err)
		case want != "" && (!errors.Is(err, sink.ErrConfig) || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v", into, err)
		}
		if err == nil {
			v.Close(t.Context())
		}
	}
}

// differences compares rows, and then looks for extra ones.
func differences(t testing.TB, v sink.View, rows ...changelog.Change) (found string, ds []sink.Difference) {
	t.Helper()
	ds, err := v.Compare(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Extra(t.Context(), sink.ViewPass{Last: true}, func(more []sink.Difference) error {
		ds = append(ds, more...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, d := range ds {
		if d.Kind == sink.Extra {
			all = append(all, "extra "+d.Key)
		} else {
			all = append(all, fmt.Sprintf("%s@%d", d.Kind, d.Change.Offset))
		}
	}
	return strings.Join(all, ", "), ds
}

// The rows of keys of every type are found again, also where the table's type prints, pads or scales them in another way.
func TestView_KeysOfAllTypes(t *testing.T) {
	decimal := func(text string) changelog.Value {
		v, err := changelog.ParseDecimal([]byte(text), 10, 2)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, k := range []struct {
		source, column string
		values         []changelog.Value
	}{
		{"BOOLEAN", "boolean", []changelog.Value{changelog.BoolValue(true), changelog.BoolValue(false)}},
		{"SMALLINT", "smallint", []changelog.Value{num(-1), num(32767)}},
		{"BIGINT", "bigint", []changelog.Value{num(math.MinInt64), num(math.MaxInt64)}},
		{"BIGINT", "numeric(25,3)", []changelog.Value{num(math.MinInt64), num(100)}},
		{"INT", "text", []changelog.Value{num(-7), num(7)}},
		{"DECIMAL(10, 2)", "numeric", []changelog.Value{decimal("1.00"), decimal("-0.50"), decimal("0.00")}},
		{"DECIMAL(10, 2)", "numeric(20,6)", []changelog.Value{decimal("1.00"), decimal("12345678.90")}},
		{"DOUBLE", "double precision", []changelog.Value{changelog.DoubleValue(math.NaN()), changelog.DoubleValue(math.Copysign(0, -1)), changelog.DoubleValue(math.Inf(1))}},
		{"STRING", "text", []changelog.Value{str(""), str("a, \"b\" \\ 'c'"), str("ü")}},
		{"STRING", "varchar(10)", []changelog.Value{str("a"), str("a ")}},
		{"STRING", "uuid", []changelog.Value{str("6f9619ff-8b86-d011-b42d-00c04fc964ff"), str("00000000-0000-0000-0000-000000000000")}},
		{"STRING", "mood", []changelog.Value{str("sad"), str("happy")}},
		{"BYTES", "bytea", []changelog.Value{changelog.BytesValue(nil), changelog.BytesValue([]byte{0, 255})}},
		{"DATE", "date", []changelog.Value{changelog.DateValue(0), changelog.DateValue(-800000)}},
		{"TIMESTAMP(6)", "timestamp", []changelog.Value{changelog.TimestampValue(-1, 999999000), changelog.TimestampValue(1709210096, 123456000)}},
		{"TIMESTAMP_LTZ(3)", "timestamptz", []changelog.Value{changelog.TimestampLTZValue(0, 0), changelog.TimestampLTZValue(1709210096, 123000000)}},
	} {
		t.Run(k.source+" "+k.column, func(t *testing.T) {
			e := newEnv(t)
			e.exec("CREATE TYPE mood AS ENUM ('sad', 'happy')")
			e.exec("CREATE TABLE kv (k " + k.column + " PRIMARY KEY, v text)")
			tb := table(t, "kv", upsert, "k", "k "+k.source, "v STRING")
			w := e.writer(e.pool(nil), e.options(), tb)
			var rows []changelog.Change
			for _, v := range k.values {
				rows = append(rows, w.change(changelog.Insert, v, str("v")))
			}
			w.put(rows...)
			if got, _ := differences(t, e.view(e.options(), tb), rows...); got != "" {
				t.Errorf("of an intact table: %s", got)
			}
			if got, _ := differences(t, e.view(e.options(), tb), rows[1:]...); !strings.HasPrefix(got, "extra (") || strings.Contains(got, ", extra") {
				t.Errorf("of one row that is not expected: %s", got)
			}
			e.exec("UPDATE kv SET v = 'other'")
			v := e.view(e.options(), tb)
			_, ds := differences(t, v, rows...)
			m, err := v.Mend(t.Context(), ds)
			if want := (sink.Mended{Written: int64(len(rows))}); err != nil || m != want {
				t.Errorf("mended %+v, expected %+v (%v)", m, want, err)
			}
			if got, _ := differences(t, e.view(e.options(), tb), rows...); got != "" {
				t.Errorf("after the repair: %s", got)
			}
		})
	}
}

// Columns that the source did not send are not compared, and not written; a row that lacks them cannot be made.
func TestView_UnsentColumns(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text, w text)")
	tb := table(t, "kv", upsert, "k", "k BIGINT", "v STRING", "w STRING")
	w := e.writer(e.pool(nil), e.options(), tb)
	w.put(w.change(changelog.Insert, num(1), str("old"), str("kept")), w.change(changelog.Insert, num(2), str("old"), str("kept")), w.change(changelog.Insert, num(3), str("old"), str("kept")))
	last := []changelog.Change{
		w.change(changelog.UpdateAfter, num(1), str("new"), changelog.UnchangedValue()),
		w.change(changelog.UpdateAfter, num(2), changelog.UnchangedValue(), str("new")),
		w.change(changelog.UpdateAfter, num(3), changelog.UnchangedValue(), changelog.UnchangedValue()),
	}
	w.put(last...)
	e.exec("UPDATE kv SET w = 'nobody knows' WHERE k = 1")
	if got, _ := differences(t, e.view(e.options(), tb), last...); got != "" {
		t.Errorf("what was sent is there, and yet: %s", got)
	}
	e.exec("UPDATE kv SET w = 'wrong' WHERE k = 2")
	e.exec("DELETE FROM kv WHERE k = 3")
	v := e.view(e.options(), tb)
	got, ds := differences(t, v, last...)
	if got != "stale@4, missing@5" && got != "missing@5, stale@4" {
		t.Errorf("found %s", got)
	}
	m, err := v.Mend(t.Context(), ds)
	if want := (sink.Mended{Written: 1, Refused: 1}); err != nil || m != want {
		t.Errorf("mended %+v, expected %+v (%v)", m, want, err)
	}
	if got := fmt.Sprint(e.all("SELECT * FROM kv")); got != `[(1,new,"nobody knows") (2,old,new)]` {
		t.Errorf("the table is %s", got)
	}
}

// With a version column the table may be ahead of the topic, by another bridge.
func TestView_Version(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text, n bigint)")
	tb := table(t, "kv", "[I,UA]", "k", "k BIGINT", "v STRING", "n BIGINT")
	o := e.options()
	o.Version = "n"
	w := e.writer(e.pool(nil), o, tb)
	rows := []changelog.Change{w.change(changelog.Insert, num(1), str("a"), num(10)), w.change(changelog.Insert, num(2), str("a"), num(10)), w.change(changelog.Insert, num(3), str("a"), num(10))}
	w.put(rows...)
	e.exec("UPDATE kv SET v = 'newer', n = 11 WHERE k = 1")
	e.exec("UPDATE kv SET v = 'older', n = 9 WHERE k = 2")
	e.exec("UPDATE kv SET v = 'as old' WHERE k = 3")
	v := e.view(o, tb)
	if v.Rules().NoExtra == "" {
		t.Error("rows of other bridges would be extra")
	}
	ds, err := v.Compare(t.Context(), rows)
	if err != nil || len(ds) != 2 {
		t.Fatalf("%d differ, %v", len(ds), err)
	}
	if m, err := v.Mend(t.Context(), ds); err != nil || m.Written != 2 {
		t.Errorf("mended %+v, %v", m, err)
	}
	if got := fmt.Sprint(e.all("SELECT * FROM kv")); got != "[(1,newer,11) (2,a,10) (3,a,10)]" {
		t.Errorf("the table is %s", got)
	}
}

// Rows that topics send to tables of their own are looked for there.
func TestView_SeveralTables(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE a (k bigint PRIMARY KEY, v text); CREATE TABLE b (k bigint PRIMARY KEY, v text)")
	tb := table(t, "kv", upsert, "k", "k BIGINT", "v STRING")
	o := e.options()
	o.Topics = map[string]string{"topic": "a", "other": "b"}
	w := e.writer(e.pool(nil), o, tb)
	rows := []changelog.Change{w.change(changelog.Insert, num(1), str("in a")), w.change(changelog.Insert, num(1), str("in b"))}
	rows[1].Topic = "other"
	w.put(rows...)
	v := e.view(o, tb)
	if x, y := v.AppendKey(nil, &rows[0]), v.AppendKey(nil, &rows[1]); string(x) == string(y) {
		t.Error("one key for rows of two tables")
	}
	if got, _ := differences(t, v, rows...); got != "" {
		t.Errorf("of intact tables: %s", got)
	}
	e.exec("UPDATE b SET v = 'wrong'; INSERT INTO a VALUES (2)")
	v = e.view(o, tb)
	got, ds := differences(t, v, rows...)
	if got != "stale@1, extra (2)" {
		t.Errorf("found %s", got)
	}
	if m, err := v.Mend(t.Context(), ds); err != nil || m != (sink.Mended{Written: 1, Deleted: 1}) {
		t.Errorf("mended %+v, %v", m, err)
	}
	if got := fmt.Sprint(e.all("SELECT * FROM a"), e.all("SELECT * FROM b")); got != `["(1,\"in a\")"] ["(1,\"in b\")"]` && got != `[(1,"in a")] [(1,"in b")]` {
		t.Errorf("the tables are %s", got)
	}
}

// A checkpoint that is decided and not yet visible does not count: the positions before it do. Nor is anything mended before it is there.
func TestView_DecidedAndNotCommitted(t *testing.T) {
	for _, m := range []postgres.Mode{postgres.Prepared, postgres.Staged} {
		t.Run(m.String(), func(t *testing.T) {
			e := newEnv(t)
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text)")
			tb := table(t, "kv", upsert, "k", "k BIGINT", "v STRING")
			o := e.mode(m)
			w := e.writer(e.pool(nil), o, tb)
			first := w.change(changelog.Insert, num(1), str("a"))
			w.put(first)
			second := w.change(changelog.Insert, num(2), str("a"))
			for _, step := range []func() error{func() error { return w.write(second) }, w.prepare, w.save} {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			e.exec("INSERT INTO kv VALUES (9)")
			v := e.view(o, tb)
			if at, exact := v.Cut(); !exact || len(at) != 1 || at[0].Offset != 1 {
				t.Errorf("positions %v", at)
			}
			got, ds := differences(t, v, first)
			if got != "extra (9)" {
				t.Errorf("found %s", got)
			}
			if _, err := v.Mend(t.Context(), ds); sink.ClassOf(err) != sink.ErrTransient {
				t.Errorf("a repair before the commit: %v", err)
			}
			if err := w.c.Commit(t.Context(), w.receipt); err != nil {
				t.Fatal(err)
			}
			v = e.view(o, tb)
			if at, _ := v.Cut(); at[0].Offset != 2 {
				t.Errorf("after the commit: positions %v", at)
			}
			if _, ds = differences(t, v, first, second); len(ds) != 1 {
				t.Errorf("after the commit %d differ", len(ds))
			}
			if m, err := v.Mend(t.Context(), ds); err != nil || m.Deleted != 1 {
				t.Errorf("mended %+v, %v", m, err)
			}
		})
	}
}

// A repair ends what the bridge has under way: a change that is written and not committed would not see what is mended, and could put something older on top of
// it, or delete a row that is not there yet. And if the bridge went on, nothing is mended.
func TestView_MendIsFenced(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text)")
	tb := table(t, "kv", upsert, "k", "k BIGINT", "v STRING")
	w := e.writer(e.pool(nil), e.options(), tb)
	first := w.change(changelog.Insert, num(1), str("a"))
	w.put(first)
	e.exec("DELETE FROM kv")

	v := e.view(e.options(), tb)
	_, ds := differences(t, v, first)
	if err := w.write(w.change(changelog.Delete, num(1), str("a"))); err != nil { // deletes nothing, and waits for its COMMIT
		t.Fatal(err)
	}
	if m, err := v.Mend(t.Context(), ds); err != nil || m.Written != 1 {
		t.Fatalf("mended %+v, %v", m, err)
	}
	err := w.prepare()
	if err == nil {
		err = w.save()
	}
	if err == nil {
		t.Fatal("a checkpoint that was under way during the repair was saved")
	}
	if got := e.all("SELECT * FROM kv"); len(got) != 1 {
		t.Errorf("the table is %s", got)
	}
	if err := w.c.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.acquire()
	v = e.view(e.options(), tb)
	e.exec("INSERT INTO kv VALUES (7)")
	v2 := e.view(e.options(), tb)
	if got, _ := differences(t, v, first); got != "" {
		t.Errorf("a view sees what came after it: %s", got)
	}
	_, ds = differences(t, v2, first)
	w.put(w.change(changelog.Delete, num(1), str("a")))
	_, err = v2.Mend(t.Context(), ds)
	var se *sink.Error
	if !errors.As(err, &se) || se.Class != sink.ErrTransient || !strings.Contains(err.Error(), "stop the bridge") {
		t.Errorf("a repair after the bridge went on: %v", err)
	}
	if got := fmt.Sprint(e.all("SELECT k FROM kv")); got != "[(7)]" {
		t.Errorf("the table is %s", got)
	}
}

// A row that the table refuses, since another that is not touched has what must be unique, is counted, and its neighbours are mended.
func TestView_MendRefused(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'never') UNIQUE)")
	tb := table(t, "kv", upsert, "k", "k BIGINT", "v STRING")
	w := e.writer(e.pool(nil), e.options(), tb)
	var rows []changelog.Change
	for k := range 20 {
		rows = append(rows, w.change(changelog.Insert, num(int64(k)), str(fmt.Sprint("v", k))))
	}
	w.put(rows...)
	e.exec("DELETE FROM kv WHERE k < 10")
	e.exec("INSERT INTO kv VALUES (100, 'v3')") // is extra, and has what 3 needs
	rows[5].Row[1] = str("never")
	v := e.view(e.options(), tb)
	_, ds := differences(t, v, rows...)
	m, err := v.Mend(t.Context(), ds)
	if want := (sink.Mended{Written: 9, Deleted: 1, Refused: 1}); err != nil || m != want {
		t.Errorf("mended %+v, %v", m, err)
	}
	if got, _ := differences(t, e.view(e.options(), tb), rows...); got != "missing@5" {
		t.Errorf("after the repair: %s", got)
	}
}
