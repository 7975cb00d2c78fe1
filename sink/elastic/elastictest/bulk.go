package elastictest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// bulk serves _bulk.
func (s *Server) bulk(r *http.Request, name string, body []byte, fault *Fault) (any, int, *problem) {
	whole := func(reason string) (any, int, *problem) {
		return nil, 0, &problem{status: 400, typ: "illegal_argument_exception", reason: reason}
	}
	switch {
	case len(body) == 0:
		return nil, 0, &problem{status: 400, typ: "parse_exception", reason: "request body is required"}
	case body[len(body)-1] != '\n':
		return whole("The bulk request must be terminated by a newline [\\n]")
	}
	type entry struct {
		action
		index string
	}
	var entries []entry
	lines := bytes.Split(body[:len(body)-1], []byte("\n"))
	for i := 0; i < len(lines); i++ {
		var head map[string]struct {
			Index       string  `json:"_index"`
			ID          *string `json:"_id"`
			Version     *int64  `json:"version"`
			VersionType string  `json:"version_type"`
			IfSeq       *int    `json:"if_seq_no"`
			IfTerm      *int    `json:"if_primary_term"`
			Routing     any     `json:"routing"`
		}
		d := json.NewDecoder(bytes.NewReader(lines[i]))
		d.DisallowUnknownFields()
		if err := d.Decode(&head); err != nil || len(head) != 1 {
			return whole("Action/metadata line [" + strings.TrimSpace(string(lines[i])) + "] cannot be read")
		}
		for op, h := range head {
			e := entry{index: h.Index, action: action{op: op, version: h.Version, typ: h.VersionType, ifSeq: h.IfSeq, ifTerm: h.IfTerm}}
			if h.ID != nil {
				e.id = *h.ID
			}
			if e.index == "" {
				e.index = name
			}
			switch op {
			case "index", "create":
				i++
				if i >= len(lines) {
					return whole("Malformed action/metadata line")
				}
				e.source = lines[i]
			case "delete":
			case "update":
				return whole("update requests are not known here")
			default:
				return whole("Malformed action/metadata line, expected one of [create, delete, index, update] but found [" + op + "]")
			}
			entries = append(entries, e)
		}
	}
	for i := range entries {
		if p := entries[i].invalid(); p != nil {
			return nil, 0, p
		}
	}
	errors := false
	items := make([]any, len(entries))
	for i := range entries {
		e := &entries[i]
		x, p := s.find(e.index)
		if p != nil && e.index == strings.ToLower(e.index) {
			x, p = s.newIndex(e.index), nil // action.auto_create_index
			s.indices[e.index] = x
		}
		var res result
		if p == nil && fault.Item != nil {
			p = injected(fault.Item(i))
		}
		if p == nil {
			res, p = x.do(&e.action)
		}
		item := map[string]any{"_index": e.index, "_id": e.id}
		if p != nil {
			errors = true
			item["status"], item["error"] = p.status, p.cause()
		} else {
			item = x.item(e.id, res)
		}
		items[i] = map[string]any{e.op: item}
	}
	return map[string]any{"took": 0, "errors": errors, "items": items}, http.StatusOK, nil
}

func injected(status int) *problem {
	switch status {
	case 0:
		return nil
	case 429:
		return &problem{status: 429, typ: "es_rejected_execution_exception", reason: "rejected execution of primary operation"}
	case 503:
		return &problem{status: 503, typ: "unavailable_shards_exception", reason: "primary shard is not active"}
	case 500:
		return &problem{status: 500, typ: "retry_on_primary_exception", reason: "shard is not in primary mode"}
	}
	return &problem{status: status, typ: "illegal_argument_exception", reason: "injected"}
}
