package changelog

import "unsafe"

// Batch is a run of changes of one table, in order, and the arena their rows live in.
//
// Ownership: whoever fills a batch (a decoder) hands it on whole; from then on nobody writes to it, and it and all memory its
// rows point to stay valid until whoever made it calls Reset, which for a batch given to a sink's Write is after Prepare or
// Discard returned. A Batch is not safe for use by several goroutines at once.
type Batch struct {
	Table   *Table
	Changes []Change

	// KeepOriginals has a decoder that can add to Originals the values of the messages that it decodes. It is set before the first of them, by whoever knows that
	// somebody will look.
	KeepOriginals bool
	Originals     []Original

	values []Value // rest of the current chunk of values; always zero
	bytes  []byte  // rest of the current chunk of bytes
	held   int     // bytes of all chunks
	pinned int     // bytes outside the arena that rows point to
}

const (
	valueChunk = 1024
	byteChunk  = 16 << 10
)

// NewBatch returns an empty batch for changes of t.
func NewBatch(t *Table) *Batch { return &Batch{Table: t} }

// NewRow returns a row of NULLs, as wide as the table's schema.
func (b *Batch) NewRow() Row { return b.NewValues(len(b.Table.Schema.Columns)) }

// NewValues returns n NULLs from the arena, for a row or for the inside of an ARRAY, MAP or ROW.
func (b *Batch) NewValues(n int) []Value {
	if n > len(b.values) {
		size := max(n, valueChunk)
		b.values = make([]Value, size)
		b.held += size * int(unsafe.Sizeof(Value{}))
	}
	v := b.values[:n:n]
	b.values = b.values[n:]
	return v
}

// NewBytes returns n bytes from the arena, for text that cannot point into the message (unescaped strings, decoded base64).
// Their content is undefined.
func (b *Batch) NewBytes(n int) []byte {
	if n > len(b.bytes) {
		size := max(n, byteChunk)
		b.bytes = make([]byte, size)
		b.held += size
	}
	p := b.bytes[:n:n]
	b.bytes = b.bytes[n:]
	return p
}

// Pin counts n bytes of memory outside the arena (a message) that rows of b point to.
func (b *Batch) Pin(n int) { b.pinned += n }

// Append adds a change.
func (b *Batch) Append(c Change) { b.Changes = append(b.Changes, c) }

// Truncate drops the changes from n on, e.g. those of a message that turned out bad in its middle.
func (b *Batch) Truncate(n int) {
	clear(b.Changes[n:])
	b.Changes = b.Changes[:n]
}

// Len returns the number of changes.
func (b *Batch) Len() int { return len(b.Changes) }

// Bytes returns how much memory the batch keeps alive: its arena, its changes and what it pins.
func (b *Batch) Bytes() int {
	return b.held + b.pinned + cap(b.Changes)*int(unsafe.Sizeof(Change{})) + cap(b.Originals)*int(unsafe.Sizeof(Original{}))
}

// Reset makes b empty for use again. Rows handed out before must not be used any more. The memory is given back to the
// collector, but for the slices of changes and originals: strings of an old message must not live on through an old row.
func (b *Batch) Reset() {
	clear(b.Changes)
	clear(b.Originals)
	b.Changes, b.Originals, b.KeepOriginals = b.Changes[:0], b.Originals[:0], false
	b.values, b.bytes = nil, nil
	b.held, b.pinned = 0, 0
}
