package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/postgres"
)

// Rows of a table with a column that the sink does not write, which others refer to, swap their unique values in place: whatever the type of the column and the form of the index, within
// one Write and over several. What the sink does not write stays.
func TestPark_SwapInPlace(t *testing.T) {
	for _, tc := range []struct {
		name, column, more string
		a, b, c            string // values of u
	}{
		{"NULL may stand there", "u bigint UNIQUE", "", "1", "2", "3"},
		{"smallint", "u smallint UNIQUE NOT NULL", "", "1", "2", "32700"},
		{"integer", "u integer UNIQUE NOT NULL", "", "1", "2", "-3"},
		{"integer at its end", "u integer UNIQUE NOT NULL", "", "1", "2", "2147483600"},
		{"bigint", "u bigint UNIQUE NOT NULL CHECK (u > 0)", "", "1", "2", "3"},
		{"numeric", "u numeric UNIQUE NOT NULL", "", "1.5", "2.25", "-3"},
		{"numeric of a precision", "u numeric(6, 2) UNIQUE NOT NULL", "", "1.50", "2.25", "9000.99"},
		{"uuid", "u uuid UNIQUE NOT NULL", "", "5f8f2c4c-6a0f-4bd8-9c2b-0d8b5a0a0001", "5f8f2c4c-6a0f-4bd8-9c2b-0d8b5a0a0002", "5f8f2c4c-6a0f-4bd8-9c2b-0d8b5a0a0003"},
		{"text", "u text UNIQUE NOT NULL", "", "a", "b", "c"},
		{"varchar", "u varchar(20) UNIQUE NOT NULL", "", "a", "b", "c"},
		{"a domain", "u code UNIQUE NOT NULL", "CREATE DOMAIN code AS text CHECK (VALUE ~ '^[0-9a-z]+$')", "a", "b", "c"},
		{"bytea", "u bytea UNIQUE NOT NULL", "", `\x01`, `\x02`, `\x03`},
		{"date", "u date UNIQUE NOT NULL", "", "2024-01-01", "2024-01-02", "2024-01-03"},
		{"timestamp", "u timestamp(0) UNIQUE NOT NULL", "", "2024-01-01 00:00:00", "2024-01-02 00:00:00", "2024-01-03 00:00:00"},
		{"timestamptz", "u timestamptz UNIQUE NOT NULL", "", "2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00", "2024-01-03 00:00:00+00"},
		{"an expression", "u text NOT NULL", "CREATE UNIQUE INDEX ON kv (lower(u))", "a", "b", "c"},
		{"an expression, and a condition that holds with NULL", "u text NOT NULL", "CREATE UNIQUE INDEX ON kv (lower(u)) WHERE coalesce(v, 'x') <> ''", "a", "b", "c"},
		{"an expression beside a column that stays", "u text NOT NULL, flag boolean NOT NULL DEFAULT true", "CREATE UNIQUE INDEX ON kv (flag, lower(u))", "a", "b", "c"},
		{"a generated column", "u text NOT NULL, g text GENERATED ALWAYS AS (lower(u)) STORED UNIQUE", "", "a", "b", "c"},
		{"an exclusion constraint", "u int4range, EXCLUDE USING gist (u WITH &&)", "", "[1,3)", "[3,5)", "[6,7)"},
		{"an exclusion constraint over a range that may not be NULL", "u tstzrange NOT NULL, EXCLUDE USING gist (u WITH &&)", "", "[2024-01-01 00:00:00+00,2024-01-02 00:00:00+00)", "[2024-01-02 00:00:00+00,2024-01-05 00:00:00+00)", "[2024-01-06 00:00:00+00,2024-01-07 00:00:00+00)"},
		{"two columns, of which one can be moved", "flag boolean NOT NULL DEFAULT true, u text NOT NULL, UNIQUE (flag, u)", "", "a", "b", "c"},
		{"a condition", "u bigint NOT NULL, alive boolean DEFAULT true", "CREATE UNIQUE INDEX ON kv (u) WHERE alive", "1", "2", "3"},
		{"two constraints", "u bigint UNIQUE, EXCLUDE (u WITH =)", "", "1", "2", "3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t)
			more, first := tc.more, strings.HasPrefix(tc.more, "CREATE DOMAIN")
			if first {
				e.exec(more)
			}
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text, " + tc.column + ", note text DEFAULT 'mine'); CREATE TABLE child (k bigint REFERENCES kv ON DELETE CASCADE)")
			if !first && more != "" {
				e.exec(more)
			}
			o := e.options()
			o.Cast = []string{"u"}
			w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u STRING", "v STRING"))
			set := func(k int64, u string) changelog.Change {
				return w.change(changelog.UpdateAfter, num(k), str(u), str(fmt.Sprint("of ", k)))
			}
			rows := func(want ...string) {
				t.Helper()
				wantRows(t, e.all("SELECT k, u, v, note FROM kv"), want...)
				if got := e.one("SELECT count(*) FROM child"); got != "3" {
					t.Errorf("%s children of 3", got)
				}
			}
			row := func(k int, u string) string {
				return e.one("SELECT ROW($1::text, $2::text, $3::text, 'mine')::text", fmt.Sprint(k), u, fmt.Sprint("of ", k))
			}
			shown := func(u string) string { return e.one("SELECT u FROM kv WHERE k = 1 AND $1::text IS NOT NULL", u) }
			w.put(set(1, tc.a), set(2, tc.b), set(3, tc.c))
			a := shown(tc.a)
			b, c := e.one("SELECT u FROM kv WHERE k = 2"), e.one("SELECT u FROM kv WHERE k = 3")
			e.exec("INSERT INTO child SELECT k FROM kv")
			w.put(set(1, tc.b), set(2, tc.a))
			rows(row(1, b), row(2, a), row(3, c))
			for _, one := range []changelog.Change{set(1, tc.c), set(2, tc.b), set(3, tc.a)} { // a ring
				if err := w.write(one); err != nil {
					t.Fatal(err)
				}
			}
			w.finish()
			rows(row(1, c), row(2, b), row(3, a))
		})
	}
}

