package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// OpenTransaction describes a partition whose last stable offset stands still: records behind it wait until a producer ends its
// transaction, or the broker does after its timeout. Nothing is skipped meanwhile.
type OpenTransaction struct {
	Partition        changelog.Partition
	LastStableOffset int64         // the first offset that is not readable yet
	HighWatermark    int64         // where the partition ends
	For              time.Duration // how long it was seen to stand still
	TransactionalID  string        // whose transaction it is, "" where the brokers do not tell
	ProducerID       int64         // of that transaction, -1 unknown
}

// Cure says how to get past it: the producer that ends its transaction is best. Where none is left to do that and the broker's timeout does not end it
// either (a hanging transaction: its coordinator has forgotten it), Kafka's own tool writes the missing marker.
func (t OpenTransaction) Cure() string {
	who := "the producer whose transaction it is (kafka-transactions.sh list and describe-producers name it)"
	switch {
	case t.TransactionalID != "":
		who = fmt.Sprintf("the producer with the transactional id %q", t.TransactionalID)
	case t.ProducerID >= 0:
		who = fmt.Sprintf("the producer with the producer id %d", t.ProducerID)
	}
	return fmt.Sprintf("have %s commit or abort, or wait until its transaction.timeout.ms is over; if it is gone and the offset still stands, "+
		"kafka-transactions.sh --bootstrap-server ... abort --topic %s --partition %d --start-offset %d", who, t.Partition.Topic, t.Partition.Partition, t.LastStableOffset)
}

// watcher asks for what no fetch shows: a poll returns nothing, neither offsets nor watermarks, for a partition that has no records.
type watcher struct {
	r      *run
	began  time.Time
	waits  bool                              // that the group gives no partitions was said
	looked time.Time                         // when partitions were last looked at
	missed map[changelog.Partition]time.Time // marks for which missed deletes were accepted
	stood  map[changelog.Partition]stand
	absent map[string]time.Time // topics that the brokers do not know, and since when
}

// stand is a last stable offset that does not move.
type stand struct {
	at    int64
	since time.Time
	told  bool
}

