package maxwell

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// decoder follows MaxwellJsonDeserializationSchema. It does not change after it was made, but for the envelope's pools.
type decoder struct {
	Format
	envelope *flinkjson.Envelope
	outline  *flinkjson.Outline // rows: data, old
	row      *flinkjson.Object
	metadata *flinkjson.Metadata
	old      *flinkjson.OldRows
	lenient  bool
}

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, r *changelog.Record) error {
	_, err := d.DecodeWhole(b, payload, r)
	return err
}

// DecodeWhole implements format.WholeDecoder.
func (d *decoder) DecodeWhole(b *changelog.Batch, payload []byte, _ *changelog.Record) (whole bool, err error) {
	return d.envelope.ReadWhole(b, payload, d.outline,
		func(m *flinkjson.Message) *flinkjson.Failure { return d.message(b, m, nil) },
		func(t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure { return d.tree(b, t, root) })
}

func (d *decoder) tree(b *changelog.Batch, t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure {
	m, f := t.Message(d.outline, root)
	if f != nil {
		return f
	}
	return d.message(b, m, root.Member("old"))
}

// message appends the changes of m. old is the member of that name where the message was read as a tree.
func (d *decoder) message(b *changelog.Batch, m *flinkjson.Message, old *flinkjson.Node) *flinkjson.Failure {
	metadata, f := d.metadata.Read(b, m)
	if f != nil {
		return f
	}
	typ := m.Value("type")
	switch typ.Str() {
	case "insert", "update", "delete":
	case "bootstrap-insert":
		if !d.Bootstrap {
			return d.unknown(typ)
		}
	default:
		return d.unknown(typ)
	}
	if m.Rows[0] == nil {
		return flinkjson.Misfit(changelog.Missing, "'data' is null")
	}
	data := m.Rows[0][0]
	switch typ.Str() {
	case "update":
		if m.Rows[1] == nil {
			return flinkjson.Misfit(changelog.Missing, "the message is an update, and its 'old' is null")
		}
		before := m.Rows[1][0]
		keyOnly, f := d.complete(before, data, old)
		if f != nil {
			return f.At("old")
		}
		d.append(b, changelog.Change{Kind: changelog.UpdateBefore, KeyOnly: keyOnly, Row: before.Row}, metadata)
		d.append(b, changelog.Change{Kind: changelog.UpdateAfter, Row: data.Row}, metadata)
	case "delete":
		keyOnly, f := d.old.Settle(data.Row, data.Has)
		if f != nil {
			return f.At("data")
		}
		d.append(b, changelog.Change{Kind: changelog.Delete, KeyOnly: keyOnly, Row: data.Row}, metadata)
	default:
		d.append(b, changelog.Change{Kind: changelog.Insert, Row: data.Row}, metadata)
	}
	return nil
}

// complete gives the old row the columns that did not change.
func (d *decoder) complete(before, after flinkjson.Image, old *flinkjson.Node) (keyOnly bool, f *flinkjson.Failure) {
	changed := before.Has
	if old != nil && (!d.old.Keyed || d.lenient) {
		changed = make([]bool, len(d.old.Columns))
		d.row.Named(old, changed)
	}
	for c, col := range d.old.Columns {
		if !changed[c] && before.Row[col].IsNull() {
			before.Row[col] = after.Row[col]
		}
		before.Has[c] = before.Has[c] || after.Has[c]
	}
	return d.old.Settle(before.Row, before.Has)
}

// unknown says what a type is that is none of rows, or nil where it may be passed over.
func (d *decoder) unknown(typ changelog.Value) *flinkjson.Failure {
	switch name := typ.Str(); name {
	case "bootstrap-start", "bootstrap-insert", "bootstrap-complete":
		if d.Bootstrap {
			return nil // start and complete, which have no row
		}
		return flinkjson.Misfit(changelog.UnknownOp, "'type' is "+name+": Maxwell sends the rows that the table has already; maxwell.Format.Bootstrap reads them")
	case "table-create", "table-alter", "database-create", "database-alter", "database-drop":
		if d.SkipDDL {
			return nil
		}
		return flinkjson.Misfit(changelog.UnknownOp, "'type' is "+name+": the message is about definitions and has no rows; maxwell.Format.SkipDDL passes over it")
	case "table-drop":
		return flinkjson.Misfit(changelog.UnknownOp, "'type' is table-drop: the source's table lost all of its rows, and a changelog has no such kind")
	}
	if typ.IsNull() {
		return flinkjson.Misfit(changelog.Missing, "the message has no 'type'; is it one of Maxwell?")
	}
	return flinkjson.Misfit(changelog.UnknownOp, "'type' is none of insert, update and delete")
}

func (d *decoder) append(b *changelog.Batch, c changelog.Change, metadata []changelog.Value) {
	d.metadata.Set(c.Row, metadata)
	b.Append(c)
}
