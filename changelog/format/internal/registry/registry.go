package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// maxSchemas bounds the schemas of writers that are kept; it is what Flink's client keeps too.
const maxSchemas = 1000

// Codec is what a registry and a table come to: how each of its schemas is read as the table, and the schema under which the table is written.
// It is safe for use by several goroutines.
type Codec struct {
	Plan *flinkavro.Plan // of the table

	client  *client
	subject string
	text    string // the table's schema
	sources bool
	// unwritten are properties that only a writer would heed, and that none here does.
	unwritten []string

	last    atomic.Pointer[entry] // that was asked for last: most topics have one
	mu      sync.Mutex
	entries map[int32]*entry

	registering sync.Mutex
	header      atomic.Pointer[[headerSize]byte]
}

// entry is a schema that is being fetched, or was.
type entry struct {
	id   int32
	done chan struct{} // closed when step and err are set
	step *flinkavro.Step
	err  error
}

// NewCodec makes the codec of the format called format for a payload, whose rows in Avro are of type t. Every mistake in the options and the types is
// reported. Nothing is asked of the registry yet. With x.SourceTypes nothing can be written.
func NewCodec(format string, p changelog.Payload, t *changelog.Type, x Extra) (*Codec, error) {
	s, err := readSettings(format, p.Options)
	plan, err2 := flinkavro.NewPlan(t, flinkavro.Options{Registry: true, Record: flinkavro.RootName, Sources: x.SourceTypes})
	if err2 != nil {
		err2 = fmt.Errorf("%s: %w", format, err2)
	}
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	c := &Codec{Plan: &plan, subject: s.subject, entries: map[int32]*entry{}, sources: x.SourceTypes, unwritten: s.unwritten}
	if c.client, err = newClient(format, s, x); err != nil {
		return nil, err
	}
	if x.SourceTypes {
		if s.schema != "" {
			return nil, fmt.Errorf("%s: option 'schema' has the types of Flink, and Format.SourceTypes reads others; drop one of them", format)
		}
	} else if s.schema != "" {
		if c.text, err = given(s.schema, c.Plan); err != nil {
			return nil, fmt.Errorf("%s: option 'schema' %w", format, err)
		}
	} else if c.text, err = derived(c.Plan); err != nil {
		return nil, fmt.Errorf("%s: %w", format, err)
	}
	if c.subject == "" && p.Topic != "" { // as KafkaConnectorOptionsUtil completes it
		c.subject = p.Topic + "-value"
		if p.Key {
			c.subject = p.Topic + "-key"
		}
	}
	return c, nil
}

const headerSize = 5 // a zero and the id of a schema, big-endian

// Read returns how the payload's writer wrote, and the payload without its header. It waits for the registry where the schema is not known
// yet, no longer than the timeout; several that need the same one wait for one request. An error is a *changelog.DataError or a
// *changelog.UnavailableError; neither is remembered.
func (c *Codec) Read(payload []byte) (step *flinkavro.Step, datum []byte, err error) {
	switch {
	case len(payload) == 0:
		return nil, nil, flinkjson.Misfit(changelog.Missing, "the message is empty").Err()
	case payload[0] != 0:
		return nil, nil, flinkjson.Misfit(changelog.Malformed, "the message does not begin with the zero that a message of a schema registry begins with; is its format 'avro' or 'json'?").Err()
	case len(payload) < headerSize:
		return nil, nil, flinkjson.Misfit(changelog.Malformed, "the message ends inside the id of its schema").Err()
	}
	id := int32(binary.BigEndian.Uint32(payload[1:]))
	e := c.last.Load()
	if e == nil || e.id != id {
		if e = c.entry(id); e.err != nil {
			return nil, nil, copied(e.err)
		}
		c.last.Store(e)
	}
	return e.step, payload[headerSize:], nil
}

// copied returns an error that is the caller's own, who puts coordinates into it.
func copied(err error) error {
	var data *changelog.DataError
	if errors.As(err, &data) {
		own := *data
		return &own
	}
	var out *changelog.UnavailableError
	if errors.As(err, &out) {
		own := *out
		return &own
	}
	return err
}

func (c *Codec) entry(id int32) *entry {
	c.mu.Lock()
	e, ok := c.entries[id]
	if !ok {
		e = &entry{id: id, done: make(chan struct{})}
		for other := range c.entries {
			if len(c.entries) < maxSchemas {
				break
			}
			delete(c.entries, other) // whoever waits for it has it
		}
		c.entries[id] = e
	}
	c.mu.Unlock()
	if ok {
		<-e.done
		return e
	}
	s, err := c.client.schema(int(id))
	if err == nil {
		e.step = compile(s, c.Plan, c.sources)
	} else {
		e.err = err
		c.mu.Lock()
		if c.entries[id] == e {
			delete(c.entries, id)
		}
		c.mu.Unlock()
	}
	close(e.done)
	return e
}

// Writable reports what is missing to write.
func (c *Codec) Writable() error {
	if c.subject == "" {
		return fmt.Errorf("%s: option 'subject' is missing; it is the name under which the schema is registered, mostly <topic>-value or <topic>-key", c.client.format)
	}
	if len(c.unwritten) > 0 {
		return fmt.Errorf("%s: option 'properties.%s' would have no effect on what is written, here as in Flink, whose writer registers its schema under the subject in any case; drop it to write", c.client.format, c.unwritten[0])
	}
	return fixed(c.client.format, c.Plan)
}

// fixed reports a type that Flink's writer fails at.
func fixed(format string, p *flinkavro.Plan) error {
	if p.Fixed > 0 {
		return fmt.Errorf("%s: option 'schema' has the fixed %s, which Flink reads and cannot write; make it bytes", format, p.Record)
	}
	for i := range p.Fields {
		if err := fixed(format, &p.Fields[i]); err != nil {
			return err
		}
	}
	if p.Elem != nil {
		return fixed(format, p.Elem)
	}
	return nil
}

// AppendHeader appends the header of a message. The first time it registers the table's schema, as Flink does when it writes its first record;
// where that fails the next time does, and the error is a *changelog.UnavailableError.
func (c *Codec) AppendHeader(dst []byte) ([]byte, error) {
	h := c.header.Load()
	if h == nil {
		var err error
		if h, err = c.register(); err != nil {
			return dst, err
		}
	}
	return append(dst, h[:]...), nil
}

func (c *Codec) register() (*[headerSize]byte, error) {
	c.registering.Lock()
	defer c.registering.Unlock()
	if h := c.header.Load(); h != nil {
		return h, nil
	}
	id, err := c.client.register(c.subject, c.text)
	if err != nil {
		return nil, err
	}
	var h [headerSize]byte
	binary.BigEndian.PutUint32(h[1:], uint32(id))
	c.header.Store(&h)
	return &h, nil
}
