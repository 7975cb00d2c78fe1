package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// In every mode: rows that swap a unique value, children before their parents, and a column that is missing, each in one checkpoint under a coordinator.
func TestCoordinator_OrderInEveryMode(t *testing.T) {
	for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged} {
		t.Run(mode.String(), func(t *testing.T) {
			e := newEnv(t)
			if mode == postgres.Prepared && e.one("SELECT current_setting('max_prepared_transactions')") == "0" {
				t.Skip("the server has max_prepared_transactions = 0")
			}
			e.exec("CREATE TABLE parents (id bigint PRIMARY KEY, name text UNIQUE); CREATE TABLE children (id bigint PRIMARY KEY, parent bigint REFERENCES parents); CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE)")
			parents := table(t, "parents", upsert, "id", "id BIGINT NOT NULL", "name STRING")
			children := table(t, "children", upsert, "id", "id BIGINT NOT NULL", "parent BIGINT")
			kv := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT", "w STRING")
			o := e.options()
			o.Mode, o.Evolve = mode, true
			s, err := postgres.New(e.pool(nil), "", o)
			if err != nil {
				t.Fatal(err)
			}
			c, err := sink.NewCoordinator(t.Context(), sink.Options{
				Bridge: "bridge", Sinks: []sink.Declared{{Name: "target", Sink: s}}, Source: &rewinder{}, Tables: []*changelog.Table{parents, children, kv},
				Backoff: func(int) time.Duration { return time.Millisecond },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			if _, err := c.Assign(t.Context(), []changelog.Partition{part0}); err != nil {
				t.Fatal(err)
			}
			at := int64(0)
			write := func(tb *changelog.Table, rows ...changelog.Row) {
				t.Helper()
				b := changelog.NewBatch(tb)
				for _, r := range rows {
					kind := changelog.UpdateAfter
					if len(r) > len(tb.Schema.Columns) { // marked
						kind, r = changelog.Delete, r[:len(tb.Schema.Columns)]
					}
					b.Append(changelog.Change{Partition: part0, Offset: at, Kind: kind, Row: r})
					at++
				}
				if err := c.Write(t.Context(), b, sink.Progress{Records: int64(len(rows)), To: []changelog.Position{{Partition: part0, Offset: at, LeaderEpoch: -1}}}); err != nil {
					t.Fatal(err)
				}
			}
			checkpoint := func(want string) {
				t.Helper()
				if _, err := c.Checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(e.all("SELECT * FROM parents"), e.all("SELECT * FROM children"), e.all("SELECT * FROM kv")); got != want {
					t.Errorf("%s\nexpected %s", got, want)
				}
			}
			write(children, changelog.Row{num(1), num(1)}, changelog.Row{num(2), num(2)})
			write(kv, changelog.Row{num(1), num(1), null}, changelog.Row{num(2), num(2), str("b")})
			write(parents, changelog.Row{num(1), str("a")}, changelog.Row{num(2), str("b")})
			checkpoint("[(1,a) (2,b)] [(1,1) (2,2)] [(1,1,) (2,2,b)]")
			write(kv, changelog.Row{num(1), num(2), str("x")}, changelog.Row{num(2), num(1), null})
			write(parents, changelog.Row{num(1), str("c")}, changelog.Row{num(2), str("a")})
			checkpoint("[(1,c) (2,a)] [(1,1) (2,2)] [(1,2,x) (2,1,)]")
			gone := changelog.Row{num(1), null, null}
			write(parents, gone)
			write(kv, changelog.Row{num(3), num(3), null})
			write(children, changelog.Row{num(1), num(2)})
			checkpoint("[(2,a)] [(1,2) (2,2)] [(1,2,x) (2,1,) (3,3,)]")
		})
	}
}
