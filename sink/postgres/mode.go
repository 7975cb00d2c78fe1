package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// Mode says how the rows of a checkpoint are made durable before it is decided, and visible afterwards. A bridge may change its mode with a
// restart: every mode settles what the others have left.
type Mode uint8

const (
	// InTransaction keeps the rows in an open transaction, which Save commits together with the positions. The sink is the store of its
	// lane, so it cannot stand beside another one, and cannot wait for the decision of somebody else.
	InTransaction Mode = iota

	// Prepared ends the transaction of the rows with PREPARE TRANSACTION, and makes them visible with COMMIT PREPARED once any store has decided. The
	// server keeps the rows, and their locks, over crashes of either side. It takes max_prepared_transactions of at least the number of
	// lanes, which is 0 by default and in most managed servers. Until the checkpoint is decided and committed its rows are locked for
	// others, VACUUM removes nothing that is younger, and no session ends that: a bridge that stops for good in this state leaves it to
	// [Store.Settle]. Temporary tables, NOTIFY, cursors WITH HOLD and exported snapshots are not possible in such a transaction, which
	// concerns Options.InCheckpoint and triggers.
	Prepared

	// Staged writes the rows into a table of the sink's own and merges them into the target in one transaction once any store has
	// decided. It needs nothing but tables, so it works behind any pooler, and between Prepare and Commit nothing is locked. What the target
	// could refuse is tried out before, in the transaction that stages: see the package documentation for what remains.
	Staged

	// Auto becomes one of the others when a lane starts, by who decides and by what the server was found to have: InTransaction where nobody else decides and
	// the server has all of it. Else Prepared, if the server is Postgres and an administrator has set max_prepared_transactions to the number of lanes and more, beside
	// what others hold; else Staged. The guarantee is the same in all of them, and [Sink.Guarantee] says which it is, and why. A start may choose another mode than
	// the one before it: see above. A server on which none of them holds is an ErrConfig, as with any mode; nothing is ever promised less silently.
	Auto
)

// String returns "in-transaction", "prepared", "staged" or "auto".
func (m Mode) String() string {
	switch m {
	case InTransaction:
		return "in-transaction"
	case Prepared:
		return "prepared"
	case Staged:
		return "staged"
	case Auto:
		return "auto"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// ParseMode reads what String returns.
func ParseMode(text string) (Mode, error) {
	for m := InTransaction; m <= Auto; m++ {
		if m.String() == text {
			return m, nil
		}
	}
	return 0, configf("there is no mode %q: it is in-transaction, prepared, staged or auto", text)
}

func (m Mode) guarantee() sink.Guarantee {
	g := sink.Guarantee{Level: sink.ExactlyOnce, Visible: "at commit, atomically", Zombie: "fenced by generation row"}
	switch m {
	case Prepared:
		g.How = "PREPARE TRANSACTION, then COMMIT PREPARED, with a marker in the transaction as evidence"
	case Staged:
		g.How = "rows in a staging table, merged in one transaction that marks them done"
	case Auto:
		g.How = "in the mode that the start chooses: in-transaction where this sink decides and the server has all that it takes, else prepared or staged"
	default:
		g.How = "rows and positions in one transaction"
	}
	return g
}

// begin opens the transaction of the current checkpoint, which looks at the fence first.
func (c *committer) begin(ctx context.Context) (*transaction, error) {
	t, err := c.beginAside(ctx)
	if err == nil && c.s.o.Mode == Staged {
		c.apply.stage = newStage(t, c.writer(c.gen.ID))
	}
	return t, err
}

// beginAside opens a transaction that looks at the same fence, and that will be rolled back.
func (c *committer) beginAside(ctx context.Context) (*transaction, error) {
	if c.s.o.Mode == InTransaction {
		t, err := c.s.beginFor(ctx, c.gen, "")
		if err != nil {
			return nil, err
		}
		if err := c.evolve(ctx, t); err != nil {
			t.rollback(ctx)
			return nil, err
		}
		return t, nil
	}
	return c.s.beginFenced(ctx, c.writer(c.gen.ID))
}

// why is what it says at Sink.why, for the fence of the mode.
func (c *committer) why(ctx context.Context, err error) error {
	if c.s.o.Mode == InTransaction {
		return c.s.why(ctx, c.gen, err)
	}
	return c.s.whyFenced(ctx, c.writer(c.gen.ID), err)
}

// beginFor opens a transaction of a generation. lock is how the look at the generation's row locks it.
func (s *Sink) beginFor(ctx context.Context, gen sink.Generation, lock string) (*transaction, error) {
	t, err := s.begin(ctx, s.o.IdleTimeout, s.o.TransactionTimeout, s.aliveFor(gen, lock))
	if err != nil {
		return nil, s.notBegunFor(ctx, gen, err)
	}
	return t, nil
}

// aliveFor takes the marker first and then, in a statement of its own that sees all that was committed before, looks whether the generation is still alive: see Acquire.
func (s *Sink) aliveFor(gen sink.Generation, lock string) string {
	where := fmt.Sprintf("bridge = %s AND id = %d", literal(gen.Bridge), gen.ID)
	return fmt.Sprintf("SELECT pg_advisory_xact_lock(%d); ", s.marker(gen.Bridge, gen.ID)) + unlessEnded(s.store.generation, where, lock)
}

// notBegunFor tells why a transaction of gen was not to begin.
func (s *Sink) notBegunFor(ctx context.Context, gen sink.Generation, err error) error {
	if state(err) == refusedState {
		err = s.endedFor(ctx, gen)
	}
	return lift(err)
}

// unlessEnded is statements that fail with refusedState where a row is missing, or says that it ended. They go out with BEGIN: a question of their own would cost the
// way to the server and back once more in each checkpoint. Statements of one message see, at READ COMMITTED, what was committed before each of them, as those of several
// messages do (postgres.c, exec_simple_query takes a snapshot for each), so the second looks at the row as it is once the first has locked it.
func unlessEnded(table, where, lock string) string {
	look := "SELECT " + unless("count(*) = 1") + " FROM " + table + " WHERE " + where + " AND NOT ended"
	if lock == "" {
		return look
	}
	return "SELECT FROM " + table + " WHERE " + where + lock + "; " + look
}

// endedFor tells why a transaction of gen was not to begin.
func (s *Sink) endedFor(ctx context.Context, gen sink.Generation) error {
	var ended bool
	err := s.pool.QueryRow(ctx, "SELECT ended FROM "+s.store.generation+" WHERE bridge = $1 AND id = $2", gen.Bridge, int64(gen.ID)).Scan(&ended)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("generation %d is not in the store any more", gen.ID)}
	case err == nil && ended:
		return endedError(gen.ID)
	case err == nil:
		return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("generation %d was not in the store, or had ended, and is there again", gen.ID)}
	}
	return err
}

// why tells whether a transaction of gen was lost because the generation was ended, by somebody who disconnected it on the way. COMMIT
// was not sent: an answer to it that was lost would have to stay unclear.
func (s *Sink) why(ctx context.Context, gen sink.Generation, err error) error {
	if undone(err) != sink.ErrTransient || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
	defer cancel()
	var ended bool
	if s.pool.QueryRow(ctx, "SELECT ended FROM "+s.store.generation+" WHERE bridge = $1 AND id = $2", gen.Bridge, int64(gen.ID)).Scan(&ended) != nil || !ended {
		return err
	}
	return &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("generation %d has ended: somebody else acquired its partitions and disconnected it: %w", gen.ID, tell(err))}
}
