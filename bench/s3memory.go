package main

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/parquet"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	roleFlow    = "flow"
	flowChanges = 50_000 // of a checkpoint into Kafka: a short stream has many too
	lakeCuts    = 20     // checkpoints into objects, whatever the stream's length: those of a lake last minutes, and memory must not follow

	// What sink/s3 holds beside the lane's budget: a part of 8 MiB of its one open file, and of each of four uploads that are under way.
	lakeParts = (1 + 4) * 8 << 20
)

// flow is one run of a bridge over a stream, in a process of its own.
type flow struct {
	Kind, Shape               string
	Broker, Topic, To, Prefix string
	Lake                      lake
	Records                   int
}

// flowKinds are what memory is measured of: those into targets that -into names.
func (b *bench) flowKinds() (out []string) {
	for _, kind := range []string{"kafka TwoPhase", "kafka InTransaction", "s3 JSON lines + gzip", "s3 Parquet"} {
		if target, _, _ := strings.Cut(kind, " "); b.into == "" || b.into == target {
			out = append(out, kind)
		}
	}
	return out
}

// flowChild runs the bridge and watches the heap.
func flowChild(ctx context.Context, in io.Reader, out io.Writer) error {
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3) // the parent is gone
	}()
	var f flow
	if err := stdjson.Unmarshal([]byte(os.Getenv(memoryEnv)), &f); err != nil {
		return fmt.Errorf("%s: %w", memoryEnv, err)
	}
	runtime.GC()
	var u usage
	u.Before, _ = heap()
	var passed atomic.Int64
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			live, all := heap()
			q := min(int(passed.Load()*quarters/int64(f.Records)), quarters-1)
			u.Live, u.Heap, u.Quarter[q] = max(u.Live, live), max(u.Heap, all), max(u.Quarter[q], live)
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	}()
	o := bridge.Options{Changes: flowChanges}
	if strings.HasPrefix(f.Kind, "s3") {
		o.Changes = max(flowChanges, f.Records/lakeCuts)
	}
	o.Hooks.Written = func(_ string, n, _ int) { passed.Add(int64(n)) }
	j, err := f.run(ctx, o)
	close(over)
	<-watched
	if err == nil && j.applied != int64(f.Records) {
		err = errors.New("the bridge did not apply what the topic holds")
	}
	if err != nil {
		return err
	}
	u.Count, u.Applied, u.Seconds = j.checkpoints, j.applied, j.took.Seconds()
	_, u.Resident = residentMemory()
	return stdjson.NewEncoder(out).Encode(u)
}

func (f flow) run(ctx context.Context, o bridge.Options) (journey, error) {
	shape := rows.Narrow()
	if f.Shape == "wide" {
		shape = rows.Wide()
	}
	switch f.Kind {
	case "kafka TwoPhase", "kafka InTransaction":
		as := kafkaSink(kafka.TwoPhase)
		if f.Kind == "kafka InTransaction" {
			as = kafka.InTransaction
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(f.Broker, ",")...))
		if err != nil {
			return journey{}, err
		}
		defer cl.Close()
		k := &kafkaCopy{s: &servers{broker: f.Broker, prefix: f.Prefix}, shape: shape, n: f.Records, from: f.Topic}
		in, to, err := k.bridge(cl, f.To, as)
		if err != nil {
			return journey{}, err
		}
		o.Interval = 10 * time.Minute // a transaction lasts 15
		return travel(ctx, f.To, in, to, o, nil)
	}
	so := &s3.Options{Compression: s3.Gzip}
	if f.Kind == "s3 Parquet" {
		so = &s3.Options{Format: parquet.New(nil)}
	}
	// Objects of past checkpoints go, so that a server in memory can take a stream of any length.
	var failed error
	j, err := f.Lake.travel(ctx, f.Broker, f.Topic, shape, so, o, func(sink.Report) {
		failed = errors.Join(failed, f.Lake.empty(ctx, false))
	})
	return j, errors.Join(err, failed)
}

// flat is memory while a stream of any length passes into Kafka and into objects.
func (b *bench) flat(ctx context.Context) error {
	s, stop, err := b.brokerOnly(ctx)
	if err != nil {
		return err
	}
	defer stop()
	l, about, gone, err := startLake(ctx)
	if err != nil {
		return err
	}
	defer gone()
	shape := b.shapes[0]
	record := len(rows.Key(int64(b.records))) + len(shape.Value(shape.Row(int64(b.records), 0)))
	b.head(s, "FLAT: memory while %s %s records (%s) pass, a checkpoint due after %s changes, into objects after %s; each bridge in a process of its own",
		number(float64(b.records)), shape.Name, mib(int64(b.records*record)), number(flowChanges), number(float64(max(flowChanges, b.records/lakeCuts))))
	b.say("  %s", about)
	b.say("  -records sets the length, and the first of -shapes what passes: 26,000,000 wide ones are more than 10 GiB, which take a real broker")
	topic, err := s.fill(ctx, "flat", b.records, func(i int) (key, value []byte) {
		return rows.Key(int64(i)), shape.Value(shape.Row(int64(i), 0))
	}, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		return err
	}
	w := b.table("", "checkpoints", "live heap, peak", "by quarter", "heap with garbage, peak", "resident, peak", "rows/s")
	for i, kind := range b.flowKinds() {
		f := flow{Kind: kind, Shape: shape.Name, Broker: s.broker, Topic: topic, Prefix: s.prefix, Lake: l, Records: b.records}
		if strings.HasPrefix(kind, "kafka") {
			if f.To, err = s.fill(ctx, fmt.Sprintf("flat_to_%d", i), 0, nil); err != nil {
				return err
			}
		}
		f.Lake.Prefix += fmt.Sprintf("/flat-%d", i)
		u, err := f.start(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if err := f.Lake.empty(ctx, true); err != nil {
			return err
		}
		byQuarter := ""
		for _, q := range u.Quarter {
			byQuarter += fmt.Sprintf("%d ", q>>20)
		}
		line(w, kind, number(float64(u.Count)), mib(u.Live), byQuarter+"MiB", mib(u.Heap), mib(u.Resident), number(float64(u.Applied)/u.Seconds))
		// The first quarter holds the start, so the second is what the last is held against; what is small beside one batch says nothing.
		floor := float64(8 << 20)
		b.atMost("flat, "+kind+": live heap of the last quarter, of the second", "", 1.25, math.Max(floor, float64(u.Quarter[quarters-1]))/math.Max(floor, float64(u.Quarter[1])))
		bound := float64(sink.DefaultByteBudget)
		if strings.HasPrefix(kind, "s3") {
			bound += lakeParts
		}
		b.atMost("flat, "+kind+": live heap above what it was before", "MiB", bound/(1<<20), float64(u.Live-u.Before)/(1<<20))
	}
	flush(w)
	b.say("  load average %s", loadAverage())
	return nil
}

func (f flow) start(ctx context.Context) (u usage, err error) {
	err = inProcess(ctx, roleFlow, memoryEnv, f, &u)
	return u, err
}
