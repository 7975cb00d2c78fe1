package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// Save writes positions, counters and committables into the transaction that holds the checkpoint's rows, checks the fence there, and
// commits. Without an open transaction (nothing was written) it opens one.
//
// Why every change takes effect exactly once: the rows of a checkpoint and the positions up to which they were read are in one
// transaction. Either the server commits both, and the next reader starts after those rows; or neither, and it starts before them. There
// is no third outcome, also when the answer to COMMIT is lost: then the positions themselves tell which it was, and End reads them. What is
// left is a second writer that applies the same offsets: the UPDATE below finds a position only while it belongs to this generation and
// still is where the rows were read from, and it locks it until COMMIT; a writer of an ended generation, or one whose offsets were saved
// already, finds too few positions and rolls back, rows and all.
//
// COMMIT goes out with the positions, behind them, after the server answered BEGIN: so a COMMIT that is still on its way always belongs to a
// transaction that is open and holds the generation's marker, where Acquire and End find it. That positions which the fence does not let through
// keep it from being run is argued at commitAfter: they are an error, a division by zero.
//
// After a failure that took rows with it the checkpoint refuses all but Discard, as after a failed Write.
func (c inTransaction) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	own := gen.Bridge == c.gen.Bridge && gen.ID == c.gen.ID
	if own && c.broken != nil {
		return c.broken
	}
	rows := c.rows > 0
	if c.tx != nil && !own {
		return c.fail("save", sink.ErrFenced, fmt.Errorf("generation %d cannot save the rows that were written for generation %d", gen.ID, c.gen.ID))
	}
	if own && rows && c.tx == nil {
		return c.fail("save", sink.ErrTransient, errors.New("the transaction that held the checkpoint's rows is gone: a mistake of this sink"))
	}
	t, unlooked := c.tx, c.unlooked
	c.tx, c.rows, c.unlooked = nil, 0, false // it ends here, either way
	var b pgx.Batch
	b.Queue(planOnce)
	if t != nil && unlooked {
		c.look(&b)
	}
	looks := len(b.QueuedQueries)
	failed, err := c.s.save(ctx, t, gen, cp, rows, &b)
	if err != nil && failed < looks {
		err = c.looked(ctx, failed, err)
	}
	if err != nil {
		err = c.fail("save", classify(err), err)
		if rows {
			c.broken = err
		}
		return err
	}
	if unlooked {
		c.awaited = 0
	}
	return nil
}

// save ends the transaction t, which holds rows or is nil, with what b holds before. Without rows it locks the generation's row from the start: that is the fence
// where advisory locks do nothing, see silence. failed is the number of the statement of b that failed, and more than it holds if none of them did.
func (s *Sink) save(ctx context.Context, t *transaction, gen sink.Generation, cp sink.Checkpoint, rows bool, b *pgx.Batch) (failed int, err error) {
	fence := len(b.QueuedQueries)
	if err := s.saveIn(b, gen, cp); err != nil {
		if t != nil {
			t.rollback(ctx)
		}
		return fence, err
	}
	if t == nil {
		if t, err = s.beginFor(ctx, gen, " FOR UPDATE"); err != nil {
			return fence, err
		}
	}
	failed, err = t.commitAfter(ctx, b)
	switch {
	case err == nil, failed < fence, errors.Is(err, sink.ErrUncertain):
		return failed, err
	case failed == fence && state(err) == refusedState:
		if err = s.refusal(ctx, gen, cp, rows); err != nil {
			err = lift(err)
		}
		return failed, err // nil: it was saved before
	case failed < len(b.QueuedQueries)-1 && state(err) == refusedState:
		return failed, &sink.Error{Class: sink.ErrConfig, Err: errors.New("a generation that has not ended cannot be settled: a mistake of the caller")}
	case failed < len(b.QueuedQueries)-1:
		return failed, lift(s.why(ctx, gen, err))
	}
	return failed, err
}

// saveAlone is Save without rows.
func (s *Sink) saveAlone(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	_, err := s.save(ctx, nil, gen, cp, false, new(pgx.Batch))
	return err
}

// refusedState is division_by_zero: a statement found what it was to find out, and what comes after it in its message must not be run.
const refusedState = "22012"

// unless divides by zero where condition does not hold.
func unless(condition string) string { return "1 / CASE WHEN " + condition + " THEN 1 ELSE 0 END" }