// What else a table may have: each in every mode.
func TestPark_Shapes(t *testing.T) {
	old := changelog.UnchangedValue()
	for _, tc := range []struct {
		name, ddl string
		options   func(o *postgres.Options)
		change    func(w *writer) [][]changelog.Change // after (1, 1, a, 10) and (2, 2, b, 10)
		want      []string                             // of k, u, v, ver, note
	}{
		{"changes that lack a column", "", nil, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), old, num(11)), w.change(changelog.UpdateAfter, num(2), num(1), old, old)}}
		}, []string{"(1,2,a,11,mine)", "(2,1,b,10,mine)"}},
		{"one that lacks a column and one that does not, each in a Write of its own", "", nil, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), old, num(11))}, {w.change(changelog.UpdateAfter, num(2), num(1), str("c"), num(12))}}
		}, []string{"(1,2,a,11,mine)", "(2,1,c,12,mine)"}},
		{"changes that lack a part of the unique key", "ALTER TABLE kv DROP CONSTRAINT kv_u_key, ADD UNIQUE (u, v); UPDATE kv SET v = 'same'", nil, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), old, num(11)), w.change(changelog.UpdateAfter, num(2), num(1), old, num(11))}}
		}, []string{"(1,2,same,11,mine)", "(2,1,same,11,mine)"}},
		{"newer versions", "", func(o *postgres.Options) { o.Version, o.IgnoreDeletes = "ver", true }, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), str("a"), num(11)), w.change(changelog.UpdateAfter, num(2), num(1), str("b"), num(10))}}
		}, []string{"(1,2,a,11,mine)", "(2,1,b,10,mine)"}},
		{"a row that its version keeps also keeps its value", "INSERT INTO kv VALUES (3, 3, 'c', 99)", func(o *postgres.Options) { o.Version, o.IgnoreDeletes = "ver", true }, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), str("a"), num(11)), w.change(changelog.UpdateAfter, num(2), num(1), str("b"), num(11)),
				w.change(changelog.UpdateAfter, num(3), num(77), str("old"), num(12))}}
		}, []string{"(1,2,a,11,mine)", "(2,1,b,11,mine)", "(3,3,c,99,mine)"}},
		{"equal rows are not written", "", func(o *postgres.Options) { o.SkipUnchanged = true }, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), str("a"), num(10)), w.change(changelog.UpdateAfter, num(2), num(1), str("b"), num(10))}}
		}, []string{"(1,2,a,10,mine)", "(2,1,b,10,mine)"}},
		{"a row that dies, and its heir", "ALTER TABLE kv DROP CONSTRAINT kv_u_key, ADD COLUMN dead boolean NOT NULL DEFAULT false; CREATE UNIQUE INDEX ON kv (u) WHERE NOT dead",
			func(o *postgres.Options) { o.SoftDelete.Column = "dead" }, func(w *writer) [][]changelog.Change {
				return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), str("a"), num(11)), w.change(changelog.UpdateAfter, num(2), num(1), str("b"), num(11)),
					w.change(changelog.Delete, num(2), num(1), str("b"), num(11)), w.change(changelog.Insert, num(3), num(1), str("c"), num(1))}}
			}, []string{"(1,2,a,11,mine)", "(2,1,b,11,mine)", "(3,1,c,1,mine)"}},
		{"a trigger that writes down what it sees", `CREATE TABLE seen (k bigint, u bigint); CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (NEW.k, NEW.u); RETURN NEW; END $$;
			CREATE TRIGGER see AFTER UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION see()`, nil, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), str("a"), num(10)), w.change(changelog.UpdateAfter, num(2), num(1), str("b"), num(10))}}
		}, []string{"(1,2,a,10,mine)", "(2,1,b,10,mine)"}},
		{"a trigger that makes rows newer", `CREATE FUNCTION newer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := coalesce(OLD.note, '') || '!'; RETURN NEW; END $$;
			CREATE TRIGGER newer BEFORE UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION newer()`, nil, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), str("a"), num(10)), w.change(changelog.UpdateAfter, num(2), num(1), str("b"), num(10))}}
		}, []string{"(1,2,a,10,mine!!)", "(2,1,b,10,mine!!)"}},
		{"a partition's own index", `DROP TABLE kv; CREATE TABLE kv (k bigint PRIMARY KEY, u bigint, v text, ver bigint, note text DEFAULT 'mine') PARTITION BY RANGE (k);
			CREATE TABLE kv1 (ver bigint, v text, u bigint UNIQUE, k bigint NOT NULL, note text DEFAULT 'mine'); ALTER TABLE kv ATTACH PARTITION kv1 FOR VALUES FROM (0) TO (10);
			INSERT INTO kv VALUES (1, 1, 'a', 10), (2, 2, 'b', 10)`, nil, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), str("a"), num(10)), w.change(changelog.UpdateAfter, num(2), num(1), str("b"), num(10))}}
		}, []string{"(1,2,a,10,mine)", "(2,1,b,10,mine)"}},
		{"others refer to the value", "CREATE TABLE child (u bigint REFERENCES kv (u) DEFERRABLE INITIALLY DEFERRED); INSERT INTO child VALUES (1)", nil, func(w *writer) [][]changelog.Change {
			return [][]changelog.Change{{w.change(changelog.UpdateAfter, num(1), num(2), str("a"), num(10)), w.change(changelog.UpdateAfter, num(2), num(1), str("b"), num(10))}}
		}, []string{"(1,2,a,10,mine)", "(2,1,b,10,mine)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
				e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE, v text, ver bigint, note text DEFAULT 'mine'); INSERT INTO kv VALUES (1, 1, 'a', 10), (2, 2, 'b', 10)")
				e.exec(tc.ddl)
				if tc.options != nil {
					tc.options(o)
				}
				w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT", "v STRING", "ver BIGINT"))
				for _, b := range tc.change(w) {
					if err := w.write(b...); err != nil {
						t.Fatal(err)
					}
				}
				w.finish()
				wantRows(t, e.all("SELECT k, u, v, ver, note FROM kv"), tc.want...)
			})
		})
	}
}

