package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const dsnVariable = "FLINKSINK_POSTGRES"

// pooledVariable has all tests go through the pooler of poolerVariable, but for what their administrator does.
const pooledVariable = "FLINKSINK_POOLED"

// env is a schema of its own on the real server, for tables and for the sink's own, which do not collide with other tests'.
type env struct {
	t      testing.TB
	schema string // of target tables, first in the search_path
	own    string // of the sink's tables
	admin  *pgxpool.Pool
	roles  map[string]string // by the settings of the connections that they are for
	where  string            // what a reader adds to tell the rows of a table with a key that are deleted
}

var schemas atomic.Int64

func newEnv(t testing.TB) *env {
	t.Helper()
	dsn := os.Getenv(dsnVariable)
	if dsn == "" {
		t.Skipf("%s is not set: it names a Postgres server that tests may fill, e.g. postgres://postgres@127.0.0.1:5432/postgres; ./test starts one", dsnVariable)
	}
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
	e := &env{t: t, schema: name, own: name + "_own", roles: map[string]string{}}
	e.admin = e.direct(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" })
	e.exec("CREATE SCHEMA " + e.schema)
	t.Cleanup(func() {
		e.exec("DROP SCHEMA IF EXISTS " + e.schema + " CASCADE")
		e.exec("DROP SCHEMA IF EXISTS " + e.own + " CASCADE")
		for _, role := range e.roles {
			e.exec("DROP OWNED BY " + role)
			e.exec("DROP ROLE " + role)
		}
	})
	return e
}

// live is what a reader adds to the name of a table.
func (e *env) live(t *changelog.Table) string {
	if len(t.Schema.Key) == 0 {
		return t.Name
	}
	return t.Name + e.where
}

// pool returns a pool that change may alter before it connects. It goes through the pooler where pooledVariable is set.
func (e *env) pool(change func(*pgxpool.Config)) *pgxpool.Pool {
	if os.Getenv(pooledVariable) != "" {
		return e.pooled(change)
	}
	return e.direct(change)
}

// notPooled skips a test that goes through the pooler.
func (e *env) notPooled(why string) {
	e.t.Helper()
	if os.Getenv(pooledVariable) != "" {
		e.t.Skip("through a pooler " + why)
	}
}

// pooled returns a pool of connections to the pooler. It refuses settings of a session, so they are those of the role.
func (e *env) pooled(change func(*pgxpool.Config)) *pgxpool.Pool {
	e.t.Helper()
	c, err := pgxpool.ParseConfig(os.Getenv(poolerVariable))
	if err != nil {
		e.t.Fatal(err)
	}
	user := c.ConnConfig.User
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.ConnConfig.RuntimeParams["search_path"] = e.schema
	c.MaxConns = 4
	if change != nil {
		change(c)
	}
	if c.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		e.t.Skip("statements by name do not go through the pooler")
	}
	set := map[string]string{}
	for k, v := range c.ConnConfig.RuntimeParams {
		if !slices.Contains([]string{"application_name", "client_encoding", "datestyle", "timezone", "standard_conforming_strings"}, strings.ToLower(k)) {
			set[k] = v
			delete(c.ConnConfig.RuntimeParams, k)
		}
	}
	role := c.ConnConfig.User
	if role == user {
		settings := fmt.Sprint(set)
		role = e.roles[settings]
		if role == "" {
			role = fmt.Sprintf("%s_pooled_%d", e.schema, len(e.roles))
			e.exec("CREATE ROLE " + role + " LOGIN SUPERUSER")
			e.roles[settings] = role
		}
		c.ConnConfig.User = role
	}
	if e.one("SELECT count(*) FROM pg_roles WHERE rolname = $1", role) == "0" {
		clear(set) // it is wanted to be of no use
	}
	for k, v := range set {
		if k != "search_path" || v == "" { // which is a list of names
			v = "'" + v + "'"
		}
		e.exec(fmt.Sprintf("ALTER ROLE %s SET %s = %s", role, k, v))
	}
	p, err := pgxpool.NewWithConfig(e.t.Context(), c)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(p.Close)
	return p
}

// direct returns a pool that goes past the pooler.
func (e *env) direct(change func(*pgxpool.Config)) *pgxpool.Pool {
	e.t.Helper()
	c, err := pgxpool.ParseConfig(os.Getenv(dsnVariable))
	if err != nil {
		e.t.Fatal(err)
	}
	c.ConnConfig.RuntimeParams["search_path"] = e.schema
	c.MaxConns = 4
	if change != nil {
		change(c)
	}
	p, err := pgxpool.NewWithConfig(e.t.Context(), c)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(p.Close)
	return p
}

