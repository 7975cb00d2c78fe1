package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hintTimeout bounds one commit of group offsets.
const hintTimeout = 5 * time.Second

// hinter commits positions as the group's offsets, after the decision and beside the lanes, so that lag monitors see something true. Nothing is
// read from them, so a commit that fails, or is late, harms nobody. Their metadata says which checkpoint saved them: a store that holds
// less at a later start has lost something (see run.behindHint).
type hinter struct {
	r    *run
	more chan struct{} // capacity 1

	mu sync.Mutex
	to map[changelog.Partition]hinted
}

// hinted is a position with the checkpoint that saved it.
type hinted struct {
	changelog.Position
	hint
}

// hint hands on what the lane's coordinator has decided and committed.
func (l *lane) hint(_ context.Context, to []changelog.Position) {
	l.r.totals.mu.Lock()
	g, c := l.status.Generation, l.status.Checkpoint
	l.r.totals.mu.Unlock()
	l.r.hint.note(g, c, to)
}

// note takes the positions of a checkpoint; it never waits. A later position of a partition replaces one that was not yet committed.
func (h *hinter) note(generation sink.GenerationID, checkpoint sink.CheckpointID, to []changelog.Position) {
	h.mu.Lock()
	for _, p := range to {
		h.to[p.Partition] = hinted{p, hint{generation, checkpoint, p.TopicID}}
	}
	h.mu.Unlock()
	signal(h.more)
}

// run commits until ctx ends, and then once more what is left.
func (h *hinter) run(ctx context.Context) {
	for {
		select {
		case <-h.more:
			h.commit()
		case <-ctx.Done():
			h.commit()
			return
		}
	}
}

// commit has its own end: the last positions are worth a moment when everything else stops.
func (h *hinter) commit() {
	h.mu.Lock()
	to := h.to
	h.to = make(map[changelog.Partition]hinted)
	h.mu.Unlock()
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for p, pos := range to {
		if !h.r.f.holds(p) {
			continue // its owner knows better by now
		}
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: pos.LeaderEpoch, Offset: pos.Offset}
	}
	if len(offsets) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hintTimeout)
	defer cancel()
	if f := h.r.o.commitHint; f != nil {
		h.answered(f(ctx, h.r, to))
		return
	}
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				if p, ok := to[changelog.Partition{Topic: t.Topic, Partition: t.Partitions[j].Partition}]; ok {
					text := p.hint.String()
					t.Partitions[j].Metadata = &text
				}
			}
		}
		return nil
	})
	h.r.cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if e := kerr.ErrorForCode(p.ErrorCode); e != nil {
						err = e
					}
				}
			}
		}
		h.answered(err)
	})
}

func (h *hinter) answered(err error) {
	if err != nil {
		h.r.log.Debug("flinksink: group offsets were not committed; lag monitors see older ones", "bridge", h.r.name, "error", err)
	}
}

func (f *fetcher) holds(p changelog.Partition) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.parts[p] != nil
}
