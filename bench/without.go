package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// without is sink/postgres as it would be if it guaranteed nothing: the same net effect, checks, encoding and statements in transactions of
// the same size, but no generation, no fence, and no positions in the transaction. What is left to remember is the group's offset,
// which the bridge commits afterwards in either case. It knows tables of the shapes of package rows only.
type without struct {
	pool  *pgxpool.Pool
	kinds []rows.Kind
	sql   string
	away  string
	net   changelog.Net
	tx    pgx.Tx
	array [][]byte // parameters, a column each
	copy  string
	wait  int // batches to go by before the next COPY
	last  int // what wait was
}

func newWithout(pool *pgxpool.Pool, shape *rows.Shape, table string) *without {
	w := &without{pool: pool, sql: upsertSQL(shape, table), away: deleteSQL(table), array: make([][]byte, len(shape.Columns)),
		copy: "COPY " + pgx.Identifier{table}.Sanitize() + " (" + strings.Join(shape.Names(), ", ") + ") FROM STDIN (FORMAT binary)"}
	for _, c := range shape.Columns {
		w.kinds = append(w.kinds, c.Kind)
	}
	return w
}

var (
	_ sink.Sink      = (*without)(nil)
	_ sink.Committer = (*without)(nil)
)

func (w *without) Lane(context.Context, sink.Lane) (sink.Committer, error) { return w, nil }
func (w *without) Guarantee() sink.Guarantee                               { return sink.Guarantee{} }
func (w *without) Open(context.Context, sink.Claim) error                  { return nil }
func (w *without) Commit(context.Context, sink.Committable) error          { return nil }
func (w *without) Abort(ctx context.Context, _ sink.Committable) error     { return w.Discard(ctx) }
func (w *without) Close(ctx context.Context) error                         { return w.Discard(ctx) }

func (w *without) Discard(ctx context.Context) error {
	if w.tx == nil {
		return nil
	}
	tx := w.tx
	w.tx = nil
	return tx.Rollback(ctx)
}

func (w *without) Write(ctx context.Context, b *changelog.Batch) (err error) {
	if w.tx == nil {
		if w.tx, err = w.pool.Begin(ctx); err != nil {
			return err
		}
	}
	w.net.Compute(b.Table.Schema, b.Changes)
	if err := w.send(ctx, w.away, w.net.Deletes, w.kinds[:1]); err != nil {
		return err
	}
	if done, err := w.copyNew(ctx, w.net.Upserts); done || err != nil {
		return err
	}
	return w.send(ctx, w.sql, w.net.Upserts, w.kinds)
}

// pieceRows is how many rows a statement takes, as in sink/postgres.
const pieceRows = 2000

// send runs a statement over rows, with their first columns as its parameters: in pieces, of which only the last is waited for, as sink/postgres does.
func (w *without) send(ctx context.Context, sql string, changes []changelog.Change, kinds []rows.Kind) (err error) {
	if len(changes) == 0 {
		return nil
	}
	oids := make([]uint32, len(kinds))
	for c, k := range kinds {
		oids[c] = types[k].array
	}
	size := len(changes) // deletes in one
	if len(kinds) > 1 {
		size = pieceRows
	}
	p := w.tx.Conn().PgConn().StartPipeline(ctx)
	for len(changes) > 0 && err == nil {
		n := min(size, len(changes))
		if err = w.encode(changes[:n], kinds); err == nil {
			p.SendQueryParams(sql, w.array[:len(kinds)], oids, binaryFormat(), nil)
			err = p.Flush()
		}
		changes = changes[n:]
	}
	return errors.Join(err, p.Sync(), p.Close())
}

// copyLeast is the least number of rows that is worth a COPY.
const copyLeast = 256

// copyNew is COPY within a savepoint, as long as all keys are new.
func (w *without) copyNew(ctx context.Context, changes []changelog.Change) (bool, error) {
	if len(changes) < copyLeast {
		return false, nil
	}
	if w.wait > 0 {
		w.wait--
		return false, nil
	}
	conn := w.tx.Conn().PgConn()
	_, err := conn.CopyFrom(ctx, &copying{kinds: w.kinds, changes: changes, buf: append(make([]byte, 0, copyChunk+copyChunk/4), copyHeader...)},
		"SAVEPOINT copying; "+w.copy+"; RELEASE SAVEPOINT copying")
	var pe *pgconn.PgError
	switch {
	case err == nil:
		w.last = 0
		return true, nil
	case errors.As(err, &pe) && pe.Code == "23505":
		w.last = min(2*w.last+1, 64)
		w.wait = w.last
		return false, conn.Exec(ctx, "ROLLBACK TO SAVEPOINT copying; RELEASE SAVEPOINT copying").Close()
	}
	return false, err
}