func (e *env) exec(sql string, args ...any) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := e.admin.Exec(ctx, sql, args...); err != nil {
		e.t.Fatalf("%s: %v", sql, err)
	}
}

// one returns the only value of a query, as text.
func (e *env) one(sql string, args ...any) string {
	e.t.Helper()
	var s string
	if err := e.admin.QueryRow(context.Background(), "SELECT coalesce(("+sql+")::text, 'NULL')", args...).Scan(&s); err != nil {
		e.t.Fatalf("%s: %v", sql, err)
	}
	return s
}

// all returns all rows of a query, as the server prints them.
func (e *env) all(from string) []string {
	e.t.Helper()
	rows, err := e.admin.Query(context.Background(), "SELECT x::text FROM ("+from+") x ORDER BY 1")
	if err != nil {
		e.t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

func (e *env) options() *postgres.Options { return &postgres.Options{Schema: e.own} }

// table makes a source table of columns such as "id BIGINT NOT NULL".
func table(t testing.TB, name, mode, key string, columns ...string) *changelog.Table {
	t.Helper()
	tb := &changelog.Table{Name: name, Schema: &changelog.Schema{}}
	var err error
	if tb.Mode, err = changelog.ParseMode(mode); err != nil {
		t.Fatal(err)
	}
	for _, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		parsed, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tb.Schema.Columns = append(tb.Schema.Columns, changelog.Column{Name: name, Type: parsed})
	}
	for _, k := range strings.Fields(key) {
		tb.Schema.Key = append(tb.Schema.Key, tb.Schema.Index(k))
	}
	return tb
}

const (
	upsert = "[I,UA,D]"
	appnd  = "[I]"
)

var part0 = changelog.Partition{Topic: "topic", Partition: 0}

// writer is a lane driven by hand over one partition.
type writer struct {
	t     testing.TB
	ctx   context.Context
	c     sink.Committer
	table *changelog.Table
	claim sink.Claim
	at    int64 // next offset to write
	from  int64 // of the current checkpoint
	cp    sink.CheckpointID

	receipt sink.Committable // of the checkpoint that was prepared last
}

func (e *env) lane(p *pgxpool.Pool, into string, o *postgres.Options, tables ...*changelog.Table) (sink.Committer, error) {
	e.t.Helper()
	s, err := postgres.New(p, into, o)
	if err != nil {
		return nil, err
	}
	return s.Lane(e.t.Context(), sink.Lane{Bridge: "bridge", Sink: "target", Tables: tables})
}

// writer starts a lane on p and acquires the partition.
func (e *env) writer(p *pgxpool.Pool, o *postgres.Options, t *changelog.Table) *writer {
	e.t.Helper()
	c, err := e.lane(p, "", o, t)
	if err != nil {
		e.t.Fatal(err)
	}
	w := &writer{t: e.t, ctx: e.t.Context(), c: c, table: t}
	e.t.Cleanup(func() { c.Close(context.Background()) })
	w.acquire()
	return w
}

func (w *writer) store() sink.Store {
	if offers, ok := w.c.(sink.StoreOfferer); ok {
		return offers.OfferStore()
	}
	return w.c.(sink.Store)
}

func (w *writer) acquire() {
	w.t.Helper()
	if err := w.tryAcquire(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) tryAcquire() error {
	claim, err := w.store().Acquire(w.ctx, sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", Owner: "test", Partitions: []changelog.Partition{part0}, GroupGeneration: -1})
	if err != nil {
		return err
	}
	w.claim, w.cp, w.from = claim, 0, 0
	if len(claim.Positions) > 0 {
		w.from = claim.Positions[0].Offset
	}
	w.at = w.from
	return w.c.Open(w.ctx, claim)
}

// change makes a change at the next offset.
func (w *writer) change(kind changelog.Kind, row ...changelog.Value) changelog.Change {
	c := changelog.Change{Partition: part0, Offset: w.at, Kind: kind, Row: row}
	w.at++
	return c
}

func (w *writer) write(changes ...changelog.Change) error {
	b := changelog.NewBatch(w.table)
	for _, c := range changes {
		b.Append(c)
	}
	return w.c.Write(w.ctx, b)
}

func (w *writer) checkpoint() sink.Checkpoint {
	at := func(offset int64) []changelog.Position {
		return []changelog.Position{{Partition: part0, Offset: offset, LeaderEpoch: -1}}
	}
	return sink.Checkpoint{ID: w.cp + 1, From: at(w.from), To: at(w.at), Counters: sink.Counters{Records: w.at - w.from, Read: w.at - w.from, Applied: w.at - w.from}}
}

func (w *writer) prepare() error {
	cp := w.checkpoint()
	got, err := w.c.Prepare(w.ctx, sink.Cut{Generation: w.claim.Generation, Checkpoint: cp.ID, From: cp.From, To: cp.To, Counters: cp.Counters})
	w.receipt = got
	if _, own := w.c.(sink.Store); err == nil && own && !got.Empty() {
		return fmt.Errorf("the receipt is not empty")
	}
	return err
}

func (w *writer) save() error {
	cp := w.checkpoint()
	if !w.receipt.Empty() {
		w.receipt.Sink, w.receipt.From, w.receipt.To = "target", cp.From, cp.To
		cp.Committables = []sink.Committable{w.receipt}
	}
	if err := w.store().Save(w.ctx, w.claim.Generation, cp); err != nil {
		return err
	}
	w.cp, w.from = cp.ID, w.at
	return nil
}

// end prepares, and saves where the rows are in the transaction that Save commits: there it is Save that looks at the end of it, unless something is likely to be found.
func (w *writer) end() error {
	if err := w.prepare(); err != nil {
		return err
	}
	if _, own := w.c.(sink.Store); own {
		return w.save()
	}
	return nil
}

// finish prepares and saves, and must succeed.
func (w *writer) finish() {
	w.t.Helper()
	if err := w.prepare(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.save(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.c.Commit(w.ctx, w.receipt); err != nil {
		w.t.Fatal(err)
	}
}

// put writes changes as one checkpoint, and must succeed.
func (w *writer) put(changes ...changelog.Change) {
	w.t.Helper()
	if err := w.write(changes...); err != nil {
		w.t.Fatal(err)
	}
	w.finish()
}

// patientLane is lane where the server gives a transaction so little time that a busy machine may exceed it: then it is done again.
func (e *env) patientLane(p *pgxpool.Pool, o *postgres.Options, t *changelog.Table) *writer {
	e.t.Helper()
	c, err := e.lane(p, "", o, t)
	for sink.ClassOf(err) == sink.ErrTransient {
		c, err = e.lane(p, "", o, t)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close(context.Background()) })
	return &writer{t: e.t, ctx: e.t.Context(), c: c, table: t}
}

// patientWriter is writer, as patientLane is lane.
func (e *env) patientWriter(p *pgxpool.Pool, o *postgres.Options, t *changelog.Table) *writer {
	e.t.Helper()
	w := e.patientLane(p, o, t)
	w.acquireAgain()
	return w
}

// ended reports that the server ended a transaction that had its time, or the session while it had nothing to do for as long.
func ended(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "25P03" || pe.Code == "25P04")
}

// start begins a transaction that holds the history up to offset end, whatever time the server gives it: one that it ended is begun again.
func (w *writer) start(end int64) {
	w.t.Helper()
	for err := w.writeTo(end); err != nil; err = w.writeTo(end) {
		w.doAgain(err)
	}
}

// carry saves the history up to offset end, over and over where the server ends the transaction before that.
func (w *writer) carry(end int64) {
	w.t.Helper()
	for w.from < end {
		w.at = w.from
		err := w.writeTo(end)
		if err == nil {
			err = w.prepare()
		}
		if err == nil {
			err = w.save()
		}
		if err != nil {
			w.doAgain(err)
		}
	}
}

// doAgain goes back to what is saved after an error that allows it.
func (w *writer) doAgain(err error) {
	w.t.Helper()
	if c := sink.ClassOf(err); c != sink.ErrTransient && c != sink.ErrUncertain {
		w.t.Fatal(err)
	}
	w.c.Discard(w.ctx)
	w.acquireAgain()
}

// acquireAgain acquires, over and over where that can be done again.
func (w *writer) acquireAgain() {
	w.t.Helper()
	err := w.tryAcquire()
	for sink.ClassOf(err) == sink.ErrTransient {
		err = w.tryAcquire()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func num(n int64) changelog.Value  { return changelog.IntValue(n) }
func str(s string) changelog.Value { return changelog.StringValue(s) }
