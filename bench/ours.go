package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// inputOf reads a topic of rows.
func inputOf(shape *rows.Shape, broker, topic string) (bridge.Input, error) {
	t, err := ddl.Find(fmt.Sprintf(`CREATE TABLE items (%s) WITH ('connector' = 'upsert-kafka', 'topic' = '%s', 'properties.bootstrap.servers' = '%s',
		'key.format' = 'json', 'value.format' = 'json')`, shape.Flink(), topic, broker), "items")
	if err != nil {
		return bridge.Input{}, err
	}
	d, err := format.New(t, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return bridge.Input{}, err
	}
	return bridge.FromTable(t, d)
}

// clocked tells when the first record was decoded: the clock of the usual loop begins at its first records too. Lanes decode in goroutines of their
// own, which have ended when Run returns.
type clocked struct {
	changelog.Decoder
	first sync.Once
	began time.Time
}

func (c *clocked) Decode(b *changelog.Batch, r *changelog.Record) error {
	c.first.Do(func() { c.began = time.Now() })
	return c.Decoder.Decode(b, r)
}

// FillsOriginals implements [changelog.OriginalDecoder]: it alters nothing.
func (c *clocked) FillsOriginals() changelog.Decoder {
	if o, ok := c.Decoder.(changelog.OriginalDecoder); ok && o.FillsOriginals() != nil {
		return c
	}
	return nil
}

// journey is one run of a bridge over a whole topic.
type journey struct {
	took        time.Duration // from its first record to its last checkpoint
	applied     int64
	checkpoints int64 // with changes
}

// travel runs a bridge to the end of a topic. progress, if not nil, hears of each checkpoint, of one after the other.
func travel(ctx context.Context, name string, in bridge.Input, to sink.Sink, o bridge.Options, progress func(sink.Report)) (journey, error) {
	clock := &clocked{Decoder: in.Decoder}
	in.Decoder = clock
	var mu sync.Mutex // guards last and checkpoints, and calls of progress
	var last time.Time
	if o.UntilEnd = true; o.Interval == 0 {
		o.Interval = time.Hour // checkpoints by number of changes alone
	}
	checkpoints := int64(0)
	// Rows are visible when they are saved, or committed where the mode does that afterwards.
	o.Hooks.Committed = func(sink.Report) {
		mu.Lock()
		defer mu.Unlock()
		last = time.Now()
	}
	o.Hooks.Saved = func(r sink.Report) {
		mu.Lock()
		defer mu.Unlock()
		last = time.Now()
		if r.Counters.Applied > 0 {
			checkpoints++
		}
		if progress != nil {
			progress(r)
		}
	}
	b, err := bridge.New(name, in, to, &o)
	if err != nil {
		return journey{}, err
	}
	if err := b.Run(ctx); err != nil {
		return journey{}, err
	}
	st := b.Status()
	if st.Counters.Applied == 0 || st.Retries > 0 {
		return journey{}, fmt.Errorf("the bridge applied %d changes and tried again %d times: this measures nothing", st.Counters.Applied, st.Retries)
	}
	return journey{last.Sub(clock.began), st.Counters.Applied, checkpoints}, nil
}

// ours is the bridge, with or without its guarantee.
type ours struct {
	s       *servers
	changes int // a checkpoint is due after these, 0: checkpointRows
	budget  int // of bytes, 0: the default
	lanes   int
	mode    postgres.Mode
	off     bool   // no guarantee
	profile string // folder
	seen    *checkpoints
}

// checkpoints counts over several runs.
type checkpoints struct{ changes, number int64 }

// String is their average size.
func (c *checkpoints) String() string { return number(float64(c.changes) / float64(c.number)) }

// write is a writer.
func (u ours) write(ctx context.Context, p *phase, table string) (effort, error) {
	t := u.s.apartOf(p, table)
	t.Changes, t.Budget, t.Lanes, t.Mode, t.Off = u.changes, u.budget, u.lanes, u.mode, u.off
	if u.profile != "" {
		t.Profile = filepath.Join(u.profile, "bridge-"+p.shape.Name+"-"+strings.ReplaceAll(p.name, " ", "-")+".pprof")
	}
	e, err := t.run(ctx)
	if err != nil {
		return effort{}, err
	}
	if u.seen != nil {
		u.seen.changes, u.seen.number = u.seen.changes+e.Applied, u.seen.number+e.Checkpoints
	}
	return e.Effort, nil
}

// bridge moves a topic into a table.
func (t apart) bridge(ctx context.Context, s *servers, p *phase) (e apartEffort, err error) {
	o := bridge.Options{Changes: t.Changes, Lanes: t.Lanes, ByteBudget: t.Budget}
	if o.Changes == 0 {
		o.Changes = checkpointRows
	}
	var to sink.Sink
	if t.Off {
		to, o.Store = newWithout(s.pool, p.shape, t.Table), new(forgetful)
	} else if to, err = postgres.New(s.pool, "public."+t.Table, &postgres.Options{Mode: t.Mode}); err != nil {
		return e, err
	}
	if t.Profile != "" {
		f, err := os.Create(t.Profile)
		if err != nil {
			return e, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return e, err
		}
		defer pprof.StopCPUProfile()
	}
	in, err := inputOf(p.shape, s.broker, p.topic)
	if err != nil {
		return e, err
	}
	j, err := travel(ctx, p.topic+"_"+t.Table, in, to, o, nil)
	if err != nil {
		return e, err
	}
	if j.applied != int64(p.n) {
		return e, errNotAll
	}
	return apartEffort{Effort: effort{Took: j.took}, Checkpoints: j.checkpoints, Applied: j.applied}, nil
}
