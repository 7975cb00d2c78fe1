package raw

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

func payload(t testing.TB, typ string, options map[string]string, lenient bool) (*changelog.Table, changelog.Payload) {
	t.Helper()
	ty, err := changelog.ParseType(typ)
	if err != nil {
		t.Fatal(err)
	}
	// The payload's column is not the table's first.
	s := &changelog.Schema{Columns: []changelog.Column{{Name: "other", Type: changelog.Type{Root: changelog.RootInt}}, {Name: "v", Type: ty}}}
	tab := &changelog.Table{Name: "t", Schema: s}
	return tab, changelog.Payload{Table: tab, Columns: []int{1}, Names: []string{"v"}, Options: options, Lenient: lenient}
}

// The answers of testdata/flink/odd/raw.jsonl are checked where records are assembled; here is what is not in it.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		typ, charset, endian string
		in, want             string
		guess                bool // an error by default
	}{
		{typ: "INT", in: "\xFF\xFF\xFF\xFE", want: "-2"},
		{typ: "INT", endian: "little-endian", in: "\xFE\xFF\xFF\xFF", want: "-2"},
		{typ: "BIGINT", endian: "BIG-ENDIAN", in: "\x80\x00\x00\x00\x00\x00\x00\x00", want: "-9223372036854775808"},
		{typ: "SMALLINT", endian: "little-endian", in: "\x00\x80", want: "-32768"},
		{typ: "TINYINT", in: "\xFF", want: "-1"},
		{typ: "DOUBLE", endian: "little-endian", in: "\x00\x00\x00\x00\x00\x00\xF0\xBF", want: "-1.0"},
		{typ: "BOOLEAN", in: "\x02", want: "TRUE", guess: true},
		{typ: "BYTES", in: "\x00\xFF", want: "00ff"},
		{typ: "STRING", in: "é😀", want: "é😀"},
		{typ: "STRING", in: "a\xE4\xB8", want: "a\uFFFD", guess: true},
		{typ: "STRING", in: "\xED\xA0\x80x", want: "\uFFFDx", guess: true},
		{typ: "STRING", in: "\xC0\xAF\xF0\x9F\x98", want: "\uFFFD\uFFFD\uFFFD", guess: true},
		{typ: "STRING", in: "\xE0\x80\xF5", want: "\uFFFD\uFFFD\uFFFD", guess: true},
		{typ: "STRING", charset: "latin1", in: "gr\xFC\xDFe", want: "grüße"},
		{typ: "STRING", charset: "US-ASCII", in: "a\x80b", want: "a\uFFFDb", guess: true},
		{typ: "STRING", charset: "UTF-16", in: "\xFE\xFF\xD8\x3D\xDE\x00", want: "😀"},
		{typ: "STRING", charset: "UTF-16", in: "\xFF\xFEa\x00", want: "a"},
		{typ: "STRING", charset: "utf-16le", in: "a\x00", want: "a"},
		{typ: "STRING", charset: "UTF-16BE", in: "\xFE\xFF\x00a", want: "\uFEFFa"},
		{typ: "STRING", charset: "UTF-16", in: "\xD8\x00\x00a\xDC\x00", want: "\uFFFDa\uFFFD", guess: true},
		{typ: "CHAR(1)", in: "longer", want: "longer"},
	} {
		options := map[string]string{}
		if c.charset != "" {
			options["charset"] = c.charset
		}
		if c.endian != "" {
			options["endianness"] = c.endian
		}
		for _, lenient := range []bool{false, true} {
			tab, p := payload(t, c.typ, options, lenient)
			d, err := Format{}.NewDecoder(p)
			if err != nil {
				t.Fatal(err)
			}
			b := changelog.NewBatch(tab)
			err = d.DecodePayload(b, []byte(c.in), nil)
			if c.guess && !lenient {
				if err == nil {
					t.Errorf("%+v: no error", c)
				}
				continue
			}
			if err != nil {
				t.Errorf("%+v: %v", c, err)
				continue
			}
			row := b.Changes[0].Row
			if got := string(changelog.AppendText(nil, &tab.Schema.Columns[1].Type, row[1])); got != c.want || !row[0].IsNull() {
				t.Errorf("%+v: got %q", c, got)
			}
		}
	}
}

func TestDecode_WrongSize(t *testing.T) {
	for typ, size := range map[string]int{"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8} {
		tab, p := payload(t, typ, nil, true)
		d, err := Format{}.NewDecoder(p)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 10 {
			b := changelog.NewBatch(tab)
			if err := d.DecodePayload(b, make([]byte, n), nil); (err == nil) != (n == size) {
				t.Errorf("%s from %d bytes: %v", typ, n, err)
			}
		}
	}
}

func TestNewDecoder_Refuses(t *testing.T) {
	for _, c := range []struct {
		typ     string
		options map[string]string
		want    string
	}{
		{"DATE", nil, "no type DATE"},
		{"STRING", map[string]string{"charset": "KOI8-X"}, "option 'charset' is \"KOI8-X\", which is none that this format knows"},
		{"STRING", map[string]string{"charset": "ISO-2022-JP"}, "'charset'"},
		{"INT", map[string]string{"endianness": "middle"}, "'endianness'"},
		{"INT", map[string]string{"line-delimiter": "x"}, "option 'line-delimiter' came with Flink 2.1.3 and is not supported here; drop it if each message is one row"},
	} {
		_, p := payload(t, c.typ, c.options, false)
		if _, err := (Format{}).NewDecoder(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %q in it", c.typ, c.options, err, c.want)
		}
	}
	_, p := payload(t, "INT", nil, false)
	p.Columns, p.Names = []int{0, 1}, []string{"other", "v"}
	if _, err := (Format{}).NewDecoder(p); err == nil || !strings.Contains(err.Error(), "other, v") {
		t.Errorf("two columns: %v", err)
	}
	if _, err := (Format{}).NewEncoder(p); err == nil || !strings.Contains(err.Error(), "other, v") {
		t.Errorf("two columns, to write: %v", err)
	}
}

func FuzzCharset(f *testing.F) {
	for c := range noCharset {
		for _, s := range []string{"a", "é", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xD8\x00\xDC\x00", "\xFE\xFF", "\xF0\x9F\x98x\xE4"} {
			f.Add(uint8(c), []byte(s))
		}
	}
	tab, _ := payload(f, "STRING", nil, true)
	f.Fuzz(func(t *testing.T, c uint8, in []byte) {
		s, clean := charset(c%uint8(noCharset)).decode(changelog.NewBatch(tab), in)
		if !strings.Contains(string(s), "\uFFFD") && !clean {
			t.Error("not clean, and nothing was replaced")
		}
		if strings.ToValidUTF8(string(s), "?") != string(s) {
			t.Errorf("%q is no UTF-8", s)
		}
	})
}
