package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// scratch is a Postgres schema of a test's own, in which a command finds its target and its store.
type scratch struct {
	to     string // for --to; names without a schema are looked for in the test's own
	schema string
	conn   *pgx.Conn
}

// newScratch needs a real server.
func newScratch(t *testing.T) *scratch {
	t.Helper()
	dsn := os.Getenv("FLINKSINK_POSTGRES")
	if dsn == "" {
		t.Skip("FLINKSINK_POSTGRES is not set: set it to the URL of a Postgres server to run this test, or use ./test, which starts one")
	}
	schema := "cmd_" + strings.ToLower(rand.Text()[:10])
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("FLINKSINK_POSTGRES is not a URL")
	}
	q := u.Query()
	q.Set("search_path", schema)
	q.Set("timezone", "UTC")
	u.RawQuery = q.Encode()
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	s := &scratch{to: u.String(), schema: schema, conn: conn}
	s.exec(t, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		if _, err := conn.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		conn.Close(context.Background())
	})
	return s
}

func (s *scratch) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (s *scratch) one(t *testing.T, sql string, args ...any) (n int64) {
	t.Helper()
	if err := s.conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// flags are the command line's part that says where to write.
func (s *scratch) flags(more ...string) []string {
	return append([]string{"--to", s.to, "--store-schema", s.schema}, more...)
}

// column is a column of a Postgres table.
type column struct{ name, typ string }

func (s *scratch) columns(t *testing.T, table string) []column {
	t.Helper()
	rows, err := s.conn.Query(t.Context(), `SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c column, err error) {
		return c, r.Scan(&c.name, &c.typ)
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("columns of %s: %v", table, err)
	}
	return out
}

// holds compares a table with what Flink said its rows are. The texts of Flink's casts are read by Postgres, as literals of the
// columns' types, so nothing of ours has a part in the comparison.
func (s *scratch) holds(t *testing.T, table string, flink []string) {
	t.Helper()
	cols := s.columns(t, table)
	s.exec(t, "CREATE TEMPORARY TABLE expected (LIKE "+table+")")
	defer s.exec(t, "DROP TABLE expected")
	names, places := make([]string, len(cols)), make([]string, len(cols))
	for i, c := range cols {
		names[i] = pgx.Identifier{c.name}.Sanitize()
		places[i] = fmt.Sprintf("$%d::text::%s", i+1, c.typ)
		switch {
		case c.typ == "bytea":
			places[i] = fmt.Sprintf("decode($%d::text, 'hex')", i+1)
		case strings.HasPrefix(c.typ, "interval"): // Flink's sign is that of the whole, Postgres takes it for that of the first number
			places[i] = fmt.Sprintf("(left($%[1]d::text, 1) || '1')::int * substr($%[1]d::text, 2)::interval", i+1)
		}
	}
	insert := fmt.Sprintf("INSERT INTO expected (%s) VALUES (%s)", strings.Join(names, ", "), strings.Join(places, ", "))
	for _, l := range flink {
		var change struct {
			Row map[string]json.RawMessage `json:"row"`
		}
		if err := json.Unmarshal([]byte(l), &change); err != nil {
			t.Fatal(err)
		}
		args := make([]any, len(cols))
		for i, c := range cols {
			raw, ok := change.Row[c.name]
			if !ok {
				t.Fatalf("the table has a column %q that Flink's row has not", c.name)
			}
			var text *string
			if err := json.Unmarshal(raw, &text); err != nil {
				t.Fatalf("column %q is not a scalar: %s", c.name, raw)
			}
			args[i] = text
		}
		if len(change.Row) != len(cols) {
			t.Fatalf("the table has %d columns, Flink's row %d", len(cols), len(change.Row))
		}
		s.exec(t, insert, args...)
	}
	both := strings.Join(names, ", ")
	missing := s.one(t, fmt.Sprintf("SELECT count(*) FROM (SELECT %s FROM expected EXCEPT ALL SELECT %s FROM %s) x", both, both, table))
	extra := s.one(t, fmt.Sprintf("SELECT count(*) FROM (SELECT %s FROM %s EXCEPT ALL SELECT %s FROM expected) x", both, table, both))
	if missing != 0 || extra != 0 {
		var rows []string
		r, err := s.conn.Query(t.Context(), fmt.Sprintf("SELECT 'missing ' || x::text FROM (SELECT %s FROM expected EXCEPT ALL SELECT %s FROM %s) x UNION ALL SELECT 'extra ' || x::text FROM (SELECT %s FROM %s EXCEPT ALL SELECT %s FROM expected) x LIMIT 20",
			both, both, table, both, table, both))
		if err == nil {
			rows, _ = pgx.CollectRows(r, pgx.RowTo[string])
		}
		t.Errorf("table %s: %d of %d rows are missing, %d are there that should not be:\n%s", table, missing, len(flink), extra, strings.Join(rows, "\n"))
	}
}
