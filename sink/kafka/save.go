package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// transact writes records under the bridge's own id, all or none.
func (s *Store) transact(ctx context.Context, p producer, records []stateRecord) error {
	version, err := s.c.transactions(ctx)
	if err != nil {
		return err
	}
	lock := &session{c: s.c, timeout: lockTimeout, version: version, producer: p}
	lock.reset()
	w := s.writer(lock)
	defer w.close()
	if err := s.put(ctx, w, records); err != nil {
		return overtaken(err)
	}
	if err := lock.finish(ctx, true, false); err != nil {
		if isUnclear(err) || isContext(err) {
			return &sink.Error{Class: sink.ErrUncertain, Err: err}
		}
		return overtaken(err)
	}
	s.c.over(ctx, p.id)
	return nil
}

func overtaken(err error) error {
	if isFenced(err) || errors.Is(err, errFenced) {
		return fmt.Errorf("%w: %v", errOvertaken, err)
	}
	return err
}

func (s *Store) writer(under *session) *writer {
	return newWriter(s.c, under, nil, defaultMaxBatch, 1<<20)
}

// put adds records to a transaction and waits for them to be there.
func (s *Store) put(ctx context.Context, w *writer, records []stateRecord) error {
	for _, r := range records {
		rec := changelog.Record{Key: r.key.encode(), Value: r.value, Timestamp: time.Now().UnixMilli()}
		if err := w.add(ctx, place{s.o.Topic, 0}, &rec, origin{}); err != nil {
			return err
		}
	}
	_, err := w.flush(ctx)
	return err
}

func encodeState(values map[stateKey]any) ([]stateRecord, error) {
	var out []stateRecord
	for key, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out = append(out, stateRecord{key, b})
	}
	return out, nil
}

// Save implements [sink.Store]. The end of the transaction is the decision; it is asked for once.
func (s *Store) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	t := s.tenure(gen)
	if t == nil {
		return s.fail("save", gen.Bridge, sink.ErrFenced, fmt.Errorf("generation %d is over, or was acquired by another process", gen.ID))
	}
	again, err := t.allows(cp)
	if again || err != nil {
		return s.fail("save", gen.Bridge, sink.ErrFenced, err)
	}
	if err := ctx.Err(); err != nil {
		return s.fail("save", gen.Bridge, sink.ErrTransient, err)
	}
	if t.session == nil && t.refused == nil {
		under, err := s.c.open(ctx, s.name(gen.Bridge, gen.ID), s.o.TransactionTimeout)
		switch {
		case err == nil:
			t.session, t.w = under, s.writer(under)
		case isUnclear(err), isContext(err):
			t.refused = errors.Join(errUsedUp, err)
		case errors.Is(err, errFenced):
			t.refused = err
		default:
			return s.fail("save", gen.Bridge, sink.ErrTransient, err)
		}
	}
	if t.refused != nil {
		return s.fail("save", gen.Bridge, sink.ErrTransient, t.refused)
	}
	return s.fail("save", gen.Bridge, sink.ErrTransient, s.decide(ctx, t, t.session, t.w, cp))
}

// decide writes a checkpoint into the transaction of a session and ends it.
func (s *Store) decide(ctx context.Context, t *tenure, under *session, w *writer, cp sink.Checkpoint) error {
	next := savedOf(cp)
	err := under.over
	if err == nil {
		err = s.putCheckpoint(ctx, t, under, w, next)
	}
	if err != nil { // nothing was decided, and this generation may write no more under what was begun
		w.drop()
		if under.over == nil {
			if isFenced(err) {
				under.over = errFenced
			} else if under.begun {
				_ = under.finish(context.WithoutCancel(ctx), false, false)
			}
		}
		return err
	}
	w.empty()
	id := under.id
	if err := under.finish(ctx, true, false); err != nil {
		if isFenced(err) {
			return &sink.Error{Class: sink.ErrFenced, Err: errors.Join(errFenced, err)} // asked once, and refused
		}
		return &sink.Error{Class: sink.ErrUncertain, Err: err}
	}
	t.last = next
	for _, p := range cp.To {
		t.positions[p.Partition] = p
	}
	s.c.over(context.WithoutCancel(ctx), id)
	return nil
}

// putCheckpoint adds a checkpoint's records and the group's offsets to a transaction.
func (s *Store) putCheckpoint(ctx context.Context, t *tenure, under *session, w *writer, next *savedRecord) error {
	bridge, now := t.gen.Bridge, time.Now().UTC()
	values := map[stateKey]any{{kind: "generation", bridge: bridge, generation: t.gen.ID}: next}
	for _, to := range next.To {
		values[stateKey{kind: "position", bridge: bridge, partition: to.partitionJSON.out()}] = positionRecord{storedFormat, to, t.gen.ID, next.ID, now, next.Counters}
	}
	for _, id := range next.Settled {
		values[stateKey{kind: "settled", bridge: bridge, generation: id}] = settledRecord{storedFormat, t.ended[id]}
	}
	records, err := encodeState(values)
	if err != nil {
		return err
	}
	for _, r := range records {
		if n := batchHeader + recordOverhead + len(r.key.encode()) + len(r.value); n > defaultMaxBatch {
			return refuse(sink.ErrConfig, "the checkpoint takes %d bytes, and a record of topic %q takes %d: give the bridge fewer partitions a lane, or sinks with smaller receipts", n, s.o.Topic, defaultMaxBatch)
		}
	}
	if err := s.put(ctx, w, records); err != nil {
		return err
	}
	return s.moveGroup(ctx, t, under, next)
}
