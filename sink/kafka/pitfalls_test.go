package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// opened is a lane that has acquired both partitions and opened.
func (w *world) opened(t *testing.T, o ...kgo.Opt) *sinktest.Driver {
	t.Helper()
	d, cl, err := w.lane(o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	must(t, d.Acquire(t.Context(), 0, 1))
	must(t, d.Open(t.Context()))
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err, class error, says ...string) {
	t.Helper()
	if err == nil || !errors.Is(sink.ClassOf(err), class) {
		t.Fatalf("%v, expected %v", err, class)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
}

func both(t *testing.T, f func(t *testing.T, e *env)) {
	t.Run("kfake", func(t *testing.T) { f(t, newFake(t)) })
	t.Run("real", func(t *testing.T) { f(t, newReal(t)) })
}

// P83, P95: a decided transaction that the broker timed out is ErrLost that names the offsets, for its own lane and for its successor, and never
// "done already".
func TestPitfall_TimedOut(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		// On a busy machine the transaction may have had its time before it is decided: then it is given longer.
		for after := time.Second; !timedOut(t, e, after); after *= 4 {
			if after > time.Minute {
				t.Fatalf("the transaction had had %v before it was decided", after)
			}
		}
	})
}

// timedOut reports false when the transaction had its time before it was decided.
func timedOut(t *testing.T, e *env, after time.Duration) bool {
	w := newWorld(t, e, twoPhase, sinktest.Appended())
	w.o.TransactionTimeout, w.o.MaxDowntime = after, kafka.NoDowntime
	d, cl, err := w.lane()
	must(t, err)
	defer cl.Close()
	ctx := t.Context()
	for _, step := range []func() error{func() error { return d.Acquire(ctx, 0, 1) }, func() error { return d.Open(ctx) }, func() error { return d.Write(ctx, 2) },
		func() error { return d.Prepare(ctx) }, func() error { return d.Save(ctx) }} {
		if err := step(); err != nil {
			if class := sink.ClassOf(err); class != sink.ErrFenced && class != sink.ErrUncertain {
				wants(t, err, sink.ErrTransient)
			}
			return false
		}
	}
	for open := true; open; { // until the broker has timed it out
		found, err := e.kadm.DescribeTransactions(ctx, txnID(t, d.Receipt))
		must(t, err)
		open = false
		for _, f := range found {
			open = f.State == "Ongoing" || strings.HasPrefix(f.State, "Prepare")
		}
	}
	for range 2 {
		wants(t, d.Commit(ctx), sink.ErrLost, "/0@0", "/0@2", "TransactionTimeout")
	}
	w.o.TransactionTimeout = 0 // of what the successor saves itself
	next, other, err := w.lane()
	must(t, err)
	defer other.Close()
	must(t, next.Acquire(ctx, 0, 1))
	wants(t, next.Open(ctx), sink.ErrLost, "/1@2")
	w.sees(t, "after the time-out")
	return true
}

// txnID reads the transactional id out of a receipt.
func txnID(t *testing.T, c sink.Committable) string {
	t.Helper()
	_, rest, ok := strings.Cut(string(c.Data), `"transactional_id":"`)
	id, _, ok2 := strings.Cut(rest, `"`)
	if !ok || !ok2 {
		t.Fatalf("no id in %s", c.Data)
	}
	return id
}

// P83: the log that told what became of a transaction is cut. The coordinator remembers the last one of an id; of an older one nobody knows any more, and that is
// said.
func TestPitfall_ProofCut(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, twoPhase, sinktest.Appended())
		d := w.opened(t)
		cut := func() {
			ends, err := e.kadm.ListEndOffsets(t.Context(), w.target(w.topic.Table).table.Options["topic"])
			must(t, err)
			resp, err := e.kadm.DeleteRecords(t.Context(), ends.Offsets())
			must(t, err)
			must(t, resp.Error())
		}
		must(t, d.Write(t.Context(), 1))
		must(t, d.Prepare(t.Context()))
		one := d.Receipt
		must(t, d.Save(t.Context()))
		must(t, d.Commit(t.Context()))
		cut()
		must(t, d.CommitOne(t.Context(), one)) // the coordinator answers for it
		must(t, d.Write(t.Context(), 1))
		must(t, d.Prepare(t.Context()))
		must(t, d.Save(t.Context()))
		must(t, d.Commit(t.Context()))
		cut()
		wants(t, d.CommitOne(t.Context(), one), sink.ErrLost, "nothing tells", "/0@0")
	})
}

