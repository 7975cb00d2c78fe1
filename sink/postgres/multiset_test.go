package postgres_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

const retract = "[I,UB,UA,D]"

// bag starts a lane into a table without a key, from which rows can be taken away.
func (e *env) bag(columns string, source ...string) *writer {
	e.t.Helper()
	e.exec("CREATE TABLE bag (" + columns + ")")
	return e.writer(e.pool(nil), e.options(), table(e.t, "bag", retract, "", source...))
}

// Each delete takes one equal row, NULLs being equal, and no other.
func TestWrite_Multiset(t *testing.T) {
	e := newEnv(t)
	w := e.bag("a int, b text, c numeric(10,2), d bytea, f double precision", "a INT", "b STRING", "c DECIMAL(10, 2)", "d BYTES", "f DOUBLE")
	row := func(kind changelog.Kind, a, b changelog.Value) changelog.Change {
		return w.change(kind, a, b, null, null, changelog.DoubleValue(1.5))
	}
	w.put(row(changelog.Insert, num(1), str("a")), row(changelog.Insert, num(1), str("a")), row(changelog.Insert, num(1), str("a")),
		row(changelog.Insert, null, str("a")), row(changelog.Insert, null, null), row(changelog.Insert, null, null), row(changelog.Insert, num(1), str("A")))
	w.put(row(changelog.Delete, num(1), str("a")), row(changelog.UpdateBefore, num(1), str("a")), row(changelog.UpdateAfter, num(2), str("a")),
		row(changelog.Delete, null, null), row(changelog.Insert, num(3), str("x")), row(changelog.Delete, num(3), str("x")))
	if got, want := e.all("SELECT a, b FROM bag"), []string{"(,)", "(,a)", "(1,A)", "(1,a)", "(2,a)"}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	// Two of the like where there is one: one is taken, and both are undone, since the other is not there.
	err := w.write(row(changelog.Delete, num(2), str("a")), row(changelog.Delete, num(2), str("a")))
	wantBlamed(t, err, fmt.Sprint(w.at-1))
	if !strings.Contains(err.Error(), "no equal row") {
		t.Error(err)
	}
	if got := e.one("SELECT count(*) FROM bag"); got != "5" {
		t.Errorf("%s rows after a refusal", got)
	}
}

// Refusals of the server are told apart in such a table too.
func TestWrite_MultisetBlamed(t *testing.T) {
	e := newEnv(t)
	w := e.bag("a int CHECK (a <> 13), b text", "a INT", "b STRING")
	w.put(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(2), str("a")))
	e.exec(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.a = 2 THEN RAISE EXCEPTION 'no'; END IF; RETURN OLD; END $$;
		CREATE TRIGGER no BEFORE DELETE ON bag FOR EACH ROW EXECUTE FUNCTION no()`)
	err := w.write(w.change(changelog.Delete, num(1), str("a")), w.change(changelog.Delete, num(2), str("a")), w.change(changelog.Delete, num(7), str("a")),
		w.change(changelog.Insert, num(3), str("a")), w.change(changelog.Insert, num(13), str("a")))
	wantBlamed(t, err, "3, 4, 6")
}

// Types whose texts or digits differ between what is sent and what is stored are found again.
func TestWrite_MultisetTypes(t *testing.T) {
	e := newEnv(t)
	columns := []struct {
		pg, flink string
		value     changelog.Value
	}{
		{"varchar(9)", "STRING", str("x")}, {`text COLLATE "C" NOT NULL`, "STRING", str("ß")}, {"text NOT NULL", "STRING", str("y")}, {"char(5)", "STRING", str("z")}, {"uuid", "STRING", str("6F9619FF-8B86-D011-B42D-00C04FC964FF")},
		{"numeric", "DECIMAL(10, 3)", changelog.DecimalValue(0, 1500, 3)}, {"bigint NOT NULL", "INT", num(4)}, {"real", "FLOAT", changelog.FloatValue(0.1)},
		{"double precision", "FLOAT", changelog.FloatValue(0.1)}, {"timestamp(3)", "TIMESTAMP(3)", stamp(2024, 2, 29, 1, 500000000)}, {"date", "DATE", date(2024, 2, 29)},
		{"jsonb", "MAP<STRING, INT>", mapOf(str("k"), num(1))}, {"int[]", "ARRAY<INT>", array(num(1), null)}, {"text[]", "ARRAY<STRING>", array(str("a,b"), str(`"`))},
		{"mood", "STRING", str("sad")}, {"positive", "STRING", str("12")}, {"boolean", "BOOLEAN", changelog.BoolValue(true)}, {"bytea", "BYTES", changelog.BytesValue([]byte{0, 255})},
	}
	e.exec(`CREATE TYPE mood AS ENUM ('sad'); CREATE DOMAIN positive AS varchar(20) CHECK (value ~ '^[0-9]+$')`)
	var ddl, source []string
	var row, other changelog.Row
	for i, c := range columns {
		ddl = append(ddl, fmt.Sprintf("c%d %s", i, c.pg))
		source = append(source, fmt.Sprintf("c%d %s", i, c.flink))
		row, other = append(row, c.value), append(other, c.value)
	}
	other[0] = null
	w := e.bag(strings.Join(ddl, ", "), source...)
	w.put(w.change(changelog.Insert, row...), w.change(changelog.Insert, other...), w.change(changelog.Insert, row...))
	w.put(w.change(changelog.Delete, row...))
	w.put(w.change(changelog.Delete, other...))
	if got := e.one("SELECT count(*) || ' ' || min(c0) FROM bag"); got != "1 x" {
		t.Errorf("%s", got)
	}
}

