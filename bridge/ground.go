package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kadm"
)

// This file looks whether stored positions are still what the bridge left there: before a lane acquires partitions, and when it is sent
// back to positions. What the log itself shows of a position, that it lies outside of it or belongs to another topic, is in source.go.

// ground looks at what is stored for partitions before they are acquired, and whether they are still this member's to acquire. Afterwards would be too late: a generation that begins may
// save at once (what is there to settle), which makes an old position look like one of today.
func (l *lane) ground(ctx context.Context, parts []changelog.Partition) (ours bool, err error) {
	// The group's offsets first. They are written after the decision, so a store that is asked later holds at least as much, whoever saves
	// meanwhile; the other way round a process that was stopped in between would take its successor's checkpoint for one that was lost.
	hints, err := l.r.hints(ctx)
	if err != nil {
		return false, err
	}
	stored, err := l.stored(ctx)
	if err != nil {
		return false, err
	}
	mine := make(map[changelog.Partition]sink.StoredPosition, len(parts))
	for _, p := range parts {
		if sp, ok := stored[p]; ok {
			mine[p] = sp
		}
	}
	var at []changelog.Position
	for _, p := range parts {
		if sp, ok := mine[p]; ok {
			at = append(at, sp.Position)
		}
	}
	if back, saw := l.fallen(at); len(back) > 0 { // held before, and known from then
		if err := l.judge(back, saw, stored); err != nil {
			return false, err
		}
	} else if err := l.r.behindHint(hints, parts, mine); err != nil {
		return false, err
	}
	if err := l.r.missedDeletes(ctx, mine); err != nil {
		return false, err
	}
	return l.stillOurs(ctx)
}

