package elastictest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// index is one index, of one shard.
type index struct {
	name     string
	uuid     string
	gc       string
	mapping  field
	aliases  map[string]json.RawMessage
	docs     map[string]*document
	deleted  map[string]int64 // versions that are still known
	seq      int
	closed   bool
	readOnly bool
}

type document struct {
	source  json.RawMessage
	version int64
	seq     int
}

// action is one write.
type action struct {
	op      string // index, create, delete
	id      string
	version *int64
	typ     string // version_type
	ifSeq   *int
	ifTerm  *int
	source  json.RawMessage
}

// result is what became of one.
type result struct {
	status  int
	result  string
	version int64
	seq     int
}

const maxID = 512

// invalid returns what makes the server refuse a request as a whole.
func (a *action) invalid() *problem {
	bad := func(format string, args ...any) *problem {
		return &problem{status: 400, typ: "action_request_validation_exception", reason: "Validation Failed: 1: " + fmt.Sprintf(format, args...) + ";"}
	}
	external := a.typ == "external" || a.typ == "external_gte"
	switch {
	case len(a.id) > maxID:
		return bad("id [%s] is too long, must be no longer than 512 bytes but was: %d", a.id, len(a.id))
	case a.op == "create" && external:
		return bad("create operations only support internal versioning. use index instead")
	case a.version != nil && !external:
		return bad("internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and `if_primary_term` instead")
	case a.version != nil && *a.version < 0:
		return bad("illegal version value [%d] for version type [EXTERNAL]", *a.version)
	case a.version != nil && a.ifSeq != nil:
		return bad("compare and write operations can not use versioning")
	}
	return nil
}

// do performs a write.
func (x *index) do(a *action) (result, *problem) {
	conflict := func(now int64) *problem {
		return &problem{status: 409, typ: "version_conflict_engine_exception", reason: fmt.Sprintf("[%s]: version conflict, current version [%d] is higher or equal to the one provided", a.id, now)}
	}
	switch {
	case x.closed:
		return result{}, &problem{status: 400, typ: "index_closed_exception", reason: "closed"}
	case x.readOnly:
		return result{}, &problem{status: 403, typ: "cluster_block_exception", reason: "index [" + x.name + "] blocked by: [FORBIDDEN/8/index write (api)];"}
	case a.id == "":
		return result{}, &problem{status: 400, typ: "illegal_argument_exception", reason: "if _id is specified it must not be empty"}
	}
	old := x.docs[a.id]
	known, version := old != nil, int64(-1)
	if old != nil {
		version = old.version
	} else if v, ok := x.deleted[a.id]; ok {
		known, version = true, v
	}
	next := version + 1
	if !known {
		next = 1
	}
	switch {
	case a.op == "create" && old != nil:
		return result{}, conflict(version)
	case a.ifSeq != nil && (old == nil || old.seq != *a.ifSeq || *a.ifTerm != 1):
		return result{}, conflict(version)
	case a.version != nil:
		if known && (*a.version < version || *a.version == version && a.typ == "external") {
			return result{}, conflict(version)
		}
		next = *a.version
	}
	if a.op == "delete" {
		x.seq++
		delete(x.docs, a.id)
		x.deleted[a.id] = next
		if old == nil {
			return result{404, "not_found", next, x.seq}, nil
		}
		return result{200, "deleted", next, x.seq}, nil
	}
	var doc map[string]any
	d := json.NewDecoder(bytes.NewReader(a.source))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		return result{}, &problem{status: 400, typ: "document_parsing_exception", reason: "[1:1] failed to parse"}
	}
	if p := x.mapping.check("", doc); p != nil {
		return result{}, p
	}
	x.seq++
	x.docs[a.id] = &document{source: append(json.RawMessage(nil), a.source...), version: next, seq: x.seq}
	delete(x.deleted, a.id)
	if old == nil {
		return result{201, "created", next, x.seq}, nil
	}
	return result{200, "updated", next, x.seq}, nil
}

// single serves a write of one document.
func (x *index) single(r *http.Request, call, id string, body []byte) (any, int, *problem) {
	q := r.URL.Query()
	a := &action{op: "index", id: id, typ: q.Get("version_type"), source: body}
	switch {
	case r.Method == http.MethodDelete:
		a.op = "delete"
	case r.Method == http.MethodGet:
		return nil, 0, noHandler(r)
	case call == "_create" || q.Get("op_type") == "create":
		a.op = "create"
	}
	if v, err := strconv.ParseInt(q.Get("version"), 10, 64); err == nil {
		a.version = &v
	}
	if n, err := strconv.Atoi(q.Get("if_seq_no")); err == nil {
		a.ifSeq = &n
	}
	if n, err := strconv.Atoi(q.Get("if_primary_term")); err == nil {
		a.ifTerm = &n
	}
	if p := a.invalid(); p != nil {
		return nil, 0, p
	}
	res, p := x.do(a)
	return x.item(id, res), res.status, p
}

func (x *index) item(id string, r result) map[string]any {
	return map[string]any{"_index": x.name, "_id": id, "_version": r.version, "result": r.result, "_seq_no": r.seq, "_primary_term": 1, "status": r.status}
}

func (x *index) get(id string) (any, int, *problem) {
	d := x.docs[id]
	if d == nil {
		return map[string]any{"_index": x.name, "_id": id, "found": false}, 404, nil
	}
	return map[string]any{"_index": x.name, "_id": id, "_version": d.version, "_seq_no": d.seq, "_primary_term": 1, "found": true, "_source": d.source}, 200, nil
}

// mget serves _mget. Each document may name its index.
func (s *Server) mget(name string, r *http.Request, body []byte) (any, int, *problem) {
	var ask struct {
		Docs []struct {
			Index string `json:"_index"`
			ID    string `json:"_id"`
		} `json:"docs"`
	}
	if json.Unmarshal(body, &ask) != nil {
		return nil, 0, &problem{status: 400, typ: "parse_exception", reason: "unexpected"}
	}
	only := r.URL.Query().Get("_source_includes")
	docs := []any{}
	for _, d := range ask.Docs {
		if d.Index == "" {
			d.Index = name
		}
		x, p := s.find(d.Index)
		if p != nil {
			docs = append(docs, map[string]any{"_index": d.Index, "_id": d.ID, "error": p.cause()})
			continue
		}
		answer, _, _ := x.get(d.ID)
		m := answer.(map[string]any)
		if src, ok := m["_source"].(json.RawMessage); ok && only != "" {
			var all map[string]json.RawMessage
			_ = json.Unmarshal(src, &all)
			part := map[string]json.RawMessage{}
			if v, ok := all[only]; ok {
				part[only] = v
			}
			m["_source"] = part
		}
		docs = append(docs, m)
	}
	return map[string]any{"docs": docs}, 200, nil
}
