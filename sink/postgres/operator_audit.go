package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// auditDDL makes the table of what was done by hand: a row for each position that was moved, written in the transaction that moves it.
//
// The table came after format version 1, and the version stays 1. The version rises when an older program could misread what is
// stored; an older program never looks at this table, and what moves a position leaves the other tables in a state that
// version 1 has always allowed (a generation that ended, a position with another offset, or without one as before the first
// Save). So programs from before and after it may share a store. Stores that were made before get the table with the first move;
// until then reading finds it missing, which means that nothing was moved.
func (st store) auditDDL() string {
	return `CREATE TABLE ` + st.audit + ` (
  at              timestamptz NOT NULL DEFAULT clock_timestamp(),
  who             text        NOT NULL,
  role            text        NOT NULL DEFAULT current_user,
  bridge          text        NOT NULL,
  what            text        NOT NULL,
  topic           text        NOT NULL,
  partition       integer     NOT NULL,
  before_offset   bigint,
  after_offset    bigint,
  before_topic_id text        NOT NULL DEFAULT '',
  after_topic_id  text        NOT NULL DEFAULT '',
  ended           bigint[]    NOT NULL,
  reason          text        NOT NULL
)`
}

// Audit is one position that was moved by hand.
type Audit struct {
	At        time.Time
	Who       string // user@host, as the process that did it says
	Role      string // the database role, as the server says
	Bridge    string
	What      string // "set", "reset" or "skip"
	Partition changelog.Partition
	Reason    string
	Before    *changelog.Position // nil: none was stored
	After     *changelog.Position // nil: it was forgotten
	Ended     []sink.GenerationID // generations that were ended for it
}

// Audit returns the last moves of a bridge, newest first, at most limit.
func (st *Store) Audit(ctx context.Context, bridge string, limit int) ([]Audit, error) {
	out, err := st.s.readAudit(ctx, bridge, limit)
	if err != nil {
		return nil, st.fail("read", bridge, lift(err))
	}
	return out, nil
}

func (s *Sink) readAudit(ctx context.Context, bridge string, limit int) ([]Audit, error) {
	exists, err := s.hasTable(ctx, s.pool, "audit")
	if err != nil || !exists {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT at, who, role, what, reason, topic, partition, before_offset, after_offset, before_topic_id, after_topic_id, ended
		FROM `+s.store.audit+` WHERE bridge = $1 ORDER BY at DESC, topic, partition LIMIT $2`, bridge, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Audit, error) {
		a := Audit{Bridge: bridge}
		var before, after *int64
		var beforeID, afterID string
		err := row.Scan(&a.At, &a.Who, &a.Role, &a.What, &a.Reason, &a.Partition.Topic, &a.Partition.Partition, &before, &after, &beforeID, &afterID, &a.Ended)
		a.Before, a.After = auditPosition(a.Partition, before, beforeID), auditPosition(a.Partition, after, afterID)
		return a, err
	})
}

func auditPosition(p changelog.Partition, offset *int64, id string) *changelog.Position {
	if offset == nil {
		return nil
	}
	topic, _ := changelog.ParseTopicID(id) // what was mended is shown as it was, which may be what nothing can be
	return &changelog.Position{Partition: p, Offset: *offset, LeaderEpoch: -1, TopicID: topic}
}

// ensureAudit makes the table in a store from before it. IF NOT EXISTS would ask for the right to make it even where it exists.
func (s *Sink) ensureAudit(ctx context.Context, t *transaction) error {
	exists, err := s.hasTable(ctx, t, "audit")
	if err != nil || exists {
		return err
	}
	// Two operators at once, of two bridges: the second waits, and looks again.
	if _, err := t.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lockKey("tables", s.o.Schema)); err != nil {
		return err
	}
	if exists, err = s.hasTable(ctx, t, "audit"); err != nil || exists {
		return err
	}
	_, err = t.Exec(ctx, s.store.auditDDL())
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code == "42501" {
		return s.denied(err, s.store.auditDDL()+";\n"+s.store.grants(s.role()))
	}
	return err
}

// writeAudit notes moves. It fails the move when it cannot.
func (s *Sink) writeAudit(ctx context.Context, t *transaction, who, bridge, what, why string, moved []Moved, ended []sink.GenerationID) error {
	if err := s.ensureAudit(ctx, t); err != nil {
		return err
	}
	ids := make([]int64, 0, len(ended))
	for _, g := range ended {
		ids = append(ids, int64(g))
	}
	var b pgx.Batch
	for _, m := range moved {
		before, beforeID := auditValues(m.Before)
		after, afterID := auditValues(m.After)
		b.Queue(`INSERT INTO `+s.store.audit+` (who, bridge, what, topic, partition, before_offset, after_offset, before_topic_id, after_topic_id, ended, reason)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			who, bridge, what, m.Partition.Topic, m.Partition.Partition, before, after, beforeID, afterID, slices.Clone(ids), why)
	}
	err := t.SendBatch(ctx, &b).Close()
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code == "42501" {
		return s.denied(err, s.store.grants(s.role()))
	}
	return err
}

func auditValues(p *changelog.Position) (offset *int64, id string) {
	if p == nil {
		return nil, ""
	}
	return &p.Offset, p.TopicID.String()
}
