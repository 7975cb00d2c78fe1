package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// source is what the lane's coordinator has of the consumer.
type source struct{ l *lane }

var _ sink.Source = source{}

// Begin says where partitions are read from that nothing is stored for.
func (s source) Begin(ctx context.Context, parts []changelog.Partition) ([]changelog.Position, error) {
	return s.l.r.f.begin(ctx, parts)
}

// Seek checks that the positions exist, drops what was read of these partitions and begins a new epoch there.
func (s source) Seek(ctx context.Context, to []changelog.Position) error {
	if err := s.l.fellBack(ctx, to); err != nil {
		return err
	}
	if err := s.l.r.f.check(ctx, to); err != nil {
		return err
	}
	return s.l.r.f.send(ctx, to)
}

// Pause stops fetching partitions; the member goes on polling and heartbeating.
func (s source) Pause(p ...changelog.Partition) { s.hold(true, p) }

// Resume goes on.
func (s source) Resume(p ...changelog.Partition) { s.hold(false, p) }

func (s source) hold(on bool, ps []changelog.Partition) {
	f := s.l.r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range ps {
		if part := f.parts[p]; part != nil && part.lane == s.l {
			f.setHold(holdSink, on, part)
		}
	}
}

// broker is what the broker says of the partitions of some topics.
type broker struct {
	ids         map[string]changelog.TopicID
	start, high kadm.ListedOffsets
}

// goneAfter is how long brokers must agree that a topic does not exist: one that has just started may not have heard of it yet.
const goneAfter = 10 * time.Second

// ask asks the broker until it answers for all partitions, fails for good, or ctx ends.
func (f *fetcher) ask(ctx context.Context, op string, topics []string, parts []changelog.Partition) (broker, error) {
	var b broker
	asked := time.Now()
	err := retry(ctx, func() error {
		// Ids last: if the topic is made anew between the answers, it is the id that must show it, not an offset that seems to be gone.
		var err error
		if b.start, err = listed(f.adm.ListStartOffsets(ctx, topics...))(parts); err == nil {
			b.high, err = listed(f.adm.ListEndOffsets(ctx, topics...))(parts)
		}
		if err == nil {
			b.ids, err = f.topicIDs(ctx, topics)
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) && time.Since(asked) > goneAfter {
			return f.r.lost(op, changelog.Position{Partition: parts[0], LeaderEpoch: -1}, errors.New(
				"the topic, or this partition of it, no longer exists: what is made anew under this name holds other records, and is read by a new bridge, or by this one after 'flinksink positions reset'"))
		}
		return err
	})
	if err == nil {
		return b, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return b, cause
	}
	if sink.ClassOf(err) == sink.ErrUncertain {
		err = &sink.Error{Op: op, Bridge: f.r.name, Class: sink.ErrConfig, Err: fmt.Errorf("asking for the offsets of %v: %w", topics, err)}
	}
	return b, err
}

// listed makes an error of an answer that lacks one of the partitions.
func listed(l kadm.ListedOffsets, err error) func([]changelog.Partition) (kadm.ListedOffsets, error) {
	return func(parts []changelog.Partition) (kadm.ListedOffsets, error) {
		for _, p := range parts {
			o, ok := l.Lookup(p.Topic, p.Partition)
			if ok && o.Err != nil {
				return nil, o.Err
			}
			if !ok {
				if err == nil {
					err = kerr.LeaderNotAvailable
				}
				return nil, err
			}
		}
		return l, nil
	}
}

// topic is what the brokers say of one topic at this moment.
type topic struct {
	id      changelog.TopicID
	leaders map[int32]int32 // leader of each partition, -1 while there is none
	hidden  bool            // one of Kafka's own
	err     error
}

// metadata asks for topics, nil for all. It asks the brokers: the admin client answers from a cache, which would hide for some
// seconds that a topic was made anew.
func (f *fetcher) metadata(ctx context.Context, names []string) (map[string]topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &n
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, f.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]topic, len(resp.Topics))
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		x := topic{id: t.TopicID, hidden: t.IsInternal, err: kerr.ErrorForCode(t.ErrorCode), leaders: make(map[int32]int32, len(t.Partitions))}
		for _, p := range t.Partitions {
			x.leaders[p.Partition] = p.Leader
		}
		out[*t.Topic] = x
	}
	for _, n := range names {
		if _, ok := out[n]; !ok {
			out[n] = topic{err: kerr.UnknownTopicOrPartition}
		}
	}
	return out, nil
}

