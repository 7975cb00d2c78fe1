package sinktest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// SinkOptions are the settings of a memory [Sink].
type SinkOptions struct {
	// InTransaction makes the sink its own store, the way Postgres is by default: Prepare leaves the rows in an open transaction of
	// the committer, and Save commits rows and positions at once. Defaults to two phases: Prepare stages the rows on the server
	// under a name, and any process can commit or abort them by it.
	InTransaction bool
}

// Sink is an exactly-once sink in memory. Its tables are those of its [Server]; a table comes to be with its first row.
type Sink struct {
	srv  *Server
	opts SinkOptions
}

var _ sink.Sink = (*Sink)(nil)

// NewSink returns a sink on s; nil options are the defaults.
func NewSink(s *Server, o *SinkOptions) *Sink {
	k := &Sink{srv: s}
	if o != nil {
		k.opts = *o
	}
	return k
}

// Lane returns a committer, which is a [sink.Store] too if the sink is InTransaction.
func (k *Sink) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c := &committer{srv: k.srv, lane: l}
	if l.Bridge == "" || l.Sink == "" || len(l.Tables) == 0 {
		return nil, c.fail("lane", sink.ErrConfig, fmt.Errorf("sink.Lane needs Bridge, Sink and Tables"))
	}
	for _, t := range l.Tables {
		if err := t.Schema.Validate(); err != nil {
			return nil, c.fail("lane", sink.ErrConfig, fmt.Errorf("table %q: %w", t.Name, err))
		}
	}
	if !k.opts.InTransaction {
		return c, nil
	}
	c.inTx = true
	return &ownStore{committer: c, Store: NewStore(k.srv)}, nil
}

// Guarantee states exactly once.
func (k *Sink) Guarantee() sink.Guarantee {
	g := sink.Guarantee{Level: sink.ExactlyOnce, How: "staged by name, applied at commit", Visible: "at commit, atomically", Zombie: "fenced by generation"}
	if k.opts.InTransaction {
		g.How = "rows and positions in one transaction"
	}
	return g
}

// committer is a lane's client of the server. pending and prepared are its own memory and die with it.
type committer struct {
	srv  *Server
	lane sink.Lane
	inTx bool

	gen      sink.GenerationID // that was opened; 0: none
	pending  []change          // written in this checkpoint
	broken   bool              // a Write failed: the checkpoint must not be prepared
	prepared *workName         // inTx: what pending was prepared as
}

// Open commits what is decided before it fences, and fences before it rolls back, so that nothing decided is lost and nothing
// undecided can follow.
func (c *committer) Open(ctx context.Context, claim sink.Claim) error {
	if err := c.begin(ctx, "open"); err != nil {
		return err
	}
	defer c.srv.mu.Unlock()
	st := c.srv.sink(c.name())
	if c.fenced(claim.Generation.ID) {
		return c.fail("open", sink.ErrFenced, fmt.Errorf("generation %d was ended", claim.Generation.ID))
	}
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if d.Sink != c.lane.Sink || d.Empty() {
				continue
			}
			if err := c.commit("open", d); err != nil {
				return err
			}
		}
	}
	for _, e := range claim.Ended {
		st.fenced[e.ID] = true
		for w := range st.staged {
			if w.generation == e.ID {
				delete(st.staged, w)
			}
		}
	}
	c.gen = claim.Generation.ID
	c.reset()
	return nil
}

// Write remembers that it failed: a checkpoint with a hole must not be prepared.
func (c *committer) Write(ctx context.Context, b *changelog.Batch) error {
	if err := c.begin(ctx, "write"); err != nil {
		c.broken = true
		return err
	}
	defer c.srv.mu.Unlock()
	if err := c.write(b); err != nil {
		c.broken = true
		return err
	}
	return nil
}

