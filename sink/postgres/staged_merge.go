package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strings"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// This file makes staged checkpoints visible.
//
// Why every change takes effect exactly once: one transaction sets the mark in the generation's row, carries the chunks out, and takes them
// out of the staging table. Two that merge the same checkpoint wait for each other at that row, and the second finds the mark. Chunks that are
// gone without the mark were rolled back, or lost with the server's last moments: then nothing of them is visible.
//
// A merge is the same whoever does it. It looks at no fence, since it is decided; that it is no late one of an ended generation, behind rows
// of its successors, is what the mark tells: they settled it before they wrote.

// stagingDDL makes the table: for each checkpoint a row of number 0 with what is known of it, then its chunks. Parameters are stored as
// they are: compression would cost more than it saves for the time that they stay.
func (st store) stagingDDL() string {
	return `CREATE TABLE ` + st.staging + ` (
  bridge     text        NOT NULL,
  sink       text        NOT NULL,
  generation bigint      NOT NULL,
  checkpoint bigint      NOT NULL,
  number     integer     NOT NULL,
  statement  text        NOT NULL,
  params     bytea[]     NOT NULL DEFAULT '{}',
  staged     timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (bridge, sink, generation, checkpoint, number)
);
ALTER TABLE ` + st.staging + ` ALTER COLUMN params SET STORAGE EXTERNAL`
}

// stagedHead is what is known of a staged checkpoint, as JSON.
type stagedHead struct {
	Changes  int           `json:"changes"`
	Counters sink.Counters `json:"counters"`         // as this sink wrote it
	Tables   []shapedTable `json:"tables,omitempty"` // as they were; not of releases that did not look
}

// digest is of chunks in order, with lengths, so that no two runs of chunks give the same.
type digest struct{ hash hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) sum() []byte { return d.hash.Sum(nil) }

func (d digest) length(n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	d.hash.Write(b[:])
}

func (d digest) add(statement string, params [][]byte) {
	d.length(len(statement))
	d.hash.Write([]byte(statement))
	d.length(len(params))
	for _, p := range params {
		d.length(len(p))
		d.hash.Write(p)
	}
}

// seal gives what was staged the number of its checkpoint, and commits.
func (s *stage) seal(ctx context.Context, cp sink.CheckpointID, head stagedHead) error {
	text, err := json.Marshal(head)
	if err != nil {
		s.t.rollback(ctx)
		return err
	}
	staging := s.t.s.store.staging
	key := []any{s.w.bridge, s.w.sink, int64(s.w.gen), int64(cp)}
	var b pgx.Batch
	b.Queue(planOnce)
	b.Queue(`SELECT `+unless(`NOT EXISTS (SELECT FROM `+s.t.s.store.fence+` WHERE bridge = $1 AND sink = $2 AND generation = $3 AND committed >= $4)
		AND NOT EXISTS (SELECT FROM `+staging+` WHERE bridge = $1 AND sink = $2 AND generation = $3 AND checkpoint = $4)`), key...)
	b.Queue(`UPDATE `+staging+` SET checkpoint = $4 WHERE bridge = $1 AND sink = $2 AND generation = $3 AND checkpoint = 0`, key...)
	b.Queue(`INSERT INTO `+staging+` (bridge, sink, generation, checkpoint, number, statement) VALUES ($1, $2, $3, $4, 0, $5)`, append(key, string(text))...)
	if _, err = s.t.commitAfter(ctx, &b); state(err) == refusedState {
		return &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("checkpoint number %d.%d is not above the last one: it was used before", s.w.gen, cp)}
	}
	return err
}

// playAtOnce is how many chunks are fetched at a time: few, since one may be large.
const playAtOnce = 4

