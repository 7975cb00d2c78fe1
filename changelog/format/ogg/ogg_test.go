package ogg

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
)

func TestNewDecoder_Refuses(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		columns []string
		want    string // in the error; "" for none
	}{
		{map[string]string{"ignore-parse-errors": "true", "timestamp-format.standard": "ISO-8601", "map-null-key.mode": "DROP", "map-null-key.literal": "x",
			"encode.decimal-as-plain-number": "true", "encode.ignore-null-fields": "true"}, []string{"a INT"}, ""},
		{map[string]string{"schema-include": "true"}, []string{"a INT"}, "ogg-json: unknown option 'schema-include'"},
		{nil, []string{"a MAP<INT, INT>"}, "column a"},
		{nil, []string{"a INT", "m STRING FROM value.pos"}, "no metadata 'pos'; it has table STRING, primary-keys ARRAY<STRING>, ingestion-timestamp TIMESTAMP_LTZ(6)"},
		{nil, []string{"a INT", "m STRING FROM value.event-timestamp"}, "must be declared TIMESTAMP_LTZ(6)"},
	} {
		_, err := Format{}.NewDecoder(formattest.Payload(t, c.options, nil, c.columns...))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %v: error %v, want %q in it", c.options, c.columns, err, c.want)
		}
	}
}

func TestEncode_Kinds(t *testing.T) {
	for _, c := range []struct {
		ignoreNulls string
		kind        changelog.Kind
		want        string
	}{
		{"false", changelog.Insert, `{"before":null,"after":{"id":1,"name":null},"op_type":"I"}`},
		{"false", changelog.UpdateAfter, `{"before":null,"after":{"id":1,"name":null},"op_type":"I"}`},
		{"false", changelog.UpdateBefore, `{"before":{"id":1,"name":null},"after":null,"op_type":"D"}`},
		{"true", changelog.UpdateAfter, `{"after":{"id":1},"op_type":"I"}`},
		{"true", changelog.Delete, `{"before":{"id":1},"op_type":"D"}`},
	} {
		e, err := Format{}.NewEncoder(formattest.Payload(t, map[string]string{"encode.ignore-null-fields": c.ignoreNulls}, nil, "id INT", "name STRING"))
		if err != nil {
			t.Fatal(err)
		}
		got, null, err := e.AppendPayload([]byte("x"), &changelog.Change{Kind: c.kind, Row: changelog.Row{changelog.IntValue(1), {}}})
		if err != nil || null || string(got) != "x"+c.want {
			t.Errorf("%s: %s, %v, %v", c.kind, got, null, err)
		}
	}
	if _, err := (Format{}).NewEncoder(formattest.Payload(t, nil, nil, "a MAP<INT, INT>")); err == nil {
		t.Error("an encoder for a map of numbers")
	}
}

// What Flink answered is checked where records are assembled; here is what a PRIMARY KEY changes, and what is stricter.
func TestDecode_Partial(t *testing.T) {
	columns := []string{"id INT", "name STRING", "n INT"}
	formattest.Check(t, Format{}, formattest.Payload(t, nil, []int{0}, columns...), formattest.Messages{
		{`{"before":{"id":1,"name":"a","n":7},"after":{"id":1,"n":8},"op_type":"U"}`, `-U {"id":"1","name":"a","n":"7"} +U {"id":"1","name":"a","n":"8"}`},
		{`{"before":{"id":1,"name":"a","n":7},"after":{"id":1,"name":null,"n":8},"op_type":"U"}`, `-U {"id":"1","name":"a","n":"7"} +U {"id":"1","name":null,"n":"8"}`},
		{`{"before":{"id":1},"after":{"id":1,"n":8},"op_type":"U"}`, `-U key {"id":"1","name":null,"n":null} +U {"id":"1","n":"8"}`},
		{`{"before":{"id":1},"op_type":"D"}`, `-D key {"id":"1","name":null,"n":null}`},
		{`{"before":{"id":1,"n":7},"op_type":"D"}`, `-D {"id":"1","n":"7"}`},
		{`{"after":{"id":1},"op_type":"I"}`, `+I {"id":"1","name":null,"n":null}`},
	})
	unkeyed := formattest.Payload(t, nil, nil, columns...)
	formattest.Check(t, Format{}, unkeyed, formattest.Messages{
		{`{"before":{"id":1,"name":"a","n":7},"after":{"id":1,"n":8},"op_type":"U"}`, "field after.name: the new row lacks this column, and Flink would read NULL"},
		{`{"before":{"id":1,"name":"a"},"op_type":"D"}`, "field before.n: the old row lacks this column"},
		{`{"after":{"id":1},"op_type":"U"}`, "REPLICA IDENTITY"},
		{`{"after":{"id":1},"op_type":"D"}`, "REPLICA IDENTITY"},
		{`{"before":{"id":1,"name":"a","n":7},"op_type":"U"}`, "its 'after' is null"},
		{`{"op_type":"I"}`, "its 'after' is null"},
		{`{"op_type":"T","table":"secret"}`, "truncated"},
		{`{"op_type":"secret"}`, "'op_type' is none of I, U and D"},
		{`{"after":{"id":1}}`, "the message has no 'op_type'"},
		{`{"before":{"id":"secret"},"after":{"id":1},"op_type":"I"}`, "field before.id"}, // read, though the op has no use for it
	})
	unkeyed.Lenient = true
	formattest.Check(t, Format{}, unkeyed, formattest.Messages{{`{"before":{"id":1},"after":{"id":2},"op_type":"U"}`, `-U {"id":"1","name":null,"n":null} +U {"id":"2","name":null,"n":null}`}})
}

// Messages in the form that GoldenGate's documentation shows, with values of our own.
func TestDecode_FromGoldenGate(t *testing.T) {
	p := formattest.Payload(t, nil, []int{0}, "ID BIGINT", "NAME STRING", "CITY STRING", "tb STRING FROM value.table", "pk ARRAY<STRING> FROM value.primary-keys",
		"cts TIMESTAMP_LTZ(3) FROM value.ingestion-timestamp", "ots TIMESTAMP_LTZ(6) FROM value.event-timestamp")
	const meta = `,"tb":"SHOP.ITEMS","pk":["ID"],"cts":"2024-03-01 10:00:01.447","ots":"2024-03-01 10:00:00.123000"}`
	const head = `{"table":"SHOP.ITEMS","op_ts":"2024-03-01 10:00:00.123456","current_ts":"2024-03-01T10:00:01.447000","pos":"00000000000000001444","primary_keys":["ID"],"tokens":{"R":"AADPkvAAEAAEqL2AAA"},`
	formattest.Check(t, Format{}, p, formattest.Messages{
		{head + `"op_type":"I","after":{"ID":17,"NAME":"kettle","CITY":"SEATTLE"}}`, `+I {"ID":"17","NAME":"kettle","CITY":"SEATTLE"` + meta},
		{head + `"op_type":"U","before":{"ID":17,"NAME":"kettle","CITY":"SEATTLE"},"after":{"ID":17,"CITY":"DENVER"}}`,
			`-U {"ID":"17","NAME":"kettle","CITY":"SEATTLE"` + meta + ` +U {"ID":"17","NAME":"kettle","CITY":"DENVER"` + meta},
		{head + `"op_type":"D","before":{"ID":17,"NAME":"kettle","CITY":"DENVER"}}`, `-D {"ID":"17","NAME":"kettle","CITY":"DENVER"` + meta},
		{head + `"op_type":"T"}`, "truncated"},
	})
}
