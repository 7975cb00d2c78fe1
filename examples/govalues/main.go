// Command govalues reads a topic that a Flink SQL job writes and hands its rows to the program as Go values: no bridge, no sink, no database,
// nothing but a franz-go loop of one's own. It keeps the table in memory and prints each change.
//
//	go run ./examples/govalues -brokers localhost:9092
//
// Nothing is stored, so every start reads the topic from its begin; who needs to go on where he was, exactly once, uses a bridge.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
)

const createTable = `CREATE TABLE orders (
  id BIGINT, customer STRING, total DECIMAL(20, 2), items ARRAY<ROW<sku STRING, n INT>>, placed_at TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'orders', 'key.format' = 'json', 'value.format' = 'json')`

// Order is a row of the table. A pointer can be NULL; a field without a tag takes the column of its name.
type Order struct {
	ID       int64
	Customer *string
	Total    changelog.Decimal
	Items    []Item
	PlacedAt time.Time
}

// Item is one of the ROWs in the column items.
type Item struct {
	SKU   string
	Count int `flink:"n"`
}

// apply puts the changes of a batch into the table, in order.
func apply(out io.Writer, table map[int64]Order, orders *changelog.Mapper[Order], b *changelog.Batch) error {
	for i := range b.Changes {
		c := &b.Changes[i]
		o, err := orders.Change(c)
		if err != nil {
			return fmt.Errorf("%s offset %d: %w", c.Partition, c.Offset, err)
		}
		if !c.Kind.Adds() { // only o.ID is set where the delete knows its key only
			delete(table, o.ID)
			fmt.Fprintf(out, "%s %d\n", c.Kind, o.ID)
			continue
		}
		table[o.ID] = o
		customer := "nobody"
		if o.Customer != nil {
			customer = *o.Customer
		}
		fmt.Fprintf(out, "%s %d %s %s %d items %s\n", c.Kind, o.ID, customer, o.Total, len(o.Items), o.PlacedAt.Format(time.DateTime))
	}
	return nil
}

func run(ctx context.Context, brokers []string, out io.Writer) (map[int64]Order, error) {
	table, err := ddl.Find(createTable, "orders")
	if err != nil {
		return nil, err
	}
	decoder, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return nil, err
	}
	// A field that does not fit is told here, before anything is read.
	orders, err := changelog.As[Order](decoder.Table().Schema)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(table.Options["topic"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	rows := make(map[int64]Order)
	batch := changelog.NewBatch(decoder.Table())
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return rows, nil
		}
		if err := fetches.Err(); err != nil {
			return rows, err
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if err := decoder.Decode(batch, &changelog.Record{
				Partition: changelog.Partition{Topic: r.Topic, Partition: r.Partition}, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
				Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value,
			}); err != nil {
				return rows, err
			}
		}
		// The Go values own their memory, so the batch can be used again.
		if err := apply(out, rows, orders, batch); err != nil {
			return rows, err
		}
		batch.Reset()
	}
}

func main() {
	brokers := flag.String("brokers", "localhost:9092", "addresses of the brokers, with commas between them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rows, err := run(ctx, strings.Split(*brokers, ","), os.Stdout)
	fmt.Println(len(rows), "orders")
	if err != nil {
		log.Fatal(err)
	}
}
