package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// simProcess is a bridge in a slot; the next one there is another process.
type simProcess struct {
	slot, life int
	link       *simLink
	access     *simAccess
	faults     *sinktest.Faults
	b          *Bridge
	cancel     context.CancelFunc
	death      sync.Once
	gone       chan struct{} // closed when it is as good as dead
	dead       time.Duration // after which its slot has another one; set before gone is closed
	back       time.Duration // the same of one that was told to stop
	told       bool          // to stop
	done       chan struct{}
	err        error
}

// start runs a slot: one process after the other, as a supervisor would.
func (w *simWorld) start(slot int) {
	w.work.Go(func() {
		for life := 0; ; life++ {
			p, err := w.process(slot, life)
			if err != nil {
				w.fail("%v", err)
				return
			}
			ctx, cancel := context.WithCancel(context.Background())
			p.cancel = cancel
			w.mu.Lock()
			if w.over {
				w.mu.Unlock()
				cancel()
				return
			}
			w.current[slot] = p
			w.mu.Unlock()
			w.work.Go(func() {
				defer cancel()
				p.err = p.b.Run(ctx)
				w.note("process %d.%d ends: %v", slot, life, p.err)
				close(p.done)
			})
			back := 300 * time.Millisecond
			select {
			case <-p.gone:
				back = p.dead
			case <-p.done:
				w.mu.Lock()
				told, anew, over := p.told, w.anew, w.over
				w.mu.Unlock()
				switch {
				case over:
					return
				case anew && errors.Is(p.err, sink.ErrLost):
					w.count("a process finds another topic")
					return
				case told:
					back = p.back
				default:
					w.count("a process ends by itself")
					if !mayEnd(p.err, anew) {
						w.fail("process %d.%d ends by itself: %v", slot, life, p.err)
						return
					}
				}
			}
			time.Sleep(back)
		}
	})
}

// mayEnd says whether an error may end a bridge, and a supervisor start it again.
func mayEnd(err error, anew bool) bool {
	return err != nil && (anew && strings.Contains(err.Error(), "does not exist at") || errors.Is(sink.ClassOf(err), sink.ErrUncertain) || errors.Is(err, sink.ErrTransient) || errors.Is(err, sink.ErrFenced) ||
		strings.Contains(err.Error(), "no answer from the brokers"))
}

func (w *simWorld) process(slot, life int) (*simProcess, error) {
	p := &simProcess{slot: slot, life: life, link: w.net.link(), access: &simAccess{w: w}, gone: make(chan struct{}), done: make(chan struct{})}
	var calls []sinktest.Fault
	for _, f := range w.plan.faults {
		if f.kind == simCall && f.slot == slot && f.life == life && !w.off[f.number] {
			call := f.call
			call.Do = func(context.Context) {
				w.count(simKinds[simCall])
				w.note("fault %v", f)
				if f.dies {
					w.kill(p, f)
				}
			}
			calls = append(calls, call)
		}
	}
	p.faults = sinktest.Faulty(calls...)
	w.mu.Lock()
	if w.calmed {
		p.faults.Stop()
	}
	w.mu.Unlock()
	o := &Options{
		Client:   append(w.clientOptions(p.link), kgo.HeartbeatInterval(300*time.Millisecond), kgo.SessionTimeout(2*time.Second), kgo.RebalanceTimeout(6*time.Second)),
		Interval: 100 * time.Millisecond,
		Watch:    time.Second,
		Lanes:    w.plan.lanes,
		OnData:   Skip,
		Hooks:    Hooks{Hooks: sink.Hooks{Fenced: func(error) { w.count("a generation is fenced") }}},
		Owner:    fmt.Sprintf("process %d.%d", slot, life),
		Logger:   w.log.With("process", fmt.Sprintf("%d.%d", slot, life)),
		commitHint: func(ctx context.Context, r *run, to map[changelog.Partition]hinted) error {
			if !w.plan.hints {
				return nil
			}
			return simHint(ctx, r, to)
		},
	}
	if w.plan.static {
		o.InstanceID = fmt.Sprintf("slot-%d", slot)
	}
	if !w.plan.inTx {
		o.Store = p.faults.Store(simStore{p.access})
	}
	var err error
	to := []Output{{Name: "sink", Sink: named{p.faults.Sink(simSink{a: p.access})}}}
	if w.plan.second {
		to = append(to, Output{Name: "second", Sink: named{p.faults.Sink(simSink{a: p.access, second: true})}})
	}
	p.b, err = NewMany("sim", []Input{{Topics: []string{simTopic}, Decoder: simDecoder{w.table}}}, to, o)
	return p, err
}

// named keeps the target's name, which is part of the bridge's fingerprint.
type named struct{ sink.Sink }

func (named) String() string { return "simulated" }

// simHint commits group offsets as kgo's commit does, but for its lock.
func simHint(ctx context.Context, r *run, to map[changelog.Partition]hinted) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = r.o.Group
	req.MemberID, req.Generation = r.cl.GroupMetadata()
	if instance := r.instance(); instance != "" {
		req.InstanceID = &instance
	}
	for p, h := range to {
		if !r.f.holds(p) {
			continue
		}
		text := h.hint.String()
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p.Partition, h.Offset, h.LeaderEpoch, &text
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID, t.Partitions = p.Topic, h.Position.TopicID, append(t.Partitions, rp)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, r.cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
		}
	}
	return err
}

// in returns the process of a slot, nil for none.
func (w *simWorld) in(slot int) *simProcess {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.current[slot]
	if p == nil {
		return nil
	}
	select {
	case <-p.gone:
		return nil
	case <-p.done:
		return nil
	default:
		return p
	}
}

// left counts the processes that hold something.
func (w *simWorld) left() int {
	n := 0
	for slot := range w.current {
		if p := w.in(slot); p != nil {
			n++
		}
	}
	return n
}
