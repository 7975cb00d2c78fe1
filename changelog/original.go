package changelog

// Original is the value of a message as it came, beside the changes that were made of it: for a sink that writes the same encoding, and can hand the value on
// instead of encoding the changes anew. A batch has one for each message of which it has changes, in their order, if [Batch.KeepOriginals] is set.
//
// Whoever takes changes out of a batch, or puts others in their place, need not look at it: an original counts only for exactly as many changes as
// its message had, side by side. Whoever alters a change must not have asked for originals.
type Original struct {
	Partition
	Offset  int64
	Changes int32 // how many changes the message had
	// Value is nil where the message has none, where its format does not tell, and where it says anything that its changes do not hold, such as a member that is no
	// column of the table. It is memory of the message, which the decoder has pinned.
	Value []byte
}

// Of reports whether the original is that of c's message.
func (o *Original) Of(c *Change) bool { return o.Offset == c.Offset && o.Partition == c.Partition }
