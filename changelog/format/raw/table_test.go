package raw

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// What the reader of Flink 2.2.0 made of bytes in every charset: all single bytes, bytes at random where there are two a character, and other names.
func TestCharsets_AsFlinkReads(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "flink.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	clean, replaced, decoders := 0, 0, map[string]changelog.PayloadDecoder{}
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var o struct {
			Charset string
			Value   []byte
			Read    string
		}
		if err := d.Decode(&o); err != nil {
			t.Fatal(err)
		}
		for _, lenient := range []bool{true, false} {
			tab, p := payload(t, "STRING", map[string]string{"charset": o.Charset}, lenient)
			dec := decoders[o.Charset+fmt.Sprint(lenient)]
			if dec == nil {
				if dec, err = (Format{}).NewDecoder(p); err != nil {
					t.Fatal(err)
				}
				decoders[o.Charset+fmt.Sprint(lenient)] = dec
			}
			b := changelog.NewBatch(tab)
			switch err := dec.DecodePayload(b, o.Value, nil); {
			case err != nil && !lenient && strings.Contains(o.Read, "\uFFFD"):
				replaced++
			case err != nil || b.Len() != 1 || b.Changes[0].Row[1].Str() != o.Read:
				t.Errorf("%s, lenient %v: %x: %v\n got %q\nwant %q", o.Charset, lenient, o.Value, err, b.Changes, o.Read)
			default:
				clean++
			}
		}
	}
	if clean < 900 || replaced < 300 {
		t.Errorf("%d clean, %d that are errors by default", clean, replaced)
	}
}

// What java.lang.String.getBytes, which Flink calls, makes of texts.
func TestCharsets_AsJavaWrites(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "written.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, codings := 0, map[string]coding{}
	for sc := bufio.NewScanner(f); sc.Scan(); n++ {
		words := strings.Split(sc.Text(), " ")
		units, err := hex.DecodeString(words[1])
		if err != nil {
			t.Fatal(err)
		}
		c := codings[words[0]]
		if c == nil {
			if c, err = codingOf(words[0]); err != nil || c == nil {
				t.Fatalf("%s: %v", words[0], err)
			}
			codings[words[0]] = c
		}
		out, clean := c.encode(nil, units8(units))
		if hex.EncodeToString(out) != words[2] {
			t.Errorf("%s: %s is written as %x, want %s", words[0], words[1], out, words[2])
		}
		if tab, _ := payload(t, "STRING", nil, true); clean {
			if back, ok := c.decode(changelog.NewBatch(tab), out); !ok || !utf8.Valid(back) {
				t.Errorf("%s: %x is not read again", words[0], out)
			}
		}
	}
	if n < 700 {
		t.Errorf("%d texts", n)
	}
}

// units8 brings units of UTF-16 into UTF-8, lone surrogates in three bytes.
func units8(p []byte) (s []byte) {
	for i := 0; i+1 < len(p); i += 2 {
		r := rune(p[i])<<8 | rune(p[i+1])
		if r&0xFC00 == 0xD800 && i+3 < len(p) && p[i+2]&0xFC == 0xDC {
			r = 0x10000 + (r&0x3FF)<<10 + rune(p[i+2]&3)<<8 + rune(p[i+3])
			i += 2
		}
		if r&0xF800 == 0xD800 {
			s = append(s, 0xED, 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
			continue
		}
		s = utf8.AppendRune(s, r)
	}
	return s
}

func FuzzTables(f *testing.F) {
	names := []string{"GBK", "Big5", "windows-31j", "x-windows-949", "windows-1252", "IBM037", "UTF-32"}
	var codings []coding
	for i, name := range names {
		c, err := codingOf(name)
		if err != nil || c == nil {
			f.Fatalf("%s: %v", name, err)
		}
		codings = append(codings, c)
		f.Add(uint8(i), []byte("a\x80\xff\x81\x40"))
		f.Add(uint8(i), []byte("é中\xed\xa0\x80\x00\x00\xfe\xff"))
	}
	tab, _ := payload(f, "STRING", nil, true)
	f.Fuzz(func(t *testing.T, n uint8, in []byte) {
		c := codings[int(n)%len(codings)]
		s, clean := c.decode(changelog.NewBatch(tab), in)
		if !utf8.Valid(s) || !clean && !strings.Contains(string(s), "\uFFFD") {
			t.Fatalf("%s: %x is read as %q, clean %v", c, in, s, clean)
		}
		out, clean := c.encode(nil, in)
		if !clean {
			return
		}
		back, ok := c.decode(changelog.NewBatch(tab), out)
		if again, _ := c.encode(nil, back); !ok || !bytes.Equal(again, out) {
			t.Fatalf("%s: %q is written as %x, read as %q and written as %x", c, in, out, back, again)
		}
	})
}
