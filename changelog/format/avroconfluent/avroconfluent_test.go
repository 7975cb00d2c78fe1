package avroconfluent

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/registry/registrytest"
	"github.com/flinksink/flinksink/internal/rowtext"
	"github.com/twmb/avro"
)

// payloadOf makes a payload of the columns given as "a INT".
func payloadOf(t testing.TB, options map[string]string, columns ...string) changelog.Payload {
	t.Helper()
	tab := &changelog.Table{Name: "t", Schema: &changelog.Schema{}, Mode: changelog.Append}
	p := changelog.Payload{Table: tab, Options: map[string]string{"url": "http://registry"}, Topic: "orders"}
	for k, v := range options {
		p.Options[k] = v
	}
	for i, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		ty, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tab.Schema.Columns = append(tab.Schema.Columns, changelog.Column{Name: name, Type: ty})
		p.Columns = append(p.Columns, i)
		p.Names = append(p.Names, name)
	}
	return p
}

// written is a message of schema id, written by another implementation of Avro.
func written(t testing.TB, g *registrytest.Registry, id int, schema string, datum any) []byte {
	t.Helper()
	s, err := avro.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	g.Put(id, registrytest.Schema{Text: schema})
	body, err := s.Encode(datum)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), body...)
}

// decode returns the row as text, or the error.
func decode(d changelog.PayloadDecoder, p changelog.Payload, message []byte) (string, error) {
	b := changelog.NewBatch(p.Table)
	if err := d.DecodePayload(b, message, nil); err != nil {
		return "", err
	}
	return string(rowtext.AppendRow(nil, p.Table.Schema, b.Changes[0].Row)), nil
}

type object = map[string]any

