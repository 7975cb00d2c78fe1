package sinktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// More implementations with one mistake each.

type abortNeedsWork struct{ sink.Committer }

func (c abortNeedsWork) Abort(ctx context.Context, r sink.Committable) error {
	if r.Empty() {
		return lost("abort")
	}
	return c.Committer.Abort(ctx, r)
}

// forgetsPositions is a store that was restarted and lost its positions.
type forgetsPositions struct{ sink.Store }

func (s forgetsPositions) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	c, err := s.Store.Acquire(ctx, r)
	c.Positions = nil
	return c, err
}

// commitsTheSession commits whatever its generation has prepared, as a Kafka coordinator does that knows a session and no transaction.
type commitsTheSession struct {
	sink.Committer
	p *process
}

func (c commitsTheSession) Commit(ctx context.Context, r sink.Committable) error {
	err := c.Committer.Commit(ctx, r)
	c.p.locked(func(_ *bridgeState, st *sinkState) {
		for w, changes := range st.staged {
			if w.generation == r.Generation {
				c.p.srv.apply(changes)
				delete(st.staged, w)
			}
		}
	})
	return err
}

// listsOnce tells of an ended generation to one successor only.
type listsOnce struct {
	sink.Store
	p *process
}

func (s listsOnce) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	c, err := s.Store.Acquire(ctx, r)
	c.Ended = slices.DeleteFunc(c.Ended, func(e sink.EndedGeneration) bool {
		w := workName{generation: e.ID}
		known := s.p.notes[w] != nil
		s.p.notes[w] = true
		return known
	})
	return c, err
}

// dropsReplays takes a batch that begins where one began before for the same batch, in whatever process.
type dropsReplays struct {
	sink.Committer
	p *process
}

func (c dropsReplays) Write(ctx context.Context, b *changelog.Batch) error {
	first := workName{checkpoint: sink.CheckpointID(b.Changes[0].Offset + 1)}
	if c.p.notes[first] != nil {
		return nil
	}
	c.p.notes[first] = true
	return c.Committer.Write(ctx, b)
}

type losesLastBatch struct {
	*committer
	before []change
}

func (c *losesLastBatch) Write(ctx context.Context, b *changelog.Batch) error {
	c.before = slices.Clone(c.pending)
	return c.committer.Write(ctx, b)
}

func (c *losesLastBatch) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if len(c.before) > 0 {
		c.pending = c.before
	}
	return c.committer.Prepare(ctx, cut)
}

// filtered writes what is left of a batch after keep looked at it.
type filtered struct {
	sink.Committer
	keep func(c *changelog.Change) bool
}

func (c filtered) Write(ctx context.Context, b *changelog.Batch) error {
	some := *b
	some.Changes = nil
	for _, ch := range b.Changes {
		if c.keep(&ch) {
			some.Changes = append(some.Changes, ch)
		}
	}
	return c.Committer.Write(ctx, &some)
}

func noDeletes(c *changelog.Change) bool { return c.Kind != changelog.Delete }

// altered writes each value after change looked at it.
type altered struct {
	sink.Committer
	change func(v changelog.Value) changelog.Value
}

func (c altered) Write(ctx context.Context, b *changelog.Batch) error {
	other := *b
	other.Changes = slices.Clone(b.Changes)
	for i, ch := range other.Changes {
		other.Changes[i].Row = slices.Clone(ch.Row)
		for j, v := range ch.Row {
			other.Changes[i].Row[j] = c.change(v)
		}
	}
	return c.Committer.Write(ctx, &other)
}

func truncated(v changelog.Value) changelog.Value {
	if v.Kind() == changelog.KindString && len(v.Str()) > 255 {
		return changelog.StringValue(v.Str()[:255])
	}
	return v
}

func trimmed(v changelog.Value) changelog.Value {
	if v.Kind() == changelog.KindString {
		return changelog.StringValue(strings.TrimRight(v.Str(), " "))
	}
	return v
}

func emptyIsNull(v changelog.Value) changelog.Value {
	if v.Kind() == changelog.KindString && v.Str() == "" {
		return changelog.Value{}
	}
	return v
}

func throughDouble(v changelog.Value) changelog.Value {
	if v.Kind() == changelog.KindInt {
		return changelog.IntValue(int64(float64(v.Int())))
	}
	return v
}

