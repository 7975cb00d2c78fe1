package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// This file compares a table with rows that it should hold.
//
// A view is one REPEATABLE READ transaction. The stored positions are rows beside the data, and all that a checkpoint in mode InTransaction writes
// becomes visible at once, so in its snapshot the table is what the topic says below exactly these positions, whatever a bridge does meanwhile. In
// the other modes a decided checkpoint may wait for its commit: its proof (see fence.go) is read in the same snapshot, and where it is not there, the
// positions before that checkpoint count.
//
// What is equal is the server's to say: rows are sent as they are written, by the same encoders, brought to the column's own type, and compared byte
// by byte, as Options.SkipUnchanged does. So no form of a value is known twice. Rows that were looked up are noted by where they lie (ctid), which in
// one snapshot names them; a scan for all others finds the extra ones. No key has to be turned back into what the topic had.

var _ sink.Verifiable = (*Sink)(nil)

// view implements sink.View.
type view struct {
	s         *Sink
	r         sink.ViewRequest
	targets   []*target
	tx        pgx.Tx // of which only the snapshot matters; nil: closed
	release   func()
	positions []changelog.Position
	exact     bool
	apply     applier
	seen      map[qualified]*places
	mends     applier
}

// View implements [sink.Verifiable]. It holds one connection and one snapshot of the server until it is closed: rows that die meanwhile are not vacuumed
// away, so a long comparison is better made of a quiet table. Memory is about 0.5 percent of the table's size, for the places of rows.
func (s *Sink) View(ctx context.Context, r sink.ViewRequest) (sink.View, error) {
	v := &view{s: s, r: r, seen: make(map[qualified]*places)}
	if err := v.open(ctx); err != nil {
		_ = v.Close(ctx)
		return nil, v.fail("view", err)
	}
	return v, nil
}

func (v *view) fail(op string, err error) error {
	var e *sink.Error
	if errors.As(err, &e) {
		if e.Op != "" { // a repair within the search for extra rows
			return err
		}
		out := *e
		out.Op, out.Bridge, out.Sink = op, v.r.Bridge, v.r.Sink
		return &out
	}
	return &sink.Error{Op: op, Bridge: v.r.Bridge, Sink: v.r.Sink, Class: undone(err), Err: tell(err)}
}

func (v *view) open(ctx context.Context) error {
	t := v.r.Table
	switch {
	case len(t.Schema.Key) == 0:
		return configf("table %q has no key, so no row of it can be found: compare its number of rows, or load the topic into another table", t.Name)
	case len(v.s.o.Swap.Group) > 0:
		return configf("Options.Swap keeps the last rows of each partition back until their group is whole, so the table is not what the topic says: it cannot be compared")
	}
	var err error
	if v.targets, err = v.s.check(ctx, []*changelog.Table{t}); err != nil {
		var missing *missingTable
		if errors.As(err, &missing) {
			return configf("table %s: there is nothing to compare: name the table that the bridge writes into, with its schema", missing.what)
		}
		return err
	}
	for _, tg := range v.targets {
		if len(tg.adds) > 0 {
			return configf("table %s lacks columns that Options.Evolve would add: let the bridge do that first", tg.name.SQL())
		}
		if v.seen[tg.name] == nil {
			v.seen[tg.name] = newPlaces()
		}
	}
	conn, err := v.s.acquire(ctx)
	if err != nil {
		return err
	}
	v.release = conn.Release
	// The topic is read while the transaction is open, so none of the timeouts of the role may end it.
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0; " +
		"SELECT set_config('transaction_timeout', '0', true) WHERE current_setting('server_version_num')::int >= 170000; " +
		"SET LOCAL client_encoding = 'UTF8'; SELECT set_config('array_nulls', 'on', true) WHERE current_setting('array_nulls', true) = 'off'"})
	if err != nil {
		return err
	}
	v.tx = tx
	for _, tg := range v.targets { // keeps what would move rows (CLUSTER, VACUUM FULL) away until the view is closed
		if _, err := tx.Exec(ctx, "SELECT FROM "+tg.name.SQL()+" LIMIT 0"); err != nil {
			return err
		}
	}
	return v.cut(ctx)
}

