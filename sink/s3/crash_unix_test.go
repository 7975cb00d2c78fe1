//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package s3_test

import (
	"bytes"
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

// crashVariable makes the test binary a process that is killed or stopped before its nth request: "n mode url bucket signal".
const crashVariable = "FLINKSINK_TEST_S3_CRASH"

// deadly kills or stops the process before its nth request, while others may be under way.
type deadly struct {
	http.RoundTripper
	left   atomic.Int64
	signal syscall.Signal
}

func (d *deadly) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.left.Add(-1) == 0 {
		syscall.Kill(os.Getpid(), d.signal)
		if d.signal == syscall.SIGKILL {
			select {} // the signal comes
		}
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
	if len(words) != 5 {
		t.Skip("the other half of TestKilledAtEveryRequest and TestStoppedAtEveryRequest")
	}
	n, err := strconv.Atoi(words[0])
	if err != nil {
		t.Fatal(err)
	}
	d := &deadly{RoundTripper: http.DefaultTransport, signal: syscall.SIGKILL}
	if words[4] == "stop" {
		d.signal = syscall.SIGSTOP
	}
	d.left.Store(int64(n))
	e := &env{t: t, url: words[2], bucket: words[3], tiny: os.Getenv(tinyVariable) != ""}
	deadClient := e.client(nil, func(o *awss3.Options) { o.HTTPClient = &http.Client{Transport: d} })
	s, err := s3.New(deadClient, e.bucket, "lake", crashOptions(words[1]))
	if err != nil {
		t.Fatal(err)
	}
	lower(s, e)
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

// tinyVariable tells the process that the server takes parts of any size.
const tinyVariable = "FLINKSINK_TEST_S3_TINY"

func child(t *testing.T, e *env, n int, mode, signal string) *exec.Cmd {
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), me, "-test.run=^TestCrashChild$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %s %s", crashVariable, n, mode, e.url, e.bucket, signal))
	if e.tiny {
		cmd.Env = append(cmd.Env, tinyVariable+"=1")
	}
	return cmd
}

// onEach runs f on the fake, and with FLINKSINK_LONG=1 on the real servers that there are, in both modes.
func onEach(t *testing.T, f func(t *testing.T, e *env, mode string)) {
	for name, server := range servers() {
		if name != "fake" && os.Getenv(longVariable) == "" {
			continue
		}
		for _, mode := range []string{"Multipart", "Rename"} {
			t.Run(name+mode, func(t *testing.T) {
				t.Parallel()
				f(t, server(t), mode)
			})
		}
	}
}

// A process is killed before each of its requests in turn; the next one settles what it left and carries all rows over: each is there once.
func TestKilledAtEveryRequest(t *testing.T) {
	step := 13
	if os.Getenv(longVariable) != "" {
		step = 1
	}
	onEach(t, func(t *testing.T, e *env, mode string) {
		for n := 1; ; n += step {
			e.empty()
			cmd := child(t, e, n, mode, "kill")
			out, err := cmd.CombinedOutput()
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			killed := ok && status.Signal() == syscall.SIGKILL
			if !killed && (err != nil || !strings.Contains(string(out), "done")) {
				t.Fatalf("request %d: the process was not killed and did not end well: %v\n%s", n, err, out)
			}
			e.succeeded(mode, fmt.Sprintf("killed before request %d", n))
			if t.Failed() || !killed {
				if n < 40 && !t.Failed() {
					t.Errorf("only %d requests were made", n)
				}
				return
			}
		}
	})
}

// A process is stopped before each of its requests in turn, as a machine that is suspended is, while its requests may be under way; the next one takes over and carries all rows;
// then the stopped one goes on where it was. It ends with ErrFenced or has nothing left to do, each row is there once, and what it still leaves the next Open finds.
func TestStoppedAtEveryRequest(t *testing.T) {
	step := 29
	if os.Getenv(longVariable) != "" {
		step = 3
	}
	onEach(t, func(t *testing.T, e *env, mode string) {
		fenced := 0
		for n := 1; ; n += step {
			e.empty()
			cmd := child(t, e, n, mode, "stop")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stopped, err := untilStopped(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			if !stopped {
				cmd.Wait() // it is gone: wait has its output
				if n < 40 || fenced == 0 {
					t.Errorf("%d requests were made, and %d processes were fenced: %s", n, fenced, out.String())
				}
				return
			}
			when := fmt.Sprintf("stopped before request %d", n)
			w := e.succeeded(mode, when)
			cmd.Process.Signal(syscall.SIGCONT)
			switch err := cmd.Wait(); {
			case strings.Contains(out.String(), "fenced"):
				fenced++
			case err != nil:
				t.Errorf("%s: the process that went on says neither that it is fenced nor that it is done: %v\n%s", when, err, out.String())
			}
			e.holds(crashRows, when+", after it went on")
			w.must(w.acquire())
			e.holds(crashRows, when+", after another Open")
			e.clean(when + ", after another Open")
			if t.Failed() {
				return
			}
		}
	})
}

// untilStopped waits until a child is stopped, or has ended.
func untilStopped(pid int) (stopped bool, err error) {
	var ws syscall.WaitStatus
	for {
		switch _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return false, err
		default:
			return ws.Stopped(), nil
		}
	}
}

// succeeded takes over from a process that is dead or stopped, and carries all rows.
func (e *env) succeeded(mode, when string) *writer {
	e.t.Helper()
	e.once(when)
	w := e.writer(lower(e.sink(crashOptions(mode)), e), events(e.t))
	e.holds(w.at, when+", after the successor's Open")
	w.must(w.carry())
	e.holds(crashRows, when+", at the end")
	e.clean(when + ", at the end")
	return w
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
