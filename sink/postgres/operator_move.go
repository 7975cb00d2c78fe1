package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// AnyOffset as [Move].From takes whatever is stored.
const AnyOffset int64 = -1

// Move is a position to be set by hand.
type Move struct {
	// From is the stored offset that the operator saw. With another one nothing at all is changed; [AnyOffset] takes any, also none.
	// A bridge that runs moves its positions all the time: there From is sure to be out of date.
	From int64
	// To is what to read next. A zero topic id and a leader epoch of -1 are unknown: they are not compared with the topic's, which
	// is what an operator means who gives an offset of the topic as it is now. The next checkpoint stores both again.
	To changelog.Position
}

// Moved is a position that was moved.
type Moved struct {
	Partition     changelog.Partition
	Before, After *changelog.Position // nil: none is stored
}

// Steered tells what a call changed.
type Steered struct {
	Moved []Moved                // in the order of the partitions
	Ended []sink.GenerationState // that held one of the partitions; a process among them that still runs acquires anew by itself
}

// SetPositions moves stored positions of a bridge, all of them or none, and writes one row a position into the audit table, with why.
// The partitions must be ones that the bridge has held.
//
// A lower position makes the bridge apply again what lies between: harmless for a table with a key once it has caught up, doubled
// rows for one without. A higher one leaves out what lies between. Whether the offset exists is found by the bridge.
//
// It is fenced against a running bridge as Acquire is: the bridge's row is locked first, every generation that holds one of the partitions is
// silenced and ended (see Acquire for why nothing of it can be saved afterwards), and only then the positions are read, compared and moved,
// in one transaction. A process that still runs is refused at its next Save, or loses its open transaction at once; rows and position of
// that checkpoint go together, so what it had read in vain is read again from where the position is now. All refusals that
// can be seen before are given before anybody is disturbed, and then again.
//
// Decided work that waits to be committed refuses the call: its rows are of before the move and would become visible after it.
//
// What is refused is an ErrConfig and leaves everything as it was. ErrUncertain: read the positions.
func (st *Store) SetPositions(ctx context.Context, bridge string, moves []Move, why string) (Steered, error) {
	steps := make([]step, len(moves))
	for i, m := range moves {
		steps[i] = step{part: m.To.Partition, from: m.From, to: func(*changelog.Position) *changelog.Position { return &m.To }}
		if m.To.Offset < 0 || m.From < AnyOffset {
			return Steered{}, st.fail("set", bridge, configf("%s: an offset is 0 or more", m.To))
		}
	}
	return st.steer(ctx, bridge, "set", steps, why)
}

// Reset forgets stored positions, so that the bridge's start setting says where these partitions are read from, as before their
// first checkpoint. No partitions are all that the bridge has held. In all else it is like SetPositions.
func (st *Store) Reset(ctx context.Context, bridge string, parts []changelog.Partition, why string) (Steered, error) {
	steps := make([]step, len(parts))
	for i, p := range parts {
		steps[i] = step{part: p, from: AnyOffset, to: forget}
	}
	return st.steer(ctx, bridge, "reset", steps, why)
}

func forget(*changelog.Position) *changelog.Position { return nil }

// Skip moves a position past exactly one message, the one at offset, and only if that is what the bridge would read next: it is for the
// offset that a halted bridge names. In all else it is like SetPositions.
func (st *Store) Skip(ctx context.Context, bridge string, p changelog.Partition, offset int64, why string) (Steered, error) {
	if offset < 0 || offset == math.MaxInt64 {
		return Steered{}, st.fail("skip", bridge, configf("%s@%d: no such offset", p, offset))
	}
	return st.steer(ctx, bridge, "skip", []step{{part: p, from: offset, to: func(was *changelog.Position) *changelog.Position {
		// The topic is the same. The leader epoch is that of the last message read: if the one skipped is the first of a later epoch,
		// the stored one ended before it, which would look like a log that was cut off.
		return &changelog.Position{Partition: p, Offset: offset + 1, LeaderEpoch: -1, TopicID: was.TopicID}
	}}}, why)
}

// step is one move: from what offset, and what becomes of the stored position. from is AnyOffset where to can do without it.
type step struct {
	part changelog.Partition
	from int64
	to   func(was *changelog.Position) *changelog.Position
}

func (st *Store) steer(ctx context.Context, bridge, what string, steps []step, why string) (Steered, error) {
	out, err := st.s.steer(ctx, st.who, bridge, what, steps, why)
	if err != nil {
		return Steered{}, st.fail(what, bridge, err)
	}
	return out, nil
}

