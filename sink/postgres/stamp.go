package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// origin says where the value of a column comes from.
type origin uint8

const (
	fromRow  origin = iota // a column of the source
	fromMark               // whether the row is deleted
	fromBridge
	fromGeneration
	fromCheckpoint
	fromTopic
	fromPartition
	fromOffset
	fromIndex
	fromTime
	fromRun // see Swap
)

// stamp is what rows are given beside their own values, the same in all rows of a transaction.
type stamp struct {
	bridge     string
	generation sink.GenerationID
	checkpoint sink.CheckpointID
	time       changelog.Value // when the transaction began
	of         *transaction    // that time is of
}

// of returns what the column holds after the change.
func (col *column) of(c *changelog.Change, x *stamp) changelog.Value {
	switch col.origin {
	case fromMark:
		switch {
		case c.Kind.Adds():
			return col.live
		case col.source >= 0 && len(c.Row) > col.width:
			return c.Row[col.width] // see spared
		case col.source >= 0:
			return c.Row[col.source]
		case col.clock:
			return x.time
		}
		return col.deleted
	case fromBridge:
		return changelog.StringValue(x.bridge)
	case fromGeneration:
		return changelog.IntValue(int64(x.generation))
	case fromCheckpoint:
		return changelog.IntValue(int64(x.checkpoint))
	case fromTopic:
		return changelog.StringValue(c.Topic)
	case fromPartition:
		return changelog.IntValue(int64(c.Partition.Partition))
	case fromOffset:
		return changelog.IntValue(c.Offset)
	case fromIndex:
		return changelog.IntValue(int64(c.Index))
	case fromTime:
		return x.time
	case fromRun:
		return changelog.BytesValue(changelog.AppendKeyColumns(nil, col.swap.schema, col.swap.run, c.Row))
	}
	return c.Row[col.source]
}

var (
	errNoVersion = errors.New("NULL in the column of Options.Version: nobody could tell whether the change is older than the row. " +
		"A delete that knows its key only has a version only in a METADATA column")
	errVersionUnchanged = errors.New("the column of Options.Version was not sent by its source (Unchanged)")
	errNoMark           = errors.New("NULL in the column of Options.SoftDelete.From: it would mark nothing. A delete that knows its key only has nothing but METADATA columns")
)

// putOf appends what the column holds after the change, as put does.
func (col *column) putOf(dst []byte, c *changelog.Change, x *stamp) ([]byte, error) {
	if col.origin == fromRow && !col.version { // almost all
		return col.put(dst, c.Row[col.source])
	}
	v := col.of(c, x)
	switch {
	case col.version && v.IsNull():
		return dst, errNoVersion
	case col.version && v.IsUnchanged():
		return dst, errVersionUnchanged
	case col.origin == fromMark && !c.Kind.Adds() && (v.IsNull() || v.IsUnchanged()):
		return dst, errNoMark
	}
	return col.put(dst, v)
}

// clocked asks for the time of the transaction, once in each, where the target's rows hold it.
func (a *applier) clocked(ctx context.Context, t *transaction, tg *target) error {
	if !tg.clock || a.stamp.of == t {
		return nil
	}
	var now time.Time
	if err := t.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return err
	}
	a.stamp.time, a.stamp.of = changelog.TimestampLTZValue(now.Unix(), int32(now.Nanosecond())), t
	return nil
}

// stampFor says whose rows are written next. A generation's checkpoints are numbered one after the other, so the number of the one
// that is being written is known before its Prepare says it.
func (c *committer) stampFor(gen sink.GenerationID) {
	if x := &c.apply.stamp; x.generation != gen || x.checkpoint == 0 {
		x.bridge, x.generation, x.checkpoint = c.lane.Bridge, gen, 1
	}
}

// stamped compares the number that rows were given with that of their checkpoint, and goes on to the next.
func (c *committer) stamped(cut sink.Cut) error {
	x := &c.apply.stamp
	was := x.checkpoint
	x.bridge, x.generation, x.checkpoint = c.lane.Bridge, cut.Generation.ID, cut.Checkpoint+1
	if c.s.o.Audit.Checkpoint != "" && c.rows > 0 && was != cut.Checkpoint {
		return configf("the checkpoint has number %d, and its rows were given number %d in the column of Options.Audit.Checkpoint: "+
			"the caller has to number the checkpoints of a generation 1, 2, 3, ...; or leave that column out", cut.Checkpoint, was)
	}
	return nil
}
