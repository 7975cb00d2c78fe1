package s3_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// outagePort is that of a server that is killed.
const outagePort = "19191"

func testbed(t *testing.T, script string, args ...string) string {
	t.Helper()
	cmd := exec.Command("../../testbed/"+script, args...)
	cmd.Env = append(os.Environ(), "FLINKSINK_S3_PORT="+outagePort)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	words := strings.Fields(string(out))
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// A real server is killed, as by kill -9, in the middle of uploads and of completions, and comes up again: what was decided is there once, nothing else is.
func TestServerKilled(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Skipf("takes a minute: set %s=1, or run ./test full", longVariable)
	}
	url := testbed(t, "s3-up")
	t.Cleanup(func() { testbed(t, "s3-down", "--wipe") })
	big := strings.Repeat("x", 20_000)
	for round := range 6 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			e := newRealAt(t, url)
			o := &s3.Options{PartSize: 5 << 20, Manifest: true}
			if round%2 == 1 {
				o.Mode = s3.Rename
			}
			w := e.writer(e.sink(o), events(t))
			base := w.at
			more := func() error {
				for range 400 { // 8 MB: some parts
					if err := w.write(w.change(changelog.Insert, num(w.at), str(big))); err != nil {
						return err
					}
				}
				return nil
			}
			kill := func() { testbed(t, "s3-down", "--kill") }
			up := func() { testbed(t, "s3-up") }
			done := make(chan error, 1)
			if round < 2 { // while parts are on their way
				go func() {
					err := more()
					if err == nil {
						_, err = w.prepare()
					}
					done <- err
				}()
				kill()
				err := <-done
				up()
				if err != nil && sink.ClassOf(err) != sink.ErrTransient {
					t.Errorf("a server that was killed: %v", err)
				}
			} else { // while uploads are completed
				w.must(more())
				d, err := w.prepare()
				w.must(err)
				w.must(w.save(d))
				go func() { done <- w.c.Commit(w.ctx, d) }()
				kill()
				err = <-done
				up()
				if err != nil && sink.ClassOf(err) != sink.ErrTransient && sink.ClassOf(err) != sink.ErrUncertain {
					t.Errorf("a server that was killed: %v", err)
				}
				base = w.at
			}
			next, err := e.patient(o)
			w.must(err)
			if next.at != base {
				t.Errorf("the successor begins at %d, expected %d", next.at, base)
			}
			e.holds(base, "after the server came up and the successor opened")
			next.put(3)
			e.holds(base+3, "after the successor's checkpoint")
			if len(e.uploads())+len(e.keys("lake/_staging/")) != 0 {
				t.Errorf("left: %v %v", e.uploads(), e.keys("lake/_staging/"))
			}
		})
	}
}

// A throttled server, one that breaks down, and one whose answers are lost, each at one of twelve requests: the sink says so and goes on where the same call is made again.
func TestServerUnwell(t *testing.T) {
	for name, f := range map[string]s3test.Fault{"503": {Status: 503, Code: "SlowDown"}, "500": {Status: 500, Code: "InternalError"}, "lost": {After: true}, "cut": {}} {
		for _, mode := range []s3.Mode{s3.Multipart, s3.Rename} {
			t.Run(fmt.Sprint(name, mode), func(t *testing.T) {
				e := newFake(t)
				var mu sync.Mutex
				dice := rand.New(rand.NewPCG(1, 2))
				e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
					mu.Lock()
					defer mu.Unlock()
					if dice.IntN(12) == 0 && !strings.Contains(r.Key, "/probe-") {
						return &f
					}
					return nil
				}
				s := e.sink(&s3.Options{Mode: mode, Manifest: true, MaxFileRows: 2, Uploads: 1}).Lower(40, 0, 50, 30, 200)
				var w *writer
				for try := 0; w == nil || w.from < 15; try++ {
					if try > 400 {
						t.Fatal("it makes no way")
					}
					if w == nil {
						c, err := s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: tables(events(t))})
						if err != nil {
							continue
						}
						store, err := s3.NewStore(e.client(nil), e.bucket, "lake", s3.Settings{})
						if err != nil {
							t.Fatal(err)
						}
						w = &writer{t: t, ctx: t.Context(), s: s, c: c, store: store, table: events(t)}
					}
					if w.acquire() != nil {
						continue
					}
					if w.rows(5) != nil {
						w.c.Discard(t.Context())
						continue
					}
					d, err := w.prepare()
					if err != nil || w.save(d) != nil {
						w.c.Discard(t.Context())
						continue
					}
					for w.c.Commit(t.Context(), d) != nil {
						if try++; try > 400 {
							t.Fatal("Commit makes no way")
						}
					}
				}
				e.fake.Intercept = nil
				w.must(w.acquire())
				e.holds(15, "at the end")
				if len(e.uploads())+len(e.keys("lake/_staging/")) != 0 {
					t.Errorf("left: %v %v", e.uploads(), e.keys("lake/_staging/"))
				}
			})
		}
	}
}

// A call whose context ends while the server hangs returns.
func TestServerHangs(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(nil), events(t))
	w.must(w.rows(2))
	release := make(chan struct{})
	hung := make(chan struct{})
	e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
		if r.Op == "UploadPart" {
			return &s3test.Fault{Do: func() { close(hung); <-release }}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.ctx = ctx
	go func() { <-hung; cancel() }()
	_, err := w.prepare()
	close(release)
	if !errors.Is(err, context.Canceled) || sink.ClassOf(err) != sink.ErrTransient {
		t.Errorf("got %v", err)
	}
	e.fake.Intercept = nil
	w.ctx = t.Context()
	if _, err := w.prepare(); err == nil {
		t.Error("a checkpoint with a hole was prepared")
	}
	w.must(w.c.Discard(t.Context()))
	w.must(w.acquire())
	w.put(2)
	e.holds(2, "after the server was well")
}

// patient starts a lane on a server that has just come up, as a coordinator does: what is unclear is tried again.
func (e *env) patient(o *s3.Options) (*writer, error) {
	// Nobody else completes an upload any more, so there is nothing to wait for where the server died in a completion.
	c, err := e.sink(o).Patience(0).Lane(e.t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: tables(events(e.t))})
	if err != nil {
		e.t.Fatal(err)
	}
	store, err := s3.NewStore(e.client(nil), e.bucket, "lake", s3.Settings{})
	if err != nil {
		e.t.Fatal(err)
	}
	w := &writer{t: e.t, ctx: e.t.Context(), c: c, store: store, table: events(e.t)}
	for range 5 {
		if err = w.acquire(); err == nil || sink.ClassOf(err) != sink.ErrUncertain {
			break
		}
	}
	return w, err
}

func tables(t ...*changelog.Table) []*changelog.Table { return t }
