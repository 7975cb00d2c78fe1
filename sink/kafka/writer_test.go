package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produces counts requests, and what the brokers did to slow the client down.
type produces struct{ requests, throttled atomic.Int64 }

func (p *produces) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, _ kgo.BrokerE2E) {
	if key == int16(kmsg.Produce) {
		p.requests.Add(1)
	}
}

func (p *produces) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	if d > 0 {
		p.throttled.Add(1)
	}
}

// P77: a checkpoint that takes many loads, some of them refused for the moment, has every record once, in its order and with its own bytes, though the memory
// of a load that arrived is used for a later one.
func TestWriter_ManyLoads(t *testing.T) {
	const versions, large = 400, 9_000 // bytes of a row; 10 MB in all
	for _, m := range modes() {
		e := newFake(t)
		w := newWorld(t, e, m, sinktest.Keyed())
		w.topic = sinktest.NewTopic(w.topic.Table)
		text := func(id int64, v int) string {
			return fmt.Sprintf("%d of key %d %s", v, id, strings.Repeat(string(rune('a'+(v+int(id))%26)), large))
		}
		for v := range versions {
			for id := range int64(3) {
				w.topic.Put(int32(id%2), sinktest.UpdateAfter(id, text(id, v)))
			}
		}
		seen := new(produces)
		d := w.opened(t, kgo.WithHooks(seen))
		for _, err := range []*kerr.Error{kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.LeaderNotAvailable} {
			for p := range int32(partitions) {
				e.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err, Partitions: []int32{p}, Count: 1})
			}
		}
		for checkpoint := 1; checkpoint <= 2; checkpoint++ {
			most := versions / 2
			if checkpoint == 2 {
				most = -1
			}
			must(t, d.Write(t.Context(), most))
			must(t, d.Prepare(t.Context()))
			must(t, d.Save(t.Context()))
			must(t, d.Commit(t.Context()))
		}
		if n := seen.requests.Load(); n < 8 {
			t.Fatalf("%d produce requests: these were no loads", n)
		}
		reader := w.target(w.topic.Table).reader
		must(t, reader.read(t.Context()))
		next := map[int64]int{}
		for _, r := range reader.records {
			var row struct {
				ID int64  `json:"id"`
				V  string `json:"v"`
			}
			must(t, json.Unmarshal(r.Value, &row))
			if want := text(row.ID, next[row.ID]); row.V != want {
				t.Fatalf("%s: record %d of key %d is %.30q, expected is %.30q", m, next[row.ID], row.ID, row.V, want)
			}
			next[row.ID]++
		}
		for id := range int64(3) {
			if next[id] != versions {
				t.Errorf("%s: %d records of key %d, expected are %d", m, next[id], id, versions)
			}
		}
	}
}

// A broker that slows the client down by a quota delays a checkpoint, and nothing is lost or doubled.
func TestWriter_Quota_Real(t *testing.T) {
	for _, m := range modes() {
		e := newReal(t)
		w := newWorld(t, e, m, sinktest.Appended())
		w.topic = sinktest.NewTopic(w.topic.Table)
		w.topic.Put(1)
		for i := range int64(10) {
			w.topic.Put(0, sinktest.Insert(i, strings.Repeat("x", 15_000)))
		}
		entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &e.name}}
		set := func(remove bool) {
			resp, err := e.kadm.AlterClientQuotas(context.Background(), []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 12_000, Remove: remove}}}})
			must(t, err)
			must(t, resp[0].Err)
		}
		set(false)
		t.Cleanup(func() { set(true) })
		seen := new(produces)
		d := w.opened(t, kgo.WithHooks(seen), kgo.ClientID(e.name))
		must(t, carry(t.Context(), d, -1))
		w.sees(t, string(m), w.topic.End(0), w.topic.End(1))
		if seen.throttled.Load() == 0 {
			t.Errorf("%s: the broker did not slow the client down: this shows nothing", m)
		}
	}
}