// A message is read by the rules of Avro for schemas that differ.
func TestDecode_Evolution(t *testing.T) {
	record := func(fields string) string {
		return `{"type":"record","name":"Order","namespace":"shop","fields":[` + fields + `]}`
	}
	own := func(fields string) map[string]string { return map[string]string{"schema": record(fields)} }
	const address = `{"name":"at","type":{"type":"record","name":"Address","fields":[{"name":"zip","type":"string"},{"name":"city","type":"string"}]}}`
	const tree = `{"name":"tree","type":{"type":"record","name":"Node","fields":[{"name":"left","type":["null","Node"]},{"name":"right","type":["null","Node"]}]}}`
	leaf := object{"left": nil, "right": nil}
	for id, c := range []struct {
		name    string
		writer  string // its fields, or a whole schema
		datum   any
		options map[string]string
		columns []string
		want    string // "error: " and a part of it; otherwise the row
		lenient string // where it differs
	}{
		{name: "added, nullable", writer: `{"name":"id","type":"int"}`, datum: object{"id": 1}, columns: []string{"id INT", "note STRING"}, want: `{"id":"1","note":null}`},
		{name: "added, with a default", writer: `{"name":"id","type":"int"}`, datum: object{"id": 1}, options: own(`{"name":"id","type":"int"},{"name":"n","type":"long","default":7},{"name":"s","type":"string","default":"x"},` +
			`{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":5,"scale":2},"default":"\u0001"},{"name":"b","type":"boolean","default":true},{"name":"a","type":{"type":"array","items":"int"},"default":[1,2]},` +
			`{"name":"r","type":{"type":"record","name":"R","fields":[{"name":"x","type":"double"},{"name":"y","type":["null","int"],"default":null}]},"default":{"x":1.5}}`),
			columns: []string{"id INT NOT NULL", "n BIGINT NOT NULL", "s STRING NOT NULL", "d DECIMAL(5, 2) NOT NULL", "b BOOLEAN NOT NULL", "a ARRAY<INT NOT NULL> NOT NULL", "r ROW<x DOUBLE NOT NULL, y INT> NOT NULL"},
			want:    `{"id":"1","n":"7","s":"x","d":"0.01","b":"TRUE","a":["1","2"],"r":{"x":"1.5","y":null}}`},
		{name: "added, and needed", writer: `{"name":"id","type":"int"}`, datum: object{"id": 1}, columns: []string{"id INT", "n INT NOT NULL"}, want: "error: lacks the field n, which is INT NOT NULL and has no default"},
		{name: "removed", writer: `{"name":"a","type":{"type":"array","items":{"type":"map","values":"double"}}},{"name":"u","type":["null","string","float"]},{"name":"f","type":{"type":"fixed","name":"F","size":3}},{"name":"e","type":{"type":"enum","name":"E","symbols":["x","y"]}},{"name":"y","type":"bytes"},{"name":"b","type":"boolean"},{"name":"id","type":"int"}`,
			datum:   object{"a": []any{object{"k": 1.5, "l": 2.5}, object{}}, "u": "text", "f": []byte("abc"), "e": "y", "y": []byte("zz"), "b": true, "id": 1},
			columns: []string{"id INT"}, want: `{"id":"1"}`},
		{name: "removed, a tree", writer: tree + `,{"name":"id","type":"int"}`, datum: object{"tree": object{"left": leaf, "right": object{"left": leaf, "right": nil}}, "id": 1}, columns: []string{"id INT"}, want: `{"id":"1"}`},
		{name: "renamed by the reader's alias", writer: `{"name":"ident","type":"int"}`, datum: object{"ident": 1}, options: own(`{"name":"id","type":"int","aliases":["ident"]}`), columns: []string{"id INT NOT NULL"}, want: `{"id":"1"}`},
		{name: "an alias beside the name", writer: `{"name":"ident","type":"int"},{"name":"id","type":"int"}`, datum: object{"ident": 1, "id": 2}, options: own(`{"name":"id","type":"int","aliases":["ident"]}`), columns: []string{"id INT NOT NULL"}, want: "error: the message was written with two fields that are id"},
		{name: "an alias in a record of another name", writer: `{"type":"record","name":"Other","fields":[{"name":"ident","type":"int"}]}`, datum: object{"ident": 1}, options: own(`{"name":"id","type":["null","int"],"default":null,"aliases":["ident"]}`), columns: []string{"id INT"}, want: `{"id":null}`},
		{name: "and one whose name is an alias", writer: `{"type":"record","name":"Other","fields":[{"name":"ident","type":"int"}]}`, datum: object{"ident": 1},
			options: map[string]string{"schema": `{"type":"record","name":"Order","aliases":["Other"],"fields":[{"name":"id","type":["null","int"],"default":null,"aliases":["ident"]}]}`}, columns: []string{"id INT"}, want: `{"id":"1"}`},
		{name: "records of other names in the reader", writer: `{"name":"r","type":{"type":"record","name":"W","fields":[{"name":"x","type":"int"}]}},{"name":"s","type":["null","W"]},{"name":"t","type":{"type":"fixed","name":"F","size":1}}`,
			datum: object{"r": object{"x": 1}, "s": object{"x": 2}, "t": []byte("a")}, options: own(`{"name":"r","type":{"type":"record","name":"V","fields":[{"name":"x","type":"long"}]}},{"name":"s","type":["null","V"]},{"name":"t","type":{"type":"fixed","name":"other.F","size":1}}`),
			columns: []string{"r ROW<x BIGINT NOT NULL> NOT NULL", "s ROW<x BIGINT NOT NULL>", "t VARBINARY(1) NOT NULL"}, want: `{"r":{"x":"1"},"s":{"x":"2"},"t":"61"}`},
		{name: "an enum of another namespace in a union", writer: `{"name":"e","type":{"type":"enum","name":"x.E","symbols":["a"]}}`, datum: object{"e": "a"}, options: own(`{"name":"e","type":["null",{"type":"enum","name":"E","symbols":["a"]}]}`), columns: []string{"e STRING"}, want: "error: field e: the message was written with the enum x.E"},
		{name: "a fixed of another size", writer: `{"name":"f","type":{"type":"fixed","name":"F","size":2}}`, datum: object{"f": []byte("ab")}, options: own(`{"name":"f","type":{"type":"fixed","name":"F","size":3}}`), columns: []string{"f VARBINARY(3) NOT NULL"}, want: "error: field f: the message was written with fixed shop.F of 2 bytes"},
		{name: "an int of more than an int for a long", writer: `{"name":"a","type":"int"},{"name":"b","type":{"type":"array","items":"int"}}`, datum: object{"a": -2147483648, "b": []any{2147483647}}, columns: []string{"a DOUBLE", "b ARRAY<BIGINT NOT NULL> NOT NULL"}, want: `{"a":"-2.147483648E9","b":["2147483647"]}`},
		{name: "renamed by the writer's alias", writer: `{"name":"ident","type":"int","aliases":["id"]}`, datum: object{"ident": 1}, columns: []string{"id INT"}, want: `{"id":null}`},
		{name: "promoted", writer: `{"name":"a","type":"int"},{"name":"b","type":"int"},{"name":"c","type":"long"},{"name":"d","type":"long"},{"name":"e","type":"float"},{"name":"f","type":"string"},{"name":"g","type":"bytes"}`,
			datum:   object{"a": -5, "b": 6, "c": int64(7), "d": int64(1) << 53, "e": float32(1.5), "f": "xy", "g": []byte("yz")},
			columns: []string{"a BIGINT", "b FLOAT", "c FLOAT NOT NULL", "d DOUBLE", "e DOUBLE", "f BYTES", "g STRING"},
			want:    `{"a":"-5","b":"6.0","c":"7.0","d":"9.007199254740992E15","e":"1.5","f":"7879","g":"yz"}`},
		{name: "narrowed", writer: `{"name":"id","type":"long"}`, datum: object{"id": int64(1)}, columns: []string{"id INT"}, want: "error: field id: the message was written with long here, which Avro does not make int of INT"},
		{name: "a union of more", writer: `{"name":"id","type":["null","int","string"]}`, datum: object{"id": int32(4)}, columns: []string{"id INT"}, want: `{"id":"4"}`},
		{name: "a union of more, the branch that does not fit", writer: `{"name":"id","type":["null","int","string"]}`, datum: object{"id": "x"}, columns: []string{"id INT"}, want: "error: field id: the message was written with string here"},
		{name: "a union for what is never null", writer: `{"name":"id","type":["null","int"]}`, datum: object{"id": nil}, columns: []string{"id INT NOT NULL"}, want: "error: field id: the message has null here, and the column is INT NOT NULL"},
		{name: "null last", writer: `{"name":"id","type":["int","null"]},{"name":"s","type":["string","null"]}`, datum: object{"id": 3, "s": nil}, columns: []string{"id INT", "s STRING"}, want: `{"id":"3","s":null}`},
		{name: "always null", writer: `{"name":"id","type":"null"}`, datum: object{"id": nil}, columns: []string{"id INT"}, want: `{"id":null}`},
		{name: "a record in another order and under another name", writer: `{"name":"x","type":"int"},` + address, datum: object{"x": 1, "at": object{"zip": "1", "city": "Ulm"}}, columns: []string{"at ROW<city STRING, street STRING, zip STRING NOT NULL>"}, want: `{"at":{"city":"Ulm","street":null,"zip":"1"}}`},
		{name: "records in arrays and maps", writer: `{"name":"a","type":{"type":"array","items":{"type":"record","name":"I","fields":[{"name":"n","type":"int"},{"name":"gone","type":"string"}]}}},{"name":"m","type":{"type":"map","values":["null","I"]}}`,
			datum:   object{"a": []any{object{"n": 1, "gone": "x"}, object{"n": 2, "gone": "y"}}, "m": object{"k": object{"n": 3, "gone": "z"}}},
			columns: []string{"a ARRAY<ROW<n BIGINT>>", "m MAP<STRING, ROW<n INT, o STRING>>"}, want: `{"a":[{"n":"1"},{"n":"2"}],"m":[["k",{"n":"3","o":null}]]}`},
		{name: "a fixed", writer: `{"name":"f","type":{"type":"fixed","name":"F","size":2}},{"name":"d","type":{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":5,"scale":1}}`,
			datum:   object{"f": []byte("ab"), "d": []byte{255, 255, 255, 254}},
			options: own(`{"name":"f","type":{"type":"fixed","name":"F","size":2}},{"name":"d","type":["null",{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":5,"scale":1}]}`),
			columns: []string{"f VARBINARY(2) NOT NULL", "d DECIMAL(5, 1)"}, want: `{"f":"6162","d":"-0.2"}`},
		{name: "an enum", writer: `{"name":"e","type":{"type":"enum","name":"E","symbols":["b","a"]}}`, datum: object{"e": "b"}, options: own(`{"name":"e","type":{"type":"enum","name":"E","symbols":["a","b"]}}`), columns: []string{"e STRING NOT NULL"}, want: `{"e":"b"}`},
		{name: "an enum's new symbol", writer: `{"name":"e","type":{"type":"enum","name":"E","symbols":["c"]}}`, datum: object{"e": "c"}, options: own(`{"name":"e","type":{"type":"enum","name":"E","symbols":["a","b"]}}`), columns: []string{"e STRING NOT NULL"}, want: "error: field e: an enum's symbol is none of those"},
		{name: "an enum's new symbol, with a default", writer: `{"name":"e","type":{"type":"enum","name":"E","symbols":["c"]}}`, datum: object{"e": "c"}, options: own(`{"name":"e","type":{"type":"enum","name":"E","symbols":["a","b"],"default":"a"}}`), columns: []string{"e STRING NOT NULL"}, want: `{"e":"a"}`},
		{name: "an enum for text", writer: `{"name":"e","type":{"type":"enum","name":"E","symbols":["c"]}}`, datum: object{"e": "c"}, columns: []string{"e STRING"}, want: "error: field e: the message was written with enum shop.E here"},
		{name: "milliseconds", writer: `{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"l","type":{"type":"long","logicalType":"local-timestamp-millis"}},{"name":"p","type":"long"},{"name":"n","type":{"type":"long","logicalType":"timestamp-micros"}}`,
			datum: object{"t": int64(1), "l": int64(2), "p": int64(3), "n": int64(4)}, columns: []string{"t TIMESTAMP(3)", "l TIMESTAMP(3)", "p TIMESTAMP(3)", "n BIGINT"},
			want: `{"t":"1970-01-01 00:00:00.001","l":"1970-01-01 00:00:00.002","p":"1970-01-01 00:00:00.003","n":"4"}`},
		{name: "local microseconds", writer: `{"name":"t","type":{"type":"long","logicalType":"local-timestamp-micros"}}`, datum: object{"t": int64(1000)}, columns: []string{"t TIMESTAMP(3)"},
			want: "error: field t: the message was written with long of local-timestamp-micros", lenient: `{"t":"1970-01-01 00:00:01.000"}`},
		{name: "Debezium's microseconds", writer: `{"name":"t","type":["null",{"type":"long","connect.name":"io.debezium.time.MicroTimestamp"}]}`, datum: object{"t": int64(1000)}, columns: []string{"t TIMESTAMP(3)"},
			want: "error: field t: the message was written with long of io.debezium.time.MicroTimestamp", lenient: `{"t":"1970-01-01 00:00:01.000"}`},
		{name: "Debezium's days", writer: `{"name":"t","type":{"type":"int","connect.name":"io.debezium.time.Date"}}`, datum: object{"t": 1}, columns: []string{"t DATE"}, want: `{"t":"1970-01-02"}`},
		{name: "a day for a time", writer: `{"name":"t","type":{"type":"int","logicalType":"date"}}`, datum: object{"t": 1}, columns: []string{"t TIME(0)"}, want: "error: field t: the message was written with int of date", lenient: `{"t":"00:00:00"}`},
		{name: "text for digits", writer: `{"name":"d","type":"string"}`, datum: object{"d": "1"}, columns: []string{"d DECIMAL(5, 2)"}, want: "error: field d: the message was written with text", lenient: `{"d":"0.49"}`},
		{name: "digits for text", writer: `{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":3}}`, datum: object{"d": []byte("1")}, columns: []string{"d STRING"}, want: "error: field d: the message was written with bytes of logical type decimal", lenient: `{"d":"1"}`},
		{name: "no record", writer: `"string"`, datum: "x", columns: []string{"id INT"}, want: "error: the message was written with string here"},
		{name: "a root that is a union", writer: `["null",{"type":"record","name":"R","fields":[{"name":"id","type":"int"}]}]`, datum: object{"id": 1}, columns: []string{"id INT"}, want: `{"id":"1"}`},
		{name: "a root that is null", writer: `["null",{"type":"record","name":"R","fields":[{"name":"id","type":"int"}]}]`, datum: nil, columns: []string{"id INT"}, want: "error: the message has null here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &registrytest.Registry{}
			schema := c.writer
			if strings.HasPrefix(schema, `{"name"`) {
				schema = record(schema)
			}
			p := payloadOf(t, c.options, c.columns...)
			message := written(t, g, 100+id, schema, c.datum)
			ask(t, p, c.columns, c.name, 100+id, schema, message)
			for _, p.Lenient = range []bool{false, true} {
				d, err := Format{HTTP: g.Client()}.NewDecoder(p)
				if err != nil {
					t.Fatal(err)
				}
				want := c.want
				if p.Lenient && c.lenient != "" {
					want = c.lenient
				}
				got, err := decode(d, p, message)
				if part, isError := strings.CutPrefix(want, "error: "); isError {
					var de *changelog.DataError
					if !errors.As(err, &de) || !strings.Contains(err.Error(), part) {
						t.Errorf("lenient %v: %s, %v; want %s", p.Lenient, got, err, want)
					}
				} else if err != nil || got != want {
					t.Errorf("lenient %v: %s, %v; want %s", p.Lenient, got, err, want)
				}
			}
		})
	}
}

