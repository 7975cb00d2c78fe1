package elastic

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// StoredLetter is a dead letter as the index of Options.DeadLetters holds it.
type StoredLetter struct {
	sink.DeadLetter
	Bridge     string
	Generation sink.GenerationID // that set it aside
	Checkpoint sink.CheckpointID
	Written    time.Time
}

// letterPage is how many letters one search is asked for: a letter holds a message, which may be a MiB, and an answer is held in memory.
const letterPage = 100

// DeadLetters returns the messages that a bridge set aside, newest first, at most limit, with all their bytes; limit 0 or less is no limit. "" is every
// bridge. It refreshes the index where it may, so that those are found that were written just now. An index that was never made holds none.
func (s *Sink) DeadLetters(ctx context.Context, bridge string, limit int) (out []StoredLetter, err error) {
	defer func() {
		if err != nil {
			err = &sink.Error{Op: "read dead letters", Bridge: bridge, Class: sink.ClassOf(err), Err: unclassed(err)}
		}
	}()
	index := s.o.DeadLetters
	all, err := s.look(ctx, index)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if err := s.refresh(ctx, index); err != nil && sink.ClassOf(err) != sink.ErrConfig { // who may only read sees what the server has refreshed by itself
		return nil, err
	}
	// The order is total, so a page begins right after the one before it. Letters that come meanwhile are newer than the first.
	ask := map[string]any{"query": map[string]any{"match_all": struct{}{}},
		"sort": []map[string]string{{"written": "desc"}, {"bridge": "asc"}, {"topic": "asc"}, {"partition": "asc"}, {"offset": "desc"}, {"index": "desc"}}}
	if bridge != "" {
		ask["query"] = map[string]any{"term": map[string]string{"bridge": bridge}}
	}
	for limit <= 0 || len(out) < limit {
		ask["size"] = letterPage
		if limit > 0 {
			ask["size"] = min(letterPage, limit-len(out))
		}
		page, err := s.letters(ctx, index, ask)
		if err != nil {
			return nil, err
		}
		for i := range page {
			l, err := page[i].Source.stored()
			if err != nil {
				return nil, configf("index %s holds a document that is no dead letter of this program (%w): name the index that the bridge writes them into", index, err)
			}
			out = append(out, l)
		}
		if len(page) == 0 {
			break
		}
		ask["search_after"] = page[len(page)-1].Sort
	}
	return out, nil
}

// foundLetter is a hit of a search.
type foundLetter struct {
	Source letter          `json:"_source"`
	Sort   json.RawMessage `json:"sort"`
}

func (s *Sink) letters(ctx context.Context, index string, ask map[string]any) ([]foundLetter, error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	f, err := search[foundLetter](ctx, s, index, esapi.SearchRequest{Index: []string{index}, Body: bytes.NewReader(body)})
	if err != nil {
		return nil, err
	}
	return f.Hits.Hits, nil
}

// stored takes the document apart.
func (l *letter) stored() (StoredLetter, error) {
	out := StoredLetter{Bridge: l.Bridge, Generation: sink.GenerationID(l.Generation), Checkpoint: sink.CheckpointID(l.Checkpoint), Written: l.Written,
		DeadLetter: sink.DeadLetter{Partition: changelog.Partition{Topic: l.Topic, Partition: l.Partition}, Offset: l.Offset, Index: l.Index, Column: l.Column, Class: l.Class,
			Error: l.Error, Changes: l.Changes}}
	if l.Bridge == "" || l.Topic == "" {
		return out, fmt.Errorf("it names no bridge or no topic")
	}
	if l.Timestamp != nil {
		out.Timestamp = *l.Timestamp
	}
	var err error
	if out.Key, err = bytesOf(l.Key); err != nil {
		return out, err
	}
	if out.Value, err = bytesOf(l.Value); err != nil {
		return out, err
	}
	for _, h := range l.Headers {
		key, err := bytesOf(&h.Key)
		if err != nil {
			return out, err
		}
		value, err := bytesOf(h.Value)
		if err != nil {
			return out, err
		}
		out.Headers = append(out.Headers, changelog.Header{Key: string(key), Value: value})
	}
	return out, nil
}

// bytesOf undoes base64Of. Null and empty stay two things.
func bytesOf(text *string) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	b, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return nil, fmt.Errorf("its bytes are not in base64")
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}
