// Command kafka carries the table that a Flink SQL job keeps in one topic over to another, in another encoding, exactly once and without a
// database: rows and positions are one Kafka transaction.
//
//	go run ./examples/kafka
//
// Everything is in this process: a broker in memory, a topic that it fills, the bridge, and a read_committed reader of what came out. Function
// copyTable is what to copy.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/csv"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/kafka"
)

const tables = `
CREATE TABLE orders (id BIGINT, customer STRING, total DECIMAL(20, 2), PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = '%[1]s', 'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE orders_csv (id BIGINT, customer STRING, total DECIMAL(20, 2), PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'orders_csv', 'properties.bootstrap.servers' = '%[1]s', 'key.format' = 'csv', 'value.format' = 'csv')`

// copyTable reads table orders to its end, as it is now, and writes it into table orders_csv.
func copyTable(ctx context.Context, out io.Writer, tables string, cl *kgo.Client) error {
	formats := []changelog.Format{json.Format{}, csv.Format{}}
	source, err := ddl.Find(tables, "orders")
	if err != nil {
		return err
	}
	target, err := ddl.Find(tables, "orders_csv")
	if err != nil {
		return err
	}
	decoder, err := format.New(source, formats, nil)
	if err != nil {
		return err
	}
	from, err := bridge.FromTable(source, decoder)
	if err != nil {
		return err
	}
	to, err := kafka.InTransaction(cl, target, formats, &kafka.Options{Group: "orders-copy"})
	if err != nil {
		return err
	}
	b, err := bridge.New("orders-copy", from, to, &bridge.Options{UntilEnd: true})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, b.Guarantee())
	return b.Run(ctx)
}

func run(ctx context.Context, out io.Writer) error {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "orders_csv"))
	if err != nil {
		return err
	}
	defer broker.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, kv := range [][2]string{
		{`{"id":1}`, `{"id":1,"customer":"ann","total":10.5}`},
		{`{"id":2}`, `{"id":2,"customer":"bob, the second","total":99999999999999999.99}`},
		{`{"id":1}`, ""}, // a delete
	} {
		r := &kgo.Record{Key: []byte(kv[0])}
		if kv[1] != "" {
			r.Value = []byte(kv[1])
		}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	if err := copyTable(ctx, out, fmt.Sprintf(tables, broker.ListenAddrs()[0]), cl); err != nil {
		return err
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("orders_csv"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer reader.Close()
	for n := 0; n < 3; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			n++
			fmt.Fprintf(out, "key %s: value %q, null: %t\n", r.Key, r.Value, r.Value == nil)
		}
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
