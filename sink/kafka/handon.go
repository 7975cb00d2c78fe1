package kafka

import (
	"bytes"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
)

// This file hands values on as they came, where source and target are encoded alike.
//
// Every message is still decoded, key and value, by whoever reads the topic: what cannot be read, or disagrees with its key, never gets here, whatever becomes of
// it by the data policy. What is saved is the encoding of the value. Decoding less would save more (docs/benchmarks.md), but then a broken message of the
// source would stand in the target as if this sink had written it, its row would be counted as applied, and nobody could set it aside.
//
// So a value is handed on only if its changes are all that it says (changelog.Original): the target then holds what encoding anew would put there, spelt as the
// writer of the source spelt it: a FLOAT may have more digits than it needs, a DECIMAL that was rounded is encoded. The rest stays ours. The key is encoded, since it decides about the partition: a key that the source spells in two ways
// has one form and one partition here, and its delete is behind its rows. So do timestamp and headers, which are those of the target's METADATA columns and not
// of the source's record. What this sink refuses, it refuses either way: a change whose row is not whole goes the other way, and is refused there.
//
// The bytes are copied into the batch for the broker before Write returns, as those of an encoder are; nothing of the message is kept.

// HandsOn reports whether the values of messages of a table are handed on as they came, as [changelog.Table].Encoding tells, and if not, why they are all encoded
// anew. Where they are, a message is encoded anew all the same if it holds anything beside its rows, such as a member that is no column of the table, or
// if a filter let a part of it through.
func (s *Sink) HandsOn(source *changelog.Table) (bool, string) {
	switch to := s.encoder.Table(); {
	case s.o.EncodeAnew:
		return false, "Options.EncodeAnew is set"
	case source.Encoding == "":
		return false, fmt.Sprintf("what is read as table %q is not told to be what came: it is mapped, or read leniently or with 'ignore-parse-errors', or its value format or decoder does not tell", source.Name)
	case to.Encoding == "":
		return false, "the target's value format has 'ignore-parse-errors', or settings that the program gave it"
	case source.Encoding != to.Encoding:
		return false, fmt.Sprintf("table %q and the target differ in the format of the value, in its options, in 'value.fields-include', or in name, type or order of a column in it", source.Name)
	}
	return true, ""
}

// TakesOriginals implements [sink.OriginalTaker].
func (c *committer) TakesOriginals(t *changelog.Table) bool {
	e := c.encoders[t]
	return e != nil && e.handsOn
}

// handOn makes the record of the message that change i of b begins, if its value can be handed on, and returns how many changes it stands for. 0: the change is
// to be encoded. at is where to look in b.Originals, and goes forward.
func (e *encoder) handOn(b *changelog.Batch, i int, at *int) (n int, err error) {
	o := originalOf(b, i, at)
	if o == nil || o.Value == nil {
		return 0, nil
	}
	n = int(o.Changes)
	if n < 1 || len(b.Changes)-i < n || n > 1 && (e.upsert || e.grow) { // several rows in one message are for readers of kinds; others may know only one
		return 0, nil
	}
	changes := b.Changes[i : i+n]
	for k := range changes {
		if c := &changes[k]; !o.Of(c) || c.Index != int32(k) || !e.whole(c) {
			return 0, nil
		}
	}
	for k := range changes {
		if e.aligned {
			err = e.write(&changes[k], true)
		} else {
			err = e.make(&changes[k], true)
		}
		switch {
		case err != nil:
			return 0, err
		case n == 1:
		case k == 0:
			e.compareKey[1] = append(e.compareKey[1][:0], e.record.Key...)
		case !bytes.Equal(e.compareKey[1], e.record.Key):
			return 0, nil // an update that moves its row: two keys, two records
		}
	}
	e.record.Value = o.Value
	return n, nil
}

// whole reports a change that an encoder would write as a value of its own, with nothing missing.
func (e *encoder) whole(c *changelog.Change) bool {
	if c.KeyOnly || e.upsert && !c.Kind.Adds() || e.grow && c.Kind != changelog.Insert || len(c.Row) != len(e.source.Schema.Columns) {
		return false
	}
	for i := range c.Row {
		if c.Row[i].IsUnchanged() {
			return false
		}
	}
	return true
}

// originalOf returns the original of the message that change i of b begins, if b has it. Changes and originals are in one order, in which some of either may be
// missing; should they not be, nothing more of the batch is handed on.
func originalOf(b *changelog.Batch, i int, at *int) *changelog.Original {
	c := &b.Changes[i]
	if c.Index != 0 {
		return nil
	}
	for ; *at < len(b.Originals); *at++ {
		if o := &b.Originals[*at]; o.Of(c) {
			*at++
			return o
		}
	}
	return nil
}
