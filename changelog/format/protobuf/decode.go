package protobuf

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// decoder follows PbRowDataDeserializationSchema and what protobuf-java's generated code parses. It does not change after it was made.
type decoder struct {
	root         *message
	ignoreErrors bool
	lenient      bool
}

// Values that a row may take beyond the size of its message: an empty message is two bytes, and a ROW of its defaults may be many values.
const (
	roomFloor   = 1 << 20
	roomPerByte = 8
)

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, _ *changelog.Record) error {
	r := reader{b: b, lenient: d.lenient, room: roomFloor + roomPerByte*len(payload)}
	row := b.NewRow()
	switch f := r.message(d.root, payload, row, 0, true); {
	case f == nil:
		b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
		return nil
	case d.ignoreErrors && !f.Final():
		return nil
	default:
		return f.Err()
	}
}

// DecodeNull says what becomes of Kafka's null, which Flink tries to parse: see format.NullDecoder.
func (d *decoder) DecodeNull(*changelog.Batch, *changelog.Record) error {
	if d.ignoreErrors {
		return nil
	}
	return &changelog.DataError{Class: changelog.Missing, Reason: "a null, where a message has to be; if it is a delete, the table is one for 'upsert-kafka'"}
}

// reader reads one message and those inside of it.
type reader struct {
	b       *changelog.Batch
	room    int    // values that the row may still take
	marks   []mark // a stack: those of the message that is read, on those of the messages around it
	lenient bool
	dropped bool // the entry of a map had an enum's number that proto2 puts aside with its entry
}

// mark is what is known of a column while its message is read.
type mark struct {
	n    int    // occurrences of a field; of a list or map, how many elements it may have at most
	body []byte // the last occurrence of a message
	gone bool   // another member of its oneof came after it
}

// guess returns a failure, or nil when lenient.
func (r *reader) guess(class changelog.DataClass, reason string) *failure {
	if r.lenient {
		return nil
	}
	return flinkjson.Refuse(class, reason)
}

// take counts n values against the bound.
func (r *reader) take(n int) *failure {
	if r.room -= n; r.room < 0 {
		return flinkjson.Refuse(changelog.OutOfRange, "the row would take far more memory than the message; is it meant for this table?")
	}
	return nil
}
