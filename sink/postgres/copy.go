package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
)

// Rows whose keys are new need no look for a conflict, and COPY writes them faster than INSERT ... ON CONFLICT. Whether they are new only the
// server knows, so COPY is tried within a savepoint. One row that is there already takes the whole COPY back, and then the upsert writes
// the same rows: what becomes visible is the same either way. Rows that were taken back are dead tuples, so after each failure the next try
// is further away.
const (
	copyRows    = 256 // fewer are not worth the two more answers that a savepoint costs
	copyPenalty = 64  // the most batches that go by between two tries
)

// freshness remembers for a table how well COPY went.
type freshness struct {
	wait    int // batches to go by before the next try
	penalty int // the last wait
}

func (f *freshness) try() bool {
	if f.wait > 0 {
		f.wait--
		return false
	}
	return true
}

func (f *freshness) failed() {
	f.penalty = min(2*f.penalty+1, copyPenalty)
	f.wait = f.penalty
}

// copySQL is "" where COPY would do something else than INSERT: it knows no casts, and passes rules by.
func (tg *target) copySQL(rules bool) string {
	if rules || len(tg.columns) == 0 {
		return ""
	}
	for i := range tg.columns {
		if tg.columns[i].bind.cast != "" {
			return ""
		}
	}
	names := make([]string, len(tg.columns))
	for i := range tg.columns {
		names[i] = quote(tg.columns[i].name)
	}
	return fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary)", tg.into().SQL(), strings.Join(names, ", "))
}

// copyNew writes changes as new rows, if st may and if that is likely to go well, and reports whether it did. false without an error: the
// transaction is as it was before.
//
// Rows are in the order of their keys, as in the upsert, so that lanes lock what they share in one order.
func (a *applier) copyNew(ctx context.Context, t *transaction, tg *target, w work) (done bool, err error) {
	if w.st.copy == "" || len(w.changes) < copyRows || a.stage.of(t) {
		return false, nil
	}
	if a.fresh == nil {
		a.fresh = make(map[string]*freshness)
	}
	f := a.fresh[w.st.copy]
	if f == nil {
		f = new(freshness)
		a.fresh[w.st.copy] = f
	}
	if !f.try() {
		return false, nil
	}
	if err := a.clocked(ctx, t, tg); err != nil {
		return false, err
	}
	conn := t.Conn().PgConn()
	if err := conn.Exec(ctx, "SAVEPOINT copying").Close(); err != nil {
		return false, err
	}
	r := &copyReader{tg: tg, stamp: a.stamp, changes: w.changes, buf: append(make([]byte, 0, copyChunk+copyChunk/4), copyHeader...)}
	_, err = conn.CopyFrom(ctx, r, w.st.copy)
	r.stop()
	switch {
	case err == nil:
		f.penalty = 0
		return true, conn.Exec(ctx, "RELEASE SAVEPOINT copying").Close()
	case answered(err) && (r.err != nil || classify(err) == sink.ErrRejected):
		// A key that is there, or a row that is refused either way, of which the other statement will say which it is.
		f.failed()
		return false, conn.Exec(ctx, "ROLLBACK TO SAVEPOINT copying; RELEASE SAVEPOINT copying").Close()
	}
	return false, err
}

// answered reports that the server said why it failed: the connection is in order.
func answered(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.SeverityUnlocalized == "ERROR"
}

// copyHeader begins the binary format: signature, flags, length of the header's extension (SQL command COPY, "Binary Format").
const copyHeader = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// copyReader makes rows while they are sent, so that the server works on some while the next are made.
type copyReader struct {
	mu      sync.Mutex // CopyFrom reads in a goroutine, and does not wait for it when the connection breaks
	tg      *target
	stamp   stamp
	changes []changelog.Change
	buf     []byte
	sent    int // of buf
	ended   bool
	err     error // a row cannot be made
}

const copyChunk = 64 << 10

// stop lets go of the changes.
func (r *copyReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes, r.buf, r.sent, r.ended = nil, nil, 0, true
}

// Read implements io.Reader.
func (r *copyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent == len(r.buf) {
		r.buf, r.sent = r.buf[:0], 0
		if r.ended {
			return 0, io.EOF
		}
		if r.err = r.more(); r.err != nil {
			return 0, r.err
		}
	}
	n := copy(p, r.buf[r.sent:])
	r.sent += n
	return n, nil
}

// more makes a chunk of rows. A row is the number of its fields, and each field its length and its value (SQL command COPY, "Tuples").
func (r *copyReader) more() error {
	for len(r.buf) < copyChunk {
		if len(r.changes) == 0 {
			r.buf = binary.BigEndian.AppendUint16(r.buf, math.MaxUint16) // the trailer
			r.ended = true
			return nil
		}
		c := &r.changes[0]
		r.changes = r.changes[1:]
		r.buf = binary.BigEndian.AppendUint16(r.buf, uint16(len(r.tg.columns)))
		for i := range r.tg.columns {
			var err error
			if r.buf, err = r.tg.columns[i].putOf(r.buf, c, &r.stamp); err != nil {
				return err
			}
		}
	}
	return nil
}
