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
}

// batch writes changes into the transaction. A change that cannot be written is ErrRejected with its position.
func (a *applier) batch(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) error {
	for i := range changes {
		// What is not so would be a mistake of a decoder, and Net goes by the key columns of the row and by the kind.
		switch c := &changes[i]; {
		case len(c.Row) != len(tg.table.Schema.Columns):
			return reject(c, &rowError{reason: fmt.Sprintf("the row has %d columns, and its table %d", len(c.Row), len(tg.table.Schema.Columns))})
		case c.Kind > changelog.Delete:
			return reject(c, &rowError{reason: fmt.Sprintf("%s is no kind of change", c.Kind)})
		}
	}
	if len(tg.keys) == 0 {
		for i := range changes {
			if c := &changes[i]; !c.Kind.Adds() {
				return reject(c, &rowError{reason: fmt.Sprintf("a %s cannot be applied to a table without a key", c.Kind)})
			}
		}
		return a.run(ctx, t, tg, tg.insert, changes)
	}
	// Each key is written once a batch, whatever happened to it: two rows of one key in an ON CONFLICT statement are an error.
	// Deletes go first, so that they make room for rows that other unique indexes take for the same.
	a.net.Compute(tg.table.Schema, changes)
	if err := a.run(ctx, t, tg, tg.remove, a.net.Deletes); err != nil {
		return err
	}
	whole, parts := byColumnsSent(tg, a.net.Upserts)
	if err := a.run(ctx, t, tg, tg.upsert, whole); err != nil {
		return err
	}
	for _, p := range parts {
		if err := a.run(ctx, t, tg, tg.partial(p.columns), p.changes); err != nil {
			return err
		}
	}
	return nil
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

// fill makes the parameters of a chunk and returns how many changes it holds.
func (a *applier) fill(tg *target, st statement, changes []changelog.Change) (int, error) {
	for len(a.params) < len(st.columns) {
		a.params = append(a.params, nil)
	}
	for p := range st.columns {
		a.params[p] = append(a.params[p][:0], make([]byte, arrayHeader)...)
	}
	n, size := 0, 0
	for ; n < len(changes) && n < chunkRows && size < chunkBytes; n++ {
		c := &changes[n]
		for p, i := range st.columns {
			was := len(a.params[p])
			if err := a.put(p, &tg.columns[i], c.Row[tg.columns[i].source]); err != nil {
				return 0, reject(c, &rowError{tg.columns[i].name, err.Error()})
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

func (a *applier) put(p int, col *column, v changelog.Value) error {
	dst := a.params[p]
	switch v.Kind() {
	case changelog.KindNull:
		switch {
		case col.key:
			return errKeyNull
		case col.notNull:
			return errNull
		}
		a.params[p] = append(dst, 0xff, 0xff, 0xff, 0xff)
		return nil
	case changelog.KindUnchanged:
		if col.key {
			return errKeyUnchanged
		}
		return errUnchanged
	}
	start := len(dst)
	dst, err := col.bind.put(append(dst, 0, 0, 0, 0), v)
	if err != nil {
		return err
	}
	if len(dst)-start-4 > maxValue {
		return errTooBig
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	a.params[p] = dst
	return nil
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
		if len(r.Rows) > 0 {
			n, err := strconv.Atoi(string(r.Rows[0][0]))
			if err != nil || n < 1 || n > len(changes) {
				return fmt.Errorf("the server numbered a row %q of %d", r.Rows[0][0], len(changes))
			}
			return reject(&changes[n-1], &rowError{reason: "some columns were not sent by their source (Unchanged), and the row is not in the table to keep them from"})
		}
	}
	if st.sql == "" {
		return nil
	}
	err := conn.ExecParams(ctx, st.sql, params, st.oids, binaryFormat(), nil).Read().Err
	if err != nil && len(changes) == 1 && classify(err) == sink.ErrRejected {
		return reject(&changes[0], err) // of several changes the server does not say which it was
	}
	return err
}

// binaryFormat says that all parameters are in binary form.
func binaryFormat() []int16 { return []int16{1} }

// reject says that a change can never be written.
func reject(c *changelog.Change, err error) error {
	return &sink.Error{Class: sink.ErrRejected, Position: &changelog.Position{Partition: c.Partition, Offset: c.Offset, LeaderEpoch: -1}, Err: tell(err)}
}
