package csv

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// payloadOf makes a payload of the columns given as "a INT".
func payloadOf(t testing.TB, options map[string]string, columns ...string) changelog.Payload {
	t.Helper()
	p := formattest.Payload(t, options, nil, columns...)
	p.Table.Mode = changelog.Append
	return p
}

func decoderOf(t testing.TB, p changelog.Payload) changelog.PayloadDecoder {
	t.Helper()
	return formattest.Decoder(t, Format{}, p)
}

func encoderOf(t testing.TB, p changelog.Payload) changelog.PayloadEncoder {
	t.Helper()
	return formattest.Encoder(t, Format{}, p)
}

// decode returns the row as text, "" for none, or the error as text.
func decode(t testing.TB, p changelog.Payload, message string) string {
	t.Helper()
	b := changelog.NewBatch(p.Table)
	if err := decoderOf(t, p).DecodePayload(b, []byte(message), nil); err != nil {
		var de *changelog.DataError
		if !errors.As(err, &de) || de.Reason == "" || b.Len() > 0 {
			t.Errorf("%q: %#v, %d rows", message, err, b.Len())
		}
		return err.Error()
	}
	if b.Len() == 0 {
		return ""
	}
	return string(rowtext.AppendRow(nil, p.Table.Schema, b.Changes[0].Row))
}

