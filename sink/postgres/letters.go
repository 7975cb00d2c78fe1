package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file keeps the messages that are set aside.

// letterDDL makes the table of dead letters, a row for each message that was set aside, in the transaction of the checkpoint that went on
// without it. Nothing takes rows out of it but its owner.
//
// Like the table audit it came after format version 1 and leaves the version alone: an older program never looks at it. A store that was
// made before gets it with the next start.
//
// Headers are bytes on the wire, their keys as well, which may repeat: so they are two arrays of one length.
func (st store) letterDDL() string {
	return `CREATE TABLE ` + st.letter + ` (
  number         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  bridge         text        NOT NULL,
  generation     bigint      NOT NULL,
  checkpoint     bigint      NOT NULL,
  topic          text        NOT NULL,
  partition      integer     NOT NULL,
  message_offset bigint      NOT NULL,
  change_index   integer     NOT NULL,
  column_name    text        NOT NULL,
  class          text        NOT NULL,
  error          text        NOT NULL,
  message_time   timestamptz,
  key            bytea,
  value          bytea,
  header_keys    bytea[]     NOT NULL,
  header_values  bytea[]     NOT NULL,
  changes        bigint      NOT NULL,
  written        timestamptz NOT NULL DEFAULT clock_timestamp()
)`
}

// ensureLetters makes the table in a store from before it. A role that may not make it can still run a bridge that sets nothing aside, so
// what it is told is returned as denied, for the first letter.
func (s *Sink) ensureLetters(ctx context.Context) (denied, err error) {
	exists, err := s.hasTable(ctx, s.pool, "dead_letter")
	if err != nil {
		return nil, err
	}
	if exists {
		return s.mayWriteLetters(ctx, s.pool)
	}
	// Two processes that start at once: the second waits, and looks again.
	t, err := s.beginStore(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lockKey("tables", s.o.Schema)))
	if err != nil {
		return nil, err
	}
	if exists, err = s.hasTable(ctx, t, "dead_letter"); err == nil && !exists {
		_, err = t.Exec(ctx, s.store.letterDDL())
	}
	if err != nil || exists {
		t.rollback(ctx)
		if state(err) == "42501" {
			return s.denied(err, s.letterScript()), nil
		}
		return nil, err
	}
	return nil, t.commit(ctx)
}

// mayWriteLetters looks for the right to write into the table, which is there.
func (s *Sink) mayWriteLetters(ctx context.Context, q querier) (denied, err error) {
	var may bool
	if err := q.QueryRow(ctx, "SELECT has_table_privilege($1, 'INSERT')", s.store.letter).Scan(&may); err != nil || may {
		return nil, err
	}
	return s.mayNotWriteLetters(), nil
}

func (s *Sink) mayNotWriteLetters() error {
	return configf("role %s may not write into the table of dead letters %s: let an administrator run\n%s", quote(s.role()), s.store.letter, s.store.grants(s.role()))
}

// letterScript is what an administrator runs where the role may not make the table.
func (s *Sink) letterScript() string { return s.store.letterDDL() + ";\n" + s.store.grants(s.role()) }

