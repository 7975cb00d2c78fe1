package killtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// relay stands before a real broker, and asks d about each request. Clients of Kafka go where the brokers tell them to, so it writes its own address into
// the answers that hold the broker's. There may be one broker only.
type relay struct {
	t      *testing.T
	broker string
	host   string
	port   int32
	d      *deadly
	name   func(kmsg.Request) string // says which request it is, "" for one that nobody dies at
	asks   []kmsg.Key                // the kinds that name is asked about

	mu   sync.Mutex
	open map[net.Conn]bool
	over bool
	all  sync.WaitGroup
}

// newRelay returns its address.
func newRelay(t *testing.T, broker string, d *deadly, name func(kmsg.Request) string, asks ...kmsg.Key) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, broker: broker, host: host, port: int32(n), d: d, name: name, asks: asks, open: map[net.Conn]bool{}}
	r.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.all.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		r.over = true
		for c := range r.open {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.all.Wait()
	})
	return l.Addr().String()
}

// keep notes a connection to be closed at the end, and reports false where that has come.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[c] = true
	return !r.over
}

func (r *relay) drop(cs ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range cs {
		delete(r.open, c)
		_ = c.Close()
	}
}

// relayed is a connection of a client.
type relayed struct {
	*relay
	client, server net.Conn

	mu   sync.Mutex
	sent map[uint32]asked // by correlation id: requests without an answer
}

type asked struct {
	key, version int16
	name         string // of one that its client dies at once it is answered
}

func (r *relay) serve(client net.Conn) {
	server, err := net.Dial("tcp", r.broker)
	if err != nil {
		_ = client.Close()
		return
	}
	defer r.drop(client, server)
	if !r.keep(client) || !r.keep(server) {
		return
	}
	c := &relayed{relay: r, client: client, server: server, sent: map[uint32]asked{}}
	r.all.Go(func() {
		defer r.drop(client, server)
		c.each(client, server, c.request)
	})
	c.each(server, client, c.answer)
}

// each reads messages and sends on what f makes of them, until either side is gone, or f says that the connection ends.
func (c *relayed) each(from io.Reader, to io.Writer, f func(message []byte) ([]byte, error)) {
	var size [4]byte
	for {
		if _, err := io.ReadFull(from, size[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(from, message); err != nil {
			return
		}
		message, err := f(message)
		if errors.Is(err, errDead) {
			return
		}
		if err != nil {
			c.t.Errorf("the relay before the broker: %v", err)
			return
		}
		if _, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
			return
		}
	}
}

var errDead = errors.New("the bridge is dead")

// request passes one on, unless its client dies at it.
func (c *relayed) request(message []byte) ([]byte, error) {
	if len(message) < 8 {
		return nil, fmt.Errorf("a request of %d bytes", len(message))
	}
	a := asked{key: int16(binary.BigEndian.Uint16(message)), version: int16(binary.BigEndian.Uint16(message[2:]))}
	for _, key := range c.asks {
		if key.Int16() == a.key {
			r, err := parseRequest(a, message[8:])
			if err != nil {
				return nil, err
			}
			a.name = c.name(r)
		}
	}
	c.d.mu.Lock()
	after := c.d.after
	c.d.mu.Unlock()
	if !after {
		if c.d.met(a.name) {
			return nil, errDead
		}
		a.name = ""
	}
	c.mu.Lock()
	c.sent[binary.BigEndian.Uint32(message[4:])] = a
	c.mu.Unlock()
	return message, nil
}

func parseRequest(a asked, rest []byte) (kmsg.Request, error) {
	r := kmsg.RequestForKey(a.key)
	r.SetVersion(a.version)
	if len(rest) >= 2 { // the client's id
		if n := int16(binary.BigEndian.Uint16(rest)); n > 0 && len(rest) >= 2+int(n) {
			rest = rest[n:]
		}
		rest = rest[2:]
	}
	if r.IsFlexible() && len(rest) > 0 {
		if rest[0] != 0 {
			return nil, fmt.Errorf("a header of request %d with tags", a.key)
		}
		rest = rest[1:]
	}
	return r, r.ReadFrom(rest)
}

// answer passes one on, with the relay's address in place of the broker's.
func (c *relayed) answer(message []byte) ([]byte, error) {
	if len(message) < 4 {
		return nil, fmt.Errorf("an answer of %d bytes", len(message))
	}
	id := binary.BigEndian.Uint32(message)
	c.mu.Lock()
	a, known := c.sent[id]
	delete(c.sent, id)
	c.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("an answer to no request")
	}
	c.d.met(a.name)
	r := kmsg.ResponseForKey(a.key)
	switch r.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse, *kmsg.DescribeClusterResponse:
	default:
		return message, nil
	}
	r.SetVersion(a.version)
	head := 4
	if r.IsFlexible() {
		if head++; len(message) < head || message[4] != 0 {
			return nil, fmt.Errorf("a header of an answer to request %d with tags", a.key)
		}
	}
	if err := r.ReadFrom(message[head:]); err != nil {
		return nil, err
	}
	if n := c.rewrite(r); n > 1 {
		return nil, fmt.Errorf("the cluster has %d brokers: one is wanted here", n)
	}
	return r.AppendTo(message[:head:head]), nil
}

// rewrite returns how many brokers the answer tells of.
func (r *relay) rewrite(answer kmsg.Response) (brokers int) {
	switch a := answer.(type) {
	case *kmsg.MetadataResponse:
		for i := range a.Brokers {
			a.Brokers[i].Host, a.Brokers[i].Port = r.host, r.port
		}
		return len(a.Brokers)
	case *kmsg.DescribeClusterResponse:
		for i := range a.Brokers {
			a.Brokers[i].Host, a.Brokers[i].Port = r.host, r.port
		}
		return len(a.Brokers)
	case *kmsg.FindCoordinatorResponse:
		if a.NodeID >= 0 && a.Host != "" {
			a.Host, a.Port = r.host, r.port
		}
		for i := range a.Coordinators {
			if a.Coordinators[i].NodeID >= 0 {
				a.Coordinators[i].Host, a.Coordinators[i].Port = r.host, r.port
			}
		}
	}
	return 0
}