// saveIn adds all of Save but COMMIT to b. Its first statement is the fence.
func (s *Sink) saveIn(b *pgx.Batch, gen sink.Generation, cp sink.Checkpoint) error {
	if cp.ID <= 0 || len(cp.From) != len(cp.To) {
		return &sink.Error{Class: sink.ErrConfig, Err: errors.New("a checkpoint needs a number above 0 and a from for each to position: a mistake of the caller")}
	}
	n := len(cp.To)
	topics, numbers, from, to := make([]string, n), make([]int32, n), make([]int64, n), make([]int64, n)
	epochs, ids := make([]int32, n), make([]string, n)
	for i, p := range cp.To {
		if cp.From[i].Partition != p.Partition {
			return &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf("from and to positions differ in their partitions: %s, %s: a mistake of the caller", cp.From[i], p)}
		}
		topics[i], numbers[i], from[i], to[i] = p.Topic, p.Partition.Partition, cp.From[i].Offset, p.Offset
		epochs[i], ids[i] = p.LeaderEpoch, p.TopicID.String()
	}
	// What RETURNING tells of counts, since our own tables have no triggers or rules.
	b.Queue(`WITH moved AS (
		  UPDATE `+s.store.position+` p SET next_offset = n.next, leader_epoch = n.epoch, topic_id = n.id, generation = $2, checkpoint = $3,
		  records = $4, read = $5, applied = $6, superseded = $7, dead_lettered = $8, skipped = $9, saved = clock_timestamp()
		FROM unnest($10::text[], $11::int4[], $12::int8[], $13::int8[], $14::int4[], $15::text[]) AS n(topic, partition, was, next, epoch, id)
		WHERE p.bridge = $1 AND p.topic = n.topic AND p.partition = n.partition AND p.owner = $2 AND (p.next_offset IS NULL OR p.next_offset = n.was) RETURNING 1
		), numbered AS (
		  UPDATE `+s.store.generation+` SET last_checkpoint = $3 WHERE bridge = $1 AND id = $2 AND NOT ended AND last_checkpoint < $3 RETURNING 1)
		SELECT `+unless("(SELECT count(*) FROM moved) = $16::int8 AND (SELECT count(*) FROM numbered) = 1"),
		gen.Bridge, int64(gen.ID), int64(cp.ID), cp.Counters.Records, cp.Counters.Read, cp.Counters.Applied, cp.Counters.Superseded,
		cp.Counters.DeadLettered, cp.Counters.Skipped, topics, numbers, from, to, epochs, ids, int64(n))
	b.Queue(`DELETE FROM `+s.store.committable+` WHERE bridge = $1 AND generation = $2`, gen.Bridge, int64(gen.ID))
	for _, c := range cp.Committables {
		if c.Empty() {
			continue
		}
		from, err := encodePositions(c.From)
		if err != nil {
			return err
		}
		to, err := encodePositions(c.To)
		if err != nil {
			return err
		}
		b.Queue(`INSERT INTO `+s.store.committable+` (bridge, generation, checkpoint, sink, version, data, from_positions, to_positions)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, gen.Bridge, int64(c.Generation), int64(c.Checkpoint), c.Sink, int32(c.Version), c.Data, from, to)
	}
	if len(cp.Settled) > 0 {
		settled := make([]int64, len(cp.Settled))
		for i, g := range cp.Settled {
			settled[i] = int64(g)
		}
		b.Queue(`SELECT `+unless("count(*) = 0")+` FROM `+s.store.generation+` WHERE bridge = $1 AND id = ANY($2::int8[]) AND NOT ended`, gen.Bridge, settled)
		b.Queue(`UPDATE `+s.store.generation+` SET settled = true WHERE bridge = $1 AND id = ANY($2::int8[]) AND ended`, gen.Bridge, settled)
		b.Queue(`DELETE FROM `+s.store.committable+` WHERE bridge = $1 AND generation = ANY($2::int8[])`, gen.Bridge, settled)
	}
	return nil
}

// refusal says why the fence did not let cp through, after its transaction was rolled back: nil when the very same checkpoint was saved
// before, which is fine unless rows were written for it once more.
func (s *Sink) refusal(ctx context.Context, gen sink.Generation, cp sink.Checkpoint, rows bool) error {
	fenced := func(format string, a ...any) error {
		return &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf(format, a...)}
	}
	topics, numbers := make([]string, len(cp.To)), make([]int32, len(cp.To))
	for i, p := range cp.To {
		topics[i], numbers[i] = p.Topic, p.Partition.Partition
	}
	r, err := s.pool.Query(ctx, `SELECT g.ended, g.last_checkpoint, p.owner, p.generation, p.checkpoint, p.next_offset
		FROM unnest($3::text[], $4::int4[]) WITH ORDINALITY AS n(topic, partition, i)
		LEFT JOIN `+s.store.generation+` g ON g.bridge = $1 AND g.id = $2
		LEFT JOIN `+s.store.position+` p ON p.bridge = $1 AND p.topic = n.topic AND p.partition = n.partition ORDER BY n.i`,
		gen.Bridge, int64(gen.ID), topics, numbers)
	if err != nil {
		return err
	}
	type seen struct {
		Ended                              *bool
		Last, Owner, Saver, Number, Offset *int64
	}
	all, err := pgx.CollectRows(r, pgx.RowToStructByPos[seen])
	if err != nil {
		return err
	}
	again := len(all) > 0
	for i, p := range all {
		to := cp.To[i]
		switch {
		case p.Ended == nil:
			return fenced("generation %d is not in the store any more", gen.ID)
		case *p.Ended:
			return fenced("generation %d has ended: somebody else acquired its partitions", gen.ID)
		case p.Owner == nil || *p.Owner != int64(gen.ID):
			return fenced("%s does not belong to generation %d", to.Partition, gen.ID)
		}
		again = again && *p.Last == int64(cp.ID) && *p.Saver == int64(gen.ID) && *p.Number == int64(cp.ID) && p.Offset != nil && *p.Offset == to.Offset
	}
	if again && !rows {
		return nil
	}
	for i, p := range all {
		if p.Offset != nil && *p.Offset != cp.From[i].Offset {
			return fenced("the stored position of %s is %d, and checkpoint %d.%d begins at %d", cp.To[i].Partition, *p.Offset, gen.ID, cp.ID, cp.From[i].Offset)
		}
	}
	return fenced("checkpoint number %d.%d is not above the last one: it was used before", gen.ID, cp.ID)
}
