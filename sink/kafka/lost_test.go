package kafka_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// wire stands between a client and its brokers, and loses one request, or its answer.
type wire struct {
	key    int16 // that is lost; -1: any
	nth    int   // of those
	answer bool  // the request arrives, and its answer is lost

	before func(key int16, request []byte) // is told of each request before it is sent; nil: nobody

	mu   sync.Mutex
	seen int
	hit  string // what was lost
}

func (w *wire) through() kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &wireConn{Conn: c, w: w}, err
	})
}

type wireConn struct {
	net.Conn
	w *wire

	mu   sync.Mutex
	mute bool
}

func (c *wireConn) Write(b []byte) (int, error) {
	if len(b) > 6 {
		key := int16(binary.BigEndian.Uint16(b[4:]))
		if c.w.before != nil {
			c.w.before(key, b)
		}
		c.w.mu.Lock()
		if c.w.hit == "" && (c.w.key < 0 || c.w.key == key) {
			if c.w.seen++; c.w.seen == c.w.nth {
				c.w.hit = kmsg.NameForKey(key)
				c.w.mu.Unlock()
				if !c.w.answer {
					c.Close()
					return len(b), nil // it was sent, as far as the client knows
				}
				c.mu.Lock()
				c.mute = true
				c.mu.Unlock()
				return c.Conn.Write(b)
			}
		}
		c.w.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mute { // what was under way before the request is lost with it
		c.Close()
		return 0, io.EOF
	}
	return n, err
}

// everyMessage loses each request of a lane once, and each answer; by default every so many of them.
func everyMessage(t *testing.T, e *env, m mode, step int) {
	if os.Getenv("FLINKSINK_LONG") != "" {
		step = 1
	}
	lost := make(map[string]int)
	for _, answer := range []bool{false, true} {
		for n := 1; ; n += step {
			w := newWorld(t, e, m, sinktest.Appended())
			f := &wire{key: -1, nth: n, answer: answer}
			d, cl, err := w.lane(f.through())
			if err != nil {
				t.Fatal(err)
			}
			err = carry(t.Context(), d, 1)
			_ = d.Close(t.Context())
			cl.Close()
			what := fmt.Sprintf("%s, message %d (%s) lost, answer only: %t", m, n, f.hit, answer)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			w.sees(t, what, w.topic.End(0), w.topic.End(1))
			if f.hit == "" {
				break // the lane sends no more than that
			}
			lost[f.hit]++
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("lost: %v", lost)
	for _, must := range []string{"InitProducerID", "Produce", "EndTxn"} {
		if lost[must] == 0 && step == 1 {
			t.Errorf("no %s was lost", must)
		}
	}
}

// P85: an answer that is lost settles nothing, and what became of it is read, not guessed.
func TestLost_EveryMessage(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) { everyMessage(t, newFake(t), m, 1) })
	}
}

func TestLost_EveryMessage_TransactionVersion1(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) { everyMessage(t, newFake(t, kfake.MaxVersions(kversion.V3_9_0())), m, 7) })
	}
}

func TestLost_EveryMessage_Real(t *testing.T) {
	for _, m := range modes() {
		t.Run(string(m), func(t *testing.T) { everyMessage(t, newReal(t), m, 15) })
	}
}