func (s *Sink) steer(ctx context.Context, who, bridge, what string, steps []step, why string) (Steered, error) {
	if bridge == "" || len(steps) == 0 && what != "reset" {
		return Steered{}, configf("a bridge and at least one position have to be named")
	}
	if strings.IndexByte(why, 0) >= 0 || strings.IndexByte(who, 0) >= 0 {
		return Steered{}, configf("a reason and a name cannot hold NUL")
	}
	made, err := s.storeVersion(ctx, s.pool)
	if err != nil {
		return Steered{}, lift(err)
	}
	if !made {
		return Steered{}, configf("no bridge has stored anything in schema %s of this database: correct the connection string or Options.Schema", quote(s.o.Schema))
	}
	t, err := s.beginStore(ctx, "")
	if err != nil {
		return Steered{}, lift(err)
	}
	out, err := s.steerIn(ctx, t, who, bridge, what, steps, why)
	if err != nil {
		t.rollback(ctx)
		return Steered{}, lift(err)
	}
	return out, t.commit(ctx)
}

func (s *Sink) steerIn(ctx context.Context, t *transaction, who, bridge, what string, steps []step, why string) (Steered, error) {
	var incarnation int32
	err := t.QueryRow(ctx, "SELECT incarnation FROM "+s.store.bridge+" WHERE name = $1 FOR UPDATE", bridge).Scan(&incarnation)
	if errors.Is(err, pgx.ErrNoRows) {
		return Steered{}, s.noBridge(ctx, t, bridge)
	}
	if err != nil {
		return Steered{}, err
	}
	// Refusals come before anybody is disturbed.
	moved, err := s.judge(ctx, t, bridge, steps)
	if err != nil {
		return Steered{}, err
	}
	var out Steered
	if out.Ended, err = s.endHolders(ctx, t, bridge, moved); err != nil {
		return Steered{}, err
	}
	// What was saved until now is seen; nothing more can be, before this transaction is over.
	if out.Moved, err = s.judge(ctx, t, bridge, steps); err != nil {
		return Steered{}, err
	}
	if err := s.move(ctx, t, bridge, incarnation, out.Moved); err != nil {
		return Steered{}, err
	}
	ids := make([]sink.GenerationID, len(out.Ended))
	for i, g := range out.Ended {
		ids[i] = g.ID
	}
	return out, s.writeAudit(ctx, t, who, bridge, what, why, out.Moved, ids)
}

// noBridge says which bridges there are.
func (s *Sink) noBridge(ctx context.Context, t *transaction, bridge string) error {
	rows, err := t.Query(ctx, `SELECT name FROM `+s.store.bridge+` ORDER BY name COLLATE "C" LIMIT 20`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	there := "none"
	if len(names) > 0 {
		there = fmt.Sprintf("%q", names)
	}
	return configf("schema %s knows no bridge %q: it knows %s", quote(s.o.Schema), bridge, there)
}

// judge compares steps with what is stored, and returns what they would do, sorted. It is an ErrConfig if one of them may not be done.
func (s *Sink) judge(ctx context.Context, t *transaction, bridge string, steps []step) ([]Moved, error) {
	var waiting int64
	var by *string
	err := t.QueryRow(ctx, "SELECT count(*), min(sink) FROM "+s.store.committable+" WHERE bridge = $1", bridge).Scan(&waiting, &by)
	if err != nil {
		return nil, err
	}
	if waiting > 0 {
		return nil, configf("%d decided checkpoints of sink %q wait to be committed: run the bridge until they are, then move its positions", waiting, *by)
	}
	rows, err := t.Query(ctx, "SELECT topic, partition, next_offset, leader_epoch, topic_id FROM "+s.store.position+" WHERE bridge = $1 ORDER BY topic, partition", bridge)
	if err != nil {
		return nil, err
	}
	stored := make(map[changelog.Partition]*changelog.Position)
	var held []changelog.Partition
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var p changelog.Position
		var offset *int64
		var id string
		if err := row.Scan(&p.Topic, &p.Partition.Partition, &offset, &p.LeaderEpoch, &id); err != nil {
			return struct{}{}, err
		}
		held = append(held, p.Partition)
		stored[p.Partition] = nil
		if offset == nil {
			return struct{}{}, nil
		}
		// What cannot be so is taken as it is: a move is the way to mend it.
		p.Offset = *offset
		p.TopicID, _ = changelog.ParseTopicID(id)
		stored[p.Partition] = &p
		return struct{}{}, nil
	})
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		for _, p := range held {
			steps = append(steps, step{part: p, from: AnyOffset, to: forget})
		}
	}
	var errs []error
	out := make([]Moved, 0, len(steps))
	named := make(map[changelog.Partition]bool)
	for _, st := range steps {
		was, ours := stored[st.part]
		switch {
		case named[st.part]:
			errs = append(errs, fmt.Errorf("%s is named twice", st.part))
			continue
		case !ours:
			errs = append(errs, fmt.Errorf("%s is no partition that the bridge has held: it has held %s", st.part, few(held)))
			continue
		case st.from != AnyOffset && was == nil:
			errs = append(errs, fmt.Errorf("%s has no stored position, and %d was expected", st.part, st.from))
			continue
		case st.from != AnyOffset && was.Offset != st.from:
			errs = append(errs, fmt.Errorf("the stored position of %s is %d, and %d was expected: nothing was changed", st.part, was.Offset, st.from))
			continue
		}
		named[st.part] = true
		out = append(out, Moved{Partition: st.part, Before: was, After: st.to(was)})
	}
	if len(errs) > 0 {
		return nil, &sink.Error{Class: sink.ErrConfig, Err: errors.Join(errs...)}
	}
	slices.SortFunc(out, func(a, b Moved) int { return a.Partition.Compare(b.Partition) })
	return out, nil
}

