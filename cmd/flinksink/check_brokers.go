package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// topicState is what the brokers say of a topic.
type topicState struct {
	id         changelog.TopicID
	partitions []partitionState // by number
}

// partitionState is where a partition begins, up to where it can be read, and where it ends.
type partitionState struct{ start, stable, end int64 }

// brokers looks at brokers, topics and group.
func (k *checkup) brokers(ctx context.Context, s *subject) {
	cl, err := k.c.sourceClient(*s.in, kgo.ClientID("flinksink-check"))
	if k.bad("brokers", err) {
		return
	}
	s.cl = cl
	adm := kadm.NewClient(cl.Client)
	var meta kadm.Metadata
	if k.bad("brokers", k.c.ask(ctx, cl, func(ctx context.Context) (err error) {
		meta, err = adm.BrokerMetadata(ctx)
		return err
	})) {
		return
	}
	s.answered = true
	k.ok("brokers", "%d at %s", len(meta.Brokers), cl.seeds())
	k.group(ctx, cl, adm, s.group)
	topics, err := k.c.topicsOf(ctx, cl, *s.in)
	if k.bad("topic", err) {
		return
	}
	found := make(map[string]topicState)
	if k.bad("topic", k.c.ask(ctx, cl, func(ctx context.Context) error {
		meta, err := adm.Metadata(kadm.WithAuthorizedOps(ctx), topics...)
		if err == nil {
			err = mayRead(meta.Topics)
		}
		if err == nil {
			err = states(ctx, adm, meta.Topics, topics, found)
		}
		return err
	})) {
		return
	}
	s.topics = found
	for _, t := range topics {
		st := found[t]
		var offsets, waiting int64
		for _, p := range st.partitions {
			offsets += p.end - p.start
			waiting += p.end - p.stable
		}
		k.ok("topic", "%s: %d partitions, %d offsets", t, len(st.partitions), offsets)
		if s.dec != nil {
			switch err := s.in.CheckOrder(t, len(st.partitions)); {
			case err == nil:
			case s.flags.unordered:
				s.scattered = true
				k.note("topic", "%s: the changes of a row have no order across its %d partitions, as far as the table says: --unordered takes it on trust that each row's are in one", t, len(st.partitions))
			default:
				k.bad("topic", err)
			}
		}
		if waiting > 0 {
			k.note("topic", "%s: %d offsets wait behind an open transaction; they are read once it ends", t, waiting)
			k.open(ctx, s, t, st)
		}
	}
	k.compaction(ctx, adm, topics)
	k.spread(s)
}

// mayRead finds topics whose offsets the user may ask for and whose records not: the bridge would find that with its first fetch.
func mayRead(topics kadm.TopicDetails) error {
	for _, t := range topics.Sorted() {
		if ops := t.AuthorizedOperations; t.Err == nil && len(ops) > 0 && !slices.Contains(ops, kadm.OpRead) && !slices.Contains(ops, kadm.OpAll) {
			return config("topic %q: this user may not read it: allow READ", t.Topic)
		}
	}
	return nil
}

// states fills found with the topics' partitions.
func states(ctx context.Context, adm *kadm.Client, details kadm.TopicDetails, topics []string, found map[string]topicState) error {
	start, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	stable, err := adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	end, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	for _, t := range topics {
		d := details[t]
		if d.Err != nil {
			return d.Err
		}
		st := topicState{id: changelog.TopicID(d.ID), partitions: make([]partitionState, len(d.Partitions))}
		for i := range st.partitions {
			for _, l := range []struct {
				listed kadm.ListedOffsets
				to     *int64
			}{{start, &st.partitions[i].start}, {stable, &st.partitions[i].stable}, {end, &st.partitions[i].end}} {
				o, ok := l.listed.Lookup(t, int32(i))
				if !ok {
					return kerr.LeaderNotAvailable
				}
				if o.Err != nil {
					return o.Err
				}
				*l.to = o.Offset
			}
		}
		found[t] = st
	}
	return nil
}

// open names the transactions behind which records wait.
func (k *checkup) open(ctx context.Context, s *subject, topic string, st topicState) {
	for i, p := range st.partitions {
		if p.stable < p.end {
			t := bridge.FindOpenTransaction(ctx, s.cl.Client, changelog.Partition{Topic: topic, Partition: int32(i)}, p.stable, p.end)
			k.note("topic", "%s: the last stable offset is %d of %d: %s", t.Partition, p.stable, p.end, t.Cure())
		}
	}
}

// compaction notes what a compacted topic means. A user who may not ask is not bothered.
func (k *checkup) compaction(ctx context.Context, adm *kadm.Client, topics []string) {
	configs, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return
	}
	for _, c := range configs {
		values := make(map[string]string)
		for _, kv := range c.Configs {
			values[kv.Key] = kv.MaybeValue()
		}
		if c.Err == nil && strings.Contains(values["cleanup.policy"], "compact") {
			k.note("topic", "%s is compacted: a bridge that is down for longer than delete.retention.ms (%s) can miss deletes, whose rows then stay", c.Name, millis(values["delete.retention.ms"]))
		}
	}
}

// millis shows what Kafka gives in milliseconds.
func millis(s string) string {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/int64(time.Millisecond) {
		return s + " ms"
	}
	return (time.Duration(n) * time.Millisecond).String()
}

// cooperative is the balancing strategy of bridges.
const cooperative = "cooperative-sticky"

