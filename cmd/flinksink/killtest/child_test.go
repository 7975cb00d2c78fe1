package killtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// childVariable makes the test binary a bridge that kills or stops itself. It holds a childConfig.
const childVariable = "FLINKSINK_KILLTEST_CHILD"

// childConfig is what a bridge in a child process does, and where it dies.
type childConfig struct {
	DDL, To, Into, StoreSchema, Bridge, Instance string

	Mode string // of postgres.Options; "" is in-transaction
	Step int    // number in stepsOf(Mode), -1 for none
	N    int
	Stop bool // at the step it stops itself with SIGSTOP, and goes on when it is woken

	LockTimeout, IdleTimeout time.Duration // of postgres.Options
}

// fencedWords are what a child says when a generation of it ends in ErrFenced.
const fencedWords = "killtest: fenced:"

// lastWords are what a child says before it kills or stops itself at a step.
func lastWords(s step) string { return "killtest: at step: " + s.name }

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child runs a bridge that is the same as the one of flinksink run, but for small checkpoints and an early end.
func child(text string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	k := &killer{step: step{request: -1}, n: c.N, stop: c.Stop}
	if c.Step >= 0 {
		k.step = stepsOf(c.Mode)[c.Step]
	}
	k.armed = k.step.hook == ""
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	conf, err := pgxpool.ParseConfig(c.To)
	if err != nil {
		return err
	}
	conf.ConnConfig.TLSConfig, conf.ConnConfig.Fallbacks = nil, nil // the bytes have to be readable
	conf.ConnConfig.RuntimeParams["application_name"] = "killtest"
	conf.MaxConns = 4
	dial := conf.ConnConfig.DialFunc
	conf.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		real, err := dial(ctx, network, address)
		return &conn{Conn: real, k: k}, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return err
	}
	defer pool.Close()

	t, err := ddl.Find(c.DDL, "")
	if err != nil {
		return err
	}
	d, err := format.New(t, all.Formats(), nil)
	if err != nil {
		return err
	}
	in, err := bridge.FromTable(t, d)
	if err != nil {
		return err
	}
	mode := postgres.InTransaction
	if c.Mode != "" {
		if mode, err = postgres.ParseMode(c.Mode); err != nil {
			return err
		}
	}
	s, err := postgres.New(pool, c.Into, &postgres.Options{Mode: mode, Schema: c.StoreSchema, LockTimeout: c.LockTimeout, IdleTimeout: c.IdleTimeout})
	if err != nil {
		return err
	}
	b, err := bridge.New(c.Bridge, in, s, &bridge.Options{
		InstanceID: c.Instance,
		Interval:   50 * time.Millisecond,
		OnData:     bridge.DeadLetter,
		DataBudget: 1 << 20, // one death after another leaves much to read at once
		// A checkpoint of few changes, and batches that are smaller still: the nth of anything comes while there is something to read.
		Changes:    150,
		ByteBudget: 1 << 20,
		Client:     []kgo.Opt{kgo.WithHooks(k)},
		Logger:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Hooks: bridge.Hooks{Hooks: sink.Hooks{
			Acquired:  func(sink.Claim) { k.hook("Acquired") },
			Begun:     func(sink.Cut) { k.hook("Begun") },
			Prepared:  func(sink.Cut) { k.hook("Prepared") },
			Saving:    func(sink.Cut) { k.hook("Saving") },
			Saved:     func(sink.Report) { k.hook("Saved") },
			Committed: func(sink.Report) { k.hook("Committed") },
			Written:   func(string, int, int) { k.hook("Written") },
			Fenced:    func(err error) { fmt.Println(fencedWords, err) },
		}},
	})
	if err != nil {
		return err
	}
	return b.Run(ctx)
}

// killer kills or stops this process at a step.
type killer struct {
	step step
	n    int
	stop bool

	mu    sync.Mutex
	seen  int  // of what n counts
	armed bool // the hook was called n times, or there is none: messages count
	next  int  // of step.messages
	woken bool // the step is behind us
}

// met ends this process, or returns when somebody has woken it.
func (k *killer) met() {
	if k.stop {
		if err := stopHere(func() { fmt.Println(lastWords(k.step)) }); err != nil {
			fmt.Println("killtest: cannot stop itself:", err)
			os.Exit(3)
		}
		return
	}
	fmt.Println(lastWords(k.step))
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		fmt.Println("killtest: cannot kill itself:", err)
		os.Exit(3)
	}
	select {}
}

func (k *killer) hook(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.step.hook != name || k.woken {
		return
	}
	if k.seen++; k.seen < k.n {
		return
	}
	if len(k.step.messages) == 0 {
		k.woken = true
		k.met()
	}
	k.armed = true
}

// holds reports whether a message to Postgres holds a text. COMMIT behind other statements goes by the name that pgx prepares it under, once it is prepared.
func holds(message []byte, text string) bool {
	if text != commit {
		return bytes.Contains(message, []byte(text))
	}
	name := sha256.Sum256([]byte("COMMIT"))
	return len(message) > 5 && message[0] == 'Q' && bytes.HasSuffix(message, []byte(commit)) ||
		bytes.Contains(message, append([]byte("\x00stmtcache_"+hex.EncodeToString(name[:24])), 0))
}

// fatal reports whether b, which is about to be sent to Postgres, is the message to die at.
func (k *killer) fatal(b []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.armed || k.next == len(k.step.messages) || len(b) < k.step.least || !holds(b, k.step.messages[k.next]) {
		return false
	}
	if k.next < len(k.step.messages)-1 {
		k.next++
		return false
	}
	if k.step.hook == "" {
		if k.seen++; k.seen < k.n {
			return false
		}
	}
	k.next++
	return true
}

var _ kgo.HookBrokerWrite = (*killer)(nil)

// OnBrokerWrite implements kgo.HookBrokerWrite: it is called when the request is on the wire.
func (k *killer) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.step.request < 0 || key != k.step.request || err != nil || k.woken {
		return
	}
	if k.seen++; k.seen >= k.n {
		k.woken = true
		k.met()
	}
}

// conn is a connection to Postgres that may end or stop the process.
type conn struct {
	net.Conn
	k    *killer
	last atomic.Bool // the next answer is the one to die or to stop at
}

// Write goes on, where the process was only stopped, with what was not sent: as late as a request can be.
func (c *conn) Write(b []byte) (int, error) {
	if !c.k.fatal(b) {
		return c.Conn.Write(b)
	}
	first := 0
	switch c.k.step.at {
	case answered:
		c.last.Store(true)
		return c.Conn.Write(b)
	case half:
		first = len(b) / 2
	case sent:
		first = len(b)
	}
	n, err := c.Conn.Write(b[:first])
	c.k.met()
	if err != nil || n == len(b) {
		return n, err
	}
	more, err := c.Conn.Write(b[n:])
	return n + more, err
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.last.CompareAndSwap(true, false) {
		c.k.met()
	}
	return n, err
}

// The steps have to be told apart by the account.
func TestSteps(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range steps() {
		if seen[s.name] || s.most < 1 || s.hook == "" && len(s.messages) == 0 && s.request < 0 {
			t.Errorf("step %+v is no step, or there are two of that name", s)
		}
		seen[s.name] = true
	}
	for _, want := range []string{"before Prepare", "after Prepare", "Save: COMMIT not sent", "Save: COMMIT sent", "before the group offset", "Write", "Acquire", "Open"} {
		found := false
		for name := range seen {
			found = found || strings.Contains(name, want)
		}
		if !found {
			t.Errorf("no step is called %q", want)
		}
	}
}