// cut finds out which changes the snapshot holds.
func (v *view) cut(ctx context.Context) error {
	v.positions = v.r.Positions
	made, err := v.s.storeVersion(ctx, v.tx)
	if err != nil {
		return err
	}
	if v.positions == nil {
		if !made {
			return configf("no bridge has stored anything in schema %s of this database: correct the connection string or Options.Schema; if another system keeps the positions, name it as the store", quote(v.s.o.Schema))
		}
		v.exact = true
		if err := v.ofBridge(ctx); err != nil {
			return err
		}
		if v.positions, err = v.s.storedPositions(ctx, v.tx, v.r.Bridge); err != nil {
			return err
		}
	}
	if !made || v.s.o.Mode == InTransaction {
		return nil
	}
	pending := v.r.Pending
	if v.exact {
		if pending, err = v.s.readPending(ctx, v.tx, v.r.Bridge); err != nil {
			return err
		}
	}
	waiting, err := v.s.uncommitted(ctx, v.tx, v.r.Bridge, v.r.Sink, pending)
	if err != nil {
		return err
	}
	v.positions = before(v.positions, waiting)
	return nil
}

// ofBridge refuses a table that the bridge does not write into. Its rows would be taken for differences, and a repair would delete them.
// Of two Postgres sinks under one bridge the fingerprint names the tables of that which is the store, in mode InTransaction.
func (v *view) ofBridge(ctx context.Context) error {
	var stored string
	err := v.tx.QueryRow(ctx, "SELECT fingerprint FROM "+v.s.store.bridge+" WHERE name = $1", v.r.Bridge).Scan(&stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // which has no positions either
	}
	if err != nil {
		return err
	}
	at := strings.Index(stored, ` into "`)
	if at < 0 || v.s.o.Mode != InTransaction && strings.Contains(stored[:at], "postgres; postgres") {
		return nil
	}
	into := stored[at+len(" into "):]
	for _, tg := range v.targets {
		if mine := targetNames([]*target{tg}); !strings.Contains(", "+into+", ", ", "+mine+", ") {
			return configf("bridge %q writes into %s, and not into %s: name the table that it writes into, or the bridge that writes into this one", v.r.Bridge, into, mine)
		}
	}
	return nil
}

// storedPositions returns where a bridge is, sorted.
func (s *Sink) storedPositions(ctx context.Context, q querier, bridge string) ([]changelog.Position, error) {
	stored, err := s.readPositions(ctx, q, bridge)
	if err != nil {
		return nil, err
	}
	if len(stored) == 0 {
		return nil, configf("the store in schema %s has no positions of bridge %q: correct the name, Options.Schema or the connection string", quote(s.o.Schema), bridge)
	}
	out := make([]changelog.Position, len(stored))
	for i, p := range stored {
		out[i] = p.Position
	}
	return out, nil
}

// uncommitted returns which of pending is not visible yet. The store hears only with the next checkpoint that the last one is committed.
func (s *Sink) uncommitted(ctx context.Context, q querier, bridge, name string, pending []sink.Committable) ([]sink.Committable, error) {
	var out []sink.Committable
	for _, c := range pending {
		if c.Sink != name {
			continue
		}
		done, err := s.committedAlready(ctx, q, writer{bridge, name, c.Generation}, c.Checkpoint)
		if err != nil {
			return nil, err
		}
		if !done {
			out = append(out, c)
		}
	}
	return out, nil
}

// before takes positions back to where the first of some checkpoints begins.
func before(ps []changelog.Position, waiting []sink.Committable) []changelog.Position {
	out := slices.Clone(ps)
	for _, c := range waiting {
		for _, from := range c.From {
			for i := range out {
				if out[i].Partition == from.Partition && from.Offset < out[i].Offset {
					out[i] = from
				}
			}
		}
	}
	return out
}

