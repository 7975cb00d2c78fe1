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
func clientOptions(in Input, o Options, m *member) []kgo.Opt {
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
	opts = append(opts, in.Client...)
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
	var ask []string
	if r.in.Pattern == "" {
		ask = r.in.Topics
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
	if r.in.Pattern != "" {
		re, err := regexp.Compile("^(?:" + r.in.Pattern + ")$")
		if err != nil {
			return nil, config(err)
		}
		for name, t := range found {
			if !t.hidden && t.err == nil && re.MatchString(name) {
				ask = append(ask, name)
			}
		}
		if len(ask) == 0 {
			return nil, config(fmt.Errorf("no topic matches the pattern %q at %s: create the topic, or correct 'topic-pattern'", r.in.Pattern, seeds(r.cl)))
		}
		slices.Sort(ask)
	}
	var errs []error
	topics := make(map[string]int)
	for _, name := range ask {
		switch t := found[name]; {
		case errors.Is(t.err, kerr.UnknownTopicOrPartition):
			errs = append(errs, fmt.Errorf("topic %q does not exist at %s: create it, or correct 'topic'", name, seeds(r.cl)))
		case errors.Is(t.err, kerr.TopicAuthorizationFailed):
			errs = append(errs, fmt.Errorf("topic %q: this user may not see it: allow DESCRIBE and READ", name))
		case t.err != nil:
			errs = append(errs, fmt.Errorf("topic %q: %w", name, t.err))
		case r.in.CheckOrder(name, len(t.leaders)) != nil && !r.o.Unordered:
			errs = append(errs, r.in.CheckOrder(name, len(t.leaders)))
		default:
			topics[name] = len(t.leaders)
		}
	}
	if len(errs) > 0 {
		return nil, config(errors.Join(errs...))
	}
	return topics, nil
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