// play reads the chunks of a checkpoint, carries them out, in order, and returns how many there are. d may be nil.
func (s *Sink) play(ctx context.Context, t *transaction, p prepared, d *digest, m *merger) (n int, err error) {
	for {
		rows, err := t.Query(ctx, `SELECT number, statement, params FROM `+s.store.staging+` WHERE bridge = $1 AND sink = $2 AND generation = $3 AND checkpoint = $4 AND number > $5
			ORDER BY number LIMIT $6`, p.bridge, p.sink, int64(p.gen), int64(p.cp), n, playAtOnce)
		if err != nil {
			return n, err
		}
		type stored struct {
			Number    int
			Statement string
			Params    [][]byte
		}
		some, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
		if err != nil {
			return n, err
		}
		var chunks []chunk
		gap := false
		for i, x := range some {
			if gap = x.Number != n+1+i; gap {
				break // one is missing, which the number of them tells
			}
			if d != nil {
				d.add(x.Statement, x.Params)
			}
			c := chunk{params: x.Params}
			if err := json.Unmarshal([]byte(x.Statement), &c.statement); err != nil || !c.whole() {
				return n, odd("a staged statement %d of checkpoint %d.%d that cannot be read", x.Number, p.gen, p.cp)
			}
			chunks = append(chunks, c)
		}
		if err := m.carry(ctx, s, t, p, chunks); err != nil {
			return n, err
		}
		n += len(chunks)
		if gap || len(some) < playAtOnce {
			return n, nil
		}
	}
}

// whole reports whether the parts of a chunk that was read belong together.
func (c *chunk) whole() bool {
	if c.statement.Letters {
		return len(c.params) == 1
	}
	for _, k := range c.statement.Keys {
		if k < 0 || k >= len(c.params) {
			return false
		}
	}
	return len(c.params) == len(c.statement.OIDs)
}

var (
	errMergedAlready = errors.New("it is merged")
	errMergeMoved    = errors.New("rows that gave up a unique value for another one are kept from being written, by a trigger")
	errRefused       = errors.New("the table refuses it")
)

// merge makes the rows of a staged checkpoint visible, or finds the proof that they are.
func (s *Sink) merge(ctx context.Context, p prepared, m *merger) error {
	idle := min(storeIdleTimeout, max(s.o.LockTimeout/2, 4*silencePause)) // nothing but answers is waited for
	if p.Hook {
		if s.o.InCheckpoint == nil {
			return configf("checkpoint %d.%d was staged by a program with Options.InCheckpoint, which belongs to it: commit it with that program", p.gen, p.cp)
		}
		idle = s.o.IdleTimeout
	}
	if m.kept != nil && !p.Hook {
		if done, err := s.mergeKept(ctx, p, m, idle); done || err != nil {
			return err
		}
	}
	var t *transaction
	var err error
	for {
		// Constraints are checked at the end, when all of it is in place.
		if t, err = s.begin(ctx, idle, s.o.TransactionTimeout, "SET CONSTRAINTS ALL DEFERRED"); err != nil {
			return lift(err)
		}
		if err = s.mergeIn(ctx, t, p, m); err == nil {
			return t.commit(ctx)
		}
		t.rollback(ctx)
		if m.cast || !errors.Is(err, errOtherTypes) {
			break
		}
		m.cast = true
	}
	switch {
	case errors.Is(err, errMergedAlready):
		return nil
	case errors.Is(err, errMergeTaken):
		return &sink.Error{Class: sink.ErrTransient, Err: err}
	case errors.Is(err, errMergeMissing), errors.Is(err, errMergeMoved), errors.Is(err, errAltered), classify(err) == sink.ErrRejected, unfitting(err):
		return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("%w: rows of checkpoint %d.%d, which is decided and was accepted when it was prepared, are refused now (%w): "+
			"somebody else changed the table since. The checkpoint waits: take away what is in its way, and it goes through by itself, or let it go with 'flinksink settle --yes --accept-lost'",
			errRefused, p.gen, p.cp, tell(err))}
	}
	return &sink.Error{Class: undone(err), Err: tell(err)}
}

// unfitting reports that a staged statement does not fit its table: a column is gone, or has a type that nothing is cast to. What is wrong with the sink's own tables comes
// as an Error of its own.
func unfitting(err error) bool {
	var own *sink.Error
	code := state(err)
	return strings.HasPrefix(code, "42") && code != "42501" && !errors.As(err, &own)
}

