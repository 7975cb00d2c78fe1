// Command elastic keeps an Elasticsearch index equal to a topic that a Flink SQL job writes. It needs nothing but Go: without ELASTIC_URL it fills
// a topic of a broker in this process, writes into a stand-in for Elasticsearch in this process, and prints what a reader of the index finds.
//
//	go run ./examples/elastic
//	ELASTIC_URL=http://localhost:9200 go run ./examples/elastic
//
// The index holds a small document in place of each deleted row, so that a change that comes late cannot bring it back; readers search
// the alias, which leaves those out. Positions are in a file, since Elasticsearch decides nothing.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/elastic/elastictest"
	"github.com/flinksink/flinksink/sink/filestore"
)

const createTable = `CREATE TABLE orders (
  id BIGINT, customer STRING, total DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092',
  'key.format' = 'json', 'value.format' = 'json')`

// run is the part to copy. Its client is a *elasticsearch.Client, or the transport that such a client has within.
func run(ctx context.Context, createTable string, client *elastictransport.Client, positions string, o *bridge.Options) error {
	table, err := ddl.Find(createTable, "orders")
	if err != nil {
		return err
	}
	decoder, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return err
	}
	from, err := bridge.FromTable(table, decoder)
	if err != nil {
		return err
	}
	to, err := elastic.New(client, "orders-v1", &elastic.Options{Deletes: elastic.Tombstone, CreateIndex: true, Alias: "orders", Refresh: true})
	if err != nil {
		return err
	}
	if o.Store, err = filestore.New(positions); err != nil {
		return err
	}
	b, err := bridge.New("orders", from, to, o)
	if err != nil {
		return err
	}
	log.Println(b.Guarantee())
	return b.Run(ctx)
}

func main() {
	if err := demo(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// demo fills a topic, runs the bridge to its end, and prints what the alias holds.
func demo(ctx context.Context, out io.Writer) error {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	if err != nil {
		return err
	}
	defer broker.Close()
	address := strings.Join(broker.ListenAddrs(), ",")
	if err := produce(ctx, address, [][2]string{
		{`{"id":1}`, `{"id":1,"customer":"ann","total":10.5}`},
		{`{"id":2}`, `{"id":2,"customer":"bob","total":20}`},
		{`{"id":1}`, `{"id":1,"customer":"ann","total":12.5}`},
		{`{"id":2}`, ""},
	}); err != nil {
		return err
	}
	standIn := elastictest.NewServer()
	defer standIn.Close()
	server, err := url.Parse(cmp.Or(os.Getenv("ELASTIC_URL"), standIn.URL))
	if err != nil {
		return err
	}
	client, err := elastictransport.New(elastictransport.Config{URLs: []*url.URL{server}})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "elastic")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := run(ctx, strings.Replace(createTable, "localhost:9092", address, 1), client, filepath.Join(dir, "positions"), &bridge.Options{UntilEnd: true}); err != nil {
		return err
	}
	res, err := http.Post(server.String()+"/orders/_search", "application/json", strings.NewReader(`{"_source":["id","customer","total"]}`))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	fmt.Fprintln(out, "the alias orders holds:")
	_, err = io.Copy(out, res.Body)
	return err
}

// produce writes messages; an empty value is a tombstone, which deletes.
func produce(ctx context.Context, address string, messages [][2]string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, kv := range messages {
		r := &kgo.Record{Key: []byte(kv[0])}
		if kv[1] != "" {
			r.Value = []byte(kv[1])
		}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}
