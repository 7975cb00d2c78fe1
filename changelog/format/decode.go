package format

import (
	"errors"
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// maxProduct bounds the values of the rows that several keys times several value rows make: two arrays of a megabyte would otherwise ask
// for terabytes.
const maxProduct = 1 << 22

// Decode implements [changelog.Decoder]: it appends the changes of r, zero or more, to b, which must be a batch of d.Table(). Rows may point
// into the memory of r. An error is a [*changelog.DataError] with the record's coordinates, and leaves b as it was.
func (d *Decoder) Decode(b *changelog.Batch, r *changelog.Record) error {
	start := b.Len()
	whole, err := d.decode(b, r, start)
	if err != nil {
		b.Truncate(start)
		return located(err, r)
	}
	if b.Len() == start {
		return nil
	}
	for i := range b.Changes[start:] {
		c := &b.Changes[start+i]
		c.Partition, c.Offset, c.Index = r.Partition, r.Offset, int32(i)
		for _, m := range d.metadata {
			c.Row[m.column] = m.read(b, r)
		}
	}
	b.Pin(d.pinned(r))
	if b.KeepOriginals {
		b.Originals = append(b.Originals, original(r, b.Len()-start, whole))
	}
	return nil
}

// pinned is how much of the record the rows may point to.
func (d *Decoder) pinned(r *changelog.Record) int {
	n := len(r.Value)
	if d.key != nil {
		n += len(r.Key)
	}
	if d.headers {
		for _, h := range r.Headers {
			n += len(h.Key) + len(h.Value)
		}
	}
	return n
}

// located gives an error the record's coordinates.
func located(err error, r *changelog.Record) error {
	if out, ok := unavailable(err, r.Partition, r.Offset); ok {
		return out
	}
	var de *changelog.DataError
	if !errors.As(err, &de) {
		de = &changelog.DataError{Reason: "cannot be decoded", Err: err}
	}
	de.Partition, de.Offset = r.Partition, r.Offset
	return de
}

// unavailable reports whether nothing is wrong with a message or a change, but with a system that it takes.
func unavailable(err error, p changelog.Partition, offset int64) (error, bool) {
	var out *changelog.UnavailableError
	if !errors.As(err, &out) {
		return nil, false
	}
	at := *out // which others may hold too
	at.Partition, at.Offset = p, offset
	return &at, true
}

func dataError(class changelog.DataClass, part, field, reason string) *changelog.DataError {
	return &changelog.DataError{Class: class, Part: part, Field: field, Reason: reason}
}

// inPart says whether an error is about the key or the value.
func inPart(err error, part string) error {
	var de *changelog.DataError
	if errors.As(err, &de) && de.Part == "" {
		de.Part = part
	}
	return err
}

// decode appends the rows of the record from start on. The steps are those of DynamicKafkaDeserializationSchema.deserialize: keys first, then
// the value, each of whose rows is joined with each key. whole is what [WholeDecoder] tells of the value.
func (d *Decoder) decode(b *changelog.Batch, r *changelog.Record, start int) (whole bool, err error) {
	var keys []changelog.Change
	if d.key != nil {
		kb, _ := d.keyBatches.Get().(*changelog.Batch)
		if kb == nil {
			kb = changelog.NewBatch(d.keyTable)
		}
		// The batch is emptied and not reset: strings of its arena live on in the rows of b.
		defer func() {
			kb.Truncate(0)
			d.keyBatches.Put(kb)
		}()
		if err := d.decodeKeys(kb, r); err != nil {
			return false, inPart(err, "key")
		}
		keys = kb.Changes
	}
	if r.Value == nil && d.upsert {
		return false, d.deletes(b, keys)
	}
	if whole, err = d.decodeValue(b, r); err != nil {
		return false, inPart(err, "value")
	}
	if d.key != nil && len(keys) == 0 {
		b.Truncate(start) // Flink drops the record, but only after it looked at its value
		return false, nil
	}
	if err := d.nullRows(b, start, keys); err != nil {
		return false, err
	}
	if err := d.join(b, start, keys); err != nil {
		return false, err
	}
	return whole && len(keys) <= 1, d.checkRows(b.Changes[start:])
}

func (d *Decoder) decodeKeys(kb *changelog.Batch, r *changelog.Record) error {
	if r.Key == nil {
		if n, ok := d.key.(NullDecoder); ok {
			return n.DecodeNull(kb, r)
		}
		if d.lenient {
			return nil
		}
		return dataError(changelog.Missing, "key", "", "the record has a null key, and the table's key columns are read from it; Flink would drop the record")
	}
	if err := d.key.DecodePayload(kb, r.Key, r); err != nil {
		return err
	}
	if len(kb.Changes) == 0 && !d.lenient {
		return dataError(changelog.Missing, "key", "", "the key holds no row; Flink would drop the record")
	}
	for i := range kb.Changes {
		if kb.Changes[i].Row == nil {
			return dataError(changelog.Malformed, "key", "", "the key cannot be read; Flink would fail here too, in spite of 'ignore-parse-errors'")
		}
	}
	return nil
}

func (d *Decoder) decodeValue(b *changelog.Batch, r *changelog.Record) (whole bool, err error) {
	if r.Value != nil {
		if b.KeepOriginals && d.whole != nil {
			return d.whole.DecodeWhole(b, r.Value, r)
		}
		return false, d.value.DecodePayload(b, r.Value, r)
	}
	if n, ok := d.value.(NullDecoder); ok {
		return false, n.DecodeNull(b, r)
	}
	if d.valueSkips || d.lenient {
		return false, nil
	}
	return false, dataError(changelog.Missing, "value", "", "the record has a null value, and a table of connector 'kafka' holds inserts only; if it is a delete, the table is one for 'upsert-kafka'. Flink would drop the record")
}

// deletes appends a delete for each key.
func (d *Decoder) deletes(b *changelog.Batch, keys []changelog.Change) error {
	for i := range keys {
		row := b.NewRow()
		for k, col := range d.keyColumns {
			row[col] = keys[i].Row[k]
		}
		if err := d.checkKey(row, nil); err != nil {
			return err
		}
		b.Append(changelog.Change{Kind: changelog.Delete, KeyOnly: true, Row: row})
	}
	return nil
}

// nullRows settles the rows from start on that a format handed on as null: what such a row means is up to the connector.
func (d *Decoder) nullRows(b *changelog.Batch, start int, keys []changelog.Change) error {
	null := func(c changelog.Change) bool { return c.Row == nil }
	first := slices.IndexFunc(b.Changes[start:], null)
	if first < 0 {
		return nil
	}
	switch {
	case d.upsert && d.lenient:
		return nil // join makes them deletes
	case d.upsert:
		return dataError(changelog.Malformed, "value", "", "the value is broken, and 'ignore-parse-errors' is on; Flink would delete the row of the key")
	case !d.valueIgnores:
		return dataError(changelog.Missing, "value", "", "the value has a null where a row should be; Flink would fail here too")
	case d.key != nil || len(d.metadata) > 0:
		// Flink's error about the null row ends the message, and the option hides the error.
		b.Truncate(start + first)
	default:
		kept := slices.DeleteFunc(b.Changes[start:], null)
		b.Truncate(start + len(kept))
	}
	return nil
}

// join fills the key columns of the rows from start on. With several keys each row comes once with each of them.
func (d *Decoder) join(b *changelog.Batch, start int, keys []changelog.Change) error {
	switch len(keys) {
	case 0: // the key is not read
		return nil
	case 1:
		for i := start; i < b.Len(); i++ {
			if err := d.joinOne(b, &b.Changes[i], keys[0].Row); err != nil {
				return err
			}
		}
		return nil
	}
	values := slices.Clone(b.Changes[start:])
	if len(values)*len(keys)*len(d.table.Schema.Columns) > maxProduct {
		return dataError(changelog.OutOfRange, "", "", "the key and the value hold so many rows that joining each with each would take far more memory than the record")
	}
	b.Truncate(start)
	for _, v := range values {
		for i := range keys {
			c := v
			if v.Row != nil {
				c.Row = b.NewRow()
				copy(c.Row, v.Row)
			}
			if err := d.joinOne(b, &c, keys[i].Row); err != nil {
				return err
			}
			b.Append(c)
		}
	}
	return nil
}

func (d *Decoder) joinOne(b *changelog.Batch, c *changelog.Change, key changelog.Row) error {
	null := c.Row == nil // only on upsert-kafka: a delete
	if null {
		*c = changelog.Change{Kind: changelog.Delete, KeyOnly: true, Row: b.NewRow()}
	}
	if null || d.keyWins {
		for k, col := range d.keyColumns {
			c.Row[col] = key[k]
		}
		key = nil
	}
	return d.checkKey(c.Row, key)
}

// checkKey reports, on upsert-kafka, a key column that is NULL or is not what the record's key says (key may be nil). A delete finds its row by
// the record's key, so such a row would stay for ever.
func (d *Decoder) checkKey(row, key changelog.Row) error {
	if !d.upsert || d.lenient {
		return nil
	}
	for k, col := range d.keyColumns {
		name := d.table.Schema.Columns[col].Name
		switch {
		case row[col].IsNull() && key != nil && !key[k].IsNull():
			return dataError(changelog.Missing, "value", name, "the value lacks this column of the PRIMARY KEY, and its copy wins over the record's key; if the value never has it, set 'value.fields-include' = 'EXCEPT_KEY'")
		case row[col].IsNull():
			return dataError(changelog.Missing, "key", name, "a column of the PRIMARY KEY is NULL")
		case key != nil && !same(row[col], key[k]):
			return dataError(changelog.Malformed, "value", name, "the value's copy of this column of the PRIMARY KEY is not what the record's key says, so that no delete would find the row")
		}
	}
	return nil
}

// checkRows reports, on 'kafka' with a PRIMARY KEY, which only formats with kinds of change can have, a row that its key does not identify.
func (d *Decoder) checkRows(changes []changelog.Change) error {
	if d.upsert || d.lenient {
		return nil
	}
	for i := range changes {
		for _, col := range d.table.Schema.Key {
			switch v := changes[i].Row[col]; {
			case v.IsNull():
				return dataError(changelog.Missing, "value", d.table.Schema.Columns[col].Name, "a column of the PRIMARY KEY is NULL in a "+changes[i].Kind.String())
			case v.IsUnchanged():
				return dataError(changelog.Missing, "value", d.table.Schema.Columns[col].Name, "a column of the PRIMARY KEY was not sent by the source in a "+changes[i].Kind.String())
			}
		}
	}
	return nil
}

// same reports whether two values of one column are equal as keys are.
func same(a, b changelog.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case changelog.KindBool:
		return a.Bool() == b.Bool()
	case changelog.KindInt:
		return a.Int() == b.Int()
	case changelog.KindFloat:
		x, y := a.Float(), b.Float()
		return x == y || x != x && y != y
	case changelog.KindDouble:
		x, y := a.Double(), b.Double()
		return x == y || x != x && y != y
	case changelog.KindDecimal:
		ah, al, _ := a.Decimal()
		bh, bl, _ := b.Decimal()
		return ah == bh && al == bl
	case changelog.KindString, changelog.KindBytes:
		return string(a.Bytes()) == string(b.Bytes())
	case changelog.KindDate:
		return a.Date() == b.Date()
	case changelog.KindTime:
		return a.Time() == b.Time()
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		as, an := a.Timestamp()
		bs, bn := b.Timestamp()
		return as == bs && an == bn
	case changelog.KindArray, changelog.KindRow:
		return slices.EqualFunc(a.Elems(), b.Elems(), same)
	}
	return true // NULL; a map has no order in which to compare, and is no key
}
