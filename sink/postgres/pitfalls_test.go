package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file holds what statements, tables and indexes have done to other sinks.

// A stream with the key a goes into a table that is unique over b only: between two of its rows b can move in any order, so a delete of one
// would take the other's row. It is refused, with and without an index over both (P03).
func TestCheck_AnotherKeyThanTheStreams(t *testing.T) {
	for _, ddl := range []string{
		"CREATE TABLE kv (a bigint, b text PRIMARY KEY)",
		"CREATE TABLE kv (a bigint, b text UNIQUE, UNIQUE (a, b))",
	} {
		e := newEnv(t)
		e.exec(ddl)
		_, err := e.lane(e.pool(nil), "", e.options(), table(t, "kv", "[I,UB,UA,D]", "a", "a BIGINT NOT NULL", "b STRING NOT NULL"))
		wantConfig(t, err, "no unique index over exactly the key", `("a")`)
	}
}

// A table whose columns are all in its key takes the same row twice, in one checkpoint and in the next, and can lose it again (P35).
func TestWrite_AllColumnsInTheKey(t *testing.T) {
	for _, columns := range [][]string{{"id INT NOT NULL"}, {"id INT NOT NULL", "part STRING NOT NULL"}} {
		e := newEnv(t)
		o := e.options()
		o.CreateTable = true
		row := []changelog.Value{num(1), str("x")}[:len(columns)]
		w := e.writer(e.pool(nil), o, table(t, "all_key", upsert, strings.Join([]string{"id", "part"}[:len(columns)], " "), columns...))
		for range 2 {
			w.put(w.change(changelog.UpdateAfter, row...), w.change(changelog.UpdateAfter, row...))
			if got := e.one("SELECT count(*) FROM all_key"); got != "1" {
				t.Errorf("%s rows", got)
			}
		}
		w.put(w.change(changelog.Delete, row...))
		if got := e.one("SELECT count(*) FROM all_key"); got != "0" {
			t.Errorf("%s rows after the delete", got)
		}
	}
}

// The index over the key goes away under a running lane: said as at the start, with the columns, and not tried again (P36).
func TestWrite_IndexDropped(t *testing.T) {
	for _, instead := range []string{"", "; CREATE UNIQUE INDEX part ON kv (k) WHERE v <> ''"} {
		e := newEnv(t)
		tb := e.keyed()
		w := e.writer(e.pool(nil), e.options(), tb)
		w.put(w.history(3)...)
		e.exec("ALTER TABLE kv DROP CONSTRAINT kv_pkey" + instead)
		err := w.writeTo(10)
		wantConfig(t, err, "no unique index over exactly the key", `("k")`, "CREATE UNIQUE INDEX")
		if instead != "" {
			wantConfig(t, err, `"part" is partial`)
		}
		w.c.Discard(t.Context())
		wantConfig(t, w.tryAcquire(), "no unique index over exactly the key")
		e.agrees("after the refusal")
	}
}

// A column is added under a running lane that no row can be without: that is no fault of the changes, which a data policy would set aside one by
// one (a neighbour of P36 and P50).
func TestWrite_ColumnAddedNotNull(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	w := e.writer(e.pool(nil), e.options(), tb)
	w.put(w.history(3)...)
	e.exec("ALTER TABLE kv ADD COLUMN w int; UPDATE kv SET w = 1; ALTER TABLE kv ALTER w SET NOT NULL")
	wantConfig(t, w.writeTo(10), `column "w" is NOT NULL, has no default and no source column`)
	w.c.Discard(t.Context())
	e.exec("ALTER TABLE kv DROP COLUMN w; ALTER TABLE kv ALTER v SET NOT NULL")
	w.acquire()
	// One that a change is without is, and the change is named.
	bad := w.at
	err := w.write(w.change(changelog.UpdateAfter, num(5), null), w.change(changelog.UpdateAfter, num(6), str("x")))
	var se *sink.Error
	if !errors.As(err, &se) || se.Class != sink.ErrRejected || se.Position == nil || se.Position.Offset != bad || !strings.Contains(err.Error(), `column "v"`) {
		t.Errorf("NULL in a column that became NOT NULL: %v", err)
	}
}

