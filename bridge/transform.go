package bridge

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Filter is the WHERE of a bridge: the sinks hold the rows of the topic's table that pass, and no others. It means what WHERE means on a
// changelog, so it is not simply asked about every change:
//
//   - With a key, a change that puts a row there (+I, +U) which does not pass becomes a delete of its key ([changelog.Change].KeyOnly): an
//     older version of the row may have passed. Deletes (-U, -D) go through without being asked about.
//   - Without a key, or where the table holds inserts only, a change that does not pass is dropped and counted as Skipped, deletes
//     like inserts: the row that a delete takes away did not pass either.
//
// # Rows that are not sent whole
//
// A value that the source did not send ([changelog.Value].IsUnchanged) cannot be looked at. Such a row is a *changelog.DataError, with which
// Options.OnData deals, where the answer would be a guess: a column that Keep looks at was not sent; or the row passes, but nobody knows
// whether it passed before. In the second case it may have to be put into the sink anew, where no older version has the missing value. It
// is known to have passed if the columns of Reads are Fixed or of the key, or if the old row in the same message (-U) passes.
type Filter struct {
	// Keep reports whether a row passes. It may look at nothing but the row, which it must not change or keep, and has to answer alike for
	// equal rows. It is called by the goroutine that decodes, with several lanes by several at once, and for the same row
	// again after a restart or a rebalance. A panic in it is not caught: a bridge that went on would have to guess the answer. Required.
	Keep func(row changelog.Row) bool
	// Reads names the columns that Keep looks at. Defaults to nil, all of them: then a row with any value that was not sent is an error. It
	// has to be set, to columns that are no METADATA, where the table has METADATA columns, deletes and no key: the offset of a
	// delete is not that of its insert.
	Reads []string
	// Fixed says that the columns of Reads never change while a row lives, like the tenant it belongs to. If they do, a row that was not
	// sent whole can reach the sink with a value of an older row of its key. Defaults to false.
	Fixed bool
}

// transform is the decoder of a bridge with a Filter or a Map: it changes what another one decoded, in the batch that it was decoded into,
// so that everything else in a bridge and the sinks see one table, the one that comes out. It does not change after it was made.
type transform struct {
	from  changelog.Decoder
	table *changelog.Table // that comes out

	name    string                   // of the filter, in errors
	keep    func(changelog.Row) bool // nil: no filter
	reads   []int                    // columns that keep looks at
	inKey   bool                     // all of them are of the key
	settled bool                     // their values are the same in all versions of a row
	deletes bool                     // what does not pass becomes a delete, rather than nothing

	mapping *mapping // nil: rows stay as they are
}

