package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// The program runs itself in these roles.
const (
	roleEnv  = "FLINKSINK_PEERS_ROLE"
	roleOurs = "flinksink"
	roleLoop = "loop"
	taskEnv  = "FLINKSINK_PEERS_TASK" // a task as JSON; not an argument, since a connection string may hold a password
)

// task is what a contender has to do.
type task struct {
	Broker, Topic, Group, DSN, Table string
	Records                          int
}

// peer is a contender. It does the first of so many jobs.
type peer struct {
	name, label string
	jobs        int
	get         func(ctx context.Context) error // sees to what it needs
	start       func(ctx context.Context, t task, j *job) (running, error)
	direct      func(ctx context.Context, j *job, table string) (result, error) // instead of start
}

func names() []string {
	return []string{"copy", "flinksink", "loop", "bento-insert", "bento-array", "flink"}
}

func all(s *servers, o options) []peer {
	bento := func(config string) func(ctx context.Context, t task, j *job) (running, error) {
		return func(_ context.Context, t task, _ *job) (running, error) {
			path, err := bentoPath()
			if err != nil {
				return nil, err
			}
			cmd := exec.Command(path, "-c", filepath.Join("bento", config))
			cmd.Env = append(os.Environ(), "BROKER="+t.Broker, "TOPIC="+t.Topic, "GROUP="+t.Group, "DSN="+t.DSN, "TABLE="+t.Table, fmt.Sprint("BATCH=", o.batch))
			return start(cmd)
		}
	}
	return []peer{
		{name: "copy", label: "COPY into the keyed table, no Kafka", jobs: 1, direct: s.copied},
		{name: "flinksink", label: "flinksink bridge, exactly once", jobs: 2, start: self(roleOurs)},
		{name: "loop", label: "usual loop, INSERT of 1,000", jobs: 2, start: self(roleLoop)},
		{name: "bento-insert", label: fmt.Sprintf("Bento sql_insert of %d", o.batch), jobs: 1, get: buildBento, start: bento("insert.yaml")},
		{name: "bento-array", label: fmt.Sprintf("Bento sql_raw, JSON array of %d", o.batch), jobs: 2, get: buildBento, start: bento("array.yaml")},
		{name: "flink", label: "Flink JDBC, buffer of 10,000", jobs: 2, get: s.startFlink, start: s.submit},
	}
}

func userinfo(c *pgx.ConnConfig) string {
	if c.Password == "" {
		return url.User(c.User).String()
	}
	return url.UserPassword(c.User, c.Password).String()
}

// process is a contender that is a process of its own, of which nothing is left when it is stopped.
type process struct {
	cmd   *exec.Cmd
	ended chan error
	done  chan struct{}
	said  *end
}

// end keeps the end of what a process says, for when it fails.
type end struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (e *end) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, p...)
	e.text = e.text[max(0, len(e.text)-2000):]
	return len(p), nil
}

func (e *end) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return tail(string(e.text), 5)
}

func start(cmd *exec.Cmd) (running, error) {
	p := &process{cmd: cmd, ended: make(chan error, 1), done: make(chan struct{}), said: new(end)}
	cmd.Stdout, cmd.Stderr = p.said, p.said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, p.said)
		}
		p.ended <- err
		close(p.done)
	}()
	return p, nil
}

func (p *process) over() <-chan error { return p.ended }

func (p *process) stop() time.Duration {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// self runs this program in a role.
func self(role string) func(ctx context.Context, t task, j *job) (running, error) {
	return func(_ context.Context, t task, _ *job) (running, error) {
		path, err := os.Executable()
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(path)
		cmd.Env = append(os.Environ(), roleEnv+"="+role, taskEnv+"="+string(text))
		return start(cmd)
	}
}

func taskOf() (t task, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(taskEnv)), &t); err != nil {
		return t, fmt.Errorf("%s: %w", taskEnv, err)
	}
	return t, nil
}

func bentoPath() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "flinksink", "bento", "bento"), err
}

// buildBento builds Bento, which the go command does once.
func buildBento(ctx context.Context) error {
	path, err := bentoPath()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "peers: building Bento, which takes some minutes the first time")
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	cmd.Dir = "bento"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build of Bento: %w\n%s", err, tail(string(out), 5))
	}
	return nil
}
