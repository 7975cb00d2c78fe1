package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store is the door to the stored positions without a sink: for operators and tools, which see and steer bridges with it, and as
// the [sink.Store] of other sinks. It is safe for use by several goroutines. The store of a [Sink] is the sink itself, never this.
type Store struct {
	s   *Sink // of which only the pool, the store's options and its tables are used
	who string
}

var _ sink.Store = (*Store)(nil)

// StoreOptions are the settings of a [Store]. nil and the zero value are the defaults.
type StoreOptions struct {
	// Schema is the Postgres schema of the tables, as in [Options].Schema. Defaults to "flinksink".
	Schema string
	// LockTimeout bounds every wait for a lock, as in [Options].LockTimeout. Defaults to 30 s.
	LockTimeout time.Duration
	// Who is written into the audit table beside the database role. Defaults to the operating system's user@host.
	Who string
}

// NewStore returns a store over the pool's database. It reaches no server. The caller closes the pool.
func NewStore(pool *pgxpool.Pool, o *StoreOptions) (*Store, error) {
	var d StoreOptions
	if o != nil {
		d = *o
	}
	s, err := New(pool, "", &Options{Schema: d.Schema, LockTimeout: d.LockTimeout})
	if err != nil {
		return nil, err
	}
	if d.Who == "" {
		d.Who = whoami()
	}
	return &Store{s: s, who: d.Who}, nil
}

func whoami() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// fail makes err an error of operation op; class is what it has if it has none.
func (st *Store) fail(op, bridge string, err error) error {
	var e *sink.Error
	if errors.As(err, &e) {
		out := *e
		out.Op, out.Bridge = op, bridge
		return &out
	}
	return &sink.Error{Op: op, Bridge: bridge, Class: classify(err), Err: tell(err)}
}

// Acquire implements [sink.Store]. It makes the tables where they are missing.
func (st *Store) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	found, err := st.s.server(ctx)
	if err == nil {
		err = found.refuse(Staged) // a store beside the rows needs what that mode needs
	}
	if err == nil {
		err = st.s.ensureStore(ctx)
	}
	if err != nil {
		return sink.Claim{}, st.fail("acquire", r.Bridge, lift(err))
	}
	claim, err := st.s.acquireFor(ctx, r)
	if err != nil {
		return sink.Claim{}, st.fail("acquire", r.Bridge, err)
	}
	return claim, nil
}

// Save implements [sink.Store], in a transaction of its own.
func (st *Store) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	if err := st.s.saveAlone(ctx, gen, cp); err != nil {
		return st.fail("save", gen.Bridge, err)
	}
	return nil
}

// End implements [sink.Store].
func (st *Store) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	last, err := st.s.endOne(ctx, gen)
	if err != nil {
		return 0, st.fail("end", gen.Bridge, err)
	}
	return last, nil
}

// Read implements [sink.Store]. Tables that were never made hold nothing.
func (st *Store) Read(ctx context.Context, bridge string) (sink.State, error) {
	made, err := st.s.storeVersion(ctx, st.s.pool)
	if err != nil || !made {
		if err != nil {
			err = st.fail("read", bridge, lift(err))
		}
		return sink.State{}, err
	}
	state, err := st.s.read(ctx, bridge)
	if err != nil {
		return sink.State{}, st.fail("read", bridge, lift(err))
	}
	return state, nil
}

// Bridges returns the names of the bridges that the store knows, sorted. Tables that were never made hold none.
func (st *Store) Bridges(ctx context.Context) ([]string, error) {
	names, err := st.bridges(ctx)
	if err != nil {
		return nil, st.fail("read", "", lift(err))
	}
	return names, nil
}

func (st *Store) bridges(ctx context.Context) ([]string, error) {
	made, err := st.s.storeVersion(ctx, st.s.pool)
	if err != nil || !made {
		return nil, err
	}
	rows, err := st.s.pool.Query(ctx, `SELECT name FROM `+st.s.store.bridge+` ORDER BY name COLLATE "C"`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Close implements [sink.Store]. There is nothing to free: the pool is the caller's.
func (st *Store) Close(context.Context) error { return nil }

// String names the schema of the tables. It holds no secret.
func (st *Store) String() string {
	return fmt.Sprintf("postgres store in schema %s", quote(st.s.o.Schema))
}
