package s3

import (
	"context"
	"math/rand/v2"
	"path"
	"sync"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// probe finds out once whether the server keeps conditional writes. It uses scratch objects, since no header says so: some servers ignore the conditions,
// and some check them in one step and write in the next.
func (s *Store) probe(ctx context.Context, op string) error {
	if op == "read" {
		return nil // changes nothing
	}
	s.probed.Lock()
	defer s.probed.Unlock()
	if s.fit {
		return nil
	}
	key := path.Join(s.prefix, ownFolder, "probe-"+newToken())
	err := s.probeAt(ctx, key)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	rerr := s.b.remove(clean, key)
	if err == nil && rerr != nil && classify(rerr) == sink.ErrConfig {
		err = rerr
	}
	s.fit = err == nil
	return err
}

// Rounds and rivals of a race. A server that checks and writes in two steps was seen to let several win in three of four races.
const (
	probeRounds = 5
	probeRivals = 5
)

func (s *Store) probeAt(ctx context.Context, key string) error {
	unfit := func(what string) error {
		return errorf(sink.ErrConfig, "the server %s, so a bucket of it cannot decide about checkpoints: keep them elsewhere (filestore on one host, the Postgres or Kafka store), or use a server with conditional writes. The sink itself does not need them", what)
	}
	etag, err := s.b.put(ctx, key, []byte("probe 1"), condition{absent: true}, "")
	if err != nil {
		return err
	}
	switch _, err = s.b.put(ctx, key, []byte("probe 2"), condition{absent: true}, ""); {
	case err == nil:
		return unfit("ignores If-None-Match")
	case !isPrecondition(err) && !isConflict(err):
		return err
	}
	switch _, err = s.b.put(ctx, key, []byte("probe 3"), condition{etag: `"00000000000000000000000000000000"`}, ""); {
	case err == nil:
		return unfit("ignores If-Match")
	case !isPrecondition(err) && !isConflict(err) && !isNoKey(err):
		return err
	}
	for range probeRounds {
		var wg sync.WaitGroup
		var etags [probeRivals]string
		var errs [probeRivals]error
		for i := range probeRivals {
			wg.Go(func() { etags[i], errs[i] = s.b.put(ctx, key, []byte("probe "+newToken()), condition{etag: etag}, "") })
		}
		wg.Wait()
		won := 0
		for i := range errs {
			switch {
			case errs[i] == nil:
				won++
				etag = etags[i]
			case !isPrecondition(errs[i]) && !isConflict(errs[i]):
				return errs[i]
			}
		}
		if won > 1 {
			return unfit("lets several writes with the same If-Match win at once")
		}
		if won == 0 { // all met a conflict: the object is as it was
			continue
		}
	}
	return nil
}

// pause waits before another try, longer each time, and each rival for another time.
func pause(ctx context.Context, try int) error {
	most := 5 * time.Millisecond << min(try, 7)
	t := time.NewTimer(rand.N(most) + time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
