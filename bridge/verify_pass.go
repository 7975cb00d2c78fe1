package bridge

import (
	"context"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// ranged is the part of the keys that a pass is about: those whose hash begins with a number from low to high.
type ranged struct{ low, high uint64 }

func (r ranged) holds(h hash) bool { n := h.prefix(); return n >= r.low && n <= r.high }

// pass deals with the keys that begin where the last pass ended. width is how many of the 2^64 beginnings fit; it is halved when they turn out not to.
// It reports whether it was the last.
func (c *comparison) pass(ctx context.Context, width *uint64) (done bool, err error) {
	span := ranged{low: c.next}
	span.high = span.low + *width
	if span.high < span.low {
		span.high = ^uint64(0)
	}
	keys, err := c.lastChanges(ctx, &span, width)
	if err != nil {
		return false, err
	}
	c.report.Keys += int64(len(keys))
	if err := c.compare(ctx, span, keys); err != nil {
		return false, err
	}
	done = span.high == ^uint64(0)
	c.next = span.high + 1
	if c.report.NoExtra != "" {
		return done, nil
	}
	c.step("looking for extra rows", nil, nil)
	return done, c.view.Extra(ctx, sink.ViewPass{Last: done, Lives: func(key []byte) (mine, lives bool) {
		h := c.hash(key)
		_, lives = keys[h]
		return span.holds(h), lives
	}}, func(ds []sink.Difference) error { return c.found(ctx, ds) })
}

// lastChanges reads the topic for where the last change of each key is that puts a row there; keys whose last change takes it away are left out.
func (c *comparison) lastChanges(ctx context.Context, span *ranged, width *uint64) (map[hash]last, error) {
	keys := make(map[hash]last)
	most := c.v.Memory / keyBytes
	c.step("reading the last change of each key", c.from, c.to)
	b := c.batch()
	err := c.read(ctx, c.from, c.to, nil, func(part int, r *changelog.Record) error {
		if b.Bytes() >= batchBytes {
			b.Reset()
		}
		b.Truncate(0)
		if err := c.decode(b, r); err != nil {
			return err
		}
		for i := range b.Changes {
			ch := &b.Changes[i]
			if skipped(ch) || !ch.Kind.Adds() && c.rules.KeepsDeleted {
				continue
			}
			h := c.hashOf(ch)
			if !span.holds(h) {
				continue
			}
			if _, moves := c.moving[h]; moves {
				continue
			}
			if was, ok := keys[h]; ok && int(was.part) != part {
				return c.config("%s@%d and %s@%d are changes of one key: partitions have no order, so nobody can tell which is the last. Was the topic resized, or is its key another one than the table's?",
					c.parts[was.part], was.offset, r.Partition, r.Offset)
			}
			if !ch.Kind.Adds() {
				delete(keys, h)
				continue
			}
			keys[h] = last{offset: ch.Offset, part: int32(part), index: ch.Index}
		}
		for len(keys) > most && span.high > span.low {
			span.high = span.low + (span.high-span.low)/2
			*width = span.high - span.low
			for h := range keys {
				if !span.holds(h) {
					delete(keys, h)
				}
			}
		}
		return nil
	})
	return keys, err
}

// compare reads the topic once more, for the rows of the last changes, and hands them to the view.
func (c *comparison) compare(ctx context.Context, span ranged, keys map[hash]last) error {
	only := make([][]int64, len(c.parts))
	for _, at := range keys {
		only[at.part] = append(only[at.part], at.offset)
	}
	from := make([]int64, len(c.parts))
	for i := range only {
		slices.Sort(only[i])
		only[i] = slices.Compact(only[i])
		if from[i] = c.to[i]; len(only[i]) > 0 {
			from[i] = only[i][0]
		}
	}
	c.step("comparing rows", from, c.to)
	b := c.batch()
	flush := func() error {
		if b.Len() == 0 {
			b.Reset()
			return nil
		}
		ds, err := c.view.Compare(ctx, b.Changes)
		if err != nil {
			return err
		}
		err = c.found(ctx, ds)
		b.Reset()
		return err
	}
	err := c.read(ctx, from, c.to, only, func(part int, r *changelog.Record) error {
		n := b.Len()
		if err := c.decode(b, r); err != nil {
			return err
		}
		kept := n
		for i := n; i < b.Len(); i++ {
			ch := &b.Changes[i]
			if skipped(ch) || !ch.Kind.Adds() {
				continue
			}
			if at, ok := keys[c.hashOf(ch)]; ok && at == (last{ch.Offset, int32(part), ch.Index}) {
				b.Changes[kept] = *ch
				kept++
			}
		}
		b.Truncate(kept)
		if b.Len() >= compareRows || b.Bytes() >= batchBytes {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// compareRows is how many rows are compared at once.
const compareRows = 2000
