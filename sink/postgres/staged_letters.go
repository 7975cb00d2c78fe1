package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// stagedLetter is a dead letter as it is staged. Keys and values of headers are bytes.
type stagedLetter struct {
	Topic        string    `json:"topic"`
	Partition    int32     `json:"partition"`
	Offset       int64     `json:"offset"`
	Index        int32     `json:"index"`
	Column       string    `json:"column,omitempty"`
	Class        string    `json:"class"`
	Error        string    `json:"error"`
	Timestamp    time.Time `json:"timestamp"`
	Key          []byte    `json:"key"`
	Value        []byte    `json:"value"`
	HeaderKeys   [][]byte  `json:"headerKeys,omitempty"`
	HeaderValues [][]byte  `json:"headerValues,omitempty"`
	Changes      int       `json:"changes"`
}

// addLetters stages letters, in pieces that stay well below the server's limits.
func (s *stage) addLetters(letters []sink.DeadLetter) error {
	var some []stagedLetter
	size := 0
	flush := func() error {
		if len(some) == 0 {
			return nil
		}
		text, err := json.Marshal(some)
		if err != nil {
			return err
		}
		s.add(chunk{statement: stagedStatement{Letters: true}, params: [][]byte{text}})
		some, size = nil, 0
		return nil
	}
	for i := range letters {
		l := letterOf(&letters[i])
		x := stagedLetter{Topic: l.topic, Partition: l.Partition.Partition, Offset: l.Offset, Index: l.Index, Column: l.column, Class: l.class, Error: l.text,
			Key: l.Key, Value: l.Value, HeaderKeys: l.headerKeys, HeaderValues: l.headerValues, Changes: l.Changes}
		if l.time != nil {
			x.Timestamp = *l.time
		}
		some = append(some, x)
		if size += l.size; size >= chunkBytes || len(some) >= chunkRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func (s *Sink) playLetters(ctx context.Context, t *transaction, w writer, cp sink.CheckpointID, c *chunk) error {
	var staged []stagedLetter
	if json.Unmarshal(c.params[0], &staged) != nil {
		return odd("staged dead letters of checkpoint %d.%d that cannot be read", w.gen, cp)
	}
	letters := make([]sink.DeadLetter, len(staged))
	for i, x := range staged {
		l := sink.DeadLetter{Partition: changelog.Partition{Topic: x.Topic, Partition: x.Partition}, Offset: x.Offset, Index: x.Index, Column: x.Column, Class: x.Class,
			Error: x.Error, Timestamp: x.Timestamp, Key: x.Key, Value: x.Value, Changes: x.Changes}
		for j, k := range x.HeaderKeys {
			h := changelog.Header{Key: string(k)}
			if j < len(x.HeaderValues) {
				h.Value = x.HeaderValues[j]
			}
			l.Headers = append(l.Headers, h)
		}
		letters[i] = l
	}
	return s.insertLetters(ctx, t, w, cp, [][]sink.DeadLetter{letters})
}
