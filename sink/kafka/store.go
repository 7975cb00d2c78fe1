package kafka

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Store keeps checkpoints in a compacted topic and moves the offsets of a consumer group, in one transaction. It is safe for use by several
// goroutines.
//
// Each generation saves under a transactional id of its own, which Acquire and End take away: after that the broker commits nothing of it, also
// not what is on its way. Two Acquires of a bridge exclude each other in the same way: each takes the bridge's own id, reads what there
// is, and writes; if another one took the id in between, its transaction is refused and it reads again. So what Acquire does is a
// compare-and-swap, and what Save does needs no lock at all.
//
// A generation can be saved by the Store that acquired it, and by no other.
type Store struct {
	c *cluster
	o Options

	acquiring sync.Mutex // one at a time in this process: they would only fence each other

	reading sync.Mutex // guards log and made
	log     *statelog
	made    bool

	mu      sync.Mutex // guards tenures and closed, and is never held for long
	tenures map[tenureKey]*tenure
	closed  bool
}

type tenureKey struct {
	bridge string
	id     sink.GenerationID
}

// tenure is a generation that was acquired here.
type tenure struct {
	gen       sink.Generation
	positions map[changelog.Partition]changelog.Position // saved
	ended     map[sink.GenerationID]sink.CheckpointID    // that may be settled, with their last checkpoint
	last      *savedRecord

	session *session // nil: not taken yet
	w       *writer
	refused error // why the id cannot be taken
}

var _ sink.Store = (*Store)(nil)

// NewStore returns a store on the cluster of cl, which is any client that is not transactional, and is closed by the caller.
func NewStore(cl *kgo.Client, o *Options) (*Store, error) {
	complete, err := o.complete()
	if cl == nil {
		err = errors.Join(err, errors.New("the client is nil: make one with kgo.NewClient"))
	}
	if err != nil {
		return nil, &sink.Error{Op: "new", Class: sink.ErrConfig, Err: err}
	}
	return newStore(newCluster(cl), complete), nil
}

func newStore(c *cluster, o Options) *Store {
	return &Store{c: c, o: o, log: &statelog{c: c, topic: o.Topic}, tenures: make(map[tenureKey]*tenure)}
}

func (s *Store) fail(op, bridge string, class, err error) error {
	return failure(op, "", bridge, class, err)
}

func (s *Store) name(bridge string, g sink.GenerationID) string {
	return nameOf(s.o.Prefix, bridge, "", g)
}

// lockGeneration stands for none: the id of the bridge itself.
const lockGeneration = 0

// read reads what the topic says of a bridge now.
func (s *Store) read(ctx context.Context, bridge string) (*known, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if !s.made {
		if err := s.log.make(ctx); err != nil {
			return nil, err
		}
		s.made = true
	}
	return s.log.read(ctx, bridge)
}

// Acquire implements [sink.Store].
func (s *Store) Acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	if r.Bridge == "" || len(r.Partitions) == 0 || !slices.IsSortedFunc(r.Partitions, changelog.Partition.Compare) {
		return sink.Claim{}, s.fail("acquire", r.Bridge, sink.ErrConfig, errors.New("a request needs a bridge and at least one partition, sorted"))
	}
	s.acquiring.Lock()
	defer s.acquiring.Unlock()
	p := newPause(patience)
	for {
		claim, err := s.acquire(ctx, r)
		if err == nil {
			return claim, nil
		}
		// Another Acquire of the bridge came between: nothing was written.
		if !errors.Is(err, errOvertaken) || !p.wait(ctx) {
			return sink.Claim{}, s.fail("acquire", r.Bridge, sink.ErrTransient, err)
		}
	}
}

var errOvertaken = errors.New("another Acquire of the bridge came between")

