package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// This file notices that Options.CreateTable makes a table anew that the bridge has written before: somebody dropped it, and the stored positions count for
// rows that are gone. The bridge would go on in the middle of the topic, into an empty table, without a word.
//
// Where this sink's tables hold the positions, they are read in the transaction that makes the table: it is refused, and there is none. Where another store
// holds them, nobody knows them before Open. So what a process has made is noted, and Open compares it with its claim; if it refuses, it takes the table
// away again, or the next start would find it and ask no more. That is a look and no proof: a process that is killed between the two leaves the table behind.

// remade are the tables that a process has made, for the lanes of all its copies of a Sink.
type remade struct {
	mu     sync.Mutex
	tables map[remadeTable]made
	begun  map[remadePartition]bool // that a lane of this process has opened since: their positions count for the new table
	opened map[string][]int64       // generations of this process since, by the bridge
}

type remadeTable struct {
	bridge string
	name   qualified // as the server has it
}

type remadePartition struct {
	bridge string
	changelog.Partition
}

// made is a table that was made, and when, in microseconds since 1970 by the server's clock: as a number, since a time may come as a text in the DateStyle of the role.
type made struct {
	oid uint32
	at  int64
}

func (r *remade) add(bridge string, name qualified, m made) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tables == nil {
		r.tables, r.begun, r.opened = make(map[remadeTable]made), make(map[remadePartition]bool), make(map[string][]int64)
	}
	r.tables[remadeTable{bridge, name}] = m
}

func (r *remade) table(bridge string, name qualified) (m made, opened []int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok = r.tables[remadeTable{bridge, name}]
	return m, append([]int64{}, r.opened[bridge]...), ok // none is no NULL
}

// before returns the first of positions that can only be of rows from before the tables were made: of a partition of topics that feeds reports.
func (r *remade) before(bridge string, positions []changelog.Position, feeds func(topic string) bool) *changelog.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range positions {
		if p := &positions[i]; p.Offset > 0 && feeds(p.Topic) && !r.begun[remadePartition{bridge, p.Partition}] {
			return p
		}
	}
	return nil
}

// open notes a generation that is about to write.
func (r *remade) open(g sink.Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tables) == 0 {
		return
	}
	r.opened[g.Bridge] = append(r.opened[g.Bridge], int64(g.ID))
	for _, p := range g.Partitions {
		r.begun[remadePartition{g.Bridge, p}] = true
	}
}

// justMade looks at the table that t has made for d, one of all, of a lane: whether the bridge has written it before. Then t is to be rolled back. Else
// it returns the table for [remade].
func (s *Sink) justMade(ctx context.Context, t *transaction, l sink.Lane, d destination, all []destination) (name qualified, m made, err error) {
	err = t.QueryRow(ctx, `SELECT n.nspname, c.relname, c.oid, (extract(epoch FROM clock_timestamp()) * 1000000)::int8 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)`,
		s.name(d.table).SQL()).Scan(&name.schema, &name.table, &m.oid, &m.at)
	if err != nil || l.OtherStore {
		return name, m, err
	}
	var stored string
	err = t.QueryRow(ctx, "SELECT fingerprint FROM "+s.store.bridge+" WHERE name = $1", l.Bridge).Scan(&stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return name, m, nil
	}
	if err != nil {
		return name, m, err
	}
	// Of a table that the bridge did not write into the positions say nothing, and sameTarget everything.
	_, into, _ := strings.Cut(", "+stored, ` into "`)
	into = `, "` + into + ","
	if !strings.Contains(into, ", "+name.SQL()+",") && !strings.Contains(into, ", "+name.SQL()+" (key ") {
		return name, m, nil
	}
	positions, err := s.readPositions(ctx, t, l.Bridge)
	if err != nil {
		return name, m, err
	}
	var other []string
	for _, o := range all {
		other = append(other, o.topic)
	}
	for _, p := range positions {
		if p.Offset > 0 && feeds(d.topic, other, p.Topic) {
			return name, m, s.madeAnew(name, d.table, p.Position, "so nothing was made")
		}
	}
	return name, m, nil
}

// feeds reports whether rows of a topic go into the destination whose topic is own, "": into that for all topics but those with one of their own.
func feeds(own string, all []string, topic string) bool {
	return own == topic || own == "" && !slices.Contains(all, topic)
}

// madeAnew is the refusal. done says what became of the table.
func (s *Sink) madeAnew(name qualified, t *changelog.Table, at changelog.Position, done string) error {
	return configf("table %s does not exist, but the bridge has written it: the stored position of topic %q is %s, and rows from before it would be missing in the one that Options.CreateTable makes, %s. "+
		"Restore the table; or have the topic read again: forget the positions ('flinksink positions reset'), or set them to 0 where the store forgets none ('flinksink positions set'); or give this bridge "+
		"a name of its own. If the table is to hold nothing from before, make it by hand:\n%s", name.SQL(), at.Topic, at, done, s.SQL(t))
}

// notMadeAnew refuses a claim whose positions count for rows of a table that this process found dropped. Not so where another process has opened a generation
// since it was made: the positions may be its own.
func (c *committer) notMadeAnew(ctx context.Context, claim sink.Claim) error {
	if !c.lane.OtherStore || c.s.o.Mode == InTransaction {
		return nil
	}
	var topics []string
	for _, tg := range c.targets {
		topics = append(topics, tg.topic)
	}
	for _, tg := range c.targets {
		m, mine, ok := c.s.remade.table(c.lane.Bridge, tg.name)
		if !ok {
			continue
		}
		at := c.s.remade.before(c.lane.Bridge, claim.Positions, func(topic string) bool { return feeds(tg.topic, topics, topic) })
		if at == nil {
			continue
		}
		var others bool
		err := c.s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+c.s.store.fence+` WHERE bridge = $1 AND sink = $2 AND (extract(epoch FROM opened) * 1000000)::int8 >= $3::int8 AND generation <> ALL ($4::int8[]))`,
			c.lane.Bridge, c.lane.Sink, m.at, mine).Scan(&others)
		if err != nil {
			return lift(err)
		}
		if others {
			continue
		}
		done := "which was taken away again"
		if !c.s.unmake(ctx, tg.name, m.oid) {
			done = "which is there now: drop it first, or the next start takes it for whole"
		}
		return c.s.madeAnew(tg.name, tg.table, *at, done)
	}
	c.s.remade.open(claim.Generation)
	return nil
}

// unmake drops a table that this process made, if it is the same one, is empty, and nobody uses it. It reports whether it did.
func (s *Sink) unmake(ctx context.Context, name qualified, oid uint32) bool {
	t, err := s.beginStore(ctx, "")
	if err != nil {
		return false
	}
	var empty bool
	_, err = t.Exec(ctx, "LOCK TABLE "+name.SQL()+" IN ACCESS EXCLUSIVE MODE NOWAIT")
	if err == nil {
		err = t.QueryRow(ctx, "SELECT to_regclass($1)::oid = $2::oid AND NOT EXISTS (SELECT FROM "+name.SQL()+")", name.SQL(), oid).Scan(&empty)
	}
	if err == nil && empty {
		_, err = t.Exec(ctx, "DROP TABLE "+name.SQL())
	}
	if err != nil || !empty {
		t.rollback(ctx)
		return false
	}
	return t.commit(ctx) == nil
}
