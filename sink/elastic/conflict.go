package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/sink"
)

// This file finds out what a conflict (409) stands for.
//
// The usual one: the document is ours and newer, because a change is read again after a crash, or because a successor is ahead. Then the change is
// superseded. But a version may also be somebody else's: of another topic or cluster, or raised by a hand that edited or deleted the
// document. Such a change must not be passed over as applied while the positions move on. So the documents are looked at.

// existing is what a document says of itself.
type existing struct {
	Found   bool            `json:"found"`
	Version int64           `json:"_version"`
	SeqNo   *int64          `json:"_seq_no"`
	Term    *int64          `json:"_primary_term"`
	Source  map[string]from `json:"_source"`
	Error   *cause          `json:"error"`
}

// resolve settles the items that met a conflict.
func (d *delivery) resolve(ctx context.Context, buf []byte, items []item, conflicts []int) error {
	c := d.p.c
	if c.s.o.DataStream {
		// The id names the change, and only a create of that id conflicts: it was applied before.
		d.p.superseded += int64(len(conflicts))
		return nil
	}
	var body bytes.Buffer
	body.WriteString(`{"docs":[`)
	for i, n := range conflicts {
		if i > 0 {
			body.WriteByte(',')
		}
		it := &items[n]
		fmt.Fprintf(&body, `{"_id":"%s"`, buf[it.idStart:it.idEnd])
		if it.into != "" {
			body.WriteString(`,"_index":`)
			body.Write(appendString(nil, []byte(it.into)))
		}
		if r := routingOf(buf, it); r != nil {
			fmt.Fprintf(&body, `,"routing":%s`, r)
		}
		body.WriteByte('}')
	}
	body.WriteString(`]}`)
	found, err := c.s.get(ctx, d.plan.path(), body.Bytes(), len(conflicts))
	if err != nil {
		return err
	}
	for i, n := range conflicts {
		if err := d.judge(ctx, buf, &items[n], &found[i]); err != nil {
			return err
		}
	}
	return nil
}

// routingOf returns the routing that stands in the item's first line, as JSON.
func routingOf(buf []byte, it *item) []byte {
	var line struct {
		Index, Delete struct {
			Routing json.RawMessage `json:"routing"`
		}
	}
	if !bytes.Contains(buf[it.idEnd:it.document], []byte(`,"routing":`)) || json.Unmarshal(buf[it.start:it.document], &line) != nil {
		return nil
	}
	if it.delete {
		return line.Delete.Routing
	}
	return line.Index.Routing
}

func (d *delivery) judge(ctx context.Context, buf []byte, it *item, e *existing) error {
	c := d.p.c
	ours := version(c.incarnation, it.offset)
	m, ok := e.Source[c.s.o.Meta].origin()
	switch {
	case e.Error != nil:
		return transientf("a document of index %s that met a version conflict cannot be read%s", d.plan.index, e.Error.text())
	case !e.Found && c.s.o.Deletes == Tombstone:
		// Our own deletes leave a document, so somebody deleted this one by hand, and the server still knows the version of that.
		return d.write(ctx, buf, it, e)
	case !e.Found:
		// Our own delete, most likely, and the change is older. A delete by hand looks the same.
		d.passOver(it)
	case !ok:
		d.refused = append(d.refused, it.rejection(fmt.Errorf("the document has version %d and was written by something else, this change has version %s: take the "+
			"document away, or write into another index", e.Version, versionText(ours))))
	case m.topic != it.Topic || m.partition != it.Partition.Partition:
		return configf("index %s holds a document of %s/%d with version %s, this change of %s has version %s: offsets of two partitions do not compare. Write into another index, or raise the "+
			"incarnation and read the topic again", d.plan.index, m.topic, m.partition, versionText(e.Version), it.Partition, versionText(ours))
	case version(m.incarnation, m.offset) >= ours:
		if m.topicID != "" {
			if d.p.topics == nil {
				d.p.topics = make(map[string]string)
			}
			d.p.topics[it.Topic] = m.topicID
		}
		d.passOver(it)
	default:
		// The document is older than the change, and yet its version is higher: somebody wrote to it and left the rest as it was.
		if e.SeqNo == nil || e.Term == nil {
			return transientf("a document of index %s has no sequence number", d.plan.index)
		}
		return d.write(ctx, buf, it, e)
	}
	return nil
}

// passOver counts a change that was not written, since something newer is there.
func (d *delivery) passOver(it *item) {
	if !it.extra {
		d.p.superseded++
	}
}

// write writes one change on top of exactly the document that was looked at, or where there was none. If that is not so any more, the checkpoint is
// done again. A write that arrives late, after its sender gave up, is refused by the same condition: so of two changes that are both newer than the
// document only one gets through, and the other is judged again by what the first left.
//
// It is a bulk of one item, since an id may hold any sign and a path may not.
func (d *delivery) write(ctx context.Context, buf []byte, it *item, e *existing) error {
	op, condition := "create", ""
	if e.Found {
		op, condition = "index", fmt.Sprintf(`,"if_seq_no":%d,"if_primary_term":%d`, *e.SeqNo, *e.Term)
		if it.delete {
			op = "delete"
		}
	}
	body := fmt.Appendf(nil, `{"%s":{"_id":"%s"`, op, buf[it.idStart:it.idEnd])
	if it.into != "" {
		body = appendString(append(body, `,"_index":`...), []byte(it.into))
	}
	if r := routingOf(buf, it); r != nil {
		body = append(append(body, `,"routing":`...), r...)
	}
	body = append(append(body, condition...), "}}\n"...)
	body = append(body, buf[it.document:it.end]...)
	answers, whole := d.request(ctx, body, 1)
	if whole != nil {
		if whole.halve {
			d.refused = append(d.refused, it.rejection(whole.why))
			return nil
		}
		return &sink.Error{Class: whole.class, Err: whole.why}
	}
	switch a := &answers[0]; a.verdict() {
	case done:
	case refused:
		d.refused = append(d.refused, it.rejection(a.why()))
	case wrong:
		return configf("%w: %s", a.why(), d.plan.index)
	default:
		return transientf("a document of index %s that something else had changed cannot be written: %w", d.plan.index, a.why())
	}
	return nil
}

// get reads documents, without what they hold beside Meta.
func (s *Sink) get(ctx context.Context, index string, body []byte, n int) ([]existing, error) { // index "": each document names its own
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	yes := true
	res, err := esapi.MgetRequest{Index: index, Body: bytes.NewReader(body), Realtime: &yes, SourceIncludes: []string{s.o.Meta}}.Do(ctx, s.client)
	if err != nil {
		return nil, lost(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return nil, refusedCall("read documents of index "+index, res)
	}
	var answer struct {
		Docs []existing `json:"docs"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer); err != nil {
		return nil, transientf("the answer to a request for documents cannot be read: %w", withoutText(err))
	}
	if len(answer.Docs) != n {
		return nil, transientf("the answer to a request for documents holds %d of %d", len(answer.Docs), n)
	}
	return answer.Docs, nil
}

// foreignTopic compares the topic ids that newer documents named with those that are being read: a document of another topic of the same
// name is no evidence that a change was applied.
func (c *committer) foreignTopic(seen map[string]string) error {
	for topic, id := range seen {
		if mine := c.topicIDs[topic]; mine != "" && mine != id {
			return &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf("the index holds newer documents of another topic %s (id %s), while the one that is read has id %s: the topic was made anew, or is "+
				"another cluster's. Write into another index, or raise the incarnation so that its offsets win", topic, id, mine)}
		}
	}
	return nil
}
