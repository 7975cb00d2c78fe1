package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file sends requests. The producer of package kgo is not used: it repeats InitProducerID and EndTxn by itself after a lost connection, and keeps
// producer ids to itself. Here a request whose repetition could take effect in a later transaction is sent once, and everybody learns
// whether its answer is known.

// patience bounds how long a call repeats what a broker refused for the moment (a leader or coordinator that moves, a transaction that is
// being ended). Then the call fails, and the lane does it again with its own backoff.
const patience = 30 * time.Second

// cluster is the way to one Kafka cluster. It is safe for use by several goroutines.
type cluster struct {
	cl   *kgo.Client
	news time.Duration // see the constant

	mu           sync.Mutex
	coordinators map[coordinated]int32
	topics       map[string]*topicInfo
	version      int16 // of transactions; 0: not asked yet
}

type coordinated struct {
	kind int8 // 0: of a group, 1: of a transactional id
	key  string
}

func newCluster(cl *kgo.Client) *cluster {
	return &cluster{cl: cl, news: news, coordinators: make(map[coordinated]int32), topics: make(map[string]*topicInfo)}
}

// unclear is the error of a request that was sent, or may have been, and not answered: nobody knows what it did.
type unclear struct{ err error }

func (u *unclear) Error() string { return "no answer: " + u.err.Error() }
func (u *unclear) Unwrap() error { return u.err }

func isUnclear(err error) bool { return errors.As(err, new(*unclear)) }

// pinned hides the type of a request from kgo, which would give a produce request the client's own acks, and bounds its version.
type pinned struct {
	kmsg.Request
	most int16
}

func (p pinned) MaxVersion() int16 { return min(p.most, p.Request.MaxVersion()) }

const anyVersion = 1<<15 - 1

// once sends a request to one broker, once. A failure to connect is no *unclear: nothing was sent.
func (c *cluster) once(ctx context.Context, node int32, req kmsg.Request, most int16) (kmsg.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	resp, err := c.cl.Broker(int(node)).Request(ctx, pinned{req, most})
	if err == nil {
		return resp, nil
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return nil, err
	}
	return nil, &unclear{err}
}

// isDial reports an error after which surely nothing was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// coordinator returns the broker that looks after a transactional id or a group.
func (c *cluster) coordinator(ctx context.Context, of coordinated) (int32, error) {
	c.mu.Lock()
	node, ok := c.coordinators[of]
	c.mu.Unlock()
	if ok {
		return node, nil
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = of.kind, of.key, []string{of.key}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return 0, err
	}
	node, code := resp.NodeID, resp.ErrorCode
	if len(resp.Coordinators) > 0 {
		node, code = resp.Coordinators[0].NodeID, resp.Coordinators[0].ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return 0, err
	}
	c.mu.Lock()
	c.coordinators[of] = node
	c.mu.Unlock()
	return node, nil
}

func (c *cluster) forgetCoordinator(of coordinated) {
	c.mu.Lock()
	delete(c.coordinators, of)
	c.mu.Unlock()
}

// moved reports an answer that says: not now, or not here. The request had no effect.
func moved(err error) bool {
	for _, e := range []error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ask sends a request to a coordinator until it is answered by more than "not now" or "not here". decide reads the error of the answer. A
// request that may have been sent and has no answer is an *unclear, and is repeated only if again says that it may be.
func (c *cluster) ask(ctx context.Context, of coordinated, again bool, most int16, build func() kmsg.Request, decide func(kmsg.Response) error) error {
	p := newPause(patience)
	for {
		err := c.askOnce(ctx, of, most, build, decide)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return err
		case isUnclear(err) && !again:
			return err
		case moved(err), isUnclear(err), isDial(err):
			if !errors.Is(err, kerr.ConcurrentTransactions) {
				c.forgetCoordinator(of)
			}
		default:
			return err
		}
		if !p.wait(ctx) {
			return err
		}
	}
}

func (c *cluster) askOnce(ctx context.Context, of coordinated, most int16, build func() kmsg.Request, decide func(kmsg.Response) error) error {
	node, err := c.coordinator(ctx, of)
	if err != nil {
		return err
	}
	resp, err := c.once(ctx, node, build(), most)
	if err != nil {
		if isUnclear(err) && !isContext(err) {
			c.forgetCoordinator(of)
		}
		return err
	}
	return decide(resp)
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// transactions returns the level of the cluster's feature transaction.version, at least 1. At 2 every end of a transaction raises the producer's epoch
// (KIP-890).
func (c *cluster) transactions(ctx context.Context) (int16, error) {
	c.mu.Lock()
	v := c.version
	c.mu.Unlock()
	if v > 0 {
		return v, nil
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "flinksink", "1"
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return 0, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, err
	}
	v = 1
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			v = max(v, f.MaxVersionLevel)
		}
	}
	c.mu.Lock()
	c.version = v
	c.mu.Unlock()
	return v, nil
}

// topicInfo is what metadata says of a topic.
type topicInfo struct {
	name    string
	id      [16]byte
	leaders []int32 // by partition; -1: none now
}

// topic asks for metadata, or returns what was asked before.
func (c *cluster) topic(ctx context.Context, name string, fresh bool) (*topicInfo, error) {
	c.mu.Lock()
	t := c.topics[name]
	c.mu.Unlock()
	if t != nil && !fresh {
		return t, nil
	}
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 {
		return nil, fmt.Errorf("the broker answered for %d topics where one was asked for", len(resp.Topics))
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return nil, err
	}
	t = &topicInfo{name: name, id: resp.Topics[0].TopicID, leaders: make([]int32, len(resp.Topics[0].Partitions))}
	for i := range t.leaders {
		t.leaders[i] = -1
	}
	for _, p := range resp.Topics[0].Partitions {
		if int(p.Partition) < len(t.leaders) && p.Partition >= 0 {
			t.leaders[p.Partition] = p.Leader
		}
	}
	c.mu.Lock()
	c.topics[name] = t
	c.mu.Unlock()
	return t, nil
}

// pause waits longer each time, and not at all once its time is over.
type pause struct {
	next time.Duration
	end  time.Time
}

func newPause(most time.Duration) *pause {
	return &pause{next: 2 * time.Millisecond, end: time.Now().Add(most)}
}

// wait reports whether to try again.
func (p *pause) wait(ctx context.Context) bool {
	if time.Now().After(p.end) {
		return false
	}
	t := time.NewTimer(p.next/2 + rand.N(p.next))
	defer t.Stop()
	p.next = min(2*p.next, 500*time.Millisecond)
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
