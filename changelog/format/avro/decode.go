package avro

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
)

// failure is why a message cannot be read, or a row not be written.
type failure = flinkavro.Failure

// decoder follows AvroRowDataDeserializationSchema, whose writer's schema and reader's schema are both that of the table. It does not change
// after it was made.
type decoder struct {
	columns []column
	lenient bool
}

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, _ *changelog.Record) error {
	r := flinkavro.NewReader(b, payload, d.lenient)
	row := b.NewRow()
	for i := range d.columns {
		c := &d.columns[i]
		if f := r.Value(&c.plan, &row[c.slot]); f != nil {
			return f.At(c.name).Err()
		}
	}
	if f := r.End(); f != nil {
		return f.Err()
	}
	b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
	return nil
}