func TestNewDecoder_Refuses(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		columns []string
		want    string // in the error; "" for none
	}{
		{map[string]string{"field-delimiter": `\t`, "quote-character": "'", "escape-character": `\`, "null-literal": "", "allow-comments": "TRUE", "ignore-parse-errors": "false",
			"array-element-delimiter": "|", "write-bigdecimal-in-scientific-notation": "false"}, []string{"a INT"}, ""},
		{map[string]string{"field-delimiter": `\u0001`}, []string{"a INT"}, ""},
		{map[string]string{"field-delimiter": `\`}, []string{"a INT"}, ""},
		{map[string]string{"field-delimiter": "é"}, []string{"a INT"}, ""},
		{map[string]string{"field-delimiter": "😀"}, []string{"a INT"}, "single character"},
		{map[string]string{"field-delimiter": ";;"}, []string{"a INT"}, "'field-delimiter' must be a string with a single character"},
		{map[string]string{"quote-character": ""}, []string{"a INT"}, "'quote-character'"},
		{map[string]string{"escape-character": `\n`}, []string{"a INT"}, "'escape-character'"},
		{map[string]string{"array-element-delimiter": "::"}, []string{"a INT"}, "'array-element-delimiter'"},
		{map[string]string{"disable-quote-character": "true", "quote-character": "'"}, []string{"a INT"}, "drop one of them"},
		{map[string]string{"disable-quote-character": "yes"}, []string{"a INT"}, "'true' or 'false'"},
		{map[string]string{"field-delimeter": ";"}, []string{"a INT"}, "csv: unknown option 'field-delimeter'; the nearest that the format has is 'field-delimiter'"},
		{map[string]string{"fail-on-missing-field": "true"}, []string{"a INT"}, "unknown option"},
		{map[string]string{"trim-spaces": "yes"}, []string{"a INT"}, "option 'trim-spaces' must be 'true' or 'false'"},
		{nil, []string{"a MAP<STRING, INT>"}, "column a: CSV has no type MAP<STRING, INT>"},
		{nil, []string{"a ARRAY<ARRAY<INT>>"}, "column a"},
		{nil, []string{"a ROW<x INT, y ROW<z INT>>"}, "column a"},
		{nil, []string{"a ARRAY<DECIMAL(5, 2)>", "b ROW<x BYTES, y TIME(0)>", "c MULTISET<STRING>"}, "column c"},
	} {
		p := payloadOf(t, c.options, c.columns...)
		_, err := Format{}.NewDecoder(p)
		_, err2 := Format{}.NewEncoder(p)
		for _, err := range []error{err, err2} {
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v %v: error %v, want %q in it", c.options, c.columns, err, c.want)
			}
		}
	}
}

// written is a line of testdata/written.txt.
type written struct {
	delimiter, quote, escape, text string
	message                        []byte
}

func readWritten(t testing.TB) (all []written) {
	t.Helper()
	f, err := os.Open("testdata/written.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		fields := strings.Split(sc.Text(), "\t")
		var raw [5][]byte
		for i := range raw {
			if raw[i], err = base64.StdEncoding.DecodeString(fields[i]); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, written{string(raw[0]), string(raw[1]), string(raw[2]), string(raw[3]), raw[4]})
	}
	if len(all) < 600 {
		t.Fatalf("%d lines", len(all))
	}
	return all
}

func (w *written) options() map[string]string {
	o := map[string]string{"field-delimiter": w.delimiter}
	if w.quote == "" {
		o["disable-quote-character"] = "true"
	} else {
		o["quote-character"] = w.quote
	}
	if w.escape != "" {
		o["escape-character"] = w.escape
	}
	return o
}

func TestEncode_QuotesAsFlinkDid(t *testing.T) {
	for _, w := range readWritten(t) {
		p := payloadOf(t, w.options(), "i INT", "s STRING", "r ARRAY<STRING>")
		text := changelog.StringValue(w.text)
		row := changelog.Row{changelog.IntValue(1), text, changelog.ArrayValue([]changelog.Value{text, {}, changelog.StringValue("z")})}
		got, null, err := encoderOf(t, p).AppendPayload([]byte("x"), &changelog.Change{Row: row})
		if err != nil || null || !bytes.Equal(got[1:], w.message) {
			t.Errorf("delimiter %q, quote %q, escape %q, text %q:\n got   %q, %v\n Flink %q", w.delimiter, w.quote, w.escape, w.text, got, err, w.message)
		}
	}
}

// What Flink answered is checked where records are assembled; here is what is stricter, and what else is not among its answers.
func TestDecode_Guesses(t *testing.T) {
	for _, c := range []struct {
		columns         []string
		options         map[string]string
		in              string
		strict, lenient string // a row, or a part of the error
	}{
		{[]string{"f BOOLEAN"}, nil, "yes", "field f: neither true nor false", `{"f":"FALSE"}`},
		{[]string{"f BOOLEAN", "g INT"}, nil, ",7", `{"f":"FALSE","g":"7"}`, `{"f":"FALSE","g":"7"}`},
		{[]string{"f BOOLEAN", "g INT"}, map[string]string{"null-literal": "NULL"}, ",7", "neither true nor false", `{"f":"FALSE","g":"7"}`},
		{[]string{"f BOOLEAN", "g INT"}, map[string]string{"null-literal": `\N`, "escape-character": `\`}, `\N,7`, `{"f":"FALSE","g":"7"}`, `{"f":"FALSE","g":"7"}`},
		{[]string{"f DECIMAL(3, 1)"}, nil, "100", "more digits than DECIMAL(3, 1)", `{"f":null}`},
		{[]string{"f DOUBLE"}, nil, "1e400", "beyond the range of DOUBLE", `{"f":"Infinity"}`},
		{[]string{"f FLOAT"}, nil, "-1e39", "beyond the range of FLOAT", `{"f":"-Infinity"}`},
		{[]string{"f DATE"}, nil, "2023-02-29", "not a day of the calendar", `{"f":"2023-03-01"}`},
		{[]string{"f DATE"}, nil, "1582-10-10", "not a day of the calendar", `{"f":"1582-10-20"}`},
		{[]string{"f DATE"}, nil, "1500-02-29", "not a value of type DATE", "not a value of type DATE"},
		{[]string{"f TIMESTAMP(3)"}, nil, "2023-02-29 00:00:00", "Flink would change it", `{"f":"2023-02-28 00:00:00.000"}`},
		{[]string{"f TIME(0)"}, nil, "01:02:03.4", "a fraction of a second", `{"f":"01:02:03"}`},
		{[]string{"f ROW<x INT>"}, nil, "1;2", "more fields than its type", `{"f":{"x":"1"}}`},
		{[]string{"f INT"}, nil, "1\nsecret", "there is text after the first line", `{"f":"1"}`},
		{[]string{"f INT"}, map[string]string{"ignore-parse-errors": "true"}, "1\nsecret", "there is text after the first line", `{"f":"1"}`},
		{[]string{"f INT"}, nil, "1\r\n \n", `{"f":"1"}`, `{"f":"1"}`},
		{[]string{"f STRING"}, nil, "\xFE\xFF\x00a", "UTF-16", `{"f":"a"}`},
		{[]string{"f STRING"}, nil, "\xC1\x81b", "not valid UTF-8", `{"f":"Ab"}`},
		{[]string{"f INT"}, nil, "", "the message is empty", "the message is empty"},
		{[]string{"f INT", "g INT"}, nil, ",1", "set 'csv.null-literal' = ''", "set 'csv.null-literal' = ''"},
		{[]string{"f INT", "g INT"}, nil, "1", "field g: the line has fewer cells", "field g: the line has fewer cells"},
		{[]string{"f INT"}, nil, "1,secret", "the line has more cells", "the line has more cells"},
	} {
		p := payloadOf(t, c.options, c.columns...)
		for _, want := range []string{c.strict, c.lenient} {
			got := decode(t, p, c.in)
			if got != want && !(strings.HasPrefix(got, "changelog: ") && strings.Contains(got, want)) || strings.Contains(got, "secret") {
				t.Errorf("%v %v %q, lenient %v:\n got  %s\n want %s", c.columns, c.options, c.in, p.Lenient, got, want)
			}
			p.Lenient = true
		}
	}
}

// What Flink wrote and cannot read: NULLs that are nothing.
func TestEncode_Null(t *testing.T) {
	for _, c := range []struct {
		columns []string
		null    string
		row     changelog.Row
		want    string
	}{
		{[]string{"s STRING"}, "", changelog.Row{{}}, ``},
		{[]string{"s STRING"}, "", changelog.Row{changelog.StringValue("")}, ``},
		{[]string{"i INT", "a ARRAY<INT>", "s ARRAY<STRING>", "r ROW<x INT, y STRING>", "e STRING"}, "null",
			changelog.Row{changelog.IntValue(2), {}, changelog.ArrayValue([]changelog.Value{changelog.StringValue(""), {}}), {}, {}}, `2,null,;null,null,null`},
		{[]string{"i INT", "r ROW<x INT, y STRING>"}, "null", changelog.Row{{}, changelog.RowValue([]changelog.Value{{}, changelog.StringValue("")})}, `null,null;`},
	} {
		p := payloadOf(t, map[string]string{"null-literal": c.null}, c.columns...)
		got, null, err := encoderOf(t, p).AppendPayload(nil, &changelog.Change{Row: c.row})
		if err != nil || null || string(got) != c.want {
			t.Errorf("%v: %q, %v, %v; want %q", c.columns, got, null, err, c.want)
		}
	}
}

func TestEncode_Refuses(t *testing.T) {
	for _, c := range []struct {
		typ  string
		v    changelog.Value
		want string
	}{
		{"STRING", changelog.UnchangedValue(), "field v: the value was not sent"},
		{"STRING", changelog.IntValue(1), "field v: the row has a value of another type"},
		{"STRING", changelog.StringValue("\xED\xA0\xBD"), "field v: the text is not UTF-8, or has a lone surrogate"},
		{"DECIMAL(3, 1)", changelog.DecimalValue(0, 1234, 2), "field v: the number has more digits"},
		{"ARRAY<INT>", changelog.ArrayValue([]changelog.Value{changelog.IntValue(1), changelog.BoolValue(true)}), "field v[1]: the row has a value of another type"},
		{"ROW<x INT>", changelog.RowValue(nil), "field v: the ROW does not have the fields"},
	} {
		out, _, err := encoderOf(t, payloadOf(t, nil, "v "+c.typ)).AppendPayload([]byte("x"), &changelog.Change{Row: changelog.Row{c.v}})
		if err == nil || !strings.Contains(err.Error(), c.want) || string(out) != "x" {
			t.Errorf("%s: %q, %v, want %s", c.typ, out, err, c.want)
		}
	}
	if _, _, err := encoderOf(t, payloadOf(t, nil, "v INT")).AppendPayload(nil, &changelog.Change{}); err == nil {
		t.Error("a row without the column: no error")
	}
}

func TestDecode_Bombs(t *testing.T) {
	p := payloadOf(t, map[string]string{"escape-character": `\`}, "a STRING", "b ARRAY<STRING>", "c DECIMAL(5, 2)")
	cells := make([]string, 1000)
	for i := range cells {
		cells[i] = "c" + strings.Repeat("x", i) + " STRING"
	}
	wide := payloadOf(t, nil, cells...)
	for name, c := range map[string]struct {
		p  changelog.Payload
		in string
	}{
		"cells":    {p, strings.Repeat(`"a""b",`, 1e6)},
		"escapes":  {p, strings.Repeat(`\`, 1e7)},
		"elements": {p, "x," + strings.Repeat(";", 1e6) + ",1"},
		"quotes":   {p, strings.Repeat(`"`, 1e7+1)},
		"lines":    {p, strings.Repeat("\n", 1e7) + "x"},
		"exponent": {p, "x,y,1e1000000000"},
		"doubled":  {wide, strings.Repeat(`"a""b",`, 999) + `"` + strings.Repeat("x", 1e6)},
	} {
		b := changelog.NewBatch(c.p.Table)
		err := decoderOf(t, c.p).DecodePayload(b, []byte(c.in), nil)
		if err == nil && name != "elements" {
			t.Errorf("%s: no error", name)
		}
		if n := b.Bytes(); n > 64<<20 {
			t.Errorf("%s: %d bytes of %d", name, n, len(c.in))
		}
	}
	long := strings.Repeat(`"\`, 1e6)
	out, _, err := encoderOf(t, p).AppendPayload(nil, &changelog.Change{Row: changelog.Row{changelog.StringValue(long), {}, {}}})
	if err != nil || len(out) != 2*len(long)+4 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
