package postgres

import (
	"bytes"
	"testing"
)

// What a committer keeps of a staged checkpoint is bounded: more than that is not kept at all, since a part of it is of no use.
func TestKept_Bound(t *testing.T) {
	half := keptBytes/2 + 1
	var k kept
	k.add([]chunk{{}}, half)
	if got := k.of(writer{}, 1, receipt{Chunks: 1}, stagedHead{}); got == nil || len(got.chunks) != 1 {
		t.Errorf("half of it is not kept: %+v", got)
	}
	if k.of(writer{}, 1, receipt{Chunks: 2}, stagedHead{}) != nil {
		t.Error("one of two chunks is taken for both")
	}
	k.add([]chunk{{}}, half)
	k.add([]chunk{{}}, 1)
	if len(k.chunks) > 0 || k.of(writer{}, 1, receipt{Chunks: 3}, stagedHead{}) != nil {
		t.Errorf("too much is kept: %d chunks", len(k.chunks))
	}
}

// Chunks are of one checkpoint of one writer.
func TestKept_Match(t *testing.T) {
	w := writer{"b", "s", 3}
	k := &kept{w: w, cp: 7, chunks: []chunk{{}}, digest: []byte{1}}
	right := prepared{writer: w, cp: 7, receipt: receipt{Chunks: 1, Digest: []byte{1}}}
	if k.match(right) == nil {
		t.Error("the right receipt does not match")
	}
	for name, change := range map[string]func(p *prepared){
		"bridge": func(p *prepared) { p.writer.bridge = "x" }, "sink": func(p *prepared) { p.writer.sink = "x" }, "generation": func(p *prepared) { p.writer.gen++ },
		"checkpoint": func(p *prepared) { p.cp++ }, "chunks": func(p *prepared) { p.Chunks++ }, "digest": func(p *prepared) { p.Digest = bytes.Repeat(p.Digest, 2) },
	} {
		p := right
		if change(&p); k.match(p) != nil {
			t.Errorf("another %s matches", name)
		}
	}
	if (*kept)(nil).match(right) != nil {
		t.Error("nothing matches")
	}
}
