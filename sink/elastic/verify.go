package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// This file compares an index with rows that it should hold.
//
// A view is a point in time of the index, after a refresh. It is not of the moment of the stored positions, since documents are visible early, so the caller
// leaves out the keys that have changes behind them. Documents are found by their id, which follows from the key, and compared member by member with
// the document that the row would be written as.

var _ sink.Verifiable = (*Sink)(nil)

// view implements sink.View.
type view struct {
	s      *Sink
	r      sink.ViewRequest
	plan   *plan
	c      *committer // writes documents
	pit    pit
	topics map[string]bool
	moving map[string]struct{} // keys
	there  map[string]bool     // indexes that the name stands for
	marked map[string]bool     // those of them that the bridge began
	buf    []byte
}

const (
	// pitKeepAlive is how long a point in time stays between two searches: the topic is read meanwhile.
	pitKeepAlive = "1h"
	// viewPage is how many documents are looked at by one search. It is below index.max_result_window.
	viewPage = 1000
)

// View implements [sink.Verifiable]. The positions have to be given, since they are kept elsewhere. A point in time is kept open until the view is
// closed, which keeps old segments of the index on disk, and is given up if no search comes for an hour.
func (s *Sink) View(ctx context.Context, r sink.ViewRequest) (sink.View, error) {
	v := &view{s: s, r: r, topics: make(map[string]bool), moving: make(map[string]struct{})}
	if err := v.open(ctx); err != nil {
		_ = v.Close(ctx)
		return nil, v.fail("view", err)
	}
	return v, nil
}

func (v *view) fail(op string, err error) error {
	var e *sink.Error
	if errors.As(err, &e) && e.Op != "" { // a repair within the search for extra documents
		return err
	}
	out := &sink.Error{Op: op, Sink: v.r.Sink, Bridge: v.r.Bridge, Class: sink.ClassOf(err), Err: err}
	if e != nil {
		out.Err, out.Position, out.Rejected = e.Err, e.Position, e.Rejected
	}
	return out
}

func (v *view) open(ctx context.Context) error {
	p, err := v.s.plan(v.r.Table)
	switch {
	case err != nil:
		return configf("%w", err)
	case p.keyless:
		return configf("table %q has no key, so no row of it can be found: compare the number of documents, or load the topic into another index", v.r.Table.Name)
	case v.r.Positions == nil:
		return configf("an index holds no positions: name the store of the bridge in Options.Store")
	case v.r.Incarnation > maxIncarnation:
		return configf("incarnation %d is above %d, the largest that a version can hold", v.r.Incarnation, maxIncarnation)
	}
	all, err := v.s.look(ctx, p.index)
	if err != nil {
		return err
	}
	mark := (&committer{s: v.s, lane: sink.Lane{Bridge: v.r.Bridge, Sink: v.r.Sink}}).mark()
	if p.naming != nil {
		closed, err := v.s.closedMatch(ctx, p.index)
		if err != nil {
			return err
		}
		maps.DeleteFunc(closed, func(_ string, l live) bool { return l.Mappings.Meta[mark] == nil })
		if err := notClosed(closed); err != nil { // its rows would be called missing
			return err
		}
	}
	if len(all) == 0 {
		return configf("there is no index %s: nothing was written yet, or New names another one", p.index)
	}
	if p.naming == nil {
		if err := v.s.single(p.index, all); err != nil {
			return err
		}
	}
	v.plan = p
	v.c = &committer{s: v.s, lane: sink.Lane{Bridge: v.r.Bridge, Sink: v.r.Sink}, incarnation: v.r.Incarnation, topicIDs: make(map[string]string), metaName: append(appendString(nil, []byte(v.s.o.Meta)), ':')}
	v.c.learn(v.r.Positions)
	v.there, v.marked = make(map[string]bool), make(map[string]bool)
	for name, l := range all {
		v.there[name] = true
		if _, ok := l.Mappings.Meta[mark]; ok {
			v.marked[name] = true
		}
	}
	p.known, p.touched = make(map[string]*target), make(map[string]bool)
	for _, at := range v.r.Positions {
		v.topics[at.Topic] = true
	}
	wait := v.s.patience(firstPause)
	return wait.retry(ctx, func() (err error) {
		if err = v.s.refresh(ctx, p.index); err == nil {
			v.pit, err = v.s.openPIT(ctx, p.index) // one whose answer was lost ends by itself, see pitKeepAlive
		}
		return err
	})
}