// Triggers and rules make the server report that no row was affected. Row counts prove nothing: rows and positions go together, and what is
// below the saved position is not written again (P40).
func TestWrite_NoRowAffected(t *testing.T) {
	redirect := `CREATE TABLE moved (id bigint, v text);
		CREATE FUNCTION move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO moved VALUES (NEW.*); RETURN NULL; END $$;
		CREATE TRIGGER move BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION move()`
	rule := "CREATE TABLE moved (id bigint, v text); CREATE RULE move AS ON INSERT TO log DO INSTEAD INSERT INTO moved VALUES (NEW.*)"
	for name, tc := range map[string]struct{ ddl, mode, key, more string }{
		"trigger, append": {"CREATE TABLE log (id bigint, v text)", appnd, "", redirect},
		"rule, append":    {"CREATE TABLE log (id bigint, v text)", appnd, "", rule},
		"trigger, upsert": {"CREATE TABLE log (id bigint PRIMARY KEY, v text)", upsert, "id", redirect},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.exec(tc.ddl + ";" + tc.more)
			tb := table(t, "log", tc.mode, tc.key, "id BIGINT", "v STRING")
			if tc.key != "" {
				tb.Schema.Columns[0].Type.NotNull = true
			}
			w := e.writer(e.pool(nil), e.options(), tb)
			w.put(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(2), str("b")))
			if got := e.one("SELECT next_offset FROM " + e.own + ".position"); got != "2" {
				t.Errorf("position %s", got)
			}
			// A reader that goes back by itself is refused, rows and all, and is told why.
			w.at, w.from = 0, 0
			err := errors.Join(w.write(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(2), str("b"))), w.prepare(), w.save())
			if sink.ClassOf(err) != sink.ErrFenced || !strings.Contains(err.Error(), "the stored position of topic/0 is 2") {
				t.Errorf("Save of offsets that are saved: %v", err)
			}
			w.c.Discard(t.Context())
			w.acquire()
			w.put(w.change(changelog.Insert, num(3), str("c")))
			if got, want := e.all("SELECT * FROM moved"), []string{"(1,a)", "(2,b)", "(3,c)"}; !slices.Equal(got, want) {
				t.Errorf("%v", got)
			}
		})
	}
}

// One batch with (1,1), (2,2), (1,3): the net effect comes first, so no statement has one key twice, which the server would refuse with
// 21000 (P45). The neighbours: keys that differ as bytes and are equal as typed values.
func TestWrite_KeyTwiceInABatch(t *testing.T) {
	for name, tc := range map[string]struct {
		flink, pg string
		a, b      changelog.Value // one key
	}{
		"BIGINT":                     {"BIGINT", "bigint", num(1), num(1)},
		"BIGINT as text":             {"BIGINT", "text", num(1), num(1)},
		"DOUBLE -0":                  {"DOUBLE", "double precision", changelog.DoubleValue(0), changelog.DoubleValue(math.Copysign(0, -1))},
		"DECIMAL of two scales":      {"DECIMAL(10, 2)", "numeric", dec("1.5", 10, 1), dec("1.50", 10, 2)},
		"STRING":                     {"STRING", "text", str("ä"), str("ä")},
		"TIMESTAMP_LTZ, one instant": {"TIMESTAMP_LTZ(3)", "timestamptz", instant(2024, 1, 1, 0, 0), instant(2024, 1, 1, 0, 0)},
		"DOUBLE -0 as text":          {"DOUBLE", "text", changelog.DoubleValue(0), changelog.DoubleValue(math.Copysign(0, -1))},
		"FLOAT -0 as text":           {"FLOAT", "varchar(9)", changelog.FloatValue(0), changelog.FloatValue(float32(math.Copysign(0, -1)))},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.exec("CREATE TABLE kv (pk " + tc.pg + " PRIMARY KEY, v int)")
			p := e.pool(nil)
			w := e.writer(p, e.options(), table(t, "kv", upsert, "pk", "pk "+tc.flink+" NOT NULL", "v INT"))
			w.put(w.change(changelog.Insert, tc.a, num(1)), w.change(changelog.UpdateAfter, tc.b, num(3)))
			if got := e.one("SELECT count(*) || ' ' || max(v) FROM kv"); got != "1 3" {
				t.Errorf("%s", got)
			}
			w.put(w.change(changelog.UpdateAfter, tc.a, num(4)))
			if got := e.one("SELECT count(*) || ' ' || max(v) FROM kv"); got != "1 4" {
				t.Errorf("%s after an update by the other spelling", got)
			}
			w.put(w.change(changelog.Delete, tc.b, null))
			if got := e.one("SELECT count(*) FROM kv"); got != "0" {
				t.Errorf("%s rows after a delete by the other spelling", got)
			}
		})
	}
	e := newEnv(t)
	e.exec("CREATE TABLE kv (pk int PRIMARY KEY, value int)")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "pk", "pk INT NOT NULL", "value INT"))
	w.put(w.change(changelog.Insert, num(1), num(1)), w.change(changelog.Insert, num(2), num(2)), w.change(changelog.Insert, num(1), num(3)))
	if got, want := e.all("SELECT * FROM kv"), []string{"(1,3)", "(2,2)"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// More values in one batch than a statement has parameters, 65,535, at the edge and beyond it, whatever the protocol (P46).
func TestWrite_ParametersAtTheEdge(t *testing.T) {
	shapes := []struct{ columns, rows int }{{12, 5461}, {12, 5462}, {1, 65535}, {1, 65536}, {1600, 40}, {1600, 41}}
	for i, mode := range []string{"cache_statement", "simple_protocol"} {
		m, err := pgxpool.ParseConfig("default_query_exec_mode=" + mode)
		if err != nil {
			t.Fatal(err)
		}
		for _, shape := range shapes[:len(shapes)-4*i] {
			t.Run(fmt.Sprintf("%s %d columns %d rows", mode, shape.columns, shape.rows), func(t *testing.T) {
				e := newEnv(t)
				columns := []string{"k INT NOT NULL"}
				for i := 1; i < shape.columns; i++ {
					columns = append(columns, fmt.Sprintf("c%d TINYINT", i)) // 1,600 columns of eight bytes are more than a page
				}
				o := e.options()
				o.CreateTable = true
				p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m.ConnConfig.DefaultQueryExecMode })
				w := e.writer(p, o, table(t, "wide", upsert, "k", columns...))
				rows := func(kind changelog.Kind, n int) (out []changelog.Change) {
					for k := range n {
						row := make([]changelog.Value, shape.columns)
						row[0] = num(int64(k))
						for i := 1; i < shape.columns; i++ {
							row[i] = num(int64(k+i) % 100)
						}
						out = append(out, w.change(kind, row...))
					}
					return out
				}
				w.put(rows(changelog.Insert, shape.rows)...)
				w.put(rows(changelog.UpdateAfter, shape.rows)...)
				if got := e.one("SELECT count(*) || ' ' || max(k) FROM wide"); got != fmt.Sprint(shape.rows, " ", shape.rows-1) {
					t.Errorf("%s", got)
				}
				w.put(rows(changelog.Delete, shape.rows-1)...)
				if got := e.one("SELECT count(*) FROM wide"); got != "1" {
					t.Errorf("%s rows after the deletes", got)
				}
			})
		}
	}
}

