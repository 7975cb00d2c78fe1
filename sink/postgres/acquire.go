package postgres

import (
	"context"
	"encoding/json"
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
func (c *committer) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
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
	t, err := s.begin(ctx, storeIdleTimeout, "")
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

// targetNames are the qualified names of targets, sorted.
func targetNames(targets []*target) string {
	var names []string
	for _, tg := range targets {
		names = append(names, tg.name.SQL())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// lift gives an error of a transaction whose COMMIT was not sent its class.
func lift(err error) error {
	var e *sink.Error
	if errors.As(err, &e) {
		return err
	}
	return &sink.Error{Class: undone(err), Err: tell(err)}
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
	return uint16(number), nil
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
		p.Offset = *offset
		var err error
		p.TopicID, err = changelog.ParseTopicID(id)
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
			all, parts = append(all, sink.EndedGeneration{ID: id}), append(parts, join(topics, numbers))
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

// nullCommittable is a row of the committable table, or of the empty side of a LEFT JOIN.
type nullCommittable struct {
	checkpoint *int64
	sink       *string
	version    *int32
	data       []byte
	from, to   *string
}

func (n *nullCommittable) fields() []any {
	return []any{&n.checkpoint, &n.sink, &n.version, &n.data, &n.from, &n.to}
}

func (n *nullCommittable) committable(gen sink.GenerationID) (*sink.Committable, error) {
	if n.checkpoint == nil {
		return nil, nil
	}
	c := &sink.Committable{Sink: *n.sink, Generation: gen, Checkpoint: sink.CheckpointID(*n.checkpoint), Version: int(*n.version), Data: n.data}
	var err error
	if c.From, err = decodePositions(*n.from); err != nil {
		return nil, err
	}
	c.To, err = decodePositions(*n.to)
	return c, err
}

func scanGeneration(row pgx.CollectableRow) (sink.GenerationState, error) {
	var g sink.GenerationState
	var topics []string
	var numbers []int32
	err := row.Scan(&g.ID, &g.Owner, &topics, &numbers)
	g.Partitions = join(topics, numbers)
	return g, err
}

func overlap(a, b []changelog.Partition) bool {
	return slices.ContainsFunc(a, func(p changelog.Partition) bool { return slices.Contains(b, p) })
}

func split(ps []changelog.Partition) (topics []string, numbers []int32) {
	topics, numbers = make([]string, len(ps)), make([]int32, len(ps))
	for i, p := range ps {
		topics[i], numbers[i] = p.Topic, p.Partition
	}
	return topics, numbers
}

func join(topics []string, numbers []int32) []changelog.Partition {
	ps := make([]changelog.Partition, min(len(topics), len(numbers)))
	for i := range ps {
		ps[i] = changelog.Partition{Topic: topics[i], Partition: numbers[i]}
	}
	return ps
}

// storedPosition is a position as the committable table keeps it.
type storedPosition struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	TopicID     string `json:"topicId,omitempty"`
}

func encodePositions(ps []changelog.Position) (string, error) {
	out := make([]storedPosition, len(ps))
	for i, p := range ps {
		out[i] = storedPosition{p.Topic, p.Partition.Partition, p.Offset, p.LeaderEpoch, p.TopicID.String()}
	}
	b, err := json.Marshal(out)
	return string(b), err
}

func decodePositions(text string) ([]changelog.Position, error) {
	var in []storedPosition
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, fmt.Errorf("positions of a committable: %w", err)
	}
	var out []changelog.Position
	for _, p := range in {
		id, err := changelog.ParseTopicID(p.TopicID)
		if err != nil {
			return nil, err
		}
		out = append(out, changelog.Position{Partition: changelog.Partition{Topic: p.Topic, Partition: p.Partition},
			Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, TopicID: id})
	}
	return out, nil
}
