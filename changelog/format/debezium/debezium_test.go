package debezium

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
	"github.com/flinksink/flinksink/internal/rowtext"
)

func payloadOf(t testing.TB, options map[string]string, key []int, columns ...string) changelog.Payload {
	t.Helper()
	return formattest.Payload(t, options, key, columns...)
}

func decoderOf(t testing.TB, f Format, p changelog.Payload) changelog.PayloadDecoder {
	t.Helper()
	return formattest.Decoder(t, f, p)
}

func text(b *changelog.Batch) string { return formattest.Text(b) }

func decode(t testing.TB, f Format, p changelog.Payload, message string) string {
	t.Helper()
	return formattest.Decode(t, f, p, message)
}

type messages []struct{ in, want string }

// check compares what messages become; want is the changes, or a part of the error.
func check(t *testing.T, f Format, p changelog.Payload, cases messages) {
	t.Helper()
	for _, c := range cases {
		got := decode(t, f, p, c.in)
		if ok := got == c.want || strings.HasPrefix(got, "changelog: ") && c.want != "" && strings.Contains(got, c.want); !ok {
			t.Errorf("%s:\n got  %s\n want %s", c.in, got, c.want)
		}
	}
}

func TestNewDecoder_Refuses(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		columns []string
		want    string // in the error; "" for none
	}{
		{map[string]string{"schema-include": "TRUE", "ignore-parse-errors": "true", "timestamp-format.standard": "ISO-8601", "map-null-key.mode": "DROP",
			"map-null-key.literal": "x", "encode.decimal-as-plain-number": "true", "encode.ignore-null-fields": "true"}, []string{"a INT"}, ""},
		{map[string]string{"schema-included": "true"}, []string{"a INT"}, "debezium-json: unknown option 'schema-included'; the nearest that the format has is 'schema-include'"},
		{map[string]string{"schema-include": "yes"}, []string{"a INT"}, "'schema-include' must be 'true' or 'false'"},
		{map[string]string{"fail-on-missing-field": "true"}, []string{"a INT"}, "unknown option"},
		{nil, []string{"a MAP<INT, INT>"}, "column a"},
		{nil, []string{"a INT", "m STRING FROM value.source.tabel"}, "source.table STRING"},
		{nil, []string{"a INT", "m BIGINT FROM value.ingestion-timestamp"}, "must be declared TIMESTAMP_LTZ(3)"},
		{nil, []string{"a INT", "m MAP<STRING, INT> FROM value.source.properties"}, "must be declared MAP<STRING, STRING>"},
		{nil, []string{"a INT", "m INT FROM value.source.table"}, "must be declared STRING"},
	} {
		_, err := Format{}.NewDecoder(payloadOf(t, c.options, nil, c.columns...))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %v: error %v, want %q in it", c.options, c.columns, err, c.want)
		}
	}
}

