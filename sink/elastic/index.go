package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
			Closed    string `json:"verified_before_close"` // "true" where it is closed, "" else
		} `json:"index"`
	} `json:"settings"`
	DataStream string `json:"data_stream"`
}

// openIndex looks at what a plan writes into. Where names come from rows, that is done index by index when the first row for one comes;
// here those that the bridge wrote into before are compared with the table.
func (c *committer) openIndex(ctx context.Context, p *plan) error {
	p.known, p.touched = make(map[string]*target), make(map[string]bool)
	if p.naming == nil {
		return c.openTarget(ctx, p, p.index)
	}
	all, err := c.s.look(ctx, p.index)
	if err != nil {
		return err
	}
	for name, l := range all {
		if _, ok := l.Mappings.Meta[c.mark()]; !ok {
			delete(all, name)
		}
	}
	return c.s.fit(p, all)
}

// openTarget looks at one index, makes it if asked to, and compares it with the table.
//
// c.began tells that positions were saved: then rows before them are expected in the index, and an index that lacks the mark that the first Open
// left is not the one that has them. Where names come from rows an index may be new, but not hold anything.
func (c *committer) openTarget(ctx context.Context, p *plan, index string) error {
	s := c.s
	all, err := s.look(ctx, index)
	if err != nil {
		return err
	}
	fresh := false
	if len(all) == 0 {
		switch {
		case c.began && p.naming == nil:
			return &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("index %s is gone, and with it the rows before the saved positions: bring it back from a snapshot, or move the bridge's positions to the "+
				"beginning, with 'flinksink positions reset'", index)}
		case s.o.DataStream:
			return configf("there is no data stream %s: make an index template for it, then PUT _data_stream/%[1]s", index)
		}
		if err := s.create(ctx, p, index); err != nil {
			return err
		}
		if all, err = s.look(ctx, index); err != nil {
			return err
		}
		if fresh = true; len(all) == 0 {
			return transientf("index %s is gone again", index)
		}
	}
	if err := s.single(index, all); err != nil {
		return err
	}
	if err := notClosed(all); err != nil {
		return err
	}
	if err := s.fit(p, all); err != nil {
		return err
	}
	x := &target{name: index, uuids: uuids(all), marked: true}
	if s.o.Alias != "" {
		if err := s.alias(ctx, all); err != nil {
			return err
		}
	}
	if !s.o.DataStream && !c.isMarked(all) {
		if c.began && !fresh {
			if err := c.mayBegin(ctx, p, index); err != nil {
				return err
			}
		}
		if x.marked, err = c.setMark(ctx, all); err != nil {
			return err
		}
	}
	p.known[index] = x
	return nil
}

// single makes sure that a name stands for one index: where an alias stands for several, the document of a row may be in another one than that
// which takes writes, and stay there.
func (s *Sink) single(index string, all map[string]live) error {
	for _, name := range sorted(all) {
		if s.o.DataStream != (all[name].DataStream != "") {
			return configf("%s: Options.DataStream is %t, but the server says otherwise", index, s.o.DataStream)
		}
	}
	if len(all) > 1 && !s.o.DataStream {
		return configf("%s is an alias of %d indexes (%s): a row's document could be in another one than that which takes writes. Name one of them, or let New make the name from columns", index, len(all),
			strings.Join(sorted(all), ", "))
	}
	return nil
}

// notClosed makes sure that none is closed: it would take nothing, for as long as Options.Patience lasts.
func notClosed(all map[string]live) error {
	for _, name := range sorted(all) {
		if all[name].Settings.Index.Closed == "true" {
			return transientf("index %s is closed: POST /%[1]s/_open opens it", name)
		}
	}
	return nil
}

// fit compares each index with the table.
func (s *Sink) fit(p *plan, all map[string]live) error {
	var errs []error
	for _, name := range sorted(all) {
		if err := s.fits(p, all[name].Mappings.liveField); err != nil {
			errs = append(errs, fmt.Errorf("index %s does not fit table %q: %w", name, p.table.Name, err))
		}
	}
	if len(errs) > 0 {
		return &sink.Error{Class: sink.ErrConfig, Err: errors.Join(errs...)}
	}
	return nil
}

