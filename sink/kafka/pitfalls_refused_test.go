package kafka_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
)

// P86, P87: one record too large among many is refused by name, before it is sent or by the broker, and nothing else is lost or sent for ever.
func TestPitfall_TooLarge(t *testing.T) {
	for _, m := range modes() {
		for _, by := range []string{"the writer", "the broker"} {
			t.Run(string(m)+"/"+by, func(t *testing.T) {
				e := newFake(t)
				w := newWorld(t, e, m, sinktest.Appended())
				w.topic = sinktest.NewTopic(w.topic.Table)
				w.topic.Put(1)
				large := strings.Repeat("x", 200_000)
				for i := range int64(50) {
					v := "small"
					if i == 20 {
						v = large
					}
					w.topic.Put(0, sinktest.Insert(i, v))
				}
				limit := func() {
					name := w.target(w.topic.Table).table.Options["topic"]
					value := "100000"
					resp, err := e.kadm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &value}}, name)
					must(t, err)
					must(t, resp[0].Err)
				}
				if by == "the writer" {
					limit()
				}
				d := w.opened(t)
				if by == "the broker" {
					limit() // nobody told the lane
				}
				err := d.Write(t.Context(), -1)
				if err == nil {
					err = d.Prepare(t.Context())
				}
				wants(t, err, sink.ErrRejected, "max.message.bytes")
				var se *sink.Error
				if !errors.As(err, &se) || len(se.Rejected) != 1 || se.Rejected[0].Offset != 20 {
					t.Fatalf("the refused change is not named: %+v", se)
				}
				if d.Prepare(t.Context()) == nil {
					t.Fatal("a checkpoint with a hole was prepared")
				}
				must(t, d.Discard(t.Context()))
				w.sees(t, "after it was refused")
				must(t, d.Write(t.Context(), 20)) // the 20 before it
				must(t, d.Prepare(t.Context()))
				must(t, d.Save(t.Context()))
				must(t, d.Commit(t.Context()))
				w.sees(t, "after the records before it", d.From...)
				for p := range d.To {
					if p == 0 {
						d.To[p].Offset = 21 // it is set aside
					}
				}
				must(t, d.Write(t.Context(), -1))
				must(t, d.Prepare(t.Context()))
				must(t, d.Save(t.Context()))
				must(t, d.Commit(t.Context()))
				rows, err := e.rows(t.Context(), w.topic.Table)
				must(t, err)
				if len(rows) != 49 {
					t.Errorf("%d rows, expected 49", len(rows))
				}
			})
		}
	}
}

// P95, P96: time-outs that cannot hold are found at the start, with both settings in one error, and Close finds nothing more.
func TestPitfall_Timeouts(t *testing.T) {
	e := newFake(t, kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "60000"}))
	for _, m := range modes() {
		w := newWorld(t, e, m, sinktest.Appended())
		w.o.TransactionTimeout = time.Hour
		d, cl, err := w.lane()
		must(t, err)
		defer cl.Close()
		err = d.Acquire(t.Context(), 0, 1)
		if err == nil {
			err = d.Open(t.Context())
		}
		wants(t, err, sink.ErrConfig, "transaction.max.timeout.ms", "1m0s", "1h0m0s")
		must(t, d.Close(t.Context()))
		w.o.TransactionTimeout, w.o.MaxDowntime = 10*time.Second, 30*time.Second
		if _, err = w.laneOn(cl); m == twoPhase {
			wants(t, err, sink.ErrConfig, "Options.TransactionTimeout", "Options.MaxDowntime", "30s")
		} else { // nothing is decided before it is visible
			must(t, err)
		}
	}
}