func (f *fetcher) topicIDs(ctx context.Context, names []string) (map[string]changelog.TopicID, error) {
	topics, err := f.metadata(ctx, names)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]changelog.TopicID, len(names))
	for _, n := range names {
		if topics[n].err != nil {
			return nil, topics[n].err
		}
		ids[n] = topics[n].id
	}
	return ids, nil
}

// check reports positions that no longer exist as ErrLost: another topic of the same name, an offset outside the log, a log that was
// cut off below the offset and grew again.
func (f *fetcher) check(ctx context.Context, at []changelog.Position) error {
	parts := make([]changelog.Partition, len(at))
	var topics []string
	seen := make(map[string]bool)
	for i, p := range at {
		parts[i] = p.Partition
		if !seen[p.Topic] {
			seen[p.Topic] = true
			topics = append(topics, p.Topic)
		}
	}
	b, err := f.ask(ctx, "seek", topics, parts)
	if err != nil {
		return err
	}
	var epochs kadm.OffsetForLeaderEpochRequest
	for _, p := range at {
		if id := b.ids[p.Topic]; p.TopicID != (changelog.TopicID{}) && id != (changelog.TopicID{}) && id != p.TopicID {
			return f.r.lost("seek", p, recreated(p, id))
		}
		start, _ := b.start.Lookup(p.Topic, p.Partition.Partition)
		high, _ := b.high.Lookup(p.Topic, p.Partition.Partition)
		if p.Offset < start.Offset || p.Offset > high.Offset {
			return f.r.lost("seek", p, outOfRange(p, start.Offset, high.Offset))
		}
		if p.LeaderEpoch >= 0 && p.Offset > 0 {
			epochs.Add(p.Topic, p.Partition.Partition, p.LeaderEpoch)
		}
	}
	if len(epochs) == 0 {
		return nil
	}
	ends, err := f.adm.OffsetForLeaderEpoch(ctx, epochs)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		f.r.log.Warn("flinksink: cannot compare leader epochs", "bridge", f.r.name, "error", err)
		return nil
	}
	for _, p := range at {
		// An epoch that the log no longer knows (-1) is no evidence: the range above has to do.
		if e, ok := ends[p.Topic][p.Partition.Partition]; ok && e.Err == nil && p.LeaderEpoch >= 0 && e.LeaderEpoch >= 0 && e.EndOffset >= 0 && e.EndOffset < p.Offset {
			return f.r.lost("seek", p, fmt.Errorf("the log was cut off: the position was read in leader epoch %d, which now ends at offset %d; "+
				"offsets %d to %d that were read are gone or other records (an unclean leader election). Read the topic again with a new bridge, or accept what was read of them and go on %s",
				p.LeaderEpoch, e.EndOffset, e.EndOffset, p.Offset-1, movedTo(p.Partition, e.EndOffset)))
		}
	}
	return nil
}

func outOfRange(at changelog.Position, start, high int64) error {
	asked := at.Offset
	holds := fmt.Sprintf("the log holds offsets %d to %d", start, high-1)
	if start == high {
		holds = fmt.Sprintf("the log is empty and goes on at offset %d", high)
	}
	switch {
	case asked < start:
		return fmt.Errorf("asked for offset %d, %s: offsets %d to %d were deleted before they were read (retention), %d of them. "+
			"Read the topic again with a new bridge, or accept the gap %s", asked, holds, asked, start-1, start-asked, movedTo(at.Partition, start))
	case at.LeaderEpoch < 0 && at.TopicID == (changelog.TopicID{}): // no record was ever read there: a checkpoint knows the topic's id
		return fmt.Errorf("asked for offset %d, %s: the position was set by hand to where nothing is yet. Correct it %s, or to any offset before", asked, holds, movedTo(at.Partition, high))
	}
	return fmt.Errorf("asked for offset %d, %s: offsets %d to %d, up to which was read or the position was set, are gone (a truncated or other log), %d of them. "+
		"Read the topic again with a new bridge, or accept it %s", asked, holds, high, asked-1, asked-high, movedTo(at.Partition, high))
}

// movedTo is the part of a cure that moves a position.
func movedTo(p changelog.Partition, offset int64) string {
	return fmt.Sprintf("by 'flinksink positions set %s:%d:%d', or the store's SetPositions", p.Topic, p.Partition, offset)
}

