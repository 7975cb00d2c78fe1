package changelog

import "strconv"

// DataClass says in one word what kind of fault a [DataError] is about, for metrics and for code that treats one kind unlike another. Reason and
// Field say the rest. No stored form holds it. Of several faults in a message the first that the reader meets counts.
type DataClass uint8

const (
	// Unclassified is the zero value: who made the error did not say. No format of this module leaves it so; a decoder of somebody else may, and a sink
	// that refuses a row names its own cause.
	Unclassified DataClass = iota
	// Malformed: the bytes are not what the format says, or contradict themselves. A JSON text that ends early, text that is not UTF-8, a member
	// that is there twice, bytes after the end of an Avro row.
	Malformed
	// WrongType: a whole value, and not one of the column's type. "abc" for an INT, an object for a STRING's ARRAY.
	WrongType
	// Missing: something is not there, or null, that has to be. A null key, a NULL in a PRIMARY KEY, an update whose 'before' is null, a value that
	// the source did not send, an empty message.
	Missing
	// OutOfRange: of the right kind, and beyond what the type or a bound holds without loss. 300 for a TINYINT, more digits than a DECIMAL(10, 2)
	// has, nesting deeper than the reader goes, more rows in a message than are allowed.
	OutOfRange
	// UnknownOp: the message or change is of a kind that the table does not have. A truncation, 'op' = 'x', a delete for a table of inserts only.
	UnknownOp
	// SchemaMismatch: writer and table do not have the same columns or types. An Avro schema that does not resolve to the table's, a
	// csv line with more cells than columns, a protobuf field of another type than in the .proto.
	SchemaMismatch
)

var dataClassNames = [...]string{"unclassified", "malformed", "type", "missing", "range", "unknown op", "schema"}

// String returns the class as it is printed: "malformed", "type", "missing", "range", "unknown op" or "schema"; "unclassified" for the zero value.
func (c DataClass) String() string {
	if int(c) < len(dataClassNames) {
		return dataClassNames[c]
	}
	return "class(" + strconv.Itoa(int(c)) + ")"
}
