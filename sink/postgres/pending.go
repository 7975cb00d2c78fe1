package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// Plan is what is to become of something that is in doubt.
type Plan uint8

const (
	Leave    Plan = iota // somebody else settles it
	Commit               // it is decided
	RollBack             // its generation ended without deciding it
	Forget               // it is decided and proven to be committed, and only the store does not know yet
	Lost                 // it is decided and proven to be gone: its rows have to be read again
	Done                 // nothing: it is proven to be committed, and its owner's next checkpoint takes the receipt out of the store
)

// String returns the plan in a word.
func (p Plan) String() string {
	switch p {
	case Commit:
		return "commit"
	case RollBack:
		return "roll back"
	case Forget:
		return "forget"
	case Lost:
		return "lost"
	case Done:
		return "settled"
	}
	return "leave"
}

// InDoubt is work of the modes Prepared and Staged that is neither committed nor rolled back as far as the store knows.
type InDoubt struct {
	Bridge, Sink string
	Generation   sink.GenerationID
	Checkpoint   sink.CheckpointID    // 0: the generation as a whole
	What         string               // "prepared transaction", "staged rows", "receipt", "generation"
	Name         string               // of the prepared transaction
	Since        time.Time            // zero: not known
	Role         string               // that may end a prepared transaction, beside superusers
	Owner        string               // the process of the generation, as the store has it; "" where it knows nothing
	From, To     []changelog.Position // what a decided checkpoint covers
	Plan         Plan
	Why          string // in a few words

	receipt *sink.Committable
}

// Pending lists what is in doubt, of one bridge or, with "", of all, with the plan for each, and beside it what only looks so: receipts that are proven to be
// committed (Done), which every bridge leaves that stops, and generations that may still write. It changes nothing. What the store does not
// decide about, since the bridge has another store, it can only tell to be left over where a successor has fenced it.
//
// It lists what the tables of the store's schema know of. A prepared transaction whose name begins with "flinksink/" and that is not listed
// belongs to tables in another schema.
func (st *Store) Pending(ctx context.Context, bridge string) ([]InDoubt, error) {
	out, err := st.s.pending(ctx, bridge)
	if err != nil {
		return nil, st.fail("read", bridge, lift(err))
	}
	return out, nil
}

func (s *Sink) pending(ctx context.Context, bridge string) ([]InDoubt, error) {
	if made, err := s.hasTable(ctx, s.pool, "format"); err != nil || !made {
		return nil, err
	}
	if made, err := s.hasTable(ctx, s.pool, "staging"); err != nil || !made {
		if err != nil {
			return nil, err
		}
		return s.pendingElsewhere(ctx, bridge)
	}
	db, err := s.database(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT bridge, sink FROM `+s.store.fence+` WHERE $1 IN ('', bridge)
		UNION SELECT bridge, sink FROM `+s.store.staging+` WHERE $1 IN ('', bridge)
		UNION SELECT bridge, sink FROM `+s.store.committable+` WHERE $1 IN ('', bridge) ORDER BY 1, 2`, bridge)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w writer, err error) {
		err = row.Scan(&w.bridge, &w.sink)
		return w, err
	})
	if err != nil {
		return nil, err
	}
	var out []InDoubt
	for _, w := range all {
		more, err := s.pendingOf(ctx, db, w)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// pendingOf lists what one sink of a bridge left.
func (s *Sink) pendingOf(ctx context.Context, db uint32, w writer) (out []InDoubt, err error) {
	decided, err := s.readPending(ctx, s.pool, w.bridge)
	if err != nil {
		return nil, err
	}
	receipts := make(map[leftName]*sink.Committable)
	for i := range decided {
		if d := &decided[i]; d.Sink == w.sink && !d.Empty() {
			receipts[leftName{d.Generation, d.Checkpoint}] = d
		}
	}
	left, err := s.preparedBy(ctx, db, w.bridge, w.sink)
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		out = append(out, InDoubt{Generation: l.gen, Checkpoint: l.cp, What: "prepared transaction", Name: l.gid, Since: l.prepared, Role: l.owner})
	}
	staged, err := s.stagedBy(ctx, w)
	if err != nil {
		return nil, err
	}
	out = append(out, staged...)
	for i := range out {
		name := leftName{out[i].Generation, out[i].Checkpoint}
		out[i].receipt = receipts[name]
		delete(receipts, name)
	}
	var elsewhere []InDoubt
	for name, d := range receipts { // without anything that it is a receipt of
		if _, err := readReceipt(*d); err != nil {
			elsewhere = append(elsewhere, receiptOfAnother(w.bridge, d))
			continue
		}
		out = append(out, InDoubt{Generation: name.gen, Checkpoint: name.cp, What: "receipt", receipt: d})
	}
	for i := range out {
		out[i].Bridge, out[i].Sink = w.bridge, w.sink
		if err := s.planFor(ctx, &out[i]); err != nil {
			return nil, err
		}
	}
	open, err := s.openBy(ctx, w)
	if err != nil {
		return nil, err
	}
	out = append(append(out, open...), elsewhere...)
	slices.SortFunc(out, func(a, b InDoubt) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Checkpoint, b.Checkpoint))
	})
	return out, nil
}

// pendingElsewhere lists the receipts in a store of whose own tables none were ever prepared or staged.
func (s *Sink) pendingElsewhere(ctx context.Context, bridge string) (out []InDoubt, err error) {
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT bridge FROM `+s.store.committable+` WHERE $1 IN ('', bridge) ORDER BY 1`, bridge)
	if err != nil {
		return nil, err
	}
	bridges, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, b := range bridges {
		decided, err := s.readPending(ctx, s.pool, b)
		if err != nil {
			return nil, err
		}
		for i := range decided {
			if !decided[i].Empty() {
				out = append(out, receiptOfAnother(b, &decided[i]))
			}
		}
	}
	return out, nil
}

