package avro

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// encoder follows AvroRowDataSerializationSchema and Avro's BinaryEncoder. It does not change after it was made.
type encoder struct {
	columns []column
	w       flinkavro.Writer
}

// AppendPayload implements [changelog.PayloadEncoder]. The payload is the row whatever the change's kind; it is never null.
func (e *encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	out = dst
	for i := range e.columns {
		col := &e.columns[i]
		f := flinkjson.Misfit(changelog.SchemaMismatch, "the row does not have this column")
		if col.slot < len(c.Row) {
			out, f = e.w.Value(out, &col.plan, c.Row[col.slot])
		}
		if f != nil {
			return dst, false, f.At(col.name).Err()
		}
	}
	return out, false, nil
}
