package elastic

import (
	"context"
	"encoding/json"
	"io"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// searched is how much of an index a search has looked at.
type searched struct {
	Shards struct {
		Failed   int `json:"failed"`
		Failures []struct {
			Reason *cause `json:"reason"`
		} `json:"failures"`
	} `json:"_shards"`
	TimedOut bool `json:"timed_out"`
}

// whole is an error where a search did not look at all of an index: what it did not see would be taken for missing.
func (s *searched) whole(index string) error {
	switch {
	case s.Shards.Failed > 0 && len(s.Shards.Failures) > 0:
		return transientf("%d shards of index %s did not answer a search%s", s.Shards.Failed, index, s.Shards.Failures[0].Reason.text())
	case s.Shards.Failed > 0:
		return transientf("%d shards of index %s did not answer a search", s.Shards.Failed, index)
	case s.TimedOut:
		return transientf("a search of index %s was broken off by the server's time limit", index)
	}
	return nil
}

// found is the answer to a search; H is what is read of a document.
type found[H any] struct {
	searched
	PIT  string `json:"pit_id"` // by which the next search goes on, of a search in a point in time
	Hits struct {
		Hits []H `json:"hits"`
	} `json:"hits"`
}

// search sends r once, and returns the answer of a search that looked at all of it. index is for errors: a search in a point in time names none.
func search[H any](ctx context.Context, s *Sink, index string, r esapi.SearchRequest) (*found[H], error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	res, err := r.Do(ctx, s.client)
	if err != nil {
		return nil, lost(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return nil, refusedCall("search index "+index, res)
	}
	var f found[H]
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&f); err != nil {
		return nil, transientf("the answer to a search of index %s cannot be read: %w", index, withoutText(err))
	}
	if err := f.whole(index); err != nil {
		return nil, err
	}
	return &f, nil
}
