package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/postgres"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

// letterKinds are the places that keep dead letters and that this program can read.
func letterKinds() []kind { return []kind{atPostgres, atKafka, atS3, atIndex} }

// last keeps the newest letters, at most limit of them (0: all), and has the newest first.
type last struct {
	limit int
	all   []postgres.StoredLetter
}

func (l *last) add(x postgres.StoredLetter) {
	if l.limit > 0 && len(l.all) == l.limit {
		l.all = append(l.all[:0], l.all[1:]...)
	}
	l.all = append(l.all, x)
}

func (l *last) newestFirst() []postgres.StoredLetter {
	slices.Reverse(l.all)
	return l.all
}

// lettersInBucket reads the letters of a sink, or of all below the folder.
func (c *call) lettersInBucket(ctx context.Context, p place, f *lettersFlags) ([]postgres.StoredLetter, error) {
	d, err := p.folder("--store")
	if err != nil {
		return nil, err
	}
	client, err := c.bucketAt(ctx, "--store", &f.s3, d)
	if err != nil {
		return nil, err
	}
	o := &s3sink.ReaderOptions{}
	if f.bridge != "" {
		o.Bridge, o.Sink = f.bridge, f.sink
	}
	r, err := s3sink.NewReader(client, d.bucket, d.prefix, o)
	if err != nil {
		return nil, err
	}
	out := last{limit: f.limit}
	for l, err := range r.DeadLetters(ctx) {
		if err != nil {
			return nil, err
		}
		out.add(postgres.StoredLetter{DeadLetter: l.DeadLetter(), Bridge: f.bridge})
	}
	if f.bridge != "" && len(out.all) == 0 { // of a misspelt name there are none, which proves nothing
		all, err := s3sink.Sinks(ctx, client, d.bucket, d.prefix)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, s3sink.SinkName{Bridge: f.bridge, Sink: f.sink}) {
			return nil, (&lakeFlags{bridge: f.bridge, sink: f.sink}).nothing("anything", d, all)
		}
	}
	return out.newestFirst(), nil
}

// lettersInTopic reads the letters of a topic, from its beginning to where it ends now.
func (c *call) lettersInTopic(ctx context.Context, p place, f *lettersFlags) ([]postgres.StoredLetter, error) {
	b, err := p.broker("--store")
	if err != nil {
		return nil, err
	}
	if b.topic == "" {
		return nil, config("--store takes kafka://host:9092/topic, and the topic of dead letters is missing (--kafka-dead-letters of run)")
	}
	if f.bridge != "" {
		return nil, usage(fmt.Errorf("--bridge: a topic of dead letters does not tell its bridges apart: leave it out"))
	}
	t, err := f.kafka.clientTable("--kafka-config", b.seeds, nil)
	if err != nil {
		return nil, err
	}
	cl, err := c.brokersAt(ctx, "--store", t, kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	spans, err := c.spansOf(ctx, cl, bridge.Input{Topics: []string{b.topic}}, false)
	if err != nil {
		return nil, err
	}
	out := last{limit: f.limit}
	for _, s := range spans {
		err := readSpan(ctx, cl, s, func(r *kgo.Record) error {
			l, _, err := kafka.ParseDeadLetter(r)
			if err != nil {
				return fmt.Errorf("letters: record %s:%d:%d: %w", r.Topic, r.Partition, r.Offset, err)
			}
			out.add(postgres.StoredLetter{DeadLetter: l, Number: r.Offset, Written: r.Timestamp})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out.all, func(a, b postgres.StoredLetter) int { return a.Written.Compare(b.Written) })
	return out.newestFirst(), nil
}

// lettersInIndex reads the letters of an index: the one that the URL names, or the one that run writes them into.
func (c *call) lettersInIndex(ctx context.Context, p place, f *lettersFlags) (all []postgres.StoredLetter, err error) {
	client, host, index, err := c.indexClient("--store", p.url)
	if err != nil {
		return nil, err
	}
	s, err := elastic.New(client, "", &elastic.Options{DeadLetters: index})
	if err != nil {
		return nil, err
	}
	if err := c.greet(ctx, "--store", client, host); err != nil {
		return nil, err
	}
	stored, err := s.DeadLetters(ctx, f.bridge, f.limit)
	for _, l := range stored {
		all = append(all, postgres.StoredLetter{DeadLetter: l.DeadLetter, Bridge: l.Bridge, Generation: l.Generation, Checkpoint: l.Checkpoint, Written: l.Written})
	}
	return all, err
}

// pendingOf is what any store knows of what is decided and waits.
func pendingOf(s *sink.State) (out []postgres.InDoubt) {
	for _, p := range s.Pending {
		out = append(out, postgres.InDoubt{Bridge: s.Bridge, Sink: p.Sink, Generation: p.Generation, Checkpoint: p.Checkpoint, What: "receipt", From: p.From, To: p.To, Plan: postgres.Leave})
	}
	return out
}
