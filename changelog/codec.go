package changelog

import (
	"errors"
	"fmt"
)

// Record is one Kafka record as far as changes can depend on it. Key and Value: nil is null (a null value is a tombstone),
// a slice of length zero is an empty one. These are different things.
type Record struct {
	Partition
	Offset        int64
	LeaderEpoch   int32 // -1 when unknown
	Timestamp     int64 // milliseconds since the Unix epoch
	TimestampType TimestampType
	Key           []byte
	Value         []byte
	Headers       []Header
}

// Header is one header of a record. A nil value is null.
type Header struct {
	Key   string
	Value []byte
}

// TimestampType says who set a record's timestamp.
type TimestampType int8

const (
	NoTimestamp   TimestampType = -1
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// String returns the name that Flink's metadata column timestamp-type shows.
func (t TimestampType) String() string {
	switch t {
	case CreateTime:
		return "CreateTime"
	case LogAppendTime:
		return "LogAppendTime"
	}
	return "NoTimestampType"
}

// Decoder turns records into changes of one table. changelog/format makes one from a table's options.
type Decoder interface {
	// Table returns the table whose rows are decoded.
	Table() *Table
	// Decode appends the changes of r, zero or more, to b, with their positions set. Rows may point into r.Key and r.Value;
	// b.Pin counts that. An error is a *DataError with all coordinates, or an *UnavailableError where nothing is wrong with r and
	// another system that it takes did not answer; b holds the changes it held before.
	// A Decoder is safe for use by several goroutines, each with its own batch.
	Decode(b *Batch, r *Record) error
}

// OriginalDecoder is a [Decoder] that can fill [Batch].Originals. One that wraps another and alters what that decoded must not be an OriginalDecoder: a sink would
// write what came in, and not what was made of it.
type OriginalDecoder interface {
	Decoder
	// FillsOriginals returns the decoder itself if it fills them where the batch asks for it, else nil. Itself, and not true, so that one that embeds another
	// does not say by mistake what that one says.
	FillsOriginals() Decoder
}

// Encoder turns changes of one table into records, byte for byte as Flink would.
type Encoder interface {
	Table() *Table
	// Encode sets Key, Value and Headers of r from c, appending to the memory of r.Key and r.Value.
	Encode(r *Record, c *Change) error
}

// PayloadDecoder decodes one payload, the key or the value of a record, in one wire format. It is safe for use by several
// goroutines, each with its own batch.
type PayloadDecoder interface {
	// DecodePayload appends one change for each row that the payload holds, zero or more, with Kind and Row set. Rows are
	// b.NewRow(), as wide as the table; only the columns the decoder was made for are filled. payload is not null; rows may
	// point into it. r is the record it is part of. An error is a *DataError; its Field and Reason suffice; or an *UnavailableError. What was appended
	// before it does no harm: the caller drops it. A change whose Row is nil is Flink's null row, which only a lenient decoder of a
	// format that has it (json) hands on; what becomes of it is the record's business.
	DecodePayload(b *Batch, payload []byte, r *Record) error
}

// PayloadEncoder encodes one payload in one wire format.
type PayloadEncoder interface {
	// AppendPayload appends the payload for the change to dst. null reports that the payload is Kafka's null.
	AppendPayload(dst []byte, c *Change) (out []byte, null bool, err error)
}

// Format is a wire format under Flink's name. A format is a value that is passed in; there is no registry.
type Format interface {
	// Name is what the option 'format' calls it, e.g. "json".
	Name() string
	// Mode is the set of kinds that the format can carry; Append for formats that know no kinds.
	Mode() Mode
	// NewDecoder makes a decoder for p, or says which option or type it cannot do.
	NewDecoder(p Payload) (PayloadDecoder, error)
	// NewEncoder makes an encoder for p, or says which option or type it cannot do.
	NewEncoder(p Payload) (PayloadEncoder, error)
}

// Payload describes a key or a value for a [Format]. changelog/format makes it; a Format calls [Payload.Validate] on it.
type Payload struct {
	Table   *Table            // rows are as wide as its schema
	Columns []int             // which columns of Table the payload holds, in payload order
	Names   []string          // their names in the payload (key.fields-prefix taken off), one for each of Columns
	Options map[string]string // the format's options by Flink's names, prefix taken off ("ignore-parse-errors")
	Key     bool              // a key, rather than a value
	Topic   string            // the table's topic, "" where it has none or several
	Lenient bool              // Flink's silent guesses instead of errors
	Flink   FlinkVersion      // whose rules; the zero value is DefaultFlinkVersion
}

// Validate reports what is missing or contradictory in p: no table, a column that the table does not have, a column without a name.
func (p Payload) Validate() error {
	if p.Table == nil || p.Table.Schema == nil {
		return errors.New("changelog: Payload.Table is nil, or has no Schema")
	}
	if len(p.Names) != len(p.Columns) {
		return fmt.Errorf("changelog: Payload.Names are %d for %d Columns", len(p.Names), len(p.Columns))
	}
	for _, c := range p.Columns {
		if c < 0 || c >= len(p.Table.Schema.Columns) {
			return fmt.Errorf("changelog: Payload.Columns has column number %d, and the table has %d columns", c, len(p.Table.Schema.Columns))
		}
	}
	return nil
}
