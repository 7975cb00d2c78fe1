package main

import (
	"cmp"
	"context"
	stdjson "encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// item is a row of four narrow columns, as table and as topic hold it; about 120 bytes with its key.
type item struct {
	ID    int64   `json:"id"`
	Cust  string  `json:"cust"`
	Qty   int64   `json:"qty"`
	Price float64 `json:"price"`
}

// itemAt is row id in one of its versions.
func itemAt(id int64, version int) item {
	h := mix(uint64(id)<<8 + uint64(version))
	return item{id, fmt.Sprintf("customer-%08d-%016x-v%d-of-the-north", id%50_000, h, version), int64(h % 1000), float64(h>>20%1_000_000) / 100}
}

func (it item) keyText() []byte { return fmt.Appendf(nil, `{"id":%d}`, it.ID) }

func (it item) text() []byte {
	return fmt.Appendf(nil, `{"id":%d,"cust":"%s","qty":%d,"price":%s}`, it.ID, it.Cust, it.Qty, strconv.FormatFloat(it.Price, 'f', -1, 64))
}

const itemColumns = "id bigint PRIMARY KEY, cust text, qty bigint, price double precision"

// shuffled is the ith of n numbers in an order that looks like none.
func shuffled(i, n int) int64 {
	// A step that shares no factor with n meets each number once.
	step := uint64(float64(n)*0.6180339887) | 1
	for gcd(step, uint64(n)) != 1 {
		step += 2
	}
	return int64(uint64(i) * step % uint64(n))
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// phase is one of two jobs: rows with new keys in the order of their keys, or one update of each of them in another order.
type phase struct {
	name  string
	topic string
	at    func(i int) item
	want  signature // of the table afterwards
	// ready holds the rows in memory for those who read no topic: batches of a checkpoint each, sorted by key.
	ready [][]item
	// copied holds the same as COPY of pgx takes it.
	copied [][][]any
}

// read makes ready of the topic: rows meet the index of the table in the order in which a consumer meets them, whoever writes them.
func (p *phase) read(ctx context.Context, broker string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(broker, ",")...), kgo.ConsumeTopics(p.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(4<<20), kgo.FetchMaxPartitionBytes(1<<20)) // as a bridge fetches
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, p.topic)
	if err != nil {
		return err
	}
	left := 0
	ends.Each(func(o kadm.ListedOffset) { left += int(o.Offset) })
	var batch []item
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			var it item
			if err := stdjson.Unmarshal(r.Value, &it); err != nil {
				return err
			}
			batch = append(batch, it)
			if left--; len(batch) == checkpointRows || left == 0 {
				p.add(batch)
				batch = nil
			}
		}
	}
	return nil
}

func (p *phase) add(batch []item) {
	slices.SortFunc(batch, func(a, b item) int { return cmp.Compare(a.ID, b.ID) })
	rows := make([][]any, len(batch))
	for i, it := range batch {
		rows[i] = []any{it.ID, it.Cust, it.Qty, it.Price}
	}
	p.ready, p.copied = append(p.ready, batch), append(p.copied, rows)
}

func (p *phase) rows() (n int) {
	for _, b := range p.ready {
		n += len(b)
	}
	return n
}
