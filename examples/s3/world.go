package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	s3sink "github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// world is what a service has anyway: a broker with a topic, and a bucket. Here they are in this process.
type world struct {
	broker string
	client *s3.Client
	close  func()
}

func newWorld(ctx context.Context, messages int) (*world, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "visits"))
	if err != nil {
		return nil, err
	}
	server, err := s3test.Start("lake")
	if err != nil {
		cluster.Close()
		return nil, err
	}
	w := &world{broker: cluster.ListenAddrs()[0], close: func() { server.Close(); cluster.Close() }}
	// A real one: config.LoadDefaultConfig and s3.NewFromConfig.
	w.client = s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(server.URL), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")})

	cl, err := kgo.NewClient(kgo.SeedBrokers(w.broker), kgo.DefaultProduceTopic("visits"))
	if err != nil {
		w.close()
		return nil, err
	}
	defer cl.Close()
	var records []*kgo.Record
	for i := range messages {
		records = append(records, &kgo.Record{Value: fmt.Appendf(nil, `{"page":"/p/%d","visitor":%d,"ts":"2026-11-%02d 12:00:00"}`, i%7, i, 29+i%2)})
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// show reads the committed checkpoints back, by their manifests.
func (w *world) show(ctx context.Context, out io.Writer) error {
	r, err := s3sink.NewReader(w.client, "lake", "raw", nil)
	if err != nil {
		return err
	}
	rows := 0
	for m, err := range r.Manifests(ctx) {
		if err != nil {
			return err
		}
		for _, f := range m.Files {
			body, err := r.Open(ctx, f)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(body)
			body.Close()
			if err != nil {
				return err
			}
			n := bytes.Count(text, []byte("\n"))
			rows += n
			fmt.Fprintf(out, "%s: %d rows, %d bytes\n", f.Key, n, f.Size)
		}
	}
	fmt.Fprintf(out, "%d rows in all\n", rows)
	return nil
}
