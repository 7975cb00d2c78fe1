package postgres_test

import (
	"testing"

	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The text goes into the bridge's fingerprint, which is stored and shown: it names the table, and nothing of the connection.
func TestSink_StringNamesTheTable(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://app:secret@127.0.0.1:1/shop")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for into, want := range map[string]string{
		"":                   `postgres, tables by their source's name`,
		"Orders":             `postgres "orders"`,
		`public."Two Words"`: `postgres "public"."Two Words"`,
	} {
		s, err := postgres.New(pool, into, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.String() != want {
			t.Errorf("%q is %q, want %q", into, s.String(), want)
		}
	}
}
