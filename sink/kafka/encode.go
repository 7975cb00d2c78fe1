package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/sink"
)

// encoder makes records of the changes of one source table, in the encoding of the target table. It is used by one goroutine.
type encoder struct {
	enc     *format.Encoder
	source  *changelog.Table
	columns []int // of the source, by column of the target; -1: NULL
	aligned bool  // the rows of both have the same columns in the same places, but for such as are not written
	handsOn bool  // values of the source are handed on, see the file handon.go
	key     []int // of the source
	upsert  bool  // the target holds one record a key: an update is its new row, a delete a null value
	grow    bool  // the target takes inserts only

	row        changelog.Row
	mine       changelog.Change // of the target's columns
	record     changelog.Record
	keep       [2][]byte // memory of the record's key and value
	held       *heldBack
	now        func() time.Time
	stamp      int64 // of this batch's records whose changes have no time of their own; 0: not asked for yet
	compareKey [2][]byte
}

// heldBack is the -U at the end of a batch: whether it says anything is known once the change behind it is.
type heldBack struct {
	key    []byte // canonical
	record changelog.Record
	from   origin
}

// newEncoder matches the columns of source and target by their names.
func newEncoder(enc *format.Encoder, source *changelog.Table, upsert bool, now func() time.Time) (*encoder, error) {
	to := enc.Table()
	e := &encoder{enc: enc, source: source, upsert: upsert, grow: to.Mode == changelog.Append && !upsert, key: source.Schema.Key, now: now}
	e.columns, e.row = make([]int, len(to.Schema.Columns)), make(changelog.Row, len(to.Schema.Columns))
	e.aligned = len(to.Schema.Columns) == len(source.Schema.Columns)
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	for i, c := range to.Schema.Columns {
		j := source.Schema.Index(c.Name)
		e.columns[i] = j
		e.aligned = e.aligned && (j == i || c.Virtual)
		switch {
		case c.Virtual, j < 0 && c.Metadata != "":
			e.columns[i] = -1
		case j < 0:
			bad("the target has a column %q that table %q has not: leave it out of the target's CREATE TABLE", c.Name, source.Name)
		default:
			is, want := source.Schema.Columns[j].Type, c.Type
			if is.NotNull = want.NotNull; !is.Equal(want) {
				bad("column %q is %s in table %q and %s in the target: give both the same type", c.Name, source.Schema.Columns[j].Type, source.Name, c.Type)
			}
		}
	}
	switch {
	case upsert && !sameKey(source.Schema, to.Schema):
		bad("the target's PRIMARY KEY (%s) is not that of table %q (%s): a topic keeps the order of changes by its own key only, so both need the same",
			keyNames(to.Schema), source.Name, keyNames(source.Schema))
	case e.grow && source.Mode != changelog.Append:
		bad("the target takes inserts only, and table %q has %s: use 'connector' = 'upsert-kafka', or a format with kinds such as debezium-json", source.Name, source.Mode)
	case !upsert && !e.grow && source.Mode != changelog.Append && !source.Mode.Contains(changelog.UpdateBefore):
		bad("the target's format writes the old row of every update and delete, and table %q (%s) does not say it: use 'connector' = 'upsert-kafka'", source.Name, source.Mode)
	}
	if len(errs) > 0 {
		return nil, refuse(sink.ErrConfig, "%w", errors.Join(errs...))
	}
	return e, nil
}

// sameKey reports whether two keys are of the same columns, in any order.
func sameKey(a, b *changelog.Schema) bool {
	if len(a.Key) != len(b.Key) {
		return false
	}
	names := make(map[string]bool)
	for _, i := range a.Key {
		names[a.Columns[i].Name] = true
	}
	for _, i := range b.Key {
		if !names[b.Columns[i].Name] {
			return false
		}
	}
	return true
}

func keyNames(s *changelog.Schema) string {
	var names []string
	for _, i := range s.Key {
		names = append(names, s.Columns[i].Name)
	}
	return strings.Join(names, ", ")
}