func milliseconds(v changelog.Value) changelog.Value {
	if v.Kind() == changelog.KindTimestamp {
		sec, nsec := v.Timestamp()
		return changelog.TimestampValue(sec, nsec/1e6*1e6)
	}
	return v
}

// deleteMustHit refuses to delete what is not there.
type deleteMustHit struct{ *committer }

func (c deleteMustHit) Write(ctx context.Context, b *changelog.Batch) error {
	c.srv.mu.Lock()
	for _, ch := range b.Changes {
		if ch.Kind == changelog.Delete && c.last(b.Table, rowKey(b.Table.Schema, ch.Row)) == nil {
			c.srv.mu.Unlock()
			return c.fail("write", sink.ErrRejected, fmt.Errorf("no such row"))
		}
	}
	c.srv.mu.Unlock()
	return c.committer.Write(ctx, b)
}

// forgetsMoved knows a position only as long as its partition stays among the same neighbours.
type forgetsMoved struct {
	sink.Store
	p *process
}

func (s forgetsMoved) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	c, err := s.Store.Acquire(ctx, r)
	s.p.locked(func(b *bridgeState, _ *sinkState) {
		for _, e := range c.Ended {
			if g := b.generations[e.ID]; g != nil && !slices.Equal(g.partitions, r.Partitions) {
				c.Positions = nil
			}
		}
	})
	return c, err
}

// boundToContext keeps its transaction as long as the context that began it, as database/sql does.
type boundToContext struct {
	sink.Committer
	began []context.Context
}

func (c *boundToContext) Write(ctx context.Context, b *changelog.Batch) error {
	c.began = append(c.began, ctx)
	return c.Committer.Write(ctx, b)
}

func (c *boundToContext) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	began := c.began
	c.began = nil
	for _, b := range began {
		if b.Err() != nil {
			return sink.Committable{}, &sink.Error{Op: "prepare", Class: sink.ErrTransient, Err: b.Err()}
		}
	}
	return c.Committer.Prepare(ctx, cut)
}

// lostCommitIsDone answers nil when its context ends before the server did.
type lostCommitIsDone struct{ sink.Committer }

func (c lostCommitIsDone) Commit(ctx context.Context, r sink.Committable) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Second {
		<-ctx.Done()
		return nil
	}
	return c.Committer.Commit(ctx, r)
}

// quotesRows helps whoever reads its errors.
type quotesRows struct{ sink.Committer }

func (c quotesRows) Write(ctx context.Context, b *changelog.Batch) error {
	err := c.Committer.Write(ctx, b)
	if err != nil && b.Len() > 0 {
		return &sink.Error{Op: "write", Class: sink.ClassOf(err), Err: fmt.Errorf("%w: INSERT INTO t VALUES (%q)", err, b.Changes[0].Row[1].Str())}
	}
	return err
}

type bareErrors struct{ sink.Store }

func (s bareErrors) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	if err := s.Store.Save(ctx, gen, cp); err != nil {
		return sink.ClassOf(err)
	}
	return nil
}

type panicsClosed struct {
	sink.Committer
	rows map[string]int
}

func (c *panicsClosed) Write(ctx context.Context, b *changelog.Batch) error {
	c.rows[b.Table.Name]++
	return c.Committer.Write(ctx, b)
}

func (c *panicsClosed) Close(ctx context.Context) error {
	c.rows = nil
	return c.Committer.Close(ctx)
}

// leaks starts a goroutine for each generation that nobody ends.
type leaks struct{ sink.Committer }

func (c leaks) Open(ctx context.Context, claim sink.Claim) error {
	go func() { <-ctx.Done() }() // the context of the law, as nobody else would end it
	return c.Committer.Open(ctx, claim)
}

// sweepsPlace rolls back, at Open, the prepared work of every other generation in the place, of whatever bridge and sink.
type sweepsPlace struct {
	sink.Committer
	p *process
}

func (c sweepsPlace) Open(ctx context.Context, claim sink.Claim) error {
	err := c.Committer.Open(ctx, claim)
	c.p.srv.mu.Lock()
	defer c.p.srv.mu.Unlock()
	for _, st := range c.p.srv.sinks {
		clear(st.staged)
	}
	return err
}