// With a topic of its own for proofs, an old transaction is known for as long as that keeps its records.
func TestPitfall_ProofTopic(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, twoPhase, sinktest.Appended())
		var err error
		w.o.ProofTopic, err = e.topic(t.Context(), "proof", 1, nil)
		must(t, err)
		d := w.opened(t)
		checkpoint := func() sink.Committable {
			must(t, d.Write(t.Context(), 1))
			must(t, d.Prepare(t.Context()))
			r := d.Receipt
			must(t, d.Save(t.Context()))
			must(t, d.Commit(t.Context()))
			return r
		}
		one := checkpoint()
		checkpoint()
		ends, err := e.kadm.ListEndOffsets(t.Context(), w.target(w.topic.Table).table.Options["topic"])
		must(t, err)
		resp, err := e.kadm.DeleteRecords(t.Context(), ends.Offsets())
		must(t, errors.Join(err, resp.Error()))
		must(t, d.CommitOne(t.Context(), one))
		must(t, d.Write(t.Context(), 1))
		must(t, d.Prepare(t.Context()))
		aborted := d.Receipt
		must(t, d.Abort(t.Context()))
		checkpoint()
		wants(t, d.CommitOne(t.Context(), aborted), sink.ErrLost, "aborted")
		must(t, d.Prepare(t.Context())) // a checkpoint of nothing leaves no proof
		if !d.Receipt.Empty() {
			t.Errorf("a receipt of nothing: %s", d.Receipt.Data)
		}
	})
}

// The topic is deleted and made anew while a lane writes to it: what it acknowledged is gone, so it is ErrLost, and the lane does not go on as if nothing had
// been.
func TestPitfall_TargetRemade(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, twoPhase, sinktest.Appended())
		d := w.opened(t)
		must(t, d.Write(t.Context(), 1))
		must(t, d.Prepare(t.Context()))
		must(t, d.Save(t.Context()))
		must(t, d.Commit(t.Context()))
		topic := w.target(w.topic.Table).table.Options["topic"]
		_, err := e.kadm.DeleteTopics(t.Context(), topic)
		must(t, err)
		for made := false; !made; {
			resp, err := e.kadm.CreateTopic(t.Context(), partitions, 1, nil, topic)
			if made = err == nil && resp.Err == nil; !made && !errors.Is(err, kerr.TopicAlreadyExists) {
				t.Fatal(err, resp.Err)
			}
		}
		must(t, d.Write(t.Context(), -1))
		wants(t, d.Prepare(t.Context()), sink.ErrLost, topic, "made anew")
	})
}

// P84: the process dies with checkpoint 1 committed or not, and checkpoint 2 open. Its successor settles 1, aborts 2 at once, and goes on.
func TestPitfall_NextOneOpen(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, twoPhase, sinktest.Appended())
		d := w.opened(t)
		must(t, d.Write(t.Context(), 1))
		must(t, d.Prepare(t.Context()))
		must(t, d.Save(t.Context()))
		must(t, d.Commit(t.Context()))
		first := d.From
		must(t, d.Write(t.Context(), 1))
		must(t, d.Prepare(t.Context()))
		next := w.opened(t)
		w.sees(t, "after the successor's Open", first...)
		must(t, carry(t.Context(), next, -1))
		w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
	})
}

// P81: a checkpoint without a record sends no EndTxn; "concurrent transactions" passes; the lane stays usable.
func TestPitfall_EmptyAndConcurrent(t *testing.T) {
	e := newFake(t)
	w := newWorld(t, e, twoPhase, sinktest.Appended())
	d := w.opened(t)
	must(t, d.Write(t.Context(), 1))
	must(t, d.Prepare(t.Context()))
	must(t, d.Save(t.Context()))
	must(t, d.Commit(t.Context()))
	prefix := w.o.Prefix
	seen := e.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Observe: true, Count: -1, When: func(r kmsg.Request) bool {
		return strings.HasPrefix(r.(*kmsg.EndTxnRequest).TransactionalID, prefix) && r.(*kmsg.EndTxnRequest).TransactionalID == txnID(t, d.Receipt)
	}})
	was := d.Receipt
	must(t, d.Prepare(t.Context()))
	if !d.Receipt.Empty() {
		t.Errorf("a receipt of nothing: %s", d.Receipt.Data)
	}
	must(t, d.Abort(t.Context()))
	must(t, d.Discard(t.Context()))
	d.Receipt = was
	if n := seen.Hits(); n != 0 {
		t.Errorf("%d EndTxn for a checkpoint without records", n)
	}
	seen.Remove()
	for _, k := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn, kmsg.InitProducerID, kmsg.TxnOffsetCommit, kmsg.DescribeTransactions} {
		e.fake.Fault(kfake.Fault{Keys: []kmsg.Key{k}, Err: kerr.ConcurrentTransactions, Count: 2})
	}
	must(t, carry(t.Context(), d, 1))
	w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
}