// A schema may refer to others, by subject and version.
func TestDecode_References(t *testing.T) {
	g := &registrytest.Registry{}
	const zip = `{"type":"record","name":"Zip","namespace":"shop.parts","fields":[{"name":"code","type":"string"}]}`
	const address = `{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"zip","type":"shop.parts.Zip"}]}`
	g.Register("zip", registrytest.Schema{Text: zip})
	g.Register("address", registrytest.Schema{Text: address, References: []registrytest.Reference{{Name: "shop.parts.Zip", Subject: "zip", Version: 1}}})
	g.Put(9, registrytest.Schema{
		Text:       `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"at","type":"Address"},{"name":"also","type":["null","shop.parts.Zip"]}]}`,
		References: []registrytest.Reference{{Name: "shop.Address", Subject: "address", Version: 1}, {Name: "shop.parts.Zip", Subject: "zip", Version: 1}},
	})
	g.Put(10, registrytest.Schema{Text: `"string"`, References: []registrytest.Reference{{Name: "x", Subject: "gone", Version: 3}}})
	p := payloadOf(t, nil, "at ROW<zip ROW<code STRING>>", "also ROW<code STRING>")
	d, err := Format{HTTP: g.Client()}.NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(d, p, []byte("\x00\x00\x00\x00\x09\x0289\x00")[:0:0])
	if err == nil {
		t.Errorf("an empty message: %s", got)
	}
	got, err = decode(d, p, []byte("\x00\x00\x00\x00\x09\x04AB\x02\x02C"))
	if want := `{"at":{"zip":{"code":"AB"}},"also":{"code":"C"}}`; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	var de *changelog.DataError
	if _, err := decode(d, p, []byte("\x00\x00\x00\x00\x0a\x00")); !errors.As(err, &de) || !strings.Contains(err.Error(), "what schema 10 refers to cannot be fetched") {
		t.Errorf("a reference to nothing: %v", err)
	}
}