// encode hands the records of a batch to emit, in order, with memory that is used again after each. All changes are written, and none is left out because
// a later one of its key makes it void: the topic's readers see the same history as those of the source.
//
// A -U says nothing to an upsert topic if the next change is the +U of its key; else the key is gone, or moved, and it is a delete.
func (e *encoder) encode(b *changelog.Batch, emit func(r *changelog.Record, from origin) error) error {
	e.stamp = 0
	original := 0
	for i := 0; i < len(b.Changes); i++ {
		c := &b.Changes[i]
		if len(c.Row) != len(e.source.Schema.Columns) {
			return e.rejected(c, errors.New("the row does not have the columns of its table"))
		}
		if err := e.release(c, emit); err != nil {
			return err
		}
		if e.handsOn {
			n, err := e.handOn(b, i, &original)
			if err != nil {
				return err
			}
			if n > 0 {
				from := originOf(c)
				if n > 1 {
					from.index = -1 // the record is all of the message
				}
				if err := emit(&e.record, from); err != nil {
					return err
				}
				i += n - 1
				continue
			}
		}
		if e.upsert && c.Kind == changelog.UpdateBefore {
			if err := e.make(c, false); err != nil {
				return err
			}
			r := changelog.Record{Key: bytes.Clone(e.record.Key), Timestamp: e.record.Timestamp} // the batch may be gone when it is written
			for _, h := range e.record.Headers {
				r.Headers = append(r.Headers, changelog.Header{Key: strings.Clone(h.Key), Value: bytes.Clone(h.Value)})
			}
			e.held = &heldBack{key: changelog.AppendKey(nil, e.source.Schema, c.Row), record: r, from: originOf(c)}
			continue
		}
		if err := e.make(c, false); err != nil {
			return err
		}
		if err := emit(&e.record, originOf(c)); err != nil {
			return err
		}
	}
	return nil
}

// release writes the -U that was held back, unless the change behind it says more. nil: there is no change behind it.
func (e *encoder) release(next *changelog.Change, emit func(r *changelog.Record, from origin) error) error {
	h := e.held
	if h == nil {
		return nil
	}
	e.held = nil
	if next != nil && next.Kind.Adds() {
		e.compareKey[0] = changelog.AppendKey(e.compareKey[0][:0], e.source.Schema, next.Row)
		if bytes.Equal(h.key, e.compareKey[0]) {
			return nil
		}
	}
	return emit(&h.record, h.from)
}

func (e *encoder) drop() { e.held = nil }

func originOf(c *changelog.Change) origin { return origin{c.Partition, c.Offset, c.Index} }

// make makes the record of one change, in memory that is used again. around leaves the value to the caller.
func (e *encoder) make(c *changelog.Change, around bool) error {
	takes := !c.Kind.Adds() && e.upsert // only the key is written
	for i, j := range e.columns {
		switch {
		case j >= 0 && !c.Row[j].IsUnchanged():
			if !e.aligned {
				e.row[i] = c.Row[j]
			}
			continue
		case j < 0, takes && !e.isKey(j):
			e.row[i] = changelog.Value{}
			continue
		}
		return e.rejected(c, fmt.Errorf("column %q was not sent by its source, and a record of the topic holds whole rows: have the source send it (REPLICA IDENTITY FULL)", e.source.Schema.Columns[j].Name))
	}
	if e.grow && c.Kind != changelog.Insert {
		return e.rejected(c, fmt.Errorf("the topic takes inserts only, and the change is a %s: use 'connector' = 'upsert-kafka', or a format with kinds", c.Kind))
	}
	if !e.aligned {
		e.mine = *c
		e.mine.Row = e.row
		c = &e.mine
	}
	return e.write(c, around)
}

// write makes the record of a change of the target's columns.
func (e *encoder) write(c *changelog.Change, around bool) error {
	r := &e.record
	r.Key, r.Value, r.Headers, r.Timestamp = e.keep[0][:0], e.keep[1][:0], nil, -1
	var err error
	if around {
		err = e.enc.EncodeAround(r, c)
	} else {
		err = e.enc.Encode(r, c)
	}
	if err != nil {
		var away *changelog.UnavailableError
		if errors.As(err, &away) {
			return &sink.Error{Class: sink.ErrTransient, Err: err}
		}
		return e.rejected(c, err)
	}
	for i, b := range [2][]byte{r.Key, r.Value} {
		if cap(b) > cap(e.keep[i]) {
			e.keep[i] = b
		}
	}
	if r.Timestamp < 0 {
		if e.stamp == 0 {
			e.stamp = e.now().UnixMilli()
		}
		r.Timestamp = e.stamp
	}
	return nil
}

func (e *encoder) isKey(column int) bool {
	for _, k := range e.key {
		if k == column {
			return true
		}
	}
	return false
}

// rejected names a change that can never be written.
func (e *encoder) rejected(c *changelog.Change, err error) error {
	r := sink.Rejection{Partition: c.Partition, Offset: c.Offset, Index: c.Index, Reason: err}
	var data *changelog.DataError
	if errors.As(err, &data) {
		r.Column = data.Field
	}
	return &sink.Error{Class: sink.ErrRejected, Position: &changelog.Position{Partition: c.Partition, Offset: c.Offset}, Rejected: []sink.Rejection{r}, Err: err}
}