// transformed returns in with a decoder that does what the options' Filter and Map say.
func transformed(name string, in Input, o *Options) (Input, error) {
	if o == nil || o.Filter == nil && o.Map == nil || in.Decoder == nil || in.Decoder.Table() == nil || in.Decoder.Table().Schema == nil {
		return in, nil
	}
	from := in.Decoder.Table()
	t := &transform{from: in.Decoder, table: from, name: "Options.Filter"}
	var errs []error
	if o.Filter != nil {
		errs = append(errs, t.filter(o.Filter))
	}
	if o.Map != nil {
		var err error
		if t.mapping, err = newMapping(o.Map, from); err == nil {
			t.table = &changelog.Table{Name: t.mapping.name, Schema: t.mapping.schema, Mode: t.table.Mode}
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return in, &sink.Error{Op: "new", Bridge: name, Class: sink.ErrConfig, Err: err}
	}
	in.Decoder = t
	return in, nil
}

func (t *transform) filter(f *Filter) error {
	if f.Keep == nil {
		return errors.New(t.name + ".Keep is missing: set the function that says which rows pass")
	}
	from := t.table
	s := from.Schema
	var err error
	if t.reads, err = columnsOf(t.name+".Reads", s, f.Reads); err != nil {
		return err
	}
	t.keep = f.Keep
	keyed, changes := len(s.Key) > 0, from.Mode&^changelog.Append != 0
	t.deletes = keyed && changes
	t.inKey = inKey(s, t.reads)
	t.settled = f.Fixed || t.inKey
	if changes && !keyed {
		for _, c := range t.reads {
			if s.Columns[c].Metadata != "" {
				return fmt.Errorf("%s.Reads must name the columns that Keep looks at, without the METADATA column %s: table %s has no key, and the delete of a row does not have the metadata of its insert",
					t.name, s.Columns[c].Name, from.Name)
			}
		}
	}
	if t.deletes && !from.Mode.Contains(changelog.Delete) {
		t.table = &changelog.Table{Name: from.Name, Schema: s, Mode: from.Mode | 1<<changelog.Delete}
	}
	return nil
}

// columnsOf finds columns by name; nil names are all columns.
func columnsOf(option string, s *changelog.Schema, names []string) (cols []int, err error) {
	if names == nil {
		for i := range s.Columns {
			cols = append(cols, i)
		}
		return cols, nil
	}
	var errs []error
	for _, n := range names {
		i := s.Index(n)
		if i < 0 {
			errs = append(errs, fmt.Errorf("%s: the table has no column %s", option, n))
		}
		cols = append(cols, i)
	}
	return cols, errors.Join(errs...)
}

func inKey(s *changelog.Schema, cols []int) bool {
	key := make(map[int]bool, len(s.Key))
	for _, k := range s.Key {
		key[k] = true
	}
	for _, c := range cols {
		if !key[c] {
			return false
		}
	}
	return len(cols) > 0
}

// Table implements [changelog.Decoder].
func (t *transform) Table() *changelog.Table { return t.table }

// Decode implements [changelog.Decoder].
func (t *transform) Decode(b *changelog.Batch, r *changelog.Record) error {
	n := b.Len()
	// The decoder, and the filter, make rows of the table that goes in. Nobody else has the batch now.
	b.Table = t.from.Table()
	err := t.from.Decode(b, r)
	if err == nil {
		err = wellFormed(len(t.from.Table().Schema.Columns), b.Changes[n:])
	}
	if err == nil && t.keep != nil {
		err = t.filterFrom(b, n)
	}
	b.Table = t.table
	if err == nil && t.mapping != nil {
		err = t.mapFrom(b, n)
	}
	if err != nil {
		b.Truncate(n)
	}
	return err
}

// wellFormed looks at the changes of a message before the user's functions see a row: a decoder may be the user's own too, and one that gives rows
// too narrow should not look like a mistake in the filter.
func wellFormed(width int, cs []changelog.Change) error {
	for i := range cs {
		switch c := &cs[i]; {
		case len(c.Row) != width:
			return &changelog.DataError{Class: changelog.SchemaMismatch, Reason: fmt.Sprintf("the decoder gave a row of %d values for a table of %d columns", len(c.Row), width)}
		case c.Index < 0:
			return &changelog.DataError{Class: changelog.Malformed, Reason: "the decoder gave a change whose number within the message is negative"}
		case c.Kind > changelog.Delete:
			return &changelog.DataError{Class: changelog.UnknownOp, Reason: fmt.Sprintf("the decoder gave a change of the unknown kind %d", c.Kind)}
		}
	}
	return nil
}

// filterFrom filters the changes of one message, those from n on.
func (t *transform) filterFrom(b *changelog.Batch, n int) error {
	s := t.from.Table().Schema
	for i := n; i < b.Len(); i++ {
		c := &b.Changes[i]
		if err := t.judge(c, b.Changes[n:i]); err != nil {
			return err
		}
		switch {
		case t.deletes && !c.Kind.Adds() || t.keep(c.Row):
		case t.deletes:
			key := b.NewRow()
			for _, k := range s.Key {
				key[k] = c.Row[k]
			}
			c.Kind, c.KeyOnly, c.Row = changelog.Delete, true, key
		default:
			skip(c)
		}
	}
	return nil
}

// judge reports a change of which the filter could only guess what becomes of it. before are the changes of its message that came before it.
func (t *transform) judge(c *changelog.Change, before []changelog.Change) error {
	s := t.from.Table().Schema
	if t.deletes && !c.Kind.Adds() {
		return nil
	}
	if !t.deletes && c.KeyOnly {
		return &changelog.DataError{Class: changelog.Missing, Reason: "the delete knows its key only, and the filter of a table like this has to look at the row"}
	}
	if missing := firstUnchanged(c.Row, t.reads); missing >= 0 {
		return &changelog.DataError{Class: changelog.Missing, Field: s.Columns[missing].Name, Reason: "the filter looks at this column, and the source did not send its value; " +
			"let the source send rows whole, or leave the column out of the filter (" + t.name + ".Reads)"}
	}
	if !t.deletes || t.settled {
		return nil
	}
	if missing := slices.IndexFunc(c.Row, changelog.Value.IsUnchanged); missing >= 0 && t.keep(c.Row) && !t.passedBefore(before) {
		return &changelog.DataError{Class: changelog.Missing, Field: s.Columns[missing].Name, Reason: "the source did not send this value, and the row passes the filter now but perhaps did not before, " +
			"so that the sink may not have it; let the source send old rows and new ones whole, or set " + t.name + ".Fixed if what the filter looks at never changes"}
	}
	return nil
}

// passedBefore reports whether the last of the message's changes so far is the old row of the one that is looked at, and passes.
func (t *transform) passedBefore(cs []changelog.Change) bool {
	if len(cs) == 0 {
		return false
	}
	old := &cs[len(cs)-1]
	return old.Kind == changelog.UpdateBefore && !old.KeyOnly && firstUnchanged(old.Row, t.reads) < 0 && t.keep(old.Row)
}

func firstUnchanged(row changelog.Row, cols []int) int {
	for _, c := range cols {
		if row[c].IsUnchanged() {
			return c
		}
	}
	return -1
}

// skip marks a change that the filter drops. It stays in the batch until the batch is written: what becomes of its message until then, which may
// be held back, read again or given up, becomes of it too, so that it is counted exactly when its message is.
func skip(c *changelog.Change) { c.Index = ^c.Index }

func skipped(c *changelog.Change) bool { return c.Index < 0 }

// dropSkipped takes the marked changes out of a batch that is about to be written and returns how many they were.
func (r *run) dropSkipped(in int, b *changelog.Batch) int64 {
	if !marks(r.ins[in].Decoder) {
		return 0
	}
	n := 0
	for i := range b.Changes {
		if !skipped(&b.Changes[i]) {
			b.Changes[n] = b.Changes[i]
			n++
		}
	}
	dropped := b.Len() - n
	b.Truncate(n)
	return int64(dropped)
}
