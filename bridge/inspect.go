package bridge

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// This file is for tools that look at what a bridge would meet, without running one.

// CheckOrder says why a topic of so many partitions has no order for the changes of a row, nil if it has: the changes of a table that takes
// rows away must be in one partition for each row. A bridge refuses it, unless Options.Unordered accepts it.
func (in Input) CheckOrder(topic string, partitions int) error {
	t := in.Decoder.Table()
	if partitions < 2 || !in.NullKeys || !t.Mode.Contains(changelog.UpdateBefore) {
		return nil
	}
	return fmt.Errorf("topic %q has %d partitions, and table %s, whose changes take rows away (mode %s), has no key format, or 'key.fields' that are not of its PRIMARY KEY: "+
		"a row's changes are then in several partitions, which have no order, so its delete and its insert could be applied in the wrong order. Write the topic with "+
		"'key.format' and the PRIMARY KEY as 'key.fields', or with one partition; if each row's changes are in one partition all the same (Debezium's own topics), set Options.Unordered",
		topic, partitions, t.Name, t.Mode)
}

// CheckPositions judges stored positions as a bridge of these options does before it acquires their partitions: whether the store went
// back behind the group's offsets, and whether deletes may have been compacted away since the positions were saved. The error is an
// [sink.ErrLost]. Options.Hooks.WentBack, Options.Logger and Options.AllowMissedDeletes have their meaning. It changes nothing.
// stored must be read while the bridge does not run: a checkpoint that is saved after that looks like one that the store forgot.
func CheckPositions(ctx context.Context, cl *kgo.Client, name string, in Input, o *Options, stored []sink.StoredPosition) error {
	r := &run{name: name, ins: []Input{in}, o: o.withDefaults(name, []Input{in}, nil), cl: cl, adm: kadm.NewClient(cl)}
	r.log = r.o.Logger
	r.f = &fetcher{r: r, cl: r.cl, adm: r.adm}
	mine := make(map[changelog.Partition]sink.StoredPosition, len(stored))
	parts := make([]changelog.Partition, 0, len(stored))
	for _, p := range stored {
		mine[p.Position.Partition] = p
		parts = append(parts, p.Position.Partition)
	}
	hints, err := r.hints(ctx)
	if err != nil {
		return err
	}
	if err := r.behindHint(hints, parts, mine); err != nil {
		return err
	}
	return r.missedDeletes(ctx, mine)
}

// FindOpenTransaction asks the brokers whose transaction begins at a partition's last stable offset. What they do not tell is left out.
func FindOpenTransaction(ctx context.Context, cl *kgo.Client, p changelog.Partition, lastStable, highWatermark int64) OpenTransaction {
	t := OpenTransaction{Partition: p, LastStableOffset: lastStable, HighWatermark: highWatermark}
	t.ProducerID, t.TransactionalID = producer(ctx, kadm.NewClient(cl), t)
	return t
}
