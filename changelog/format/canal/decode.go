package canal

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// decoder follows CanalJsonDeserializationSchema. It does not change after it was made, but for the envelope's pools.
type decoder struct {
	envelope        *flinkjson.Envelope
	outline         *flinkjson.Outline // rows: data, old
	row             *flinkjson.Object
	metadata        *flinkjson.Metadata
	old             *flinkjson.OldRows
	database, table include
	lenient         bool
	ignoreErrors    bool
	skipDDL         bool
}

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, r *changelog.Record) error {
	_, err := d.DecodeWhole(b, payload, r)
	return err
}

// DecodeWhole implements format.WholeDecoder.
func (d *decoder) DecodeWhole(b *changelog.Batch, payload []byte, _ *changelog.Record) (whole bool, err error) {
	return d.envelope.ReadWhole(b, payload, d.outline,
		func(m *flinkjson.Message) *flinkjson.Failure { return d.plain(b, m) },
		func(t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure { return d.tree(b, t, root) })
}

func (d *decoder) plain(b *changelog.Batch, m *flinkjson.Message) *flinkjson.Failure {
	for _, i := range [...]*include{&d.database, &d.table} {
		if i.re == nil {
			continue
		}
		name := "null" // what JsonNode.asText says of null
		if v := m.Value(i.member); !v.IsNull() {
			name = v.Str()
		}
		if ok, f := i.matches(name, m.Has(i.member)); !ok {
			return f
		}
	}
	return d.message(b, m, nil)
}

func (d *decoder) tree(b *changelog.Batch, t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure {
	if f := t.Object(root); f != nil {
		return f
	}
	// What is not included is skipped whatever its rows are.
	for _, i := range [...]*include{&d.database, &d.table} {
		if i.re == nil {
			continue
		}
		name, has := root.Member(i.member).AsText()
		if ok, f := i.matches(name, has); !ok {
			return f
		}
	}
	m, f := t.Message(d.outline, root)
	if f != nil {
		return f
	}
	return d.message(b, m, root.Member("old"))
}

// matches reports whether the message is to be read; if not, f says that it is no fault, or is one.
func (i *include) matches(name string, has bool) (ok bool, f *flinkjson.Failure) {
	if !has {
		return false, flinkjson.Misfit(changelog.Missing, "the member is missing, and '"+i.member+".include' picks messages by it").At(i.member)
	}
	return i.re.MatchString(name), nil
}

// message appends the changes of m. old is the member of that name where the message was read as a tree.
func (d *decoder) message(b *changelog.Batch, m *flinkjson.Message, old *flinkjson.Node) *flinkjson.Failure {
	metadata, f := d.metadata.Read(b, m)
	if f != nil {
		return f
	}
	data := m.Rows[0]
	switch typ := m.Value("type").Str(); typ {
	case "INSERT":
		if data == nil {
			return flinkjson.Misfit(changelog.Missing, "'data' is null")
		}
		for i := range data {
			if data[i].Row == nil {
				return d.broken(i, "a row of 'data' is null")
			}
			d.append(b, changelog.Change{Kind: changelog.Insert, Row: data[i].Row}, metadata)
		}
	case "UPDATE":
		return d.update(b, m, old, metadata)
	case "DELETE":
		if data == nil {
			return flinkjson.Misfit(changelog.Missing, "'data' is null")
		}
		for i := range data {
			if data[i].Row == nil {
				return d.broken(i, "a row of 'data' is null")
			}
			keyOnly, f := d.old.Settle(data[i].Row, data[i].Has)
			if f != nil {
				return f.AtElement(i).At("data")
			}
			d.append(b, changelog.Change{Kind: changelog.Delete, KeyOnly: keyOnly, Row: data[i].Row}, metadata)
		}
	case "CREATE":
	default:
		return d.unknown(m.Value("type"))
	}
	return nil
}

func (d *decoder) update(b *changelog.Batch, m *flinkjson.Message, old *flinkjson.Node, metadata []changelog.Value) *flinkjson.Failure {
	data, olds := m.Rows[0], m.Rows[1]
	switch {
	case data == nil:
		return flinkjson.Misfit(changelog.Missing, "'data' is null")
	case len(data) == 0:
		return nil
	case olds == nil:
		return flinkjson.Misfit(changelog.Missing, "the message is an update, and its 'old' is null")
	}
	var named []bool
	if !d.old.Keyed || d.lenient {
		named = d.named(olds, old)
	}
	for i := range data {
		if i >= len(olds) {
			return d.broken(i, "'old' has fewer rows than 'data'")
		}
		before, after := olds[i], data[i]
		if before.Row == nil || after.Row == nil {
			return d.broken(i, "a row of 'old' or 'data' is null")
		}
		for c, col := range d.old.Columns {
			changed := before.Has != nil && before.Has[c]
			if named != nil {
				changed = named[c]
			}
			if !changed && before.Row[col].IsNull() {
				before.Row[col] = after.Row[col]
			}
			// A column that only 'data' has did not change, and so was sent; also where Flink, and with it the above, reads NULL.
			before.Has[c] = before.Has[c] || after.Has[c]
		}
		keyOnly, f := d.old.Settle(before.Row, before.Has)
		if f != nil {
			return f.AtElement(i).At("old")
		}
		d.append(b, changelog.Change{Kind: changelog.UpdateBefore, KeyOnly: keyOnly, Row: before.Row}, metadata)
		d.append(b, changelog.Change{Kind: changelog.UpdateAfter, Row: after.Row}, metadata)
	}
	return nil
}

// named reports which columns Flink takes for changed in all rows: those whose names are somewhere in 'old'.
func (d *decoder) named(olds []flinkjson.Image, old *flinkjson.Node) []bool {
	if old == nil && len(olds) == 1 {
		return olds[0].Has // update notes in it what it has settled only
	}
	named := make([]bool, len(d.old.Columns))
	if old != nil {
		d.row.Named(old, named)
		return named
	}
	for i := range olds {
		for c, has := range olds[i].Has {
			named[c] = named[c] || has
		}
	}
	return named
}

// broken says that row i of a message is none. With 'ignore-parse-errors' Flink hands on the rows before it.
func (d *decoder) broken(i int, reason string) *flinkjson.Failure {
	if i > 0 && d.ignoreErrors && !d.lenient {
		return flinkjson.Refuse(changelog.Missing, reason+"; Flink would read the rows before it and drop the others").AtElement(i)
	}
	return flinkjson.Misfit(changelog.Missing, reason).AtElement(i)
}

// unknown says what a type is that is none of rows, or nil where it may be passed over.
func (d *decoder) unknown(typ changelog.Value) *flinkjson.Failure {
	switch typ.Str() {
	case "ALTER", "QUERY", "RENAME", "CINDEX", "DINDEX":
		if d.skipDDL {
			return nil
		}
		return flinkjson.Misfit(changelog.UnknownOp, "'type' is "+typ.Str()+": the message is about definitions and has no rows; canal.Format.SkipDDL passes over it")
	case "TRUNCATE", "ERASE":
		return flinkjson.Misfit(changelog.UnknownOp, "'type' is "+typ.Str()+": the source's table lost all of its rows, and a changelog has no such kind")
	}
	if typ.IsNull() {
		return flinkjson.Misfit(changelog.Missing, "the message has no 'type'; is it one of Canal?")
	}
	return flinkjson.Misfit(changelog.UnknownOp, "'type' is none of INSERT, UPDATE, DELETE and CREATE")
}

func (d *decoder) append(b *changelog.Batch, c changelog.Change, metadata []changelog.Value) {
	d.metadata.Set(c.Row, metadata)
	b.Append(c)
}
