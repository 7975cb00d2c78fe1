package kafka_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// harness describes TwoPhase to the suite. Each client has a connection of its own, as a process has.
func harness(e *env, parts int32) sinktest.Harness {
	h := sinktest.Harness{
		NotAtomic: parts > 1, // a reader sees the end of a transaction partition by partition
		WholeRows: true,      // a record of a topic is a whole row
		Timeout:   5 * time.Minute,
		Reset:     func(ctx context.Context, t *changelog.Table) error { return e.reset(ctx, t, parts) },
		Connect: func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) {
			cl := e.client()
			s, err := kafka.TwoPhase(cl, e.target(t).table, all.Formats(), e.options())
			return sinktest.Client{Sink: s, Release: cl.Close}, err
		},
		Rows:    e.rows,
		Letters: e.letters,
		Values: func(ctx context.Context, t *changelog.Table) ([]changelog.Row, error) {
			return e.target(t).reader.values(ctx)
		},
	}
	return h
}

// options are those of all clients since the last Reset: in each world of the suite the generations of its bridge begin at 1 again, and no
// bridge does that under the same transactional ids.
func (e *env) options() *kafka.Options {
	return &kafka.Options{Compression: e.compress, DeadLetterTopic: e.letterTopic, Prefix: fmt.Sprintf("%s-%d", e.name[max(0, len(e.name)-60):], e.serial)}
}

// inTransaction describes the sink that is its own store.
func inTransaction(t *testing.T, e *env, parts int32) sinktest.Harness {
	h := harness(e, parts)
	if err := e.source(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.InTransaction = true
	reset := h.Reset
	h.Reset = func(ctx context.Context, t *changelog.Table) error {
		if err := reset(ctx, t); err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.made = append(e.made, e.storeOptions(false).Topic)
		return nil
	}
	h.Connect = func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) {
		cl := e.client()
		s, err := kafka.InTransaction(cl, e.target(t).table, all.Formats(), e.storeOptions(true))
		return sinktest.Client{Sink: s, Release: cl.Close}, err
	}
	return h
}

func TestLaws_InTransaction(t *testing.T) {
	h := brief(inTransaction(t, newFake(t), partitions))
	delete(h.Skip, "L53")
	delete(h.Skip, "L54")
	sinktest.Run(t, h)
}

func TestLaws_InTransaction_TransactionVersion1(t *testing.T) {
	sinktest.Run(t, brief(inTransaction(t, newFake(t, kfake.MaxVersions(kversion.V3_9_0())), 1)))
}

func TestLaws_InTransaction_Real(t *testing.T) {
	sinktest.Run(t, brief(inTransaction(t, newReal(t), partitions)))
}

// brief leaves out the laws that take longest, where another test runs them on the same code.
func brief(h sinktest.Harness) sinktest.Harness {
	if os.Getenv("FLINKSINK_LONG") != "" {
		return h
	}
	h.Skip = map[string]string{}
	for _, id := range []string{"L47", "L48", "L49", "L53", "L54"} {
		h.Skip[id] = "takes long: run on kfake by default, and here if FLINKSINK_LONG is set"
	}
	return h
}

// only leaves out what another harness runs, but for some laws that test each claim.
func only(h sinktest.Harness, ids ...string) sinktest.Harness {
	h.Skip = map[string]string{}
	for _, l := range sinktest.Laws() {
		if !slices.Contains(append(ids, "L01", "L06", "L13", "L25", "L26", "L58"), l.ID) {
			h.Skip[l.ID] = "another test runs it on the same code"
		}
	}
	return h
}

func TestLaws_TwoPhase(t *testing.T) { sinktest.Run(t, harness(newFake(t), partitions)) }

// In a topic of one partition a checkpoint appears at once.
func TestLaws_TwoPhase_OnePartition(t *testing.T) {
	h := harness(newFake(t), 1)
	sinktest.Run(t, only(h, "L45"))
}

// Before transaction.version 2 a producer's epoch stays what it is at the end of a transaction.
func TestLaws_TwoPhase_TransactionVersion1(t *testing.T) {
	e := newFake(t, kfake.MaxVersions(kversion.V3_0_0()))
	e.compress = []kgo.CompressionCodec{kgo.ZstdCompression()}
	sinktest.Run(t, brief(harness(e, 1)))
}

func TestLaws_TwoPhase_Real(t *testing.T) { sinktest.Run(t, brief(harness(newReal(t), partitions))) }
