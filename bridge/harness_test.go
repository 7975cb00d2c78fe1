package bridge

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// patience is how long a test waits for an event that must come, on a machine that has nothing else to do. It asserts nothing about time.
const patience = 60 * time.Second

// expires returns a channel that is closed when patience is over, and a function that ends that.
func expires() (<-chan struct{}, func()) { return expiresAfter(patience) }

// expiresAfter counts the time in ticks which the process has to be there for: on a machine that gives it little time the wait is longer.
func expiresAfter(d time.Duration) (<-chan struct{}, func()) {
	over, stop := make(chan struct{}), make(chan struct{})
	go func() {
		const every = 10 * time.Millisecond
		tick := time.NewTicker(every)
		defer tick.Stop()
		for range d / every {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
		close(over)
	}()
	return over, sync.OnceFunc(func() { close(stop) })
}

// texts decodes each message into one row (id = offset, v = value) of a table without a key: a row that is lost or doubled shows.
type texts struct{ table *changelog.Table }

func (d texts) Table() *changelog.Table { return d.table }

func (d texts) Decode(b *changelog.Batch, r *changelog.Record) error {
	if strings.HasPrefix(string(r.Value), "bad") {
		return &changelog.DataError{Partition: r.Partition, Offset: r.Offset, Part: "value", Field: "v", Reason: "is bad"}
	}
	row := b.NewRow()
	row[0] = changelog.IntValue(r.Offset)
	row[1] = changelog.StringBytesValue(r.Value)
	b.Pin(len(r.Value))
	b.Append(changelog.Change{Partition: r.Partition, Offset: r.Offset, Kind: changelog.Insert, Row: row})
	return nil
}

// cluster is an in-process broker with one topic.
type cluster struct {
	t     *testing.T
	c     *kfake.Cluster
	topic string
	addr  string
	cl    *kgo.Client // for producing
	adm   *kadm.Client

	batches *kgo.Client // for producing by the batch, since cl was lot's
	lot     *kgo.Client
}

func newCluster(t *testing.T, partitions int32) *cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "texts"),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	k := &cluster{t: t, c: c, topic: "texts", addr: c.ListenAddrs()[0]}
	k.cl = k.client()
	k.adm = kadm.NewClient(k.cl)
	return k
}

func (k *cluster) client(opts ...kgo.Opt) *kgo.Client {
	k.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(k.addr), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(cl.Close)
	return cl
}

func (k *cluster) record(p int32, v string) *kgo.Record {
	return &kgo.Record{Topic: k.topic, Partition: p, Value: []byte(v)}
}

// put produces values to a partition, in one batch (unless they are more than a MiB): how fast the machine is must not decide how they are fetched.
func (k *cluster) put(p int32, values ...string) {
	k.t.Helper()
	if k.lot != k.cl { // which is another one when a topic has changed
		k.lot, k.batches = k.cl, k.client(kgo.ManualFlushing(), kgo.MaxBufferedRecords(1<<20))
	}
	var failed error // of the client's goroutine, until Flush returns
	for _, v := range values {
		k.batches.Produce(k.t.Context(), k.record(p, v), func(_ *kgo.Record, err error) { failed = cmp.Or(failed, err) })
	}
	if err := cmp.Or(k.batches.Flush(k.t.Context()), failed); err != nil {
		k.t.Fatal(err)
	}
}

// txn produces values in a transaction and ends it.
func (k *cluster) txn(id string, end kgo.TransactionEndTry, p int32, values ...string) {
	k.t.Helper()
	cl := k.begin(id, p, values...)
	if err := cl.EndTransaction(k.t.Context(), end); err != nil {
		k.t.Fatal(err)
	}
}

// begin produces values in a transaction and leaves it open.
func (k *cluster) begin(id string, p int32, values ...string) *kgo.Client {
	k.t.Helper()
	cl := k.client(kgo.TransactionalID(id))
	if err := cl.BeginTransaction(); err != nil {
		k.t.Fatal(err)
	}
	for _, v := range values {
		if err := cl.ProduceSync(k.t.Context(), k.record(p, v)).FirstErr(); err != nil {
			k.t.Fatal(err)
		}
	}
	if err := cl.Flush(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
	return cl
}

func numbered(prefix string, from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s%05d", prefix, i))
	}
	return out
}

// target is a memory sink and store that tests can watch and disturb.
type target struct {
	srv *sinktest.Server

	mu     sync.Mutex
	before func(op string) error // called before each call of a committer or of Save
}

func newTarget() *target { return &target{srv: sinktest.NewServer()} }