func TestNewEncoder_Refuses(t *testing.T) {
	p := payloadOf(t, map[string]string{"schema-include": "true", "encode.ignore-null-fields": "maybe"}, nil, "a MAP<INT, INT>")
	_, err := Format{}.NewEncoder(p)
	for _, want := range []string{"'schema-include'", "'encode.ignore-null-fields'", "column a"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestEncode_Kinds(t *testing.T) {
	for _, c := range []struct {
		ignoreNulls string
		kind        changelog.Kind
		want        string
	}{
		{"false", changelog.Insert, `{"before":null,"after":{"id":1,"name":null},"op":"c"}`},
		{"false", changelog.UpdateAfter, `{"before":null,"after":{"id":1,"name":null},"op":"c"}`},
		{"false", changelog.UpdateBefore, `{"before":{"id":1,"name":null},"after":null,"op":"d"}`},
		{"false", changelog.Delete, `{"before":{"id":1,"name":null},"after":null,"op":"d"}`},
		{"true", changelog.UpdateAfter, `{"after":{"id":1},"op":"c"}`},
		{"true", changelog.Delete, `{"before":{"id":1},"op":"d"}`},
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
}

func TestDecode_Metadata(t *testing.T) {
	columns := []string{"a INT", "i TIMESTAMP_LTZ(3) FROM value.ingestion-timestamp", "st TIMESTAMP_LTZ(0) FROM value.source.timestamp",
		"db STRING FROM value.source.database", "sc STRING FROM value.source.schema", "tb STRING FROM value.source.table",
		"p MAP<STRING, STRING> FROM value.source.properties", "s STRING FROM value.schema"}
	const none = `"i":null,"st":null,"db":null,"sc":null,"tb":null,"p":null,"s":null}`
	check(t, Format{}, payloadOf(t, nil, nil, columns...), messages{
		{`{"before":{"a":1},"after":{"a":2},"op":"u","ts_ms":-1,"source":{"ts_ms":1999,"db":"d","table":"t","x":[1, 2]}}`,
			`-U {"a":"1","i":"1969-12-31 23:59:59.999","st":"1970-01-01 00:00:01","db":"d","sc":null,"tb":"t","p":[["db","d"],["table","t"],["ts_ms","1999"],["x","[1,2]"]],"s":null} ` +
				`+U {"a":"2","i":"1969-12-31 23:59:59.999","st":"1970-01-01 00:00:01","db":"d","sc":null,"tb":"t","p":[["db","d"],["table","t"],["ts_ms","1999"],["x","[1,2]"]],"s":null}`},
		{`{"after":{"a":2},"op":"c"}`, `+I {"a":"2",` + none},
		{`{"after":{"a":2},"op":"c","source":null,"ts_ms":null,"schema":null}`, `+I {"a":"2",` + none},
		{`{"after":{"a":2},"op":"c","ts_ms":"secret"}`, "field ts_ms"},
		{`{"after":{"a":2},"op":"c","source":{"ts_ms":"secret"}}`, "field source.ts_ms"},
	})
	p := payloadOf(t, map[string]string{"ignore-parse-errors": "true"}, nil, columns...)
	check(t, Format{}, p, messages{
		{`{"after":{"a":2},"op":"c","ts_ms":"x"}`, `+I {"a":"2",` + none},
		{`{"after":{"a":2},"op":"c","source":{"ts_ms":"x"}}`, ``}, // as in Flink, where it fails after the fields were read
	})
	p = payloadOf(t, map[string]string{"schema-include": "true"}, nil, "a INT", "s STRING FROM value.schema", "tb STRING FROM value.source.table")
	check(t, Format{}, p, messages{
		{`{"schema":{"x": 1},"payload":{"after":{"a":2},"op":"c","schema":"no","source":{"table":"t"}}}`, `+I {"a":"2","s":"{\"x\":1}","tb":"t"}`},
		{`{"payload":{"after":{"a":2},"op":"c"}}`, `+I {"a":"2","s":null,"tb":null}`},
		{`{"after":{"a":2},"op":"c"}`, "drop 'debezium-json.schema-include'"},
		{`{"payload":[]}`, "field payload: not a JSON object"},
	})
	check(t, Format{}, payloadOf(t, nil, nil, "a INT"), messages{
		{`{"schema":{},"payload":{"after":{"a":2},"op":"c"}}`, "set 'debezium-json.schema-include' = 'true'"},
	})
}

func TestDecode_Rules(t *testing.T) {
	// The cases that Flink answered are checked where records are assembled; here is what is not among them.
	check(t, Format{}, payloadOf(t, nil, nil, "a INT", "d DECIMAL(5, 2)"), messages{
		{`[null,{"after":{"a":1},"op":"c"}]`, "has a null in it"},
		{`[[{"after":{"a":1},"op":"c"}]]`, "not a JSON object"},
		{`7`, "not a JSON object"},
		{`{"after":{"a":1,"d":1e2},"op":"r"}`, `+I {"a":"1","d":"100.00"}`},
		{`{"after":{"a":1,"a":2},"op":"r"}`, "field after: a member is there twice"},
		{`{"before":{"a":"secret"},"after":{"a":1},"op":"c"}`, "field before.a"}, // read, though the op has no use for it
		{`{"after":{"a":1},"op":{"secret":1}}`, "none of c, r, u and d"},
		{`{"after":{"a":1},"op":7}`, "none of c, r, u and d"},
		{`{"before":7,"after":{"a":1},"op":"c"}`, "field before: not a JSON object"},
	})
	p := payloadOf(t, nil, nil, "a INT")
	p.Lenient = true
	check(t, Format{}, p, messages{
		{`[null,{"after":{"a":1},"op":"c"}]`, `+I {"a":"1"}`},
		{` `, "no JSON value"},
		{``, ``},
		{`{"op":"d","before":{}}`, `-D {"a":null}`},
	})
}

// P09: what the source did not send is what it was.
func TestDecode_UnavailableValue(t *testing.T) {
	const mark = DefaultUnavailableValue
	p := payloadOf(t, nil, []int{0}, "k INT", "body STRING", "a INT")
	check(t, Format{}, p, messages{
		{`{"before":{"k":1,"body":"X","a":1},"after":{"k":1,"body":"` + mark + `","a":2},"op":"u"}`, `-U {"k":"1","body":"X","a":"1"} +U {"k":"1","body":"X","a":"2"}`},
		{`{"before":{"k":1,"body":"` + mark + `","a":1},"after":{"k":1,"body":"` + mark + `","a":2},"op":"u"}`, `-U {"k":"1","a":"1"} +U {"k":"1","a":"2"}`},
		{`{"before":{"k":1,"body":null,"a":null},"after":{"k":1,"body":"` + mark + `","a":2},"op":"u"}`, `-U {"k":"1","a":null} +U {"k":"1","a":"2"}`}, // not NULL: it is only not told
		{`{"before":{"k":1},"after":{"k":1,"body":"` + mark + `","a":2},"op":"u"}`, `-U key {"k":"1","body":null,"a":null} +U {"k":"1","a":"2"}`},
		{`{"before":{"k":1,"body":"` + mark + `","a":1},"after":null,"op":"d"}`, `-D {"k":"1","a":"1"}`},
		{`{"after":{"k":1,"body":"` + mark + `","a":2},"op":"c"}`, "field after.body: the row is new"},
		{`{"after":{"k":1,"body":"` + mark + `","a":2},"op":"r"}`, "field after.body: the row is new"},
		{`{"before":{"k":1,"body":"` + mark + `2","a":1},"after":null,"op":"d"}`, `-D {"k":"1","body":"` + mark + `2","a":"1"}`},
	})
	// The net effect of an update that told the value and one that did not.
	b := changelog.NewBatch(p.Table)
	d := decoderOf(t, Format{}, p)
	for _, in := range []string{
		`{"before":{"k":1,"body":"W","a":0},"after":{"k":1,"body":"X","a":1},"op":"u"}`,
		`{"before":{"k":1,"body":null,"a":null},"after":{"k":1,"body":"` + mark + `","a":2},"op":"u"}`,
	} {
		if err := d.DecodePayload(b, []byte(in), nil); err != nil {
			t.Fatal(err)
		}
	}
	var n changelog.Net
	n.Compute(p.Table.Schema, b.Changes)
	if got := string(rowtext.AppendRow(nil, p.Table.Schema, n.Upserts[0].Row)); len(n.Upserts) != 1 || len(n.Deletes) != 0 || got != `{"k":"1","body":"X","a":"2"}` {
		t.Errorf("%d upserts, %d deletes, %s", len(n.Upserts), len(n.Deletes), got)
	}

	for _, c := range []struct{ typ, value string }{
		{"BYTES", `"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="`},
		{"STRING", `"5f5f646562657a69756d5f756e617661696c61626c655f76616c7565"`},
		{"DECIMAL(10, 2)", `"` + mark + `"`},
		{"ARRAY<STRING>", `["` + mark + `"]`},
		{"ARRAY<BYTES>", `["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]`},
		{"ARRAY<BIGINT>", `[95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,108,117,101]`},
		{"ARRAY<STRING>", `["` + newPlaceholder(mark).uuid + `"]`},
		{"MAP<STRING, STRING>", `{"` + mark + `":"` + mark + `"}`},
	} {
		p := payloadOf(t, nil, []int{0}, "k INT", "v "+c.typ)
		in := fmt.Sprintf(`{"before":{"k":1,"v":null},"after":{"k":1,"v":%s},"op":"u"}`, c.value)
		if got := decode(t, Format{}, p, in); got != `-U {"k":"1"} +U {"k":"1"}` {
			t.Errorf("%s %s: %s", c.typ, c.value, got)
		}
	}

	in := `{"before":{"k":1,"body":null,"a":1},"after":{"k":1,"body":"` + mark + `","a":2},"op":"u"}`
	asText := `-U {"k":"1","body":null,"a":"1"} +U {"k":"1","body":"` + mark + `","a":"2"}`
	check(t, Format{UnavailableValue: NoUnavailableValue}, p, messages{{in, asText}})
	check(t, Format{UnavailableValue: "n/a"}, p, messages{
		{in, asText},
		{strings.ReplaceAll(in, mark, "n/a"), `-U {"k":"1","a":"1"} +U {"k":"1","a":"2"}`},
	})
	p.Lenient = true
	check(t, Format{}, p, messages{{in, asText}})
	check(t, Format{UnavailableValue: mark}, p, messages{{in, `-U {"k":"1","a":"1"} +U {"k":"1","a":"2"}`}})
}

// P14, P15: an old row that is not whole.
func TestDecode_PartialBefore(t *testing.T) {
	keyed := payloadOf(t, nil, []int{0}, "id INT", "name STRING", "n INT")
	check(t, Format{}, keyed, messages{
		{`{"op":"d","before":{"id":7},"after":null}`, `-D key {"id":"7","name":null,"n":null}`},
		{`{"op":"d","before":{"id":7,"n":1},"after":null}`, `-D {"id":"7","n":"1"}`},
		{`{"op":"u","before":{"id":7},"after":{"id":7,"name":"b"}}`, `-U key {"id":"7","name":null,"n":null} +U {"id":"7","name":"b","n":null}`},
		{`{"op":"d","before":{"name":"x"},"after":null}`, `-D {"name":"x"}`}, // the assembly refuses it: the key was not sent
		{`{"op":"u","before":null,"after":{"id":7}}`, "REPLICA IDENTITY"},
		{`{"op":"d","before":null}`, "REPLICA IDENTITY"},
	})
	check(t, Format{}, payloadOf(t, nil, nil, "id INT", "name STRING"), messages{
		{`{"op":"d","before":{"id":7}}`, "field before.name: the old row lacks this column"},
		{`{"op":"u","before":{},"after":{"id":7,"name":"x"}}`, "field before.id"},
		{`{"op":"c","before":{},"after":{"id":7}}`, `+I {"id":"7","name":null}`},
	})
	leftOut := map[string]string{"encode.ignore-null-fields": "true"}
	check(t, Format{}, payloadOf(t, leftOut, nil, "id INT", "name STRING"), messages{
		{`{"op":"d","before":{"id":7}}`, `-D {"id":"7","name":null}`},
		{`{"op":"u","before":{},"after":{"id":7}}`, `-U {"id":null,"name":null} +U {"id":"7","name":null}`},
	})
	keyed.Options = map[string]string{"ignore-parse-errors": "true"}
	check(t, Format{}, keyed, messages{{`{"op":"d","before":null}`, ``}})
}

// P17: what is no change of a row.
func TestDecode_TruncateAndMessage(t *testing.T) {
	p := payloadOf(t, nil, nil, "id INT")
	in := messages{
		{`{"before":null,"after":null,"op":"t"}`, "truncated"},
		{`{"op":"m","message":{"prefix":"p","content":"secret"}}`, "a message in the source's log"},
	}
	check(t, Format{}, p, in)
	p.Lenient = true
	check(t, Format{}, p, in)
	p.Options = map[string]string{"ignore-parse-errors": "true"}
	check(t, Format{}, p, messages{{in[0].in, ``}, {in[1].in, ``}})
}

// P18 to P23: what Debezium writes for its types is read where the text says the value, and is never taken for another one.
func TestDecode_DebeziumTypes(t *testing.T) {
	iso := map[string]string{"timestamp-format.standard": "ISO-8601"}
	for _, c := range []struct {
		pitfall string
		options map[string]string
		typ     string
		value   string
		want    string // the column's text, or a part of the error
	}{
		{"P18", iso, "TIMESTAMP_LTZ(3)", `"2018-06-20T13:37:03Z"`, "2018-06-20 13:37:03.000"},
		{"P18", nil, "TIMESTAMP_LTZ(3)", `"2018-06-20T13:37:03Z"`, "field after.v"},
		{"P19", nil, "DECIMAL(10, 2)", `"/w=="`, "field after.v"},
		{"P19", nil, "DECIMAL(10, 0)", `"gA=="`, "field after.v"},
		{"P19", nil, "DECIMAL(10, 2)", `"AIA="`, "field after.v"},
		{"P20", nil, "DECIMAL(10, 5)", `{"scale":5,"value":"AYHN"}`, "field after.v"},
		{"P21", nil, "DECIMAL(20, 0)", `18446744073709551615`, "18446744073709551615"},
		{"P21", nil, "BIGINT", `18446744073709551615`, "field after.v"},
		{"P22", nil, "TIMESTAMP(6)", `-6795364578871000`, "field after.v"},
		{"P22", nil, "BIGINT", `-6795364578871000`, "-6795364578871000"},
		{"P22", nil, "DATE", `19000`, "field after.v"},
		{"P23", nil, "TIMESTAMP(6)", `9223372036854775807`, "field after.v"},
		{"P23", nil, "BIGINT", `-9223372036854775808`, "-9223372036854775808"},
	} {
		want := c.want
		if !strings.HasPrefix(want, "field") {
			want = `+I {"v":"` + want + `"}`
		}
		check(t, Format{}, payloadOf(t, c.options, nil, "v "+c.typ), messages{{`{"after":{"v":` + c.value + `},"op":"c"}`, want}})
	}
}

func TestDecode_Bombs(t *testing.T) {
	wide := []string{"s STRING"}
	for i := range 1000 {
		wide = append(wide, fmt.Sprintf("c%d INT", i))
	}
	p := payloadOf(t, nil, nil, append(wide, "m MAP<STRING, STRING> FROM value.source.properties")...)
	for name, in := range map[string]string{
		"depth":  `{"after":` + strings.Repeat(`{"s":`, 1e6),
		"depth2": `{"z":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `,"after":{},"op":"c"}`,
		"rows":   "[" + strings.Repeat("{},", 1e5) + "{}]",
		"nodes":  `{"z":[` + strings.Repeat("0,", 2e6) + `0],"after":{},"op":"c"}`,
	} {
		b := changelog.NewBatch(p.Table)
		if err := decoderOf(t, Format{}, p).DecodePayload(b, []byte(in), nil); err == nil && name != "nodes" {
			t.Errorf("%s: no error", name)
		}
		if b.Bytes() > 64<<20 {
			t.Errorf("%s: %d bytes", name, b.Bytes())
		}
	}
}

func TestDecode_Concurrent(t *testing.T) {
	p := payloadOf(t, nil, []int{0}, "a INT", "s STRING", "tb STRING FROM value.source.table")
	d := decoderOf(t, Format{}, p)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			b := changelog.NewBatch(p.Table)
			for i := range 300 {
				in := fmt.Sprintf(`{"before":{"a":%d,"s":"\u0041%d","tb":"x"},"after":{"a":%d,"s":"%s"},"source":{"table":"t%d"},"op":"u"}`, i, g, i, DefaultUnavailableValue, g)
				if err := d.DecodePayload(b, []byte(in), nil); err != nil {
					t.Error(err)
					return
				}
			}
			for i := range b.Changes {
				if r := b.Changes[i].Row; r[0].Int() != int64(i/2) || r[1].Str() != fmt.Sprintf("A%d", g) || r[2].Str() != fmt.Sprintf("t%d", g) {
					t.Errorf("change %d of %d: %s", i, g, rowtext.AppendRow(nil, p.Table.Schema, r))
					return
				}
			}
		})
	}
	wg.Wait()
}
