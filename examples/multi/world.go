package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
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
	search *elastictest.Server
	lake   *s3test.Server
	files  *s3.Client
	victim atomic.Pointer[victim]

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

	w.search = elastictest.NewServer()
	w.search.Inject(w.inject)
	w.closers = append(w.closers, w.search.Close)
	say("  search    a stand-in for Elasticsearch, in this process, at %s", w.search.URL)

	if w.lake, err = s3test.Start("lake"); err != nil {
		return nil, err
	}
	w.lake.Intercept = w.intercept
	w.closers = append(w.closers, func() { _ = w.lake.Close() })
	w.files = lakeClient(w.lake.URL)
	say("  lake      a stand-in for S3, in this process, at %s", w.lake.URL)

	server, err := postgres.Start(ctx, postgres.Options{Log: func(format string, args ...any) { say("  postgres  "+format, args...) }})
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, func() { _ = server.Stop() })
	say("  postgres  %s", server.Origin())
	return w, w.makeDatabase(ctx, server.DSN())
}

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
