package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/sink"
)

// lease is the right to write where deletes are Hard.
//
// With every other choice a write that comes late is refused by its version. A deleted document's version, though, is forgotten after
// index.gc_deletes. So a lane whose generation has ended must not go on sending for longer than that: each bulk is sent only if the lane knew, less than
// half of gc_deletes ago, that its generation was the newest one of its partitions. It knows by writing its number as the external version of a document for
// each partition: those are never deleted, so a newer generation that opened makes this fail for good.
//
// A successor writes its numbers in Open, before its first delete. So a late bulk of its predecessor was sent at most half of gc_deletes after
// that, and meets the version of the delete, if the bulk itself is not on its way for as long, and if the shard was not restarted. For when it was, see owed.
type lease struct {
	c    *committer
	gen  sink.Generation
	body []byte // the bulk that writes the numbers

	mu    sync.Mutex // pipes renew at the same time
	half  time.Duration
	known time.Time // when the last successful renewal was begun
}

// openLease ends the right of older generations, and finds out whether this one is over itself.
func (c *committer) openLease(ctx context.Context, gen sink.Generation) error {
	l := &lease{c: c, gen: gen, half: maxLease}
	if err := c.s.openControl(ctx); err != nil {
		return err
	}
	for _, p := range c.plans {
		if err := l.cover(ctx, p.index); err != nil {
			return err
		}
	}
	for _, p := range gen.Partitions {
		l.body = append(l.body, `{"index":{"_id":`...)
		l.body = appendString(l.body, appendHash(nil, []byte(gen.Bridge+"\x00"+c.lane.Sink+"\x00"+p.String())))
		l.body = append(l.body, `,"version":`...)
		l.body = strconv.AppendInt(l.body, int64(gen.ID), 10)
		l.body = append(l.body, `,"version_type":"external_gte"}}`+"\n"+`{"bridge":`...)
		l.body = appendString(l.body, []byte(gen.Bridge))
		l.body = append(l.body, `,"sink":`...)
		l.body = appendString(l.body, []byte(c.lane.Sink))
		l.body = append(l.body, `,"partition":`...)
		l.body = appendString(l.body, []byte(p.String()))
		l.body = append(l.body, `,"generation":`...)
		l.body = strconv.AppendInt(l.body, int64(gen.ID), 10)
		l.body = append(l.body, "}\n"...)
	}
	c.lease = l
	return l.renew(ctx)
}

// cover makes the lease short enough for an index, or for each that a name or pattern stands for.
func (l *lease) cover(ctx context.Context, index string) error {
	all, err := l.c.s.look(ctx, index)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, x := range all {
		gc, err := x.gcDeletes()
		if err != nil {
			return configf("index.gc_deletes of index %s: %w", name, err)
		}
		if gc < minGC {
			return configf("index.gc_deletes of index %s is %v, so the server forgets a deleted document at once: set it to 1 m or more, or choose Options.Deletes: Tombstone", name, gc)
		}
		l.half = min(l.half, gc/2)
	}
	return nil
}

// longest is how long one request may take: what the client sends again by itself, it sends within the lease.
func (l *lease) longest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.half
}

// since is how long ago t was, by the clock that goes on while a machine sleeps and by the one that nobody sets, whichever says more.
func since(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// minGC is the smallest gc_deletes under which a lease is of use.
const minGC = 10 * time.Second

// renew asks, when a quarter of gc_deletes has passed, whether the generation is still the newest.
func (l *lease) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known.IsZero() && since(l.known) < l.half/2 {
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, min(l.half/2, l.c.s.o.RequestTimeout))
	defer cancel()
	res, err := esapi.BulkRequest{Index: l.c.s.o.ControlIndex, Body: bytes.NewReader(l.body), FilterPath: answerPath}.Do(ctx, l.c.s.client)
	if err != nil {
		return transientf("the generation cannot be confirmed: %w", hide(err))
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return refusedCall("write into index "+l.c.s.o.ControlIndex+", which Options.ControlIndex names", res)
	}
	answers, err := readAnswers(io.LimitReader(res.Body, maxAnswer), len(l.gen.Partitions))
	if err != nil {
		return transientf("the generation cannot be confirmed: %w", err)
	}
	for i := range answers {
		switch answers[i].verdict() {
		case done:
		case conflict:
			return &sink.Error{Class: sink.ErrFenced, Err: fmt.Errorf("generation %d has ended: a newer one opened for %s (if the bridge's store was made anew, and counts from 1 again, "+
				"delete the documents with bridge %q in index %s)", l.gen.ID, l.gen.Partitions[i], l.gen.Bridge, l.c.s.o.ControlIndex)}
		case later:
			return transientf("the generation cannot be confirmed: %w", answers[i].why())
		default:
			return configf("the server does not write into index %s, which Options.ControlIndex names: %w", l.c.s.o.ControlIndex, answers[i].why())
		}
	}
	l.known = began
	return nil
}

// parseTime reads a time of Elasticsearch's settings, such as 60s.
func parseTime(s string) (time.Duration, error) {
	if s == "-1" {
		return 0, nil // keeps nothing, as seen
	}
	for _, u := range []struct {
		unit string
		d    time.Duration
	}{{"nanos", time.Nanosecond}, {"micros", time.Microsecond}, {"ms", time.Millisecond}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n, ok := strings.CutSuffix(s, u.unit); ok {
			f, err := strconv.ParseFloat(n, 64)
			if err != nil || f < 0 || f*float64(u.d) > float64(1<<62) {
				break
			}
			return time.Duration(f * float64(u.d)), nil
		}
	}
	return 0, errors.New("is no time that is known here, such as 60s")
}
