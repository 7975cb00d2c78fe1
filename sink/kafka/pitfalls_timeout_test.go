package kafka_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// P95: a transaction has to outlast the time between two checkpoints, and a decided one of TwoPhase the time in which no process is there as well. Who is not told at the
// start learns of it by a loss, when the bridge is down.
func TestPitfall_TimeoutBelowInterval(t *testing.T) {
	cl, err := kgo.NewClient() // never asked for anything
	must(t, err)
	defer cl.Close()
	source := sinktest.Appended()
	target, err := ddl.Find(into(source, "t"), "")
	must(t, err)
	for _, c := range []struct {
		own                     bool
		timeout, away, interval time.Duration
		refused                 []string // what the error names; nil: none
	}{
		{false, 0, 0, 13 * time.Minute, nil}, // of 15 minutes, one is for a restart
		{false, 0, 0, 14 * time.Minute, []string{"Options.TransactionTimeout is 15m0s", "Options.Interval is 14m0s", "Options.MaxDowntime is 1m0s", "transaction.max.timeout.ms"}},
		{false, 0, kafka.NoDowntime, 14 * time.Minute, nil},
		{false, 0, kafka.NoDowntime, 15 * time.Minute, []string{"Options.Interval is 15m0s"}},
		{false, 2 * time.Hour, time.Hour, 30 * time.Minute, nil},
		{false, 2 * time.Hour, 2 * time.Hour, 0, []string{"Options.TransactionTimeout is 2h0m0s", "Options.MaxDowntime is 2h0m0s"}},
		{false, 0, 0, 0, nil}, // the loop does not tell its interval
		{false, 10 * time.Second, 0, 0, []string{"Options.TransactionTimeout is 10s", "Options.MaxDowntime is 1m0s"}},
		{false, 0, -time.Minute, 0, []string{"Options.MaxDowntime is -1m0s", "NoDowntime"}},
		{true, 0, 0, 14 * time.Minute, nil},
		{true, 0, time.Hour, time.Second, nil}, // nothing is decided before it is visible
		{true, 0, 0, 15 * time.Minute, []string{"Options.TransactionTimeout is 15m0s", "Options.Interval is 15m0s", "abort each checkpoint"}},
	} {
		name := fmt.Sprintf("own %t, timeout %v, away %v, interval %v", c.own, c.timeout, c.away, c.interval)
		build := kafka.TwoPhase
		if c.own {
			build = kafka.InTransaction
		}
		s, err := build(cl, target, all.Formats(), &kafka.Options{TransactionTimeout: c.timeout, MaxDowntime: c.away})
		if err == nil {
			_, err = s.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: []*changelog.Table{source}, Interval: c.interval})
		}
		switch {
		case c.refused == nil && err != nil, c.refused != nil && sink.ClassOf(err) != sink.ErrConfig:
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range c.refused {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not name %q", name, err, part)
			}
		}
	}
}

// P95: a bridge tells its sinks its interval, so that nobody has to think of it.
func TestPitfall_BridgeWithLongInterval(t *testing.T) {
	e := newFake(t)
	from, err := e.topic(t.Context(), "from", 1, nil)
	must(t, err)
	to, err := e.topic(t.Context(), "to", 1, nil)
	must(t, err)
	cl := e.client()
	defer cl.Close()
	s := shop{}
	source := s.table(t, e, shopColumns, shopWith, from)
	d, err := format.New(source, all.Formats(), nil)
	must(t, err)
	in, err := bridge.FromTable(source, d)
	must(t, err)
	out, err := kafka.TwoPhase(cl, s.table(t, e, shopColumns, shopWith, to), all.Formats(), &kafka.Options{Prefix: to, Topic: to + "-checkpoints"})
	must(t, err)
	b, err := bridge.New(to, in, out, &bridge.Options{Interval: time.Hour})
	must(t, err)
	wants(t, b.Run(t.Context()), sink.ErrConfig, "Options.TransactionTimeout", "Options.Interval is 1h0m0s", "Options.MaxDowntime")
}
