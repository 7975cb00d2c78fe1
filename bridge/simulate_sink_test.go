package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// What a simulated process reaches of its sink and its store, and how that is disturbed: a stopped process waits, the calls of a dead one
// arrive late or never, and after a failover every connection is gone.

// simServer is the database behind sink and store; failing over begins another one that holds the same.
type simServer interface {
	sink() sink.Sink
	store() sink.Store
	rows() map[string]int // that readers see, by their text
	staged() int          // prepared work that is neither committed nor rolled back
	failover() simServer
}

// memory is sinktest's server.
type memory struct {
	srv   *sinktest.Server
	inTx  bool
	table *changelog.Table
}

func (m memory) sink() sink.Sink {
	return sinktest.NewSink(m.srv, &sinktest.SinkOptions{InTransaction: m.inTx})
}
func (m memory) store() sink.Store   { return sinktest.NewStore(m.srv) }
func (m memory) staged() int         { return m.srv.Staged() }
func (m memory) failover() simServer { return memory{m.srv.Crash(), m.inTx, m.table} }

func (m memory) rows() map[string]int {
	out := map[string]int{}
	for _, r := range m.srv.Table(m.table.Name) {
		out[rowText(r)]++
	}
	return out
}

func rowText(r changelog.Row) string { return fmt.Sprintf("%d=%s", r[0].Int(), r[1].Str()) }

// simDatabase is the server that is there now.
type simDatabase struct {
	mu     sync.Mutex
	server simServer
	epoch  int  // counts failovers
	away   bool // nobody gets an answer
}

func (d *simDatabase) now() (s simServer, epoch int, away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.server, d.epoch, d.away
}

func (d *simDatabase) failover() {
	d.mu.Lock()
	d.server, d.epoch = d.server.failover(), d.epoch+1
	d.mu.Unlock()
}

func (d *simDatabase) setAway(away bool) {
	d.mu.Lock()
	d.away = away
	d.mu.Unlock()
}

// simAccess is one process's way to sink and store.
type simAccess struct {
	w *simWorld

	mu     sync.Mutex
	frozen chan struct{}   // closed when the process goes on; nil: it does
	dead   bool            // nothing gets through any more
	late   int             // calls of the dead process that are still to arrive
	lateIn []time.Duration // after which time each of them arrives
}

var errSimulated = errors.New("simulated: connection lost")

// call makes one call. What is late is made when its caller has long had an error, and must not touch what the caller uses.
func (a *simAccess) call(ctx context.Context, op string, late bool, do func(ctx context.Context) error) error {
	for {
		a.mu.Lock()
		if a.frozen == nil {
			break
		}
		frozen := a.frozen
		a.mu.Unlock()
		<-frozen // a stopped process does not see its context end either
	}
	defer a.mu.Unlock() // one call of a process at a time
	lost := &sink.Error{Op: op, Class: sink.ErrUncertain, Err: errSimulated}
	if a.dead {
		if late && a.late > 0 {
			a.late--
			a.w.arrives(op, a.lateIn[a.late], do)
		}
		return lost
	}
	if _, _, away := a.w.db.now(); away {
		lost.Class = sink.ErrTransient
		return lost
	}
	return do(ctx)
}

func (a *simAccess) freeze() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.frozen == nil {
		a.frozen = make(chan struct{})
	}
}

func (a *simAccess) thaw() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.frozen != nil {
		close(a.frozen)
		a.frozen = nil
	}
}

// kill lets nothing through from now on; in says when the process's next calls arrive after all.
func (a *simAccess) kill(in []time.Duration) {
	a.mu.Lock()
	a.dead, a.late, a.lateIn = true, len(in), in
	a.mu.Unlock()
	a.thaw()
}

// simSink makes committers of the database.
type simSink struct {
	a      *simAccess
	second bool
}

// of returns the sink on a server.
func (s simSink) of(server simServer) sink.Sink {
	if s.second {
		return server.(simPair).second()
	}
	return server.sink()
}

func (s simSink) Guarantee() sink.Guarantee {
	server, _, _ := s.a.w.db.now()
	return s.of(server).Guarantee()
}

// String names the target in the bridge's fingerprint.
func (simSink) String() string { return "simulated" }

func (s simSink) Lane(ctx context.Context, l sink.Lane) (out sink.Committer, err error) {
	err = s.a.call(ctx, "lane", false, func(ctx context.Context) error {
		c := &simCommitter{a: s.a, of: s.of, lane: l}
		if err := c.connect(ctx); err != nil {
			return err
		}
		out = c
		if _, ok := c.c.(sink.Store); ok {
			out = simOwnStore{c}
		}
		return nil
	})
	return out, err
}

// simCommitter is a committer that has to connect again after a failover.
type simCommitter struct {
	a     *simAccess
	of    func(simServer) sink.Sink
	lane  sink.Lane
	c     sink.Committer
	epoch int
}

// connect begins again where the server is another one.
func (c *simCommitter) connect(ctx context.Context) error {
	inner, epoch, err := c.any(ctx)
	if err == nil {
		c.c, c.epoch = inner, epoch
	}
	return err
}

// any returns a committer on the server that is there now.
func (c *simCommitter) any(ctx context.Context) (sink.Committer, int, error) {
	server, epoch, _ := c.a.w.db.now()
	if c.c != nil && c.epoch == epoch {
		return c.c, epoch, nil
	}
	inner, err := c.of(server).Lane(ctx, c.lane)
	return inner, epoch, err
}