// Cut implements [sink.View].
func (v *view) Cut() ([]changelog.Position, bool) { return v.r.Positions, false }

// Rules implements [sink.View].
func (v *view) Rules() sink.ViewRules { return sink.ViewRules{} }

// AppendKey implements [sink.View]: a row is its id, with the index before it where rows name theirs.
func (v *view) AppendKey(dst []byte, c *changelog.Change) []byte {
	if v.plan.naming != nil {
		name, err := v.plan.naming.appendName(nil, c.Row)
		if err == nil {
			dst = append(append(dst, name...), '/') // no name has one
		}
	}
	return v.s.appendID(dst, nil, v.r.Table, c)
}

// key is what AppendKey makes of the row of a document.
func (v *view) key(index, id string) string {
	if v.plan.naming == nil {
		return id
	}
	return index + "/" + id
}

// Skip implements [sink.View].
func (v *view) Skip(_ context.Context, changes []changelog.Change) error {
	for i := range changes {
		v.moving[string(v.AppendKey(nil, &changes[i]))] = struct{}{}
	}
	return nil
}

// document is one that a search or a multi get found.
type document struct {
	Index   string                     `json:"_index"`
	ID      string                     `json:"_id"`
	Found   bool                       `json:"found"` // by a multi get
	Routing string                     `json:"_routing"`
	Version int64                      `json:"_version"`
	SeqNo   int64                      `json:"_seq_no"`
	Term    int64                      `json:"_primary_term"`
	Source  map[string]json.RawMessage `json:"_source"`
	Sort    json.RawMessage            `json:"sort"`
	Error   *cause                     `json:"error"` // of a multi get
}

// seenDocument is what a view remembers of a document that differs.
type seenDocument struct {
	index       string // where rows name theirs
	id, routing string
	there       bool
	version     int64
	seq, term   int64
}

func (v *view) seen(d *document) seenDocument {
	was := seenDocument{id: d.ID, routing: d.Routing, there: true, version: d.Version, seq: d.SeqNo, term: d.Term}
	if v.plan.naming != nil {
		was.index = d.Index
	}
	return was
}

// Compare implements [sink.View].
func (v *view) Compare(ctx context.Context, changes []changelog.Change) (out []sink.Difference, err error) {
	for len(changes) > 0 {
		n := min(len(changes), viewPage/2)
		ds, err := v.comparePage(ctx, changes[:n])
		if err != nil {
			return nil, v.fail("verify", err)
		}
		out, changes = append(out, ds...), changes[n:]
	}
	return out, nil
}

