package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/parquet"
	"github.com/klauspost/compress/gzip"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	gzipLevel   = 6       // the default of sink/s3
	lakeChanges = 500_000 // of a checkpoint: files of a lake are large
)

// lakeInput reads a topic of rows that are only ever inserted.
func lakeInput(shape *rows.Shape, broker, topic string) (bridge.Input, error) {
	columns := strings.TrimSuffix(shape.Flink(), ", PRIMARY KEY (id) NOT ENFORCED")
	t, err := ddl.Find(fmt.Sprintf(`CREATE TABLE items (%s) WITH ('connector' = 'kafka', 'topic' = '%s', 'properties.bootstrap.servers' = '%s', 'format' = 'json')`, columns, topic, broker), "items")
	if err != nil {
		return bridge.Input{}, err
	}
	d, err := format.New(t, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return bridge.Input{}, err
	}
	return bridge.FromTable(t, d)
}

// lakeSection is what the contenders of section s3 share.
type lakeSection struct {
	s      *servers
	l      lake
	shape  *rows.Shape
	n      int
	topic  string
	serial int
}

// toS3 is the bridge into a bucket, beside what does as much of it as one cannot do without.
func (b *bench) toS3(ctx context.Context) error {
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
	b.head(s, "S3: Kafka to objects, one lane, a checkpoint after %s changes or half the byte budget", number(lakeChanges))
	b.say("  %s", about)
	b.say("  what runs alone makes files of the same rows and throws them away: no decoding of JSON lines, no uploads, no checkpoints")
	for _, shape := range b.shapes {
		k := &lakeSection{s: s, l: l, shape: shape, n: b.rowsOf(shape)}
		if k.topic, err = s.fill(ctx, "s3_"+shape.Name, k.n, func(i int) (key, value []byte) {
			return rows.Key(int64(i)), shape.Value(shape.Row(int64(i), 0))
		}); err != nil {
			return err
		}
		if err := b.lakeInTurns(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) lakeInTurns(ctx context.Context, k *lakeSection) error {
	const alone, lines, generic, columns, file = 0, 1, 2, 3, 4
	write, generically, err := k.parquetAlone()
	if err != nil {
		return err
	}
	contenders := []struct {
		name string
		do   func(context.Context) (time.Duration, error)
	}{
		alone:   {fmt.Sprintf("fetch + gzip (level %d) alone", gzipLevel), k.fetchAndGzip},
		lines:   {"flinksink bridge, JSON lines + gzip", k.bridge(&s3.Options{Compression: s3.Gzip, Level: gzipLevel, Manifest: true})},
		generic: {"parquet-go's GenericWriter alone, rows ready in memory", generically},
		columns: {"flinksink bridge, Parquet", k.bridge(&s3.Options{Format: parquet.New(nil), Manifest: true})},
		file:    {"sink/s3/parquet alone, rows ready in memory", write},
	}
	rates, cpus := make([]figure, len(contenders)), make([]figure, len(contenders))
	for round := range b.rounds {
		for j := range contenders {
			i := (round + j) % len(contenders)
			runtime.GC()
			stop, err := b.profiled(fmt.Sprintf("s3-%s-%d.pprof", k.shape.Name, i+1))
			if err != nil {
				return err
			}
			before, known := cpuTime()
			took, err := contenders[i].do(ctx)
			stop()
			if err != nil {
				return fmt.Errorf("%s: %w", contenders[i].name, err)
			}
			if now, ok := cpuTime(); ok && known {
				cpus[i] = append(cpus[i], float64((now-before).Microseconds())/float64(k.n))
			}
			rates[i] = append(rates[i], float64(k.n)/took.Seconds())
		}
	}
	w := b.table(fmt.Sprintf("%s, %d rows", k.shape.Name, k.n), "rows/s", "of what runs alone", "CPU µs a row")
	for i, c := range contenders {
		base := rates[alone]
		if i >= generic {
			base = rates[generic]
		}
		line(w, c.name, rates[i].String(), rates[i].over(base).String(), number(cpus[i].median()))
	}
	flush(w)
	b.say("  load average %s", loadAverage())
	name := "s3, " + k.shape.Name + ": "
	b.goal(name+"JSON lines + gzip, of fetch + gzip alone", "", 0.8, rates[lines].over(rates[alone])...)
	b.goal(name+"Kafka to Parquet, of GenericWriter on ready rows", "", 0.8, rates[columns].over(rates[generic])...)
	b.goal(name+"sink/s3/parquet, of GenericWriter on the same rows", "", 0.8, rates[file].over(rates[generic])...)
	return nil
}

// profiled begins a CPU profile in the folder that -profile names, if it names one. A later round writes over an earlier one's.
func (b *bench) profiled(name string) (stop func(), err error) {
	if b.profile == "" {
		return func() {}, nil
	}
	f, err := os.Create(filepath.Join(b.profile, name))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); _ = f.Close() }, nil
}

// fetchAndGzip is the least that a program does which makes compressed files of a topic.
func (k *lakeSection) fetchAndGzip(ctx context.Context) (time.Duration, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(k.s.broker, ",")...), kgo.ConsumeTopics(k.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(4<<20), kgo.FetchMaxPartitionBytes(1<<20)) // as a bridge fetches
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	z, err := gzip.NewWriterLevel(io.Discard, gzipLevel)
	if err != nil {
		return 0, err
	}
	var began time.Time
	for left := k.n; left > 0; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		if began.IsZero() && !fetches.Empty() {
			began = time.Now()
		}
		for _, r := range fetches.Records() {
			if _, err := z.Write(append(r.Value, '\n')); err != nil {
				return 0, err
			}
			left--
		}
	}
	err = z.Close()
	return time.Since(began), err
}

// bridge is the bridge with the bucket as its store. Each run writes below a prefix of its own, and its manifests say how many rows are there.
func (k *lakeSection) bridge(o *s3.Options) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		k.serial++
		l := k.l
		l.Prefix += fmt.Sprintf("/%s-%d", k.shape.Name, k.serial)
		j, err := l.travel(ctx, k.s.broker, k.topic, k.shape, o, bridge.Options{Changes: lakeChanges}, nil)
		if err != nil {
			return 0, err
		}
		reader, err := s3.NewReader(l.client(), l.Bucket, l.Prefix, nil)
		if err != nil {
			return 0, err
		}
		held := int64(0)
		for m, err := range reader.Manifests(ctx) {
			if err != nil {
				return 0, err
			}
			for _, f := range m.Files {
				held += f.Rows
			}
		}
		if j.applied != int64(k.n) || held != int64(k.n) {
			return 0, errors.New("the objects do not hold what the topic holds")
		}
		return j.took, l.empty(ctx, true)
	}
}

// travel runs a bridge from a topic into the lake.
func (l lake) travel(ctx context.Context, broker, topic string, shape *rows.Shape, so *s3.Options, o bridge.Options, progress func(sink.Report)) (journey, error) {
	to, err := s3.New(l.client(), l.Bucket, l.Prefix, so)
	if err != nil {
		return journey{}, err
	}
	if o.Store, err = s3.NewStore(l.client(), l.Bucket, l.Prefix, s3.Settings{}); err != nil {
		return journey{}, err
	}
	in, err := lakeInput(shape, broker, topic)
	if err != nil {
		return journey{}, err
	}
	return travel(ctx, strings.ReplaceAll(l.Prefix, "/", "-"), in, to, o, progress)
}