// mayBegin decides about an index without the bridge's mark, though positions were saved. A client that may not change mappings could not leave one, so
// nothing follows from it.
func (c *committer) mayBegin(ctx context.Context, p *plan, index string) error {
	may, err := c.s.mayMap(ctx, index)
	if err != nil || !may {
		return err
	}
	if p.naming == nil {
		return &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("index %s was made anew, or is another one, since the positions of bridge %q were saved: it lacks the rows before them. Name the old "+
			"index, or move the bridge's positions to the beginning, with 'flinksink positions reset'", index, c.lane.Bridge)}
	}
	found, err := c.s.tombstones(ctx, index, `{"match_all":{}}`)
	if err != nil || len(found) == 0 {
		return err
	}
	return &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("index %s holds documents but was not begun by bridge %q: it was deleted and made anew by the server, or is something else's. Delete it to go on "+
		"without the rows that it had, or move the bridge's positions to the beginning, with 'flinksink positions reset'", index, c.lane.Bridge)}
}

// mark is the member of the mapping's _meta that says that this bridge began to write here.
func (c *committer) mark() string { return "flinksink:" + c.lane.Bridge + ":" + c.lane.Sink }

func (c *committer) isMarked(all map[string]live) bool {
	for _, l := range all {
		if _, ok := l.Mappings.Meta[c.mark()]; !ok {
			return false
		}
	}
	return true
}

// setMark writes it into the index. A client that may not change mappings goes without: false.
//
// The server replaces _meta as a whole. So of two bridges that begin at the same moment one can take the other's mark away, as can a user who
// changes _meta: sameIndex puts it back.
func (c *committer) setMark(ctx context.Context, all map[string]live) (bool, error) {
	for _, name := range sorted(all) {
		meta := make(map[string]json.RawMessage)
		for k, v := range all[name].Mappings.Meta {
			meta[k] = v
		}
		meta[c.mark()] = json.RawMessage("true")
		body, err := json.Marshal(map[string]any{"_meta": meta})
		if err != nil {
			return false, err
		}
		if may, err := c.s.putMapping(ctx, "mark", name, body); err != nil || !may {
			return false, err
		}
	}
	return true, nil
}

// mayMap finds out whether the client may change the mapping, by a change of nothing.
func (s *Sink) mayMap(ctx context.Context, index string) (bool, error) {
	return s.putMapping(ctx, "look at the mapping of", index, []byte(`{"properties":{}}`))
}

// putMapping changes a mapping, and returns false if the client may not. A block is no answer to that.
func (s *Sink) putMapping(ctx context.Context, what, index string, body []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	res, err := esapi.IndicesPutMappingRequest{Index: []string{index}, Body: bytes.NewReader(body)}.Do(ctx, s.client)
	if err != nil || res.StatusCode != http.StatusForbidden {
		return true, check(what+" index "+index, res, err)
	}
	defer res.Body.Close()
	if cause := readCause(res.Body); cause.Type == blockException {
		return true, refusedStatus(what+" index "+index, res.StatusCode, cause)
	}
	return false, nil
}

// lookPipeline makes sure that Options.Pipeline is there: without it each row would be refused.
func (s *Sink) lookPipeline(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	res, err := esapi.IngestGetPipelineRequest{PipelineID: s.o.Pipeline}.Do(ctx, s.client)
	if err == nil && res.StatusCode == http.StatusNotFound {
		res.Body.Close()
		return configf("there is no ingest pipeline %s, which Options.Pipeline names", s.o.Pipeline)
	}
	return check("look at ingest pipeline "+s.o.Pipeline, res, err, http.StatusForbidden) // who may use one need not be allowed to read it
}

// sameIndex makes sure that what took the documents is what Open looked at: an index that was deleted while the lane wrote lost those of earlier
// checkpoints, and the server may have made it anew by itself, or an alias was moved. A data stream begins new indexes and loses old ones in time, but
// not all at once.
func (c *committer) sameIndex(ctx context.Context, p *plan, index string) error {
	all, err := c.s.look(ctx, index, "*.settings.index.uuid", "*.mappings._meta", "*.data_stream")
	if err != nil {
		return err
	}
	x, now := p.known[index], uuids(all)
	if c.s.o.DataStream {
		for id := range now {
			if x.uuids[id] {
				x.uuids = now
				return nil
			}
		}
	} else if maps.Equal(now, x.uuids) {
		if x.marked && !c.isMarked(all) {
			x.marked, err = c.setMark(ctx, all)
		}
		return err
	}
	return &sink.Error{Class: sink.ErrLost, Err: fmt.Errorf("index %s was deleted, made anew, or its alias moved while it was written: what it stands for now lacks rows before the saved positions. Bring it "+
		"back, or move the bridge's positions to the beginning, with 'flinksink positions reset'", index)}
}

