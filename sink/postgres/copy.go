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
//
// A backfill has no key twice either. Then the net effect of a batch is the batch, and while it is worked out, a tenth of the time that the rows
// take, the server would wait. So after a batch that was such, the next one is copied as it comes; a key that it has twice is told by the
// server, as one that is there.
const (
	copyRows    = 256 // fewer are not worth the two more answers that a savepoint costs
	copyPenalty = 64  // the most batches that go by between two tries
)

// freshness remembers for a table how well COPY went.
type freshness struct {
	attempts          // of net effects
	plain    attempts // of batches as they come
	distinct bool     // the last net effect was its batch, and its keys were new
}

// attempts are those of a way to write that may fail.
type attempts struct {
	wait    int // batches to go by before the next try
	penalty int // the last wait
}

func (f *attempts) try() bool {
	if f.wait > 0 {
		f.wait--
		return false
	}
	return true
}

func (f *attempts) failed() {
	f.penalty = min(2*f.penalty+1, copyPenalty)
	f.wait = f.penalty
}

func (f *attempts) worked() { f.penalty = 0 }

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

// freshnessOf is what is known of the table of a COPY.
func (a *applier) freshnessOf(sql string) *freshness {
	if a.fresh == nil {
		a.fresh = make(map[string]*freshness)
	}
	f := a.fresh[sql]
	if f == nil {
		f = new(freshness)
		a.fresh[sql] = f
	}
	return f
}

// copyNew writes changes as new rows, if st may and if that is likely to go well, and reports whether it did. false without an error: the
// transaction is as it was before.
//
// Rows are in the order of their keys, as in the upsert, so that lanes lock what they share in one order.
func (a *applier) copyNew(ctx context.Context, t *transaction, tg *target, w work) (done bool, err error) {
	if w.st.copy == "" || len(w.changes) < copyRows || a.stage.of(t) {
		return false, nil
	}
	f := a.freshnessOf(w.st.copy)
	if !f.try() {
		return false, nil
	}
	done, err = a.copy(ctx, t, tg, w)
	switch {
	case err != nil:
	case done:
		f.worked()
	default:
		f.failed()
	}
	return done, err
}

// plainly reports whether changes are likely to be their own net effect, and new. It is asked while a transaction is begun, so what that changes (stage) is
// not looked at.
func (a *applier) plainly(tg *target, changes []changelog.Change) bool {
	f := a.fresh[tg.upsert.copy]
	if tg.upsert.copy == "" || f == nil || !f.distinct || f.wait > 0 || f.plain.wait > 0 || len(tg.keys) == 0 || len(changes) < copyRows || tg.swap != nil {
		return false
	}
	for i := range changes {
		if !changes[i].Kind.Adds() || lacksColumns(tg, &changes[i]) {
			return false
		}
	}
	return true
}

// copyPlain writes changes as they come, as new rows, and reports whether it did. false without an error: the transaction is as it was before, and changes
// have a key that is there, or one twice, or a row that is refused.
//
// Rows are not in the order of their keys. New keys are locked by nobody but their lane, whose partitions no other lane has; where a key is in
// two partitions all the same, lanes may lock each other out, of which the server ends one. That checkpoint is done again, in order.
func (a *applier) copyPlain(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) (done bool, err error) {
	done, err = a.copy(ctx, t, tg, work{tg.upsert, changes})
	a.copiedPlain(tg, done && err == nil)
	return done, err
}

// copiedPlain notes whether changes could be copied as they came.
func (a *applier) copiedPlain(tg *target, done bool) {
	f := a.freshnessOf(tg.upsert.copy)
	if done {
		f.plain.worked()
		a.ahead = planned{} // none, as plainly says the same twice; the memory of changes may come again with others in it
		return
	}
	f.distinct = false
	f.plain.failed()
}

