package bridge

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// simNet is the network of a simulation: connections in memory, whose goroutines block in a way that lets virtual time go on.
type simNet struct{ v kfake.VirtualNetwork }

// simLink is one process's way to the brokers. What it disturbs are whole messages: one that is held back, or slow, is not lost, and so a stopped
// process's requests arrive late.
type simLink struct {
	net *simNet

	mu     sync.Mutex
	conns  map[net.Conn]bool
	away   bool          // no connection can be made
	frozen chan struct{} // closed when the messages go on; nil: they do
	slow   time.Duration // of each message
	lose   int           // answers that are still to be lost, each with its connection
}

func (n *simNet) link() *simLink { return &simLink{net: n, conns: map[net.Conn]bool{}} }

// dial is kgo's dialer.
func (l *simLink) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !l.wait(ctx.Done()) {
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	away := l.away
	l.mu.Unlock()
	if away {
		return nil, errors.New("simulated: no route to the broker")
	}
	broker, err := l.net.v.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	l.mu.Lock()
	l.conns[near], l.conns[broker] = true, true
	l.mu.Unlock()
	over := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(over)
		near.Close()
		broker.Close()
		l.mu.Lock()
		delete(l.conns, near)
		delete(l.conns, broker)
		l.mu.Unlock()
	})
	go l.pass(near, broker, false, over, end)
	go l.pass(broker, near, true, over, end)
	return client, nil
}

// pass hands on messages, in order, until its connection ends.
func (l *simLink) pass(from, to net.Conn, answers bool, over <-chan struct{}, end func()) {
	defer end()
	for {
		m := make([]byte, 4)
		if _, err := io.ReadFull(from, m); err != nil {
			return
		}
		m = append(m, make([]byte, binary.BigEndian.Uint32(m))...)
		if _, err := io.ReadFull(from, m[4:]); err != nil || !l.wait(over) || answers && l.loses() {
			return
		}
		if _, err := to.Write(m); err != nil {
			return
		}
	}
}

// wait waits for as long as a message takes. It reports false when over is closed before.
func (l *simLink) wait(over <-chan struct{}) bool {
	for {
		l.mu.Lock()
		frozen, slow := l.frozen, l.slow
		l.mu.Unlock()
		if frozen == nil {
			if slow > 0 {
				time.Sleep(slow)
			}
			return true
		}
		select {
		case <-frozen:
		case <-over:
			return false
		}
	}
}

func (l *simLink) loses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lose > 0 {
		l.lose--
		return true
	}
	return false
}

// set changes the link, and closes its connections if cut.
func (l *simLink) set(cut bool, f func()) {
	l.mu.Lock()
	f()
	var conns []net.Conn
	if cut {
		for c := range l.conns {
			conns = append(conns, c)
		}
	}
	l.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// freeze holds all messages back; thaw lets them go on.
func (l *simLink) freeze() {
	l.set(false, func() {
		if l.frozen == nil {
			l.frozen = make(chan struct{})
		}
	})
}

func (l *simLink) thaw() {
	l.set(false, func() {
		if l.frozen != nil {
			close(l.frozen)
			l.frozen = nil
		}
	})
}
