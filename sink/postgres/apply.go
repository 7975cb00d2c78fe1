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
// and this process twice; more rows a statement gain nothing beyond these numbers.
const (
	chunkBytes = 4 << 20
	chunkRows  = 5000
)

// applier takes batches to the server: this file decides which statements make a net effect true. It keeps its buffers.
type applier struct {
	net    changelog.Net
	params [][]byte
	fresh  map[string]*freshness // by the statement
}

// work is what one kind of statement has to do for a batch.
type work struct {
	st      statement
	changes []changelog.Change
}

// batch writes changes into the transaction. Those that this process can tell to be unwritable are an ErrRejected that names all of them;
// one of the server names none: see blame. superseded counts the changes that a later one of the same key made void.
func (a *applier) batch(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) (superseded int, err error) {
	if bad := malformed(tg, changes); len(bad) > 0 {
		return 0, rejected(a.unfit(tg, changes))
	}
	todo, superseded := a.plan(tg, changes)
	for _, w := range todo {
		done, err := a.copyNew(ctx, t, tg, w)
		if err == nil && !done {
			err = a.run(ctx, t, tg, w.st, w.changes)
		}
		if errors.Is(err, errUnfit) {
			return 0, rejected(a.unfit(tg, changes))
		}
		if err != nil {
			return 0, err
		}
	}
	return superseded, nil
}

// malformed finds what would be a mistake of a decoder, and what Net could not work with: it goes by the key columns of the row and by the
// kind. A table without a key takes a row away by its content, and only where its stream is said to tell that.
func malformed(tg *target, changes []changelog.Change) (bad []sink.Rejection) {
	for i := range changes {
		switch c := &changes[i]; {
		case len(c.Row) != len(tg.table.Schema.Columns):
			bad = append(bad, rejection(c, &rowError{reason: fmt.Sprintf("the row has %d columns, and its table %d", len(c.Row), len(tg.table.Schema.Columns))}))
		case c.Kind > changelog.Delete:
			bad = append(bad, rejection(c, &rowError{reason: fmt.Sprintf("%s is no kind of change", c.Kind)}))
		case len(tg.keys) == 0 && !c.Kind.Adds() && tg.remove.sql == "":
			bad = append(bad, rejection(c, &rowError{reason: fmt.Sprintf("a %s cannot be applied to a table without a key whose mode is %s", c.Kind, tg.table.Mode)}))
		case len(tg.keys) == 0 && c.KeyOnly:
			bad = append(bad, rejection(c, &rowError{reason: "a delete that knows its key only cannot be applied to a table without a key"}))
		}
	}
	return bad
}

// plan says which statements make changes true, in order. None of changes is malformed. What it returns is valid until the next plan.
func (a *applier) plan(tg *target, changes []changelog.Change) (todo []work, superseded int) {
	switch {
	case len(tg.keys) == 0 && tg.remove.sql == "":
		return []work{{tg.insert, changes}}, 0
	case len(tg.keys) == 0:
		a.net.ComputeMultiset(tg.table.Schema, changes)
		return []work{{tg.remove, a.net.Deletes}, {tg.insert, a.net.Upserts}}, a.net.Superseded
	}
	// Each key is written once a batch, whatever happened to it: two rows of one key in an ON CONFLICT statement are an error.
	// Deletes go first, so that they make room for rows that other unique indexes take for the same.
	a.net.Compute(tg.table.Schema, changes)
	whole, parts := byColumnsSent(tg, a.net.Upserts)
	todo = append(todo, work{tg.remove, a.net.Deletes}, work{tg.upsert, whole})
	for _, p := range parts {
		todo = append(todo, work{tg.partial(p.columns), p.changes})
	}
	return todo, a.net.Superseded
}

// part holds changes that all lack the same columns.
type part struct {
	columns []int // that they hold
	changes []changelog.Change
}

// byColumnsSent sets changes apart in which columns are Unchanged, keeping the order. Mostly there are none.
func byColumnsSent(tg *target, changes []changelog.Change) (whole []changelog.Change, parts []part) {
	first := 0
	for ; first < len(changes); first++ {
		if lacksColumns(tg, &changes[first]) {
			break
		}
	}
	if first == len(changes) {
		return changes, nil
	}
	whole = append(whole, changes[:first]...)
	index := make(map[string]int)
	for i := first; i < len(changes); i++ {
		c := &changes[i]
		if !lacksColumns(tg, c) {
			whole = append(whole, *c)
			continue
		}
		var sent []int
		var name []byte
		for n := range tg.columns {
			if col := &tg.columns[n]; col.key || !c.Row[col.source].IsUnchanged() {
				sent = append(sent, n)
				name = strconv.AppendInt(append(name, ','), int64(n), 10)
			}
		}
		n, ok := index[string(name)]
		if !ok {
			n = len(parts)
			index[string(name)] = n
			parts = append(parts, part{columns: sent})
		}
		parts[n].changes = append(parts[n].changes, *c)
	}
	return whole, parts
}

func lacksColumns(tg *target, c *changelog.Change) bool {
	for i := range tg.columns {
		if c.Row[tg.columns[i].source].IsUnchanged() {
			return true
		}
	}
	return false
}

// run sends changes through one statement, chunk by chunk.
func (a *applier) run(ctx context.Context, t *transaction, tg *target, st statement, changes []changelog.Change) error {
	for len(changes) > 0 {
		n, err := a.fill(tg, st, changes)
		if err != nil {
			return err
		}
		if err := a.send(ctx, t, tg, st, changes[:n]); err != nil {
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
			if a.params[p], err = tg.columns[i].put(a.params[p], c.Row[tg.columns[i].source]); err != nil {
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
	case st.sql == "":
		return nil
	}
	return conn.ExecParams(ctx, st.sql, params, st.oids, binaryFormat(), nil).Read().Err
}

var errNoRow = &rowError{reason: "some columns were not sent by their source (Unchanged), and the row is not in the table to keep them from"}

// binaryFormat says that all parameters are in binary form.
func binaryFormat() []int16 { return []int16{1} }
