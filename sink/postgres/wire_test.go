package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// wire stands between a pool and the server, and does to one message what a network may do to it.
type wire struct {
	mu    sync.Mutex
	conns []net.Conn // the real ones
	sent  int        // messages so far
	fault func(n int, message []byte) fault
	hit   bool   // the fault has happened
	late  func() // delivers what was held back

	bytes [2]int // so far, to the server and from it
	cutAt [2]int // the connection breaks after these, within a message as a rule; 0: it does not
}

const (
	toServer = iota
	fromServer
)

type fault int

const (
	none       fault = iota
	loseIt           // the message never reaches the server, the connection breaks
	loseAnswer       // the server gets it and answers, the connection breaks before the answer arrives
	holdBack         // the message stays on its way until late is called; no answer comes
	sendHalf         // half of the message reaches the server, and nothing more: the process is stopped, its connection lives on
)

func (f fault) String() string {
	return [...]string{"none", "lose the message", "lose the answer", "hold the message back", "send half of it"}[f]
}

// through makes a pool's connections go through w.
func (w *wire) through(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.MaxConns = 1
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		real, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		w.conns = append(w.conns, real)
		w.mu.Unlock()
		return &wireConn{Conn: real, w: w}, nil
	}
}

// cut breaks all connections, as the death of the process does.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// onCommit makes f happen to the next COMMIT.
func (w *wire) onCommit(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hit = false
	w.fault = func(_ int, message []byte) fault {
		if isCommit(message) {
			return f
		}
		return none
	}
}

// isCommit recognises COMMIT: as a simple query, of its own or the end of one; and as the last statement of a message, by the name that pgx prepares it under, or
// parsed and bound without a name.
func isCommit(message []byte) bool {
	name := sha256.Sum256([]byte("COMMIT"))
	return len(message) > 5 && message[0] == 'Q' && bytes.HasSuffix(bytes.ToUpper(message[5:]), []byte("COMMIT\x00")) ||
		bytes.Contains(message, append([]byte("\x00stmtcache_"+hex.EncodeToString(name[:24])), 0)) ||
		bytes.Contains(message, []byte("P\x00\x00\x00\x0e\x00COMMIT\x00\x00\x00B"))
}

type wireConn struct {
	net.Conn
	w      *wire
	broken bool // nothing more is sent
	held   bool // the real connection stays when the client closes
	answer bool // the next answer is lost
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.broken {
		return 0, io.ErrClosedPipe
	}
	c.w.sent++
	if n, cut := c.w.count(toServer, len(p)); cut {
		c.broken = true
		n, err := c.Conn.Write(p[:n])
		c.Conn.Close()
		return n, errors.Join(io.ErrClosedPipe, err)
	}
	f := none
	if c.w.fault != nil && !c.w.hit {
		f = c.w.fault(c.w.sent, p)
	}
	if f != none {
		c.w.hit, c.broken = true, true
	}
	switch f {
	case loseIt:
		c.Conn.Close()
		return len(p), nil
	case loseAnswer:
		c.answer = true
	case holdBack:
		message := bytes.Clone(p)
		c.held = true
		c.w.late = func() {
			c.Conn.Write(message)
			c.Conn.Close()
		}
		return len(p), nil
	case sendHalf:
		c.held = true
		if n, err := c.Conn.Write(p[:len(p)/2]); err != nil {
			return n, err
		}
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// count counts bytes, and tells how many of them pass and whether the connection breaks there.
func (w *wire) count(way, n int) (pass int, cut bool) {
	before := w.bytes[way]
	w.bytes[way] += n
	if at := w.cutAt[way]; at > before && at <= before+n {
		w.hit = true
		return at - before, true
	}
	return n, false
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.w.mu.Lock()
	lost := c.answer
	n, cut := c.w.count(fromServer, n)
	c.broken = c.broken || cut
	c.w.mu.Unlock()
	if cut {
		c.Conn.Close()
		return n, nil // the next Read fails
	}
	if lost && err == nil { // it came, so the server has done what it was asked
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *wireConn) Close() error {
	if c.held {
		return nil
	}
	return c.Conn.Close()
}