// refused notes that changes could not be copied as they came. superseded of their net effect says whether a key that they have twice was to blame, else the
// net effect would be refused too.
func (a *applier) refused(tg *target, superseded int) {
	if f := a.freshnessOf(tg.upsert.copy); superseded == 0 {
		f.failed()
		f.wait++ // this batch
	}
}

// learn notes what the net effect of changes was. copied: all of it went by COPY.
func (a *applier) learn(tg *target, changes []changelog.Change, superseded int, copied bool) {
	f := a.fresh[tg.upsert.copy]
	if f == nil || len(changes) < copyRows {
		return
	}
	f.distinct = copied && superseded == 0
	f.plain.wait = max(0, f.plain.wait-1)
}

// copy writes changes as new rows within a savepoint. false without an error: the server refused one, or it cannot be made, and the transaction is as it was before.
//
// Savepoint, rows and release are one message, and one answer is waited for: between two messages the server does nothing, and where bridge and server share
// their cores it then waits for one, since whoever decodes the next batch has it.
func (a *applier) copy(ctx context.Context, t *transaction, tg *target, w work) (done bool, err error) {
	if err := a.clocked(ctx, t, tg); err != nil {
		return false, err
	}
	conn := t.Conn().PgConn()
	r := a.copyOf(tg, w.changes)
	_, err = conn.CopyFrom(ctx, r, savedCopy(w.st.copy))
	r.stop()
	switch {
	case err == nil:
		return true, nil
	case answered(err) && (r.err != nil || classify(err) == sink.ErrRejected):
		// A key that is there, or a row that is refused either way, of which the other statement will say which it is.
		return false, conn.Exec(ctx, uncopy).Close()
	}
	return false, err
}

// uncopy takes back what a COPY that was refused has left of savedCopy.
const uncopy = "ROLLBACK TO SAVEPOINT copying; RELEASE SAVEPOINT copying"

// savedCopy is a COPY within a savepoint, as one query string. After an error the server leaves the rest of it out, and the savepoint is still there.
func savedCopy(sql string) string { return "SAVEPOINT copying; " + sql + "; RELEASE SAVEPOINT copying" }

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
	rest    []byte // what did not fit
	most    int    // bytes of the largest row so far
	ended   bool
	err     error // a row cannot be made
}

func (a *applier) copyOf(tg *target, changes []changelog.Change) *copyReader {
	return &copyReader{tg: tg, stamp: a.stamp, changes: changes, rest: []byte(copyHeader)}
}

// stop lets go of the changes.
func (r *copyReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes, r.rest, r.ended = nil, nil, true
}

// Read implements io.Reader. Rows are made where they are sent from.
func (r *copyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := copy(p, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) > 0 {
		return n, nil
	}
	if r.ended {
		if n > 0 {
			return n, nil
		}
		return 0, io.EOF
	}
	var buf []byte
	if buf, r.err = r.more(p[:n:len(p)]); r.err != nil {
		return 0, r.err
	}
	if cap(buf) != len(p) { // it grew out of p
		n = copy(p, buf)
		r.rest = buf[n:]
		return n, nil
	}
	return len(buf), nil
}

// more appends rows as long as they are likely to fit into dst. A row is the number of its fields, and each field its length and its value
// (SQL command COPY, "Tuples").
func (r *copyReader) more(dst []byte) ([]byte, error) {
	for room := cap(dst); len(r.changes) > 0; {
		if start := len(dst); start > 0 && room-start < r.most {
			return dst, nil
		}
		c := &r.changes[0]
		r.changes = r.changes[1:]
		start := len(dst)
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.tg.columns)))
		for i := range r.tg.columns {
			var err error
			if dst, err = r.tg.columns[i].putOf(dst, c, &r.stamp); err != nil {
				return nil, err
			}
		}
		r.most = max(r.most, len(dst)-start)
		if cap(dst) != room {
			return dst, nil
		}
	}
	r.ended = true
	return binary.BigEndian.AppendUint16(dst, math.MaxUint16), nil // the trailer
}
