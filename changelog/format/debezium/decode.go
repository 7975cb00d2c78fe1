package debezium

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// decoder follows DebeziumJsonDeserializationSchema. It does not change after it was made, but for the envelope's pool.
type decoder struct {
	envelope      *flinkjson.Envelope
	row           *flinkjson.Object // of 'before' and 'after'
	op            *flinkjson.Field
	members       []member
	metadata      []metadata
	placeholder   *placeholder // nil: none is looked for
	schemaInclude bool
	lenient       bool
	nullsLeftOut  bool // the writer leaves members out that are NULL
	keyed         bool // the table has a PRIMARY KEY

	// Of the payload's columns: where they are in the table, their names, and whether they are in the PRIMARY KEY.
	columns []int
	names   []string
	isKey   []bool
}

// What Flink says when 'before' is null; the setting is that of the table in Postgres.
const (
	noBeforeOfUpdate = `The "before" field of UPDATE message is null, if you are using Debezium Postgres Connector, please check the Postgres table has been set REPLICA IDENTITY to FULL level.`
	noBeforeOfDelete = `The "before" field of DELETE message is null, if you are using Debezium Postgres Connector, please check the Postgres table has been set REPLICA IDENTITY to FULL level.`
)

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, _ *changelog.Record) error {
	return d.envelope.Read(b, payload, func(t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure {
		return d.message(b, t, root)
	})
}

func (d *decoder) message(b *changelog.Batch, t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure {
	if f := t.Object(root); f != nil {
		return f
	}
	body := root
	if d.schemaInclude {
		if body = root.Member("payload"); body.IsNull() {
			return flinkjson.Misfit("the message has no 'payload'; if the connector writes no schema, drop 'debezium-json.schema-include'")
		}
		if f := t.Object(body); f != nil {
			return f.At("payload")
		}
	}
	// All of the message is read before its op counts, as in Flink: what cannot be read fails, also where the op has no use for it.
	before, f := d.read(t, body, "before")
	if f != nil {
		return f
	}
	after, f := d.read(t, body, "after")
	if f != nil {
		return f
	}
	op, f := t.Value(d.op, body)
	if f != nil {
		return f
	}
	metadata, f := d.readMetadata(b, t, root, body)
	if f != nil {
		return f
	}
	switch op.Str() {
	case "c", "r":
		if after.row == nil {
			return flinkjson.Misfit("the message is an insert, and its 'after' is null")
		}
		if f := d.insert(&after); f != nil {
			return f
		}
		d.append(b, changelog.Change{Kind: changelog.Insert, Row: after.row}, metadata)
	case "u":
		if before.row == nil {
			return flinkjson.Misfit(noBeforeOfUpdate)
		}
		if after.row == nil {
			return flinkjson.Misfit("the message is an update, and its 'after' is null")
		}
		d.unchanged(&before, &after)
		keyOnly, f := d.partial(&before)
		if f != nil {
			return f
		}
		d.append(b, changelog.Change{Kind: changelog.UpdateBefore, KeyOnly: keyOnly, Row: before.row}, metadata)
		d.append(b, changelog.Change{Kind: changelog.UpdateAfter, Row: after.row}, metadata)
	case "d":
		if before.row == nil {
			return flinkjson.Misfit(noBeforeOfDelete)
		}
		keyOnly, f := d.partial(&before)
		if f != nil {
			return f
		}
		d.append(b, changelog.Change{Kind: changelog.Delete, KeyOnly: keyOnly, Row: before.row}, metadata)
	default:
		return flinkjson.Misfit(d.unknown(op, root))
	}
	return nil
}

// unknown says what an op is that is none of a row.
func (d *decoder) unknown(op changelog.Value, root *flinkjson.Node) string {
	switch {
	case op.IsNull() && !d.schemaInclude && !root.Member("payload").IsNull():
		return "the message has no 'op', and it has a 'payload'; set 'debezium-json.schema-include' = 'true'"
	case op.IsNull():
		return "the message has no 'op'; is it one of Debezium?"
	case op.Str() == "t":
		return "'op' is 't': the source's table was truncated, and a changelog has no such kind"
	case op.Str() == "m":
		return "'op' is 'm': a message in the source's log, which is no row"
	}
	return "'op' is none of c, r, u and d"
}

// image is 'before' or 'after'.
type image struct {
	name    string
	row     changelog.Row // nil: null
	missing []bool        // by column of the payload: the member is not there; nil: all are
}

func (d *decoder) read(t *flinkjson.Tree, body *flinkjson.Node, name string) (image, *flinkjson.Failure) {
	m := image{name: name}
	var f *flinkjson.Failure
	m.row, f = t.Row(d.row, body.Member(name), func(column int, n *flinkjson.Node, dst *changelog.Value) bool {
		switch {
		case n == nil:
			if m.missing == nil {
				m.missing = make([]bool, len(d.columns))
			}
			m.missing[column] = true
			return true
		case d.placeholder != nil && d.placeholder.is(n):
			*dst = changelog.UnchangedValue()
			return true
		}
		return false
	})
	if f != nil {
		f = f.At(name)
	}
	return m, f
}

// insert reports a new row that has the placeholder: there is no older value that it could mean.
func (d *decoder) insert(after *image) *flinkjson.Failure {
	for i, col := range d.columns {
		if after.row[col].IsUnchanged() {
			return flinkjson.Refuse("the row is new, and the source did not send this value (it has the placeholder of unavailable values)").At(d.names[i]).At(after.name)
		}
	}
	return nil
}

// unchanged settles the values of an update that the source did not send. What 'before' says of such a column is its value, with one
// exception: a value that is left out for its size is not NULL, so NULL means there that 'before' does not have it either (a Postgres table
// whose REPLICA IDENTITY is not FULL).
func (d *decoder) unchanged(before, after *image) {
	for _, col := range d.columns {
		if !after.row[col].IsUnchanged() {
			continue
		}
		if before.row[col].IsNull() {
			before.row[col] = changelog.UnchangedValue()
		}
		after.row[col] = before.row[col]
	}
}

// partial settles the columns that 'before' does not have. With a PRIMARY KEY the row is found without them; without one an equal row is
// looked for, and there is none that is NULL there. keyOnly reports that nothing but the key is known.
func (d *decoder) partial(before *image) (keyOnly bool, f *flinkjson.Failure) {
	if before.missing == nil || d.nullsLeftOut || d.lenient {
		return false, nil
	}
	others, lacking := 0, 0
	for i, missing := range before.missing {
		if !d.isKey[i] {
			others++
		}
		if !missing {
			continue
		}
		if !d.keyed {
			return false, flinkjson.Refuse("the old row lacks this column, and without it a table without PRIMARY KEY has no row to delete; " +
				"send old rows whole (in Postgres REPLICA IDENTITY FULL), or declare the PRIMARY KEY; if the writer leaves NULLs out, set 'debezium-json.encode.ignore-null-fields' = 'true'").At(d.names[i]).At(before.name)
		}
		before.row[d.columns[i]] = changelog.UnchangedValue()
		if !d.isKey[i] {
			lacking++
		}
	}
	if lacking == 0 || lacking < others {
		return false, nil
	}
	for i, col := range d.columns {
		if !d.isKey[i] {
			before.row[col] = changelog.Value{}
		}
	}
	return true, nil
}

// append adds a change with its metadata, which is the same for both rows of an update.
func (d *decoder) append(b *changelog.Batch, c changelog.Change, metadata []changelog.Value) {
	for i := range d.metadata {
		c.Row[d.metadata[i].column] = metadata[i]
	}
	b.Append(c)
}
