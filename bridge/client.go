package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientOptions orders the client's options: what we would like, what the table says, what the user says, what must be so. Topics are
// added once they were checked, so that no partition is assigned before everything else is ready. m may be nil, to validate.
func clientOptions(table []kgo.Opt, o Options, m *member) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ClientID("flinksink"),
		// A resumed partition waits for the fetch in flight to end; the default of 5 s would be seen as a stall.
		kgo.FetchMaxWait(500 * time.Millisecond),
		// How soon partitions that are added to a topic are read; the default is 5 minutes.
		kgo.MetadataMaxAge(30 * time.Second),
		// A record keeps the whole answer alive that it came in, and the lanes' budgets count records: large answers would hold more than the
		// budgets say. A record larger than this still comes, alone.
		kgo.FetchMaxBytes(4 << 20),
		kgo.FetchMaxPartitionBytes(1 << 20),
	}
	opts = append(opts, table...)
	opts = append(opts, o.Client...)
	opts = append(opts,
		kgo.ConsumerGroup(o.Group),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Control records show how far aborted transactions reach: without them a position would stand still before a run of them.
		kgo.KeepControlRecords(),
		// An offset that is gone is an error, never another offset.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.DisableAutoCommit(),
	)
	if o.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(o.InstanceID))
	}
	if m != nil {
		opts = append(opts,
			kgo.OnPartitionsAssigned(m.assigned),
			kgo.OnPartitionsRevoked(m.revoked),
			kgo.OnPartitionsLost(m.lost),
			kgo.AdjustFetchOffsetsFn(m.adjust),
		)
	}
	return opts
}

// checkClient refuses options of the user's that work against the bridge's own.
func checkClient(cl *kgo.Client) error {
	var errs []error
	is := func(opt any) bool { b, _ := cl.OptValue(opt).(bool); return b }
	if is(kgo.ServerSideBalancer) {
		errs = append(errs, errors.New("kgo.ServerSideBalancer: a bridge fences by the generations of the classic group protocol: leave the option out"))
	}
	if is(kgo.BlockRebalanceOnPoll) {
		errs = append(errs, errors.New("kgo.BlockRebalanceOnPoll: a bridge never holds a rebalance up by polling: leave the option out"))
	}
	if is(kgo.ConsumeRegex) {
		errs = append(errs, errors.New("kgo.ConsumeRegex: use Input.Pattern"))
	}
	if topics, _ := cl.OptValue(kgo.ConsumeTopics).([]string); len(topics) > 0 {
		errs = append(errs, errors.New("kgo.ConsumeTopics: use Input.Topics"))
	}
	return errors.Join(errs...)
}

// seeds names the brokers for an error text.
func seeds(cl *kgo.Client) string {
	s, _ := cl.OptValue(kgo.SeedBrokers).([]string)
	return strings.Join(s, ", ")
}

// connect makes sure that the brokers answer, and answers which topics are read and how many partitions each has.
func (r *run) connect(outer context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(outer, r.o.Connect)
	defer cancel()
	config := func(err error) error {
		return &sink.Error{Op: "start", Bridge: r.name, Class: sink.ErrConfig, Err: err}
	}
	var ask []string // nil: all there are
	for i := range r.ins {
		if r.ins[i].Pattern != "" {
			ask = nil
			break
		}
		ask = append(ask, r.ins[i].Topics...)
	}
	var found map[string]topic
	err := retry(ctx, func() error {
		var err error
		if found, err = r.f.metadata(ctx, ask); err != nil {
			return err
		}
		for _, t := range found {
			if t.err != nil && kerr.IsRetriable(t.err) && !errors.Is(t.err, kerr.UnknownTopicOrPartition) {
				return t.err
			}
		}
		return nil
	})
	if err != nil {
		if outer.Err() != nil {
			return nil, context.Cause(outer)
		}
		if dial := r.dialed.last(); dial != nil {
			err = dial
		}
		return nil, config(fmt.Errorf("no answer from the brokers at %s within %s: %w; check the address (kgo.SeedBrokers or 'properties.bootstrap.servers'), TLS and SASL",
			seeds(r.cl), r.o.Connect, err))
	}
	var errs []error
	ask, r.byTopic = nil, make(map[string]int)
	for i := range r.ins {
		names, err := r.ins[i].among(found)
		if err != nil {
			return nil, config(err)
		}
		if len(names) == 0 {
			errs = append(errs, fmt.Errorf("no topic matches the pattern %q at %s: create the topic, or correct 'topic-pattern'", r.ins[i].Pattern, seeds(r.cl)))
		}
		for _, n := range names {
			if _, twice := r.byTopic[n]; twice {
				errs = append(errs, fmt.Errorf("topic %q is read by two inputs, one of them by its pattern: a record has one table; correct 'topic-pattern'", n))
				continue
			}
			r.byTopic[n] = i
			ask = append(ask, n)
		}
	}
	topics := make(map[string]int)
	for _, name := range ask {
		t, ok := found[name]
		if !ok {
			t.err = kerr.UnknownTopicOrPartition
		}
		in := r.ins[r.byTopic[name]]
		switch {
		case errors.Is(t.err, kerr.UnknownTopicOrPartition):
			errs = append(errs, fmt.Errorf("topic %q does not exist at %s: create it, or correct 'topic'", name, seeds(r.cl)))
		case errors.Is(t.err, kerr.TopicAuthorizationFailed):
			errs = append(errs, fmt.Errorf("topic %q: this user may not see it: allow DESCRIBE and READ", name))
		case t.err != nil:
			errs = append(errs, fmt.Errorf("topic %q: %w", name, t.err))
		case in.CheckOrder(name, len(t.leaders)) != nil && !r.o.Unordered:
			errs = append(errs, in.CheckOrder(name, len(t.leaders)))
		default:
			topics[name] = len(t.leaders)
		}
	}
	if len(errs) > 0 {
		return nil, config(errors.Join(errs...))
	}
	return topics, nil
}

// among returns the topics of the input: those that are named, or of what the brokers have those that match.
func (in Input) among(found map[string]topic) ([]string, error) {
	if in.Pattern == "" {
		return in.Topics, nil
	}
	re, err := regexp.Compile("^(?:" + in.Pattern + ")$")
	if err != nil {
		return nil, err
	}
	var names []string
	for name, t := range found {
		if !t.hidden && t.err == nil && re.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// retry calls f until it succeeds, fails for good, or ctx ends; then it returns the last error of f.
func retry(ctx context.Context, f func() error) error {
	wait := 50 * time.Millisecond
	for {
		err := f()
		if err == nil || !passing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// passing reports whether a Kafka error may go away by itself. Everything that is no answer of a broker (dial, timeout) may.
func passing(err error) bool {
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Retriable
	}
	return !errors.Is(err, kgo.ErrClientClosed) && !errors.Is(err, context.Canceled) && sink.ClassOf(err) == sink.ErrUncertain
}

// leave leaves the group, unless the member is static, and closes the client.
func (r *run) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = r.cl.LeaveGroupContext(ctx) // it has no news for anybody: the group notices by itself in the end
	if ctx.Err() != nil {
		// Close waits for a JoinGroup that is out, which the broker may answer only when the rebalance timeout is over.
		r.abandon()
	}
	r.cl.Close()
	r.abandon()
}

// dialed remembers why a broker could last not be reached: the client itself tells only that time is over.
type dialed struct {
	mu  sync.Mutex
	err error
}

var _ kgo.HookBrokerConnect = (*dialed)(nil)

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (d *dialed) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *dialed) last() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