// lost makes an ErrLost of this bridge.
func (r *run) lost(op string, p changelog.Position, err error) error {
	return &sink.Error{Op: op, Bridge: r.name, Position: &p, Class: sink.ErrLost, Err: err}
}

// begin applies the Start of each partition's input.
func (f *fetcher) begin(ctx context.Context, parts []changelog.Partition) ([]changelog.Position, error) {
	var out []changelog.Position
	for i := range f.r.ins {
		var mine []changelog.Partition
		for _, p := range parts {
			if f.r.input(p.Topic) == i {
				mine = append(mine, p)
			}
		}
		if len(mine) == 0 {
			continue
		}
		ps, err := f.beginOf(ctx, f.r.ins[i].Start, mine)
		if err != nil {
			return nil, err
		}
		out = append(out, ps...)
	}
	return out, nil
}

// beginOf applies the Start of one input. A partition that was added to its topic after this bridge started begins at its start in every mode: what
// was written to it before it was noticed would be skipped otherwise.
func (f *fetcher) beginOf(ctx context.Context, at Start, parts []changelog.Partition) ([]changelog.Position, error) {
	var topics []string
	seen := make(map[string]bool)
	for _, p := range parts {
		if !seen[p.Topic] {
			seen[p.Topic] = true
			topics = append(topics, p.Topic)
		}
	}
	b, err := f.ask(ctx, "begin", topics, parts)
	if err != nil {
		return nil, err
	}
	mode := at.Mode
	var offsets func(p changelog.Partition) (int64, error)
	from := func(l kadm.ListedOffsets) func(changelog.Partition) (int64, error) {
		return func(p changelog.Partition) (int64, error) {
			o, _ := l.Lookup(p.Topic, p.Partition)
			return o.Offset, nil
		}
	}
	list := func(ask func() (kadm.ListedOffsets, error)) error {
		return retry(ctx, func() error {
			l, err := listed(ask())(parts)
			offsets = from(l)
			return err
		})
	}
	switch mode {
	case StartEarliest:
		offsets = from(b.start)
	case StartLatest:
		// The last stable offset: what an open transaction has written is not read yet, and will be.
		err = list(func() (kadm.ListedOffsets, error) { return f.adm.ListCommittedOffsets(ctx, topics...) })
	case StartTimestamp:
		err = list(func() (kadm.ListedOffsets, error) {
			return f.adm.ListOffsetsAfterMilli(ctx, at.Timestamp, topics...)
		})
	case StartOffsets:
		offsets = func(p changelog.Partition) (int64, error) {
			if o, ok := at.Offsets[p.Partition]; ok {
				return o, nil
			}
			return from(b.start)(p)
		}
	case StartGroup:
		var resp kadm.OffsetResponses
		err = retry(ctx, func() (err error) {
			resp, err = f.adm.FetchOffsets(ctx, f.r.o.Group)
			return err
		})
		offsets = func(p changelog.Partition) (int64, error) {
			if o, ok := resp.Lookup(p.Topic, p.Partition); ok && o.Err == nil && o.At >= 0 {
				return o.At, nil
			}
			return 0, fmt.Errorf("group %q has no committed offset for %s: commit one, or set scan.startup.mode to earliest-offset", f.r.o.Group, p)
		}
	default:
		err = fmt.Errorf("start mode %d is unknown", mode)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, &sink.Error{Op: "begin", Bridge: f.r.name, Class: sink.ErrConfig, Err: err}
	}
	out := make([]changelog.Position, 0, len(parts))
	for _, p := range parts {
		pos := changelog.Position{Partition: p, LeaderEpoch: -1, TopicID: b.ids[p.Topic]}
		if int(p.Partition) >= f.r.topics[p.Topic] {
			pos.Offset, _ = from(b.start)(p)
		} else if pos.Offset, err = offsets(p); err != nil {
			return nil, &sink.Error{Op: "begin", Bridge: f.r.name, Class: sink.ErrConfig, Err: err}
		}
		// What is returned is stored: a start that does not exist must not get so far.
		start, _ := from(b.start)(p)
		high, _ := from(b.high)(p)
		if pos.Offset < start || pos.Offset > max(high, start) {
			return nil, &sink.Error{Op: "begin", Bridge: f.r.name, Position: &pos, Class: sink.ErrConfig, Err: fmt.Errorf(
				"the start setting asks for offset %d, the log holds offsets %d to %d: correct scan.startup.mode or its offsets", pos.Offset, start, high-1)}
		}
		out = append(out, pos)
	}
	return out, nil
}