// Names that need quotes, in every statement there is: also where some columns were not sent, and where that has no row to keep them from (P51).
func TestWrite_OddNames(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable = true
	long := strings.Repeat("n", 63)
	// Renames, as a rule that folds to lower case would make them.
	o.Columns = map[string]string{"NEW_COL": "new_col", "Order": "order", `Q"uote`: `q"uote`, strings.Repeat("N", 64): long}
	tb := table(t, "kv", upsert, "NEW_COL Order", "NEW_COL INT NOT NULL", "Order STRING NOT NULL", `Q"uote STRING`, strings.Repeat("N", 64)+" STRING")
	w := e.writer(e.pool(nil), o, tb)
	same := changelog.UnchangedValue()
	w.put(w.change(changelog.Insert, num(1), str("a"), str("q"), str("n")), w.change(changelog.Insert, num(2), str("b"), str("q"), str("n")))
	w.put(w.change(changelog.UpdateAfter, num(1), str("a"), same, str("N")), w.change(changelog.Delete, num(2), str("b"), null, null))
	if got, want := e.all(`SELECT new_col, "order", "q""uote", `+long+` FROM kv`), []string{"(1,a,q,N)"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	err := w.write(w.change(changelog.UpdateAfter, num(9), str("z"), same, str("N")))
	var pe *pgconn.PgError
	if sink.ClassOf(err) != sink.ErrRejected || errors.As(err, &pe) {
		t.Errorf("a row that is not there: %v", err)
	}
	w.c.Discard(t.Context())
	// The sink's own tables, in a schema with such a name.
	own := e.own + ` Of "mine"`
	o.Schema = own
	t.Cleanup(func() { e.exec(`DROP SCHEMA IF EXISTS "` + strings.ReplaceAll(own, `"`, `""`) + `" CASCADE`) })
	w = e.writer(e.pool(nil), o, tb)
	w.put(w.change(changelog.Insert, num(3), str("c"), str("q"), str("n")))
	if w.acquire(); w.from != 1 {
		t.Errorf("acquired at %d", w.from)
	}
	if st, err := w.store().Read(t.Context(), "bridge"); err != nil || len(st.Positions) != 1 {
		t.Errorf("Read: %+v, %v", st, err)
	}
	if last, err := w.store().End(t.Context(), w.claim.Generation); err != nil || last != 0 {
		t.Errorf("End: %d, %v", last, err)
	}
	// One byte more is cut off by the server, with a mere notice, so that two names could become one.
	o.Columns[strings.Repeat("N", 64)] = long + "n"
	s, err := e.lane(e.pool(nil), "", o, tb)
	if err == nil {
		s.Close(t.Context())
	}
	wantConfig(t, err, "64 bytes", "63")
}
