package postgres_test

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/postgres"
)

// Rows that are too many to be rehearsed as they come are rehearsed at the end, where nobody can say which change it is whose row is missing: it is rejected without a name, and smaller
// checkpoints tell; not called transient, which would be tried for ever.
func TestStaged_MissingAmongMany(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.Mode = postgres.Staged
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text, w text, CHECK (k < 5000))") // so that statements are rehearsed
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING", "w STRING"))
	long := str(strings.Repeat("x", 200_000))
	for k := range int64(100) {
		if err := w.write(w.change(changelog.Insert, num(k), long, null)); err != nil {
			t.Fatal(err)
		}
	}
	lacks := w.change(changelog.UpdateAfter, num(1000), changelog.UnchangedValue(), str("y"))
	if err := w.write(lacks); err != nil {
		t.Fatal(err)
	}
	wantBlamed(t, w.prepare(), "")
	w.c.Discard(t.Context())
	w.acquire()
	err := w.write(lacks)
	if err == nil {
		err = w.prepare()
	}
	wantBlamed(t, err, "100")
}