// receiptOfAnother is what this sink can tell of a receipt that is none of its own: of a sink of another kind, whose positions are in this store, or of a
// newer program. Whether it is committed only that sink can find out, so it is never called lost.
func receiptOfAnother(bridge string, d *sink.Committable) InDoubt {
	return InDoubt{Bridge: bridge, Sink: d.Sink, Generation: d.Generation, Checkpoint: d.Checkpoint, What: "receipt", From: d.From, To: d.To, Plan: Leave,
		Why: "it is decided, of a sink that is not in these tables, and the store hears of its commit with the next checkpoint; if it is not done, the bridge does it before anything else when it is started"}
}

type leftName struct {
	gen sink.GenerationID
	cp  sink.CheckpointID
}

func (s *Sink) stagedBy(ctx context.Context, w writer) ([]InDoubt, error) {
	rows, err := s.pool.Query(ctx, `SELECT generation, checkpoint, staged FROM `+s.store.staging+` WHERE bridge = $1 AND sink = $2 AND number = 0 ORDER BY 1, 2`, w.bridge, w.sink)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (InDoubt, error) {
		d := InDoubt{What: "staged rows"}
		err := row.Scan(&d.Generation, &d.Checkpoint, &d.Since)
		return d, err
	})
}

// openBy lists the generations that may still write.
func (s *Sink) openBy(ctx context.Context, w writer) ([]InDoubt, error) {
	rows, err := s.pool.Query(ctx, `SELECT f.generation, f.opened, coalesce(g.owner, ''), g.ended FROM `+s.store.fence+` f
		LEFT JOIN `+s.store.generation+` g ON g.bridge = f.bridge AND g.id = f.generation WHERE f.bridge = $1 AND f.sink = $2 AND NOT f.ended ORDER BY 1`, w.bridge, w.sink)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (InDoubt, error) {
		d := InDoubt{Bridge: w.bridge, Sink: w.sink, What: "generation"}
		var ended *bool
		err := row.Scan(&d.Generation, &d.Since, &d.Owner, &ended)
		switch {
		case ended == nil:
			d.Why = "it is open, and its store is another one"
		case *ended:
			d.Why = "it has ended, and its successor will fence it"
		default:
			d.Why = "its owner holds its partitions; whether it still runs, the store does not know"
		}
		return d, err
	})
}

// planFor says what is to become of work, by what the store and the fence tell.
func (s *Sink) planFor(ctx context.Context, d *InDoubt) error {
	var stored, fenced *bool
	var owner *string
	err := s.pool.QueryRow(ctx, `SELECT g.ended, g.owner, f.ended FROM (SELECT) one
		LEFT JOIN `+s.store.generation+` g ON g.bridge = $1 AND g.id = $3
		LEFT JOIN `+s.store.fence+` f ON f.bridge = $1 AND f.sink = $2 AND f.generation = $3`, d.Bridge, d.Sink, int64(d.Generation)).Scan(&stored, &owner, &fenced)
	if err != nil {
		return err
	}
	if owner != nil {
		d.Owner = *owner
	}
	if d.receipt != nil {
		d.From, d.To = d.receipt.From, d.receipt.To
		return s.planForDecided(ctx, d, stored != nil && *stored)
	}
	over := fenced != nil && *fenced || stored != nil && *stored
	if over {
		// The receipts were read before what is in doubt was: it may have been decided since, and its generation have ended after that. No Save comes
		// after an end, so this look is the last word.
		if d.receipt, err = s.decided(ctx, d); err != nil {
			return err
		}
	}
	switch {
	case d.receipt != nil:
		d.From, d.To = d.receipt.From, d.receipt.To
		return s.planForDecided(ctx, d, stored != nil && *stored)
	case fenced != nil && *fenced:
		d.Plan, d.Why = RollBack, "a successor has settled its generation and fenced it, so it was not decided"
	case over:
		d.Plan, d.Why = RollBack, "its generation has ended without deciding it"
	case stored != nil:
		d.Why = "its generation has not ended: its owner decides; if that is dead for good, start the bridge once"
	default:
		d.Why = "this store does not know its generation: the bridge has another store; start the bridge once, and its Open settles it"
	}
	return nil
}

// decided looks for the receipt of work that had none. What it finds holds for good where the generation has ended.
func (s *Sink) decided(ctx context.Context, d *InDoubt) (*sink.Committable, error) {
	all, err := s.readPending(ctx, s.pool, d.Bridge)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if c := &all[i]; c.Sink == d.Sink && c.Generation == d.Generation && c.Checkpoint == d.Checkpoint && !c.Empty() {
			return c, nil
		}
	}
	return nil, nil
}

func (s *Sink) planForDecided(ctx context.Context, d *InDoubt, ended bool) error {
	if d.What != "receipt" {
		d.Plan, d.Why = Commit, "it is decided"
		return nil
	}
	done, err := s.committedAlready(ctx, s.pool, writer{d.Bridge, d.Sink, d.Generation}, d.Checkpoint)
	switch {
	case err != nil:
		return err
	case done && ended:
		d.Plan, d.Why = Forget, "it is decided, and the mark of its generation proves that it is committed"
	case done: // as an orderly stop leaves it
		d.Plan, d.Why = Done, "it is committed, and the next checkpoint of its generation, or its successor's first, takes the receipt out"
	default:
		d.Plan, d.Why = Lost, "it is decided, nothing of it is there, and no mark says that it was committed"
	}
	return nil
}