// stored reads the store, for as long as it takes: what follows must not be done without.
func (l *lane) stored(ctx context.Context) (map[changelog.Partition]sink.StoredPosition, error) {
	for n := 1; ; n++ {
		st, err := l.co.Store().Read(ctx, l.r.name)
		if err == nil {
			out := make(map[changelog.Partition]sink.StoredPosition, len(st.Positions))
			for _, p := range st.Positions {
				out[p.Position.Partition] = p
			}
			return out, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if c := sink.ClassOf(err); c != sink.ErrTransient && c != sink.ErrUncertain {
			return nil, err
		}
		if h := l.hooks.Retry; h != nil {
			h(err, n)
		}
		l.r.log.Warn("flinksink: reading the stored positions failed, and is tried again", "bridge", l.r.name, "lane", l.n, "try", n, "error", err)
		select {
		case <-time.After(l.r.pause(n)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// pause is how long to wait before the nth try, for the coordinators too: it doubles from 100 ms to 10 s, less up to half of it at random, so
// that lanes that failed together do not return together. Longer would be of no use to a server that is back, and a lane that sleeps on
// while the others have recovered looks broken.
func (r *run) pause(n int) time.Duration {
	if r.o.backoff != nil {
		return r.o.backoff(n)
	}
	d := min(100*time.Millisecond<<min(n-1, 9), 10*time.Second)
	return d - rand.N(d/2)
}

// WentBack describes a store that forgot: it holds an older position than one that it had said to be saved.
type WentBack struct {
	Partition changelog.Partition
	Stored    int64  // what the store holds now
	Was       int64  // what was saved
	How       string // how this is known, a sentence without a full stop
	// Together says that the target went back with the positions, because rows and positions are one transaction: the bridge reads again
	// what was lost, and the table is right afterwards. Else the bridge halts with an ErrLost.
	Together bool
}

// wentBack is told once for each partition and place that the store fell back to. Where the rows live with the positions they went back
// together, and to read again is right; anywhere else the rows of the lost checkpoints stand, and to apply them again is not exactly once.
func (r *run) wentBack(stored changelog.Position, was int64, how string) error {
	w := WentBack{Partition: stored.Partition, Stored: stored.Offset, Was: was, How: how, Together: r.o.Store == nil}
	if h := r.o.Hooks.WentBack; h != nil {
		h(w)
	}
	if w.Together {
		r.log.Warn("flinksink: the store went back: it lost checkpoints that were decided (a failover, a restored backup). Rows and positions went back together, so what was lost is read again",
			"bridge", r.name, "partition", stored.Partition.String(), "stored", w.Stored, "was", w.Was, "how", how)
		return nil
	}
	return r.lost("acquire", stored, fmt.Errorf("the store went back: %s, and it now holds %d (a failover or a restored backup that lost commits). "+
		"The rows of offsets %d to %d are in the target and would be applied again. Bring the target to where the store is, or, if it may have them again "+
		"(a table with a key may), accept by 'flinksink positions set %s:%d:%d' of this bridge, or the store's SetPositions, which sets what is stored already; to leave them out, set %d",
		how, w.Stored, w.Stored, was-1, stored.Topic, stored.Partition.Partition, w.Stored, was))
}

// hints asks for the group's committed offsets. nil: they cannot be known now.
func (r *run) hints(ctx context.Context) (kadm.OffsetResponses, error) {
	ask, cancel := context.WithTimeout(ctx, r.o.Connect)
	defer cancel()
	committed, err := r.adm.FetchOffsets(ask, r.o.Group)
	if err == nil {
		return committed, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.log.Warn("flinksink: cannot compare the stored positions with the group's offsets", "bridge", r.name, "group", r.o.Group, "error", err)
	return nil, nil
}

// behindHint compares stored positions with the group's committed offsets of before they were read. Those are a hint and never where reading
// begins; but they are written after a decision only, so one that is beyond the store says that the store forgot.
//
// A position that was moved by hand is no such case: it is of no generation until the next checkpoint, and that one is of a
// later generation than the hint.
func (r *run) behindHint(committed kadm.OffsetResponses, parts []changelog.Partition, stored map[changelog.Partition]sink.StoredPosition) error {
	for _, p := range parts {
		o, ok := committed.Lookup(p.Topic, p.Partition)
		if !ok || o.Err != nil {
			continue
		}
		h, ok := parseHint(o.Metadata)
		if !ok {
			continue
		}
		sp, ok := stored[p]
		switch {
		case !ok:
			r.log.Warn("flinksink: the group's offset says that the bridge was here before, and nothing is stored: it begins at its start setting. If nobody reset it "+
				"(flinksink positions reset), the store was lost: then empty a target that has no key", "bridge", r.name, "partition", p.String(), "groupOffset", o.At)
		case sp.Generation == 0, // by hand
			sp.TopicID != h.topicID && sp.TopicID != (changelog.TopicID{}) && h.topicID != (changelog.TopicID{}),
			sp.Offset >= o.At,
			sp.Generation > h.generation, sp.Generation == h.generation && sp.Checkpoint >= h.checkpoint:
		default:
			how := fmt.Sprintf("checkpoint %d.%d was saved with offset %d, as the group's offset says", h.generation, h.checkpoint, o.At)
			if err := r.wentBack(sp.Position, o.At, how); err != nil {
				return err
			}
		}
	}
	return nil
}

// fellBack compares positions that the lane is sent to with those that it saw saved.
func (l *lane) fellBack(ctx context.Context, to []changelog.Position) error {
	back, saw := l.fallen(to)
	if len(back) == 0 {
		return nil
	}
	stored, err := l.stored(ctx)
	if err != nil {
		return err
	}
	return l.judge(back, saw, stored)
}

// fallen returns those positions that lie before what the lane saw saved of their partitions, and what that was.
func (l *lane) fallen(to []changelog.Position) (back []changelog.Position, saw map[changelog.Partition]int64) {
	saw = make(map[changelog.Partition]int64)
	f := l.r.f
	f.mu.Lock()
	for _, p := range to {
		part := f.parts[p.Partition]
		if part == nil || part.saved <= p.Offset || part.topicID != p.TopicID && part.topicID != (changelog.TopicID{}) && p.TopicID != (changelog.TopicID{}) {
			continue
		}
		back, saw[p.Partition] = append(back, p), part.saved
	}
	f.mu.Unlock()
	return back, saw
}

// judge says whether positions that fell back were moved by hand, or the store went back.
func (l *lane) judge(back []changelog.Position, saw map[changelog.Partition]int64, stored map[changelog.Partition]sink.StoredPosition) error {
	for _, p := range back {
		sp, ok := stored[p.Partition]
		if !ok || sp.Generation == 0 {
			l.r.log.Info("flinksink: the position was moved by hand while the bridge ran", "bridge", l.r.name, "lane", l.n, "partition", p.Partition.String(), "from", saw[p.Partition], "to", p.Offset)
		} else if err := l.r.wentBack(p, saw[p.Partition], fmt.Sprintf("this process saw offset %d saved", saw[p.Partition])); err != nil {
			return err
		}
	}
	l.r.saved(back)
	return nil
}

// hint is what a group offset says beside the offset, in its metadata.
type hint struct {
	generation sink.GenerationID
	checkpoint sink.CheckpointID
	topicID    changelog.TopicID
}

// hintPrefix begins the metadata of the offsets that a bridge commits; the digit is the version of what follows.
const hintPrefix = "flinksink/1 "

func (h hint) String() string {
	id := h.topicID.String()
	if h.topicID == (changelog.TopicID{}) {
		id = "-"
	}
	return fmt.Sprintf("%s%d.%d %s", hintPrefix, h.generation, h.checkpoint, id)
}

// parseHint reports false for metadata that somebody else wrote.
func parseHint(s string) (h hint, ok bool) {
	s, ok = strings.CutPrefix(s, hintPrefix)
	if !ok {
		return hint{}, false
	}
	number, id, _ := strings.Cut(s, " ")
	generation, checkpoint, _ := strings.Cut(number, ".")
	g, err1 := strconv.ParseInt(generation, 10, 64)
	c, err2 := strconv.ParseInt(checkpoint, 10, 64)
	var err3 error
	if id != "-" {
		h.topicID, err3 = changelog.ParseTopicID(id)
	}
	if errors.Join(err1, err2, err3) != nil || g < 1 || c < 1 {
		return hint{}, false
	}
	h.generation, h.checkpoint = sink.GenerationID(g), sink.CheckpointID(c)
	return h, true
}
