package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// store is a store beside the suite's memory sink, and a lane over both.
func (w *world) store(t *testing.T, o *kafka.Options) *sinktest.Driver {
	t.Helper()
	cl := w.client()
	t.Cleanup(cl.Close)
	s, err := kafka.NewStore(cl, o)
	must(t, err)
	c, err := sinktest.NewSink(sinktest.NewServer(), nil).Lane(t.Context(), sink.Lane{Bridge: sinktest.Bridge, Sink: sinktest.SinkName, Tables: []*changelog.Table{w.topic.Table}})
	must(t, err)
	return sinktest.NewDriver(c, s, w.topic)
}

// P93: the broker forgets the offsets of a group that was empty for long, or somebody deletes the group. The positions are in the topic, so
// nothing is lost and nothing begins anew.
func TestStore_GroupForgotten(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, inOneTransact, sinktest.Appended())
		d := w.opened(t)
		must(t, d.Write(t.Context(), 2))
		must(t, d.Prepare(t.Context()))
		must(t, d.Save(t.Context()))
		resp, err := e.kadm.DeleteGroup(t.Context(), w.o.Group)
		must(t, errors.Join(err, resp.Err))
		next := w.opened(t)
		if next.From[0].Offset != 2 || next.From[1].Offset != 2 {
			t.Errorf("the successor begins at %v, saved was offset 2", next.From)
		}
		must(t, carry(t.Context(), next, -1))
		w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
	})
}

// The topic is gone, and the group remembers a checkpoint: ErrLost, and no fresh start. So it is for a process that had read it.
func TestStore_TopicLost(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, inOneTransact, sinktest.Appended())
		d := w.opened(t)
		must(t, d.Write(t.Context(), 2))
		must(t, d.Prepare(t.Context()))
		must(t, d.Save(t.Context()))
		_, err := e.kadm.DeleteTopics(t.Context(), w.o.Topic)
		must(t, err)
		for gone := false; !gone; {
			m, err := e.kadm.Metadata(t.Context(), w.o.Topic)
			must(t, err)
			gone = m.Topics[w.o.Topic].Err != nil
		}
		next, cl, err := w.lane()
		must(t, err)
		defer cl.Close()
		wants(t, next.Acquire(t.Context(), 0, 1), sink.ErrLost, w.o.Group, w.o.Topic, "offset 2")
		wants(t, d.Acquire(t.Context(), 0, 1), sink.ErrLost, "made anew")
	})
}

// A topic that would forget, or that somebody else writes to, is refused.
func TestStore_TopicUnfit(t *testing.T) {
	e := newFake(t)
	w := newWorld(t, e, twoPhase, sinktest.Appended())
	policy := "delete"
	_, err := e.kadm.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy}, "forgets")
	must(t, err)
	_, err = e.kadm.CreateTopic(t.Context(), 2, 1, nil, "wide")
	must(t, err)
	policy = "compact"
	_, err = e.kadm.CreateTopic(t.Context(), 2, 1, map[string]*string{"cleanup.policy": &policy}, "wide-compacted")
	must(t, err)
	_, err = e.kadm.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy}, "foreign")
	must(t, err)
	must(t, e.admin.ProduceSync(t.Context(), &kgo.Record{Topic: "foreign", Key: []byte("k"), Value: []byte("v")}).FirstErr())
	for topic, says := range map[string]string{"forgets": "cleanup.policy=delete", "wide": "cleanup.policy", "wide-compacted": "2 partitions", "foreign": "no store wrote"} {
		o := *w.o
		o.Topic = topic
		wants(t, w.store(t, &o).Acquire(t.Context(), 0, 1), sink.ErrConfig, says)
	}
}

// consume joins a group and waits until it has the source's partitions.
func (w *world) consume(t *testing.T, group string, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	assigned := make(chan struct{}, 100)
	cl := w.client(append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(sinktest.AppendTable), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			select {
			case assigned <- struct{}{}:
			default:
			}
		})}, o...)...)
	t.Cleanup(cl.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go cl.PollFetches(ctx)
	<-assigned
	return cl
}

// next848 makes a client a member of a group of the new protocol (KIP-848).
func next848() kgo.Opt {
	return kgo.WithContext(context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)) //nolint:staticcheck // the client's own key
}

