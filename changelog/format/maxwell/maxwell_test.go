package maxwell

import (
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// payloadOf makes a payload of all columns that are not METADATA, given as "a INT" or "m BIGINT FROM value.x"; the columns of key are the
// PRIMARY KEY.
func payloadOf(t testing.TB, options map[string]string, key []int, columns ...string) changelog.Payload {
	t.Helper()
	tab := &changelog.Table{Name: "t", Schema: &changelog.Schema{Key: key}, Mode: changelog.Retract}
	p := changelog.Payload{Table: tab, Options: options}
	for i, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		typ, metadata, _ := strings.Cut(typ, " FROM ")
		ty, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tab.Schema.Columns = append(tab.Schema.Columns, changelog.Column{Name: name, Type: ty, Metadata: metadata})
		if metadata == "" {
			p.Columns = append(p.Columns, i)
			p.Names = append(p.Names, name)
		}
	}
	return p
}

func decoderOf(t testing.TB, f Format, p changelog.Payload) changelog.PayloadDecoder {
	t.Helper()
	d, err := f.NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// text prints changes as "-U {..} +U {..}", columns that are Unchanged left out, and "key" before a delete that knows no more.
func text(b *changelog.Batch) string {
	var out []string
	for _, c := range b.Changes {
		s := c.Kind.String() + " "
		if c.KeyOnly {
			s += "key "
		}
		out = append(out, string(rowtext.AppendRow([]byte(s), b.Table.Schema, c.Row)))
	}
	return strings.Join(out, " ")
}

// decode returns the changes as text, or the error as text.
func decode(t testing.TB, f Format, p changelog.Payload, message string) string {
	t.Helper()
	b := changelog.NewBatch(p.Table)
	if err := decoderOf(t, f, p).DecodePayload(b, []byte(message), nil); err != nil {
		var de *changelog.DataError
		if !errors.As(err, &de) || de.Reason == "" {
			t.Errorf("%s: %#v", message, err)
		}
		if b.Len() != 0 {
			t.Errorf("%s: %s in spite of the error", message, text(b))
		}
		return err.Error()
	}
	return text(b)
}

type messages []struct{ in, want string }

// check compares what messages become; want is the changes, or a part of the error. A message is read once more with its type spelt so that
// only the reader of trees takes it.
func check(t *testing.T, f Format, p changelog.Payload, cases messages) {
	t.Helper()
	for _, c := range cases {
		for _, in := range []string{c.in, strings.Replace(c.in, "{", "{\"\\uD83D\":1,", 1)} {
			got := decode(t, f, p, in)
			if ok := got == c.want || strings.HasPrefix(got, "changelog: ") && c.want != "" && strings.Contains(got, c.want); !ok {
				t.Errorf("%s:\n got  %s\n want %s", in, got, c.want)
			}
		}
	}
}

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
		_, err := Format{}.NewDecoder(payloadOf(t, c.options, nil, c.columns...))
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
		e, err := Format{}.NewEncoder(payloadOf(t, map[string]string{"encode.ignore-null-fields": c.ignoreNulls}, nil, "id INT", "name STRING"))
		if err != nil {
			t.Fatal(err)
		}
		got, null, err := e.AppendPayload([]byte("x"), &changelog.Change{Kind: c.kind, Row: changelog.Row{changelog.IntValue(1), {}}})
		if err != nil || null || string(got) != "x"+c.want {
			t.Errorf("%s: %s, %v, %v", c.kind, got, null, err)
		}
	}
	if _, err := (Format{}).NewEncoder(payloadOf(t, nil, nil, "a MAP<INT, INT>")); err == nil {
		t.Error("an encoder for a map of numbers")
	}
}

