package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// without is sink/postgres as it would be if it guaranteed nothing: the same net effect, checks, encoding and statements in transactions of
// the same size, but no generation, no fence, and no positions in the transaction. What is left to remember is the group's offset,
// which the bridge commits afterwards in either case. It knows the table of items only, and no deletes.
type without struct {
	pool  *pgxpool.Pool
	sql   string
	net   changelog.Net
	tx    pgx.Tx
	array [4][]byte
	copy  string
	rows  []byte // of a COPY
	wait  int    // batches to go by before the next COPY
	last  int    // what wait was
}

func newWithout(pool *pgxpool.Pool, table string) *without {
	sql := upsertSQL(table)
	for _, cast := range []string{"::int8[]", "::text[]", "::float8[]"} {
		sql = strings.ReplaceAll(sql, cast, "") // the types are sent with the parameters
	}
	return &without{pool: pool, sql: sql, copy: "COPY " + pgx.Identifier{table}.Sanitize() + " (id, cust, qty, price) FROM STDIN (FORMAT binary)"}
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
	if len(w.net.Deletes) > 0 {
		return errors.New("a delete: this sink is for a benchmark and knows none")
	}
	if done, err := w.copyNew(ctx, w.net.Upserts); done || err != nil {
		return err
	}
	for rows := w.net.Upserts; len(rows) > 0; {
		n := min(unnestChunk, len(rows))
		if err := w.encode(rows[:n]); err != nil {
			return err
		}
		err := execBinary(ctx, w.tx, w.sql, w.array[:], []uint32{pgtype.Int8ArrayOID, pgtype.TextArrayOID, pgtype.Int8ArrayOID, pgtype.Float8ArrayOID})
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// copyNew is COPY within a savepoint, as long as all keys are new.
func (w *without) copyNew(ctx context.Context, rows []changelog.Change) (bool, error) {
	if w.wait > 0 {
		w.wait--
		return false, nil
	}
	w.rows = append(w.rows[:0], "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	for i := range rows {
		w.rows = binary.BigEndian.AppendUint16(w.rows, uint16(len(putters)))
		for c, put := range putters {
			var err error
			if w.rows, err = field(w.rows, put, rows[i].Row[c]); err != nil {
				return false, err
			}
		}
	}
	w.rows = binary.BigEndian.AppendUint16(w.rows, math.MaxUint16)
	conn := w.tx.Conn().PgConn()
	if err := conn.Exec(ctx, "SAVEPOINT copying").Close(); err != nil {
		return false, err
	}
	_, err := conn.CopyFrom(ctx, bytes.NewReader(w.rows), w.copy)
	var pe *pgconn.PgError
	switch {
	case err == nil:
		w.last = 0
		return true, conn.Exec(ctx, "RELEASE SAVEPOINT copying").Close()
	case errors.As(err, &pe) && pe.Code == "23505":
		w.last = min(2*w.last+1, 64)
		w.wait = w.last
		return false, conn.Exec(ctx, "ROLLBACK TO SAVEPOINT copying; RELEASE SAVEPOINT copying").Close()
	}
	return false, err
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

var putters = [...]putter{putInt, putString, putInt, putDouble}

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
func (w *without) encode(rows []changelog.Change) error {
	elems := [...]uint32{pgtype.Int8OID, pgtype.TextOID, pgtype.Int8OID, pgtype.Float8OID}
	for c, elem := range elems {
		a := w.array[c][:0]
		for _, h := range []uint32{1, 1, elem, uint32(len(rows)), 1} { // dimensions, NULLs, type, length, lower bound
			a = binary.BigEndian.AppendUint32(a, h)
		}
		w.array[c] = a
	}
	for i := range rows {
		for c := range elems {
			var err error
			if w.array[c], err = field(w.array[c], putters[c], rows[i].Row[c]); err != nil {
				return err
			}
		}
	}
	return nil
}
