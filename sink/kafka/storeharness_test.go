package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"
)

// source makes the topics that the suite's positions are of: a group holds offsets only of topics that are there.
func (e *env) source(ctx context.Context) error {
	for _, name := range []string{sinktest.KeyedTable, sinktest.AppendTable, sinktest.TextTable, sinktest.TypeTable} {
		if _, err := e.kadm.CreateTopic(ctx, 8, 1, nil, name); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
	}
	return nil
}

// storeOptions are those of a store that knows nothing yet.
func (e *env) storeOptions(group bool) *kafka.Options {
	o := e.options()
	o.Topic = e.name + fmt.Sprintf("-store-%d", e.serial)
	if group {
		o.Group = o.Topic
	}
	return o
}

func storeHarness(t *testing.T, e *env, group bool) sinktest.StoreHarness {
	if err := e.source(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sinktest.StoreHarness{
		Reset: func(ctx context.Context) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.serial++
			e.made = append(e.made, e.storeOptions(false).Topic)
			return nil
		},
		Connect: func(ctx context.Context) (sink.Store, error) {
			return kafka.NewStore(e.client(), e.storeOptions(group))
		},
	}
}

func TestStoreLaws(t *testing.T) {
	e := newFake(t)
	sinktest.RunStore(t, storeHarness(t, e, true))
}

func TestStoreLaws_TransactionVersion1(t *testing.T) {
	e := newFake(t, kfake.MaxVersions(kversion.V3_9_0()))
	h := storeHarness(t, e, false) // and without a group
	h.Skip = brief(sinktest.Harness{}).Skip
	sinktest.RunStore(t, h)
}

func TestStoreLaws_Real(t *testing.T) {
	e := newReal(t)
	h := storeHarness(t, e, true)
	h.Skip = brief(sinktest.Harness{}).Skip
	sinktest.RunStore(t, h)
}
