package main

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// job is one topic, and the table that it makes of another.
type job struct {
	name    string
	topic   string
	records int
	loaded  bool    // the table begins as a copy of base
	want    string  // signature of the table in the end
	ready   [][]any // the rows, for COPY; nil where COPY cannot do the job
}

const partitions = 3

var shape = rows.Narrow()

// fill makes both topics, the table base that updates begin with, and works out what tables must hold in the end.
func (s *servers) fill(ctx context.Context, n int) ([]*job, error) {
	inserts, updates := &job{name: "new keys", topic: s.prefix + "_ins"}, &job{name: "updates with deletes", topic: s.prefix + "_upd", loaded: true}
	for _, j := range []*job{inserts, updates} {
		if _, err := s.adm.CreateTopic(ctx, partitions, 1, nil, j.topic); err != nil {
			return nil, err
		}
		s.topics = append(s.topics, j.topic)
	}
	failed := make(chan error, 1)
	send := func(j *job, id int64, value []byte) {
		j.records++
		s.cl.Produce(ctx, &kgo.Record{Topic: j.topic, Key: rows.Key(id), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	for id := range int64(n) {
		row := shape.Row(id, 0)
		inserts.ready = append(inserts.ready, row)
		send(inserts, id, shape.Value(row))
	}
	version := make([]int, n)
	for i := range n / 2 {
		id := random(2*i, n)
		version[id] = i + 1
		send(updates, id, shape.Value(shape.Row(id, version[id])))
		if i%10 == 0 {
			id = random(2*i+1, n)
			version[id] = -1
			send(updates, id, nil)
		}
	}
	if err := s.cl.Flush(ctx); err != nil {
		return nil, err
	}
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	var err error
	if inserts.want, err = s.holding(ctx, "base", inserts.ready); err != nil {
		return nil, err
	}
	var left [][]any
	for id, v := range version {
		if v >= 0 {
			left = append(left, shape.Row(int64(id), v))
		}
	}
	updates.want, err = s.holding(ctx, "expected", left)
	return []*job{inserts, updates}, err
}

// random is the ith number below n, the same one each time.
func random(i, n int) int64 { return int64(rows.Mix(uint64(i)+1) >> 11 % uint64(n)) }

// holding makes a table of rows and returns its signature.
func (s *servers) holding(ctx context.Context, table string, data [][]any) (signature string, err error) {
	if err := s.newTable(ctx, table, false); err != nil {
		return "", err
	}
	if _, err := s.pool.CopyFrom(ctx, pgx.Identifier{table}, shape.Names(), pgx.CopyFromRows(data)); err != nil {
		return "", err
	}
	return s.signature(ctx, table)
}

func (s *servers) signature(ctx context.Context, table string) (text string, err error) {
	err = s.pool.QueryRow(ctx, rows.Signature(table)).Scan(&text)
	return text, err
}

// newTable makes a table that is empty, or loaded with the rows of base. Afterwards the server has nothing left to write of it.
func (s *servers) newTable(ctx context.Context, name string, loaded bool) error {
	if _, err := s.pool.Exec(ctx, fmt.Sprintf(`DROP TABLE IF EXISTS "%s"; CREATE TABLE "%s" (%s, PRIMARY KEY (id)) WITH (autovacuum_enabled = off, fillfactor = %d)`, name, name, shape.SQL(), s.fillfactor)); err != nil {
		return err
	}
	if loaded {
		if _, err := s.pool.Exec(ctx, fmt.Sprintf(`INSERT INTO "%s" SELECT * FROM base`, name)); err != nil {
			return err
		}
	}
	_, err := s.pool.Exec(ctx, "CHECKPOINT")
	return err
}
