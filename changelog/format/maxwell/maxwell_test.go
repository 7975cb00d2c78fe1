package maxwell

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
		{map[string]string{"database.include": "x"}, []string{"a INT"}, "maxwell-json: unknown option 'database.include'"},
		{nil, []string{"a MAP<INT, INT>"}, "column a"},
		{nil, []string{"a INT", "m ARRAY<STRING> FROM value.primary-key"}, "no metadata 'primary-key'; it has database STRING, table STRING, primary-key-columns ARRAY<STRING>"},
		{nil, []string{"a INT", "m BIGINT FROM value.ingestion-timestamp"}, "must be declared TIMESTAMP_LTZ(3)"},
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
		{"false", changelog.Insert, `{"data":{"id":1,"name":null},"type":"insert"}`},
		{"false", changelog.UpdateAfter, `{"data":{"id":1,"name":null},"type":"insert"}`},
		{"false", changelog.UpdateBefore, `{"data":{"id":1,"name":null},"type":"delete"}`},
		{"true", changelog.Delete, `{"data":{"id":1},"type":"delete"}`},
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
func TestDecode_OldRows(t *testing.T) {
	columns := []string{"id INT", "name STRING", "n INT"}
	formattest.Check(t, Format{}, formattest.Payload(t, nil, []int{0}, columns...), formattest.Messages{
		// Flink takes the name for changed.
		{`{"data":{"id":1,"name":"a","n":8},"old":{"doc":{"name":1},"n":7},"type":"update"}`, `-U {"id":"1","name":"a","n":"7"} +U {"id":"1","name":"a","n":"8"}`},
		{`{"data":{"id":1,"name":"a","n":8},"old":{"n":null},"type":"update"}`, `-U {"id":"1","name":"a","n":null} +U {"id":"1","name":"a","n":"8"}`},
		{`{"data":{"id":1,"name":"a"},"old":{"name":"b"},"type":"update"}`, `-U {"id":"1","name":"b"} +U {"id":"1","name":"a","n":null}`},
		{`{"data":{"id":1},"old":{},"type":"update"}`, `-U key {"id":"1","name":null,"n":null} +U {"id":"1","name":null,"n":null}`},
		{`{"data":{"id":1},"type":"delete"}`, `-D key {"id":"1","name":null,"n":null}`},
	})
	unkeyed := formattest.Payload(t, nil, nil, columns...)
	formattest.Check(t, Format{}, unkeyed, formattest.Messages{
		{`{"data":{"id":1,"name":"a","n":8},"old":{"doc":{"name":1},"n":7},"type":"update"}`, `-U {"id":"1","name":null,"n":"7"} +U {"id":"1","name":"a","n":"8"}`},
		{`{"data":{"id":1},"type":"delete"}`, "field data.name: the old row lacks this column"},
		{`{"data":{"id":1,"n":2},"old":{},"type":"update"}`, "field old.name: the old row lacks this column"},
		{`{"data":{"id":1},"old":null,"type":"update"}`, "its 'old' is null"},
		{`{"data":null,"type":"delete"}`, "'data' is null"},
	})
	unkeyed.Lenient = true
	formattest.Check(t, Format{}, unkeyed, formattest.Messages{{`{"data":{"id":1},"type":"delete"}`, `-D {"id":"1","name":null,"n":null}`}})
}

func TestDecode_Types(t *testing.T) {
	p := formattest.Payload(t, nil, []int{0}, "id INT")
	formattest.Check(t, Format{}, p, formattest.Messages{
		{`{"type":"bootstrap-start","data":{}}`, "maxwell.Format.Bootstrap reads them"},
		{`{"type":"bootstrap-insert","data":{"id":1}}`, "maxwell.Format.Bootstrap reads them"},
		{`{"type":"table-alter","sql":"secret"}`, "maxwell.Format.SkipDDL passes over it"},
		{`{"type":"table-drop"}`, "lost all of its rows"},
		{`{"type":"secret"}`, "'type' is none of insert, update and delete"},
		{`{"data":{"id":1}}`, "the message has no 'type'"},
		{`[{"type":"insert","data":{"id":1}}]`, "not a JSON object"},
	})
	formattest.Check(t, Format{Bootstrap: true}, p, formattest.Messages{
		{`{"type":"bootstrap-start","data":{}}`, ``},
		{`{"type":"bootstrap-insert","data":{"id":1}}`, `+I {"id":"1"}`},
		{`{"type":"bootstrap-insert","data":null}`, "'data' is null"},
		{`{"type":"bootstrap-complete","data":{}}`, ``},
	})
	formattest.Check(t, Format{SkipDDL: true}, p, formattest.Messages{
		{`{"type":"table-create","def":{}}`, ``},
		{`{"type":"table-drop"}`, "lost all of its rows"},
	})
}

// Messages in the form that Maxwell's documentation shows, with values of our own.
func TestDecode_FromMaxwell(t *testing.T) {
	p := formattest.Payload(t, nil, []int{0}, "id BIGINT", "name STRING", "price DECIMAL(10, 2)", "db STRING FROM value.database", "tb STRING FROM value.table",
		"pk ARRAY<STRING> FROM value.primary-key-columns", "ts TIMESTAMP_LTZ(3) FROM value.ingestion-timestamp")
	const meta = `,"db":"shop","tb":"items","pk":["id"],"ts":"2024-03-01 10:00:00.000"}`
	formattest.Check(t, Format{Bootstrap: true, SkipDDL: true}, p, formattest.Messages{
		{`{"database":"shop","table":"items","type":"insert","ts":1709287200,"xid":23396,"commit":true,"position":"master.000006:800911","server_id":23042,"thread_id":108,` +
			`"primary_key":[17],"primary_key_columns":["id"],"data":{"id":17,"name":"kettle","price":24.9}}`, `+I {"id":"17","name":"kettle","price":"24.90"` + meta},
		{`{"database":"shop","table":"items","type":"update","ts":1709287200,"xid":23397,"commit":true,"primary_key":[17],"primary_key_columns":["id"],` +
			`"data":{"id":17,"name":"kettle","price":null},"old":{"price":24.9}}`,
			`-U {"id":"17","name":"kettle","price":"24.90"` + meta + ` +U {"id":"17","name":"kettle","price":null` + meta},
		{`{"database":"shop","table":"items","type":"bootstrap-insert","ts":1709287200,"primary_key_columns":["id"],"data":{"id":18,"name":"pot","price":3.50}}`,
			`+I {"id":"18","name":"pot","price":"3.50"` + meta},
		{`{"type":"table-alter","database":"shop","table":"items","old":{"database":"shop","charset":"utf8mb4","table":"items","columns":[{"type":"bigint","name":"id","signed":true}]},"def":{},` +
			`"ts":1709287200000,"sql":"alter table items add column c int"}`, ``},
	})
}
