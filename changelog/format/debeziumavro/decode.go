package debeziumavro

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
	"github.com/flinksink/flinksink/changelog/format/internal/registry"
)

// decoder follows DebeziumAvroDeserializationSchema. But for the codec's cache it does not change after it was made.
type decoder struct {
	codec       *registry.Codec
	columns     []int // of the table, by field of 'before' and 'after'
	names       []string
	placeholder string // "": none is looked for
	lenient     bool
}

// What Flink says when 'before' is null; the setting is that of the table in Postgres.
const (
	noBeforeOfUpdate = `The "before" field of UPDATE message is null, if you are using Debezium Postgres Connector, please check the Postgres table has been set REPLICA IDENTITY to FULL level.`
	noBeforeOfDelete = `The "before" field of DELETE message is null, if you are using Debezium Postgres Connector, please check the Postgres table has been set REPLICA IDENTITY to FULL level.`
)

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, _ *changelog.Record) error {
	if len(payload) == 0 && d.lenient {
		return nil
	}
	step, datum, err := d.codec.Read(payload)
	if err != nil {
		return err
	}
	if f := d.datum(b, step, datum); f != nil {
		return f.Err()
	}
	return nil
}

func (d *decoder) datum(b *changelog.Batch, step *flinkavro.Step, datum []byte) *flinkavro.Failure {
	r := flinkavro.NewReader(b, datum, d.lenient)
	var envelope [envelopeFields]changelog.Value
	null, f := r.Row(step, envelope[:], nil)
	switch {
	case f != nil:
		return f
	case null:
		return flinkjson.Misfit(changelog.Missing, "the message is null inside of Avro, and not an envelope")
	}
	if f := r.End(); f != nil {
		return f
	}
	// All of the message is read before its op counts, as in Flink.
	old, f := d.row(b, &envelope[before], "before")
	if f != nil {
		return f
	}
	row, f := d.row(b, &envelope[after], "after")
	if f != nil {
		return f
	}
	return d.changes(b, envelope[op].Str(), old, row)
}

func (d *decoder) changes(b *changelog.Batch, op string, old, row changelog.Row) *flinkavro.Failure {
	switch op {
	case "c", "r":
		if row == nil {
			return flinkjson.Misfit(changelog.Missing, "the message is an insert, and its 'after' is null")
		}
		for i, col := range d.columns {
			if row[col].IsUnchanged() {
				return flinkjson.Refuse(changelog.Missing, "the row is new, and the source did not send this value (it has the placeholder of unavailable values)").At(d.names[i]).At("after")
			}
		}
		b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
	case "u":
		if old == nil {
			return flinkjson.Misfit(changelog.Missing, noBeforeOfUpdate)
		}
		if row == nil {
			return flinkjson.Misfit(changelog.Missing, "the message is an update, and its 'after' is null")
		}
		d.unchanged(old, row)
		b.Append(changelog.Change{Kind: changelog.UpdateBefore, Row: old})
		b.Append(changelog.Change{Kind: changelog.UpdateAfter, Row: row})
	case "d":
		if old == nil {
			return flinkjson.Misfit(changelog.Missing, noBeforeOfDelete)
		}
		b.Append(changelog.Change{Kind: changelog.Delete, Row: old})
	case "":
		return flinkjson.Misfit(changelog.Missing, "the message has no 'op'; is it one of Debezium?")
	case "t":
		return flinkjson.Misfit(changelog.UnknownOp, "'op' is 't': the source's table was truncated, and a changelog has no such kind")
	case "m":
		return flinkjson.Misfit(changelog.UnknownOp, "'op' is 'm': a message in the source's log, which is no row")
	default:
		return flinkjson.Misfit(changelog.UnknownOp, "'op' is none of c, r, u and d")
	}
	return nil
}

// row makes a row of the table of 'before' or 'after'; nil for null.
func (d *decoder) row(b *changelog.Batch, v *changelog.Value, name string) (changelog.Row, *flinkavro.Failure) {
	if v.IsNull() {
		return nil, nil
	}
	fields := v.Elems()
	row := changelog.Row(fields)
	if !d.whole(b.Table) {
		row = b.NewRow()
		for i, col := range d.columns {
			row[col] = fields[i]
		}
	}
	if d.placeholder == "" {
		return row, nil
	}
	for _, col := range d.columns {
		if d.unavailable(row[col]) {
			row[col] = changelog.UnchangedValue()
		}
	}
	return row, nil
}

// whole reports that the payload's columns are those of the table, in their order, so that the row that was read is one of the table.
func (d *decoder) whole(t *changelog.Table) bool {
	if len(d.columns) != len(t.Schema.Columns) {
		return false
	}
	for i, col := range d.columns {
		if i != col {
			return false
		}
	}
	return true
}

// unavailable reports the placeholder: text, bytes, or alone in an array or a map.
func (d *decoder) unavailable(v changelog.Value) bool {
	switch v.Kind() {
	case changelog.KindString, changelog.KindBytes:
		return string(v.Bytes()) == d.placeholder
	case changelog.KindArray:
		return len(v.Elems()) == 1 && d.unavailable(v.Elems()[0])
	case changelog.KindMap:
		return len(v.Elems()) == 2 && d.unavailable(v.Elems()[0])
	}
	return false
}

// unchanged settles the values of an update that the source did not send. What 'before' says of such a column is its value, with one
// exception: a value that is left out for its size is not NULL, so NULL means there that 'before' does not have it either (a Postgres table
// whose REPLICA IDENTITY is not FULL).
func (d *decoder) unchanged(old, row changelog.Row) {
	for _, col := range d.columns {
		if !row[col].IsUnchanged() {
			continue
		}
		if old[col].IsNull() {
			old[col] = changelog.UnchangedValue()
		}
		row[col] = old[col]
	}
}
