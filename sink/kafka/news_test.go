package kafka_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// A topic that was made a moment ago is not missing because the broker that is asked has not heard of it yet, or of its leaders.
func TestNews(t *testing.T) {
	const before = 6 // answers of a broker that has not heard yet
	for _, m := range modes() {
		for name, c := range map[string]struct {
			key  kmsg.Key
			err  *kerr.Error
			only kversion.Versions // of the broker
		}{
			"metadata":      {kmsg.Metadata, kerr.UnknownTopicOrPartition, *kversion.Stable()},
			"leaders":       {kmsg.Metadata, kerr.LeaderNotAvailable, *kversion.Stable()},
			"configuration": {kmsg.DescribeConfigs, kerr.UnknownTopicOrPartition, *kversion.Stable()},
			"transaction":   {kmsg.AddPartitionsToTxn, kerr.UnknownTopicOrPartition, *kversion.V3_9_0()}, // later ones add partitions as they are written to
			"records":       {kmsg.Produce, kerr.UnknownTopicOrPartition, *kversion.Stable()},
		} {
			t.Run(string(m)+"/"+name, func(t *testing.T) {
				t.Parallel()
				e := newFake(t, kfake.MaxVersions(&c.only))
				w := newWorld(t, e, m, sinktest.Appended())
				d, cl, err := w.lane()
				must(t, err)
				defer cl.Close()
				must(t, d.Acquire(t.Context(), 0, 1))
				topic := w.target(w.topic.Table).table.Options["topic"]
				fault := kfake.Fault{Keys: []kmsg.Key{c.key}, Topic: topic, Err: c.err, Count: before}
				if c.key == kmsg.DescribeConfigs {
					fault.Topic, fault.Resource = "", topic
				}
				f := e.fake.Fault(fault)
				must(t, d.Open(t.Context()))
				must(t, d.Write(t.Context(), -1))
				must(t, d.Prepare(t.Context()))
				must(t, d.Save(t.Context()))
				must(t, d.Commit(t.Context()))
				if f.Hits() != before {
					t.Errorf("%d answers, expected %d", f.Hits(), before)
				}
				w.sees(t, "at the end", d.From...)
			})
		}
	}
}

// newsOf opens a lane on a target, or a topic of letters, that no broker knows; it takes d until that is believed.
func newsOf(t *testing.T, d time.Duration, letters bool) (open func(ctx context.Context) error, asked *kfake.FaultHandle) {
	t.Helper()
	e := newFake(t)
	w := newWorld(t, e, twoPhase, sinktest.Appended())
	topic := w.target(w.topic.Table).table.Options["topic"]
	if letters {
		topic, w.o.DeadLetterTopic = topic+"-missing", topic+"-missing"
	}
	s, err := kafka.TwoPhase(e.client(), w.target(w.topic.Table).table, all.Formats(), w.o)
	must(t, err)
	kafka.ShortenNews(s, d)
	lane := sink.Lane{Bridge: sinktest.Bridge, Sink: sinktest.SinkName, Tables: []*changelog.Table{w.topic.Table}}
	c, err := s.Lane(t.Context(), lane)
	must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	drive := sinktest.NewDriver(c, c.(sink.StoreOfferer).OfferStore(), w.topic)
	must(t, drive.Acquire(t.Context(), 0, 1))
	asked = e.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Err: kerr.UnknownTopicOrPartition, Count: -1})
	if letters {
		return func(ctx context.Context) error { return s.Check(ctx, lane) }, asked
	}
	return drive.Open, asked
}

// One that no broker hears of is missing, and that is a setting.
func TestNews_Missing(t *testing.T) {
	for _, letters := range []bool{false, true} {
		open, asked := newsOf(t, 100*time.Millisecond, letters)
		wants(t, open(t.Context()), sink.ErrConfig, "UNKNOWN_TOPIC_OR_PARTITION", "create the topic")
		if asked.Hits() < 2 {
			t.Errorf("asked %d times", asked.Hits())
		}
	}
}

// Who is told to end while a topic may still come says nothing of the topic.
func TestNews_Ended(t *testing.T) {
	open, asked := newsOf(t, time.Hour, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	waiting, over := context.WithCancel(t.Context())
	go func() {
		defer over()
		ended <- open(ctx)
	}()
	if asked.Wait(waiting, 3) != nil {
		t.Fatalf("it waits for nothing: %v", <-ended)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || sink.ClassOf(err) != sink.ErrTransient {
		t.Errorf("%v, expected that it was cancelled", err)
	}
}

// However long is waited, a known end of the time leaves some to say what is missing. A topic that comes late is waited for, and what else a broker says is not.
func TestNews_Time(t *testing.T) {
	for _, c := range []struct {
		name   string
		most   time.Duration
		end    time.Duration // of the context, known before; 0: none
		stop   time.Duration // when the context is cancelled; 0: it is not
		comes  time.Duration // when the topic does
		least  time.Duration // that is waited
		before time.Duration
		err    error
	}{
		{"missing", 10 * time.Second, 0, 0, time.Hour, 10 * time.Second, 11 * time.Second, kerr.UnknownTopicOrPartition},
		{"missing, and the time ends first", 10 * time.Second, 10 * time.Second, 0, time.Hour, 5 * time.Second, 6 * time.Second, kerr.UnknownTopicOrPartition},
		{"it comes", 10 * time.Second, 0, 0, 8 * time.Second, 8 * time.Second, 9 * time.Second, nil},
		{"it comes in the time that there is", 10 * time.Second, 10 * time.Second, 0, 4 * time.Second, 4 * time.Second, 5 * time.Second, nil},
		{"it is waited for no more", 10 * time.Second, 0, 3 * time.Second, time.Hour, 3 * time.Second, 3 * time.Second, context.Canceled},
		{"it is denied then", 10 * time.Second, 0, 0, 3 * time.Second, 3 * time.Second, 4 * time.Second, kerr.TopicAuthorizationFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, began := t.Context(), time.Now()
				if c.end > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.end)
					defer cancel()
				}
				if c.stop > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(ctx)
					defer cancel()
					defer time.AfterFunc(c.stop, cancel).Stop()
				}
				err := kafka.Hears(ctx, c.most, func() error {
					if time.Since(began) < c.comes {
						return kerr.UnknownTopicOrPartition
					}
					if errors.Is(c.err, kerr.TopicAuthorizationFailed) {
						return c.err
					}
					return nil
				})
				if took := time.Since(began); !errors.Is(err, c.err) || took < c.least || took > c.before {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}
