package postgres

import (
	"bytes"

	"github.com/flinksink/flinksink/sink"
)

// keptBytes is how much of a staged checkpoint a committer keeps for its merge: what a rehearsal may hold.
const keptBytes = rehearseBytes

// kept is what a committer keeps of the checkpoint that it staged last, so that it need not read back what it wrote a moment ago. It is no proof of anything: that
// the checkpoint is to be merged, the mark in the generation's row tells, and that its rows were staged and are still there, the number of them that are deleted.
type kept struct {
	w      writer
	cp     sink.CheckpointID
	chunks []chunk
	digest []byte
	head   stagedHead
	size   int
	much   bool // too much, so nothing is kept
}

// add keeps chunks of so many bytes.
func (k *kept) add(chunks []chunk, size int) {
	if k.much = k.much || k.size+size > keptBytes; k.much {
		k.chunks = nil
		return
	}
	k.chunks = append(k.chunks, chunks...)
	k.size += size
}

// of returns what was kept, as that of a checkpoint; nil: not all of it was.
func (k *kept) of(w writer, cp sink.CheckpointID, r receipt, head stagedHead) *kept {
	if k.much || len(k.chunks) != r.Chunks {
		return nil
	}
	out := *k
	out.w, out.cp, out.digest, out.head = w, cp, r.Digest, head
	return &out
}

// match returns k where it is of the checkpoint of a receipt. k may be nil.
func (k *kept) match(p prepared) *kept {
	if k == nil || k.w != p.writer || k.cp != p.cp || len(k.chunks) != p.Chunks || !bytes.Equal(k.digest, p.Digest) {
		return nil
	}
	return k
}
