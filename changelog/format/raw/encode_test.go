package raw

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// What Flink wrote, in testdata/flink/raw_*, is written again where records are assembled; here are the edges.
func TestEncode(t *testing.T) {
	str, num := changelog.StringValue, changelog.IntValue
	for _, c := range []struct {
		typ, charset, endian string
		in                   changelog.Value
		want                 string // what Java writes
		guess                bool   // an error by default
	}{
		{typ: "BOOLEAN", in: changelog.BoolValue(true), want: "\x01"},
		{typ: "BOOLEAN", in: changelog.BoolValue(false), want: "\x00"},
		{typ: "TINYINT", in: num(-128), want: "\x80"},
		{typ: "SMALLINT", in: num(-32768), want: "\x80\x00"},
		{typ: "SMALLINT", endian: "little-endian", in: num(-32768), want: "\x00\x80"},
		{typ: "INT", in: num(-2), want: "\xFF\xFF\xFF\xFE"},
		{typ: "INT", endian: "LITTLE-ENDIAN", in: num(-2), want: "\xFE\xFF\xFF\xFF"},
		{typ: "BIGINT", in: num(math.MinInt64), want: "\x80\x00\x00\x00\x00\x00\x00\x00"},
		{typ: "FLOAT", endian: "little-endian", in: changelog.FloatValue(-1), want: "\x00\x00\x80\xBF"},
		{typ: "DOUBLE", in: changelog.DoubleValue(math.Copysign(0, -1)), want: "\x80\x00\x00\x00\x00\x00\x00\x00"},
		{typ: "BYTES", in: changelog.BytesValue([]byte{0, 255}), want: "\x00\xFF"},
		{typ: "BINARY(1)", in: changelog.BytesValue(nil), want: ""},
		{typ: "STRING", in: str(""), want: ""},
		{typ: "STRING", in: str("é😀\n"), want: "é😀\n"},
		{typ: "CHAR(1)", in: str("longer"), want: "longer"},
		{typ: "STRING", in: str("a\xED\xA0\xBDb\xED\xB8\x80"), want: "a?b?", guess: true},
		{typ: "STRING", in: str("\xFFx\xED\xA0"), want: "?x??", guess: true},
		{typ: "STRING", charset: "latin1", in: str("grüße"), want: "gr\xFC\xDFe"},
		{typ: "STRING", charset: "ISO-8859-1", in: str("a中😀"), want: "a??", guess: true},
		{typ: "STRING", charset: "US-ASCII", in: str("aé\x7F"), want: "a?\x7F", guess: true},
		{typ: "STRING", charset: "UTF-16", in: str(""), want: ""},
		{typ: "STRING", charset: "UTF-16", in: str("a😀"), want: "\xFE\xFF\x00a\xD8\x3D\xDE\x00"},
		{typ: "STRING", charset: "UTF-16BE", in: str("\uFFFD\uFEFF"), want: "\xFF\xFD\xFE\xFF"},
		{typ: "STRING", charset: "UTF-16LE", in: str("a😀"), want: "a\x00\x3D\xD8\x00\xDE"},
		{typ: "STRING", charset: "UTF-16LE", in: str("\xED\xB8\x80"), want: "\xFD\xFF", guess: true},
	} {
		options := map[string]string{}
		if c.charset != "" {
			options["charset"] = c.charset
		}
		if c.endian != "" {
			options["endianness"] = c.endian
		}
		for _, lenient := range []bool{false, true} {
			_, p := payload(t, c.typ, options, lenient)
			e, err := Format{}.NewEncoder(p)
			if err != nil {
				t.Fatal(err)
			}
			out, null, err := e.AppendPayload([]byte("before"), &changelog.Change{Row: changelog.Row{{}, c.in}})
			var de *changelog.DataError
			switch {
			case c.guess && !lenient:
				if !errors.As(err, &de) || de.Field != "v" || !strings.Contains(de.Reason, "does not have") || string(out) != "before" {
					t.Errorf("%s in %q: %v, %q", c.typ, c.charset, err, out)
				}
			case err != nil || null || string(out) != "before"+c.want:
				t.Errorf("%s in %q %s: %q, %v, %v, want %q", c.typ, c.charset, c.endian, out, null, err, c.want)
			}
		}
	}
}

func TestEncode_Refuses(t *testing.T) {
	for _, c := range []struct {
		typ  string
		row  changelog.Row
		want string
	}{
		{"TINYINT", changelog.Row{{}, changelog.IntValue(128)}, "a number beyond TINYINT"},
		{"SMALLINT", changelog.Row{{}, changelog.IntValue(-32769)}, "a number beyond SMALLINT"},
		{"INT", changelog.Row{{}, changelog.IntValue(math.MaxInt64)}, "a number beyond INT"},
		{"INT", changelog.Row{{}, changelog.StringValue("1")}, "the value is no INT"},
		{"STRING", changelog.Row{{}, changelog.BytesValue(nil)}, "the value is no STRING"},
		{"STRING", changelog.Row{{}, changelog.UnchangedValue()}, "the value is no STRING"},
		{"STRING", changelog.Row{{}}, "lacks the column"},
	} {
		for _, lenient := range []bool{false, true} {
			_, p := payload(t, c.typ, nil, lenient)
			e, err := Format{}.NewEncoder(p)
			if err != nil {
				t.Fatal(err)
			}
			var de *changelog.DataError
			if _, _, err := e.AppendPayload(nil, &changelog.Change{Row: c.row}); !errors.As(err, &de) || de.Field != "v" || !strings.Contains(de.Reason, c.want) {
				t.Errorf("%s: %v, want %q", c.typ, err, c.want)
			}
		}
	}
}

func TestEncode_Null(t *testing.T) {
	for _, typ := range []string{"STRING", "BYTES", "INT", "BOOLEAN"} {
		_, p := payload(t, typ, nil, false)
		e, err := Format{}.NewEncoder(p)
		if err != nil {
			t.Fatal(err)
		}
		if out, null, err := e.AppendPayload([]byte{7}, &changelog.Change{Row: make(changelog.Row, 2)}); err != nil || !null || !bytes.Equal(out, []byte{7}) {
			t.Errorf("%s: %v, %v, %v", typ, out, null, err)
		}
	}
}

// What is written clean is read back the same, in every charset.
func FuzzEncodeCharset(f *testing.F) {
	for c := range noCharset {
		for _, s := range []string{"", "a", "é", "中", "😀", "\uFEFFa", "\uFFFD", "\xED\xA0\x80", "\xFF", "a\xED"} {
			f.Add(uint8(c), s)
		}
	}
	tab, _ := payload(f, "STRING", nil, true)
	f.Fuzz(func(t *testing.T, n uint8, s string) {
		c := charset(n % uint8(noCharset))
		out, clean := c.encode(nil, []byte(s))
		if clean && !utf8.ValidString(s) {
			t.Fatalf("%s: %q is clean and no UTF-8", c, s)
		}
		if !clean {
			return
		}
		back, ok := c.decode(changelog.NewBatch(tab), out)
		if !ok || string(back) != s {
			t.Fatalf("%s: %q is written as %q and read back as %q, %v", c, s, out, back, ok)
		}
	})
}