func (g *target) on(f func(op string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = f
}

func (g *target) ask(op string) error {
	g.mu.Lock()
	f := g.before
	g.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(op)
}

func (g *target) values() []string {
	var out []string
	for _, r := range g.srv.Table(sinktest.AppendTable) {
		out = append(out, strings.Clone(r[1].Str()))
	}
	slices.Sort(out)
	return out
}

// Lane implements sink.Sink.
func (g *target) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := sinktest.NewSink(g.srv, nil).Lane(ctx, l)
	return &gated{Committer: c, g: g}, err
}

func (g *target) Guarantee() sink.Guarantee { return sinktest.NewSink(g.srv, nil).Guarantee() }
func (g *target) String() string            { return "memory" }

type gated struct {
	sink.Committer
	g *target
}

func (c *gated) Write(ctx context.Context, b *changelog.Batch) error {
	if err := c.g.ask("write"); err != nil {
		return err
	}
	return c.Committer.Write(ctx, b)
}

func (c *gated) Prepare(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	if err := c.g.ask("prepare"); err != nil {
		return sink.Committable{}, err
	}
	return c.Committer.Prepare(ctx, cut)
}

type gatedStore struct {
	sink.Store
	g *target
}

func (s gatedStore) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	if err := s.g.ask("save"); err != nil {
		return err
	}
	return s.Store.Save(ctx, gen, cp)
}

func (s gatedStore) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	if err := s.g.ask("acquire"); err != nil {
		return sink.Claim{}, err
	}
	return s.Store.Acquire(ctx, r)
}

// positions returns what the store holds, by partition.
func (g *target) positions(t *testing.T, bridge string) map[int32]int64 {
	t.Helper()
	st, err := sinktest.NewStore(g.srv).Read(context.Background(), bridge)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[int32]int64)
	for _, p := range st.Positions {
		out[p.Partition.Partition] = p.Offset
	}
	return out
}

// pending returns what is decided and not known to be committed.
func (g *target) pending(t *testing.T, bridge string) []sink.Committable {
	t.Helper()
	st, err := sinktest.NewStore(g.srv).Read(context.Background(), bridge)
	if err != nil {
		t.Fatal(err)
	}
	return st.Pending
}

// options returns options that make a test quick, over a target.
func options(g *target, more ...kgo.Opt) *Options {
	return &Options{
		Client: append([]kgo.Opt{kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(50 * time.Millisecond),
			kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond })}, more...),
		Interval: 10 * time.Millisecond,
		Watch:    50 * time.Millisecond,
		Store:    gatedStore{sinktest.NewStore(g.srv), g},
	}
}

func (k *cluster) input() Input {
	return Input{Topics: []string{k.topic}, Decoder: texts{sinktest.Appended()}, Client: []kgo.Opt{kgo.SeedBrokers(k.c.ListenAddrs()...)}}
}

func (k *cluster) bridge(g *target, o *Options) *Bridge {
	k.t.Helper()
	b, err := New("test", k.input(), g, o)
	if err != nil {
		k.t.Fatal(err)
	}
	return b
}

// running is a bridge whose Run is in progress.
type running struct {
	t    *testing.T
	b    *Bridge
	stop context.CancelFunc
	err  error
	done chan struct{}
}

func start(t *testing.T, b *Bridge) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, b: b, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = b.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// wait returns what Run returned.
func (r *running) wait() error {
	r.t.Helper()
	over, stop := expires()
	defer stop()
	select {
	case <-r.done:
		return r.err
	case <-over:
		r.t.Fatalf("Run did not return: %s", r.describe())
		return nil
	}
}

// describe says what tells why a bridge stands still, and where the goroutines are.
func (r *running) describe() string {
	stacks := make([]byte, 1<<20)
	return describe(r.b) + string(stacks[:runtime.Stack(stacks, true)])
}

// describe says what a bridge holds of each partition, and what its client fetches.
func describe(bridge *Bridge) string {
	var b strings.Builder
	fmt.Fprintf(&b, "status %+v\n", bridge.Status())
	bridge.mu.Lock()
	cur := bridge.cur
	bridge.mu.Unlock()
	if cur != nil {
		cur.f.mu.Lock()
		for p, part := range cur.f.parts {
			fmt.Fprintf(&b, "%s: holds %b, epoch %d, next %d, read %d, saved %d, last %d, taken %d, trouble %q\n",
				p, part.holds, part.epoch.Load(), part.next, part.read, part.saved, part.last, part.taken, part.trouble)
		}
		for _, l := range cur.lanes {
			fmt.Fprintf(&b, "lane %d: %d bytes queued\n", l.n, l.queue.size())
		}
		fmt.Fprintf(&b, "seeks %d, the client has %d records and pauses %v\n", len(cur.f.seeks), cur.cl.BufferedFetchRecords(), cur.cl.PauseFetchPartitions(nil))
		cur.f.mu.Unlock()
	}
	return b.String()
}

