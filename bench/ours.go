package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

const checkpointRows = 20_000

// itemInput reads a topic of items.
func itemInput(broker, topic string) (bridge.Input, error) {
	t, err := ddl.Find(fmt.Sprintf(`CREATE TABLE items (id BIGINT, cust STRING, qty BIGINT, price DOUBLE, PRIMARY KEY (id) NOT ENFORCED)
		WITH ('connector' = 'upsert-kafka', 'topic' = '%s', 'properties.bootstrap.servers' = '%s', 'key.format' = 'json', 'value.format' = 'json')`, topic, broker), "items")
	if err != nil {
		return bridge.Input{}, err
	}
	d, err := format.New(t, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return bridge.Input{}, err
	}
	return bridge.FromTable(t, d)
}

// clocked tells when the first record was decoded: the clock of the usual loop begins at its first records too. A bridge of one lane
// decodes in one goroutine, which has ended when Run returns.
type clocked struct {
	changelog.Decoder
	began time.Time
}

func (c *clocked) Decode(b *changelog.Batch, r *changelog.Record) error {
	if c.began.IsZero() {
		c.began = time.Now()
	}
	return c.Decoder.Decode(b, r)
}

// journey is one run of a bridge over a whole topic.
type journey struct {
	took        time.Duration // from its first record to its last checkpoint
	applied     int64
	checkpoints int64
}

// travel runs a bridge to the end of a topic. progress, if not nil, hears of each checkpoint.
func travel(ctx context.Context, name string, in bridge.Input, to sink.Sink, o bridge.Options, progress func(sink.Report)) (journey, error) {
	clock := &clocked{Decoder: in.Decoder}
	in.Decoder = clock
	var last time.Time
	o.Interval, o.UntilEnd = time.Hour, true // checkpoints by number of changes alone
	o.Hooks.Saved = func(r sink.Report) {
		last = time.Now()
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
	return journey{last.Sub(clock.began), st.Counters.Applied, st.Checkpoints}, nil
}

// ours is the bridge, with or without its guarantee.
type ours struct {
	s       *servers
	profile string // folder
	note    func(journey)
}

func (u ours) exactlyOnce(ctx context.Context, p *phase, table string) (time.Duration, error) {
	to, err := postgres.New(u.s.pool, "public."+table, nil)
	if err != nil {
		return 0, err
	}
	if u.profile != "" {
		f, err := os.Create(filepath.Join(u.profile, "bridge-"+strings.ReplaceAll(p.name, " ", "-")+".pprof"))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return 0, err
		}
		defer pprof.StopCPUProfile()
	}
	return u.run(ctx, p, table, to, nil)
}

func (u ours) guaranteeOff(ctx context.Context, p *phase, table string) (time.Duration, error) {
	return u.run(ctx, p, table, newWithout(u.s.pool, table), new(forgetful))
}

func (u ours) run(ctx context.Context, p *phase, table string, to sink.Sink, store sink.Store) (time.Duration, error) {
	in, err := itemInput(u.s.broker, p.topic)
	if err != nil {
		return 0, err
	}
	j, err := travel(ctx, p.topic+"_"+table, in, to, bridge.Options{Changes: checkpointRows, Store: store}, nil)
	if err != nil {
		return 0, err
	}
	if j.applied != int64(p.rows()) {
		return 0, errors.New("the bridge did not apply what the topic holds")
	}
	u.note(j)
	return j.took, nil
}

// newTable makes an empty table of items that nothing but the contender touches.
func newTable(ctx context.Context, pool *pgxpool.Pool, name string) error {
	_, err := pool.Exec(ctx, fmt.Sprintf(`DROP TABLE IF EXISTS "%s"; CREATE TABLE "%s" (%s) WITH (autovacuum_enabled = off)`, name, name, itemColumns))
	return err
}
