package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// producer names one epoch of a transactional id. One epoch holds one transaction at most: that is what makes a receipt name a transaction and
// not a session.
type producer struct {
	id    string // transactional id
	pid   int64
	epoch int16
}

func (p producer) coordinated() coordinated { return coordinated{1, p.id} }

const (
	coordinatorOfGroup       = 0
	coordinatorOfTransaction = 1
)

// initProducer takes a transactional id, and ends what is open under it. With a pid of before it takes the next epoch only from that one. Where the
// answer decides (again is false) it is asked once: an InitProducerID that was given up and arrives late aborts the transaction that is open
// by then.
func (c *cluster) initProducer(ctx context.Context, of producer, timeout time.Duration, again bool) (producer, error) {
	out := producer{id: of.id}
	err := c.ask(ctx, of.coordinated(), again, anyVersion, func() kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = kmsg.StringPtr(of.id)
		req.TransactionTimeoutMillis = int32(timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = of.pid, of.epoch
		return req
	}, func(r kmsg.Response) error {
		resp := r.(*kmsg.InitProducerIDResponse)
		out.pid, out.epoch = resp.ProducerID, resp.ProducerEpoch
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	return out, err
}

// fence ends whatever is open under a transactional id, and stops all who hold it. It may be repeated, and may arrive late: nobody works
// under the id again, see cluster.open.
//
// It raises the epoch twice. A broker with transaction.version 2 answers the repetition of an EndTxn with the epoch that the first one led to, the next one;
// Kafka's own tells that from an epoch that somebody took, but one that does not would hand the fence's epoch to a zombie that aborts.
func (c *cluster) fence(ctx context.Context, id string, timeout time.Duration) error {
	p, err := c.initProducer(ctx, producer{id: id, pid: -1, epoch: -1}, timeout, true)
	if err == nil && p.epoch > 0 {
		_, err = c.initProducer(ctx, producer{id: id, pid: -1, epoch: -1}, timeout, true)
	}
	return err
}

// endTransaction ends the transaction of an epoch, and returns what the producer is from then on.
func (c *cluster) endTransaction(ctx context.Context, of producer, commit, again bool) (producer, error) {
	version, err := c.transactions(ctx)
	if err != nil {
		return of, err
	}
	most := int16(anyVersion)
	if version < 2 {
		most = 4 // from 5 on it raises the epoch, which takes transaction.version 2
	}
	next := of
	err = c.ask(ctx, of.coordinated(), again, most, func() kmsg.Request {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = of.id, of.pid, of.epoch, commit
		return req
	}, func(r kmsg.Response) error {
		resp := r.(*kmsg.EndTxnResponse)
		if resp.ErrorCode == 0 && resp.Version >= 5 && resp.ProducerID >= 0 {
			next.pid, next.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	return next, err
}

// described is what a coordinator says of a transactional id.
type described struct {
	producer
	state string
}

// describe asks for the state of a transactional id. One that nobody knows has the state "".
func (c *cluster) describe(ctx context.Context, id string) (described, error) {
	d := described{producer: producer{id: id}}
	err := c.ask(ctx, d.coordinated(), true, anyVersion, func() kmsg.Request {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{id}
		return req
	}, func(r kmsg.Response) error {
		for _, s := range r.(*kmsg.DescribeTransactionsResponse).TransactionStates {
			err := kerr.ErrorForCode(s.ErrorCode)
			if errors.Is(err, kerr.TransactionalIDNotFound) {
				return nil
			}
			d.pid, d.epoch, d.state = s.ProducerID, s.ProducerEpoch, s.State
			return err
		}
		return errors.New("the broker answered for no transactional id")
	})
	return d, err
}

// over waits until nothing is open or being ended under the id, so that readers see what was committed. It proves nothing, and a broker that
// does not answer changes nothing that is done.
func (c *cluster) over(ctx context.Context, id string) {
	p := newPause(5 * time.Second)
	p.next = 300 * time.Microsecond // markers are written within a millisecond or two, and every checkpoint waits here
	for {
		d, err := c.describe(ctx, id)
		if err != nil || d.state != "PrepareCommit" && d.state != "PrepareAbort" && d.state != "PrepareEpochFence" {
			return
		}
		if !p.wait(ctx) {
			return
		}
	}
}

// session is a generation's hold on its transactional id. It is used by one goroutine.
type session struct {
	c       *cluster
	timeout time.Duration
	version int16 // of transactions

	producer                // of the current transaction
	begun    bool           // something may have been added to it at the broker
	stale    bool           // the epoch had its transaction: the next one needs another
	added    map[place]bool // partitions of the transaction, where they have to be added one by one
	grouped  bool           // the group was
	next     map[place]int32
	over     error // nothing more is done under this id, and why
}

// place is a partition of a topic that is written to.
type place struct {
	topic     string
	partition int32
}

var (
	errFenced = errors.New("the transactional id was taken by a successor, or the broker ended its transaction because it had timed out")
	errUsedUp = errors.New("a request whose repetition could end a later transaction was not answered: this generation is used up, and the lane has to acquire anew")
)

// open takes a transactional id that nobody has held: its first epoch is 0. A successor fences the id by taking it, so a generation that
// comes late gets a later epoch and knows that it is over. An id is never opened twice: after an unclear answer the generation is used up.
func (c *cluster) open(ctx context.Context, id string, timeout time.Duration) (*session, error) {
	version, err := c.transactions(ctx)
	if err != nil {
		return nil, err
	}
	p, err := c.initProducer(ctx, producer{id: id, pid: -1, epoch: -1}, timeout, false)
	if err != nil {
		return nil, err
	}
	if p.epoch != 0 {
		return nil, errFenced
	}
	s := &session{c: c, timeout: timeout, version: version, producer: p}
	s.reset()
	return s, nil
}

func (s *session) reset() {
	s.begun, s.grouped = false, false
	s.added, s.next = make(map[place]bool), make(map[place]int32)
}

// begin makes sure that the epoch is one that had no transaction. Before transaction.version 2 the end of a transaction leaves the epoch as it is,
// and InitProducerID raises it; from another epoch than the one we held it is refused.
func (s *session) begin(ctx context.Context) error {
	if s.over != nil {
		return s.over
	}
	if s.begun || !s.stale {
		return nil
	}
	p, err := s.c.initProducer(ctx, s.producer, s.timeout, false)
	switch {
	case err == nil && p.pid == s.pid && p.epoch == s.epoch+1, err == nil && p.pid != s.pid && p.epoch == 0: // epochs had come to their end
		s.producer, s.stale = p, false
		s.reset()
		return nil
	case err == nil, isFenced(err):
		s.over = errFenced
		return s.over
	case isUnclear(err), isContext(err):
		s.over = errors.Join(errUsedUp, err)
		return s.over
	}
	return err
}

// finish ends the transaction once, and reports the answer. Without one, the session is over.
func (s *session) finish(ctx context.Context, commit, again bool) error {
	next, err := s.c.endTransaction(ctx, s.producer, commit, again)
	if errors.Is(err, kerr.InvalidTxnState) && !commit && s.version < 2 {
		// Nothing had come so far as to be part of it. From transaction.version 2 on an empty transaction may be aborted.
		s.follow(s.producer)
		return nil
	}
	if err != nil {
		s.over = errors.Join(errUsedUp, err)
		if isFenced(err) {
			s.over = errFenced
		}
		return err
	}
	s.follow(next)
	return nil
}

// follow goes on under what the end of the transaction left.
func (s *session) follow(next producer) {
	s.stale = next == s.producer
	s.producer = next
	s.reset()
}

// isFenced reports an answer that says that the epoch is not the current one, or has no such transaction. It does not say who ended it.
func isFenced(err error) bool {
	for _, e := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping,
		kerr.UnknownProducerID, kerr.TransactionalIDNotFound} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// add adds partitions to the transaction, where the broker does not do it by itself (transaction.version 2).
func (s *session) add(ctx context.Context, places []place) error {
	if s.version >= 2 {
		return nil
	}
	byTopic := make(map[string][]int32)
	for _, p := range places {
		if !s.added[p] {
			byTopic[p.topic] = append(byTopic[p.topic], p.partition)
		}
	}
	if len(byTopic) == 0 {
		return nil
	}
	err := s.c.ask(ctx, s.coordinated(), true, 3, func() kmsg.Request {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = s.id, s.pid, s.epoch
		for topic, parts := range byTopic {
			rt := kmsg.NewAddPartitionsToTxnRequestTopic()
			rt.Topic, rt.Partitions = topic, parts
			req.Topics = append(req.Topics, rt)
		}
		return req
	}, func(r kmsg.Response) error {
		var worst error
		for _, t := range r.(*kmsg.AddPartitionsToTxnResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil && (worst == nil || errors.Is(worst, kerr.OperationNotAttempted)) {
					worst = err
				}
			}
		}
		return worst
	})
	if err != nil {
		return err
	}
	for _, p := range places {
		s.added[p] = true
	}
	return nil
}