// Where rows cannot be moved for sure, or not without touching others, the checkpoint is refused as before, and nothing is changed by the try.
func TestPark_Refused(t *testing.T) {
	for name, ddl := range map[string]string{
		"a type without a value to spare":      "ALTER TABLE kv ALTER u TYPE float USING u::float, ALTER u SET NOT NULL",
		"no room in the type":                  "ALTER TABLE kv ALTER u TYPE smallint, ALTER u SET NOT NULL; INSERT INTO kv VALUES (3, 32767)",
		"a check that wants the value":         "ALTER TABLE kv ADD CHECK (u IS NOT NULL)",
		"a child that would follow":            "CREATE TABLE child (u bigint REFERENCES kv (u) ON UPDATE CASCADE); INSERT INTO child VALUES (1), (2)",
		"a child that would lose its parent":   "CREATE TABLE child (u bigint REFERENCES kv (u) ON UPDATE SET NULL); INSERT INTO child VALUES (1), (2)",
		"a child that forbids it":              "CREATE TABLE child (u bigint REFERENCES kv (u)); INSERT INTO child VALUES (1), (2)",
		"a value that a row has which stays":   "INSERT INTO kv VALUES (3, 9)",
		"NULLs that are the same to the index": "ALTER TABLE kv ADD COLUMN x bigint; CREATE UNIQUE INDEX ON kv (coalesce(u, 0))",
		"a trigger that keeps rows from being written": `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.u = 2 THEN RETURN NULL; END IF; RETURN NEW; END $$;
			CREATE TRIGGER keep BEFORE UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION keep()`,
	} {
		t.Run(name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
				e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE, note text DEFAULT 'mine'); INSERT INTO kv VALUES (1, 1), (2, 2)")
				e.exec(ddl)
				e.exec("CREATE VIEW everything AS SELECT to_jsonb(kv) FROM kv")
				if e.one("SELECT to_regclass('child') IS NOT NULL") == "true" {
					e.exec("CREATE OR REPLACE VIEW everything AS SELECT to_jsonb(kv) FROM kv UNION ALL SELECT to_jsonb(child) FROM child")
				}
				before := e.all("SELECT * FROM everything")
				o.Cast = []string{"u"}
				w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u STRING"))
				set := func(k int64, u string) changelog.Change { return w.change(changelog.UpdateAfter, num(k), str(u)) }
				changes := []changelog.Change{set(1, "2"), set(2, "1")}
				if name == "a value that a row has which stays" {
					changes = append(changes, set(4, "9"))
				}
				err := w.refusal(changes)
				if err == nil {
					w.finishPrepared()
					t.Fatalf("it was taken: %v", e.all("SELECT * FROM everything"))
				}
				if cure := "make the constraint DEFERRABLE"; (name == "a type without a value to spare" || strings.HasPrefix(name, "a check")) && !strings.Contains(err.Error(), cure) {
					t.Errorf("%v does not say %q", err, cure)
				}
				w.c.Discard(t.Context())
				if got := e.all("SELECT * FROM everything"); !slices.Equal(got, before) {
					t.Errorf("%v, was %v", got, before)
				}
			})
		})
	}
}