func (s *Sink) mergeIn(ctx context.Context, t *transaction, p prepared, m *merger) error {
	first, err := s.mark(ctx, t, p.writer, p.cp)
	if err != nil {
		return lift(err)
	}
	if !first {
		done, err := s.committedAlready(ctx, t, p.writer, p.cp)
		if err == nil && done {
			err = s.nothingLeft(ctx, t, p)
		}
		switch {
		case err != nil:
			return lift(err)
		case done:
			return errMergedAlready
		}
		return p.lost(fmt.Sprintf("it was aborted, or its generation is not in table %s any more", s.store.fence))
	}
	var head stagedHead
	m.moved = parking{}
	if m.kept != nil && !p.Hook {
		head, err = m.kept.head, m.carry(ctx, s, t, p, m.kept.chunks)
	} else {
		head, err = s.mergeStaged(ctx, t, p, m)
	}
	if err != nil {
		return err
	}
	if p.Hook {
		info := Info{Bridge: p.bridge, Generation: p.gen, Checkpoint: p.cp, From: p.of.From, To: p.of.To, Counters: head.Counters}
		if err := s.callHook(ctx, t, info); err != nil {
			return err
		}
	}
	if _, err := t.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
		return err
	}
	if err := m.sameTables(ctx, t, head.Tables); err != nil {
		return err
	}
	gone, err := s.deleteStaged(ctx, t, p)
	if err != nil {
		return lift(err)
	}
	if gone != int64(p.Chunks)+1 { // with the head: of what was kept this is the proof that it was staged, and not rolled back by anybody
		return p.gone(s)
	}
	return nil
}

// nothingLeft reports as an error that rows of a checkpoint are still staged although the mark counts it as merged: a later one of its generation was merged before it,
// which only a caller can do that commits receipts out of their order. Its rows would be older than what is visible, so they are not written; nor are they called so.
func (s *Sink) nothingLeft(ctx context.Context, t *transaction, p prepared) error {
	var left bool
	err := t.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+s.store.staging+` WHERE bridge = $1 AND sink = $2 AND generation = $3 AND checkpoint = $4)`,
		p.bridge, p.sink, int64(p.gen), int64(p.cp)).Scan(&left)
	if err == nil && left {
		return configf("checkpoint %d.%d is still staged, and a later one of its generation was merged before it: receipts of a generation are to be committed in their order", p.gen, p.cp)
	}
	return err
}

// mergeStaged carries out what the staging table holds of a checkpoint.
func (s *Sink) mergeStaged(ctx context.Context, t *transaction, p prepared, m *merger) (head stagedHead, err error) {
	var text string
	err = t.QueryRow(ctx, `SELECT statement FROM `+s.store.staging+` WHERE bridge = $1 AND sink = $2 AND generation = $3 AND checkpoint = $4 AND number = 0`,
		p.bridge, p.sink, int64(p.gen), int64(p.cp)).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return head, p.gone(s)
	}
	if err != nil {
		return head, lift(err)
	}
	if json.Unmarshal([]byte(text), &head) != nil {
		return head, odd("a staged checkpoint %d.%d that cannot be read", p.gen, p.cp)
	}
	d := newDigest()
	n, err := s.play(ctx, t, p, &d, m)
	if err != nil {
		return head, err
	}
	if n != p.Chunks || !bytes.Equal(d.sum(), p.Digest) {
		return head, p.lost(fmt.Sprintf("somebody altered its rows in table %s: %d of %d chunks are there, and their digest is another one or incomplete", s.store.staging, n, p.Chunks))
	}
	return head, nil
}

// gone says that rows of a staged checkpoint are not there, although they were not merged.
func (p prepared) gone(s *Sink) error {
	return p.lost(fmt.Sprintf("its rows are not in table %s, or not all of them, and the mark in table %s says that they were not merged, so they were rolled back: by hand, "+
		"or the server went back to a time before them", s.store.staging, s.store.fence))
}

// deleteStaged takes the rows of a checkpoint away, and tells how many there were.
func (s *Sink) deleteStaged(ctx context.Context, t *transaction, p prepared) (int64, error) {
	tag, err := t.Exec(ctx, `DELETE FROM `+s.store.staging+` WHERE bridge = $1 AND sink = $2 AND generation = $3 AND checkpoint = $4`,
		p.bridge, p.sink, int64(p.gen), int64(p.cp))
	return tag.RowsAffected(), err
}

// unstage takes a staged checkpoint away. The row of the generation comes first, as in a merge: which of the two was first decides.
func (s *Sink) unstage(ctx context.Context, p prepared) error {
	t, err := s.beginStore(ctx, "")
	if err != nil {
		return lift(err)
	}
	if err = s.noteAborted(ctx, t, p.writer, p.cp); err == nil {
		_, err = s.deleteStaged(ctx, t, p)
	}
	if err != nil {
		t.rollback(ctx)
		return lift(err)
	}
	return t.commit(ctx)
}