// The schema is registered under the topic, as Flink registers it, and once.
func TestEncode_Registers(t *testing.T) {
	const derived = `{"type":"record","name":"record","namespace":"org.apache.flink.avro.generated","fields":[{"name":"id","type":"int"},` +
		`{"name":"at","type":["null",{"type":"record","name":"record_at","fields":[{"name":"d","type":["null",{"type":"int","logicalType":"date"}],"default":null}]}],"default":null},` +
		`{"name":"n","type":["null",{"type":"map","values":["null","int"]}],"default":null}]}`
	const own = `{"type":"record","name":"Order","doc":"x","fields":[{"name":"s","type":["string","null"]},{"name":"e","type":{"type":"enum","name":"E","symbols":["a","b"]}}]}`
	for _, c := range []struct {
		name    string
		options map[string]string
		key     bool
		columns []string
		row     changelog.Row
		subject string
		schema  string
		want    string
	}{
		{"value", nil, false, []string{"id INT NOT NULL", "at ROW<d DATE>", "n MULTISET<STRING>"}, changelog.Row{changelog.IntValue(1), {}, {}}, "orders-value", derived, "\x02\x00\x00"},
		{"key", nil, true, []string{"id INT NOT NULL", "at ROW<d DATE>", "n MULTISET<STRING>"}, changelog.Row{changelog.IntValue(1), {}, {}}, "orders-key", derived, "\x02\x00\x00"},
		{"subject", map[string]string{"subject": "mine"}, true, []string{"id INT NOT NULL", "at ROW<d DATE>", "n MULTISET<STRING>"}, changelog.Row{changelog.IntValue(1), {}, {}}, "mine", derived, "\x02\x00\x00"},
		{"old names", map[string]string{"schema-registry.subject": "mine"}, true, []string{"id INT NOT NULL", "at ROW<d DATE>", "n MULTISET<STRING>"}, changelog.Row{changelog.IntValue(1), {}, {}}, "mine", derived, "\x02\x00\x00"},
		{"schema", map[string]string{"schema": strings.ReplaceAll(own, ",", " ,\n")}, false, []string{"s STRING", "e STRING NOT NULL"}, changelog.Row{{}, changelog.StringValue("b")}, "orders-value", own, "\x02\x02"},
		{"schema, not null", map[string]string{"schema": own}, false, []string{"s STRING", "e STRING NOT NULL"}, changelog.Row{changelog.StringValue("x"), changelog.StringValue("a")}, "orders-value", own, "\x00\x02x\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &registrytest.Registry{}
			p := payloadOf(t, c.options, c.columns...)
			p.Key = c.key
			e, err := Format{HTTP: g.Client()}.NewEncoder(p)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(g.Requests()); n > 0 {
				t.Errorf("%d requests before the first row", n)
			}
			for range 2 {
				out, null, err := e.AppendPayload([]byte("x"), &changelog.Change{Row: c.row})
				if err != nil || null || string(out) != "x\x00\x00\x00\x00\x01"+c.want {
					t.Errorf("%q, %v", out, err)
				}
			}
			if got := g.Subject(c.subject); got != c.schema {
				t.Errorf("subject %s has %s\nwant %s", c.subject, got, c.schema)
			}
			if n := len(g.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
	g := &registrytest.Registry{}
	e, err := Format{HTTP: g.Client()}.NewEncoder(payloadOf(t, map[string]string{"schema": own}, "s STRING", "e STRING NOT NULL"))
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := e.AppendPayload([]byte("x"), &changelog.Change{Row: changelog.Row{{}, changelog.StringValue("c")}}); err == nil || !strings.Contains(err.Error(), "field e: the text is none of the symbols") || string(out) != "x" {
		t.Errorf("%q, %v", out, err)
	}
}
