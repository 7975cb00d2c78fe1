package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format"
	flinkjson "github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
	"github.com/flinksink/flinksink/sink/filestore"
	"github.com/flinksink/flinksink/sink/postgres"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

const (
	postgresVariable = "FLINKSINK_POSTGRES"
	lakeVariable     = "FLINKSINK_S3" // its keys are those of testbed/s3-up
)

// places are what three sinks at once write into, beside the index.
type places struct {
	pool   *pgxpool.Pool
	lake   *s3.Client
	bucket string
	undo   []func(context.Context)
}

func (p *places) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, f := range slices.Backward(p.undo) {
		f(ctx)
	}
}

// openPlaces makes a database and a bucket.
func openPlaces(ctx context.Context, dsn, endpoint string) (p *places, err error) {
	p = new(places)
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("%s is no connection string of the form postgres://user@host/database", postgresVariable)
	}
	admin, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	p.undo = append(p.undo, func(ctx context.Context) { _ = admin.Close(ctx) })
	name := fmt.Sprintf("flinksink_bench_three_%d", os.Getpid())
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	p.undo = append(p.undo, func(ctx context.Context) { _, _ = admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	if p.pool, err = pgxpool.New(ctx, u.String()); err != nil {
		return nil, err
	}
	p.undo = append(p.undo, func(context.Context) { p.pool.Close() })
	p.lake = s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(endpoint), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("testbed", "testbed-secret", "")})
	p.bucket = fmt.Sprintf("flinksink-bench-three-%d", os.Getpid())
	if _, err := p.lake.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &p.bucket}); err != nil {
		return nil, err
	}
	p.undo = append(p.undo, func(ctx context.Context) {
		err := p.empty(ctx)
		if err == nil {
			_, err = p.lake.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &p.bucket})
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: bucket %s is left behind: %v\n", p.bucket, err)
		}
	})
	return p, nil
}

func (p *places) empty(ctx context.Context) error {
	pages := s3.NewListObjectsV2Paginator(p.lake, &s3.ListObjectsV2Input{Bucket: &p.bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, o := range page.Contents {
			if _, err := p.lake.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &p.bucket, Key: o.Key}); err != nil {
				return err
			}
		}
	}
	return nil
}

// three measures a bridge into each of three places, and one bridge into all of them, Postgres deciding.
func (c *course) three(ctx context.Context, rounds int) error {
	dsn, endpoint := os.Getenv(postgresVariable), os.Getenv(lakeVariable)
	if dsn == "" || endpoint == "" {
		fmt.Printf("%s or %s is not set: three sinks at once are not measured\n", postgresVariable, lakeVariable)
		return nil
	}
	p, err := openPlaces(ctx, dsn, endpoint)
	if err != nil {
		return err
	}
	defer p.close()
	names := []string{"Postgres alone", "S3 alone", "Elasticsearch alone", "all three, one decision"}
	rates := make([][]float64, len(names))
	var ratios []float64
	for round := range rounds {
		this := make([]float64, len(names))
		for j := range names {
			i := (round + j) % len(names)
			c.runs++
			took, err := c.into(ctx, p, fmt.Sprintf("%s-%d", c.prefix, c.runs), i != 1 && i != 2, i != 0 && i != 2, i != 0 && i != 1)
			if err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			this[i] = float64(c.n) / took.Seconds()
			rates[i] = append(rates[i], this[i])
		}
		ratios = append(ratios, this[3]/min(this[0], this[1], this[2]))
	}
	fmt.Println("one lane, rows/s, median [lowest .. highest]:")
	for i, name := range names {
		fmt.Printf("  %-24s %s\n", name, figure(rates[i], "%.0f"))
	}
	fmt.Printf("  of the slowest alone     %s, wanted 0.80; load average %s\n", figure(ratios, "%.2f"), loadAverage())
	return nil
}

// into runs a bridge to the end of the topic.
func (c *course) into(ctx context.Context, p *places, name string, toPostgres, toLake, toIndex bool) (time.Duration, error) {
	d, err := format.New(c.table, []changelog.Format{flinkjson.Format{}}, nil)
	if err != nil {
		return 0, err
	}
	in, err := bridge.FromTable(c.table, d)
	if err != nil {
		return 0, err
	}
	clock := &clocked{Decoder: in.Decoder}
	in.Decoder = clock
	var outs []bridge.Output
	if toPostgres {
		to, err := postgres.New(p.pool, "public.items", &postgres.Options{CreateTable: true})
		if err != nil {
			return 0, err
		}
		outs = append(outs, bridge.Output{Name: "postgres", Sink: to})
	}
	if toLake {
		to, err := s3sink.New(p.lake, p.bucket, name, &s3sink.Options{Kind: s3sink.Changelog, Manifest: true})
		if err != nil {
			return 0, err
		}
		outs = append(outs, bridge.Output{Name: "lake", Sink: to})
	}
	if toIndex {
		to, err := elastic.New(c.transport, name, &elastic.Options{Deletes: elastic.Tombstone, CreateIndex: true, BulkBytes: bulkBytes, BulkActions: bulkActions, InFlight: workers})
		if err != nil {
			return 0, err
		}
		outs = append(outs, bridge.Output{Name: "search", Sink: to})
	}
	o := bridge.Options{Changes: changes, Interval: time.Hour, UntilEnd: true}
	if !toPostgres {
		if o.Store, err = filestore.New(filepath.Join(c.dir, name)); err != nil {
			return 0, err
		}
	}
	var last time.Time
	var mu sync.Mutex
	note := func(sink.Report) {
		mu.Lock()
		defer mu.Unlock()
		last = time.Now()
	}
	o.Hooks.Saved, o.Hooks.Committed = note, note
	b, err := bridge.NewMany(name, []bridge.Input{in}, outs, &o)
	if err != nil {
		return 0, err
	}
	if err := b.Run(ctx); err != nil {
		return 0, err
	}
	if n := b.Status().Counters.Applied; n != int64(c.n) {
		return 0, fmt.Errorf("the bridge applied %d of %d rows", n, c.n)
	}
	if toPostgres {
		var n int
		if err := p.pool.QueryRow(ctx, "SELECT count(*) FROM public.items").Scan(&n); err != nil {
			return 0, err
		}
		if n != c.n {
			return 0, fmt.Errorf("the table has %d rows of %d", n, c.n)
		}
		if _, err := p.pool.Exec(ctx, "DROP TABLE public.items"); err != nil {
			return 0, err
		}
	}
	if toIndex {
		if err := c.counted(ctx, name); err != nil {
			return 0, err
		}
	}
	if toLake {
		if err := p.lakeCounted(ctx, name, c.n); err != nil {
			return 0, err
		}
	}
	return last.Sub(clock.began), nil
}

// lakeCounted makes sure that the manifests name all rows.
func (p *places) lakeCounted(ctx context.Context, prefix string, n int) error {
	r, err := s3sink.NewReader(p.lake, p.bucket, prefix, nil)
	if err != nil {
		return err
	}
	var rows int64
	for m, err := range r.Manifests(ctx) {
		if err != nil {
			return err
		}
		for _, f := range m.Files {
			rows += f.Rows
		}
	}
	if rows != int64(n) {
		return errors.New("the manifests name " + fmt.Sprint(rows) + " rows of " + fmt.Sprint(n))
	}
	return p.empty(ctx)
}
