package kafka_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// handingOn is a sink that is given batches as a bridge gives them where values are handed on: with the message's value beside each change, spelt as this sink never
// spells one, so that it can be seen in the topic.
type handingOn struct {
	*kafka.Sink
	encoder changelog.Encoder // of the target's encoding
	handed  *atomic.Int64     // originals that were given
}

const strange = "{ \t"

func withOriginals(s *kafka.Sink, into *ddl.Table, handed *atomic.Int64) (sink.Sink, error) {
	e, err := format.NewEncoder(into, all.Formats(), nil)
	return handingOn{s, e, handed}, err
}

// Lane implements [sink.Sink].
func (s handingOn) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	if len(l.Tables) != 1 {
		return s.Sink.Lane(ctx, l)
	}
	table := *l.Tables[0]
	table.Encoding = s.encoder.Table().Encoding
	l.Tables = []*changelog.Table{&table}
	c, err := s.Sink.Lane(ctx, l)
	if err != nil {
		return nil, err
	}
	w := &handedLane{Committer: c, Spiller: c.(sink.Spiller), StoreOfferer: c.(sink.StoreOfferer), table: &table, by: s}
	if k, ok := c.(sink.DeadLetterKeeper); ok {
		w.DeadLetterKeeper = k
	}
	store, own := c.(sink.Store)
	switch {
	case own && w.DeadLetterKeeper != nil:
		return struct {
			*handedStore
			sink.DeadLetterKeeper
		}{&handedStore{w, store}, w.DeadLetterKeeper}, nil
	case own:
		return &handedStore{w, store}, nil
	case w.DeadLetterKeeper == nil:
		return &struct {
			sink.Committer
			sink.Spiller
			sink.StoreOfferer
		}{w, w, w}, nil
	}
	return w, nil
}

type handedLane struct {
	sink.Committer
	sink.Spiller
	sink.StoreOfferer
	sink.DeadLetterKeeper
	table *changelog.Table
	by    handingOn
}

// Write implements [sink.Committer].
func (l *handedLane) Write(ctx context.Context, b *changelog.Batch) error {
	if b.Table.Name != l.table.Name {
		return l.Committer.Write(ctx, b)
	}
	mine := changelog.NewBatch(l.table)
	mine.Changes = b.Changes
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Index != 0 {
			continue
		}
		o := changelog.Original{Partition: c.Partition, Offset: c.Offset, Changes: 1}
		for i+int(o.Changes) < len(b.Changes) && o.Of(&b.Changes[i+int(o.Changes)]) {
			o.Changes++
		}
		var r changelog.Record
		if c.Kind.Adds() && l.by.encoder.Encode(&r, c) == nil {
			o.Value = []byte(strings.Replace(string(r.Value), "{", strange, 1))
			l.by.handed.Add(1)
		}
		mine.Originals = append(mine.Originals, o)
	}
	return l.Committer.Write(ctx, mine)
}

type handedStore struct {
	*handedLane
	sink.Store
}

// Close implements both.
func (s *handedStore) Close(ctx context.Context) error { return s.handedLane.Close(ctx) }

// handsOn runs the suite's clients with originals, and looks that they were made use of.
func handsOn(t *testing.T, e *env, h sinktest.Harness, own bool) sinktest.Harness {
	var handed atomic.Int64
	h.Connect = func(ctx context.Context, table *changelog.Table) (sinktest.Client, error) {
		cl := e.client()
		make, o := kafka.TwoPhase, e.options()
		if own {
			make, o = kafka.InTransaction, e.storeOptions(true)
		}
		s, err := make(cl, e.target(table).table, all.Formats(), o)
		if err != nil {
			return sinktest.Client{}, err
		}
		on, err := withOriginals(s, e.target(table).table, &handed)
		return sinktest.Client{Sink: on, Release: cl.Close}, err
	}
	found := 0
	rows := h.Rows
	h.Rows = func(ctx context.Context, table *changelog.Table) ([]sinktest.Row, error) {
		out, err := rows(ctx, table)
		for _, r := range e.target(table).reader.records {
			if strings.HasPrefix(string(r.Value), strange) {
				found++
			}
		}
		return out, err
	}
	t.Cleanup(func() {
		if handed.Load() == 0 || found == 0 {
			t.Errorf("%d values were given, and %d of them found: nothing was handed on", handed.Load(), found)
		}
	})
	return h
}

func TestLaws_TwoPhase_HandedOn(t *testing.T) {
	e := newFake(t)
	sinktest.Run(t, handsOn(t, e, brief(harness(e, partitions)), false))
}

func TestLaws_InTransaction_HandedOn(t *testing.T) {
	e := newFake(t)
	sinktest.Run(t, handsOn(t, e, brief(inTransaction(t, e, partitions)), true))
}
