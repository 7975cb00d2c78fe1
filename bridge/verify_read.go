package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// hash stands for a key.
type hash [16]byte

func (h hash) prefix() uint64 { return binary.BigEndian.Uint64(h[:]) }

func (c *comparison) hash(key []byte) hash {
	sum := sha256.Sum256(key)
	return hash(sum[:16])
}

func (c *comparison) hashOf(ch *changelog.Change) hash {
	c.scratch = c.view.AppendKey(c.scratch[:0], ch)
	return c.hash(c.scratch)
}

// last is where the last change of a key is that puts a row there.
type last struct {
	offset int64
	part   int32
	index  int32
}

// leaveOut finds the keys that have changes between the positions and the end of the topic, which the target may show or not.
func (c *comparison) leaveOut(ctx context.Context) error {
	c.moving = make(map[hash]struct{})
	var ends []int64
	err := c.asking(ctx, func(ctx context.Context) error {
		var names []string
		for _, p := range c.parts {
			if !slices.Contains(names, p.Topic) {
				names = append(names, p.Topic)
			}
		}
		l, err := listed(c.r.adm.ListCommittedOffsets(ctx, names...))(c.parts)
		if err != nil {
			return err
		}
		ends = ends[:0]
		for _, p := range c.parts {
			o, _ := l.Lookup(p.Topic, p.Partition)
			ends = append(ends, o.Offset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.step("reading what comes after the positions", c.to, ends)
	b := c.batch()
	err = c.read(ctx, c.to, ends, nil, func(part int, r *changelog.Record) error {
		if err := c.decode(b, r); err != nil {
			return err
		}
		for i := range b.Changes {
			if h := c.hashOf(&b.Changes[i]); !skipped(&b.Changes[i]) {
				c.moving[h] = struct{}{}
			}
		}
		if len(c.moving) > c.v.Memory/2/keyBytes {
			return c.config("more than %d keys have changes that the bridge has not saved yet: let it catch up, or raise VerifyOptions.Memory", len(c.moving))
		}
		if b.Bytes() < batchBytes && b.Len() < batchChanges {
			return nil
		}
		err := c.view.Skip(ctx, b.Changes)
		b.Reset()
		return err
	})
	if err == nil {
		err = c.view.Skip(ctx, b.Changes)
	}
	c.report.Moving = int64(len(c.moving))
	return err
}

func (c *comparison) batch() *changelog.Batch { return changelog.NewBatch(c.in.Decoder.Table()) }

// decode appends the changes of a message; of one that cannot be decoded none.
func (c *comparison) decode(b *changelog.Batch, r *changelog.Record) error {
	n := b.Len()
	err := c.in.Decoder.Decode(b, r)
	if err == nil {
		err = wellFormed(len(c.in.Decoder.Table().Schema.Columns), c.unskipped(b.Changes[n:]))
	}
	if err == nil {
		return nil
	}
	b.Truncate(n)
	var bad *changelog.DataError
	if !errors.As(err, &bad) {
		return err
	}
	at := changelog.Position{Partition: r.Partition, Offset: r.Offset}
	if c.wrong == nil {
		c.wrong = make(map[changelog.Position]struct{})
	}
	if _, known := c.wrong[at]; !known && len(c.wrong) < maxWrong {
		c.wrong[at] = struct{}{}
		c.report.Unreadable++
	}
	return nil
}

// maxWrong is up to how many messages that cannot be decoded are counted.
const maxWrong = 100_000

// unskipped returns the changes that a filter did not drop.
func (c *comparison) unskipped(changes []changelog.Change) []changelog.Change {
	if !slices.ContainsFunc(changes, func(ch changelog.Change) bool { return skipped(&ch) }) {
		return changes
	}
	return slices.DeleteFunc(slices.Clone(changes), func(ch changelog.Change) bool { return skipped(&ch) })
}

func (c *comparison) step(what string, from, to []int64) {
	c.now.Pass, c.now.Step, c.now.Records, c.now.Of = c.report.Passes, what, 0, 0
	for i := range from {
		c.now.Of += max(0, to[i]-from[i])
	}
	c.tell()
}

func (c *comparison) tell() {
	if c.v.Progress != nil {
		c.v.Progress(c.now)
	}
}

// read reads the partitions from some offsets up to others, one after the other, as a read_committed consumer sees them. only, if not nil, are the
// offsets of the messages that are wanted, ascending.
func (c *comparison) read(ctx context.Context, from, to []int64, only [][]int64, each func(part int, r *changelog.Record) error) error {
	for n, p := range c.parts {
		var want []int64
		at := from[n]
		if only != nil {
			if want = only[n]; len(want) == 0 {
				continue
			}
			at = want[0]
		}
		if err := c.readPartition(ctx, n, p, at, to[n], only != nil, want, each); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) readPartition(ctx context.Context, n int, p changelog.Partition, at, to int64, choose bool, want []int64, each func(part int, r *changelog.Record) error) error {
	for at < to {
		fetched, next, err := c.fetch(ctx, p, at, to)
		if err != nil {
			return err
		}
		for _, rec := range fetched.Records {
			if rec.Offset < at || rec.Offset >= to || rec.Attrs.IsControl() {
				continue
			}
			c.now.Records++
			if choose {
				for len(want) > 0 && want[0] < rec.Offset {
					want = want[1:]
				}
				if len(want) == 0 {
					return nil
				}
				if want[0] != rec.Offset {
					continue
				}
			}
			r := changelog.Record{Partition: p, Offset: rec.Offset, LeaderEpoch: rec.LeaderEpoch, Timestamp: rec.Timestamp.UnixMilli(),
				TimestampType: timestampType(rec.Attrs), Key: rec.Key, Value: rec.Value}
			for _, h := range rec.Headers {
				r.Headers = append(r.Headers, changelog.Header{Key: h.Key, Value: h.Value})
			}
			if err := each(n, &r); err != nil {
				return err
			}
		}
		at = next
		c.tell()
	}
	return nil
}

// fetch returns records from at on, and where to go on: to, if nothing more lies before it. The last records before an offset may have been
// compacted away, of which a consumer would hear nothing.
func (c *comparison) fetch(ctx context.Context, p changelog.Partition, at, to int64) (got kgo.FetchPartition, next int64, err error) {
	err = c.asking(ctx, func(ctx context.Context) error {
		t, ok := c.leaders[p.Topic]
		if !ok {
			found, err := c.r.f.metadata(ctx, []string{p.Topic})
			if err != nil {
				return err
			}
			t = found[p.Topic]
		}
		c.leaders = nil
		leader, ok := t.leaders[p.Partition]
		if !ok || leader < 0 {
			return kerr.LeaderNotAvailable
		}
		got, next, err = c.r.f.fetchOnce(ctx, p, t.id, leader, at, kgo.ReadCommitted())
		if err != nil {
			return err
		}
		c.leaders = map[string]topic{p.Topic: t} // until something fails
		switch {
		case next > at:
			return nil
		case got.LastStableOffset >= to:
			next = to
			return nil
		}
		return kerr.OffsetNotAvailable // of a leader that does not know yet how far its followers are; it may be tried again
	})
	if err != nil && sink.ClassOf(err) == sink.ErrUncertain && ctx.Err() == nil {
		err = fmt.Errorf("reading %s at offset %d: %w", p, at, err)
	}
	return got, next, err
}
