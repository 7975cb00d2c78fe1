package ogg

import (
	"bytes"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// decoder follows OggJsonDeserializationSchema. It does not change after it was made, but for the envelope's pools.
type decoder struct {
	envelope *flinkjson.Envelope
	outline  *flinkjson.Outline // rows: before, after
	metadata *flinkjson.Metadata
	old      *flinkjson.OldRows
	whole    bool // what 'after' lacks is NULL
}

// What Flink says when 'before' is null.
const (
	noBeforeOfUpdate = `The "before" field of UPDATE message is null, if you are using Ogg Postgres Connector, please check the Postgres table has been set REPLICA IDENTITY to FULL level.`
	noBeforeOfDelete = `The "before" field of DELETE message is null, if you are using Ogg Postgres Connector, please check the Postgres table has been set REPLICA IDENTITY to FULL level.`
)

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, r *changelog.Record) error {
	_, err := d.DecodeWhole(b, payload, r)
	return err
}

// DecodeWhole implements format.WholeDecoder.
func (d *decoder) DecodeWhole(b *changelog.Batch, payload []byte, _ *changelog.Record) (whole bool, err error) {
	if !d.whole && bytes.Contains(payload, []byte(missingFlag+`"`)) {
		return false, d.envelope.Read(b, payload, func(t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure { return d.flagged(b, t, root) })
	}
	return d.envelope.ReadWhole(b, payload, d.outline,
		func(m *flinkjson.Message) *flinkjson.Failure { return d.message(b, m) },
		func(t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure { return d.tree(b, t, root) })
}

func (d *decoder) tree(b *changelog.Batch, t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure {
	m, f := t.Message(d.outline, root)
	if f != nil {
		return f
	}
	return d.message(b, m)
}

// missingFlag ends the name of a member that says of another one whether it was sent: GoldenGate's JSON formatter can write a flag NAME_isMissing
// for each column, beside a null that stands for what is missing.
const missingFlag = "_isMissing"

// flagged reads a message that has flags of missing columns. Flink takes no notice of them: there, a value that was not sent is NULL.
func (d *decoder) flagged(b *changelog.Batch, t *flinkjson.Tree, root *flinkjson.Node) *flinkjson.Failure {
	m, f := t.Message(d.outline, root)
	if f != nil {
		return f
	}
	for k, name := range []string{"before", "after"} {
		image := root.Member(name)
		if image == nil || len(m.Rows[k]) == 0 || m.Rows[k][0].Row == nil {
			continue
		}
		for i, column := range d.old.Names {
			if flag := image.Member(column + missingFlag); flag != nil && flag.Kind() == flinkjson.NodeTrue {
				m.Rows[k][0].Has[i] = false
				m.Rows[k][0].Row[d.old.Columns[i]] = changelog.Value{}
			}
		}
	}
	return d.message(b, m)
}

func (d *decoder) message(b *changelog.Batch, m *flinkjson.Message) *flinkjson.Failure {
	metadata, f := d.metadata.Read(b, m)
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
	switch op := m.Value("op_type"); op.Str() {
	case "I":
		if after.Row == nil {
			return flinkjson.Misfit(changelog.Missing, "the message is an insert, and its 'after' is null")
		}
		d.append(b, changelog.Change{Kind: changelog.Insert, Row: after.Row}, metadata)
	case "U":
		if before.Row == nil {
			return flinkjson.Misfit(changelog.Missing, noBeforeOfUpdate)
		}
		if after.Row == nil {
			return flinkjson.Misfit(changelog.Missing, "the message is an update, and its 'after' is null")
		}
		if f := d.complete(before, after); f != nil {
			return f
		}
		keyOnly, f := d.old.Settle(before.Row, before.Has)
		if f != nil {
			return f.At("before")
		}
		d.append(b, changelog.Change{Kind: changelog.UpdateBefore, KeyOnly: keyOnly, Row: before.Row}, metadata)
		d.append(b, changelog.Change{Kind: changelog.UpdateAfter, Row: after.Row}, metadata)
	case "D":
		if before.Row == nil {
			return flinkjson.Misfit(changelog.Missing, noBeforeOfDelete)
		}
		keyOnly, f := d.old.Settle(before.Row, before.Has)
		if f != nil {
			return f.At("before")
		}
		d.append(b, changelog.Change{Kind: changelog.Delete, KeyOnly: keyOnly, Row: before.Row}, metadata)
	case "T":
		return flinkjson.Misfit(changelog.UnknownOp, "'op_type' is T: the source's table was truncated, and a changelog has no such kind")
	default:
		if op.IsNull() {
			return flinkjson.Misfit(changelog.Missing, "the message has no 'op_type'; is it one of GoldenGate?")
		}
		return flinkjson.Misfit(changelog.UnknownOp, "'op_type' is none of I, U and D")
	}
	return nil
}

// complete settles the columns of an update that 'after' lacks: they are what they were.
func (d *decoder) complete(before, after flinkjson.Image) *flinkjson.Failure {
	if d.whole {
		return nil
	}
	for c, col := range d.old.Columns {
		switch {
		case after.Has[c]:
		case !d.old.Keyed:
			return flinkjson.Refuse(changelog.Missing, "the new row lacks this column, and Flink would read NULL; let the writer send new rows whole, or declare the PRIMARY KEY; "+
				"if it leaves NULLs out, set 'ogg-json.encode.ignore-null-fields' = 'true'").At(d.old.Names[c]).At("after")
		case before.Has[c]:
			after.Row[col] = before.Row[col]
		default:
			after.Row[col] = changelog.UnchangedValue()
		}
	}
	return nil
}

func (d *decoder) append(b *changelog.Batch, c changelog.Change, metadata []changelog.Value) {
	d.metadata.Set(c.Row, metadata)
	b.Append(c)
}
