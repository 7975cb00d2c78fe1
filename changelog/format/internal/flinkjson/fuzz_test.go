package flinkjson

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

var fuzzColumns = []string{
	"a INT", "b STRING", "c BIGINT", "d DECIMAL(5, 2)", "e DOUBLE", "f FLOAT", "g BOOLEAN", "h BYTES", "i DATE", "j TIME(0)",
	"k TIMESTAMP(3)", "l TIMESTAMP_LTZ(3)", "m MAP<STRING, INT>", "n ARRAY<INT>", "o ROW<x INT, y STRING, z ARRAY<ROW<x INT>>>",
	"p TINYINT", "q SMALLINT", "r MULTISET<STRING>", "s MAP<STRING, ARRAY<DOUBLE>>",
}

// seeds adds the made-up messages that Flink was asked about.
func seeds(f *testing.F) {
	file, err := os.Open(filepath.Join("..", "..", "..", "..", "testdata", "flink", "odd", "json.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	met := map[string]bool{}
	for dec := json.NewDecoder(file); ; {
		var o struct {
			Value   []byte
			Columns string
		}
		if err := dec.Decode(&o); err == io.EOF {
			break
		} else if err != nil {
			f.Fatal(err)
		}
		// The messages are about a column f of many types; here each type has a column.
		for _, c := range "abcdefghijklmnopqrs" {
			v := string(o.Value)
			if strings.HasPrefix(o.Columns, "f ") {
				v = strings.Replace(v, `"f"`, `"`+string(c)+`"`, 1)
			}
			if !met[v] && len(v) < 500 {
				met[v] = true
				f.Add([]byte(v))
			}
		}
	}
}

// FuzzReaders holds what the package is built on: the plain reader takes nothing that the exact one reads otherwise, in whichever mode, and
// what is no guess is the same with and without leniency.
func FuzzReaders(f *testing.F) {
	seeds(f)
	for _, s := range []string{
		`{"n":[{"x":1}],"m":{"a":[1,2]},"a":1}`, `{"o":{"z":[{"x":1},{"x":[{}]}]}}`, `{"m":{"a":{"b":{"c":1}}}}`, `{"h":"\u0041QID"}`, `{"h":"AQ\u003d="}`,
		`{"s":{"x":[1.5,"NaN",1e400]}}`, `{"b":{"q":[1e400,-0.0,{"a":1,"a":2}]}}`, `{"o":{"x":1,"y":"z","z":[],"x":2}}`, "{\"b\":\"\xF0\x80\x80\x80\xF7\xBF\xBF\xBF\"}",
	} {
		f.Add([]byte(s))
	}
	tab := tableOf(f, fuzzColumns...)
	type mode struct{ strict, lenient *Decoder }
	var modes []mode
	for _, o := range []map[string]string{
		nil, {"ignore-parse-errors": "true"}, {"fail-on-missing-field": "true"}, {"timestamp-format.standard": "ISO-8601"},
		{"decode.json-parser.enabled": "false"}, {"decode.json-parser.enabled": "false", "ignore-parse-errors": "true"},
	} {
		modes = append(modes, mode{decoderOf(f, tab, o, false), decoderOf(f, tab, o, true)})
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for i, m := range modes {
			strict, serr := decode(m.strict, tab, string(in))
			lenient, lerr := decode(m.lenient, tab, string(in))
			if serr == nil && (lerr != nil || lenient != strict) {
				t.Errorf("mode %d: default %s, lenient %s, %v", i, strict, lenient, lerr)
			}
			if m.strict.Tree {
				continue
			}
			b := changelog.NewBatch(tab)
			var p plain
			if !p.message(m.strict, b, in) {
				continue
			}
			took := text(b)
			for _, d := range []*Decoder{m.strict, m.lenient} {
				b := changelog.NewBatch(tab)
				var x exact
				if f := x.message(d, b, in); f != nil || text(b) != took {
					t.Errorf("mode %d, lenient %v: plain %s, exact %s, %+v", i, d.lenient, took, text(b), f)
				}
			}
		}
	})
}

// FuzzStandardLibrary compares with encoding/json, where the two have to agree: objects of plain members.
func FuzzStandardLibrary(f *testing.F) {
	seeds(f)
	f.Add([]byte(`{"a":1,"b":"é\u00e9\ud83d\ude00\b\f\n\r\t\/","c":-9223372036854775808,"e":1.5e-7,"g":true,"x":{"y":[null,{}]}}`))
	tab := tableOf(f, "a INT", "b STRING", "c BIGINT", "e DOUBLE", "g BOOLEAN")
	d := decoderOf(f, tab, nil, false)
	f.Fuzz(func(t *testing.T, in []byte) {
		if !utf8.Valid(in) || bytes.ContainsFunc(in, func(r rune) bool { return r < ' ' || r == '\uFEFF' }) {
			return // Flink allows more
		}
		b := changelog.NewBatch(tab)
		err := d.DecodePayload(b, in, nil)
		if err == nil && !json.Valid(in) {
			t.Fatal("taken, and it is no JSON")
		}
		var want map[string]any
		dec := json.NewDecoder(bytes.NewReader(in))
		dec.UseNumber()
		if dec.Decode(&want) != nil || want == nil || !json.Valid(in) {
			return
		}
		if err != nil {
			if fits(want) && !twice(in) && !strings.Contains(err.Error(), "twice") && !strings.Contains(err.Error(), "longer than") && !strings.Contains(err.Error(), "deeper than") {
				t.Fatalf("not taken: %v", err)
			}
			return
		}
		row := b.Changes[0].Row
		for i, name := range []string{"a", "b", "c", "e", "g"} {
			v := row[i]
			ok := true
			switch w := want[name].(type) {
			case nil:
				ok = v.IsNull()
			case bool:
				ok = v.Bool() == w || name == "b" && v.Str() == strconv.FormatBool(w)
			case string:
				ok = name != "b" || v.Str() == w || !utf8.ValidString(v.Str()) // a lone surrogate
			case json.Number:
				switch name {
				case "a", "c":
					n, err := w.Int64()
					ok = err != nil || v.Int() == n
				case "e":
					x, _ := w.Float64()
					ok = math.Float64bits(v.Double()) == math.Float64bits(x)
				case "b":
					ok = v.Str() == w.String()
				}
			}
			if !ok {
				t.Errorf("%s: %s, encoding/json has %v", name, text(b), want[name])
			}
		}
	})
}

// twice reports whether an object has a member twice, of which encoding/json sees the last one only.
func twice(in []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(in))
	if _, err := dec.Token(); err != nil {
		return false
	}
	met := map[json.Token]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil || met[name] {
			return err == nil
		}
		met[name] = true
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return false
		}
	}
	return false
}

// fits reports whether the members are of the kinds that their columns have.
func fits(m map[string]any) bool {
	number := func(name string, bits int) bool {
		n, ok := m[name].(json.Number)
		_, err := strconv.ParseInt(n.String(), 10, bits)
		return m[name] == nil || ok && err == nil
	}
	text := func() bool {
		_, ok := m["b"].(string)
		return ok || m["b"] == nil
	}
	float := func() bool {
		n, ok := m["e"].(json.Number)
		_, err := n.Float64()
		return m["e"] == nil || ok && err == nil
	}
	truth := func() bool {
		_, ok := m["g"].(bool)
		return ok || m["g"] == nil
	}
	return number("a", 32) && number("c", 64) && text() && float() && truth()
}
