package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// keepGenerations is how many settled generations of a bridge are kept, so that End can answer for a process that slept through them.
const keepGenerations = 1000

// Acquire takes partitions for a new generation, in one transaction.
//
// Why no older generation can Save afterwards: the row of the bridge is locked first, so Acquires and Ends of a bridge come one
// after the other. Every transaction that can save for a generation holds its marker from the first statement on (see begin of the
// committer) and reads, after it has the marker, that the generation has not ended. Acquire takes the markers of all generations that
// it ends and holds them until it commits. So a transaction of theirs is either over by now, and what it saved is read below; or it gets
// the marker only after this commit, and then sees that its generation has ended. Save compares the owner of each position besides.
//
// Refusals come before anybody is disconnected: a late Acquire must not hurt the rightful owner.
func (c inTransaction) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	c.drop(ctx)
	c.gen, c.opened = sink.Generation{}, false
	r.Fingerprint = fingerprint(r.Fingerprint, c.targets)
	claim, err := c.s.acquireFor(ctx, r)
	if err != nil {
		return sink.Claim{}, c.fail("acquire", classify(err), err)
	}
	c.gen = claim.Generation
	return claim, nil
}

func (s *Sink) acquireFor(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	if r.Bridge == "" || len(r.Partitions) == 0 {
		return sink.Claim{}, &sink.Error{Class: sink.ErrConfig, Err: errors.New("a bridge without a name or without partitions cannot acquire")}
	}
	if err := checkBridge(r.Bridge); err != nil {
		return sink.Claim{}, err
	}
	t, err := s.beginStore(ctx, "")
	if err != nil {
		return sink.Claim{}, lift(err)
	}
	claim, err := s.acquireIn(ctx, t, r)
	if err != nil {
		t.rollback(ctx)
		return sink.Claim{}, lift(err)
	}
	if err := t.commit(ctx); err != nil {
		return sink.Claim{}, err
	}
	return claim, nil
}

