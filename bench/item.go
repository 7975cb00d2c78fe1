package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// phase is one job on a table, in a topic of its own: it writes each row of the table once, or deletes each once.
type phase struct {
	name    string
	shape   *rows.Shape
	n       int
	at      func(i int) (id int64, version int)
	deletes bool
	topic   string
	want    string // the signature of the table afterwards
	// order holds the rows as a consumer of the topic meets them; of deletes the keys alone.
	order [][]any
	cuts  map[int][]batch
}

// batch is what those write who read no topic: one transaction, ready in memory and sorted by key.
type batch struct {
	rows   [][]any
	chunks [][]any // parameters of statements: a slice for each column, of unnestChunk rows at most
}

// record is the ith of the topic.
func (p *phase) record(i int) (key, value []byte) {
	id, version := p.at(i)
	if p.deletes {
		return rows.Key(id), nil
	}
	return rows.Key(id), p.shape.Value(p.shape.Row(id, version))
}

// read makes order of the topic: rows meet the index of the table in the order in which a consumer meets them, whoever writes them.
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
	if left != p.n {
		return fmt.Errorf("topic %s holds %d records, and must hold %d", p.topic, left, p.n)
	}
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			var row []any
			if p.deletes {
				var id int64
				id, err = rows.ParseKey(r.Key)
				row = []any{id}
			} else {
				row, err = p.shape.Parse(r.Value)
			}
			if err != nil {
				return err
			}
			p.order = append(p.order, row)
			left--
		}
	}
	return nil
}

// cut makes transactions of so many rows, once.
func (p *phase) cut(size int) []batch {
	if p.cuts == nil {
		p.cuts = make(map[int][]batch)
	}
	if p.cuts[size] != nil {
		return p.cuts[size]
	}
	var out []batch
	for part := range slices.Chunk(p.order, size) {
		b := batch{rows: slices.Clone(part)}
		slices.SortFunc(b.rows, func(x, y []any) int { return cmp.Compare(x[0].(int64), y[0].(int64)) })
		for chunk := range slices.Chunk(b.rows, unnestChunk) {
			b.chunks = append(b.chunks, columnwise(chunk))
		}
		out = append(out, b)
	}
	p.cuts[size] = out
	return out
}

// columnwise makes a slice of its own type of each column.
func columnwise(chunk [][]any) (out []any) {
	for c := range chunk[0] {
		switch chunk[0][c].(type) {
		case int64:
			out = append(out, column[int64](chunk, c))
		case float64:
			out = append(out, column[float64](chunk, c))
		default:
			out = append(out, column[string](chunk, c))
		}
	}
	return out
}

func column[T any](chunk [][]any, c int) []T {
	out := make([]T, len(chunk))
	for i, row := range chunk {
		out[i] = row[c].(T)
	}
	return out
}

// insertsOf, updatesOf and deletesOf are the three jobs: rows with new keys in the order of their keys, one update of each of them in another
// order, and the delete of each of them in yet another.
func insertsOf(s *rows.Shape, n int) *phase {
	return &phase{name: "new keys", shape: s, n: n, at: func(i int) (int64, int) { return int64(i), 0 }}
}

func updatesOf(s *rows.Shape, n int) *phase {
	return &phase{name: "updates", shape: s, n: n, at: func(i int) (int64, int) { return rows.Shuffled(i, n), 1 }}
}

func deletesOf(s *rows.Shape, n int) *phase {
	return &phase{name: "deletes", shape: s, n: n, deletes: true, at: func(i int) (int64, int) { return rows.Shuffled(n-1-i, n), 0 }}
}

// neighboursOf updates each row too, in the order of the keys: a transaction updates whole pages.
func neighboursOf(s *rows.Shape, n int) *phase {
	return &phase{name: "dense", shape: s, n: n, at: func(i int) (int64, int) { return int64(i), 1 }}
}