func uuids(all map[string]live) map[string]bool {
	ids := make(map[string]bool)
	for _, l := range all {
		ids[l.Settings.Index.UUID] = true
	}
	return ids
}

// look returns what a name stands for: an index, those of an alias, data stream or pattern, or nothing. only leaves out the rest of the answer.
func (s *Sink) look(ctx context.Context, index string, only ...string) (map[string]live, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	return s.describe(ctx, esapi.IndicesGetRequest{Index: []string{index}, FilterPath: only})
}

// closedMatch returns the closed indexes that a pattern stands for, which are in no other answer to it.
func (s *Sink) closedMatch(ctx context.Context, pattern string) (map[string]live, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	return s.describe(ctx, esapi.IndicesGetRequest{Index: []string{pattern}, ExpandWildcards: "closed"})
}

func (s *Sink) describe(ctx context.Context, r esapi.IndicesGetRequest) (map[string]live, error) {
	index, only := r.Index[0], r.FilterPath
	res, err := r.Do(ctx, s.client)
	if err != nil {
		return nil, lost(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound {
		// What is left out of an answer is left out of an error, too.
		if len(only) == 0 && readCause(res.Body).Type != indexNotFound {
			return nil, configf("status 404, and not from Elasticsearch, when asked for index %s: does the address of the client lead to Elasticsearch?", index)
		}
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
func (s *Sink) create(ctx context.Context, p *plan, index string) error {
	for _, decimal := range []string{"scaled_float", "double"} {
		body, err := s.mapping(p, decimal)
		if err != nil {
			return err
		}
		if !s.o.CreateIndex {
			return configf("there is no index %s: set Options.CreateIndex, or make it with\nPUT /%s\n%s", index, index, body)
		}
		status, cause, err := s.createIndex(ctx, index, body)
		switch {
		case err != nil:
			return err
		case status < 300, cause.Type == "resource_already_exists_exception":
			return nil
		case decimal == "scaled_float" && strings.Contains(cause.Reason, "[scaled_float]"): // is not known there
		default:
			return refusedStatus("make index "+index, status, cause)
		}
	}
	return nil
}

func (s *Sink) createIndex(ctx context.Context, index, body string) (int, *cause, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	res, err := esapi.IndicesCreateRequest{Index: index, Body: strings.NewReader(body)}.Do(ctx, s.client)
	if err != nil {
		return 0, nil, lost(err)
	}
	defer res.Body.Close()
	return res.StatusCode, readCause(res.Body), nil
}

// alias makes the alias of readers, which leaves tombstones out.
func (s *Sink) alias(ctx context.Context, all map[string]live) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	for _, name := range sorted(all) {
		if is, ok := all[name].Aliases[s.o.Alias]; ok {
			var a struct {
				Filter json.RawMessage `json:"filter"`
			}
			if s.o.Deletes == Tombstone && (json.Unmarshal(is, &a) != nil || len(a.Filter) == 0) {
				return configf("alias %s of index %s has no filter, so its readers would see tombstones: give it\n%s\nor name another in Options.Alias", s.o.Alias, name, aliveFilter)
			}
			continue
		}
		body := `{}`
		if s.o.Deletes == Tombstone {
			body = aliveFilter
		}
		res, err := esapi.IndicesPutAliasRequest{Index: []string{name}, Name: s.o.Alias, Body: strings.NewReader(body)}.Do(ctx, s.client)
		if err := check("make alias "+s.o.Alias, res, err); err != nil {
			return err
		}
	}
	return nil
}

const aliveFilter = `{"filter":{"bool":{"must_not":{"exists":{"field":"` + DeletedField + `"}}}}}`

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
		return lost(err)
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
	case status == http.StatusForbidden && cause.Type == blockException, cause.Type == indexClosed, status == http.StatusTooManyRequests, status >= 500:
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