func (v *view) comparePage(ctx context.Context, changes []changelog.Change) (out []sink.Difference, err error) {
	ids := make([]string, len(changes))
	for i := range changes {
		ids[i] = v.s.ID(v.r.Table, &changes[i])
	}
	values, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	// Where rows name their indexes one id may have a document in each: a tombstone where a row was before it moved, or another row.
	found := make(map[string]*document, len(ids))
	for after := ""; ; {
		docs, err := v.search(ctx, `"query":{"ids":{"values":`+string(values)+`}}`, after)
		if err != nil {
			return nil, err
		}
		for i := range docs {
			found[v.key(docs[i].Index, docs[i].ID)] = &docs[i]
		}
		if len(docs) < viewPage {
			break
		}
		after = `,"search_after":` + string(docs[len(docs)-1].Sort)
	}
	for i := range changes {
		d := sink.Difference{Change: changes[i]}
		want, refused := v.plan.appendDocument(append(v.buf[:0], '{'), changes[i].Row)
		v.buf = want
		index := ""
		if v.plan.naming != nil && refused == nil {
			name, err := v.plan.naming.appendName(nil, changes[i].Row)
			if index = string(name); err != nil {
				refused = &refusal{-1, err}
			}
		}
		doc := found[v.key(index, ids[i])]
		switch {
		case refused != nil:
			d.Kind = sink.Unwritable
		case doc == nil:
			d.Kind, d.Seen = sink.Missing, seenDocument{index: index, id: ids[i]}
		case doc.Source[DeletedField] != nil:
			d.Kind, d.Seen = sink.Missing, v.seen(doc)
		default:
			v.buf = append(v.buf, '}')
			same, err := sameMembers(v.buf, doc.Source)
			if err != nil {
				return nil, err
			}
			if same {
				continue
			}
			d.Kind, d.Seen = sink.Stale, v.seen(doc)
		}
		out = append(out, d)
	}
	return out, nil
}

// search returns documents of the point in time, at most viewPage. more are members of the request.
func (v *view) search(ctx context.Context, query, more string) ([]document, error) {
	pit, err := json.Marshal(v.pit.id)
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"size":%d,%s,"pit":{"id":%s,"keep_alive":"%s"},"sort":%s,"track_total_hits":false,"version":true,"seq_no_primary_term":true%s}`, viewPage, query, pit, pitKeepAlive, v.pit.order(), more)
	var f *found[document]
	p := v.s.patience(firstPause)
	err = p.retry(ctx, func() (err error) {
		f, err = search[document](ctx, v.s, v.plan.index, esapi.SearchRequest{Body: strings.NewReader(body)})
		return err
	})
	if err != nil {
		return nil, err
	}
	if f.PIT != "" {
		v.pit.id = f.PIT
	}
	return f.Hits.Hits, nil
}

// Extra implements [sink.View]: documents of this pass that are no tombstones, and are not expected. Documents of other topics are somebody else's.
func (v *view) Extra(ctx context.Context, pass sink.ViewPass, found func([]sink.Difference) error) error {
	after := ""
	for {
		docs, err := v.search(ctx, `"query":{"bool":{"must_not":{"exists":{"field":"`+DeletedField+`"}}}}`, fmt.Sprintf(`,"_source":[%s]%s`, appendString(nil, []byte(v.s.o.Meta)), after))
		if err != nil {
			return v.fail("verify", err)
		}
		var page []sink.Difference
		for i := range docs {
			d := &docs[i]
			key := v.key(d.Index, d.ID)
			if mine, lives := pass.Lives([]byte(key)); !mine || lives || !v.ours(d) {
				continue
			}
			if _, moves := v.moving[key]; moves {
				continue
			}
			diff := sink.Difference{Kind: sink.Extra, Seen: v.seen(d)}
			if v.r.Keys {
				diff.Key = key
			}
			page = append(page, diff)
		}
		if len(page) > 0 {
			if err := found(page); err != nil {
				return err
			}
		}
		if len(docs) < viewPage {
			return nil
		}
		after = `,"search_after":` + string(docs[len(docs)-1].Sort)
	}
}

// ours reports whether a document is of this table as far as one can tell: one without a mark of where it came from was put there by hand. A pattern that is made
// of a name with columns in it may find indexes of somebody else, too: there only what says that it is ours is.
func (v *view) ours(d *document) bool {
	if !strings.HasPrefix(d.ID, v.s.o.IDPrefix) {
		return false
	}
	strange := v.plan.naming != nil && !v.marked[d.Index]
	if strange && len(v.marked) > 0 {
		return false
	}
	var f from
	if json.Unmarshal(d.Source[v.s.o.Meta], &f) == nil {
		if at, ok := f.origin(); ok {
			return v.topics[at.topic]
		}
	}
	return !strange
}

// Close implements [sink.View].
func (v *view) Close(ctx context.Context) error { return v.s.closePIT(ctx, &v.pit) }
