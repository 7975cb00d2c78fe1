package elastic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestServer_Answers runs one list of calls against the stand-in and the real server, so that what the stand-in answers is what
// Elasticsearch answers.
func TestServer_Answers(t *testing.T) {
	const external = `,"version_type":"external_gte"`
	item := func(op, id, more string) string {
		line := fmt.Sprintf(`{%q:{"_id":%q%s}}`+"\n", op, id, more)
		if op != "delete" {
			line += `{"n":1}` + "\n"
		}
		return line
	}
	v := func(n int) string { return fmt.Sprintf(`,"version":%d`, n) }
	type step struct {
		call    string // method and path below the index; "" is POST _bulk
		body    string
		status  int
		item    int    // status of the bulk's only item, 0: not looked at
		typ     string // of the error, of the whole or of the item; several that are accepted are separated by |
		version int64  // of the item
	}
	parsing := "document_parsing_exception|mapper_parsing_exception"
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"a version that is equal passes", []step{
			{body: item("index", "1", v(5)+external), status: 200, item: 201, version: 5},
			{body: item("index", "1", v(5)+external), status: 200, item: 200, version: 5},
			{body: item("index", "1", v(4)+external), status: 200, item: 409, typ: "version_conflict_engine_exception"},
			{body: item("index", "1", v(6)+external), status: 200, item: 200, version: 6},
		}},
		{"with external it does not", []step{
			{body: item("index", "1", v(5)+`,"version_type":"external"`), status: 200, item: 201},
			{body: item("index", "1", v(5)+`,"version_type":"external"`), status: 200, item: 409, typ: "version_conflict_engine_exception"},
		}},
		{"the version of a deleted document is known", []step{
			{body: item("index", "1", v(5)+external), status: 200, item: 201},
			{body: item("delete", "1", v(7)+external), status: 200, item: 200},
			{body: item("index", "1", v(6)+external), status: 200, item: 409, typ: "version_conflict_engine_exception"},
			{body: item("delete", "1", v(7)+external), status: 200, item: 404},
			{body: item("delete", "1", v(6)+external), status: 200, item: 409, typ: "version_conflict_engine_exception"},
			{body: item("index", "1", v(8)+external), status: 200, item: 201},
		}},
		{"also of one that never was", []step{
			{body: item("delete", "1", v(7)+external), status: 200, item: 404},
			{body: item("index", "1", v(6)+external), status: 200, item: 409, typ: "version_conflict_engine_exception"},
		}},
		{"a closed index forgets it", []step{
			{body: item("index", "1", v(5)+external), status: 200, item: 201},
			{body: item("delete", "1", v(7)+external), status: 200, item: 200},
			{call: "POST _close", status: 200},
			{body: item("index", "1", v(6)+external), status: 200, item: 400, typ: "index_closed_exception"},
			{call: "POST _open", status: 200},
			{call: "WAIT", status: 200},
			{body: item("index", "1", v(6)+external), status: 200, item: 201},
		}},
		{"a hand that edits raises the version by one", []step{
			{body: item("index", "1", v(5)+external), status: 200, item: 201},
			{call: "PUT _doc/1", body: `{"n":2}`, status: 200},
			{body: item("index", "1", v(5)+external), status: 200, item: 409, typ: "version_conflict_engine_exception"},
			{body: item("index", "1", v(6)+external), status: 200, item: 200, version: 6},
		}},
		{"a hand that deletes does too", []step{
			{body: item("index", "1", v(5)+external), status: 200, item: 201},
			{call: "DELETE _doc/1", status: 200},
			{body: item("index", "1", v(5)+external), status: 200, item: 409, typ: "version_conflict_engine_exception"},
			{call: "PUT _doc/1?op_type=create", body: `{"n":2}`, status: 201},
		}},
		{"create", []step{
			{body: item("create", "1", ""), status: 200, item: 201, version: 1},
			{body: item("create", "1", ""), status: 200, item: 409, typ: "version_conflict_engine_exception"},
			{body: item("create", "2", v(1)+external), status: 400, typ: "action_request_validation_exception"},
		}},
		{"sequence numbers", []step{
			{body: item("index", "1", ""), status: 200, item: 201},
			{body: item("index", "1", `,"if_seq_no":99,"if_primary_term":1`), status: 200, item: 409, typ: "version_conflict_engine_exception"},
			{body: item("index", "1", v(5)+external+`,"if_seq_no":0,"if_primary_term":1`), status: 400, typ: "action_request_validation_exception"},
		}},
		{"ids", []step{
			{body: item("index", strings.Repeat("i", 512), v(1)+external), status: 200, item: 201},
			{body: item("index", strings.Repeat("i", 513), v(1)+external) + item("index", "good", v(1)+external), status: 400, typ: "action_request_validation_exception"},
			{call: "GET _doc/good", status: 404},
			{body: item("index", "", v(1)+external), status: 200, item: 400, typ: "illegal_argument_exception"},
		}},
		{"largest version", []step{
			{body: item("index", "1", `,"version":9223372036854775807`+external), status: 200, item: 201, version: 9223372036854775807},
			{body: item("index", "2", `,"version":0`+external), status: 200, item: 201},
			{body: item("index", "3", `,"version":-1`+external), status: 400, typ: "action_request_validation_exception"},
		}},
		{"strict mapping", []step{
			{call: "PUT _mapping", body: `{"dynamic":"strict"}`, status: 200},
			{body: `{"index":{"_id":"1"}}` + "\n" + `{"other":1}` + "\n", status: 200, item: 400, typ: "strict_dynamic_mapping_exception"},
			{body: `{"index":{"_id":"1"}}` + "\n" + `{"n":"x"}` + "\n", status: 200, item: 400, typ: parsing},
			{body: `{"index":{"_id":"1"}}` + "\n" + `{"n":1` + "\n", status: 200, item: 400, typ: parsing},
			{body: `{"index":{"_id":"1"}}` + "\n" + `{"n":{"m":1}}` + "\n", status: 200, item: 400, typ: parsing},
			{body: `{"index":{"_id":"1"}}` + "\n" + `{"f":"NaN"}` + "\n", status: 200, item: 201},
		}},
		{"whole requests", []step{
			{body: `{"index":{"_id":"1"}}` + "\n" + `{"n":1}`, status: 400, typ: "illegal_argument_exception"},
			{body: `{"replace":{"_id":"1"}}` + "\n", status: 400, typ: "illegal_argument_exception|action_request_validation_exception"},
			{body: `{"index":{"_id":"1","colour":"red"}}` + "\n" + `{"n":1}` + "\n", status: 400, typ: "illegal_argument_exception"},
		}},
		{"no writes", []step{
			{call: "PUT _settings", body: `{"index.blocks.write":true}`, status: 200},
			{body: item("index", "1", ""), status: 200, item: 403, typ: "cluster_block_exception"},
		}},
		{"mget", []step{
			{body: item("index", "1", v(5)+external), status: 200, item: 201},
			{call: "POST _mget", body: `{"docs":[{"_id":"1"},{"_id":"2"}]}`, status: 200},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *server) {
				index := s.prefix + "-cases"
				s.must("PUT", "/"+index, `{"mappings":{"properties":{"n":{"type":"long"},"f":{"type":"float","ignore_malformed":true}}}}`)
				for i, st := range c.steps {
					method, path := "POST", "_bulk"
					if st.call == "WAIT" {
						waitReady(t, s, index)
						continue
					}
					if st.call != "" {
						method, path, _ = strings.Cut(st.call, " ")
					}
					status, body := s.call(method, "/"+index+"/"+path, st.body)
					var a struct {
						Error struct{ Type string }
						Items []map[string]struct {
							Status  int
							Version int64 `json:"_version"`
							Error   struct{ Type string }
						}
					}
					if err := json.Unmarshal([]byte(body), &a); err != nil {
						t.Fatalf("step %d: %v: %s", i, err, body)
					}
					if status != st.status {
						t.Fatalf("step %d: status %d, expected %d: %s", i, status, st.status, body)
					}
					typ := a.Error.Type
					for _, one := range a.Items {
						for _, r := range one {
							typ = r.Error.Type
							if st.item != 0 && r.Status != st.item {
								t.Fatalf("step %d: item's status %d, expected %d: %s", i, r.Status, st.item, body)
							}
							if st.version != 0 && r.Version != st.version {
								t.Fatalf("step %d: version %d, expected %d", i, r.Version, st.version)
							}
						}
					}
					if st.typ != "" && !strings.Contains("|"+st.typ+"|", "|"+typ+"|") {
						t.Fatalf("step %d: error type %q, expected %s: %s", i, typ, st.typ, body)
					}
				}
			})
		})
	}
}

// waitReady waits until the index's shard has started again.
func waitReady(t *testing.T, s *server, index string) {
	if !s.real {
		return
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if status, _ := s.call("POST", "/"+index+"/_refresh", ""); status == 200 {
			if status, _ := s.call("GET", "/"+index+"/_doc/none", ""); status == 404 {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the index does not come back")
		}
		time.Sleep(20 * time.Millisecond)
	}
}
