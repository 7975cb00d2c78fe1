package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// A statement takes rows until their arrays hold chunkBytes, or chunkRows. The server keeps a chunk several times over while it works,
// and this process twice. In a table of some hundred thousand rows the server may find rows to update by reading all of it once a statement,
// so few statements are better than many.
const (
	chunkBytes = 4 << 20
	chunkRows  = 20_000
)

// applier takes batches to the server, by the statements that plan says. It keeps its buffers.
type applier struct {
	net    changelog.Net
	old    changelog.Net // see spared
	params [][]byte
	free   [][]byte              // memory for params, of chunks that are merged
	fresh  map[string]*freshness // by the statement
	ways   map[string]*ways      // by the statement
	whole  map[string]bool       // by the statement: see upsertAll
	stage  *stage                // mode Staged: what the statements of its transaction become
	stamp  stamp
	void   int // rows that statements of this batch left as they were, see statement.counts

	ahead planned // what plan would say of the next batch
	tried bool    // the next batch could not be copied as it comes, see beginCopying
}

// batch writes changes into the transaction. Those that this process can tell to be unwritable are an ErrRejected that names all of them;
// one of the server names none: see blame. superseded counts the changes that were not written: those that a later one of the same key made
// void, and those that the table is ahead of.
func (a *applier) batch(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) (superseded int, err error) {
	if bad := malformed(tg, changes); len(bad) > 0 {
		return 0, rejected(a.unfit(tg, changes))
	}
	if tg.swap != nil {
		return a.swapping(ctx, t, tg, changes)
	}
	if superseded, done, err := a.inLayers(ctx, t, tg, changes); done || err != nil {
		return superseded, err
	}
	a.void = 0
	plain := a.tried
	a.tried = false
	if !plain && !a.stage.of(t) && a.plainly(tg, changes) {
		plain = true
		if done, err := a.copyPlain(ctx, t, tg, changes); done || err != nil {
			return 0, err
		}
	}
	todo, superseded := a.plan(tg, changes)
	if plain {
		a.refused(tg, superseded)
	}
	copied := true
	for _, w := range todo {
		done, err := a.copyNew(ctx, t, tg, w)
		if err == nil && !done {
			err = a.upsert(ctx, t, tg, w)
			copied = copied && len(w.changes) == 0
		}
		if errors.Is(err, errUnfit) {
			return 0, rejected(a.unfit(tg, changes))
		}
		if err != nil {
			return 0, err
		}
	}
	a.learn(tg, changes, superseded, copied)
	return superseded + a.void, nil
}

