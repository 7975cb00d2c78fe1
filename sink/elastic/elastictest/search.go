package elastictest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// query is what a search may ask for.
type query struct {
	Bool struct {
		MustNot struct {
			Exists struct {
				Field string `json:"field"`
			} `json:"exists"`
		} `json:"must_not"`
	} `json:"bool"`
	Range map[string]struct {
		LT string `json:"lt"`
	} `json:"range"`
	Term map[string]string `json:"term"`
	IDs  struct {
		Values []string `json:"values"`
	} `json:"ids"`
}

func (q *query) matches(id string, source json.RawMessage) bool {
	if q.IDs.Values != nil && !slices.Contains(q.IDs.Values, id) {
		return false
	}
	f := q.Bool.MustNot.Exists.Field
	// Most documents lack the field, which is seen without reading them.
	if len(q.Range) == 0 && len(q.Term) == 0 && (f == "" || !bytes.Contains(source, []byte(`"`+f+`"`))) {
		return true
	}
	var doc map[string]any
	if json.Unmarshal(source, &doc) != nil {
		return false
	}
	if f != "" && doc[f] != nil {
		return false
	}
	for f, text := range q.Term {
		if doc[f] != text {
			return false
		}
	}
	for f, r := range q.Range {
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(doc[f]))
		limit, err2 := time.Parse(time.RFC3339Nano, r.LT)
		if err != nil || err2 != nil || !at.Before(limit) {
			return false
		}
	}
	return true
}

// search serves a search, over an index or a point in time. The order is that of ids, or of
// fields that hold numbers or texts, up or down.
func (s *Server) search(r *http.Request, name string, body []byte) (any, int, *problem) {
	var ask struct {
		Size  int   `json:"size"`
		Query query `json:"query"`
		PIT   struct {
			ID string `json:"id"`
		} `json:"pit"`
		After  []int            `json:"search_after"`
		From   int              `json:"from"`
		Sort   []map[string]any `json:"sort"`
		Source []string         `json:"_source"`
	}
	if err := json.Unmarshal(body, &ask); err != nil {
		return nil, 0, &problem{status: 400, typ: "parsing_exception", reason: err.Error()}
	}
	var searched []*index
	if ask.PIT.ID == "" {
		for _, n := range s.names(name) {
			x, p := s.find(n)
			if p != nil {
				return nil, 0, p
			}
			searched = append(searched, x)
		}
	} else {
		var ok bool
		if searched, ok = s.pits[ask.PIT.ID]; !ok {
			return nil, 0, &problem{status: 404, typ: "search_context_missing_exception", reason: fmt.Sprintf("No search context found for id [%s]", ask.PIT.ID)}
		}
	}
	from := ask.From
	if len(ask.After) > 0 {
		from = ask.After[0] + 1
	}
	if n, err := strconv.Atoi(r.URL.Query().Get("size")); err == nil {
		ask.Size = n
	}
	if ask.Size == 0 {
		ask.Size = 10
	}
	type found struct {
		x  *index
		id string
		by []any
	}
	var all []found
	for _, x := range searched {
		filter := x.filter(name)
		for _, id := range slices.Sorted(maps.Keys(x.docs)) {
			d := x.docs[id]
			if !ask.Query.matches(id, d.source) || !filter.matches(id, d.source) {
				continue
			}
			f := found{x: x, id: id}
			for _, by := range ask.Sort {
				for field := range by {
					f.by = append(f.by, member(d.source, field))
				}
			}
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b found) int {
		for i, by := range ask.Sort {
			if order := inOrder(a.by[i], b.by[i]); order != 0 {
				for _, how := range by {
					if how == "desc" {
						order = -order
					}
				}
				return order
			}
		}
		return 0
	})
	hits := []any{}
	for n := from; n < len(all) && len(hits) < ask.Size; n++ {
		x, id := all[n].x, all[n].id
		d := x.docs[id]
		hits = append(hits, map[string]any{"_index": x.name, "_id": id, "_version": d.version, "_seq_no": d.seq, "_primary_term": 1, "_source": only(d.source, ask.Source), "sort": []int{n}})
	}
	n := len(all)
	return map[string]any{"pit_id": ask.PIT.ID, "hits": map[string]any{"total": map[string]any{"value": n, "relation": "eq"}, "hits": hits}}, 200, nil
}

// member is the value of a field of a document; nil: none, as of _shard_doc.
func member(source json.RawMessage, field string) any {
	if field == "_shard_doc" {
		return nil
	}
	var doc map[string]any
	_ = json.Unmarshal(source, &doc)
	return doc[field]
}

// inOrder compares two values of one field, which are numbers, or texts (a time is one too). What is neither comes first.
func inOrder(a, b any) int {
	x, _ := a.(float64)
	y, _ := b.(float64)
	s, _ := a.(string)
	t, _ := b.(string)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(s, t))
}

// filter is that of an alias.
func (x *index) filter(alias string) *query {
	var a struct {
		Filter query `json:"filter"`
	}
	_ = json.Unmarshal(x.aliases[strings.TrimSpace(alias)], &a)
	return &a.Filter
}

// only keeps some members of a source; none named: all.
func only(source json.RawMessage, names []string) json.RawMessage {
	if names == nil {
		return source
	}
	var all map[string]json.RawMessage
	_ = json.Unmarshal(source, &all)
	part := make(map[string]json.RawMessage)
	for _, n := range names {
		if v, ok := all[n]; ok {
			part[n] = v
		}
	}
	out, _ := json.Marshal(part)
	return out
}