func (s *Store) acquire(ctx context.Context, r sink.AcquireRequest) (sink.Claim, error) {
	k, err := s.read(ctx, r.Bridge)
	if err != nil {
		return sink.Claim{}, err
	}
	if err := k.refuses(r, s.o.Prefix); err != nil {
		return sink.Claim{}, err // without disturbing anybody
	}
	lock, err := s.c.initProducer(ctx, producer{id: s.name(r.Bridge, lockGeneration), pid: -1, epoch: -1}, lockTimeout, true)
	if err != nil {
		return sink.Claim{}, err
	}
	if k, err = s.read(ctx, r.Bridge); err != nil {
		return sink.Claim{}, err
	}
	if err := k.refuses(r, s.o.Prefix); err != nil {
		return sink.Claim{}, err
	}
	if k.bridge == nil {
		if err := s.forgotten(ctx, r); err != nil {
			return sink.Claim{}, err
		}
	}
	// From here on nothing is saved for those who hold a partition. What they saved before is read afterwards.
	holders := k.holders(r.Partitions)
	for _, g := range holders {
		if err := s.c.fence(ctx, s.name(r.Bridge, g), s.o.TransactionTimeout); err != nil {
			return sink.Claim{}, err
		}
	}
	if len(holders) > 0 {
		if k, err = s.read(ctx, r.Bridge); err != nil {
			return sink.Claim{}, err
		}
	}
	b, gen, gone := k.acquire(r, s.o.Prefix, time.Now().UTC())
	records, err := encodeState(map[stateKey]any{{kind: "bridge", bridge: r.Bridge}: b})
	if err != nil {
		return sink.Claim{}, err
	}
	for _, key := range gone {
		records = append(records, stateRecord{key, nil})
	}
	if err := s.transact(ctx, lock, records); err != nil {
		return sink.Claim{}, err
	}
	k.bridge = b
	claim, err := k.claim(gen)
	if err != nil {
		return sink.Claim{}, err
	}
	s.settleIn(k, claim)
	return claim, nil
}

// lockTimeout bounds how long a transaction of Acquire is left open by a process that died in it, if nobody acquires again.
const lockTimeout = time.Minute

// settleIn keeps what Save compares with.
func (s *Store) settleIn(k *known, claim sink.Claim) {
	t := &tenure{gen: claim.Generation, positions: make(map[changelog.Partition]changelog.Position), ended: make(map[sink.GenerationID]sink.CheckpointID)}
	for _, p := range claim.Positions {
		t.positions[p.Partition] = p
	}
	for id, g := range k.bridge.Generations {
		if g.Ended {
			t.ended[id] = k.last(id)
		}
	}
	for id, last := range k.settled {
		t.ended[id] = last
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, other := range s.tenures {
		if g := k.bridge.Generations[key.id]; key.bridge == claim.Generation.Bridge && (g == nil || g.Ended) {
			other.leave()
			delete(s.tenures, key)
		}
	}
	s.tenures[tenureKey{claim.Generation.Bridge, claim.Generation.ID}] = t
}

func (t *tenure) leave() {
	if t.w != nil {
		t.w.kill()
	}
}

func (s *Store) tenure(gen sink.Generation) *tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenures[tenureKey{gen.Bridge, gen.ID}]
}

// End implements [sink.Store]: the generation's id is taken away, and then what it saved is read.
func (s *Store) End(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	last, err := s.end(ctx, gen)
	return last, s.fail("end", gen.Bridge, sink.ErrUncertain, err)
}

func (s *Store) end(ctx context.Context, gen sink.Generation) (sink.CheckpointID, error) {
	k, err := s.read(ctx, gen.Bridge)
	if err != nil {
		return 0, err
	}
	if last, ok := k.settled[gen.ID]; ok {
		return last, nil
	}
	if k.bridge == nil || k.bridge.Generations[gen.ID] == nil {
		return 0, refuse(sink.ErrConfig, "generation %d of bridge %q is not known, or was settled long ago", gen.ID, gen.Bridge)
	}
	if err := s.c.fence(ctx, s.name(gen.Bridge, gen.ID), s.o.TransactionTimeout); err != nil {
		return 0, err
	}
	if k, err = s.read(ctx, gen.Bridge); err != nil {
		return 0, err
	}
	s.mu.Lock()
	if t := s.tenures[tenureKey{gen.Bridge, gen.ID}]; t != nil {
		t.leave()
		delete(s.tenures, tenureKey{gen.Bridge, gen.ID})
	}
	s.mu.Unlock()
	if last, ok := k.settled[gen.ID]; ok {
		return last, nil
	}
	return k.last(gen.ID), nil
}

// Read implements [sink.Store].
func (s *Store) Read(ctx context.Context, bridge string) (sink.State, error) {
	k, err := s.read(ctx, bridge)
	if err != nil {
		return sink.State{}, s.fail("read", bridge, sink.ErrTransient, err)
	}
	state, err := k.state()
	return state, s.fail("read", bridge, sink.ErrLost, err)
}

// Close implements [sink.Store].
func (s *Store) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.tenures {
		t.leave()
	}
	clear(s.tenures)
	return nil
}