// P77: whatever the brokers refuse for the moment, and whatever they appended before they refused it, nothing is doubled and nothing changes places.
func TestPitfall_RefusedForTheMoment(t *testing.T) {
	for _, m := range modes() {
		e := newFake(t)
		w := newWorld(t, e, m, sinktest.Keyed())
		w.topic = sinktest.NewTopic(w.topic.Table)
		d := w.opened(t)
		for i := range 3 {
			for range 50 {
				w.topic.Put(int32(i%2), sinktest.UpdateAfter(int64(i), "v1"), sinktest.UpdateAfter(int64(i), "v2"))
			}
		}
		for _, err := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotEnoughReplicas, kerr.LeaderNotAvailable,
			kerr.UnknownTopicOrPartition, kerr.KafkaStorageError, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress} {
			e.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err, Partitions: []int32{1}, Count: 1})
			e.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err, Partitions: []int32{0}, Count: 1})
		}
		e.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.NotCoordinator, Count: 1})
		must(t, d.Write(t.Context(), 40))
		must(t, d.Prepare(t.Context()))
		must(t, d.Save(t.Context()))
		must(t, d.Commit(t.Context()))
		must(t, carry(t.Context(), d, 40))
		w.sees(t, string(m), w.topic.End(0), w.topic.End(1))
		var seq []string
		for _, r := range w.target(w.topic.Table).reader.records {
			if strings.Contains(string(r.Key), ":0}") {
				seq = append(seq, string(r.Value))
			}
		}
		for i, v := range seq[max(0, len(seq)-100):] {
			if want := fmt.Sprintf(`"v%d"`, 1+i%2); !strings.Contains(v, want) {
				t.Fatalf("%s: record %d of key 0 is %s, expected %s: %d records", m, i, v, want, len(seq))
			}
		}
	}
}

// A leader and a coordinator that move in the middle of everything.
func TestPitfall_LeadersMove(t *testing.T) {
	for _, m := range modes() {
		e := newFake(t, kfake.NumBrokers(3))
		w := newWorld(t, e, m, sinktest.Appended())
		d := w.opened(t)
		for i := range int64(30) {
			w.topic.Put(int32(i%2), sinktest.Insert(i, "b"))
		}
		// They move behind each request, and then ever more seldom: so it comes to an end, however often a client has to ask again for every move.
		asked, stop, done := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		seen := e.fake.Fault(kfake.Fault{Observe: true, Count: -1, When: func(kmsg.Request) bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return true
		}})
		moves := 0
		go func() {
			defer close(done)
			for requests := 0; ; {
				select {
				case <-stop:
					return
				case <-asked:
				}
				if requests++; requests > moves/10 {
					e.fake.ShufflePartitionLeaders()
					e.fake.RehashCoordinators()
					requests, moves = 0, moves+1
				}
			}
		}()
		err := carry(t.Context(), d, 4)
		close(stop)
		<-done
		seen.Remove()
		must(t, err)
		if moves == 0 {
			t.Errorf("%s: they did not move", m)
		}
		w.sees(t, string(m), w.topic.End(0), w.topic.End(1))
	}
}

// P82: a produce request of a transaction that was aborted arrives late. It is refused, no transaction is left hanging, and what comes later is seen.
func TestPitfall_LateProduce(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, twoPhase, sinktest.Appended())
		c := &copier{}
		d := w.opened(t, kgo.Dialer(c.dial))
		must(t, d.Write(t.Context(), 1))
		must(t, d.Prepare(t.Context()))
		late, addr := c.last()
		must(t, d.Abort(t.Context()))
		conn, err := net.Dial("tcp", addr)
		must(t, err)
		defer conn.Close()
		_, err = conn.Write(late)
		must(t, err)
		_, err = io.ReadFull(conn, make([]byte, 8)) // it was answered
		must(t, err)
		must(t, carry(t.Context(), d, 2))
		w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
	})
}

// copier keeps the last produce request that was sent.
type copier struct {
	mu      sync.Mutex
	produce []byte
	addr    string
}

func (c *copier) last() ([]byte, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.produce), c.addr
}

func (c *copier) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return copyConn{conn, c, addr}, err
}

type copyConn struct {
	net.Conn
	c    *copier
	addr string
}

func (c copyConn) Write(b []byte) (int, error) {
	if len(b) > 6 && b[4] == 0 && b[5] == 0 && strings.Contains(string(b), "sinktest_append") {
		c.c.mu.Lock()
		c.c.produce, c.c.addr = slices.Clone(b), c.addr
		c.c.mu.Unlock()
	}
	return c.Conn.Write(b)
}

