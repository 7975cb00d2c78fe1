package otelbridge_test

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/bridge/otelbridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// lines is a decoder: one row (offset, text) for each record. Real ones come from changelog/format.
type lines struct{ table *changelog.Table }

func (d lines) Table() *changelog.Table { return d.table }

func (d lines) Decode(b *changelog.Batch, r *changelog.Record) error {
	row := b.NewRow()
	row[0], row[1] = changelog.IntValue(r.Offset), changelog.StringBytesValue(r.Value)
	b.Pin(len(r.Value))
	b.Append(changelog.Change{Partition: r.Partition, Offset: r.Offset, Kind: changelog.Insert, Row: row})
	return nil
}

// A bridge whose metrics an SDK collects. A service passes the meter of its own provider and leaves the reader to its exporter.
func Example() {
	ctx := context.Background()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "greetings"))
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("greetings"))
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	if err := producer.ProduceSync(ctx, kgo.StringRecord("hello"), kgo.StringRecord("world")).FirstErr(); err != nil {
		log.Fatal(err)
	}
	reader := sdk.NewManualReader()
	meter := sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("github.com/flinksink/flinksink")

	hooks, err := otelbridge.Hooks(meter, "greetings", bridge.Hooks{})
	if err != nil {
		log.Fatal(err)
	}
	b, err := bridge.New("greetings",
		bridge.Input{Topics: []string{"greetings"}, Decoder: lines{sinktest.Appended()}, Client: []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)}},
		sinktest.NewSink(sinktest.NewServer(), &sinktest.SinkOptions{InTransaction: true}),
		&bridge.Options{UntilEnd: true, Hooks: hooks})
	if err != nil {
		log.Fatal(err)
	}
	reg, err := otelbridge.Observe(meter, b)
	if err != nil {
		log.Fatal(err)
	}
	defer reg.Unregister()
	if err := b.Run(ctx); err != nil {
		log.Fatal(err)
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			if m.Name == "flinksink.messages" || m.Name == "flinksink.written" {
				fmt.Println(m.Name, d.DataPoints[0].Value, m.Unit)
			}
		}
	}
	// Unordered output:
	// flinksink.messages 2 {message}
	// flinksink.written 2 {change}
}
