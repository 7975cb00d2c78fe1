package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/filestore"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/postgres"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

// storeFlags name a store that is not the target.
type storeFlags struct {
	url, schema string
	more        []string // flags of its kind, in a command that is shown
}

// words name the store in a command that is shown: without secrets.
func (f storeFlags) words() []string {
	out := []string{"--store", place{kindOf(f.url), f.url}.public()}
	if f.schema != "" {
		out = append(out, "--store-schema", f.schema)
	}
	return append(out, f.more...)
}

func (f *storeFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.url, "store", "", "`URL` of what holds the positions, where the targets do not: "+spellings(storeKinds()...)+" (default: the target that can decide)")
	fs.StringVar(&f.schema, "store-schema", "", "Postgres `SCHEMA` of flinksink's own tables (default: flinksink)")
}

func storeKinds() []kind { return []kind{atPostgres, atKafka, atS3, atFile} }

// keeper is a store that was named.
type keeper struct {
	sink.Store
	place place
	pg    *postgres.Store                 // nil: it is another one
	file  *filestore.Store                // nil: it is another one
	pool  *pgxpool.Pool                   // of pg
	reach func(ctx context.Context) error // connects, or says within the patience why it cannot
	close func()

	schema  string  // of pg's tables
	witness witness // of receipts whose target is the server of the store; nil: it is no target, or tells by itself
}

// writers names the bridges that have left receipts in the tables of the store's schema, whichever store decided about them.
func (k *keeper) writers(ctx context.Context) (names []string, err error) {
	fence := pgx.Identifier{k.schema, "fence"}.Sanitize()
	there := false
	if err := k.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", fence).Scan(&there); err != nil || !there {
		return nil, err
	}
	rows, err := k.pool.Query(ctx, `SELECT DISTINCT bridge COLLATE "C" FROM `+fence+` ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func newStore(pool *pgxpool.Pool, schema string) (*postgres.Store, error) {
	return postgres.NewStore(pool, &postgres.StoreOptions{Schema: schema})
}

// openStore connects to what --store names.
func (c *call) openStore(ctx context.Context, f *storeFlags, kf *kafkaFlags, sf *s3Flags, lanes int) (*keeper, error) {
	k, err := c.buildStore(f, kf, sf, lanes)
	if err != nil {
		return nil, err
	}
	if err := k.reach(ctx); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

// buildStore makes what --store names, or says what is wrong with the flags. It reaches no server.
func (c *call) buildStore(f *storeFlags, kf *kafkaFlags, sf *s3Flags, lanes int) (*keeper, error) {
	p, err := c.placeOf("--store", f.url, storeKinds()...)
	if err != nil {
		return nil, err
	}
	k := &keeper{place: p, close: func() {}, reach: func(context.Context) error { return nil }}
	switch p.kind {
	case atPostgres:
		pool, err := c.newPool("--store", p.url, lanes)
		if err != nil {
			return nil, err
		}
		if k.pg, err = newStore(pool, f.schema); err != nil {
			pool.Close()
			return nil, err
		}
		k.reach = func(ctx context.Context) error { return c.ping(ctx, "--store", pool) }
		k.Store, k.pool, k.close, k.schema = k.pg, pool, pool.Close, cmp.Or(f.schema, "flinksink")
	case atKafka:
		b, err := p.broker("--store")
		if err != nil {
			return nil, err
		}
		if b.topic != "" && kf.checkpoints != "" && b.topic != kf.checkpoints {
			return nil, config("--store names topic %q, and --kafka-checkpoints %q: name one", b.topic, kf.checkpoints)
		}
		o := &kafka.Options{Prefix: kf.prefix, Topic: b.topic}
		if b.topic == "" {
			o.Topic = kf.checkpoints
		}
		t, err := kf.clientTable("--kafka-config", b.seeds, nil)
		if err != nil {
			return nil, err
		}
		cl, err := c.clientAt("--store", t)
		if err != nil {
			return nil, err
		}
		if k.Store, err = kafka.NewStore(cl.Client, o); err != nil {
			cl.Close()
			return nil, err
		}
		k.witness = atBrokers(cl.Client)
		k.reach = func(ctx context.Context) error {
			_, err := c.clusterOf(ctx, cl)
			return err
		}
		k.close = func() {
			k.Store.Close(context.Background())
			cl.Close()
		}
	case atS3:
		d, err := p.folder("--store")
		if err != nil {
			return nil, err
		}
		client, err := c.newBucketClient("--store", sf)
		if err != nil {
			return nil, err
		}
		if k.Store, err = s3sink.NewStore(client, d.bucket, d.prefix, s3sink.Settings{}); err != nil {
			return nil, err
		}
		k.reach = func(ctx context.Context) error { return c.reach(ctx, "--store", sf, client, d) }
		k.witness = atBucket(client)
	case atFile:
		if k.file, err = filestore.New(p.file()); err != nil {
			return nil, fileStoreError(p, err)
		}
		k.Store = k.file
	}
	return k, nil
}

// fileStoreError says what is wrong with the file of --store.
func fileStoreError(p place, err error) error {
	var of *fs.PathError
	switch folder := filepath.Dir(p.file()); {
	case p.file() == "":
		return config("--store takes file:PATH, and the path is missing")
	case errors.Is(err, fs.ErrNotExist):
		return &configError{err: &worded{fmt.Sprintf("--store %s: there is no folder %s: make it, or correct the path", p.url, folder), err}}
	case errors.As(err, &of):
		return &configError{err: &worded{fmt.Sprintf("--store %s: %s cannot be used: %v", p.url, of.Path, of.Err), err}}
	}
	var e *sink.Error
	if errors.As(err, &e) && e.Err != nil {
		return &configError{err: &worded{fmt.Sprintf("--store %s: %s", p.url, strings.TrimPrefix(e.Err.Error(), "file store: ")), err}}
	}
	return err
}

// postgres returns the store if it is Postgres, which alone can do what.
func (k *keeper) postgres(what, cure string) (*postgres.Store, error) {
	if k.pg == nil {
		return nil, config("--store: %s %s: %s", k.place.kind.article(), what, cure)
	}
	return k.pg, nil
}
