package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// identity is as whom the server's programs run.
type identity struct {
	name string
	// base is the folder below which the identity can read and write.
	base func() (string, error)
	// apply makes a command run as the identity.
	apply func(*exec.Cmd)
	// own gives a folder to the identity.
	own func(dir string) error
}

// asSelf runs programs as whoever runs us.
func asSelf() identity {
	return identity{
		name:  "this user",
		base:  cacheFolder,
		apply: func(*exec.Cmd) {},
		own:   func(string) error { return nil },
	}
}

func cacheFolder() (string, error) {
	c, err := os.UserCacheDir()
	if err != nil {
		c = os.TempDir() // a user without a home
	}
	base := filepath.Join(c, "flinksink", "postgres")
	return base, os.MkdirAll(base, 0o755)
}

const runPrefix = "run-"

// runFolder makes a folder for one server. Its name holds our process number, so that sweep can tell what is left over.
func runFolder(base string, as identity) (string, error) {
	dir, err := os.MkdirTemp(base, runPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", err
	}
	if err := as.own(dir); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// sweep removes the folders of processes that ended without Stop. Where it cannot, nothing is lost but room on the disk.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), runPrefix)
		if !ok {
			continue
		}
		pid, err := strconv.Atoi(rest[:max(0, strings.IndexByte(rest, '-'))])
		if err == nil && !running(pid) && !serving(filepath.Join(base, e.Name())) {
			os.RemoveAll(filepath.Join(base, e.Name()))
		}
	}
}

// serving reports whether a server still runs on the data in dir, as one may for a moment after its parent was killed.
func serving(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	return err == nil && running(pid)
}

// initdb makes an empty database cluster.
func initdb(ctx context.Context, bin, data string, as identity) error {
	cmd := exec.CommandContext(ctx, program(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.Dir = filepath.Dir(data)
	as.apply(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb as %s: %w\n%s", as.name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// tail is the end of the server's log, for an error's text. The log of a server that never answered holds no data.
func tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil || len(text) == 0 {
		return ""
	}
	if len(text) > 1500 {
		text = text[len(text)-1500:]
	}
	return "\n" + strings.TrimSpace(string(text))
}

// stillShared reports whether the last start failed because processes of a killed server still use its shared memory.
func stillShared(log string) bool {
	t := tail(log)
	return strings.Contains(t, "pre-existing shared memory block") || strings.Contains(t, "is still in use")
}