// write copies b: its memory is the caller's again after Prepare, while the rows wait on the server.
func (c *committer) write(b *changelog.Batch) error {
	switch {
	case c.gen == 0:
		return c.fail("write", sink.ErrConfig, fmt.Errorf("Write before Open"))
	case c.prepared != nil:
		return c.fail("write", sink.ErrConfig, fmt.Errorf("Write between Prepare and Save"))
	case c.fenced(c.gen):
		return c.fail("write", sink.ErrFenced, fmt.Errorf("generation %d was ended", c.gen))
	case !slices.ContainsFunc(c.lane.Tables, func(t *changelog.Table) bool { return t.Name == b.Table.Name }):
		return c.fail("write", sink.ErrConfig, fmt.Errorf("table %q is not among the lane's Tables", b.Table.Name))
	}
	for i := range b.Changes {
		ch := &b.Changes[i]
		if err := c.take(b.Table, ch); err != nil {
			return &sink.Error{Op: "write", Sink: c.lane.Sink, Bridge: c.lane.Bridge, Class: sink.ErrRejected, Err: err,
				Position: &changelog.Position{Partition: ch.Partition, Offset: ch.Offset, LeaderEpoch: -1}}
		}
	}
	return nil
}

func (c *committer) take(t *changelog.Table, ch *changelog.Change) error {
	if !t.Mode.Contains(ch.Kind) {
		return fmt.Errorf("table %q is %s and cannot take %s", t.Name, t.Mode, ch.Kind)
	}
	if len(ch.Row) != len(t.Schema.Columns) {
		return fmt.Errorf("a row of %d values for table %q of %d columns", len(ch.Row), t.Name, len(t.Schema.Columns))
	}
	if ch.KeyOnly && len(t.Schema.Key) == 0 {
		return fmt.Errorf("a delete by key for table %q, which has none", t.Name)
	}
	n := change{table: t, kind: ch.Kind, row: cloneRow(ch.Row)}
	if ch.Kind.Adds() && slices.ContainsFunc(n.row, changelog.Value.IsUnchanged) {
		old := c.last(t, rowKey(t.Schema, n.row))
		if old == nil {
			return fmt.Errorf("a column is unchanged, but table %q holds no row of that key", t.Name)
		}
		for i, v := range n.row {
			if v.IsUnchanged() {
				n.row[i] = old[i]
			}
		}
	}
	c.pending = append(c.pending, n)
	return nil
}

// last returns the row that key last had, in this checkpoint or before it; nil: none. The old row of an update (-U) counts: its +U
// follows it.
func (c *committer) last(t *changelog.Table, key string) changelog.Row {
	for _, p := range slices.Backward(c.pending) {
		if p.letter != nil || p.table.Name != t.Name || rowKey(t.Schema, p.row) != key {
			continue
		}
		switch {
		case p.kind.Adds():
			return p.row
		case p.kind == changelog.Delete:
			return nil
		}
	}
	if v := c.srv.tables[t.Name]; v != nil && len(t.Schema.Key) > 0 {
		return v.rows[key]
	}
	return nil
}