// Cut implements [sink.View].
func (v *view) Cut() ([]changelog.Position, bool) { return v.positions, v.exact }

// Rules implements [sink.View].
func (v *view) Rules() sink.ViewRules {
	r := sink.ViewRules{KeepsDeleted: v.s.o.IgnoreDeletes}
	switch {
	case v.s.o.IgnoreDeletes:
		r.NoExtra = "rows that the topic deletes stay (Options.IgnoreDeletes)"
	case v.s.o.Version != "":
		r.NoExtra = "other bridges may write the table too (Options.Version)"
	}
	return r
}

// target returns where the row of a change lies, -1: nowhere.
func (v *view) target(c *changelog.Change) int {
	if i := slices.IndexFunc(v.targets, func(tg *target) bool { return tg.topic == c.Topic }); i >= 0 {
		return i
	}
	return slices.IndexFunc(v.targets, func(tg *target) bool { return tg.topic == "" })
}

// AppendKey implements [sink.View].
func (v *view) AppendKey(dst []byte, c *changelog.Change) []byte {
	if len(v.targets) > 1 {
		dst = append(dst, byte(v.target(c)))
	}
	return changelog.AppendKey(dst, v.r.Table.Schema, c.Row)
}

// byTarget hands each target its changes.
func (v *view) byTarget(changes []changelog.Change, do func(tg *target, changes []changelog.Change) error) error {
	if len(v.targets) == 1 && v.targets[0].topic == "" {
		return do(v.targets[0], changes)
	}
	split := make([][]changelog.Change, len(v.targets))
	for i := range changes {
		n := v.target(&changes[i])
		if n < 0 {
			return configf("rows of topic %q go nowhere: name a table for it in Options.Topics, or one for all others in New", changes[i].Topic)
		}
		split[n] = append(split[n], changes[i])
	}
	for n, part := range split {
		if len(part) > 0 {
			if err := do(v.targets[n], part); err != nil {
				return err
			}
		}
	}
	return nil
}

// Skip implements [sink.View].
func (v *view) Skip(ctx context.Context, changes []changelog.Change) error {
	err := v.byTarget(changes, func(tg *target, changes []changelog.Change) error { return v.pass(ctx, tg, changes) })
	if err != nil {
		return v.fail("verify", err)
	}
	return nil
}

// pass notes rows without comparing them.
func (v *view) pass(ctx context.Context, tg *target, changes []changelog.Change) error {
	return v.lookUp(ctx, tg, tg.keys, changes, func(*changelog.Change, *place, sink.DifferenceKind) {})
}

// Compare implements [sink.View].
func (v *view) Compare(ctx context.Context, changes []changelog.Change) (out []sink.Difference, err error) {
	err = v.byTarget(changes, func(tg *target, changes []changelog.Change) error {
		var aside []changelog.Change
		note := func(c *changelog.Change, at *place, kind sink.DifferenceKind) {
			d := sink.Difference{Kind: kind, Change: *c}
			switch kind {
			case 0:
				return
			case sink.Unwritable:
				aside = append(aside, *c)
			case sink.Missing:
				d.Seen = seenRow{target: tg}
			default:
				d.Seen = seenRow{tg, *at}
			}
			out = append(out, d)
		}
		whole, parts := byColumnsSent(tg, changes)
		if err := v.lookUp(ctx, tg, tg.compared(nil), whole, note); err != nil {
			return err
		}
		for _, p := range parts {
			if err := v.lookUp(ctx, tg, tg.compared(p.columns), p.changes, note); err != nil {
				return err
			}
		}
		return v.pass(ctx, tg, aside)
	})
	if err != nil {
		return nil, v.fail("verify", err)
	}
	return out, nil
}

// seenRow is what a view remembers of a row that differs.
type seenRow struct {
	target *target
	place
}

// Close implements [sink.View].
func (v *view) Close(ctx context.Context) error {
	if v.tx != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		_ = v.tx.Rollback(ctx)
		v.tx = nil
	}
	if v.release != nil {
		v.release()
		v.release = nil
	}
	return nil
}
