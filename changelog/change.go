package changelog

// Row is one value for each column of a schema, in the order of [Schema.Columns].
type Row []Value

// Change is one +I, -U, +U or -D of one row, with where it came from.
type Change struct {
	Partition
	Offset  int64 // of the message
	Index   int32 // which of the message's changes, from 0
	Kind    Kind
	KeyOnly bool // a delete that knows its key only: the other columns of Row are NULL and mean nothing
	Row     Row  // as wide as the schema, also where KeyOnly; whoever applies changes checks that before it indexes a row
}
