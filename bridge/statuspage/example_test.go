package statuspage_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/bridge/statuspage"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lines is a decoder: one row (offset, text) for each record. Real ones come from changelog/format.
type lines struct{ table *changelog.Table }

func (d lines) Table() *changelog.Table { return d.table }

func (d lines) Decode(b *changelog.Batch, r *changelog.Record) error {
	if string(r.Value) == "bad" {
		return &changelog.DataError{Partition: r.Partition, Offset: r.Offset, Part: "value", Field: "v", Reason: "is bad"}
	}
	row := b.NewRow()
	row[0], row[1] = changelog.IntValue(r.Offset), changelog.StringBytesValue(r.Value)
	b.Pin(len(r.Value))
	b.Append(changelog.Change{Partition: r.Partition, Offset: r.Offset, Kind: changelog.Insert, Row: row})
	return nil
}

// bridgeOf makes a bridge that reads records from an in-process broker until their end.
func bridgeOf(ctx context.Context, records ...string) (b *bridge.Bridge, stop func(), err error) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "greetings"))
	if err != nil {
		return nil, nil, err
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("greetings"))
	if err != nil {
		broker.Close()
		return nil, nil, err
	}
	defer producer.Close()
	for _, r := range records {
		if err := producer.ProduceSync(ctx, kgo.StringRecord(r)).FirstErr(); err != nil {
			broker.Close()
			return nil, nil, err
		}
	}
	b, err = bridge.New("greetings",
		bridge.Input{Topics: []string{"greetings"}, Decoder: lines{sinktest.Appended()}, Client: []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)}},
		sinktest.NewSink(sinktest.NewServer(), &sinktest.SinkOptions{InTransaction: true}),
		&bridge.Options{UntilEnd: true})
	return b, broker.Close, err
}

// The page beside the other handlers of a service, and what its health endpoint says of a record that cannot be decoded.
func ExampleHandler() {
	ctx := context.Background()
	b, stop, err := bridgeOf(ctx, "hello", "bad")
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	mux := http.NewServeMux()
	mux.Handle("/flinksink/", http.StripPrefix("/flinksink", statuspage.Handler(b)))
	server := httptest.NewServer(mux)
	defer server.Close()

	_ = b.Run(ctx) // a program would return the error

	resp, err := http.Get(server.URL + "/flinksink/healthz")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	why, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.StatusCode)
	fmt.Println(string(why)[:79], "...")
	// Output:
	// 503
	// bridge "greetings": the bridge halted: flinksink: decode of bridge "greetings"  ...
}
