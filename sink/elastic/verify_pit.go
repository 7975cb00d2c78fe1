package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/elastic/go-elasticsearch/v8/esapi"
)

// pit is a point in time of an index.
type pit struct {
	id string // "": none is open
	// other tells that the server has the calls of OpenSearch, which differ in path, in members and in how documents can be sorted, and not in what they do.
	other bool
}

// order is a sort in which search_after goes on.
func (p *pit) order() string {
	if p.other {
		return `[{"_id":"asc"},{"_index":"asc"}]`
	}
	return `[{"_shard_doc":"asc"}]`
}

func (s *Sink) openPIT(ctx context.Context, index string) (p pit, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	res, err := esapi.OpenPointInTimeRequest{Index: []string{index}, KeepAlive: pitKeepAlive}.Do(ctx, s.client)
	if err != nil {
		return p, transientf("%w", hide(err))
	}
	defer func() { res.Body.Close() }()
	if res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusMethodNotAllowed {
		// A server that does not know the call has no type for that error.
		cause := readCause(res.Body)
		if cause.Type != "" {
			return p, refusedStatus("open a point in time of index "+index, res.StatusCode, cause)
		}
		res.Body.Close()
		p.other = true
		if res, err = s.perform(ctx, http.MethodPost, "/"+url.PathEscape(index)+"/_search/point_in_time?keep_alive="+pitKeepAlive, nil); err != nil {
			return p, transientf("%w", hide(err))
		}
	}
	if res.StatusCode >= 300 {
		return p, refusedCall("open a point in time of index "+index, res)
	}
	var answer struct {
		ID    string `json:"id"`
		Other string `json:"pit_id"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer); err != nil || answer.ID+answer.Other == "" {
		return p, transientf("the answer to a request for a point in time cannot be read")
	}
	p.id = answer.ID + answer.Other
	return p, nil
}

// closePIT ends one; once is enough.
func (s *Sink) closePIT(ctx context.Context, p *pit) error {
	if p.id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.RequestTimeout)
	defer cancel()
	id := p.id
	p.id = ""
	if p.other {
		body, err := json.Marshal(map[string][]string{"pit_id": {id}})
		if err != nil {
			return err
		}
		res, err := s.perform(ctx, http.MethodDelete, "/_search/point_in_time", body)
		return check("close a point in time", res, err, http.StatusNotFound)
	}
	body, err := json.Marshal(map[string]string{"id": id})
	if err != nil {
		return err
	}
	res, err := esapi.ClosePointInTimeRequest{Body: bytes.NewReader(body)}.Do(ctx, s.client)
	return check("close a point in time", res, err, http.StatusNotFound)
}

// perform sends a request that esapi does not know.
func (s *Sink) perform(ctx context.Context, method, path string, body []byte) (*esapi.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Perform(req)
	if err != nil {
		return nil, err
	}
	return &esapi.Response{StatusCode: res.StatusCode, Body: res.Body, Header: res.Header}, nil
}