// fresh is a call that any connection is good for; on is one that needs the connection which was there, and is lost with it.
func (c *simCommitter) fresh(ctx context.Context, op string, late bool, do func(ctx context.Context, c sink.Committer) error) error {
	return c.a.call(ctx, op, late, func(ctx context.Context) error {
		inner, _, err := c.any(ctx)
		if err != nil {
			return err
		}
		return do(ctx, inner)
	})
}

func (c *simCommitter) on(ctx context.Context, op string, late bool, do func(ctx context.Context, c sink.Committer) error) error {
	return c.a.call(ctx, op, late, func(ctx context.Context) error {
		if _, epoch, _ := c.a.w.db.now(); epoch != c.epoch {
			return &sink.Error{Op: op, Class: sink.ErrUncertain, Err: errSimulated}
		}
		return do(ctx, c.c)
	})
}

func (c *simCommitter) Open(ctx context.Context, claim sink.Claim) error {
	return c.a.call(ctx, "open", true, func(ctx context.Context) error {
		if err := c.connect(ctx); err != nil {
			return err
		}
		return c.c.Open(ctx, claim)
	})
}

func (c *simCommitter) Write(ctx context.Context, b *changelog.Batch) error {
	return c.on(ctx, "write", false, func(ctx context.Context, c sink.Committer) error { return c.Write(ctx, b) })
}

func (c *simCommitter) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	var r box[sink.Committable]
	return r.get(c.on(ctx, "prepare", true, func(ctx context.Context, c sink.Committer) error { return r.put(c.Prepare(ctx, cut)) }))
}

func (c *simCommitter) Discard(ctx context.Context) error {
	return c.on(ctx, "discard", false, func(ctx context.Context, c sink.Committer) error { return c.Discard(ctx) })
}

func (c *simCommitter) Commit(ctx context.Context, r sink.Committable) error {
	return c.fresh(ctx, "commit", true, func(ctx context.Context, c sink.Committer) error { return c.Commit(ctx, r) })
}

func (c *simCommitter) Abort(ctx context.Context, r sink.Committable) error {
	return c.fresh(ctx, "abort", true, func(ctx context.Context, c sink.Committer) error { return c.Abort(ctx, r) })
}

func (c *simCommitter) Close(ctx context.Context) error {
	return c.a.call(ctx, "close", false, func(ctx context.Context) error { return c.c.Close(ctx) })
}

// simStore is the store that decides, and tells the world of each decision.
type simStore struct{ a *simAccess }

func (s simStore) call(ctx context.Context, op string, do func(ctx context.Context, s sink.Store) error) error {
	return s.a.call(ctx, op, op != "read", func(ctx context.Context) error {
		server, _, _ := s.a.w.db.now()
		return do(ctx, server.store())
	})
}

func (s simStore) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	var out box[sink.Claim]
	return out.get(s.call(ctx, "acquire", func(ctx context.Context, s sink.Store) error { return out.put(s.Acquire(ctx, r)) }))
}

func (s simStore) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	return s.call(ctx, "save", func(ctx context.Context, store sink.Store) error {
		return s.a.w.saved(gen, cp, store.Save(ctx, gen, cp))
	})
}

func (s simStore) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	var out box[sink.CheckpointID]
	return out.get(s.call(ctx, "end", func(ctx context.Context, s sink.Store) error { return out.put(s.End(ctx, gen)) }))
}

func (s simStore) Read(ctx context.Context, bridge string) (sink.State, error) {
	var out box[sink.State]
	return out.get(s.call(ctx, "read", func(ctx context.Context, s sink.Store) error { return out.put(s.Read(ctx, bridge)) }))
}

func (s simStore) Close(context.Context) error { return nil }

// box keeps an answer. A late call fills it when nobody looks any more.
type box[T any] struct {
	mu sync.Mutex
	v  T
}

func (b *box[T]) put(v T, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.v = v
	}
	return err
}

func (b *box[T]) get(err error) (T, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.v, err
}

// simOwnStore is a committer that decides. Its Save needs the transaction, and so the connection, that Prepare left open.
type simOwnStore struct{ *simCommitter }

func (s simOwnStore) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	var out box[sink.Claim]
	return out.get(s.fresh(ctx, "acquire", true, func(ctx context.Context, s sink.Committer) error { return out.put(s.(sink.Store).Acquire(ctx, r)) }))
}

func (s simOwnStore) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	return s.on(ctx, "save", true, func(ctx context.Context, c sink.Committer) error {
		return s.a.w.saved(gen, cp, c.(sink.Store).Save(ctx, gen, cp))
	})
}

func (s simOwnStore) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	var out box[sink.CheckpointID]
	return out.get(s.fresh(ctx, "end", true, func(ctx context.Context, s sink.Committer) error { return out.put(s.(sink.Store).End(ctx, gen)) }))
}

func (s simOwnStore) Read(ctx context.Context, bridge string) (sink.State, error) {
	var out box[sink.State]
	return out.get(s.fresh(ctx, "read", false, func(ctx context.Context, s sink.Committer) error { return out.put(s.(sink.Store).Read(ctx, bridge)) }))
}
