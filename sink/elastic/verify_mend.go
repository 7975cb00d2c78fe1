package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/sink"
)

// Mend implements [sink.View]. Each document is written or deleted only if it still is as it was seen; its version, or its sequence number, sees to that also
// against a bridge that writes at the same moment. There is no transaction: each document is done or not, and a repeated repair does the rest.
//
// What the server cannot take now is sent again for Options.Patience. A document whose answer was lost may then be in conflict with what was written itself,
// and counts as changed since.
func (v *view) Mend(ctx context.Context, ds []sink.Difference) (m sink.Mended, err error) {
	for len(ds) > 0 {
		n := min(len(ds), viewPage)
		done, err := v.mendPage(ctx, ds[:n])
		m = m.Add(done)
		if err != nil {
			return m, v.fail("repair", err)
		}
		ds = ds[n:]
	}
	return m, nil
}

func (v *view) mendPage(ctx context.Context, ds []sink.Difference) (m sink.Mended, err error) {
	p := v.s.patience(firstPause)
	var now []document
	if err := p.retry(ctx, func() (err error) {
		now, err = v.get(ctx, ds)
		return err
	}); err != nil {
		return m, err
	}
	var items [][]byte
	var sent []*sink.Difference
	for i := range ds {
		d := &ds[i]
		was, ok := d.Seen.(seenDocument)
		switch {
		case !ok:
			return m, configf("a difference is not one of this view: a mistake of the caller")
		case now[i].Found != was.there, was.there && (now[i].SeqNo != was.seq || now[i].Term != was.term):
			m.Changed++
			continue
		}
		if was.index != "" && !v.there[was.index] { // rather than have the server guess a mapping
			if err := p.retry(ctx, func() error { return v.c.openTarget(ctx, v.plan, was.index) }); err != nil {
				return m, err
			}
			v.there[was.index], v.marked[was.index] = true, true
		}
		lines, refused := v.appendMend(nil, d, was)
		if refused != nil {
			m.Refused++
			continue
		}
		items, sent = append(items, lines), append(sent, d)
	}
	if len(sent) == 0 {
		return m, nil
	}
	var setting error
	err = p.retryBulk(ctx, v.s, "write into index "+v.plan.index, esapi.BulkRequest{Index: v.plan.path(), Pipeline: v.s.o.Pipeline}, items, func(i int, a *answer) {
		switch a.verdict() {
		case done:
			if sent[i].Kind == sink.Extra {
				m.Deleted++
			} else {
				m.Written++
			}
		case conflict:
			m.Changed++
		case refused:
			m.Refused++
		default:
			setting = configf("%w: %s", a.why(), v.plan.index)
		}
	})
	return m, worst([]error{setting, err})
}

// appendMend appends what makes one difference go away.
//
// The version is that of the bridge's own write where the document's is not above it, so that everything the bridge writes afterwards is above it too. A
// document that was edited by hand has a higher one: it is written on top of exactly what was seen, and what the bridge writes later finds out by
// the mark of where it came from that it is older (see the file conflict.go). A document that was deleted by hand leaves a version too, for a while, and in
// its place only a new one can be made. That is safe where our own deletes leave tombstones; where they do not, a conflict may be such a delete of
// ours, so the row is left alone until the server has forgotten it.
func (v *view) appendMend(dst []byte, d *sink.Difference, was seenDocument) ([]byte, error) {
	start := len(dst)
	guard := ""
	if was.there {
		guard = `,"if_seq_no":` + strconv.FormatInt(was.seq, 10) + `,"if_primary_term":` + strconv.FormatInt(was.term, 10)
	}
	if d.Kind == sink.Extra {
		dst = append(dst, `{"delete":{"_id":`...)
		dst = appendString(dst, []byte(was.id))
		dst = was.appendIndex(dst)
		if was.routing != "" {
			dst = appendString(append(dst, `,"routing":`...), []byte(was.routing))
		}
		return append(dst, guard+"}}\n"...), nil
	}
	op := "index"
	ours := version(v.r.Incarnation, d.Change.Offset)
	switch {
	case was.there && was.version > ours:
	case !was.there && v.s.o.Deletes == Tombstone:
		op = "create"
	default:
		guard = `,"version":` + strconv.FormatInt(ours, 10) + `,"version_type":"external_gte"`
	}
	dst = append(dst, `{"`+op+`":{"_id":`...)
	dst = appendString(dst, []byte(was.id))
	dst = was.appendIndex(dst)
	if v.plan.routing >= 0 {
		dst = appendRouting(append(dst, `,"routing":`...), v.plan, d.Change.Row)
	}
	dst = append(dst, guard+"}}\n{"...)
	dst, refused := v.plan.appendDocument(dst, d.Change.Row)
	if refused != nil {
		return dst[:start], refused.why
	}
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = v.c.appendMeta(dst, &d.Change)
	return append(dst, "}\n"...), nil
}

func (was *seenDocument) appendIndex(dst []byte) []byte {
	if was.index == "" {
		return dst
	}
	return appendString(append(dst, `,"_index":`...), []byte(was.index))
}

// get returns the documents as they are at this moment.
func (v *view) get(ctx context.Context, ds []sink.Difference) ([]document, error) {
	type one struct {
		Index   string `json:"_index,omitempty"`
		ID      string `json:"_id"`
		Routing string `json:"routing,omitempty"`
	}
	var ask struct {
		Docs []one `json:"docs"`
	}
	for i := range ds {
		was, _ := ds[i].Seen.(seenDocument)
		o := one{Index: was.index, ID: was.id, Routing: was.routing}
		if o.Routing == "" && v.plan.routing >= 0 && ds[i].Kind != sink.Extra {
			_ = json.Unmarshal(appendRouting(nil, v.plan, ds[i].Change.Row), &o.Routing)
		}
		ask.Docs = append(ask.Docs, o)
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, v.s.o.RequestTimeout)
	defer cancel()
	yes := true
	res, err := esapi.MgetRequest{Index: v.plan.path(), Body: bytes.NewReader(body), Realtime: &yes, Source: []string{"false"}}.Do(ctx, v.s.client)
	if err != nil {
		return nil, transientf("%w", hide(err))
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return nil, refusedCall("read documents of index "+v.plan.index, res)
	}
	var answer struct {
		Docs []document `json:"docs"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer); err != nil {
		return nil, transientf("the answer to a request for documents cannot be read: %w", withoutText(err))
	}
	if len(answer.Docs) != len(ds) {
		return nil, transientf("the answer to a request for documents holds %d of %d", len(answer.Docs), len(ds))
	}
	for i := range answer.Docs {
		if e := answer.Docs[i].Error; e != nil && e.Type != indexNotFound {
			return nil, transientf("a document of index %s cannot be read%s", v.plan.index, e.text())
		}
	}
	return answer.Docs, nil
}
