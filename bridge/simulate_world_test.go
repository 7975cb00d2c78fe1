package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const simTopic = "t"

// simWorld is one run of a plan, inside a bubble of virtual time.
type simWorld struct {
	plan  simPlan
	off   map[int]bool // faults that are left out
	began time.Time
	c     *kfake.Cluster
	net   simNet
	cl    *kgo.Client // of nobody: its network is never disturbed
	adm   *kadm.Client
	db    simDatabase
	table *changelog.Table
	log   *slog.Logger

	work sync.WaitGroup // everything that was started and ends by itself

	mu      sync.Mutex
	history []string
	failed  error
	took    time.Duration     // of virtual time
	met     map[string]int    // faults and other things that happened
	current []*simProcess     // of each slot
	over    bool              // nobody starts again
	calmed  bool              // nothing goes wrong any more
	anew    bool              // the topic is another one
	written [][]simMessage    // of each partition, by offset; of the topic that was there first
	decided []sink.Checkpoint // in the order of their Saves
	known   map[simWork]bool
	at      map[int32]int64 // saved positions
	topic   map[int32]changelog.TopicID
	total   sink.Counters
}

type simMessage struct {
	offset int64
	value  string
}

func (w *simWorld) note(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, fmt.Sprintf("%8v ", time.Since(w.began))+fmt.Sprintf(format, a...))
}

func (w *simWorld) fail(format string, a ...any) {
	w.mu.Lock()
	if w.failed == nil {
		w.failed = fmt.Errorf(format, a...)
	}
	w.mu.Unlock()
	w.note(format, a...)
}

func (w *simWorld) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *simWorld) count(what string) {
	w.mu.Lock()
	w.met[what]++
	w.mu.Unlock()
}

// run plays the plan but for some of its faults. server is what is written to.
func (p simPlan) run(off map[int]bool, server simServer, log *slog.Logger) *simWorld {
	w := &simWorld{plan: p, off: off, began: time.Now(), table: p.table(), log: log, met: map[string]int{}, known: map[simWork]bool{}, at: map[int32]int64{}, topic: map[int32]changelog.TopicID{},
		written: make([][]simMessage, p.parts), current: make([]*simProcess, p.slots+len(p.faults))}
	w.db.server = server
	if err := w.open(); err != nil {
		w.fail("%v", err)
		return w
	}
	defer w.c.Close()
	defer w.cl.Close()

	type happening struct {
		at time.Duration
		do func()
	}
	var all []happening
	for slot := range p.slots {
		all = append(all, happening{time.Duration(slot) * 100 * time.Millisecond, func() { w.start(slot) }})
	}
	for _, x := range p.writes {
		all = append(all, happening{x.at, func() { w.write(x) }})
	}
	for _, f := range p.faults {
		if !off[f.number] {
			all = append(all, happening{f.at, func() { w.happen(f) }})
		}
	}
	for _, at := range p.delivers {
		all = append(all, happening{at, w.deliver})
	}
	for at := 250 * time.Millisecond; at < simFaulty; at += 250 * time.Millisecond {
		all = append(all, happening{at, w.look})
	}
	slices.SortStableFunc(all, func(a, b happening) int { return cmp.Compare(a.at, b.at) })
	for _, h := range all {
		time.Sleep(h.at - time.Since(w.began))
		if h.do(); w.failure() != nil {
			break
		}
	}
	if time.Since(w.began) < simFaulty && w.failure() == nil {
		time.Sleep(simFaulty - time.Since(w.began))
	}
	w.calm()
	w.finish()
	w.took = time.Since(w.began)
	return w
}

// open makes the broker.
func (w *simWorld) open() error {
	var err error
	w.c, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(w.net.v.Listen), kfake.SeedTopics(int32(w.plan.parts), simTopic),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}))
	if err != nil {
		return err
	}
	if w.cl, err = kgo.NewClient(w.clientOptions(w.net.link())...); err != nil {
		w.c.Close()
		return err
	}
	w.adm = kadm.NewClient(w.cl)
	return nil
}

func (w *simWorld) clientOptions(l *simLink) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(l.dial), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression())}
}

// write appends to the topic.
func (w *simWorld) write(x simWrite) {
	w.mu.Lock()
	anew := w.anew
	w.mu.Unlock()
	cl, opts := w.cl, w.clientOptions(w.net.link())
	var err error
	switch { // a client takes a topic for the one that it knows
	case x.txn:
		opts = append(opts, kgo.TransactionalID("tx"))
		fallthrough
	case anew:
		if cl, err = kgo.NewClient(opts...); err != nil {
			w.fail("%v", err)
			return
		}
		defer cl.Close()
	}
	if x.txn {
		err = cl.BeginTransaction()
	}
	var rs []*kgo.Record
	for _, v := range x.values {
		rs = append(rs, &kgo.Record{Topic: simTopic, Partition: x.part, Value: []byte(v)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // a topic that was just deleted has no place for it
	defer cancel()
	if err == nil {
		err = cl.ProduceSync(ctx, rs...).FirstErr()
	}
	if x.txn && err == nil {
		err = cl.EndTransaction(ctx, kgo.TransactionEndTry(!x.abort))
	}
	switch {
	case anew:
	case err != nil:
		w.fail("writing: %v", err)
	case !x.abort:
		for _, r := range rs {
			w.written[x.part] = append(w.written[x.part], simMessage{r.Offset, string(r.Value)})
		}
	}
}

// finish waits for the end, stops everybody, and looks again when everything late has arrived.
func (w *simWorld) finish() {
	w.mu.Lock()
	anew := w.anew
	w.mu.Unlock()
	buried := false
	for w.failure() == nil {
		if anew {
			if w.left() == 0 {
				break
			}
		} else if w.complete() == nil {
			break
		}
		if time.Since(w.began) > simEnd {
			err := w.complete()
			if anew {
				err = fmt.Errorf("%d processes read on although the topic is another one", w.left())
			}
			w.fail("not done %v after the last fault: %v", simEnd-simFaulty, err)
			groups, err := w.adm.DescribeGroups(context.Background(), "sim")
			w.note("the group: %v %+v", err, groups)
			for slot := range w.current {
				if p := w.in(slot); p != nil {
					w.note("process %d.%d stands: %s", p.slot, p.life, describe(p.b))
				}
			}
			break
		}
		time.Sleep(200 * time.Millisecond)
		if !buried && time.Since(w.began) > simFaulty+10*time.Second {
			buried = true
			w.bury()
		}
	}
	if w.failure() == nil {
		time.Sleep(11 * time.Second) // longer than anybody waits who was in trouble
	}
	w.note("stopping")
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	for slot := range w.current {
		p := w.in(slot)
		if p == nil {
			continue
		}
		p.cancel()
		if <-p.done; p.err != nil && !p.told && !(anew && errors.Is(p.err, sink.ErrLost)) {
			w.fail("process %d.%d does not stop in order: %v", p.slot, p.life, p.err)
		}
	}
	w.deliver()
	w.work.Wait()
	if w.failure() != nil {
		return
	}
	if err := w.complete(); err != nil {
		w.fail("after late calls: %v", err)
	}
	if server, _, _ := w.db.now(); !anew && server.staged() > 0 {
		w.fail("%d pieces of prepared work are left", server.staged())
	}
}