// What Flink answered is checked where records are assembled; here is what a PRIMARY KEY changes, and what is stricter.
func TestDecode_OldRows(t *testing.T) {
	columns := []string{"id INT", "name STRING", "n INT"}
	check(t, Format{}, payloadOf(t, nil, []int{0}, columns...), messages{
		// Flink takes the name for changed.
		{`{"data":{"id":1,"name":"a","n":8},"old":{"doc":{"name":1},"n":7},"type":"update"}`, `-U {"id":"1","name":"a","n":"7"} +U {"id":"1","name":"a","n":"8"}`},
		{`{"data":{"id":1,"name":"a","n":8},"old":{"n":null},"type":"update"}`, `-U {"id":"1","name":"a","n":null} +U {"id":"1","name":"a","n":"8"}`},
		{`{"data":{"id":1,"name":"a"},"old":{"name":"b"},"type":"update"}`, `-U {"id":"1","name":"b"} +U {"id":"1","name":"a","n":null}`},
		{`{"data":{"id":1},"old":{},"type":"update"}`, `-U key {"id":"1","name":null,"n":null} +U {"id":"1","name":null,"n":null}`},
		{`{"data":{"id":1},"type":"delete"}`, `-D key {"id":"1","name":null,"n":null}`},
	})
	unkeyed := payloadOf(t, nil, nil, columns...)
	check(t, Format{}, unkeyed, messages{
		{`{"data":{"id":1,"name":"a","n":8},"old":{"doc":{"name":1},"n":7},"type":"update"}`, `-U {"id":"1","name":null,"n":"7"} +U {"id":"1","name":"a","n":"8"}`},
		{`{"data":{"id":1},"type":"delete"}`, "field data.name: the old row lacks this column"},
		{`{"data":{"id":1,"n":2},"old":{},"type":"update"}`, "field old.name: the old row lacks this column"},
		{`{"data":{"id":1},"old":null,"type":"update"}`, "its 'old' is null"},
		{`{"data":null,"type":"delete"}`, "'data' is null"},
	})
	unkeyed.Lenient = true
	check(t, Format{}, unkeyed, messages{{`{"data":{"id":1},"type":"delete"}`, `-D {"id":"1","name":null,"n":null}`}})
}

func TestDecode_Types(t *testing.T) {
	p := payloadOf(t, nil, []int{0}, "id INT")
	check(t, Format{}, p, messages{
		{`{"type":"bootstrap-start","data":{}}`, "maxwell.Format.Bootstrap reads them"},
		{`{"type":"bootstrap-insert","data":{"id":1}}`, "maxwell.Format.Bootstrap reads them"},
		{`{"type":"table-alter","sql":"secret"}`, "maxwell.Format.SkipDDL passes over it"},
		{`{"type":"table-drop"}`, "lost all of its rows"},
		{`{"type":"secret"}`, "'type' is none of insert, update and delete"},
		{`{"data":{"id":1}}`, "the message has no 'type'"},
		{`[{"type":"insert","data":{"id":1}}]`, "not a JSON object"},
	})
	check(t, Format{Bootstrap: true}, p, messages{
		{`{"type":"bootstrap-start","data":{}}`, ``},
		{`{"type":"bootstrap-insert","data":{"id":1}}`, `+I {"id":"1"}`},
		{`{"type":"bootstrap-insert","data":null}`, "'data' is null"},
		{`{"type":"bootstrap-complete","data":{}}`, ``},
	})
	check(t, Format{SkipDDL: true}, p, messages{
		{`{"type":"table-create","def":{}}`, ``},
		{`{"type":"table-drop"}`, "lost all of its rows"},
	})
}

// Messages in the form that Maxwell's documentation shows, with values of our own.
func TestDecode_FromMaxwell(t *testing.T) {
	p := payloadOf(t, nil, []int{0}, "id BIGINT", "name STRING", "price DECIMAL(10, 2)", "db STRING FROM value.database", "tb STRING FROM value.table",
		"pk ARRAY<STRING> FROM value.primary-key-columns", "ts TIMESTAMP_LTZ(3) FROM value.ingestion-timestamp")
	const meta = `,"db":"shop","tb":"items","pk":["id"],"ts":"2024-03-01 10:00:00.000"}`
	check(t, Format{Bootstrap: true, SkipDDL: true}, p, messages{
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
