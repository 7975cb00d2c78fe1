package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/sink"
)

// live is what the server says of one index.
type live struct {
	Aliases  map[string]json.RawMessage `json:"aliases"`
	Mappings struct {
		liveField
		Meta map[string]json.RawMessage `json:"_meta"`
	} `json:"mappings"`
	Settings struct {
		Index struct {
			UUID      string `json:"uuid"`
			GCDeletes string `json:"gc_deletes"`
		} `json:"index"`
	} `json:"settings"`
	DataStream string `json:"data_stream"`
}

// openIndex looks at the target, makes it if asked to, and compares it with the table.
//
// began tells that positions were saved: then rows before them are expected in the index, and an index that lacks the mark that the first Open
// left is not the one that has them.
func (c *committer) openIndex(ctx context.Context, p *plan, began bool) error {
	s := c.s
	all, err := s.look(ctx, p.index)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		switch {
		case began:
			return &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("index %s is gone, and with it the rows before the saved positions: bring it back from a snapshot, or move the bridge's positions to the "+
				"beginning", p.index)}
		case s.o.DataStream:
			return configf("there is no data stream %s: make an index template for it, then PUT _data_stream/%s", p.index, p.index)
		}
		if err := s.create(ctx, p); err != nil {
			return err
		}
		if all, err = s.look(ctx, p.index); err != nil {
			return err
		}
	}
	var errs []error
	marked := false
	for _, name := range sorted(all) {
		l := all[name]
		if s.o.DataStream != (l.DataStream != "") {
			return configf("%s: Options.DataStream is %t, but the server says otherwise", p.index, s.o.DataStream)
		}
		if err := s.fits(p, l.Mappings.liveField); err != nil {
			errs = append(errs, fmt.Errorf("index %s does not fit table %q: %w", name, p.table.Name, err))
		}
		if _, ok := l.Mappings.Meta[c.mark()]; ok {
			marked = true
		}
	}
	if len(errs) > 0 {
		return &sink.Error{Class: sink.ErrConfig, Err: errors.Join(errs...)}
	}
	p.uuid = uuids(all)
	if !marked && !s.o.DataStream {
		if began {
			return &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("index %s was made anew, or is another one, since the positions of bridge %q were saved: it lacks the rows before them. Name the old "+
				"index, or move the bridge's positions to the beginning", p.index, c.lane.Bridge)}
		}
		if err := c.setMark(ctx, p, all); err != nil {
			return err
		}
	}
	if s.o.Alias != "" {
		return s.alias(ctx, p, all)
	}
	return nil
}

// mark is the member of the mapping's _meta that says that this bridge began to write here.
func (c *committer) mark() string { return "flinksink:" + c.lane.Bridge + ":" + c.lane.Sink }

// setMark writes it into each index that the name stands for. A client that may not change mappings goes without.
func (c *committer) setMark(ctx context.Context, p *plan, all map[string]live) error {
	for _, name := range sorted(all) {
		meta := make(map[string]json.RawMessage)
		for k, v := range all[name].Mappings.Meta {
			meta[k] = v
		}
		meta[c.mark()] = json.RawMessage("true")
		body, err := json.Marshal(map[string]any{"_meta": meta})
		if err != nil {
			return err
		}
		res, err := esapi.IndicesPutMappingRequest{Index: []string{name}, Body: bytes.NewReader(body)}.Do(ctx, c.s.client)
		if err := check("mark index "+name, res, err, http.StatusForbidden); err != nil {
			return err
		}
	}
	return nil
}

// sameIndex makes sure that what took the documents is what Open looked at: an index that was deleted while the lane wrote lost those of earlier
// checkpoints, and the server may have made it anew by itself, or an alias was moved.
func (c *committer) sameIndex(ctx context.Context, p *plan) error {
	all, err := c.s.look(ctx, p.index)
	if err != nil {
		return err
	}
	if now := uuids(all); now != p.uuid && !c.s.o.DataStream {
		return &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("index %s was deleted, made anew, or its alias moved while it was written: what it stands for now lacks rows before the saved positions. Bring it "+
			"back, or move the bridge's positions to the beginning", p.index)}
	}
	return nil
}