// sameTarget finds at the start what Acquire would only find when a partition comes: that the stored positions of a bridge are of another table. A
// process that waits as a standby would else say so at the failover that needs it.
func (s *Sink) sameTarget(ctx context.Context, bridge string, targets []*target) error {
	var stored string
	err := s.pool.QueryRow(ctx, "SELECT fingerprint FROM "+s.store.bridge+" WHERE name = $1", bridge).Scan(&stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	at := strings.Index(stored, ` into "`)
	if mine := targetNames(targets); at >= 0 && !strings.HasSuffix(stored, " into "+mine) {
		return configf("the name %q belongs to a bridge that writes into %s, while this one writes into %s: give this bridge a name of its own",
			bridge, stored[at+len(" into "):], mine)
	}
	return nil
}

// fingerprint appends the tables that the rows go into, by the names under which the server found them: positions count for these tables
// and no others. The name that the user wrote would not do: the search_path may lead the same name to another table, and one table has
// several spellings. The order of the tables does not matter.
func fingerprint(of string, targets []*target) string {
	if len(targets) == 0 {
		return of
	}
	return of + " into " + targetNames(targets)
}

// targetNames are the qualified names of targets, sorted. A key that goes into columns of other names is part of it: with another renaming the
// rows before the stored positions would not be found by it any more. Renamings of other columns may be changed like the columns
// themselves.
func targetNames(targets []*target) string {
	var names []string
	for _, tg := range targets {
		name, renamed := tg.name.SQL(), false
		var key []string
		for _, k := range tg.keys {
			col := &tg.columns[k]
			key = append(key, quote(col.name))
			renamed = renamed || col.name != tg.table.Schema.Columns[col.source].Name
		}
		if renamed {
			name += " (key " + strings.Join(key, ", ") + ")"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// lift gives an error of the sink's own tables its class, where COMMIT was not sent. A constraint of theirs refuses no change.
func lift(err error) error {
	var e *sink.Error
	if errors.As(err, &e) {
		return err
	}
	class := undone(err)
	if class == sink.ErrRejected {
		return configf("the sink's own tables refuse what flinksink writes, since something else changed them: restore them: %w", tell(err))
	}
	return &sink.Error{Class: class, Err: tell(err)}
}

func (s *Sink) acquireIn(ctx context.Context, t *transaction, r sink.AcquireRequest) (sink.Claim, error) {
	incarnation, err := s.lockBridge(ctx, t, r)
	if err != nil {
		return sink.Claim{}, err
	}
	topics, numbers := split(r.Partitions)
	var newest int32
	err = t.QueryRow(ctx, `SELECT coalesce(max(p.group_generation), -1) FROM `+s.store.position+` p
		JOIN unnest($2::text[], $3::int4[]) AS r(topic, partition) ON p.topic = r.topic AND p.partition = r.partition
		WHERE p.bridge = $1`, r.Bridge, topics, numbers).Scan(&newest)
	if err != nil {
		return sink.Claim{}, err
	}
	if r.GroupGeneration >= 0 && r.GroupGeneration < newest && r.GroupRestarted != newest {
		return sink.Claim{}, &sink.Error{Class: sink.ErrFenced, Err: &sink.StaleGroupError{Asked: r.GroupGeneration, Stored: newest}}
	}
	if err := s.endOthers(ctx, t, r); err != nil {
		return sink.Claim{}, err
	}

	claim := sink.Claim{Incarnation: incarnation, Generation: sink.Generation{Bridge: r.Bridge, Partitions: slices.Clone(r.Partitions)}}
	err = t.QueryRow(ctx, `UPDATE `+s.store.bridge+` SET last_generation = last_generation + 1 WHERE name = $1 RETURNING last_generation`,
		r.Bridge).Scan(&claim.Generation.ID)
	if err != nil {
		return sink.Claim{}, err
	}
	if claim.Positions, err = s.takePositions(ctx, t, r, claim.Generation.ID); err != nil {
		return sink.Claim{}, err
	}
	if claim.Ended, err = s.unsettled(ctx, t, r); err != nil {
		return sink.Claim{}, err
	}
	_, err = t.Exec(ctx, `INSERT INTO `+s.store.generation+` (bridge, id, owner, topics, partitions, group_generation) VALUES ($1, $2, $3, $4, $5, $6)`,
		r.Bridge, int64(claim.Generation.ID), r.Owner, topics, numbers, r.GroupGeneration)
	if err != nil {
		return sink.Claim{}, err
	}
	_, err = t.Exec(ctx, `DELETE FROM `+s.store.generation+` WHERE bridge = $1 AND ended AND settled AND id < $2`,
		r.Bridge, int64(claim.Generation.ID)-keepGenerations)
	return claim, err
}

// lockBridge makes the bridge's row at its first Acquire, locks it, and compares the fingerprint.
func (s *Sink) lockBridge(ctx context.Context, t *transaction, r sink.AcquireRequest) (incarnation uint16, err error) {
	_, err = t.Exec(ctx, `INSERT INTO `+s.store.bridge+` (name, fingerprint) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, r.Bridge, r.Fingerprint)
	if err != nil {
		return 0, err
	}
	var stored string
	var number int32
	err = t.QueryRow(ctx, `SELECT fingerprint, incarnation FROM `+s.store.bridge+` WHERE name = $1 FOR UPDATE`, r.Bridge).Scan(&stored, &number)
	if err != nil {
		return 0, err
	}
	if stored != r.Fingerprint {
		return 0, &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf(
			"the name %q belongs to another bridge (%s), while this one is (%s): give this bridge a name of its own", r.Bridge, stored, r.Fingerprint)}
	}
	return incarnationOf(number)
}

// endOthers ends every generation that holds one of the partitions.
func (s *Sink) endOthers(ctx context.Context, t *transaction, r sink.AcquireRequest) error {
	rows, err := t.Query(ctx, `SELECT id, owner, topics, partitions FROM `+s.store.generation+` WHERE bridge = $1 AND NOT ended ORDER BY id`, r.Bridge)
	if err != nil {
		return err
	}
	live, err := pgx.CollectRows(rows, scanGeneration)
	if err != nil {
		return err
	}
	var ids []int64
	for _, g := range live {
		if overlap(g.Partitions, r.Partitions) {
			if err := s.silence(ctx, t, r.Bridge, g.ID, g.Owner); err != nil {
				return err
			}
			ids = append(ids, int64(g.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return s.end(ctx, t, r.Bridge, ids)
}

// end marks generations as ended and takes their partitions from them.
func (s *Sink) end(ctx context.Context, t *transaction, bridge string, ids []int64) error {
	_, err := t.Exec(ctx, `UPDATE `+s.store.generation+` SET ended = true WHERE bridge = $1 AND id = ANY($2::int8[])`, bridge, ids)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, `UPDATE `+s.store.position+` SET owner = 0 WHERE bridge = $1 AND owner = ANY($2::int8[])`, bridge, ids)
	return err
}

// takePositions makes gen the owner of the partitions and returns the positions that were ever saved, sorted.
func (s *Sink) takePositions(ctx context.Context, t *transaction, r sink.AcquireRequest, gen sink.GenerationID) ([]changelog.Position, error) {
	topics, numbers := split(r.Partitions)
	rows, err := t.Query(ctx, `INSERT INTO `+s.store.position+` AS p (bridge, topic, partition, owner, group_generation)
		SELECT $1, r.topic, r.partition, $4, $5 FROM unnest($2::text[], $3::int4[]) AS r(topic, partition)
		ON CONFLICT (bridge, topic, partition) DO UPDATE SET owner = EXCLUDED.owner,
		  group_generation = CASE WHEN EXCLUDED.group_generation >= 0 THEN EXCLUDED.group_generation ELSE p.group_generation END
		RETURNING topic, partition, next_offset, leader_epoch, topic_id`,
		r.Bridge, topics, numbers, int64(gen), max(r.GroupGeneration, -1))
	if err != nil {
		return nil, err
	}
	var out []changelog.Position
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var p changelog.Position
		var offset *int64
		var id string
		if err := row.Scan(&p.Topic, &p.Partition.Partition, &offset, &p.LeaderEpoch, &id); err != nil || offset == nil {
			return struct{}{}, err
		}
		p, err := storedAt(p.Partition, *offset, p.LeaderEpoch, id)
		out = append(out, p)
		return struct{}{}, err
	})
	slices.SortFunc(out, func(a, b changelog.Position) int { return a.Partition.Compare(b.Partition) })
	return out, err
}

// unsettled returns every generation that is over, not settled, and ever held one of the partitions, or one that such a generation
// held, and so on: without the "and so on" a generation whose successor died before it settled could be in nobody's claim. It is one
// statement, so that a Save of a live neighbour that settles one of them is seen whole or not at all.
func (s *Sink) unsettled(ctx context.Context, t *transaction, r sink.AcquireRequest) ([]sink.EndedGeneration, error) {
	rows, err := t.Query(ctx, `SELECT g.id, g.topics, g.partitions, c.checkpoint, c.sink, c.version, c.data, c.from_positions, c.to_positions
		FROM `+s.store.generation+` g LEFT JOIN `+s.store.committable+` c ON c.bridge = g.bridge AND c.generation = g.id
		WHERE g.bridge = $1 AND g.ended AND NOT g.settled ORDER BY g.id, c.checkpoint, c.sink`, r.Bridge)
	if err != nil {
		return nil, err
	}
	var all []sink.EndedGeneration
	var parts [][]changelog.Partition // of each of all
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var id sink.GenerationID
		var topics []string
		var numbers []int32
		var n nullCommittable
		if err := row.Scan(append([]any{&id, &topics, &numbers}, n.fields()...)...); err != nil {
			return struct{}{}, err
		}
		if len(all) == 0 || all[len(all)-1].ID != id {
			held, err := join(topics, numbers)
			if err != nil {
				return struct{}{}, err
			}
			all, parts = append(all, sink.EndedGeneration{ID: id}), append(parts, held)
		}
		decided, err := n.committable(id)
		if decided != nil {
			e := &all[len(all)-1]
			e.Decided = append(e.Decided, *decided)
		}
		return struct{}{}, err
	})
	if err != nil {
		return nil, err
	}
	held, found := slices.Clone(r.Partitions), make([]bool, len(all))
	for grown := true; grown; {
		grown = false
		for i := range all {
			if !found[i] && overlap(parts[i], held) {
				found[i], grown = true, true
				held = append(held, parts[i]...)
			}
		}
	}
	var out []sink.EndedGeneration
	for i := range all {
		if found[i] {
			out = append(out, all[i])
		}
	}
	return out, nil
}