// 0 and -0 are one value, also where their text is stored.
func TestWrite_MultisetZeros(t *testing.T) {
	e := newEnv(t)
	w := e.bag("a double precision, b text", "a DOUBLE", "b DOUBLE")
	zero, minus := changelog.DoubleValue(0), changelog.DoubleValue(math.Copysign(0, -1))
	w.put(w.change(changelog.Insert, zero, minus), w.change(changelog.Insert, minus, zero))
	w.put(w.change(changelog.Delete, minus, minus), w.change(changelog.Delete, zero, zero))
	if got := e.one("SELECT count(*) FROM bag"); got != "0" {
		t.Errorf("%s rows are left", got)
	}
}

// Rows are found in every partition of a partitioned table, by the place that they have there.
func TestWrite_MultisetPartitioned(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE bag (a int, b text) PARTITION BY LIST (a); CREATE TABLE bag1 PARTITION OF bag FOR VALUES IN (1); CREATE TABLE bag2 PARTITION OF bag DEFAULT")
	w := e.writer(e.pool(nil), e.options(), table(t, "bag", retract, "", "a INT", "b STRING"))
	for a := range int64(3) {
		w.put(w.change(changelog.Insert, num(a), str("x")), w.change(changelog.Insert, num(a), str("x")))
	}
	w.put(w.change(changelog.Delete, num(1), str("x")), w.change(changelog.Delete, num(2), str("x")))
	if got, want := e.all("SELECT a FROM bag"), []string{"(0)", "(0)", "(1)", "(2)"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// What the table cannot compare, or compares loosely, is refused at the start, and so is a stream that does not tell the old row.
func TestCheck_Multiset(t *testing.T) {
	for _, tc := range []struct{ ddl, flink, mode, want string }{
		{"CREATE TABLE bag (a json)", "a STRING", retract, "make the column jsonb or text"},
		{"CREATE TABLE bag (a json)", "a MAP<STRING, INT>", retract, "make the column jsonb or text"},
		{"CREATE COLLATION IF NOT EXISTS loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE TABLE bag (a text COLLATE loose)", "a STRING", retract, "takes different texts for equal"},
		{"CREATE TABLE bag (a text)", "a STRING", upsert, "do not tell the old row"},
		{"CREATE TABLE bag (a text)", "a STRING", "[I,UA,UB]", "do not tell the old row"},
	} {
		e := newEnv(t)
		e.exec(tc.ddl)
		_, err := e.lane(e.pool(nil), "", e.options(), table(t, "bag", tc.mode, "", tc.flink))
		wantConfig(t, err, tc.want)
	}
	e := newEnv(t)
	role := e.schema + "_role"
	e.exec("CREATE TABLE bag (a text); CREATE ROLE " + role + " LOGIN; GRANT USAGE, CREATE ON SCHEMA " + e.schema + " TO " + role + "; GRANT INSERT ON bag TO " + role)
	e.exec("CREATE SCHEMA " + e.own + " AUTHORIZATION " + role)
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	_, err := e.lane(e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role }), "", e.options(), table(t, "bag", retract, "", "a STRING"))
	wantConfig(t, err, "GRANT DELETE, SELECT ON")
}