// few names partitions, but not a thousand of them.
func few(ps []changelog.Partition) string {
	var out []string
	for i, p := range ps {
		if i == 20 {
			out = append(out, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		out = append(out, p.String())
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// endHolders ends the generations that hold one of the partitions, as Acquire does.
func (s *Sink) endHolders(ctx context.Context, t *transaction, bridge string, moved []Moved) ([]sink.GenerationState, error) {
	r := sink.AcquireRequest{Bridge: bridge}
	for _, m := range moved {
		r.Partitions = append(r.Partitions, m.Partition)
	}
	all, err := s.readGenerations(ctx, t, bridge)
	if err != nil {
		return nil, err
	}
	var held []sink.GenerationState
	for _, g := range all {
		if !g.Ended && overlap(g.Partitions, r.Partitions) {
			held = append(held, g)
		}
	}
	return held, s.endOthers(ctx, t, r)
}

// move writes positions. A position that goes back, or is forgotten, is a rewind: the same offsets come again as other writes, so the
// bridge's incarnation rises, which sinks that order by position put before it.
func (s *Sink) move(ctx context.Context, t *transaction, bridge string, incarnation int32, moved []Moved) error {
	if slices.ContainsFunc(moved, func(m Moved) bool { return m.Before != nil && (m.After == nil || m.After.Offset < m.Before.Offset) }) {
		if incarnation >= math.MaxUint16 {
			return configf("the bridge was rewound %d times, which is the most: give it another name", incarnation)
		}
		if _, err := t.Exec(ctx, "UPDATE "+s.store.bridge+" SET incarnation = incarnation + 1 WHERE name = $1", bridge); err != nil {
			return err
		}
	}
	var b pgx.Batch
	var written int64
	for _, m := range moved {
		epoch, id := int32(-1), ""
		var offset *int64
		if m.After != nil {
			offset, epoch, id = &m.After.Offset, m.After.LeaderEpoch, m.After.TopicID.String()
		}
		// No checkpoint saved this, so no generation is told of one by it.
		b.Queue(`UPDATE `+s.store.position+` SET next_offset = $4::int8, leader_epoch = $5, topic_id = $6, generation = 0, checkpoint = 0,
			records = 0, read = 0, applied = 0, superseded = 0, dead_lettered = 0, skipped = 0,
			saved = CASE WHEN $4::int8 IS NULL THEN NULL ELSE clock_timestamp() END
			WHERE bridge = $1 AND topic = $2 AND partition = $3 AND owner = 0`,
			bridge, m.Partition.Topic, m.Partition.Partition, offset, epoch, id).Exec(func(tag pgconn.CommandTag) error {
			written += tag.RowsAffected()
			return nil
		})
	}
	if err := t.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if written != int64(len(moved)) {
		return &sink.Error{Class: sink.ErrTransient, Err: errors.New("a position still belongs to a generation: somebody else writes these tables")}
	}
	return nil
}