// A trigger that makes a row newer than the change, once the row has given up its value: the guard would keep the change away, and the row without its value. All of it is undone.
func TestPark_NewerByTrigger(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		e.exec(`CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE, ver bigint); INSERT INTO kv VALUES (1, 1, 1), (2, 2, 1);
			CREATE FUNCTION newer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.ver := OLD.ver + 100; RETURN NEW; END $$; CREATE TRIGGER newer BEFORE UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION newer()`)
		o.Version, o.IgnoreDeletes = "ver", true
		w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT", "ver BIGINT"))
		if err := w.refusal([]changelog.Change{w.change(changelog.UpdateAfter, num(1), num(2), num(5)), w.change(changelog.UpdateAfter, num(2), num(1), num(5))}); err == nil {
			w.finishPrepared()
			t.Fatalf("it was taken: %v", e.all("SELECT * FROM kv"))
		}
		w.c.Discard(t.Context())
		wantRows(t, e.all("SELECT * FROM kv"), "(1,1,1)", "(2,2,1)")
	})
}

// Among rows that swap their values in place, exactly the one is named that is refused for a row that stays, and the checkpoint passes without it; also where rows cannot even be taken out for a try.
func TestPark_Blamed(t *testing.T) {
	for _, more := range []string{"", "CREATE TABLE child (k bigint REFERENCES kv); INSERT INTO child VALUES (1), (2)"} {
		everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE, note text DEFAULT 'mine'); INSERT INTO kv VALUES (1, 1), (2, 2), (3, 3)")
			e.exec(more)
			w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"))
			set := func(k, u int64) changelog.Change { return w.change(changelog.UpdateAfter, num(k), num(u)) }
			changes := []changelog.Change{set(1, 2), set(5, 3), set(2, 1), set(6, 6)}
			err := w.refusal(changes)
			wantBlamed(t, err, "1")
			if err := w.redo(err, changes); err != nil {
				t.Fatal(err)
			}
			w.finish()
			wantRows(t, e.all("SELECT * FROM kv"), "(1,2,mine)", "(2,1,mine)", "(3,3,mine)", "(6,6,mine)")
		})
	}
}