// A trigger that keeps the server from taking a row is not waited for without end.
func TestWrite_MultisetSuppressed(t *testing.T) {
	e := newEnv(t)
	w := e.bag("a int", "a INT")
	w.put(w.change(changelog.Insert, num(1)))
	e.exec(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; CREATE TRIGGER keep BEFORE DELETE ON bag FOR EACH ROW EXECUTE FUNCTION keep()`)
	if err := w.write(w.change(changelog.Delete, num(1))); sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "BEFORE DELETE trigger") {
		t.Errorf("%v", err)
	}
}

// Lanes that take equal rows at the same moment take as many as they were told to.
func TestWrite_MultisetSideBySide(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE bag (a int); INSERT INTO bag SELECT 1 FROM generate_series(1, 400)")
	tb := table(t, "bag", retract, "", "a INT")
	var wg sync.WaitGroup
	for n := range int32(4) {
		p := e.pool(nil)
		wg.Go(func() {
			s, err := postgres.New(p, "", e.options())
			if err != nil {
				t.Error(err)
				return
			}
			c, err := s.Lane(t.Context(), sink.Lane{Bridge: fmt.Sprint("bridge", n), Sink: "target", Tables: []*changelog.Table{tb}})
			if err != nil {
				t.Error(err)
				return
			}
			part := changelog.Partition{Topic: "topic", Partition: n}
			claim, err := c.(sink.Store).Acquire(t.Context(), sink.AcquireRequest{Bridge: fmt.Sprint("bridge", n), Partitions: []changelog.Partition{part}, GroupGeneration: -1})
			if err := errors.Join(err, c.Open(t.Context(), claim)); err != nil {
				t.Error(err)
				return
			}
			for i := range int64(5) {
				b := changelog.NewBatch(tb)
				for k := range int64(20) {
					b.Append(changelog.Change{Partition: part, Offset: i*20 + k, Kind: changelog.Delete, Row: changelog.Row{num(1)}})
				}
				at := func(o int64) []changelog.Position { return []changelog.Position{{Partition: part, Offset: o}} }
				if err := c.Write(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
				_, err := c.Prepare(t.Context(), sink.Cut{Generation: claim.Generation, Checkpoint: sink.CheckpointID(i + 1), From: at(i * 20), To: at(i*20 + 20)})
				if err == nil {
					err = c.(sink.Store).Save(t.Context(), claim.Generation, sink.Checkpoint{ID: sink.CheckpointID(i + 1), From: at(i * 20), To: at(i*20 + 20)})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := e.one("SELECT count(*) FROM bag"); got != "0" {
		t.Errorf("%s rows are left of 400, of which 400 were taken", got)
	}
}

// Every captured topic of a retract encoding that Flink wrote from a query without a key: in checkpoints of every size, the table is what Flink had.
func TestCaptured_Multiset(t *testing.T) {
	folders, err := filepath.Glob("../../testdata/flink/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, dir := range folders {
		name := filepath.Base(dir)
		if encoding, query, _ := strings.Cut(name, "_"); !slices.Contains([]string{"debezium", "canal", "maxwell", "ogg"}, encoding) || !slices.Contains([]string{"groupby", "join", "topn"}, query) {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, "ddl.sql"))
			if err != nil {
				t.Fatal(err)
			}
			tab, err := ddl.Find(string(text), "")
			if err != nil {
				t.Fatal(err)
			}
			d, err := format.New(tab, all.Formats(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var records []*changelog.Record
			for _, line := range jsonLines(t, filepath.Join(dir, "topic.jsonl")) {
				var m struct {
					Partition int32
					Offset    int64
					Value     *string
				}
				if err := json.Unmarshal(line, &m); err != nil {
					t.Fatal(err)
				}
				r := &changelog.Record{Partition: part0, Offset: m.Offset}
				if m.Value != nil {
					if r.Value, err = base64.StdEncoding.DecodeString(*m.Value); err != nil {
						t.Fatal(err)
					}
				}
				records = append(records, r)
			}
			var want []string
			for _, line := range jsonLines(t, filepath.Join(dir, "final.jsonl")) {
				var m struct{ Row map[string]any }
				if err := json.Unmarshal(line, &m); err != nil {
					t.Fatal(err)
				}
				want = append(want, fmt.Sprint(m.Row))
			}
			slices.Sort(want)
			for _, size := range []int{1, 2, 7, len(records)} {
				e := newEnv(t)
				o := e.options()
				o.CreateTable = true
				w := e.writer(e.pool(nil), o, d.Table())
				for from := 0; from < len(records); from += size {
					b := changelog.NewBatch(d.Table())
					for _, r := range records[from:min(from+size, len(records))] {
						if err := d.Decode(b, r); err != nil {
							t.Fatal(err)
						}
						w.at = r.Offset + 1
					}
					if err := w.c.Write(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					w.finish()
				}
				var pairs []string
				for _, c := range d.Table().Schema.Columns {
					pairs = append(pairs, fmt.Sprintf("'%s', CASE WHEN pg_typeof(%[1]s) = 'boolean'::regtype THEN upper(%[1]s::text) ELSE %[1]s::text END", c.Name))
				}
				var got []string
				for _, line := range e.all("SELECT json_build_object(" + strings.Join(pairs, ", ") + ")::text AS r FROM " + d.Table().Name) {
					var m map[string]any
					if err := json.Unmarshal([]byte(strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(line, `("`), `")`), `""`, `"`)), &m); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
					got = append(got, fmt.Sprint(m))
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("checkpoints of %d messages: the table is\n%s\nand Flink had\n%s", size, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
	if seen < 12 {
		t.Errorf("%d topics were found", seen)
	}
}

func jsonLines(t *testing.T, path string) (out [][]byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, []byte(line))
		}
	}
	return out
}
