package postgres

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// keptBytes is how much of a staged checkpoint a committer keeps for its merge: what a rehearsal may hold.
const keptBytes = rehearseBytes

// kept is what a committer keeps of the checkpoint that it staged last, so that it need not read back what it wrote a moment ago. It is no proof of anything: that
// the checkpoint is to be merged, the mark in the generation's row tells, and that its rows were staged and are still there, the number of them that are deleted.
type kept struct {
	w      writer
	cp     sink.CheckpointID
	chunks []chunk
	digest []byte
	head   stagedHead
	size   int
	much   bool // too much, so nothing is kept
}

// add keeps chunks of so many bytes.
func (k *kept) add(chunks []chunk, size int) {
	if k.much = k.much || k.size+size > keptBytes; k.much {
		k.chunks = nil
		return
	}
	k.chunks = append(k.chunks, chunks...)
	k.size += size
}

// of returns what was kept, as that of a checkpoint; nil: not all of it was.
func (k *kept) of(w writer, cp sink.CheckpointID, r receipt, head stagedHead) *kept {
	if k.much || len(k.chunks) != r.Chunks {
		return nil
	}
	out := *k
	out.w, out.cp, out.digest, out.head = w, cp, r.Digest, head
	return &out
}

// match returns k where it is of the checkpoint of a receipt. k may be nil.
func (k *kept) match(p prepared) *kept {
	if k == nil || k.w != p.writer || k.cp != p.cp || len(k.chunks) != p.Chunks || !bytes.Equal(k.digest, p.Digest) {
		return nil
	}
	return k
}

// mergeKept merges what was kept with COMMIT in the message of all that is looked at before it, and reports whether it did. false without an error: something of that said no, and
// nothing was merged; mergeIn finds out what it was.
func (s *Sink) mergeKept(ctx context.Context, p prepared, m *merger, idle time.Duration) (done bool, err error) {
	t, err := s.begin(ctx, idle, s.o.TransactionTimeout, "SET CONSTRAINTS ALL DEFERRED")
	if err != nil {
		return false, lift(err)
	}
	m.moved = parking{}
	first, err := s.mark(ctx, t, p.writer, p.cp)
	if err == nil && first {
		err = m.carry(ctx, s, t, p, m.kept.chunks)
	}
	if err != nil || !first {
		t.rollback(ctx)
		return false, nil
	}
	var b pgx.Batch
	b.Queue(planOnce)
	b.Queue("SET CONSTRAINTS ALL IMMEDIATE")
	lookAt(&b, m.kept.head.Tables)
	// With the head: of what was kept this is the proof that it was staged, and not rolled back by anybody.
	b.Queue(`WITH gone AS (DELETE FROM `+s.store.staging+` WHERE bridge = $1 AND sink = $2 AND generation = $3 AND checkpoint = $4 RETURNING 1) SELECT `+unless("(SELECT count(*) FROM gone) = $5::int8"),
		p.bridge, p.sink, int64(p.gen), int64(p.cp), int64(p.Chunks)+1)
	if _, err = t.commitAfter(ctx, &b); errors.Is(err, sink.ErrUncertain) {
		return false, err
	}
	return err == nil, nil
}
