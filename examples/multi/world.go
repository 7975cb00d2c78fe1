package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/sink/elastic/elastictest"
	"github.com/flinksink/flinksink/sink/s3/s3test"
	"github.com/flinksink/flinksink/testbed/postgres"
)

// world is what a program of this kind finds: a broker with a topic, a database, a bucket and a search index. They outlive the processes that
// are killed.
type world struct {
	broker string
	dsn    string
	pool   *pgxpool.Pool
	search string // its address
	files  *s3.Client
	names  names
	victim atomic.Pointer[victim]

	searchFront, lakeFront string // through which the processes reach them

	producer *kgo.Client
	dice     *rand.Rand
	messages int
	rows     map[int64]string // what the topic comes to, by id
	closers  []func()
}

func newWorld(ctx context.Context, say func(string, ...any)) (_ *world, err error) {
	w := &world{rows: map[int64]string{}, dice: rand.New(rand.NewPCG(1, 2))}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"), kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, broker.Close)
	w.broker = broker.ListenAddrs()[0]
	if w.producer, err = kgo.NewClient(kgo.SeedBrokers(w.broker), kgo.DefaultProduceTopic("orders")); err != nil {
		return nil, err
	}
	w.closers = append(w.closers, w.producer.Close)
	say("  broker    kfake, in this process, at %s", w.broker)

	if err := w.findSearch(say); err != nil {
		return nil, err
	}
	if err := w.findLake(ctx, say); err != nil {
		return nil, err
	}
	server, err := postgres.Start(ctx, postgres.Options{Log: func(format string, args ...any) { say("  postgres  "+format, args...) }})
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, func() { _ = server.Stop() })
	say("  postgres  %s", server.Origin())
	return w, w.makeDatabase(ctx, server.DSN())
}

// Addresses of real servers, which are used in place of stand-ins.
const (
	elasticEnv = "FLINKSINK_ELASTIC"
	s3Env      = "FLINKSINK_S3" // its keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or those of testbed/s3-up
)

// findSearch finds an index of this run's own.
func (w *world) findSearch(say func(string, ...any)) (err error) {
	w.names.index, w.names.alias = "orders-v1", "orders"
	if w.search = os.Getenv(elasticEnv); w.search == "" {
		standIn := elastictest.NewServer()
		w.closers = append(w.closers, standIn.Close)
		w.search = standIn.URL
		say("  search    a stand-in for Elasticsearch, in this process, at %s (%s names a real one)", w.search, elasticEnv)
	} else {
		w.names.index, w.names.alias = unique("flinksink-multi-orders"), unique("flinksink-multi")
		w.closers = append(w.closers, func() {
			if req, err := http.NewRequest(http.MethodDelete, w.search+"/"+w.names.index, nil); err == nil {
				if res, err := http.DefaultClient.Do(req); err == nil {
					res.Body.Close()
				}
			}
		})
		say("  search    Elasticsearch, that of %s", elasticEnv)
	}
	w.searchFront, err = w.front(w.search, searchOp)
	return err
}

// findLake finds a bucket of this run's own.
func (w *world) findLake(ctx context.Context, say func(string, ...any)) (err error) {
	endpoint := os.Getenv(s3Env)
	if endpoint == "" {
		w.names.bucket = "lake"
		standIn, err := s3test.Start(w.names.bucket)
		if err != nil {
			return err
		}
		w.closers = append(w.closers, func() { _ = standIn.Close() })
		endpoint = standIn.URL
		w.files = lakeClient(endpoint)
		say("  lake      a stand-in for S3, in this process, at %s (%s names a real one)", endpoint, s3Env)
	} else {
		w.names.bucket = unique("flinksink-multi")
		w.files = lakeClient(endpoint)
		if _, err := w.files.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &w.names.bucket}); err != nil {
			return fmt.Errorf("making a bucket: %w", err)
		}
		w.closers = append(w.closers, func() { w.dropBucket(context.WithoutCancel(ctx)) })
		say("  lake      S3, that of %s", s3Env)
	}
	w.lakeFront, err = w.front(endpoint, lakeOp)
	return err
}

// dropBucket takes away what this run made, as far as it can.
func (w *world) dropBucket(ctx context.Context) {
	bucket := &w.names.bucket
	if ups, err := w.files.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: bucket}); err == nil {
		for _, u := range ups.Uploads {
			_, _ = w.files.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: bucket, Key: u.Key, UploadId: u.UploadId})
		}
	}
	pages := s3.NewListObjectsV2Paginator(w.files, &s3.ListObjectsV2Input{Bucket: bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			break
		}
		for _, o := range page.Contents {
			_, _ = w.files.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: o.Key})
		}
	}
	_, _ = w.files.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket})
}

func unique(name string) string { return fmt.Sprintf("%s-%d", name, time.Now().UnixNano()) }

func (w *world) close() {
	for i := len(w.closers) - 1; i >= 0; i-- {
		w.closers[i]()
	}
}

// makeDatabase makes an empty database, which goes away with the world.
func (w *world) makeDatabase(ctx context.Context, dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return fmt.Errorf("%s is no connection string that this program understands: expected postgres://user@host/database", postgres.Env)
	}
	admin, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("flinksink_multi_%d", time.Now().UnixNano())
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		_ = admin.Close(ctx)
		return fmt.Errorf("making a database: %w", err)
	}
	w.closers = append(w.closers, func() {
		ctx := context.WithoutCancel(ctx)
		_, _ = admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		_ = admin.Close(ctx)
	})
	u.Path = "/" + name
	w.dsn = u.String()
	if w.pool, err = pgxpool.New(ctx, w.dsn); err == nil {
		w.closers = append(w.closers, w.pool.Close)
	}
	return err
}

// produce writes messages: new rows, updates, deletes, and rows that come back.
func (w *world) produce(ctx context.Context, n int) error {
	var records []*kgo.Record
	for range n {
		w.messages++
		id := w.dice.Int64N(200)
		r := &kgo.Record{Key: fmt.Appendf(nil, `{"id":%d}`, id)}
		if _, there := w.rows[id]; there && w.dice.IntN(4) == 0 {
			delete(w.rows, id)
		} else {
			cents := w.dice.IntN(100_000)
			customer := fmt.Sprintf("customer %d", w.messages)
			r.Value = fmt.Appendf(nil, `{"id":%d,"customer":%q,"total":%d.%02d}`, id, customer, cents/100, cents%100)
			w.rows[id] = row(customer, fmt.Sprintf("%d.%02d", cents/100, cents%100))
		}
		records = append(records, r)
	}
	return w.producer.ProduceSync(ctx, records...).FirstErr()
}

// row is a row in the form in which the three places are compared.
func row(customer, total string) string { return customer + ", " + total }
