package bridge_test

import (
	"context"
	"fmt"
	"log"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
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

// A bridge that reads what a topic holds, and stops.
func ExampleBridge_Run() {
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

	server := sinktest.NewServer() // a sink in memory that is its own store, as Postgres is
	b, err := bridge.New("greetings-to-memory",
		bridge.Input{
			Topics:  []string{"greetings"},
			Decoder: lines{sinktest.Appended()},
			Client:  []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)},
		},
		sinktest.NewSink(server, &sinktest.SinkOptions{InTransaction: true}),
		&bridge.Options{UntilEnd: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Guarantee().Level)
	if err := b.Run(ctx); err != nil {
		log.Fatal(err)
	}
	for _, row := range server.Table(sinktest.AppendTable) {
		fmt.Println(row[0].Int(), row[1].Str())
	}
	fmt.Println(b.Status().Counters.Applied, "rows")
	// Output:
	// exactly once
	// 0 hello
	// 1 world
	// 2 rows
}
