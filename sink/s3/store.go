package s3

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/internal/ledger"
)

// Store is a [sink.Store] in a bucket: one object a bridge, shared by its lanes, replaced by compare-and-swap (If-Match and If-None-Match). It is
// safe for use by several goroutines, and by any number of processes.
//
// Each Acquire and Save costs a GET and a PUT, in tens of milliseconds on AWS; lanes of one bridge that save at the same moment try again.
type Store struct {
	b      bucket
	prefix string

	probed sync.Mutex // held while the server is probed
	fit    bool

	mu     sync.Mutex
	marked map[string]bool // bridges whose marker is known to be there
}

var _ sink.Store = (*Store)(nil)

// NewStore returns the store in a bucket, below prefix. All processes of a bridge name the same bucket and prefix. settings go with the objects; the
// zero value is fine.
//
// The first call asks the server, with scratch objects, whether it keeps conditional writes; one that does not is an ErrConfig that says what works
// instead.
func NewStore(client *s3.Client, bucketName, prefix string, settings Settings) (*Store, error) {
	if err := place(client, bucketName, prefix); err != nil {
		return nil, &sink.Error{Op: "new", Class: sink.ErrConfig, Err: err}
	}
	return &Store{b: bucket{api: client, name: bucketName, settings: settings}, prefix: strings.Trim(prefix, "/"), marked: map[string]bool{}}, nil
}

func (s *Store) key(bridge string) string {
	return path.Join(s.prefix, ownFolder, escape(bridge), "store.json")
}

// marker is the name of the object that says that there is a state: where it is there and the state is not, somebody took the state away.
func (s *Store) marker(bridge string) string {
	return path.Join(s.prefix, ownFolder, escape(bridge), "began")
}

// Acquire implements [sink.Store].
func (s *Store) Acquire(ctx context.Context, r sink.AcquireRequest) (claim sink.Claim, err error) {
	err = s.change(ctx, "acquire", r.Bridge, func(c *ledger.Content) (bool, error) {
		claim, err = c.Acquire(r, time.Now().UTC())
		return true, err
	})
	if err != nil {
		return sink.Claim{}, err
	}
	return claim, nil
}

// Save implements [sink.Store]. The swap is the decision.
func (s *Store) Save(ctx context.Context, gen sink.Generation, cp sink.Checkpoint) error {
	return s.change(ctx, "save", gen.Bridge, func(c *ledger.Content) (bool, error) { return true, c.Save(gen, cp, time.Now().UTC()) })
}

// End implements [sink.Store].
//
// A Save that is still on its way asks for the state that it read: once the generation is ended in the object, by this call or one before, that
// state is gone, and the Save is refused by its condition.
func (s *Store) End(ctx context.Context, gen sink.Generation) (last sink.CheckpointID, err error) {
	err = s.change(ctx, "end", gen.Bridge, func(c *ledger.Content) (changed bool, err error) {
		last, changed, err = c.End(gen)
		return changed, err
	})
	if err != nil {
		return 0, err
	}
	return last, nil
}

// Read implements [sink.Store].
func (s *Store) Read(ctx context.Context, bridge string) (state sink.State, err error) {
	err = s.change(ctx, "read", bridge, func(c *ledger.Content) (bool, error) {
		state, err = c.Read(bridge)
		return false, err
	})
	if err != nil {
		return sink.State{}, err
	}
	return state, nil
}

// Close implements [sink.Store]: there is nothing to free. The client is the caller's.
func (s *Store) Close(context.Context) error { return nil }

// String names the place.
func (s *Store) String() string { return "s3://" + path.Join(s.b.name, s.prefix) }

// maxSwaps bounds how often a call reads, decides and swaps: rivals save at most as often as the bridge has lanes, again and again. maxUnwell bounds
// how often it does so after the server failed; the caller tries again with pauses of its own.
const (
	maxSwaps  = 50
	maxUnwell = 3
)