const (
	copyHeader = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copyChunk  = 64 << 10
)

// copying makes rows while they are sent, as sink/postgres does. It is read by one goroutine.
type copying struct {
	kinds   []rows.Kind
	changes []changelog.Change
	buf     []byte
	sent    int // of buf
	ended   bool
}

func (c *copying) Read(p []byte) (int, error) {
	if c.sent == len(c.buf) {
		if c.ended {
			return 0, io.EOF
		}
		c.buf, c.sent = c.buf[:0], 0
		if err := c.more(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.sent:])
	c.sent += n
	return n, nil
}

func (c *copying) more() (err error) {
	for len(c.buf) < copyChunk {
		if len(c.changes) == 0 {
			c.buf, c.ended = binary.BigEndian.AppendUint16(c.buf, math.MaxUint16), true
			return nil
		}
		c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(len(c.kinds)))
		for i, k := range c.kinds {
			if c.buf, err = field(c.buf, types[k].put, c.changes[0].Row[i]); err != nil {
				return err
			}
		}
		c.changes = c.changes[1:]
	}
	return nil
}

// Prepare commits: whoever reads sees the rows, and nobody has yet noted that they were read.
func (w *without) Prepare(ctx context.Context, _ sink.Cut) (c sink.Committable, err error) {
	if w.tx != nil {
		err = w.tx.Commit(ctx)
		w.tx = nil
	}
	return c, err
}

// putter appends the binary form of a value. One for each column, called by way of a variable, is how sink/postgres does it too.
type putter func(a []byte, v changelog.Value) ([]byte, error)

var errOdd = errors.New("a value that this sink does not know, or that Postgres cannot store")

func putInt(a []byte, v changelog.Value) ([]byte, error) {
	if v.Kind() != changelog.KindInt {
		return a, errOdd
	}
	return binary.BigEndian.AppendUint64(a, uint64(v.Int())), nil
}

func putDouble(a []byte, v changelog.Value) ([]byte, error) {
	if v.Kind() != changelog.KindDouble {
		return a, errOdd
	}
	return binary.BigEndian.AppendUint64(a, math.Float64bits(v.Double())), nil
}

func putString(a []byte, v changelog.Value) ([]byte, error) {
	s := v.Str()
	if v.Kind() != changelog.KindString || strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return a, errOdd
	}
	return append(a, s...), nil
}

// types is what Postgres calls each kind of column, and its array, and how a value is sent.
var types = [...]struct {
	elem, array uint32
	put         putter
}{
	rows.Int:    {pgtype.Int8OID, pgtype.Int8ArrayOID, putInt},
	rows.Text:   {pgtype.TextOID, pgtype.TextArrayOID, putString},
	rows.Double: {pgtype.Float8OID, pgtype.Float8ArrayOID, putDouble},
}

// field appends a value with its length before it.
func field(a []byte, put putter, v changelog.Value) ([]byte, error) {
	start := len(a)
	if v.IsNull() {
		return binary.BigEndian.AppendUint32(a, math.MaxUint32), nil
	}
	a, err := put(append(a, 0, 0, 0, 0), v)
	if err == nil {
		binary.BigEndian.PutUint32(a[start:], uint32(len(a)-start-4))
	}
	return a, err
}

// encode makes the parameters: an array for each column.
func (w *without) encode(changes []changelog.Change, kinds []rows.Kind) error {
	for c, k := range kinds {
		a := w.array[c][:0]
		for _, h := range []uint32{1, 1, types[k].elem, uint32(len(changes)), 1} { // dimensions, NULLs, type, length, lower bound
			a = binary.BigEndian.AppendUint32(a, h)
		}
		w.array[c] = a
	}
	for i := range changes {
		for c, k := range kinds {
			var err error
			if w.array[c], err = field(w.array[c], types[k].put, changes[i].Row[c]); err != nil {
				return err
			}
		}
	}
	return nil
}
