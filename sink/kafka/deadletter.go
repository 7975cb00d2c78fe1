package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// letterHeader is the last header of a dead letter's record: the rest of the letter, as JSON.
const letterHeader = "flinksink.dead-letter"

// letterFormat is that of the header.
const letterFormat = 1

type letterJSON struct {
	Format    int    `json:"format"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Index     int32  `json:"index"`
	Column    string `json:"column,omitempty"`
	Class     string `json:"class"`
	Error     string `json:"error"`
	Timestamp int64  `json:"timestamp"` // milliseconds; -1: none
	Changes   int    `json:"changes"`
	Cut       int    `json:"cut,omitempty"` // bytes of a value that did not fit, and is missing
}

// lettered and letteredStore are the committers of sinks with Options.DeadLetterTopic.
type (
	lettered      struct{ *committer }
	letteredStore struct{ *ownStore }
)

var (
	_ sink.DeadLetterKeeper = lettered{}
	_ sink.DeadLetterKeeper = letteredStore{}
)

// WriteDeadLetters implements [sink.DeadLetterKeeper].
func (l lettered) WriteDeadLetters(ctx context.Context, letters []sink.DeadLetter) error {
	return l.writeLetters(ctx, letters)
}

// WriteDeadLetters implements [sink.DeadLetterKeeper].
func (l letteredStore) WriteDeadLetters(ctx context.Context, letters []sink.DeadLetter) error {
	return l.writeLetters(ctx, letters)
}

// writeLetters adds letters to the transaction of the checkpoint. Without letters it asks whether the topic is there.
func (c *committer) writeLetters(ctx context.Context, letters []sink.DeadLetter) error {
	topic := c.s.o.DeadLetterTopic
	err := func() error {
		t, err := c.s.c.exists(ctx, topic, len(letters) == 0)
		if err != nil {
			return fmt.Errorf("Options.DeadLetterTopic %q: %w", topic, err)
		}
		if len(letters) == 0 {
			return nil
		}
		if err := c.ready(ctx); err != nil {
			return err
		}
		if c.failed != nil {
			return fmt.Errorf("an earlier Write of this checkpoint failed: %w", c.failed)
		}
		most, err := c.letterLimit(ctx)
		if err != nil {
			return err
		}
		for i := range letters {
			r, err := letterRecord(&letters[i], most)
			if err != nil {
				return err
			}
			l := &letters[i]
			c.count++
			at := place{topic, l.Partition.Partition % int32(len(t.leaders))}
			if err := c.w.add(ctx, at, r, origin{l.Partition, l.Offset, l.Index}); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil && len(letters) > 0 {
		err = c.fail("write dead letters", sink.ErrTransient, err)
		c.failed = err
	}
	return c.fail("write dead letters", sink.ErrTransient, err)
}

// letterLimit is what a record of the dead letters' topic may take.
func (c *committer) letterLimit(ctx context.Context) (int, error) {
	if c.letters > 0 {
		return c.letters, nil
	}
	var config map[string]string
	if err := c.s.c.hears(ctx, c.s.c.news, func() (err error) {
		config, err = c.s.c.configs(ctx, kmsg.ConfigResourceTypeTopic, c.s.o.DeadLetterTopic, "max.message.bytes")
		return err
	}); err != nil {
		return 0, err
	}
	c.letters = defaultMaxBatch
	if n, err := strconv.Atoi(config["max.message.bytes"]); err == nil && n > 0 {
		c.letters = n
	}
	return c.letters, nil
}

// letterRecord is the message as it was, key, value and headers, with one header more. A value that does not fit is left out, then headers and key: a letter is
// never refused, and its coordinates tell where the message is.
func letterRecord(l *sink.DeadLetter, most int) (*changelog.Record, error) {
	j := letterJSON{Format: letterFormat, Topic: l.Topic, Partition: l.Partition.Partition, Offset: l.Offset, Index: l.Index, Column: l.Column, Class: l.Class, Error: l.Error,
		Timestamp: -1, Changes: l.Changes}
	if !l.Timestamp.IsZero() {
		j.Timestamp = l.Timestamp.UnixMilli()
	}
	r := &changelog.Record{Key: l.Key, Value: l.Value, Timestamp: time.Now().UnixMilli()}
	for try := 0; ; try++ {
		rest, err := json.Marshal(j)
		if err != nil {
			return nil, err
		}
		r.Headers = nil
		if try < 2 {
			r.Headers = append(r.Headers, l.Headers...)
		}
		r.Headers = append(r.Headers, changelog.Header{Key: letterHeader, Value: rest})
		if batchHeader+recordSize(r) <= most || try == 3 {
			return r, nil
		}
		switch try {
		case 0:
			r.Value, j.Cut = nil, len(l.Value)
		case 1: // headers are left out
		case 2:
			r.Key = nil
		}
	}
}

// ParseDeadLetter reads a record of Options.DeadLetterTopic. A message whose value did not fit has none; cut is how many bytes it had then.
func ParseDeadLetter(r *kgo.Record) (l sink.DeadLetter, cut int, err error) {
	n := len(r.Headers) - 1
	if n < 0 || r.Headers[n].Key != letterHeader {
		return l, 0, errors.New("kafka: the record is no dead letter")
	}
	var j letterJSON
	if err := json.Unmarshal(r.Headers[n].Value, &j); err != nil {
		return l, 0, fmt.Errorf("kafka: the dead letter's header: %w", err)
	}
	if j.Format != letterFormat {
		return l, 0, fmt.Errorf("kafka: the dead letter is in version %d, and this release reads version %d", j.Format, letterFormat)
	}
	l = sink.DeadLetter{Partition: changelog.Partition{Topic: j.Topic, Partition: j.Partition}, Offset: j.Offset, Index: j.Index, Column: j.Column,
		Class: j.Class, Error: j.Error, Key: r.Key, Value: r.Value, Changes: j.Changes}
	if j.Timestamp >= 0 {
		l.Timestamp = time.UnixMilli(j.Timestamp).UTC()
	}
	for _, h := range r.Headers[:n] {
		l.Headers = append(l.Headers, changelog.Header{Key: h.Key, Value: h.Value})
	}
	return l, j.Cut, nil
}