// oneNamespace tells checkpoints of two sinks apart by their numbers only.
type oneNamespace struct {
	sink.Committer
	p *process
}

func (c oneNamespace) Abort(ctx context.Context, r sink.Committable) error {
	err := c.Committer.Abort(ctx, r)
	c.p.srv.mu.Lock()
	defer c.p.srv.mu.Unlock()
	for _, st := range c.p.srv.sinks {
		delete(st.staged, name(r))
	}
	return err
}

// inTwoSteps commits half of the rows, and then the rest, once a reader has looked; where nobody reads, after a while.
type inTwoSteps struct {
	*committer
	looks *atomic.Int64
}

func (c inTwoSteps) Commit(ctx context.Context, r sink.Committable) error {
	c.srv.mu.Lock()
	st := c.srv.sink(c.name())
	work := st.staged[name(r)]
	if half := len(work) / 2; half > 0 {
		c.srv.apply(work[:half])
		st.staged[name(r)] = work[half:]
		c.srv.mu.Unlock()
		begun := c.looks.Load() // the next look may have begun before: the one after it did not
		for still, last := 0, begun; still < 20 && last < begun+2; still++ {
			time.Sleep(time.Millisecond)
			if n := c.looks.Load(); n > last {
				still, last = 0, n
			}
		}
		c.srv.mu.Lock()
	}
	c.srv.mu.Unlock()
	return c.committer.Commit(ctx, r)
}

type hidesPending struct{ sink.Store }

func (s hidesPending) Read(ctx context.Context, bridge string) (sink.State, error) {
	st, err := s.Store.Read(ctx, bridge)
	st.Pending = nil
	return st, err
}

// counts16 numbers its parameters with 16 bits.
type counts16 struct{ sink.Committer }

func (c counts16) Write(ctx context.Context, b *changelog.Batch) error {
	some := *b
	some.Changes = b.Changes[:min(b.Len(), 1<<16-1)]
	return c.Committer.Write(ctx, &some)
}

// keepsBudget forgets what it should have spilled.
type keepsBudget struct {
	*committer
	held int
}

func (c *keepsBudget) Write(ctx context.Context, b *changelog.Batch) error {
	if c.held += b.Bytes(); c.lane.ByteBudget > 0 && c.held > c.lane.ByteBudget {
		c.pending, c.held = nil, b.Bytes()
	}
	return c.committer.Write(ctx, b)
}

// postsAtOnce keeps dead letters outside the checkpoint.
type postsAtOnce struct{ *committer }

func (c postsAtOnce) WriteDeadLetters(_ context.Context, letters []sink.DeadLetter) error {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	c.srv.letters = append(c.srv.letters, letters...)
	return nil
}

// textLetters keeps dead letters as text: null and empty are one.
type textLetters struct{ *committer }

func (c textLetters) WriteDeadLetters(ctx context.Context, letters []sink.DeadLetter) error {
	letters = slices.Clone(letters)
	for i := range letters {
		letters[i].Key = append([]byte{}, letters[i].Key...)
	}
	return c.committer.WriteDeadLetters(ctx, letters)
}

// countsAll adds up what it superseded in its whole life.
type countsAll struct {
	*committer
	n int64
}

func (c *countsAll) Write(ctx context.Context, b *changelog.Batch) error {
	seen := make(map[string]bool)
	for _, ch := range b.Changes {
		k := rowKey(b.Table.Schema, ch.Row)
		if seen[k] {
			c.n++
		}
		seen[k] = true
	}
	return c.committer.Write(ctx, b)
}

func (c *countsAll) Superseded() int64 { return c.n }

// writesLate keeps what it is given until Prepare, Spill or not.
type writesLate struct {
	*committer
	kept []*changelog.Batch
}

func (c *writesLate) Write(_ context.Context, b *changelog.Batch) error {
	c.kept = append(c.kept, b)
	return nil
}

func (c *writesLate) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	for _, b := range c.kept {
		if err := c.committer.Write(ctx, b); err != nil {
			return sink.Committable{}, err
		}
	}
	c.kept = nil
	return c.committer.Prepare(ctx, cut)
}

func (c *writesLate) Discard(ctx context.Context) error {
	c.kept = nil
	return c.committer.Discard(ctx)
}