// Checkpoints move the offsets of a group with live members, of the classic protocol and of the new one, with and without the member's own
// generation; the checkpoint of a member that was expelled is refused (KIP-447).
func TestStore_LiveGroup(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		for name, opts := range map[string][]kgo.Opt{"classic": nil, "KIP-848": {next848()}} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, e, inOneTransact, sinktest.Appended())
				member := w.consume(t, w.o.Group, opts...)
				checkpoint := func(d *sinktest.Driver) error {
					must(t, d.Write(t.Context(), 1))
					must(t, d.Prepare(t.Context()))
					return d.Save(t.Context())
				}
				at := func(want int64) {
					t.Helper()
					got, err := e.kadm.FetchOffsets(t.Context(), w.o.Group)
					must(t, err)
					if o, ok := got.Lookup(sinktest.AppendTable, 0); !ok || o.At != want {
						t.Errorf("the group is at %d, expected %d", o.At, want)
					}
				}
				d := w.opened(t)
				must(t, checkpoint(d))
				at(1)
				w.o.Member = member.GroupMetadata
				for { // a generation may come between, while the group settles; a member hears of it when its heartbeat is answered
					_, was := member.GroupMetadata()
					err := checkpoint(w.opened(t))
					if err == nil {
						break
					}
					wants(t, err, sink.ErrFenced)
					for pauses := 0; pauses < 100; pauses++ {
						if _, is := member.GroupMetadata(); is != was {
							break
						}
						time.Sleep(10 * time.Millisecond) // nobody tells
					}
				}
				at(2)
				id, generation := member.GroupMetadata()
				w.o.Member = func() (string, int32) { return id, generation }
				d = w.opened(t)
				member.Close()
				wants(t, checkpoint(d), sink.ErrFenced, w.o.Group)
				w.o.Member = nil
				d = w.opened(t)
				must(t, carry(t.Context(), d, -1))
				at(w.topic.End(0).Offset)
				w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
			})
		}
	})
}

// Many lanes of one bridge acquire and save side by side, in several processes: none disturbs another, and each partition has one owner.
func TestStore_SideBySide(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, twoPhase, sinktest.Appended())
		const lanes, checkpoints = 6, 5
		errs := make(chan error, lanes)
		for n := range int32(lanes) {
			topic := sinktest.NewTopic(w.topic.Table)
			for i := range int64(checkpoints) {
				topic.Put(n, sinktest.Insert(i, fmt.Sprint("lane ", n)))
			}
			d := w.store(t, w.o)
			d.Topic = topic
			go func() {
				errs <- func() error {
					ctx := t.Context()
					if err := d.Acquire(ctx, n); err != nil {
						return err
					}
					if err := d.Open(ctx); err != nil {
						return err
					}
					for range checkpoints {
						if err := errors.Join(d.Write(ctx, 1), d.Prepare(ctx), d.Save(ctx), d.Commit(ctx)); err != nil {
							return err
						}
					}
					return nil
				}()
			}()
		}
		for range lanes {
			must(t, <-errs)
		}
		state, err := w.store(t, w.o).Store.Read(t.Context(), sinktest.Bridge)
		must(t, err)
		owners := map[sink.GenerationID]bool{}
		for _, p := range state.Positions {
			owners[p.Owner] = true
			if p.Offset != checkpoints {
				t.Errorf("%s is at %d", p.Partition, p.Offset)
			}
		}
		if len(state.Positions) != lanes || len(owners) != lanes {
			t.Errorf("%d positions of %d owners, expected %d of each", len(state.Positions), len(owners), lanes)
		}
	})
}

// The log that the store keeps is compacted under it; a reader that begins then finds the same.
func TestStore_Compacted(t *testing.T) {
	e := newFake(t)
	w := newWorld(t, e, inOneTransact, sinktest.Appended())
	for range 5 {
		d := w.opened(t)
		must(t, d.Write(t.Context(), 1))
		must(t, d.Prepare(t.Context()))
		must(t, d.Save(t.Context()))
	}
	read := func() sink.State {
		s, err := w.store(t, w.o).Store.Read(t.Context(), sinktest.Bridge)
		must(t, err)
		return s
	}
	before := read()
	value := "1"
	_, err := e.kadm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.bytes", Value: &value}}, w.o.Topic)
	must(t, err)
	e.fake.Compact()
	after := read()
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("compaction changed what is read:\n%v\n%v", before, after)
	}
	must(t, carry(t.Context(), w.opened(t), 1))
	w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
}
