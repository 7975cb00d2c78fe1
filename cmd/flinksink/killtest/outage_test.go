package killtest

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/flinksink/flinksink/testbed/postgres"
)

// postgresKilled kills the server of several bridges again and again, in each mode or, where FLINKSINK_LONG is not set, in one of those that leave receipts
// beside the default. They go on.
func postgresKilled(t *testing.T, w world, outages int) {
	srv, err := postgres.Start(t.Context(), postgres.Options{Own: true, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.to = srv.DSN()
	var ls []*life
	var ps []*process
	modes := []string{"", "prepared", "staged"}
	if os.Getenv("FLINKSINK_LONG") == "" {
		modes = []string{"", modes[1+w.seed%2]}
	}
	for _, mode := range modes {
		kinds := []string{"keyed"}
		if mode == "" {
			kinds = []string{"keyed", "append"}
		}
		for _, kind := range kinds {
			w := w
			w.name += mode
			s := newSubjectOf(t, &w, kind, w.seed)
			s.mode = mode
			l := &life{t: t, w: &w, s: s, a: &account{}}
			ls, ps = append(ls, l), append(ps, l.start(first, "--lanes", "2"))
		}
	}
	moves := func() {
		t.Helper()
		for i, l := range ls {
			l.until(ps, "the bridge saves", func() (bool, error) {
				if len(l.s.sizes) < 10 {
					l.s.feed(300)
				}
				moved, _, err := l.s.look(t.Context(), false)
				if err != nil {
					t.Logf("%s", ps[i].tail())
				}
				return moved > 0, err
			})
		}
	}
	moves()
	troubles := func(i int) int { return strings.Count(ps[i].out.String(), "trying again") }
	var worst time.Duration
	for n := range outages {
		before := make([]int, len(ls))
		for i, l := range ls {
			l.pause(ps[i])
			before[i] = troubles(i)
		}
		if err := srv.Kill(); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 { // long enough for each of them to notice: one that had nothing to do at the kill has now
			for i, l := range ls {
				l.until(ps, "the bridge notices that its server is gone", func() (bool, error) {
					if len(l.s.sizes) < 10 {
						l.s.feed(300)
					}
					return troubles(i) > before[i], nil
				})
			}
		} else {
			time.Sleep(time.Duration(ls[0].s.r.Int64N(int64(500 * time.Millisecond)))) // the outage; nothing is waited for
		}
		if err := srv.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		for _, l := range ls {
			l.s.pool.Reset() // its connections are of the server that was killed
		}
		// What was saved and not seen before the end: the look after it is the one that has to show something new.
		for _, l := range ls {
			l.compare("the server is back", ps[0])
		}
		moves()
		worst = max(worst, time.Since(back))
	}
	for i, l := range ls {
		if n := troubles(i); n < outages/2 {
			t.Errorf("the bridge lost its server %d times and was in trouble %d times: %s", outages, n, ps[i].tail())
		}
		ps[i].terminate(t)
		l.compare("the bridge has ended", ps[i])
		l.conclude(0)
	}
	t.Logf("the server was killed %d times; the bridges saved again after %s at most", outages, worst.Round(time.Millisecond))
}

// brokerCut cuts a bridge's connections to the broker, between messages and within them.
func brokerCut(t *testing.T, w world, cuts int) {
	k := &knife{r: rand.New(rand.NewPCG(w.seed, 300)), open: map[*cutConn]bool{}}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond), kfake.ListenFn(k.listen))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w.brokers = strings.Join(c.ListenAddrs(), ",")
	l := &life{t: t, w: &w, s: newSubject(t, &w, true, w.seed), a: &account{}}
	p := l.start("", "--lanes", "2")
	for done := range cuts {
		l.until([]*process{p}, "there is a connection to cut", func() (bool, error) {
			if len(l.s.sizes) < 10 {
				l.s.feed(300)
			}
			return k.cut() > 0, nil
		})
		if done%(cuts/10) == 0 {
			l.until([]*process{p}, "the bridge saves", func() (bool, error) {
				if len(l.s.sizes) < 10 {
					l.s.feed(300)
				}
				moved, _, err := l.s.look(t.Context(), false)
				return moved > 0, err
			})
		}
	}
	l.until([]*process{p}, "everything is saved", l.caughtUp)
	p.terminate(t)
	l.conclude(0)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.halves == 0 || k.lost == 0 {
		t.Errorf("%d answers were cut within, %d requests were lost: too few to say anything", k.halves, k.lost)
	}
	t.Logf("%d cuts, %d of them within an answer, %d with a request lost", cuts, k.halves, k.lost)
}

// knife cuts connections of bridges, which are told by their client id; those of writers stay, since they have to know what they wrote.
type knife struct {
	mu     sync.Mutex
	r      *rand.Rand
	open   map[*cutConn]bool // false until it is known to be a bridge's
	halves int
	lost   int
}

func (k *knife) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return &cutListener{Listener: l, k: k}, err
}

type cutListener struct {
	net.Listener
	k *knife
}

func (l *cutListener) Accept() (net.Conn, error) {
	real, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &cutConn{Conn: real, k: l.k}
	l.k.mu.Lock()
	l.k.open[c] = false
	l.k.mu.Unlock()
	return c, nil
}

// how a connection is cut.
type cutting int

const (
	whole cutting = iota // not yet
	now
	within // the next answer
	before // the next request, which the broker does not see
)

type cutConn struct {
	net.Conn
	k    *knife
	next cutting // guarded by k.mu
}

// cut decides the end of a connection of a bridge, and returns how many it found.
func (k *knife) cut() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*cutConn
	for c, bridge := range k.open {
		if bridge && c.next == whole {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return 0
	}
	c := all[k.r.IntN(len(all))]
	if c.next = now + cutting(k.r.IntN(3)); c.next == now {
		_ = c.Conn.Close()
	}
	return len(all)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if bytes.Contains(b[:n], []byte("flinksink")) {
		c.k.open[c] = true
	}
	if n > 0 && c.next == before {
		c.k.lost++
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	c.k.mu.Lock()
	half := c.next == within
	if half {
		c.k.halves++
		c.next = now
	}
	c.k.mu.Unlock()
	if half {
		_, _ = c.Conn.Write(b[:len(b)/2])
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Close() error {
	c.k.mu.Lock()
	delete(c.k.open, c)
	c.k.mu.Unlock()
	return c.Conn.Close()
}
