package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// One repair mends rows that are in each other's way, in the orders in which a checkpoint would write them, and says of rows that the table alters that they
// are not mended.
func TestView_MendInOrder(t *testing.T) {
	const touch = "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION touch(); "
	for name, tc := range map[string]struct {
		create, damage string
		want           sink.Mended
		left           string // what still differs
	}{
		"swapped":  {"u text UNIQUE", "UPDATE kv SET u = 'x' WHERE k = 1; UPDATE kv SET u = 'a' WHERE k = 2; UPDATE kv SET u = 'b' WHERE k = 1", sink.Mended{Written: 2}, ""},
		"a circle": {"u text UNIQUE", "UPDATE kv SET u = 'x'||u; UPDATE kv SET u = CASE k WHEN 1 THEN 'b' WHEN 2 THEN 'c' ELSE 'a' END", sink.Mended{Written: 3}, ""},
		"moved":    {"u text UNIQUE", "DELETE FROM kv WHERE k = 1; UPDATE kv SET u = 'a' WHERE k = 2", sink.Mended{Written: 2}, ""},
		"moved on": {"u text UNIQUE", "DELETE FROM kv WHERE k = 1; UPDATE kv SET u = 'a' WHERE k = 2; UPDATE kv SET u = 'b' WHERE k = 3", sink.Mended{Written: 3}, ""},
		"moved, and a trigger sees rows go": {"u text UNIQUE", touch + "DELETE FROM kv WHERE k = 1; UPDATE kv SET u = 'a' WHERE k = 2; UPDATE kv SET u = 'b' WHERE k = 3",
			sink.Mended{Written: 3}, ""},
		"swapped, and the key is deferrable": {"u text UNIQUE DEFERRABLE", touch + "UPDATE kv SET u = CASE k WHEN 1 THEN 'b' WHEN 2 THEN 'a' ELSE u END", sink.Mended{Written: 2}, ""},
		"swapped, and no order does it": {"u text UNIQUE", touch + "UPDATE kv SET u = 'x' WHERE k = 1; UPDATE kv SET u = 'a' WHERE k = 2; UPDATE kv SET u = 'b' WHERE k = 1; UPDATE kv SET u = 'y' WHERE k = 3",
			sink.Mended{Written: 1, Refused: 2}, "stale@0, stale@1"},
		"an extra row has it":     {"u text UNIQUE", "DELETE FROM kv WHERE k = 2; INSERT INTO kv VALUES (9, 'b')", sink.Mended{Written: 1, Deleted: 1}, ""},
		"a row refers to another": {"u text REFERENCES names", "DELETE FROM kv; DELETE FROM names WHERE u = 'b'", sink.Mended{Written: 2, Refused: 1}, "missing@1"},
		"it is deferred":          {"u text REFERENCES names DEFERRABLE INITIALLY DEFERRED", "DELETE FROM kv; DELETE FROM names WHERE u = 'b'", sink.Mended{Written: 2, Refused: 1}, "missing@1"},
		"a trigger alters a row": {"u text", "CREATE FUNCTION up() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.k <> 2 THEN NEW.u = upper(NEW.u); END IF; RETURN NEW; END'; " +
			"CREATE TRIGGER up BEFORE INSERT OR UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION up(); UPDATE kv SET u = 'z'", sink.Mended{Written: 1, Refused: 2}, "stale@0, stale@2"},
		"a trigger keeps a row out": {"u text", "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.k = 2 THEN RETURN NULL; END IF; RETURN NEW; END'; " +
			"CREATE TRIGGER keep BEFORE INSERT OR UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION keep(); DELETE FROM kv", sink.Mended{Written: 2, Refused: 1}, "missing@1"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.exec("CREATE TABLE names (u text PRIMARY KEY); INSERT INTO names VALUES ('a'), ('b'), ('c')")
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, " + tc.create + ")")
			tb := table(t, "kv", upsert, "k", "k BIGINT", "u STRING")
			w := e.writer(e.pool(nil), e.options(), tb)
			rows := []changelog.Change{w.change(changelog.Insert, num(1), str("a")), w.change(changelog.Insert, num(2), str("b")), w.change(changelog.Insert, num(3), str("c"))}
			w.put(rows...)
			e.exec(tc.damage)
			v := e.view(e.options(), tb)
			_, ds := differences(t, v, rows...)
			m, err := v.Mend(t.Context(), ds)
			if err != nil || m != tc.want {
				t.Errorf("mended %+v, expected %+v (%v)", m, tc.want, err)
			}
			if got, _ := differences(t, e.view(e.options(), tb), rows...); got != tc.left {
				t.Errorf("still differ: %q, expected %q", got, tc.left)
			}
			said := e.one("SELECT string_agg(reason, ' ') FROM " + e.own + ".audit")
			if !strings.Contains(said, fmt.Sprintf("%d rows written, %d deleted", tc.want.Written, tc.want.Deleted)) || strings.Contains(name, "trigger alters") != strings.Contains(said, "2 more written that the table alters") && !strings.Contains(name, "keeps") {
				t.Errorf("audit: %s", said)
			}
		})
	}
}
