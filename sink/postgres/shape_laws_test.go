package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// The laws hold for shapes as they do for plain rows. Where a shape takes less it is declared. IgnoreDeletes and Swap show other rows than
// the suite expects, and have their own tests (TestShapes_Boundaries, TestSwap); Version needs a column that the suite's tables do not have.
func TestLaws_Shapes(t *testing.T) {
	if os.Getenv("FLINKSINK_LONG") == "" {
		t.Skip("the laws for each write shape take minutes: FLINKSINK_LONG=1, as in ./test full")
	}
	for name, shape := range map[string]struct {
		set func(o *postgres.Options)
		be  func(e *env, h *sinktest.Harness)

		keyed bool // it is for tables with a key; laws of the table without one are run on plain rows
	}{
		"audit": {
			set: func(o *postgres.Options) {
				o.Audit = postgres.AuditColumns{Bridge: "a_bridge", Generation: "a_generation", Topic: "a_topic", Partition: "a_partition", Offset: "a_offset", Index: "a_index", Time: "a_time"}
			},
			be: func(*env, *sinktest.Harness) {},
		},
		"soft delete, skip unchanged": {
			set:   func(o *postgres.Options) { o.SoftDelete.Column, o.SkipUnchanged = "gone", true },
			be:    func(e *env, h *sinktest.Harness) { e.where = " WHERE NOT gone" },
			keyed: true,
		},
		"soft delete by time": {
			set:   func(o *postgres.Options) { o.SoftDelete = postgres.SoftDelete{Column: "gone", Deleted: postgres.Now} },
			be:    func(e *env, h *sinktest.Harness) { e.where = " WHERE gone IS NULL" },
			keyed: true,
		},
		"append once": {
			set: func(o *postgres.Options) { o.AppendOnce = true },
			be: func(e *env, h *sinktest.Harness) {
				h.NoDeletes, h.Values = true, nil // the tables of values have keys
				const why = "two bridges that read the same messages write each of them once between them, and one waits for the other: that is what AppendOnce is for"
				h.Skip = map[string]string{"L43": why, "L63": why}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			h := harness(e)
			shape.be(e, &h)
			h.Reset = func(ctx context.Context, t *changelog.Table) error {
				_, err := e.admin.Exec(ctx, "DROP SCHEMA IF EXISTS "+e.own+" CASCADE; DROP TABLE IF EXISTS "+t.Name) // the sink makes it
				return err
			}
			h.Connect = func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) {
				var w wire
				o := e.options()
				o.CreateTable = true
				if !shape.keyed || len(t.Schema.Key) > 0 {
					shape.set(o)
				}
				s, err := postgres.New(e.pool(w.through), "", o)
				if err != nil {
					return sinktest.Client{}, err
				}
				return sinktest.Client{Sink: s, Release: w.cut}, nil
			}
			sinktest.Run(t, h)
		})
	}
}