// end stops the bridge and demands a graceful stop.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := r.wait(); err != nil {
		r.t.Fatalf("graceful stop: %v", err)
	}
}

// leave stops the bridge in the middle of failures: its last checkpoint may be dropped, which it then says, or not be done in time.
func (r *running) leave() {
	r.t.Helper()
	r.stop()
	if err := r.wait(); err != nil && !strings.Contains(err.Error(), errGivenUp.Error()) {
		r.t.Fatalf("stop: %v", err)
	}
}

// until waits until ok; it fails at once when the bridge ends before. Between two looks it leaves the machine to what it waits for.
func until(t *testing.T, what string, ok func() bool, rs ...*running) {
	t.Helper()
	over, stop := expires()
	defer stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		began := time.Now()
		if ok() {
			return
		}
		for _, r := range rs {
			select {
			case <-r.done:
				if ok() {
					return
				}
				t.Fatalf("waiting for %s: the bridge ended: %v", what, r.err)
			default:
			}
		}
		pause.Reset(max(2*time.Millisecond, 5*time.Since(began)))
		select {
		case <-pause.C:
		case <-over:
			for _, r := range rs {
				t.Log(r.describe())
			}
			t.Fatalf("waiting for %s", what)
		}
	}
}

func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	over, stop := expires()
	defer stop()
	select {
	case <-c:
	case <-over:
		t.Fatalf("waiting for %s", what)
	}
}

// wantValues waits until the table has as many rows as there must be, and compares.
func (g *target) wantValues(t *testing.T, want []string, rs ...*running) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	until(t, fmt.Sprintf("%d rows", len(want)), func() bool { return len(g.values()) >= len(want) }, rs...)
	if got := g.values(); !slices.Equal(got, want) {
		t.Fatalf("rows:\n got %d %q\nwant %d %q", len(got), clip(got), len(want), clip(want))
	}
}

func clip(s []string) []string { return s[:min(len(s), 40)] }

// wire is the network of one client, which a test can cut: the process then is dead for the rest of the world.
type wire struct {
	mu    sync.Mutex
	conns []net.Conn
	cut   bool
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		c.Close()
		return nil, errors.New("cut")
	}
	w.conns = append(w.conns, c)
	return c, nil
}

func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, c := range w.conns {
		c.Close()
	}
}

// leave makes the group forget a member.
func (k *cluster) leave(group, member string) {
	k.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, member
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = member
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(k.t.Context(), k.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

// steals is steal of a bridge that the group may be just about to throw out: then there is nothing to steal, or the group went on meanwhile.
func (g *target) steals(r *running) {
	r.t.Helper()
	var stale *sink.StaleGroupError
	if _, err := g.steal(r); err != nil && !errors.Is(err, errHoldsNothing) && !errors.As(err, &stale) {
		r.t.Fatal(err)
	}
}

var errHoldsNothing = errors.New("the bridge holds no partitions")

// steal acquires the bridge's partitions, as a process would that does not know the group.
func (g *target) steal(r *running) (sink.Claim, error) {
	run := r.b.cur
	var parts []changelog.Partition
	for _, p := range r.b.Status().Partitions {
		parts = append(parts, p.Partition)
	}
	if len(parts) == 0 {
		return sink.Claim{}, errHoldsNothing
	}
	return sinktest.NewStore(g.srv).Acquire(context.Background(), sink.AcquireRequest{Bridge: run.name, Fingerprint: run.fingerprint(),
		Partitions: parts, Owner: "thief", GroupGeneration: r.b.Status().Generation})
}

// empty answers fetches at offsets [from, to) of partition 0 with a batch that spans them and holds no record, which is what
// compaction leaves of a batch whose producer is still remembered.
func (k *cluster) empty(from, to int64) {
	k.c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.c.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
			return nil, nil, false
		}
		if at := req.Topics[0].Partitions[0].FetchOffset; at < from || at >= to {
			return nil, nil, false
		}
		b := kmsg.RecordBatch{FirstOffset: from, PartitionLeaderEpoch: 0, Magic: 2, LastOffsetDelta: int32(to - from - 1),
			ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
		raw := b.AppendTo(nil)
		binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
		binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		p := kmsg.NewFetchResponseTopicPartition()
		p.HighWatermark, p.LastStableOffset, p.RecordBatches = to, to, raw
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		rt.Partitions = append(rt.Partitions, p)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
}