// run sends changes through one statement, chunk by chunk.
func (a *applier) run(ctx context.Context, t *transaction, tg *target, st statement, changes []changelog.Change) error {
	if err := a.clocked(ctx, t, tg); err != nil {
		return err
	}
	held := a.stage.held()
	if a.stage.of(t) {
		if pieces, err := a.stage.inPieces(ctx, tg, st, len(changes)); err != nil {
			return err
		} else if pieces {
			return a.stagePieces(ctx, t, tg, st, changes)
		}
	}
	for len(changes) > 0 {
		n, err := a.fill(tg, st, changes)
		if err != nil {
			return err
		}
		if err := a.put(ctx, t, tg, st, changes[:n]); err != nil {
			a.stage.back(held)
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// arrayHeader is the length of a one-dimensional array's header: dimensions, whether there are NULLs, the elements' OID, length, and
// lower bound (array_recv in the server's arrayfuncs.c).
const arrayHeader = 20

// room sees to a buffer for each parameter.
func (a *applier) room(st statement) {
	for len(a.params) < len(st.columns) {
		a.params = append(a.params, nil)
	}
	for i := range st.columns {
		if last := len(a.free) - 1; a.params[i] == nil && last >= 0 {
			a.params[i], a.free = a.free[last], a.free[:last]
		}
	}
}

// handOver gives the first n parameters away.
func (a *applier) handOver(n int) { clear(a.params[:n]) }

// takeBack takes the memory of chunks that nobody refers to any more.
func (a *applier) takeBack(chunks []chunk) {
	for _, c := range chunks {
		if !c.statement.Letters {
			a.free = append(a.free, c.params...)
		}
	}
}

// errUnfit is told by fill of a change that this process can tell to be unwritable; unfit says which.
var errUnfit = errors.New("a value does not fit its column")

// fill makes the parameters of a chunk and returns how many changes it holds.
func (a *applier) fill(tg *target, st statement, changes []changelog.Change) (int, error) {
	a.room(st)
	for p := range st.columns {
		a.params[p] = append(a.params[p][:0], make([]byte, arrayHeader)...)
	}
	n, size := 0, 0
	for ; n < len(changes) && n < chunkRows && size < chunkBytes; n++ {
		c := &changes[n]
		for p, i := range st.columns {
			was := len(a.params[p])
			var err error
			if a.params[p], err = tg.columns[i].putOf(a.params[p], c, &a.stamp); err != nil {
				return 0, errUnfit
			}
			size += len(a.params[p]) - was
		}
	}
	for p, i := range st.columns {
		h := a.params[p]
		binary.BigEndian.PutUint32(h[0:], 1)
		binary.BigEndian.PutUint32(h[4:], 1)
		binary.BigEndian.PutUint32(h[8:], tg.columns[i].bind.elem)
		binary.BigEndian.PutUint32(h[12:], uint32(n))
		binary.BigEndian.PutUint32(h[16:], 1)
	}
	return n, nil
}

var (
	errKeyNull      = errors.New("NULL in a key column: it would be the key of no row")
	errKeyUnchanged = errors.New("a key column was not sent by its source (Unchanged)")
	errNull         = errors.New("NULL in a column that is NOT NULL in Postgres")
	errUnchanged    = errors.New("the value was not sent by its source (Unchanged), and a table without a key has no row to keep it from")
)

// put appends a value, or NULL, with its length before it: the element of an array, and the field of a row of COPY.
func (col *column) put(dst []byte, v changelog.Value) ([]byte, error) {
	switch v.Kind() {
	case changelog.KindNull:
		switch {
		case col.key:
			return dst, errKeyNull
		case col.notNull:
			return dst, errNull
		}
		return append(dst, 0xff, 0xff, 0xff, 0xff), nil
	case changelog.KindUnchanged:
		if col.key {
			return dst, errKeyUnchanged
		}
		return dst, errUnchanged
	}
	start := len(dst)
	dst, err := col.bind.put(append(dst, 0, 0, 0, 0), v)
	if err != nil {
		return dst, err
	}
	if len(dst)-start-4 > maxValue {
		return dst, errTooBig
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst, nil
}

// maxValue is less than the 1 GB at which the server refuses a value, or a message, without saying which it was.
const maxValue = 1<<30 - 1<<20

var errTooBig = errors.New("the value is larger than 1 GB, which Postgres cannot store")

// send runs a statement over the parameters of a chunk, as an unnamed statement of the extended protocol: it needs no prepared statement
// on the connection, and always has the plan of the table as it is now.
func (a *applier) send(ctx context.Context, t *transaction, tg *target, st statement, changes []changelog.Change) error {
	conn := t.Conn().PgConn()
	params := a.params[:len(st.columns)]
	if st.missing != "" {
		var keys [][]byte
		var oids []uint32
		for _, k := range tg.keys {
			for p, i := range st.columns {
				if i == k {
					keys, oids = append(keys, params[p]), append(oids, st.oids[p])
				}
			}
		}
		r := conn.ExecParams(ctx, st.missing, keys, oids, binaryFormat(), nil).Read()
		if r.Err != nil {
			return r.Err
		}
		var bad []sink.Rejection
		for _, row := range r.Rows {
			n, err := strconv.Atoi(string(row[0]))
			if err != nil || n < 1 || n > len(changes) {
				return fmt.Errorf("the server numbered a row %q of %d", row[0], len(changes))
			}
			bad = append(bad, rejection(&changes[n-1], errNoRow))
		}
		if len(bad) > 0 {
			return rejected(bad)
		}
	}
	switch {
	case st.takes:
		return a.take(ctx, t, tg, st, changes)
	case st.ignores:
		a.void += len(changes)
		return nil
	case st.sql == "":
		return nil
	}
	wrote := int64(0)
	for _, sql := range []string{st.sql, st.then} {
		if sql == "" {
			continue
		}
		r := conn.ExecParams(ctx, sql, params, st.oids, binaryFormat(), nil).Read()
		if r.Err != nil {
			return r.Err
		}
		wrote += r.CommandTag.RowsAffected()
		if st.parks != nil {
			st.parks.moved(r)
		}
	}
	if st.counts {
		a.void += max(0, len(changes)-int(wrote))
	}
	return nil
}

var errNoRow = &rowError{reason: "some columns were not sent by their source (Unchanged), and the row is not in the table to keep them from"}

// binaryFormat says that all parameters are in binary form.
func binaryFormat() []int16 { return []int16{1} }