func uuids(all map[string]live) string {
	var ids []string
	for _, l := range all {
		ids = append(ids, l.Settings.Index.UUID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// look returns what a name stands for: an index, those of an alias or data stream, or nothing.
func (s *Sink) look(ctx context.Context, index string) (map[string]live, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	res, err := esapi.IndicesGetRequest{Index: []string{index}}.Do(ctx, s.client)
	if err != nil {
		return nil, transientf("%w", hide(err))
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if res.StatusCode >= 300 {
		return nil, refusedCall("look at index "+index, res)
	}
	var all map[string]live
	err = json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&all)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, configf("the description of index %s is no JSON: does the address of the client lead to Elasticsearch?", index)
	case err != nil:
		return nil, transientf("the description of index %s cannot be read: %w", index, withoutText(err))
	}
	return all, nil
}

// create makes the index. Two lanes may do so at once.
func (s *Sink) create(ctx context.Context, p *plan) error {
	for _, decimal := range []string{"scaled_float", "double"} {
		body, err := s.mapping(p, decimal)
		if err != nil {
			return err
		}
		if !s.o.CreateIndex {
			return configf("there is no index %s: set Options.CreateIndex, or make it with\nPUT /%s\n%s", p.index, p.index, body)
		}
		status, cause, err := s.createIndex(ctx, p.index, body)
		switch {
		case err != nil:
			return err
		case status < 300, cause.Type == "resource_already_exists_exception":
			return nil
		case decimal == "scaled_float" && strings.Contains(cause.Reason, "[scaled_float]"): // is not known there
		default:
			return refusedStatus("make index "+p.index, status, cause)
		}
	}
	return nil
}

func (s *Sink) createIndex(ctx context.Context, index, body string) (int, *cause, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	res, err := esapi.IndicesCreateRequest{Index: index, Body: strings.NewReader(body)}.Do(ctx, s.client)
	if err != nil {
		return 0, nil, transientf("%w", hide(err))
	}
	defer res.Body.Close()
	return res.StatusCode, readCause(res.Body), nil
}

// alias makes the alias of readers, which leaves tombstones out.
func (s *Sink) alias(ctx context.Context, p *plan, all map[string]live) error {
	for _, name := range sorted(all) {
		if _, ok := all[name].Aliases[s.o.Alias]; ok {
			continue
		}
		body := `{}`
		if s.o.Deletes == Tombstone {
			body = `{"filter":{"bool":{"must_not":{"exists":{"field":"` + DeletedField + `"}}}}}`
		}
		res, err := esapi.IndicesPutAliasRequest{Index: []string{name}, Name: s.o.Alias, Body: strings.NewReader(body)}.Do(ctx, s.client)
		if err := check("make alias "+s.o.Alias, res, err); err != nil {
			return err
		}
	}
	return nil
}

// refresh shows the documents of an index to searches.
func (s *Sink) refresh(ctx context.Context, index string) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	res, err := esapi.IndicesRefreshRequest{Index: []string{index}}.Do(ctx, s.client)
	return check("refresh index "+index, res, err)
}

// check closes the answer of a call whose content does not matter; statuses in fine are as good as success.
func check(what string, res *esapi.Response, err error, fine ...int) error {
	if err != nil {
		return transientf("%w", hide(err))
	}
	defer res.Body.Close()
	if res.StatusCode < 300 || slices.Contains(fine, res.StatusCode) {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)) // so that the connection is used again
		return nil
	}
	return refusedCall(what, res)
}

func refusedCall(what string, res *esapi.Response) error {
	return refusedStatus(what, res.StatusCode, readCause(res.Body))
}

// refusedStatus classifies the answer to a call that is no bulk.
func refusedStatus(what string, status int, cause *cause) error {
	err := fmt.Errorf("the server does not %s: status %d%s", what, status, cause.text())
	class := sink.ErrTransient
	switch {
	case status == http.StatusForbidden && cause.Type == blockException, status == http.StatusTooManyRequests, status >= 500:
	case status == http.StatusUnauthorized:
		class, err = sink.ErrConfig, fmt.Errorf("%w: the client's credentials are not accepted", err)
	case status == http.StatusForbidden:
		class, err = sink.ErrConfig, fmt.Errorf("%w: the client lacks the privilege for it", err)
	case status >= 400:
		class = sink.ErrConfig
	}
	return &sink.Error{Class: class, Err: err}
}

func sorted(all map[string]live) []string {
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// gcDeletes is how long the server remembers the versions of deleted documents.
func (l live) gcDeletes() (time.Duration, error) {
	if l.Settings.Index.GCDeletes == "" {
		return time.Minute, nil // Elasticsearch's default
	}
	return parseTime(l.Settings.Index.GCDeletes)
}
