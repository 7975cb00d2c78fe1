package postgres_test

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// findings renders what Check found, a line each.
func findings(t *testing.T, p *pgxpool.Pool, o *postgres.Options, fingerprint string, tables ...*changelog.Table) string {
	t.Helper()
	s, err := postgres.New(p, "", o)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range s.Check(t.Context(), sink.Lane{Bridge: "bridge", Sink: "target", Tables: tables}, fingerprint) {
		line := f.What + " ok: " + f.Found
		if f.Err != nil {
			if sink.ClassOf(f.Err) != sink.ErrConfig {
				t.Errorf("%s: %v", f.What, f.Err)
			}
			line = f.What + " wrong: " + f.Err.Error()
		}
		out = append(out, strings.ReplaceAll(line, "\n", " "))
	}
	return strings.Join(out, "\n")
}

func wantFindings(t *testing.T, got string, want ...string) {
	t.Helper()
	lines := strings.Split(got, "\n")
	for _, w := range want {
		what, parts, _ := strings.Cut(w, ": ")
		found := false
		for _, l := range lines {
			found = found || strings.HasPrefix(l, what+": ") && strings.Contains(l, parts)
		}
		if !found {
			t.Errorf("%q is missing in\n%s", w, got)
		}
	}
}

// Check says what a start would do, and makes nothing.
func TestDoctor_FindsWhatAStartWould(t *testing.T) {
	e := newEnv(t)
	tb := e.anyTable()
	relations := func() string {
		return e.one("SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname IN ($1, $2)", e.own, e.schema)
	}
	before := relations()
	p := e.pool(nil)
	wantFindings(t, findings(t, p, e.options(), "f", tb), "server ok: Postgres 1", "store ok: makes them", "table wrong: CREATE TABLE")
	make := e.options()
	make.CreateTable = true
	wantFindings(t, findings(t, p, make, "f", tb), "table ok: the bridge makes it", `bridge ok: "bridge" has stored nothing yet`)
	if after := relations(); after != before {
		t.Errorf("%s relations, then %s", before, after)
	}

	e.keyed()
	wantFindings(t, findings(t, p, e.options(), "f", tb), `table ok: "kv", and every column fits`)
	w := e.writer(p, e.options(), tb)
	if err := w.writeTo(5); err != nil {
		t.Fatal(err)
	}
	w.finish()
	gen := e.one("SELECT max(id) FROM " + e.own + ".generation")
	wantFindings(t, findings(t, p, e.options(), "f", tb), "store ok: format version 1", `bridge ok: "bridge" has positions of 1 partitions`)
	wantFindings(t, findings(t, p, e.options(), "g", tb), `bridge wrong: belongs to another bridge (f into `)
	if now := e.one("SELECT max(id) FROM " + e.own + ".generation WHERE NOT ended"); now != gen {
		t.Errorf("generation %s, then %s", gen, now)
	}
	e.exec("ALTER TABLE kv DROP COLUMN v")
	wantFindings(t, findings(t, p, e.options(), "f", tb), `table wrong: column "v" is missing`)
	e.exec("DROP TABLE kv")
	wantFindings(t, findings(t, p, make, "f", tb), "bridge wrong: of a table that no longer exists")
	e.exec("UPDATE " + e.own + ".format SET version = 7")
	wantFindings(t, findings(t, p, make, "f", tb), "store wrong: format version 7")
	e.exec("DROP TABLE " + e.own + ".format")
	wantFindings(t, findings(t, p, make, "f", tb), "store wrong: that something else made")
}

// A role without rights is told before it starts.
func TestDoctor_Rights(t *testing.T) {
	e := newEnv(t)
	tb := e.anyTable()
	role := e.schema + "_role"
	e.exec("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + e.schema + " TO " + role)
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role })
	make := e.options()
	make.CreateTable = true
	wantFindings(t, findings(t, p, make, "f", tb), "store wrong: may not make or use", `table wrong: may not make it in schema "`+e.schema)
	e.fixture()
	e.exec("GRANT USAGE ON SCHEMA " + e.own + " TO " + role + "; GRANT SELECT ON ALL TABLES IN SCHEMA " + e.own + " TO " + role)
	wantFindings(t, findings(t, p, make, "f", tb), "store wrong: position\" UPDATE")
	read := e.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	got := findings(t, read, e.options(), "f", tb)
	wantFindings(t, got, "server wrong: read-only")
	if strings.Contains(got, "store ") {
		t.Errorf("it went on:\n%s", got)
	}
}
