package debezium

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// decoder follows DebeziumJsonDeserializationSchema. It does not change after it was made, but for the envelope's pools.
type decoder struct {
	envelope      *flinkjson.Envelope
	outline       *flinkjson.Outline // rows: before, after; fields: op, then members. nil: messages are read as trees only
	old           *flinkjson.OldRows
	row           *flinkjson.Object // of 'before' and 'after'
	op            *flinkjson.Field
	members       []member
	metadata      []metadata
	placeholder   *placeholder // nil: none is looked for
	schemaInclude bool
	source        *sourceTypes // nil: Flink's own forms only
	ignoreErrors  bool
	truncate      EventPolicy
	messages      EventPolicy
}

// What Flink says when 'before' is null; the setting is that of the table in Postgres.
const (
	noBeforeOfUpdate = `The "before" field of UPDATE message is null, if you are using Debezium Postgres Connector, please check the Postgres table has been set REPLICA IDENTITY to FULL level.`
	noBeforeOfDelete = `The "before" field of DELETE message is null, if you are using Debezium Postgres Connector, please check the Postgres table has been set REPLICA IDENTITY to FULL level.`
)

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, r *changelog.Record) error {
	_, err := d.DecodeWhole(b, payload, r)
	return err
}

// DecodeWhole implements format.WholeDecoder.
func (d *decoder) DecodeWhole(b *changelog.Batch, payload []byte, _ *changelog.Record) (whole bool, err error) {
	tree := func(t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure { return d.tree(b, t, root) }
	if d.outline == nil {
		return false, d.envelope.Read(b, payload, tree)
	}
	return d.envelope.ReadWhole(b, payload, d.outline, func(m *flinkjson.Message) *flinkjson.Failure { return d.plain(b, m) }, tree)
}

// plain appends the changes of a message that was read in one pass. Values that have the placeholder are not among those.
func (d *decoder) plain(b *changelog.Batch, m *flinkjson.Message) *flinkjson.Failure {
	op := m.Values[0]
	switch op.Str() {
	case "c", "r", "u", "d":
	default:
		return flinkjson.Again()
	}
	metadata, f := d.metadataOf(b, m.Values[1:])
	if f != nil {
		return f
	}
	var before, after flinkjson.Image
	if m.Rows[0] != nil {
		before = m.Rows[0][0]
	}
	if m.Rows[1] != nil {
		after = m.Rows[1][0]
	}
	return d.message(b, op, before, after, metadata, true)
}

func (d *decoder) tree(b *changelog.Batch, t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure {
	if f := t.Object(root); f != nil {
		return f
	}
	body := root
	if d.schemaInclude {
		if body = root.Member("payload"); body.IsNull() {
			return flinkjson.Misfit(changelog.Missing, "the message has no 'payload'; if the connector writes no schema, drop 'debezium-json.schema-include'")
		}
		if f := t.Object(body); f != nil {
			return f.At("payload")
		}
	}
	// All of the message is read before its op counts, as in Flink: what cannot be read fails, also where the op has no use for it.
	before, f := d.read(t, root, body, "before")
	if f != nil {
		return f
	}
	after, f := d.read(t, root, body, "after")
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
	case "c", "r", "u", "d":
		return d.message(b, op, before, after, metadata, false)
	case "t":
		return d.truncate.apply(d.unknown(op, root))
	case "m":
		return d.messages.apply(d.unknown(op, root))
	}
	class := changelog.UnknownOp
	if op.IsNull() {
		class = changelog.Missing
	}
	return flinkjson.Misfit(class, d.unknown(op, root))
}

// message appends the changes of a message whose op is one of a row. sent says that no value has the placeholder.
func (d *decoder) message(b *changelog.Batch, op changelog.Value, before, after flinkjson.Image, metadata []changelog.Value, sent bool) *flinkjson.Failure {
	switch op.Str() {
	case "u":
		if before.Row == nil {
			return flinkjson.Misfit(changelog.Missing, noBeforeOfUpdate)
		}
		if after.Row == nil {
			return flinkjson.Misfit(changelog.Missing, "the message is an update, and its 'after' is null")
		}
		if !sent {
			d.unchanged(before, after)
		}
		keyOnly, f := d.old.Settle(before.Row, before.Has)
		if f != nil {
			return f.At("before")
		}
		d.append(b, changelog.Change{Kind: changelog.UpdateBefore, KeyOnly: keyOnly, Row: before.Row}, metadata)
		d.append(b, changelog.Change{Kind: changelog.UpdateAfter, Row: after.Row}, metadata)
	case "d":
		if before.Row == nil {
			return flinkjson.Misfit(changelog.Missing, noBeforeOfDelete)
		}
		keyOnly, f := d.old.Settle(before.Row, before.Has)
		if f != nil {
			return f.At("before")
		}
		d.append(b, changelog.Change{Kind: changelog.Delete, KeyOnly: keyOnly, Row: before.Row}, metadata)
	default: // c and r
		if after.Row == nil {
			return flinkjson.Misfit(changelog.Missing, "the message is an insert, and its 'after' is null")
		}
		if !sent {
			if f := d.insert(after); f != nil {
				return f.At("after")
			}
		}
		d.append(b, changelog.Change{Kind: changelog.Insert, Row: after.Row}, metadata)
	}
	return nil
}

// unknown says what an op is that is none of a row.
func (d *decoder) unknown(op changelog.Value, root *flinkjson.Node) string {
	switch {
	case op.IsNull() && !d.schemaInclude && !root.Member("payload").IsNull():
		return "the message has no 'op', and it has a 'payload'; set 'debezium-json.schema-include' = 'true'"
	case op.IsNull() && !root.Member("status").IsNull() && !root.Member("id").IsNull():
		return "the message is the begin or the end of a transaction, which is no row; Debezium has a topic of its own for these: take it off the table's topics"
	case op.IsNull():
		return "the message has no 'op'; is it one of Debezium?"
	case op.Str() == "t":
		return "'op' is 't': the source's table was truncated, and a changelog has no such kind"
	case op.Str() == "m":
		return "'op' is 'm': a message in the source's log, which is no row"
	}
	return "'op' is none of c, r, u and d"
}

// read reads 'before' or 'after'.
func (d *decoder) read(t *flinkjson.Tree, root, body *flinkjson.Node, name string) (flinkjson.Image, *flinkjson.Failure) {
	m := flinkjson.Image{Has: make([]bool, len(d.old.Columns))}
	var f, odd *flinkjson.Failure
	var schema []semantic
	if d.source != nil && d.schemaInclude {
		schema = d.source.schemaOf(root, name)
	}
	m.Row, f = t.Row(d.row, body.Member(name), func(column int, n *flinkjson.Node, dst *changelog.Value) bool {
		m.Has[column] = n != nil
		if n != nil && d.placeholder != nil && d.placeholder.is(n) {
			*dst = changelog.UnchangedValue()
			return true
		}
		if n != nil && d.source != nil && !n.IsNull() {
			taken, bad := d.source.value(column, n, schema, dst)
			if bad != nil && !d.ignoreErrors && odd == nil {
				odd = bad.At(d.old.Names[column])
			}
			return taken
		}
		return false
	})
	if f == nil {
		f = odd
	}
	if f != nil {
		f = f.At(name)
	}
	return m, f
}

// insert reports a new row that has the placeholder: there is no older value that it could mean.
func (d *decoder) insert(after flinkjson.Image) *flinkjson.Failure {
	for i, col := range d.old.Columns {
		if after.Row[col].IsUnchanged() {
			return flinkjson.Refuse(changelog.Missing, "the row is new, and the source did not send this value (it has the placeholder of unavailable values)").At(d.old.Names[i])
		}
	}
	return nil
}

// unchanged settles the values of an update that the source did not send. What 'before' says of such a column is its value, with one
// exception: a value that is left out for its size is not NULL, so NULL means there that 'before' does not have it either (a Postgres table
// whose REPLICA IDENTITY is not FULL).
func (d *decoder) unchanged(before, after flinkjson.Image) {
	for _, col := range d.old.Columns {
		if !after.Row[col].IsUnchanged() {
			continue
		}
		if before.Row[col].IsNull() {
			before.Row[col] = changelog.UnchangedValue()
		}
		after.Row[col] = before.Row[col]
	}
}

// append adds a change with its metadata, which is the same for both rows of an update.
func (d *decoder) append(b *changelog.Batch, c changelog.Change, metadata []changelog.Value) {
	for i := range d.metadata {
		c.Row[d.metadata[i].column] = metadata[i]
	}
	b.Append(c)
}