// P79: a process dies after the offsets were added to the transaction and before its end. Its successor starts at once, and a fetch of the group's
// stable offsets waits for nobody.
func TestPitfall_OffsetsAdded(t *testing.T) {
	both(t, func(t *testing.T, e *env) {
		w := newWorld(t, e, inOneTransact, sinktest.Appended())
		f := &wire{key: int16(kmsg.EndTxn), nth: 2}
		d, cl, err := w.lane(f.through())
		must(t, err)
		must(t, d.Acquire(t.Context(), 0, 1)) // sends the first one
		must(t, d.Open(t.Context()))
		must(t, d.Write(t.Context(), 2))
		must(t, d.Prepare(t.Context()))
		wants(t, d.Save(t.Context()), sink.ErrUncertain)
		cl.Close()
		next := w.opened(t)
		if next.From[0].Offset != 0 {
			t.Errorf("the successor begins at %v", next.From)
		}
		must(t, carry(t.Context(), next, -1))
		w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
		req := kmsg.NewPtrOffsetFetchRequest()
		group := kmsg.NewOffsetFetchRequestGroup()
		group.Group, req.Group, req.RequireStable = w.o.Group, w.o.Group, true
		req.Groups = append(req.Groups, group)
		resp, err := req.RequestWith(t.Context(), e.admin)
		must(t, err)
		got := map[int32]int64{}
		for _, g := range resp.Groups {
			must(t, kerr.ErrorForCode(g.ErrorCode))
			for _, topic := range g.Topics {
				for _, p := range topic.Partitions {
					must(t, kerr.ErrorForCode(p.ErrorCode))
					got[p.Partition] = p.Offset
				}
			}
		}
		if got[0] != w.topic.End(0).Offset || got[1] != w.topic.End(1).Offset {
			t.Errorf("the group's offsets are %v, expected %v and %v", got, w.topic.End(0), w.topic.End(1))
		}
	})
}

// A client that may not do what it takes is told so when it opens or writes, with the right that it lacks.
func TestPitfall_Denied(t *testing.T) {
	for _, c := range []struct {
		key  kmsg.Key
		err  *kerr.Error
		says string
	}{
		{kmsg.Produce, kerr.TopicAuthorizationFailed, "WRITE"},
		{kmsg.InitProducerID, kerr.TransactionalIDAuthorizationFailed, "Options.Prefix"},
		{kmsg.TxnOffsetCommit, kerr.GroupAuthorizationFailed, "Options.Group"},
	} {
		e := newFake(t)
		w := newWorld(t, e, inOneTransact, sinktest.Appended())
		d, cl, err := w.lane()
		must(t, err)
		defer cl.Close()
		f := e.fake.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Err: c.err, Count: -1})
		for _, step := range []func() error{func() error { return d.Acquire(t.Context(), 0, 1) }, func() error { return d.Open(t.Context()) },
			func() error { return d.Write(t.Context(), -1) }, func() error { return d.Prepare(t.Context()) }, func() error { return d.Save(t.Context()) }} {
			if err = step(); err != nil {
				break
			}
		}
		wants(t, err, sink.ErrConfig, c.says)
		f.Remove()
		must(t, carry(t.Context(), d, -1)) // once it may, it goes on
		w.sees(t, "at the end", w.topic.End(0), w.topic.End(1))
	}
}

// The target is missing.
func TestPitfall_NoTopic(t *testing.T) {
	e := newFake(t)
	w := newWorld(t, e, twoPhase, sinktest.Appended())
	w.news = 50 * time.Millisecond
	_, err := e.kadm.DeleteTopics(t.Context(), w.target(w.topic.Table).table.Options["topic"])
	must(t, err)
	d, cl, err := w.lane()
	must(t, err)
	defer cl.Close()
	must(t, d.Acquire(t.Context(), 0, 1))
	wants(t, d.Open(t.Context()), sink.ErrConfig, "create the topic")
}

// P28: a -U that waits for its +U is not left in memory by Prepare.
func TestPitfall_HeldBack(t *testing.T) {
	e := newFake(t)
	w := newWorld(t, e, twoPhase, sinktest.Keyed())
	w.topic = sinktest.NewTopic(w.topic.Table)
	w.topic.Put(1)
	w.topic.Put(0, sinktest.Insert(1, "a"), sinktest.Insert(2, "a"), sinktest.UpdateBefore(1, "a"))
	d := w.opened(t)
	must(t, d.Write(t.Context(), -1))
	must(t, d.Prepare(t.Context()))
	must(t, d.Save(t.Context()))
	must(t, d.Commit(t.Context()))
	w.sees(t, "after a checkpoint that ends with a -U", d.From...)
}
