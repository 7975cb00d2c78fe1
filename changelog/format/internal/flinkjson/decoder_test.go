package flinkjson

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// tableOf makes a table of columns such as "a INT".
func tableOf(t testing.TB, columns ...string) *changelog.Table {
	t.Helper()
	s := &changelog.Schema{}
	for _, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		ty, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		s.Columns = append(s.Columns, changelog.Column{Name: name, Type: ty})
	}
	return &changelog.Table{Name: "t", Schema: s, Mode: changelog.Append}
}

func payloadOf(tab *changelog.Table, options map[string]string, lenient bool) changelog.Payload {
	p := changelog.Payload{Table: tab, Options: options, Lenient: lenient}
	for i := range tab.Schema.Columns {
		p.Columns = append(p.Columns, i)
		p.Names = append(p.Names, tab.Schema.Columns[i].Name)
	}
	return p
}

func decoderOf(t testing.TB, tab *changelog.Table, options map[string]string, lenient bool) *Decoder {
	t.Helper()
	o, err := ParseOptions("json", jsonOptions, options)
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder("json", payloadOf(tab, options, lenient), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// jsonOptions are those of the format json.
var jsonOptions = []string{
	"decode.json-parser.enabled", "encode.decimal-as-plain-number", "encode.ignore-null-fields", "fail-on-missing-field", "ignore-parse-errors",
	"map-null-key.literal", "map-null-key.mode", "timestamp-format.standard",
}

// text prints the rows of b.
func text(b *changelog.Batch) string {
	var out []byte
	for _, c := range b.Changes {
		if c.Row == nil {
			out = append(out, "null"...)
		} else {
			out = rowtext.AppendRow(out, b.Table.Schema, c.Row)
		}
	}
	return string(out)
}

func decode(d *Decoder, tab *changelog.Table, payload string) (string, error) {
	b := changelog.NewBatch(tab)
	err := d.DecodePayload(b, []byte(payload), nil)
	return text(b), err
}

func TestDecode_ErrorNamesThePlace(t *testing.T) {
	tab := tableOf(t, "id INT", "items ARRAY<ROW<name STRING, price DECIMAL(5, 2)>>", "m MAP<STRING, ROW<x INT>>", "r ROW<a ROW<b ARRAY<ARRAY<INT>>>>")
	for _, c := range []struct{ in, field string }{
		{`{"id":"secret"}`, "id"},
		{`{"items":[{"price":1},null,{"name":"n","price":"secret"}]}`, "items[2].price"},
		{`{"items":[{"price":1},{"price":12345678}]}`, "items[1].price"},
		{`{"m":{"secret":{"x":1},"secret2":{"x":"secret"}}}`, "m[*].x"},
		{`{"r":{"a":{"b":[[1],[2,"secret"]]}}}`, "r.a.b[1][1]"},
		{`[{"id":1},{"id":true}]`, "[1].id"},
		{`{"r":{"secret":1,"a":{"b":[[1,]]}}}`, "r.a.b[0]"},
		{`{"id":1`, ""},
	} {
		for _, tree := range []string{"true", "false"} {
			rows, err := decode(decoderOf(t, tab, map[string]string{"decode.json-parser.enabled": tree}, false), tab, c.in)
			var de *changelog.DataError
			if !errors.As(err, &de) {
				t.Errorf("%s: %v, not a DataError", c.in, err)
				continue
			}
			if rows != "" {
				t.Errorf("%s: rows %s in spite of the error", c.in, rows)
			}
			if strings.Contains(de.Error(), "secret") {
				t.Errorf("%s: the error shows a value or a key: %v", c.in, de)
			}
			if de.Reason == "" || tree == "true" && de.Field != c.field {
				t.Errorf("%s: field %q, want %q: %v", c.in, de.Field, c.field, de)
			}
		}
	}
}

// What is odd and yet clear is read, and in the same way by both readers.
func TestDecode_Clear(t *testing.T) {
	tab := tableOf(t, "i INT", "l BIGINT", "s STRING", "d DECIMAL(10, 2)", "f DOUBLE", "b BOOLEAN", "y BYTES", "ts TIMESTAMP(9)", "h INTERVAL SECOND(3)")
	for _, c := range []struct{ in, want string }{
		{`{"i":"12","l":"-9223372036854775808","d":"1.005","f":"-0"}`, `"i":"12","l":"-9223372036854775808","s":null,"d":"1.01","f":"-0.0"`},
		{`{"i":1.0,"l":1e3,"f":"0x1p3"}`, `"i":"1","l":"1000","s":null,"d":null,"f":"8.0"`},
		{` [ ] `, ``},
		{`{"s":"\u00e9\ud83d\ude00\/\n"}`, `"s":"é😀/\n"`},
		{`{"s":"\ud83d"}`, `"s":"\uD83D"`},
		{"{\"s\":\"\xED\xA0\xBD\xED\xB8\x80\"}", `"s":"😀"`},
		{"{\"s\":\"a\nb\"}", `"s":"a\nb"`},
		{`{"s":1.50}`, `"s":"1.50"`},
		{`{"s":{"x" : [1.5, "y"]}}`, `"s":"{\"x\":[1.5,\"y\"]}"`},
		{`{"b":" TRUE "}`, `"b":"TRUE"`},
		{`{"y":"AQ==AQI="}`, `"y":"010102"`},
		{`{"ts":"2024-01-02 24:00:00"}`, `"ts":"2024-01-03 00:00:00.000000000"`},
		{`{"h":-1}`, `"h":"-0 00:00:00.001"`},
		{"\xEF\xBB\xBF{\"i\":7}", `"i":"7"`},
	} {
		for _, lenient := range []bool{false, true} {
			rows, err := decode(decoderOf(t, tab, nil, lenient), tab, c.in)
			if err != nil || !strings.Contains(rows, c.want) {
				t.Errorf("%s: %s, %v; want %s", c.in, rows, err, c.want)
			}
		}
	}
}

// What Flink guesses is an error by default and Flink's answer when lenient.
func TestDecode_Guesses(t *testing.T) {
	tab := tableOf(t, "i INT", "f FLOAT", "s STRING", "d DECIMAL(3, 1)", "b BOOLEAN", "t TIME(0)", "ts TIMESTAMP(3)", "m MAP<STRING, INT>", "dt DATE")
	for _, c := range []struct{ in, lenient string }{
		{`{"b":"yes"}`, `"b":"FALSE"`},
		{`{"i":1.5}`, `"i":"1"`},
		{`{"f":1e39}`, `"f":"Infinity"`},
		{`{"d":99.95}`, `"d":null`},
		{`{"d":1e2147483646}`, `"d":null`},
		{`{"t":"24:00:00"}`, `"t":"00:00:00"`},
		{`{"t":"01:02:03.5"}`, `"t":"01:02:03"`},
		{`{"ts":"2023-02-30 00:00:00"}`, `"ts":"2023-02-28 00:00:00.000"`},
		{`{"m":{"a":1,"a":2}}`, `"m":[["a","2"]]`},
		{`{"i":1,"i":2}`, `"i":"2"`},
		{`{"s":{"a":12345678901234567.89}}`, `"s":"{\"a\":12345678901234567.89}"`}, // exact, since the table has a DECIMAL
		{`{"i":1} x`, `"i":"1"`},
		{``, ``},
		{`[null]`, `null`},
		{"{\"s\":\"\xC1\xA1\"}", `"s":"a"`},
		{"{\x00\"\x00i\x00\"\x00:\x001\x00}\x00", `"i":"1"`},
	} {
		rows, err := decode(decoderOf(t, tab, nil, false), tab, c.in)
		if exact := strings.Contains(c.in, "12345678901234567.89"); exact != (err == nil) {
			t.Errorf("%q: default: %s, %v", c.in, rows, err)
		}
		rows, err = decode(decoderOf(t, tab, nil, true), tab, c.in)
		if err != nil || !strings.Contains(rows, c.lenient) {
			t.Errorf("%q: lenient: %s, %v; want %s", c.in, rows, err, c.lenient)
		}
	}
	tab = tableOf(t, "s STRING")
	in := `{"s":{"a":12345678901234567.89}}`
	if rows, err := decode(decoderOf(t, tab, nil, false), tab, in); err == nil {
		t.Errorf("%s: %s", in, rows)
	}
	if rows, err := decode(decoderOf(t, tab, nil, true), tab, in); err != nil || !strings.Contains(rows, `{\"a\":1.2345678901234568E16}`) {
		t.Errorf("%s: %s, %v", in, rows, err)
	}
}

// Small messages must not ask for much: not of the stack, not of memory, not of time.
func TestDecode_Bombs(t *testing.T) {
	wide := []string{"s STRING", "d DECIMAL(38, 18)", "i INT"}
	for i := range 1000 {
		wide = append(wide, fmt.Sprintf("c%d INT", i))
	}
	tab := tableOf(t, append(wide, "a ARRAY<ROW<y INT>>")...)
	for name, in := range map[string]string{
		"depth in a column":       `{"s":` + strings.Repeat("[", 1e6),
		"depth in no column":      `{"z":` + strings.Repeat(`{"z":`, 1e6),
		"depth":                   strings.Repeat("[", 1e6),
		"depth, closed":           `{"z":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + "}",
		"rows":                    "[" + strings.Repeat("{},", 1e5) + "{}]",
		"digits":                  `{"i":` + strings.Repeat("1", 1e6) + `}`,
		"exponent of an integer":  `{"i":1e999999999}`,
		"exponent of a decimal":   `{"d":"1e999999999999999999"}`,
		"exponent beyond 32 bits": `{"i":1e99999999999}`,
		"name":                    `{"` + strings.Repeat("n", 50_001) + `":1}`,
	} {
		for _, tree := range []string{"true", "false"} {
			for _, lenient := range []bool{false, true} {
				d := decoderOf(t, tab, map[string]string{"decode.json-parser.enabled": tree}, lenient)
				b := changelog.NewBatch(tab)
				if err := d.DecodePayload(b, []byte(in), nil); err == nil {
					t.Errorf("%s, parser %s, lenient %v: no error", name, tree, lenient)
				}
				if b.Bytes() > 64<<20+200*len(in) {
					t.Errorf("%s, parser %s, lenient %v: %d bytes for %d", name, tree, lenient, b.Bytes(), len(in))
				}
			}
		}
	}
	// Below the bounds all is well.
	in := `{"z":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `,"d":1e-999999999,"` + strings.Repeat("n", 50_000) + `":1}`
	if _, err := decode(decoderOf(t, tab, nil, false), tab, in); err != nil {
		t.Error(err)
	}
}

// A name that must be escaped, names in any order, more columns than a word has bits.
// Jackson's limit counts the characters of UTF-16, not the bytes of the message.
func TestDecode_LongStrings(t *testing.T) {
	tab := tableOf(t, "s STRING")
	d := decoderOf(t, tab, nil, false)
	for _, c := range []struct {
		s    string
		n    int
		fits bool
	}{
		{"a", maxString + 1, false}, {"é", maxString/2 + 1, true}, {"😀", maxString/2 + 1, false},
	} {
		b := changelog.NewBatch(tab)
		err := d.DecodePayload(b, []byte(`{"s":"`+strings.Repeat(c.s, c.n)+`"}`), nil)
		if (err == nil) != c.fits {
			t.Errorf("%d times %s: %v", c.n, c.s, err)
		}
		if err == nil && len(b.Changes[0].Row[0].Str()) != c.n*len(c.s) {
			t.Errorf("%d times %s: another text", c.n, c.s)
		}
	}
}

func TestDecode_Names(t *testing.T) {
	var columns []string
	for i := range 300 {
		columns = append(columns, fmt.Sprintf("c%d INT", i))
	}
	tab := tableOf(t, append(columns, `q"uo\te INT`, "größe INT")...)
	var in strings.Builder
	for i := 299; i >= 0; i-- {
		fmt.Fprintf(&in, `,"c%d":%d`, i, i)
	}
	message := `{"q\"uo\\te":-1,"gr\u00f6\u00dfe":-2` + in.String() + `}`
	for _, lenient := range []bool{false, true} {
		b := changelog.NewBatch(tab)
		if err := decoderOf(t, tab, nil, lenient).DecodePayload(b, []byte(message), nil); err != nil {
			t.Fatal(err)
		}
		row := b.Changes[0].Row
		for i := range 300 {
			if row[i].Int() != int64(i) {
				t.Errorf("c%d = %d", i, row[i].Int())
			}
		}
		if row[300].Int() != -1 || row[301].Int() != -2 {
			t.Errorf("escaped names: %d, %d", row[300].Int(), row[301].Int())
		}
	}
	if _, err := decode(decoderOf(t, tab, nil, false), tab, message[:len(message)-1]+`,"c299":1}`); err == nil {
		t.Error("a member twice in a wide row: no error")
	}
}

func TestDecode_Concurrent(t *testing.T) {
	tab := tableOf(t, "a INT", "b STRING", "m MAP<STRING, ARRAY<INT>>")
	d := decoderOf(t, tab, map[string]string{"ignore-parse-errors": "true"}, true)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				in := fmt.Sprintf(`{"a":%d,"b":"\u0041%d","m":{"x":[%d,%d]}}`, i, g, g, i)
				if i%3 == 0 {
					in = fmt.Sprintf(`{"a":"x","b":"A%d","m":{"x":[%d,%d]},"a2":1} `, g, g, i)
				}
				got, err := decode(d, tab, in)
				want := fmt.Sprintf(`{"a":"%d","b":"A%d","m":[["x",["%d","%d"]]]}`, i, g, g, i)
				if i%3 == 0 {
					want = strings.Replace(want, fmt.Sprintf(`"a":"%d"`, i), `"a":null`, 1)
				}
				if err != nil || got != want {
					t.Errorf("%s, %v; want %s", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A message's rows do not change when the decoder reads others.
func TestDecode_RowsStay(t *testing.T) {
	tab := tableOf(t, "s STRING", "a ARRAY<STRING>")
	d := decoderOf(t, tab, nil, true)
	b := changelog.NewBatch(tab)
	for i := range 200 {
		for _, in := range []string{`{"s":"\u0041%d","a":["x%d","\n"]}`, `{"s":"B%d","a":["x%d","\ud800"]}`} {
			if err := d.DecodePayload(b, fmt.Appendf(nil, in, i, i), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, c := range b.Changes {
		want := fmt.Sprintf("%c%d", "AB"[i%2], i/2)
		if c.Row[0].Str() != want || c.Row[1].Elems()[0].Str() != fmt.Sprintf("x%d", i/2) {
			t.Fatalf("row %d: %s", i, rowtext.AppendRow(nil, tab.Schema, c.Row))
		}
	}
}