// run looks until ctx ends. An error ends the bridge.
func (w *watcher) run(ctx context.Context) error {
	every := w.r.o.Watch
	if w.r.end != nil {
		every = min(every, 500*time.Millisecond) // an end that no record shows should not be waited for long
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		w.looked = time.Now()
		w.r.f.look(w.looked)
		w.joining(time.Now())
		look, cancel := context.WithTimeout(ctx, max(every, w.r.o.Connect))
		err := w.look(look)
		cancel()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// defaultJoiningAfter is how long the group may take to let the member in before it is said.
const defaultJoiningAfter = 5 * time.Second

// joining says once that the group does not let the member in: it waits for its other members, and a dead one counts until its session is over.
func (w *watcher) joining(now time.Time) {
	if w.waits || w.r.m.Generation() >= 0 || now.Sub(w.began) < w.r.o.joiningAfter {
		return
	}
	w.waits = true
	session, _ := w.r.cl.OptValue(kgo.SessionTimeout).(time.Duration)
	w.r.log.Warn("flinksink: the consumer group has given no partitions yet: it waits for its other members. One that died counts until its session is over (session.timeout.ms of that "+
		"member); a restart is quicker with the same Options.InstanceID (--instance)", "bridge", w.r.name, "group", w.r.o.Group, "sessionTimeout", session)
}

func (w *watcher) look(ctx context.Context) error {
	f := w.r.f
	topics := slices.Sorted(maps.Keys(w.r.topics))
	found, err := f.metadata(ctx, topics)
	if err != nil {
		w.r.log.Debug("flinksink: asking for topics failed", "bridge", w.r.name, "error", err)
		return nil
	}
	if err := w.deleted(found); err != nil {
		return err
	}
	high, errHigh := f.adm.ListEndOffsets(ctx, topics...)
	last, _ := f.adm.ListCommittedOffsets(ctx, topics...)
	var idle []probe
	f.mu.Lock()
	if errHigh == nil {
		f.asked = time.Now()
	}
	for p, part := range f.parts {
		id := found[p.Topic].id
		if part.holds&holdStart == 0 && id != (changelog.TopicID{}) && part.topicID != (changelog.TopicID{}) && id != part.topicID {
			at := changelog.Position{Partition: p, Offset: part.next, LeaderEpoch: -1, TopicID: part.topicID}
			f.mu.Unlock()
			return w.r.lost("watch", at, recreated(at, id))
		}
		if o, ok := high.Lookup(p.Topic, p.Partition); ok && o.Err == nil {
			part.high = max(part.high, o.Offset)
		}
		if o, ok := last.Lookup(p.Topic, p.Partition); ok && o.Err == nil {
			part.last = max(part.last, o.Offset)
		}
		if part.holds == 0 && part.next < part.last && part.taken == part.seen {
			if leader, ok := found[p.Topic].leaders[p.Partition]; ok && leader >= 0 {
				idle = append(idle, probe{part: part, epoch: part.epoch.Load(), from: part.next, leader: leader, topicID: part.topicID})
			}
		}
		part.seen = part.taken
	}
	f.mu.Unlock()
	for _, p := range idle {
		w.probe(ctx, p)
	}
	w.open(ctx)
	return w.standing(ctx, time.Now())
}

// defaultDeletedAfter is how long the brokers must not know a topic before it counts as deleted: a broker that has just started may not know
// it yet.
const defaultDeletedAfter = 15 * time.Second

// look notes how partitions move. It asks nobody, so that it sees them stand while the brokers are away too.
func (f *fetcher) look(now time.Time) {
	f.mu.Lock()
	for _, p := range f.parts {
		p.look(now)
	}
	f.mu.Unlock()
	f.r.pace.add(now, f.r.status().Partitions)
}

// deleted reports a topic that was deleted while it is read. The client itself asks for it for ever and says nothing.
func (w *watcher) deleted(found map[string]topic) error {
	now := time.Now()
	for name, t := range found {
		if !errors.Is(t.err, kerr.UnknownTopicOrPartition) {
			delete(w.absent, name)
			continue
		}
		since, ok := w.absent[name]
		if !ok {
			w.absent[name] = now
			continue
		}
		if now.Sub(since) < w.r.o.deletedAfter {
			continue
		}
		w.r.f.mu.Lock()
		at := changelog.Position{Partition: changelog.Partition{Topic: name}, LeaderEpoch: -1}
		for p, part := range w.r.f.parts {
			if p.Topic == name {
				at = changelog.Position{Partition: p, Offset: part.next, LeaderEpoch: -1, TopicID: part.topicID}
				break
			}
		}
		w.r.f.mu.Unlock()
		return w.r.lost("watch", at, fmt.Errorf("the topic does not exist any more: the brokers have not known it for %s. What was written of it stands; "+
			"stop the bridge for good, or make the topic again and read it with a new bridge, or with this one after 'flinksink positions reset'", now.Sub(since).Round(time.Second)))
	}
	return nil
}

// probe is a partition that has offsets to read and yields nothing.
type probe struct {
	part    *partition
	epoch   int64
	from    int64
	leader  int32
	topicID changelog.TopicID
}

// probe moves a position over offsets that hold no record: the client passes over batches that compaction emptied without a word, so a
// partition that ends with them would never be seen to be read to its end.
func (w *watcher) probe(ctx context.Context, p probe) {
	f := w.r.f
	fp, to, err := f.fetchOnce(ctx, p.part.Partition, p.topicID, p.leader, p.from, kgo.ReadCommitted())
	if err != nil || len(fp.Records) > 0 || to <= p.from {
		return // there is something to read: the client will
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.parts[p.part.Partition] == p.part && p.part.epoch.Load() == p.epoch && p.part.next == p.from {
		p.part.next = to
		if p.part.bound >= 0 && to >= p.part.bound {
			f.setHold(holdEnd, true, p.part)
		}
		f.push(p.part, chunk{part: p.part, epoch: p.epoch, to: to, leader: -1, topicID: p.topicID})
	}
}

// open tells of last stable offsets that stand still below the end of their partitions.
func (w *watcher) open(ctx context.Context) {
	f := w.r.f
	now := time.Now()
	var tell []OpenTransaction
	f.mu.Lock()
	for p, part := range f.parts {
		if part.last < 0 || part.last >= part.high {
			delete(w.stood, p)
			part.open = nil
			continue
		}
		s, ok := w.stood[p]
		if !ok || s.at != part.last {
			w.stood[p] = stand{at: part.last, since: now}
			part.open = nil
			continue
		}
		if !s.told && now.Sub(s.since) >= w.r.o.OpenFor {
			s.told = true
			w.stood[p] = s
			tell = append(tell, OpenTransaction{Partition: p, LastStableOffset: part.last, HighWatermark: part.high, For: now.Sub(s.since), ProducerID: -1})
		}
	}
	f.mu.Unlock()
	for _, t := range tell {
		t.ProducerID, t.TransactionalID = producer(ctx, w.r.adm, t)
		f.mu.Lock()
		if part := f.parts[t.Partition]; part != nil && part.last == t.LastStableOffset {
			part.open, part.openSince = &t, now.Add(-t.For)
		}
		f.mu.Unlock()
		w.r.log.Warn("flinksink: an open transaction keeps records from being read", "bridge", w.r.name, "partition", t.Partition.String(),
			"lastStableOffset", t.LastStableOffset, "highWatermark", t.HighWatermark, "transactionalID", t.TransactionalID, "producerID", t.ProducerID, "cure", t.Cure())
		if h := w.r.o.Hooks.OpenTransaction; h != nil {
			h(t)
		}
	}
}

// producer asks whose transaction begins at a last stable offset. Brokers before 3.0 cannot say, nor those that forbid it.
func producer(ctx context.Context, adm *kadm.Client, t OpenTransaction) (id int64, name string) {
	var s kadm.TopicsSet
	s.Add(t.Partition.Topic, t.Partition.Partition)
	described, err := adm.DescribeProducers(ctx, s)
	if err != nil {
		return -1, ""
	}
	id = -1
	described.EachProducer(func(p kadm.DescribedProducer) {
		if p.CurrentTxnStartOffset == t.LastStableOffset {
			id = p.ProducerID
		}
	})
	if id < 0 {
		return -1, ""
	}
	txns, err := adm.ListTransactions(ctx, []int64{id}, nil)
	if err != nil {
		return id, ""
	}
	for _, t := range txns {
		if t.ProducerID == id {
			name = t.TxnID
		}
	}
	return id, name
}
