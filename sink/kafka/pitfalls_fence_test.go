package kafka_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// P80: the broker forgets an id that was idle for long, and its owner wakes up. It writes nothing under it; the lane acquires anew. What it committed before
// is still known, by the log.
func TestPitfall_IDExpired(t *testing.T) {
	for _, m := range modes() {
		// On a busy machine the broker may forget the id before there is something to remember: then it is given longer.
		for after := 50 * time.Millisecond; !idExpired(t, m, after); after *= 4 {
			if after > time.Minute {
				t.Fatalf("%s: the id was forgotten within %v of its first use", m, after)
			}
		}
	}
}

// idExpired reports false when the broker forgot an id that was in use.
func idExpired(t *testing.T, m mode, after time.Duration) bool {
	e := newFake(t, kfake.BrokerConfigs(map[string]string{"transactional.id.expiration.ms": strconv.FormatInt(after.Milliseconds(), 10)}))
	w := newWorld(t, e, m, sinktest.Appended())
	d, cl, err := w.lane()
	must(t, err)
	defer cl.Close()
	tooSoon := func(err error) bool {
		if err != nil && !errors.Is(sink.ClassOf(err), sink.ErrFenced) && !errors.Is(sink.ClassOf(err), sink.ErrUncertain) {
			wants(t, err, sink.ErrTransient)
		}
		return err != nil
	}
	if tooSoon(d.Acquire(t.Context(), 0, 1)) || tooSoon(d.Open(t.Context())) || tooSoon(d.Write(t.Context(), 1)) || tooSoon(d.Prepare(t.Context())) {
		return false
	}
	one := d.Receipt
	if tooSoon(d.Save(t.Context())) {
		return false
	}
	if err := d.Commit(t.Context()); err != nil {
		return false
	}
	for known := true; known; {
		found, err := e.kadm.DescribeTransactions(t.Context())
		must(t, err)
		known = len(found) > 0
	}
	first := d.From
	must(t, d.Write(t.Context(), 1))
	if err := d.Prepare(t.Context()); !errors.Is(sink.ClassOf(err), sink.ErrFenced) && !errors.Is(sink.ClassOf(err), sink.ErrTransient) {
		t.Fatalf("the owner of a forgotten id prepared: %v", err)
	}
	must(t, d.Discard(t.Context()))
	must(t, d.CommitOne(t.Context(), one))
	w.sees(t, string(m), first...)
	if tooSoon(carry(t.Context(), d, 1)) { // forgotten again
		return false
	}
	w.sees(t, string(m), w.topic.End(0), w.topic.End(1))
	return true
}

// An InitProducerID that was not answered may arrive at any later time, and would abort what is open then: it is not repeated, and uses up the generation.
func TestPitfall_UnclearInit(t *testing.T) {
	for _, m := range modes() {
		e := newFake(t)
		w := newWorld(t, e, m, sinktest.Appended())
		var mu sync.Mutex
		asked := 0 // for the id of generation 1
		f := &wire{key: int16(kmsg.InitProducerID), nth: 2, answer: true}
		f.before = func(key int16, request []byte) {
			if key == int16(kmsg.InitProducerID) && strings.Contains(string(request), w.o.Prefix+"."+sinktest.Bridge) && !strings.Contains(string(request), ".0") {
				mu.Lock()
				asked++
				mu.Unlock()
			}
		}
		d, cl, err := w.lane(f.through())
		must(t, err)
		defer cl.Close()
		must(t, d.Acquire(t.Context(), 0, 1)) // asks for the id of the bridge
		wants(t, d.Open(t.Context()), sink.ErrTransient)
		wants(t, d.Open(t.Context()), sink.ErrTransient)
		mu.Lock()
		if asked != 1 {
			t.Errorf("%s: InitProducerID was sent %d times for one generation", m, asked)
		}
		mu.Unlock()
		must(t, carry(t.Context(), d, 1))
		w.sees(t, string(m), w.topic.End(0), w.topic.End(1))
	}
}

// A checkpoint is saved after its successor's Acquire has read the store, and before that takes the generation's id: the claim tells of it all the same.
func TestPitfall_SavedInBetween(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		for _, m := range modes() {
			w := newWorld(t, e, m, sinktest.Appended())
			d := w.opened(t)
			must(t, d.Write(t.Context(), 2))
			must(t, d.Prepare(t.Context()))
			var once sync.Once
			f := &wire{key: int16(kmsg.InitProducerID), nth: -1}
			f.before = func(key int16, request []byte) {
				if key == int16(kmsg.InitProducerID) && !strings.Contains(string(request), ".0") {
					once.Do(func() { must(t, d.Save(context.Background())) })
				}
			}
			next, cl, err := w.lane(f.through())
			must(t, err)
			defer cl.Close()
			must(t, next.Acquire(t.Context(), 0, 1))
			if next.From[0].Offset != 2 || next.From[1].Offset != 2 {
				t.Errorf("%s: the successor begins at %v, saved was offset 2", m, next.From)
			}
			must(t, next.Open(t.Context()))
			w.sees(t, string(m), next.From...)
			must(t, carry(t.Context(), next, 1))
			w.sees(t, string(m), w.topic.End(0), w.topic.End(1))
		}
	})
}

// P33: a zombie aborts what it had prepared. A broker answers the repetition of an EndTxn with the next epoch, which here is one of its successor's fence: it must not
// come by that one, and write again.
func TestPitfall_ZombieAborts(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		for _, m := range modes() {
			w := newWorld(t, e, m, sinktest.Appended())
			d := w.opened(t)
			must(t, d.Write(t.Context(), 1))
			must(t, d.Prepare(t.Context()))
			next := w.opened(t)
			_ = d.Abort(t.Context())
			_ = d.Discard(t.Context())
			err := d.Write(t.Context(), 1)
			if err == nil {
				err = d.Prepare(t.Context())
			}
			wants(t, err, sink.ErrFenced)
			must(t, carry(t.Context(), next, 1))
			w.sees(t, string(m), w.topic.End(0), w.topic.End(1))
		}
	})
}
