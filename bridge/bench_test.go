package bridge

import (
	"context"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// blackhole takes everything and keeps nothing: what is left is the bridge.
type blackhole struct{}

func (blackhole) Lane(context.Context, sink.Lane) (sink.Committer, error)         { return blackhole{}, nil }
func (blackhole) Guarantee() sink.Guarantee                                       { return sink.Guarantee{} }
func (blackhole) Open(context.Context, sink.Claim) error                          { return nil }
func (blackhole) Write(context.Context, *changelog.Batch) error                   { return nil }
func (blackhole) Prepare(context.Context, sink.Cut) (c sink.Committable, _ error) { return c, nil }
func (blackhole) Discard(context.Context) error                                   { return nil }
func (blackhole) Commit(context.Context, sink.Committable) error                  { return nil }
func (blackhole) Abort(context.Context, sink.Committable) error                   { return nil }
func (blackhole) Close(context.Context) error                                     { return nil }

// BenchmarkRun reads 400,000 records of 200 bytes from an in-process broker through a bridge into nothing.
func BenchmarkRun(b *testing.B) {
	const records = 400_000
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "texts"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("texts"), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	value := []byte(strings.Repeat("x", 200))
	for range records {
		cl.Produce(b.Context(), &kgo.Record{Value: value}, nil)
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		in := Input{Topics: []string{"texts"}, Decoder: texts{sinktest.Appended()}, Client: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}}
		br, err := New("test", in, blackhole{}, &Options{UntilEnd: true, Store: sinktest.NewStore(sinktest.NewServer())})
		if err != nil {
			b.Fatal(err)
		}
		if err := br.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		if n := br.Status().Counters.Applied; n != records {
			b.Fatalf("%d rows", n)
		}
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