// group looks at who uses the consumer group.
func (k *checkup) group(ctx context.Context, cl *client, adm *kadm.Client, name string) {
	var g kadm.DescribedGroup
	err := k.c.ask(ctx, cl, func(ctx context.Context) error {
		all, err := adm.DescribeGroups(ctx, name)
		if err == nil {
			g = all[name]
			err = g.Err
		}
		if errors.Is(err, kerr.GroupIDNotFound) {
			err = nil
		}
		if errors.Is(err, kerr.GroupAuthorizationFailed) {
			return config("this user may not use the consumer group %q: allow DESCRIBE and READ on it", name)
		}
		return err
	})
	switch {
	case k.bad("group", err):
	case len(g.Members) == 0:
		k.ok("group", "%q has no members now", name)
	case g.ProtocolType != "consumer":
		k.bad("group", fmt.Errorf("%q is used by a program of another kind (%s): give the bridge a group of its own ('properties.group.id')", name, g.ProtocolType))
	case g.Protocol != "" && g.Protocol != cooperative:
		k.bad("group", fmt.Errorf("%q is used by a program with another balancing strategy (%s, not %s): give the bridge a group of its own ('properties.group.id')", name, g.Protocol, cooperative))
	default:
		k.ok("group", "%q has %d members now: a bridge that starts shares the partitions with them", name, len(g.Members))
	}
}

// aged judges the stored positions as the bridge would, and says how old the oldest is.
func (k *checkup) aged(ctx context.Context, s *subject, state sink.State) bool {
	oldest := state.Positions[0]
	for _, p := range state.Positions {
		if p.Saved.Before(oldest.Saved) {
			oldest = p
		}
	}
	o := &bridge.Options{Group: s.group, Connect: k.c.patience, AllowMissedDeletes: true}
	o.Hooks.WentBack = func(w bridge.WentBack) {
		k.note("positions", "%s: the store went back: %s, and it now holds %d (a failover or a restored backup): the rows went back with it, and the bridge reads again what was lost", w.Partition, w.How, w.Stored)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	if !s.flags.missed {
		o.AllowMissedDeletes = false
		if k.bad("positions", bridge.CheckPositions(ctx, s.cl.Client, state.Bridge, *s.in, o, state.Positions)) {
			return false
		}
	} else {
		strict := *o
		strict.Hooks.WentBack, strict.AllowMissedDeletes = nil, false
		if err := bridge.CheckPositions(ctx, s.cl.Client, state.Bridge, *s.in, &strict, state.Positions); err != nil {
			s.missed = true
			k.note("positions", "deletes may have been compacted away since %s was saved, which --allow-missed-deletes accepts", oldest.Position.Partition)
		}
		if k.bad("positions", bridge.CheckPositions(ctx, s.cl.Client, state.Bridge, *s.in, o, state.Positions)) {
			return false
		}
	}
	if !oldest.Saved.IsZero() {
		k.ok("positions", "the oldest, of %s, was saved at %s, %s ago", oldest.Position.Partition, stamp(oldest.Saved), max(0, time.Since(oldest.Saved).Round(time.Second)))
	}
	return true
}

// ground compares the stored positions with what the topics hold.
func (k *checkup) ground(ctx context.Context, s *subject, state sink.State) {
	stored := make(map[changelog.Partition]changelog.Position)
	var errs []error
	for _, p := range state.Positions {
		stored[p.Position.Partition] = p.Position
		if t, ok := s.topics[p.Topic]; !ok || int(p.Position.Partition.Partition) >= len(t.partitions) {
			errs = append(errs, fmt.Errorf("%s has a stored position, and is not read any more, or does not exist", p.Position.Partition))
		}
	}
	var fresh, behind int64
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		t := s.topics[name]
		for i, part := range t.partitions {
			p := changelog.Partition{Topic: name, Partition: int32(i)}
			at, ok := stored[p]
			switch {
			case !ok:
				fresh++
			case at.TopicID != (changelog.TopicID{}) && t.id != (changelog.TopicID{}) && at.TopicID != t.id:
				errs = append(errs, fmt.Errorf("%s: the topic was deleted and made again: the position is of topic id %s, the broker has %s: read it with a new bridge, or forget the positions, also of what else the bridge reads, by 'flinksink positions reset'", at, at.TopicID, t.id))
			case at.Offset < part.start:
				errs = append(errs, fmt.Errorf("%s: the log holds offsets %d to %d: %d were deleted before they were read (retention): read the topic with a new bridge, or accept the gap by 'flinksink positions set %s:%d:%d'",
					at, part.start, part.end-1, part.start-at.Offset, name, i, part.start))
			case at.Offset > part.end:
				errs = append(errs, fmt.Errorf("%s: the log holds offsets %d to %d: what was read is gone (a truncated or other log), or the position was set to where nothing is: read the topic with a new bridge, or accept it by 'flinksink positions set %s:%d:%d'",
					at, part.start, part.end-1, name, i, part.end))
			default:
				behind += part.end - at.Offset
			}
		}
	}
	if k.bad("positions", errors.Join(errs...)) {
		return
	}
	if s.dec != nil && len(state.Positions) > 0 && !k.aged(ctx, s, state) {
		return
	}
	if len(stored) > 0 {
		k.ok("positions", "%d partitions are where they can be read on, %d offsets behind the end", len(stored), behind)
	}
	if fresh > 0 {
		k.ok("positions", "%d partitions begin at %s", fresh, s.in.Start.Mode)
	}
	for _, p := range state.Pending {
		if p.Sink != "" {
			k.note("positions", "checkpoint %d.%d of sink %q is not yet known to be committed: the bridge does it first", p.Generation, p.Checkpoint, p.Sink)
		}
	}
}
