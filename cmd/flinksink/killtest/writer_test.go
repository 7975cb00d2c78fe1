package killtest

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 3
	writers    = 2    // a topic; their transactions lie in one another
	keys       = 2500 // a writer
	doom       = 20   // of 100 transactions are aborted
)

// writer writes transactions into a topic. Each of its keys is nobody else's, so their order is its own; what it aborts concerns
// everybody's keys.
type writer struct {
	s      *subject
	number int
	r      *rand.Rand
	cl     *kgo.Client
	seq    int64
	live   [keys]bool   // keyed topics
	rows   [keys][]byte // debezium topics
}

func newWriter(s *subject, number int, seed uint64) (*writer, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(s.topic),
		kgo.TransactionalID(fmt.Sprintf("%s-writer-%d", s.topic, number)), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	return &writer{s: s, number: number, cl: cl, r: rand.New(rand.NewPCG(seed, uint64(number)))}, nil
}

// run writes a transaction of each size that it gets, until there are no more or ctx ends.
func (w *writer) run(ctx context.Context, sizes <-chan int) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case n, more := <-sizes:
			if !more {
				return nil
			}
			if err := w.transaction(ctx, n); err != nil {
				return fmt.Errorf("writer %d of %s: %w", w.number, w.s.topic, err)
			}
		}
	}
}

// transaction writes n records in one transaction, in two pieces. Its end is decided before it begins, and the oracle is told before
// the broker is.
func (w *writer) transaction(ctx context.Context, n int) error {
	doomed := w.r.IntN(100) < doom
	if err := w.cl.BeginTransaction(); err != nil {
		return err
	}
	var noted []record
	for _, n := range []int{n / 2, n - n/2} {
		var out []*kgo.Record
		var rs []record
		for range n {
			bad, class := w.bad()
			switch {
			case bad != nil: // in an aborted transaction it is as little of a dead letter as a change is one of the table
				out, rs = append(out, bad), append(rs, record{bad: class})
			case doomed:
				out, rs = append(out, w.poison()), append(rs, record{})
			default:
				more, those := w.change()
				out, rs = append(out, more...), append(rs, those...)
			}
		}
		if n == 0 {
			continue
		}
		if err := w.cl.ProduceSync(ctx, out...).FirstErr(); err != nil {
			return err
		}
		for i, r := range out {
			rs[i].partition, rs[i].offset = r.Partition, r.Offset
			if !w.s.keyed {
				rs[i].key = fmt.Sprintf("%d/%d", r.Partition, r.Offset)
			}
		}
		noted = append(noted, rs...)
	}
	if doomed {
		w.s.truth.aborts(n)
		return w.cl.EndTransaction(ctx, kgo.TryAbort)
	}
	w.s.truth.commits(noted)
	return w.cl.EndTransaction(ctx, kgo.TryCommit)
}

// change is the next change. Half of the changes of a keyed topic concern few keys, so that a batch holds several of one key. In a debezium
// topic an update is two messages, as Flink writes it.
func (w *writer) change() ([]*kgo.Record, []record) {
	w.seq++
	if !w.s.keyed {
		body := w.text()
		value := fmt.Appendf(nil, `{"writer":%d,"n":%d,"body":%s}`, w.number, w.seq, quoted(body))
		return []*kgo.Record{{Value: value, Partition: w.r.Int32N(partitions)}},
			[]record{{row: fmt.Sprintf("%d|%d|%s", w.number, w.seq, shown(body)), number: w.seq}}
	}
	k := w.r.IntN(keys)
	if w.r.IntN(2) == 0 {
		k = w.r.IntN(40)
	}
	region, id := name(k*writers + w.number)
	var out []*kgo.Record
	var rs []record
	deletes := w.live[k] && w.r.IntN(4) == 0
	if deletes || w.live[k] && w.s.kind == "debezium" {
		r := keyed(region, id, nil)
		if w.s.kind == "debezium" {
			r.Value = fmt.Appendf(nil, `{"before":%s,"after":null,"op":"d"}`, w.rows[k])
		}
		out, rs = append(out, r), append(rs, record{key: region + "/" + fmt.Sprint(id), gone: true})
	}
	if w.live[k] = !deletes; deletes {
		return out, rs
	}
	amount := fmt.Sprintf("%d.%02d", w.r.IntN(1_000_000), w.r.IntN(100))
	note := w.text()
	at := time.UnixMilli(1_700_000_000_000 + w.seq*977).UTC().Format("2006-01-02 15:04:05.000")
	row := fmt.Appendf(nil, `{"region":%q,"id":%d,"seq":%d,"amount":%s,"note":%s,"at":%q}`, region, id, w.seq, amount, quoted(note), at)
	r := keyed(region, id, row)
	if w.s.kind == "debezium" {
		w.rows[k] = row
		r.Value = fmt.Appendf(nil, `{"before":null,"after":%s,"op":"c"}`, row)
	}
	return append(out, r), append(rs, record{key: region + "/" + fmt.Sprint(id), row: fmt.Sprintf("%d|%s|%s|%s", w.seq, amount, shown(note), at), number: w.seq})
}

// poison is a record that would be wrong if it took effect: it deletes what is there, changes it, or brings back what is gone.
func (w *writer) poison() *kgo.Record {
	if !w.s.keyed {
		return &kgo.Record{Value: fmt.Appendf(nil, `{"writer":%d,"n":%d,"body":"aborted"}`, w.number, -1-w.r.Int64N(1000)), Partition: w.r.Int32N(partitions)}
	}
	region, id := name(w.r.IntN(keys * writers))
	row := fmt.Appendf(nil, `{"region":%q,"id":%d,"seq":%d,"amount":-1.00,"note":"aborted","at":"1999-01-01 00:00:00.000"}`, region, id, int64(1)<<60)
	deletes := w.r.IntN(3) == 0
	switch {
	case w.s.kind == "debezium" && deletes:
		row = fmt.Appendf(nil, `{"before":%s,"after":null,"op":"d"}`, row)
	case w.s.kind == "debezium":
		row = fmt.Appendf(nil, `{"before":null,"after":%s,"op":"c"}`, row)
	case deletes:
		row = nil
	}
	return keyed(region, id, row)
}

// name is the primary key of the ith account.
func name(i int) (region string, id int64) { return fmt.Sprintf("r%d", i%7), int64(i) }

func keyed(region string, id int64, value []byte) *kgo.Record {
	key := fmt.Appendf(nil, `{"region":%q,"id":%d}`, region, id)
	h := fnv.New32a()
	h.Write(key)
	return &kgo.Record{Key: key, Value: value, Partition: int32(h.Sum32() % partitions)}
}

// text is a string or, as nil, NULL.
func (w *writer) text() *string {
	all := []string{"", "plain", `"quoted" and \ and 'single'`, "tab\t, line\n", "żółć ✓ 𝄞", "NULL", `\N`}
	i := w.r.IntN(len(all) + 1)
	if i == len(all) {
		return nil
	}
	return &all[i]
}

func quoted(s *string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte("null")
	}
	return b
}

// shown is how a text stands in a row of the oracle.
func shown(s *string) string {
	if s == nil {
		return "none"
	}
	return "=" + *s
}
