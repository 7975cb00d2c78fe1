//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package s3_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

// crashVariable makes the test binary a process that dies before its nth request: "n mode url bucket".
const crashVariable = "FLINKSINK_TEST_S3_CRASH"

// deadly kills the process before its nth request, or in the middle of it.
type deadly struct {
	http.RoundTripper
	left atomic.Int64
}

func (d *deadly) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.left.Add(-1) == 0 {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal comes
	}
	return d.RoundTripper.RoundTrip(r)
}

func crashOptions(mode string) *s3.Options {
	o := &s3.Options{MaxFileRows: 2, Manifest: true, Uploads: 2}
	if mode == "Rename" {
		o.Mode = s3.Rename
	}
	return o
}

// crashRows is how many rows there are in all, five a checkpoint.
const crashRows = 15

func (w *writer) carry() error {
	for w.at < crashRows {
		if err := w.rows(5); err != nil {
			return err
		}
		d, err := w.prepare()
		if err == nil {
			err = w.save(d)
		}
		if err == nil {
			err = w.c.Commit(w.ctx, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestCrashChild is the process that dies. It is nothing by itself.
func TestCrashChild(t *testing.T) {
	words := strings.Fields(os.Getenv(crashVariable))
	if len(words) != 4 {
		t.Skip("the other half of TestKilledAtEveryRequest")
	}
	n, err := strconv.Atoi(words[0])
	if err != nil {
		t.Fatal(err)
	}
	d := &deadly{RoundTripper: http.DefaultTransport}
	d.left.Store(int64(n))
	e := &env{t: t, url: words[2], bucket: words[3]}
	deadClient := e.client(nil, func(o *awss3.Options) { o.HTTPClient = &http.Client{Transport: d} })
	s, err := s3.New(deadClient, e.bucket, "lake", crashOptions(words[1]))
	if err != nil {
		t.Fatal(err)
	}
	s.Lower(30, 0, 40, 20, 200)
	c, err := s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: []*changelog.Table{events(t)}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := s3.NewStore(deadClient, e.bucket, "lake", s3.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, ctx: context.Background(), s: s, c: c, store: store, table: events(t)}
	w.must(w.acquire())
	w.must(w.carry())
	fmt.Println("done")
}

// A process is killed before each of its requests in turn; the next one settles what it left and carries all rows over: each is there once.
func TestKilledAtEveryRequest(t *testing.T) {
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	step := 9
	if os.Getenv(longVariable) != "" {
		step = 1
	}
	for _, mode := range []string{"Multipart", "Rename"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			e := newFake(t)
			for n := 1; ; n += step {
				e.empty()
				cmd := exec.CommandContext(t.Context(), me, "-test.run=^TestCrashChild$", "-test.v")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %s", crashVariable, n, mode, e.url, e.bucket))
				out, err := cmd.CombinedOutput()
				status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
				killed := ok && status.Signal() == syscall.SIGKILL
				if !killed && (err != nil || !strings.Contains(string(out), "done")) {
					t.Fatalf("request %d: the process was not killed and did not end well: %v\n%s", n, err, out)
				}
				e.once(fmt.Sprintf("killed before request %d", n))
				s := e.sink(crashOptions(mode)).Lower(30, 0, 40, 20, 200)
				w := e.writer(s, events(t))
				e.holds(w.at, fmt.Sprintf("killed before request %d, after the successor's Open", n))
				w.must(w.carry())
				e.holds(crashRows, fmt.Sprintf("killed before request %d, at the end", n))
				if u := e.uploads(); len(u) != 0 {
					t.Errorf("killed before request %d: uploads are left: %v", n, u)
				}
				if k := e.keys("lake/_staging/"); len(k) != 0 {
					t.Errorf("killed before request %d: staged objects are left: %v", n, k)
				}
				if t.Failed() || !killed {
					if n < 60 && !t.Failed() {
						t.Errorf("only %d requests were made", n)
					}
					return
				}
			}
		})
	}
}

// once fails if a row is visible twice.
func (e *env) once(when string) {
	e.t.Helper()
	ids := e.ids()
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			e.t.Errorf("%s: row %d is there twice", when, ids[i])
		}
	}
}
