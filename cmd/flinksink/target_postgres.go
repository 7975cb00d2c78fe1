package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// tablesFlags say how rows are written to Postgres.
type tablesFlags struct {
	into  string
	shape shapeFlags
}

func (f *tablesFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.into, "into", "", "`TABLE` to write into, or schema.table, as SQL would name it (default: the Flink table's name, as it is)")
	f.shape.add(cmd)
}

// tableFlagNames are the flags of Postgres targets alone.
func tableFlagNames() []string { return append([]string{"into"}, shapeFlagNames()...) }

// tableTarget is a table in Postgres.
type tableTarget struct {
	place
	f    *targetFlags
	mode string // "": auto
	pool *pgxpool.Pool
	sink *postgres.Sink
}

func (t *tableTarget) at() place { return t.place }

// values implements target.
func (t *tableTarget) values() error { return t.f.table.shape.set(&postgres.Options{}) }

// build implements target.
func (t *tableTarget) build(c *call, r *reading) error {
	o := &postgres.Options{Mode: postgres.Auto, Schema: t.f.keep.schema, CreateTable: t.f.create}
	var err error
	if t.mode != "" {
		if o.Mode, err = postgres.ParseMode(t.mode); err != nil {
			return err
		}
	}
	if err := t.f.table.shape.set(o); err != nil {
		return err
	}
	t.pool, err = c.newPool("--to", t.url, r.lanes)
	judged := t.pool
	if err != nil {
		judged = &pgxpool.Pool{} // the options are judged all the same, and nothing is asked of it
	}
	var bad error
	t.sink, bad = postgres.New(judged, t.f.table.into, o)
	return errors.Join(err, bad)
}

// open implements target.
func (t *tableTarget) open(ctx context.Context, c *call, _ *reading) (sink.Sink, error) {
	return t.sink, c.ping(ctx, "--to", t.pool)
}

func (t *tableTarget) into(table *ddl.Table) string {
	if t.f.table.into != "" {
		return "table " + t.f.table.into
	}
	return "table " + table.Name()
}

func (t *tableTarget) own() bool {
	switch t.mode {
	case "", postgres.Auto.String():
		return !t.elsewhere()
	}
	return t.mode == postgres.InTransaction.String()
}

// elsewhere reports that another store decides.
func (t *tableTarget) elsewhere() bool { return t.f.keep.url != "" }

func (t *tableTarget) keeper() (sink.Store, error) { return newStore(t.pool, t.f.keep.schema) }

// ready implements target: a table is not made anew for a bridge that has read.
func (t *tableTarget) ready(ctx context.Context, r *reading, sinkName, fingerprint string) error {
	if !t.f.create {
		return nil
	}
	lane := sink.Lane{Bridge: r.bridge, Sink: sinkName, Tables: []*changelog.Table{r.in.Decoder.Table()}, OtherStore: t.elsewhere()}
	for _, found := range t.sink.Check(ctx, lane, fingerprint) {
		if found.What == "bridge" && found.Err != nil {
			return found.Err
		}
	}
	return nil
}

// sameStore refuses a bridge that has written here while another store decided, and one that has its positions here and is now given another: it would begin anew,
// and write again what is there. Every generation that leaves receipts has a row in fence, and every bridge whose store is here one in bridge.
func (t *tableTarget) sameStore(ctx context.Context, bridge string, decides bool) error {
	of := func(table string) string {
		return pgx.Identifier{cmp.Or(t.f.keep.schema, "flinksink"), table}.Sanitize()
	}
	has := func(table, column string) (yes bool, err error) {
		if err = t.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", of(table)).Scan(&yes); err != nil || !yes {
			return false, err
		}
		err = t.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+of(table)+" WHERE "+column+" = $1)", bridge).Scan(&yes)
		return yes, err
	}
	here, err := has("bridge", "name")
	if err != nil {
		return err
	}
	if !decides {
		if here {
			return config("bridge %q has its positions in Postgres, with its rows, and now another store is to decide: leave --store out (or the target that decides). To begin anew give it another --bridge name", bridge)
		}
		return nil
	}
	receipts, err := has("fence", "bridge")
	if err == nil && receipts && !here {
		err = config("--store is missing: bridge %q has written here while another store decided (a file, a bucket, Kafka): name it, or what is there is written again. To begin anew give it another --bridge name", bridge)
	}
	return err
}

// check implements target.
func (t *tableTarget) check(ctx context.Context, k *checkup, s *subject, l sink.Lane, fingerprint string) bool {
	fine := true
	l.OtherStore = t.elsewhere()
	for _, found := range t.sink.Check(ctx, l, fingerprint) {
		if s.dec == nil && found.What == "table" {
			k.skip("table", "its definition could not be read")
			continue
		}
		if k.bad(found.What, found.Err) {
			fine = false
		} else {
			k.ok(found.What, "%s", found.Found)
		}
	}
	if fine {
		t.connections(ctx, k, s.flags.pace.lanes)
	}
	if fine && s.onData == bridge.DeadLetter {
		k.bad("letters", t.sink.CheckDeadLetters(ctx))
	}
	return fine
}

func (t *tableTarget) close() {
	if t.pool != nil {
		t.pool.Close()
	}
}