// Prepare stages the rows under the name of the checkpoint, or, in a transaction, only closes it against further rows.
func (c *committer) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	r := sink.Committable{Sink: c.lane.Sink, Generation: cut.Generation.ID, Checkpoint: cut.Checkpoint, Version: receiptVersion,
		From: slices.Clone(cut.From), To: slices.Clone(cut.To)}
	if err := c.begin(ctx, "prepare"); err != nil {
		return sink.Committable{}, err
	}
	defer c.srv.mu.Unlock()
	st, w := c.srv.sink(c.name()), workName{cut.Generation.ID, cut.Checkpoint}
	_, staged := st.staged[w]
	switch {
	case w.generation != c.gen:
		return sink.Committable{}, c.fail("prepare", sink.ErrConfig, fmt.Errorf("generation %d is opened, not %d", c.gen, w.generation))
	case c.fenced(c.gen):
		return sink.Committable{}, c.fail("prepare", sink.ErrFenced, fmt.Errorf("generation %d was ended", c.gen))
	case c.broken:
		return sink.Committable{}, c.fail("prepare", sink.ErrTransient, fmt.Errorf("a Write of this checkpoint failed"))
	case staged || st.done[w] || c.prepared != nil || c.inTx && c.srv.store.saved(c.lane.Bridge, w):
		return sink.Committable{}, c.fail("prepare", sink.ErrConfig, fmt.Errorf("checkpoint %d of generation %d was prepared before", w.checkpoint, w.generation))
	case c.inTx:
		c.prepared = &w
		return r, nil
	case len(c.pending) == 0:
		return r, nil
	}
	data, err := json.Marshal(receipt{Work: w.String(), Changes: len(c.pending)})
	if err != nil {
		return sink.Committable{}, c.fail("prepare", sink.ErrTransient, err)
	}
	st.staged[w] = c.pending
	c.reset()
	r.Data = data
	return r, nil
}

// Discard leaves prepared work alone, also that of an open transaction.
func (c *committer) Discard(ctx context.Context) error {
	if c.prepared == nil {
		c.reset()
	}
	return nil
}

// Commit needs nothing but the receipt and the server.
func (c *committer) Commit(ctx context.Context, r sink.Committable) error {
	if r.Empty() {
		return nil // nothing was prepared, or Save committed it
	}
	if err := c.begin(ctx, "commit"); err != nil {
		return err
	}
	defer c.srv.mu.Unlock()
	return c.commit("commit", r)
}

// commit applies work once: the mark of what is done is set in the same step that shows the rows.
func (c *committer) commit(op string, r sink.Committable) error {
	w, err := c.open(op, r)
	if err != nil {
		return err
	}
	st := c.srv.sink(c.name())
	if st.done[w] {
		return nil
	}
	work, ok := st.staged[w]
	if !ok {
		return c.fail(op, sink.ErrLost, fmt.Errorf("prepared work %s (%v to %v) is neither there nor known to be committed", w, r.From, r.To))
	}
	c.srv.apply(work)
	delete(st.staged, w)
	st.done[w] = true
	return nil
}

// Abort needs nothing but the receipt and the server, but for an open transaction, which is its own process's alone.
func (c *committer) Abort(ctx context.Context, r sink.Committable) error {
	if c.prepared != nil && *c.prepared == (workName{r.Generation, r.Checkpoint}) {
		c.reset()
	}
	if r.Empty() {
		return nil
	}
	if err := c.begin(ctx, "abort"); err != nil {
		return err
	}
	defer c.srv.mu.Unlock()
	w, err := c.open("abort", r)
	if err != nil {
		return err
	}
	delete(c.srv.sink(c.name()).staged, w)
	return nil
}

// Close ends the committer; nothing on the server changes.
func (c *committer) Close(ctx context.Context) error {
	c.reset()
	c.gen = 0
	return nil
}

func (c *committer) reset() { c.pending, c.broken, c.prepared = nil, false, nil }

// begin takes the server's lock for a call, unless ctx has ended, when nothing was sent.
func (c *committer) begin(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return c.fail(op, sink.ErrTransient, err)
	}
	c.srv.mu.Lock()
	return nil
}

func (c *committer) name() sinkName { return sinkName{c.lane.Bridge, c.lane.Sink} }

// fenced reports whether a generation may write no more. With two phases Open told the sink; an own store knows by itself.
func (c *committer) fenced(g sink.GenerationID) bool {
	if c.srv.sink(c.name()).fenced[g] {
		return true
	}
	b := c.srv.store[c.lane.Bridge]
	return c.inTx && (b == nil || b.generations[g] == nil || b.generations[g].ended)
}

func (c *committer) fail(op string, class, err error) error {
	return &sink.Error{Op: op, Sink: c.lane.Sink, Bridge: c.lane.Bridge, Class: class, Err: err}
}
