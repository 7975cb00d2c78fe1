package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// End ends gen and tells its last checkpoint. It first disconnects what may still hold an open transaction of gen and takes its marker, so
// that a COMMIT that is on its way has either happened, and is seen by the statements after, or never will; see Acquire for the rest
// of the argument.
func (c inTransaction) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	if gen.Bridge == c.gen.Bridge && gen.ID == c.gen.ID {
		c.drop(ctx)
		c.opened = false
	}
	last, err := c.s.endOne(ctx, gen)
	if err != nil {
		return 0, c.fail("end", classify(err), err)
	}
	return last, nil
}

func (s *Sink) endOne(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	t, err := s.beginStore(ctx, "")
	if err != nil {
		return 0, lift(err)
	}
	last, err := s.endIn(ctx, t, gen)
	if err != nil {
		t.rollback(ctx)
		return 0, lift(err)
	}
	return last, t.commit(ctx)
}

func (s *Sink) endIn(ctx context.Context, t *transaction, gen sink.Generation) (last sink.CheckpointID, err error) {
	// The bridge's row comes first, as in Acquire: else the two could wait for each other, or Acquire would disconnect us.
	if _, err := t.Exec(ctx, "SELECT FROM "+s.store.bridge+" WHERE name = $1 FOR UPDATE", gen.Bridge); err != nil {
		return 0, err
	}
	if err := s.silence(ctx, t, gen.Bridge, gen.ID, "this process"); err != nil {
		return 0, err
	}
	err = t.QueryRow(ctx, "SELECT last_checkpoint FROM "+s.store.generation+" WHERE bridge = $1 AND id = $2", gen.Bridge, int64(gen.ID)).Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("generation %d of bridge %q is not in the store: its tables were emptied, or more than %d generations came after it",
			gen.ID, gen.Bridge, keepGenerations)}
	}
	if err != nil {
		return 0, err
	}
	return last, s.end(ctx, t, gen.Bridge, []int64{int64(gen.ID)})
}

// Read returns what is stored for a bridge. Unlike the other methods it may be called from any goroutine.
func (c inTransaction) Read(ctx context.Context, bridge string) (sink.State, error) {
	st, err := c.s.read(ctx, bridge)
	if err != nil {
		err = lift(err)
		return sink.State{}, c.fail("read", classify(err), err)
	}
	return st, nil
}

func (s *Sink) read(ctx context.Context, bridge string) (sink.State, error) {
	// One snapshot of all tables. The idle timeout is ours, since one of the role's may be shorter than this process sleeps.
	var st sink.State
	begin := fmt.Sprintf("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = %d", storeIdleTimeout.Milliseconds())
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		var incarnation int32
		err := tx.QueryRow(ctx, "SELECT b.fingerprint, b.incarnation, f.version FROM "+s.store.bridge+" b, "+s.store.format+" f WHERE b.name = $1 AND f.single", bridge).
			Scan(&st.Fingerprint, &incarnation, &st.Format)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		st.Bridge = bridge
		if st.Incarnation, err = incarnationOf(incarnation); err != nil {
			return err
		}
		if st.Generations, err = s.readGenerations(ctx, tx, bridge); err != nil {
			return err
		}
		if st.Positions, err = s.readPositions(ctx, tx, bridge); err != nil {
			return err
		}
		st.Pending, err = s.readPending(ctx, tx, bridge)
		return err
	})
	if err != nil {
		return sink.State{}, err
	}
	return st, nil
}

func (s *Sink) readGenerations(ctx context.Context, q querier, bridge string) ([]sink.GenerationState, error) {
	rows, err := q.Query(ctx, "SELECT id, owner, ended, last_checkpoint, acquired, topics, partitions FROM "+s.store.generation+
		" WHERE bridge = $1 AND NOT (ended AND settled) ORDER BY id", bridge)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (sink.GenerationState, error) {
		var g sink.GenerationState
		var topics []string
		var numbers []int32
		if err := row.Scan(&g.ID, &g.Owner, &g.Ended, &g.Last, &g.Acquired, &topics, &numbers); err != nil {
			return g, err
		}
		var err error
		g.Partitions, err = join(topics, numbers)
		return g, err
	})
}

func (s *Sink) readPositions(ctx context.Context, q querier, bridge string) ([]sink.StoredPosition, error) {
	rows, err := q.Query(ctx, `SELECT topic, partition, owner, next_offset, leader_epoch, topic_id, generation, checkpoint,
		records, read, applied, superseded, dead_lettered, skipped, saved FROM `+s.store.position+` WHERE bridge = $1 AND next_offset IS NOT NULL`, bridge)
	if err != nil {
		return nil, err
	}
	ps, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (sink.StoredPosition, error) {
		var p sink.StoredPosition
		var id string
		var saved *time.Time
		n := &p.Counters
		err := row.Scan(&p.Topic, &p.Partition.Partition, &p.Owner, &p.Offset, &p.LeaderEpoch, &id, &p.Generation, &p.Checkpoint,
			&n.Records, &n.Read, &n.Applied, &n.Superseded, &n.DeadLettered, &n.Skipped, &saved)
		if err != nil {
			return p, err
		}
		if saved != nil {
			p.Saved = *saved
		}
		p.Position, err = storedAt(p.Position.Partition, p.Offset, p.LeaderEpoch, id)
		return p, err
	})
	slices.SortFunc(ps, func(a, b sink.StoredPosition) int { return a.Position.Partition.Compare(b.Position.Partition) })
	return ps, err
}

func (s *Sink) readPending(ctx context.Context, q querier, bridge string) ([]sink.Committable, error) {
	rows, err := q.Query(ctx, "SELECT generation, checkpoint, sink, version, data, from_positions, to_positions FROM "+s.store.committable+
		" WHERE bridge = $1 ORDER BY generation, checkpoint, sink", bridge)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (sink.Committable, error) {
		var gen sink.GenerationID
		var n nullCommittable
		if err := row.Scan(append([]any{&gen}, n.fields()...)...); err != nil {
			return sink.Committable{}, err
		}
		c, err := n.committable(gen)
		if err != nil || c == nil {
			return sink.Committable{}, err
		}
		return *c, nil
	})
}
