package main

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// memoryEnv holds a task as JSON. It is not an argument: the connection string may hold a password, and arguments are for everybody to see.
const memoryEnv = "FLINKSINK_BENCH_TASK"

// task is one run of a bridge in a process of its own, whose memory then is the bridge's alone.
type task struct {
	Broker, Topic, DSN, Database, Table string
	Changes                             int // a checkpoint is due after these
	Budget                              int // bytes, 0: the default
	Records                             int
	Profile                             string // file for a heap profile taken near the peak, "" for none
}

// quarters of the journey: memory that grows with what has passed shows as later ones that are higher.
const quarters = 4

// usage is what a task used, in bytes.
type usage struct {
	Before   int64           // live heap before the bridge was made
	Live     int64           // highest live heap, as the collector found it
	Heap     int64           // highest heap, garbage included
	Quarter  [quarters]int64 // highest live heap in each
	Resident int64           // highest resident memory
	Largest  int64           // changes in the largest checkpoint
	Count    int64           // checkpoints
	Applied  int64
	Seconds  float64
}

func memoryChild(ctx context.Context, out io.Writer) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the parent is gone
	}()
	var t task
	if err := stdjson.Unmarshal([]byte(os.Getenv(memoryEnv)), &t); err != nil {
		return fmt.Errorf("%s: %w", memoryEnv, err)
	}
	config, err := pgxpool.ParseConfig(t.DSN)
	if err != nil {
		return err
	}
	config.ConnConfig.Database = t.Database
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	to, err := postgres.New(pool, "public."+t.Table, nil)
	if err != nil {
		return err
	}
	in, err := inputOf(rows.Narrow(), t.Broker, t.Topic)
	if err != nil {
		return err
	}

	runtime.GC()
	var u usage
	live, _ := heap()
	u.Before = live
	var passed atomic.Int64
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			live, all := heap()
			if t.Profile != "" && live > u.Live+u.Live/10 {
				writeHeap(t.Profile)
			}
			q := min(int(passed.Load()*quarters/int64(t.Records)), quarters-1)
			u.Live, u.Heap, u.Quarter[q] = max(u.Live, live), max(u.Heap, all), max(u.Quarter[q], live)
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	}()
	o := bridge.Options{Changes: t.Changes, Bytes: math.MaxInt, ByteBudget: t.Budget}
	o.Hooks.Written = func(_ string, n, _ int) { passed.Add(int64(n)) }
	j, err := travel(ctx, t.Table, in, to, o, func(r sink.Report) { u.Largest = max(u.Largest, r.Counters.Applied) })
	close(over)
	<-watched
	if err != nil {
		return err
	}
	if j.applied != int64(t.Records) {
		return errNotAll
	}
	u.Count, u.Applied, u.Seconds = j.checkpoints, j.applied, j.took.Seconds()
	_, u.Resident = residentMemory()
	return stdjson.NewEncoder(out).Encode(u)
}

// writeHeap writes a profile of what the last collection found alive over the one before; that it cannot is no reason to stop.
func writeHeap(name string) {
	f, err := os.Create(name)
	if err == nil {
		err = errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// heap returns the bytes that the last collection found alive, and those of all objects, garbage included.
func heap() (live, all int64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64()), int64(s[1].Value.Uint64())
}

func (b *bench) memory(ctx context.Context) error {
	s, err := b.servers(ctx)
	if err != nil {
		return err
	}
	keys := min(b.records, 100_000)
	changes := min(b.records, 1_000_000)
	b.head(s, "MEMORY: updates of %d keys, a checkpoint due after %d changes; each bridge in a process of its own", keys, changes)
	b.say("  what the client has fetched and not yet given to the bridge (kgo.FetchMaxBytes, 4 MiB) comes on top of the budget")
	w := b.table("byte budget", "records", "largest checkpoint", "checkpoints", "live heap, peak", "by quarter", "heap with garbage, peak", "resident, peak", "rows/s")
	shape := rows.Narrow()
	topics := map[int]string{}
	var all []usage
	for i, of := range []struct{ records, budget int }{
		{changes, 0}, {b.records, 0}, // memory that grows with what has passed shows as a longer journey that needs more
		{changes, 1 << 30}, // one checkpoint, which a budget of this size lets pass
	} {
		if topics[of.records] == "" {
			topics[of.records], err = s.fill(ctx, fmt.Sprintf("memory%d", i), of.records, func(i int) (key, value []byte) {
				id := rows.Shuffled(i%keys, keys)
				return rows.Key(id), shape.Value(shape.Row(id, i/keys))
			})
			if err != nil {
				return err
			}
		}
		t := task{Broker: s.broker, Topic: topics[of.records], DSN: s.dsn, Database: s.prefix, Table: fmt.Sprintf("m%d", i), Changes: changes, Budget: of.budget, Records: of.records}
		if err := newTable(ctx, s.pool, shape, t.Table, "fillfactor = 50"); err != nil {
			return err
		}
		// Rows that are rewritten two hundred times over leave more behind than a table without VACUUM should keep.
		if _, err := s.pool.Exec(ctx, `ALTER TABLE "`+t.Table+`" SET (autovacuum_enabled = on)`); err != nil {
			return err
		}
		if b.profile != "" {
			t.Profile = filepath.Join(b.profile, "heap-"+t.Table+".pprof")
		}
		u, err := t.run(ctx)
		if err != nil {
			return err
		}
		if _, err := s.pool.Exec(ctx, `DROP TABLE "`+t.Table+`"`); err != nil {
			return err
		}
		all = append(all, u)
		name := mib(int64(of.budget))
		if of.budget == 0 {
			name = mib(sink.DefaultByteBudget) + ", default"
		}
		byQuarter := ""
		for _, q := range u.Quarter {
			byQuarter += fmt.Sprintf("%d ", q>>20)
		}
		line(w, name, number(float64(of.records)), number(float64(u.Largest))+" changes", number(float64(u.Count)), mib(u.Live), byQuarter+"MiB", mib(u.Heap), mib(u.Resident),
			number(float64(u.Applied)/u.Seconds))
	}
	flush(w)
	short, long := all[0], all[1]
	b.atMost("memory: live heap above what it was before, default budget", "MiB", sink.DefaultByteBudget>>20, float64(long.Live-long.Before)/(1<<20))
	b.goal("memory: changes in one checkpoint, default budget", "", float64(changes), float64(long.Largest))
	// The first quarter holds the start, so the second is what the last is held against.
	b.atMost("memory: live heap of the last quarter, of the second", "", 1.25, float64(long.Quarter[quarters-1])/float64(long.Quarter[1]))
	b.atMost(fmt.Sprintf("memory: live heap over %s records, of that over %s", number(float64(b.records)), number(float64(changes))), "", 1.25, float64(long.Live)/float64(short.Live))
	b.atMost(fmt.Sprintf("memory: resident over %s records, of that over %s", number(float64(b.records)), number(float64(changes))), "", 1.25, float64(long.Resident)/float64(short.Resident))
	return nil
}

func (t task) run(ctx context.Context) (u usage, err error) {
	err = inProcess(ctx, roleMemory, memoryEnv, t, &u)
	return u, err
}

func mib(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