// hasTable reports whether one of the sink's own tables is there.
func (s *Sink) hasTable(ctx context.Context, q querier, name string) (exists bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2)`, s.o.Schema, name).Scan(&exists)
	return exists, err
}

// WriteDeadLetters takes letters into the current checkpoint. They are written by Prepare, which knows the checkpoint's number, into the
// transaction that holds the rows; so they are there if and only if the positions have moved past their messages.
//
// Without letters it tells whether they could be written.
func (c *committer) WriteDeadLetters(ctx context.Context, letters []sink.DeadLetter) error {
	if c.broken != nil {
		return c.broken
	}
	if !c.opened {
		return c.fail("write dead letters", sink.ErrConfig, errors.New("WriteDeadLetters before Open: a mistake of the caller"))
	}
	if err := c.mayKeepLetters(ctx); err != nil {
		return c.spoil(ctx, "write dead letters", err)
	}
	c.letters = append(c.letters, letters)
	return nil
}

// mayKeepLetters says what is missing. An administrator may have seen to it since the lane was made.
func (c *committer) mayKeepLetters(ctx context.Context) error {
	if c.noLetters == nil {
		return nil
	}
	var q querier = c.s.pool
	if c.tx != nil { // a lane never needs two connections
		q = c.tx
	}
	exists, err := c.s.hasTable(ctx, q, "dead_letter")
	switch {
	case err != nil:
		return err
	case !exists:
		return c.noLetters
	}
	c.noLetters, err = c.s.mayWriteLetters(ctx, q)
	if err != nil {
		return err
	}
	return c.noLetters
}

// writeLetters sends the letters of the checkpoint, as many at a time as a statement of rows may take.
func (c *committer) writeLetters(ctx context.Context, cut sink.Cut) error {
	if len(c.letters) == 0 {
		return nil
	}
	if c.tx == nil {
		t, err := c.begin(ctx)
		if err != nil {
			return err
		}
		c.tx = t
	}
	for _, letters := range c.letters {
		c.rows += len(letters)
	}
	return c.s.insertLetters(ctx, c.tx, c.writer(cut.Generation.ID), cut.Checkpoint, c.letters)
}

// insertLetters sends letters of a checkpoint into the transaction that makes its rows visible.
func (s *Sink) insertLetters(ctx context.Context, t *transaction, w writer, cp sink.CheckpointID, all [][]sink.DeadLetter) error {
	var b pgx.Batch
	size := 0
	flush := func() error {
		if b.Len() == 0 {
			return nil
		}
		err := t.SendBatch(ctx, &b).Close()
		b, size = pgx.Batch{}, 0
		return s.letterRefused(err)
	}
	sql := `INSERT INTO ` + s.store.letter + ` (bridge, generation, checkpoint, topic, partition, message_offset, change_index, column_name, class, error,
		message_time, key, value, header_keys, header_values, changes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`
	for _, letters := range all {
		for i := range letters {
			l := letterOf(&letters[i])
			b.Queue(sql, w.bridge, int64(w.gen), int64(cp), l.topic, l.Partition.Partition, l.Offset, l.Index, l.column, l.class, l.text,
				l.time, l.Key, l.Value, l.headerKeys, l.headerValues, int64(l.Changes))
			if size += l.size; size >= chunkBytes || b.Len() >= chunkRows {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// letterRefused gives an error of the table of dead letters its class. There is no change that could be rejected for it: the table is not
// what flinksink made, or the role lacks a right.
func (s *Sink) letterRefused(err error) error {
	var pe *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case state(err) == "42501":
		return s.denied(err, s.store.grants(s.role()))
	case errors.As(err, &pe) && classify(err) == sink.ErrRejected, state(err) == "42703", state(err) == "42P01", state(err) == "42804":
		return configf("table %s does not take dead letters: drop what was changed about it, or rename it away, so that the next start makes it anew: %w", s.store.letter, tell(err))
	}
	return err
}

// letterRow is a letter as its table takes it.
type letterRow struct {
	*sink.DeadLetter
	topic, column, class, text string
	time                       *time.Time
	headerKeys, headerValues   [][]byte
	size                       int
}

// letterOf never refuses a letter because of its content: texts lose what Postgres cannot hold, and bytes stay what they are, unless they are
// beyond the gigabyte at which the server would end the session.
func letterOf(l *sink.DeadLetter) letterRow {
	r := letterRow{DeadLetter: l, topic: storable(l.Topic), column: storable(l.Column), class: storable(l.Class), text: storable(l.Error),
		headerKeys: [][]byte{}, headerValues: [][]byte{}}
	for _, h := range l.Headers {
		r.headerKeys = append(r.headerKeys, []byte(h.Key))
		r.headerValues = append(r.headerValues, h.Value)
		r.size += len(h.Key) + len(h.Value)
	}
	r.size += len(l.Key) + len(l.Value) + len(r.text)
	if r.size > maxValue {
		cut := *l
		cut.Key, cut.Value, r.headerKeys, r.headerValues = nil, nil, [][]byte{}, [][]byte{}
		r.DeadLetter, r.text, r.size = &cut, fmt.Sprintf("%s (the message has %d bytes, which Postgres cannot store: they are left out)", r.text, r.size), 0
	}
	if t := l.Timestamp; !t.IsZero() && t.Unix() >= minMicros/1000000+epochSeconds && t.Unix() < endMicros/1000000+epochSeconds {
		r.time = &t
	}
	return r
}

// storable replaces what no text in Postgres can hold.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}
