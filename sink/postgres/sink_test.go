package postgres_test

import (
	"testing"

	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The text goes into the bridge's fingerprint, which is stored and shown: it holds nothing of the connection, and not the spelling of the
// table either, since Acquire adds the table that was really found.
func TestSink_StringIsTheSameForEveryTarget(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://app:secret@127.0.0.1:1/shop")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, into := range []string{"", "Orders", `public."Two Words"`} {
		s, err := postgres.New(pool, into, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.String(); got != "postgres" {
			t.Errorf("%q is %q", into, got)
		}
	}
}
