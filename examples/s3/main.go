// Command s3 carries a topic that a Flink SQL job writes into a bucket, exactly once, and keeps its checkpoints in the bucket too. The function run is
// the program to copy. It runs with nothing but Go: broker and S3 server are in this process, and it ends when it has read all there is.
//
//	go run ./examples/s3
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

const createTable = `CREATE TABLE visits (
  page STRING, visitor BIGINT, ts TIMESTAMP(3)
) WITH ('connector' = 'kafka', 'topic' = 'visits', 'format' = 'json')`

func run(ctx context.Context, broker string, client *s3.Client) error {
	table, err := ddl.Find(createTable, "visits")
	if err != nil {
		return err
	}
	decoder, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return err
	}
	to, err := s3sink.New(client, "lake", "raw", &s3sink.Options{
		Compression: s3sink.Gzip, Manifest: true,
		PartitionBy: []s3sink.PartitionField{{Column: "ts", Name: "day", Layout: "2006-01-02"}}})
	if err != nil {
		return err
	}
	store, err := s3sink.NewStore(client, "lake", "raw", s3sink.Settings{})
	if err != nil {
		return err
	}
	from := bridge.Input{Topics: []string{"visits"}, Decoder: decoder, Client: []kgo.Opt{kgo.SeedBrokers(broker)}}
	b, err := bridge.New("visits", from, to, &bridge.Options{Store: store, UntilEnd: true}) // a service leaves UntilEnd out
	if err != nil {
		return err
	}
	log.Println(b.Guarantee())
	return b.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w, err := newWorld(ctx, 1000)
	if err != nil {
		log.Fatal(err)
	}
	defer w.close()
	if err := run(ctx, w.broker, w.client); err != nil {
		log.Fatal(err)
	}
	if err := w.show(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
