package format

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
)

// ReplayGuard is a decoder that leaves out what its source sent before: a connector that restarts (Debezium, Maxwell, GoldenGate are
// at-least-once) goes back some way in its log and sends the changes from there again, at new offsets of the topic.
//
// # What needs it
//
// A table with a PRIMARY KEY ends right without it. A replay is a run of changes that was sent before, in the same order, and it reaches as far
// as the source had come; so in each partition the last change of a key is the newest one, and upserts and deletes by key need no memory
// to end there. A snapshot record (op r) of a key is followed by every change of the log that is newer. What such a table shows meanwhile goes back
// in time, and a change that leaves columns out (Unchanged) may meet a row that is not there yet again. The guard takes both away.
//
// A table without a key is a multiset: a change that is applied twice stays doubled for ever, and a delete that is applied twice takes
// away an equal row that was sent once. There the guard is what makes the end state right.
//
// # How it works
//
// The guard keeps, for each partition and source, the place in the source's log that is the furthest it has seen: Debezium's source.sequence
// of Postgres and file, pos and row of MySQL, Maxwell's position, GoldenGate's pos. A change whose place is not beyond it, and whose clock is
// not either, was sent before. That is a function of the topic alone, so the state is not stored: after a start, a rebalance or a step
// back the guard reads the records before the first one again (History), and learns the same place.
//
// # What it does not guard
//
//   - Snapshot records pass: they have no place of their own. By key they do no harm; without a key a snapshot that is taken twice doubles rows.
//   - Changes of one place in Postgres's log: the rows that one COPY put into one page of a table. A replay that begins at exactly the furthest
//     place, with nothing from before it, looks like more such rows, so its changes pass again. The position of a checkpoint says nothing of it, since what is sent again has
//     offsets of its own. Set the connector's provide.transaction.metadata = true, which tells them apart, or NoCopy. Other replays
//     are told by what came before them, but for equal rows of one COPY without a key, which pass again too.
//   - A replay longer than Lookback, while the bridge starts in the middle of it, passes from there. Without History nothing is known of the
//     records before the first one.
//   - A row that was deleted while nobody read the log, before another snapshot. No record tells of it.
//   - canal-json (es has no order within a second, id begins anew), debezium-avro-confluent (Flink's reader does not have the source), and
//     formats without a source, such as json: an equal row there may well be another one.
//
// A change that went back in the log while its clock went on is no replay: the log was begun anew (a failover, a restored backup). It passes, and
// the guard begins there.
type ReplayGuard struct {
	inner    changelog.Decoder
	place    func(value []byte) (place, error)
	history  History
	lookback int64
	noCopy   bool
	dropped  atomic.Int64

	mu         sync.Mutex
	partitions map[changelog.Partition]*guarded
}

var _ changelog.Decoder = (*ReplayGuard)(nil)

// History calls each for the records of the partition with offsets from up to to, which is not part of it, in order, as far as a reader with
// the bridge's isolation level gets them. A record is not kept after each returned. An error of each ends the reading and is returned.
type History func(p changelog.Partition, from, to int64, each func(*changelog.Record) error) error

// GuardOptions are the settings of a [ReplayGuard]; nil means the defaults.
type GuardOptions struct {
	// History reads what lies before the first record that is decoded. It should be set wherever a bridge may start anywhere but at the
	// beginning of a partition. Defaults to nil: the guard knows what it has seen itself.
	History History
	// Lookback is how many offsets History is asked for. It should be more than a restarted connector sends again. Defaults to 10,000.
	Lookback int64
	// NoCopy promises that nothing is loaded into the source's tables with COPY, so that in Postgres, too, a place is of one change: what comes
	// from the furthest place was sent before. Of a COPY after all, a row in each page of the table would be kept and the others lost. Defaults to false.
	NoCopy bool
}

// guarded is what is known of a partition. Its memory is bounded by maxSources.
type guarded struct {
	mu   sync.Mutex
	last int64 // offset of the record that was seen last
	far  map[string]*reached
}

const (
	defaultLookback = 10_000
	// maxSources is how many sources may write into one partition.
	maxSources = 1000
	// maxControl is how many offsets without a record are taken for markers of transactions. A longer gap may be what another process read.
	maxControl = 16
)

