//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filestore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flinksink/flinksink/sink"
)

// crashVariable makes the test binary a process that dies in its nth replacement at a step: "2 renamed /path".
const crashVariable = "FLINKSINK_TEST_FILESTORE_CRASH"

// TestCrashChild is the process that dies. It is nothing by itself.
func TestCrashChild(t *testing.T) {
	order := os.Getenv(crashVariable)
	if order == "" {
		t.Skip("the other half of TestStore_KilledAtEveryStep")
	}
	var replacement, n int
	words := strings.SplitN(order, "|", 3)
	if _, err := fmt.Sscan(words[0], &replacement); err != nil {
		t.Fatal(err)
	}
	s := open(t, words[2])
	s.step = func(step string) {
		if step == "begin" {
			n++
		}
		if n == replacement && step == words[1] {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal comes
		}
	}
	c, err := s.Acquire(t.Context(), request())
	if err == nil {
		err = s.Save(t.Context(), c.Generation, sink.Checkpoint{ID: 1, From: at(0), To: at(5), Committables: []sink.Committable{{Sink: "s", Version: 1, Data: []byte("x")}}})
	}
	if err == nil {
		err = s.Save(t.Context(), c.Generation, sink.Checkpoint{ID: 2, From: at(5), To: at(9)})
	}
	t.Fatalf("it should have died: %v", err)
}

// A process is killed at every step of every replacement: the file is the old one or the new one, never less, and End and a successor's
// claim agree on which.
func TestStore_KilledAtEveryStep(t *testing.T) {
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for replacement := 1; replacement <= 3; replacement++ {
		for _, step := range []string{"begin", "created", "half written", "written", "synced", "renamed", "folder synced"} {
			t.Run(fmt.Sprint(replacement, " ", step), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "c.json")
				cmd := exec.CommandContext(t.Context(), me, "-test.run=^TestCrashChild$")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d|%s|%s", crashVariable, replacement, step, path))
				out, err := cmd.CombinedOutput()
				if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
					t.Fatalf("the process was not killed: %v\n%s", err, out)
				}
				done := sink.CheckpointID(replacement - 2) // that are certain: each replacement but the first is a checkpoint
				if step == "renamed" || step == "folder synced" {
					done++
				}
				s := open(t, path)
				if done < 0 { // not even acquired
					c, err := s.Acquire(t.Context(), request())
					if err != nil || c.Generation.ID != 1 || len(c.Ended) > 0 {
						t.Fatalf("after nothing was done: %+v, %v", c, err)
					}
					return
				}
				last, err := s.End(t.Context(), sink.Generation{Bridge: "orders", ID: 1})
				if err != nil || last != done {
					t.Errorf("End = %d, %v, expected %d", last, err, done)
				}
				c, err := s.Acquire(t.Context(), request())
				if err != nil || c.Generation.ID != 2 || len(c.Ended) != 1 {
					t.Fatalf("the successor's claim is %+v, %v", c, err)
				}
				want := map[sink.CheckpointID]int64{1: 5, 2: 9}[done]
				if done == 0 && len(c.Positions) != 0 || done > 0 && (len(c.Positions) != 2 || c.Positions[1] != at(want)[1]) {
					t.Errorf("positions %v after checkpoint %d", c.Positions, done)
				}
				if n := len(c.Ended[0].Decided); (n == 1) != (done == 1) {
					t.Errorf("%d committables wait after checkpoint %d", n, done)
				}
				err = s.Save(t.Context(), c.Generation, sink.Checkpoint{ID: 1, From: at(want), To: at(want + 1), Settled: []sink.GenerationID{1}})
				if err != nil {
					t.Errorf("the successor cannot save: %v", err)
				}
			})
		}
	}
}