// change runs f on the stored state and swaps the state for what f made of it, if f says so.
//
// An answer that was lost is no riddle here. The swap carried a token of its own: if the object has it, it was done. If the object has another ETag than
// the one that was asked for, then the swap was either done and built upon, or can never be done any more; f, on what is there now, tells which, as Save
// accepts the same checkpoint again, and an Acquire more or less makes no difference. If the object is as it was, the swap may still be on its way:
// it is sent again with the same condition, and at most one of the two is done.
func (s *Store) change(ctx context.Context, op, bridge string, f func(c *ledger.Content) (changed bool, err error)) error {
	if err := s.probe(ctx, op); err != nil {
		return wrap(ctx, op, "", bridge, undone(err), err)
	}
	token, sent := "", false // of the last swap; whether one may have been done
	var last error
	unwell := 0
	for try := range maxSwaps {
		content, o, ok, err := s.load(ctx, bridge)
		if err != nil {
			if sent {
				return wrap(ctx, op, "", bridge, sink.ErrUncertain, errors.Join(last, err))
			}
			return wrap(ctx, op, "", bridge, undone(err), err)
		}
		if ok && token != "" && o.token == token {
			return s.mark(ctx, op, bridge) // it was done
		}
		changed, err := f(content)
		if err != nil || !changed {
			return wrap(ctx, op, "", bridge, sink.ErrTransient, err)
		}
		body, err := content.Bytes()
		if err != nil {
			return wrap(ctx, op, "", bridge, sink.ErrConfig, err)
		}
		token = newToken()
		if _, err = s.b.put(ctx, s.key(bridge), body, condition{absent: !ok, etag: o.etag}, token); err == nil {
			return s.mark(ctx, op, bridge)
		}
		last = err
		switch {
		case isPrecondition(err), isConflict(err), o.etag != "" && isNoKey(err): // surely not done, or done by an earlier try of the SDK
		case classify(err) == sink.ErrConfig:
			return wrap(ctx, op, "", bridge, sink.ErrConfig, err)
		case ctx.Err() != nil:
			return wrap(ctx, op, "", bridge, sink.ErrUncertain, err)
		default:
			sent = sent || classify(err) != sink.ErrTransient
			if unwell++; unwell == maxUnwell {
				return wrap(ctx, op, "", bridge, classOfSwap(sent), err)
			}
		}
		if err := pause(ctx, try); err != nil {
			return wrap(ctx, op, "", bridge, classOfSwap(sent), errors.Join(err, last))
		}
	}
	return wrap(ctx, op, "", bridge, classOfSwap(sent), last)
}

// classOfSwap is the class of a call that gave up: whether one of its swaps may have been done.
func classOfSwap(sent bool) error {
	if sent {
		return sink.ErrUncertain
	}
	return sink.ErrTransient
}

// load reads the state. One that is not there is an empty one, unless its marker is.
func (s *Store) load(ctx context.Context, bridge string) (*ledger.Content, stored, bool, error) {
	if bridge == "" {
		return nil, stored{}, false, errorf(sink.ErrConfig, "the bridge has no name")
	}
	body, o, ok, err := s.b.get(ctx, s.key(bridge))
	if err != nil {
		return nil, stored{}, false, err
	}
	if ok {
		c, err := ledger.Parse(body)
		return c, o, true, err
	}
	_, began, err := s.b.head(ctx, s.marker(bridge))
	if err != nil {
		return nil, stored{}, false, err
	}
	if began {
		// The marker is younger than the state. Both may have been made since the state was looked for, by another process that begins with the bridge.
		if body, o, ok, err = s.b.get(ctx, s.key(bridge)); err != nil {
			return nil, stored{}, false, err
		}
		if !ok {
			return nil, stored{}, false, errorf(sink.ErrLost, "the object %s is gone: put it back, or delete %s as well to begin anew", s.key(bridge), s.marker(bridge))
		}
		c, err := ledger.Parse(body)
		return c, o, true, err
	}
	return ledger.New(), stored{}, false, nil
}

// mark leaves the marker, once a process. What was decided stays decided when it fails; the next call tries again.
func (s *Store) mark(ctx context.Context, op, bridge string) error {
	s.mu.Lock()
	known := s.marked[bridge]
	s.mu.Unlock()
	if known {
		return nil
	}
	if _, err := s.b.put(ctx, s.marker(bridge), []byte("There is a store.json beside this object; without it the bridge does not start.\n"), condition{}, ""); err != nil {
		if op == "acquire" {
			return wrap(ctx, op, "", bridge, sink.ErrUncertain, err)
		}
		return nil
	}
	s.mu.Lock()
	s.marked[bridge] = true
	s.mu.Unlock()
	return nil
}