// NewReplayGuard makes a guard of what d decodes, which is a decoder of t. It refuses formats whose messages have no place in a log.
func NewReplayGuard(t *ddl.Table, d changelog.Decoder, o *GuardOptions) (*ReplayGuard, error) {
	if t == nil || d == nil {
		return nil, errors.New("format: NewReplayGuard needs a table and its decoder")
	}
	if o == nil {
		o = &GuardOptions{}
	}
	if o.Lookback < 0 {
		return nil, fmt.Errorf("format: GuardOptions.Lookback is %d", o.Lookback)
	}
	name := t.Options["value.format"]
	if name == "" {
		name = t.Options["format"]
	}
	g := &ReplayGuard{inner: d, place: places[name], history: o.History, lookback: o.Lookback, noCopy: o.NoCopy, partitions: map[changelog.Partition]*guarded{}}
	if g.place == nil {
		return nil, fmt.Errorf("format: a ReplayGuard knows the places of debezium-json, maxwell-json and ogg-json; messages of '%s' have none that orders them", name)
	}
	if g.lookback == 0 {
		g.lookback = defaultLookback
	}
	return g, nil
}

// Table implements [changelog.Decoder].
func (g *ReplayGuard) Table() *changelog.Table { return g.inner.Table() }

// Replayed returns how many records were left out.
func (g *ReplayGuard) Replayed() int64 { return g.dropped.Load() }

// Decode implements [changelog.Decoder]. The records of a partition are to come in the order of their offsets, or anew from an earlier one, as
// those of a bridge do.
func (g *ReplayGuard) Decode(b *changelog.Batch, r *changelog.Record) error {
	start := b.Len()
	if err := g.inner.Decode(b, r); err != nil {
		return err
	}
	s := g.of(r.Partition)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := g.catchUp(s, r); err != nil {
		b.Truncate(start)
		return located(err, r)
	}
	if b.Len() > start {
		p, err := g.place(r.Value)
		seen := false
		if err == nil {
			seen, err = g.see(s, p)
		}
		if err != nil {
			b.Truncate(start)
			return located(inPart(err, "value"), r)
		}
		if seen {
			b.Truncate(start)
			g.dropped.Add(1)
		}
	}
	s.last = r.Offset
	return nil
}

func (g *ReplayGuard) of(p changelog.Partition) *guarded {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.partitions[p]
	if s == nil {
		s = &guarded{last: -1}
		g.partitions[p] = s
	}
	return s
}

// catchUp makes s what is known before r. The places that were seen in one go are the maximum of the records so far, and a maximum over a part of
// them is less: it leaves out less, never more.
func (g *ReplayGuard) catchUp(s *guarded, r *changelog.Record) error {
	if r.Offset > s.last && r.Offset <= s.last+1+maxControl && s.far != nil {
		return nil
	}
	from := max(r.Offset-g.lookback, 0)
	if s.far != nil && r.Offset > s.last {
		from = max(from, s.last+1) // another process may have read what lies between
	} else {
		s.far = map[string]*reached{}
	}
	if g.history == nil || from >= r.Offset {
		return nil
	}
	err := g.history(r.Partition, from, r.Offset, func(old *changelog.Record) error {
		if p, err := g.place(old.Value); err == nil {
			_, err = g.see(s, p)
			return err
		}
		return nil // it was an error when it was its turn, and is none again
	})
	if err != nil {
		s.far = nil // half of it is not what it says
		var known *changelog.DataError
		if errors.As(err, &known) {
			return known
		}
		return &changelog.UnavailableError{Reason: "the records before this one, which a ReplayGuard needs, cannot be read", Err: err}
	}
	return nil
}

// see notes a place and reports whether it was seen before.
func (g *ReplayGuard) see(s *guarded, p place) (bool, error) {
	if p.source == "" {
		return false, nil // a tombstone, or a snapshot record
	}
	far := s.far[p.source]
	if far == nil {
		if len(s.far) >= maxSources {
			return false, dataError(changelog.OutOfRange, "", "", fmt.Sprintf("more than %d sources write into this partition, and a ReplayGuard keeps a place for each", maxSources))
		}
		far = &reached{}
		s.far[p.source] = far
	} else if order := p.compare(far.place); order <= 0 && p.clock <= far.clock {
		switch {
		case order < 0:
			far.stepBack()
			return true, nil
		case p.exact || g.noCopy:
			return true, nil
		}
		return far.seen(p.change), nil
	}
	p.clock = max(p.clock, far.clock)
	*far = reached{place: p}
	if !p.exact && !g.noCopy {
		far.known = map[change]bool{p.change: true}
	}
	return false, nil
}
