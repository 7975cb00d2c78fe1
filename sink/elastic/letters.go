package elastic

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/sink"
)

// This file keeps the messages that are set aside, a document each, in an index of their own. Its id names the message, so a checkpoint that is done
// again writes the same documents. Like rows they are seen early: a letter whose checkpoint was never decided stays until it is.

// letter is the document.
type letter struct {
	Bridge     string       `json:"bridge"`
	Generation int64        `json:"generation"`
	Checkpoint int64        `json:"checkpoint"`
	Topic      string       `json:"topic"`
	Partition  int32        `json:"partition"`
	Offset     int64        `json:"offset"`
	Index      int32        `json:"index"`
	Column     string       `json:"column"`
	Class      string       `json:"class"`
	Error      string       `json:"error"`
	Timestamp  *time.Time   `json:"timestamp"`
	Key        *string      `json:"key"` // base64; null is null
	Value      *string      `json:"value"`
	Headers    []letterPart `json:"headers"`
	Changes    int          `json:"changes"`
	Written    time.Time    `json:"written"`
}

type letterPart struct {
	Key   string  `json:"key"` // base64: keys of headers are bytes on the wire
	Value *string `json:"value"`
}

const letterMapping = `{"mappings":{"dynamic":"strict","properties":{"bridge":{"type":"keyword"},"generation":{"type":"long"},"checkpoint":{"type":"long"},"topic":{"type":"keyword"},
"partition":{"type":"integer"},"offset":{"type":"long"},"index":{"type":"integer"},"column":{"type":"keyword"},"class":{"type":"keyword"},"error":{"type":"text"},"timestamp":{"type":"date"},
"key":{"type":"binary"},"value":{"type":"binary"},"headers":{"type":"object","enabled":false},"changes":{"type":"integer"},"written":{"type":"date"}}}}`

// WriteDeadLetters takes letters into the current checkpoint; Prepare writes them. Without letters it makes the index where it is missing, and so
// tells whether they could be written.
func (c *committer) WriteDeadLetters(ctx context.Context, letters []sink.DeadLetter) error {
	if err := c.ready("write dead letters"); err != nil {
		return err
	}
	if len(letters) == 0 || len(c.letters) == 0 {
		if err := c.s.openLetters(ctx); err != nil {
			return c.spoil(ctx, "write dead letters", err)
		}
	}
	for i := range letters {
		c.letters = append(c.letters, c.letter(&letters[i]))
	}
	return nil
}

func (c *committer) letter(l *sink.DeadLetter) letter {
	out := letter{Bridge: c.lane.Bridge, Topic: l.Topic, Partition: l.Partition.Partition, Offset: l.Offset, Index: l.Index, Column: l.Column, Class: l.Class, Error: l.Error,
		Key: base64Of(l.Key), Value: base64Of(l.Value), Changes: l.Changes}
	if !l.Timestamp.IsZero() {
		at := l.Timestamp.UTC()
		out.Timestamp = &at
	}
	for _, h := range l.Headers {
		out.Headers = append(out.Headers, letterPart{base64.StdEncoding.EncodeToString([]byte(h.Key)), base64Of(h.Value)})
	}
	return out
}

func base64Of(b []byte) *string {
	if b == nil {
		return nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return &s
}

func (s *Sink) openLetters(ctx context.Context) error {
	all, err := s.look(ctx, s.o.DeadLetters)
	if err != nil || len(all) > 0 {
		return err
	}
	status, cause, err := s.createIndex(ctx, s.o.DeadLetters, letterMapping)
	if err != nil || status < 300 || cause.Type == "resource_already_exists_exception" {
		return err
	}
	return refusedStatus("make index "+s.o.DeadLetters+", which Options.DeadLetters names", status, cause)
}

// letterBulk is how many bytes of letters go into one request.
const letterBulk = 4 << 20

// writeLetters writes the letters of the checkpoint. Nothing else does, so a failure ends the checkpoint, which is done again.
func (c *committer) writeLetters(ctx context.Context, cut sink.Cut) error {
	var body []byte
	n := 0
	for i := range c.letters {
		l := &c.letters[i]
		l.Generation, l.Checkpoint, l.Written = int64(cut.Generation.ID), int64(cut.Checkpoint), c.now().UTC()
		doc, err := json.Marshal(l)
		if err != nil {
			return err
		}
		id := fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d\x00%d", l.Bridge, l.Topic, l.Partition, l.Offset, l.Index)
		body = append(body, `{"index":{"_id":"`...)
		body = append(appendHash(body, id), `","version":`...)
		body = strconv.AppendInt(body, version(c.incarnation, l.Offset), 10)
		body = append(body, `,"version_type":"external_gte"}}`+"\n"...)
		body = append(append(body, doc...), '\n')
		n++
		if len(body) >= letterBulk || i == len(c.letters)-1 {
			if err := c.sendLetters(ctx, body, n); err != nil {
				return err
			}
			body, n = body[:0], 0
		}
	}
	return nil
}

func (c *committer) sendLetters(ctx context.Context, body []byte, n int) error {
	ctx, cancel := context.WithTimeout(ctx, c.s.o.RequestTimeout)
	defer cancel()
	res, err := esapi.BulkRequest{Index: c.s.o.DeadLetters, Body: bytes.NewReader(body), FilterPath: answerPath}.Do(ctx, c.s.client)
	if err != nil {
		return transientf("dead letters: %w", hide(err))
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return refusedCall("take dead letters into index "+c.s.o.DeadLetters, res)
	}
	answers, err := readAnswers(io.LimitReader(res.Body, maxAnswer), n)
	if err != nil {
		return transientf("dead letters: %w", err)
	}
	for i := range answers {
		switch answers[i].verdict() {
		case done, conflict: // a newer incarnation has it
		case later:
			return transientf("dead letters: %w", answers[i].why())
		default:
			return configf("index %s, which Options.DeadLetters names, does not take a letter: %w", c.s.o.DeadLetters, answers[i].why())
		}
	}
	return nil
}
