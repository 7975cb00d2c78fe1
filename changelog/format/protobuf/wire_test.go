package protobuf

import (
	"encoding/hex"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flinksink/flinksink/changelog"
)

// wireCase is a message that generated code does not write.
type wireCase struct {
	columns string
	message string // in hex; or as it is, after a "!"
	want    string // by default
	lenient string // "" for the same
}

func (c *wireCase) bytes(t testing.TB) []byte {
	t.Helper()
	message, raw := strings.CutPrefix(c.message, "!")
	if raw {
		return []byte(message)
	}
	b, err := hex.DecodeString(c.message)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wireCases() []wireCase {
	nested := func(n int) []byte { // node, and n deep next
		var m []byte
		for range n {
			m = protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), m)
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, 21, protowire.BytesType), m)
	}
	groups := strings.Repeat("\xa3\x06", 101) + strings.Repeat("\xa4\x06", 101) // field 100
	return []wireCase{
		{"i32 INT, st STRING, db DOUBLE, en STRING", "", `{"i32":null,"st":null,"db":null,"en":null}`, ""},
		{"u32 INT", "10ffffffff0f", `{"u32":"-1"}`, ""},
		{"u32 INT", "10ffffffffffffffffff01", `{"u32":"-1"}`, ""},
		{"i32 INT", "08ffffffff1f", "error: changelog: field i32: an integer has more than 32 bits", `{"i32":"-1"}`},
		{"i64 BIGINT", "30ffffffffffffffffff03", "error: changelog: field i64: an integer has more than 64 bits", `{"i64":"-1"}`},
		{"s32 INT, s64 BIGINT", "18014003", `{"s32":"-1","s64":"-2"}`, ""},
		{"bo BOOLEAN", "6802", "error: changelog: field bo: neither true nor false", `{"bo":"TRUE"}`},
		{"st STRING", "7202ff41", "error: changelog: field st: the text is not UTF-8", `{"st":"�A"}`},
		{"i32 INT", "7202ff41", `{"i32":null}`, ""}, // proto2 keeps such text as bytes
		{"by_name MAP<STRING, STRING>", "9201050a01ff1007", "error: changelog: field by_name[*].key: the text is not UTF-8", "error: "},
		{"by_name MAP<STRING, STRING>", "9201050a0161100792010762016110031007", `{"by_name":[["","SEVEN"],["a","SEVEN"]]}`, ""},
		{"by_name MAP<STRING, STRING>", "9201050a016110079201050a01611003", "error: changelog: field by_name: a map has a key twice", `{"by_name":[["a","THREE"]]}`},
		{"by_name MAP<STRING, STRING>", "9201050a016110079201050a01621001", "error: changelog: field by_name[*].value: an enum has a number without a name", `{"by_name":[["a","SEVEN"]]}`},
		{"by_name MAP<STRING, STRING>", "9201050a01621001", "error: ", `{"by_name":null}`},
		{"by_name MAP<STRING, STRING>", "920100", `{"by_name":[["","ZERO"]]}`, ""}, // the first constant
		{"en STRING, i32 INT", "8001070801800109", "error: changelog: field en: an enum has a number without a name", `{"en":"LATE","i32":"1"}`},
		{"ens ARRAY<INT>", "8a0103070903880103", "error: ", `{"ens":["7","3","3"]}`},
		{"ens ARRAY<INT>", "8a0100", `{"ens":null}`, ""},
		{"ens ARRAY<INT>", "8a010109", "error: ", `{"ens":null}`},
		{"i32 INT", "0d00000000", "error: changelog: field i32: the field has another type in the message", `{"i32":null}`},
		{"st STRING", "0d00000000", `{"st":null}`, ""}, // another column's trouble
		{"node ROW<a INT, b STRING, next ROW<a INT>>", "aa01040801" + "1a00" + "aa01071201781a020805", `{"node":{"a":"1","b":"x","next":{"a":"5"}}}`, ""},
		{"node ROW<a INT>", "aa01020801" + "aa010108", "error: changelog: field node: the message ends inside a field", "error: "},
		{"node ROW<a INT>", "aa01020801" + "aa01031a0108", "error: changelog: field node.next: the message ends", "error: "},
		{"node ROW<a INT>", "aa010108" + "aa010105", "error: ", "error: "}, // two halves are no message
		{"left ROW<a INT, b STRING>, right INT", "c201020801" + "c80107" + "c2010312017a", "error: changelog: field left: a message of a oneof is there again", `{"left":{"a":"1","b":"z"},"right":null}`},
		{"left ROW<a INT, b STRING>, right INT", "c201020801" + "c2010312017a", `{"left":{"a":"1","b":"z"},"right":null}`, ""},
		{"left ROW<a INT, b STRING>, right INT", "c201020801" + "d2010161", `{"left":null,"right":null}`, ""}, // by a member without a column
		{"inside ROW<x INT, y STRING>", "bb010801" + "bc01" + "bb01120161bc01", `{"inside":{"x":"1","y":"a"}}`, ""},
		{"inside ROW<x INT, y STRING>", "bb010801", "error: changelog: the message ends inside a field", "error: "},
		{"inside ROW<x INT, y STRING>", "bb010801c401", "error: changelog: a group ends that did not begin", "error: "},
		{"i32 INT", "bc01", "error: changelog: a group ends that did not begin", "error: "},
		{"i32 INT", "0f", "error: changelog: a field has a wire type that does not exist", "error: "},
		{"i32 INT", "00", "error: changelog: a field has the number 0", "error: "},
		{"i32 INT", "72ffffffff0f", "error: changelog: a length is negative", "error: "},
		{"i32 INT", "888080801008", `{"i32":"8"}`, ""},    // and its upper bits do not count
		{"i32 INT", "8880808080000a", `{"i32":"10"}`, ""}, // a tag may be longer than it has to be
		{"i32 INT", "c20c020801", `{"i32":null}`, ""},     // strict is whole
		{"i32 INT", "c20c021001", "error: changelog: field strict.must: the required field is absent", "error: "},
		{"i32 INT", "c20c021001" + "c20c020801", `{"i32":null}`, ""}, // together
		{"strict ROW<may INT>", "c20c021001" + "c20c020801", `{"strict":{"may":"1"}}`, ""},
		{"i32 INT", "ca0c0212" + "00", "error: changelog: field stricts.value.must: the required field is absent", "error: "},
		{"stricts MAP<INT, ROW<must INT>>", "ca0c0212" + "00", "error: changelog: field stricts[*].value.must: the required field is absent", "error: "},
		{"stricts MAP<INT, ROW<must INT>>", "ca0c0608091202" + "0805", `{"stricts":[["9",{"must":"5"}]]}`, ""},
		{"i32 INT", "!" + string(nested(99)), `{"i32":null}`, ""},
		{"i32 INT", "!" + string(nested(100)), "error: ", "error: "},
		{"node ROW<next ROW<a INT>>", "!" + string(nested(100)), "error: changelog: field node.next.next.next", "error: "},
		{"i32 INT", "!" + groups[:200] + groups[len(groups)-200:], `{"i32":null}`, ""},
		{"i32 INT", "!" + groups, "error: changelog: messages are nested more than 100 deep", "error: "},
	}
}

// What protobuf-java makes of them; odd/protobuf-more.jsonl has Flink's answers.
func TestDecode_Wire(t *testing.T) {
	f := Format{Files: testFiles(t)}
	for _, c := range wireCases() {
		p := payloadOf(t, with("wide.Wide"), splitColumns(c.columns)...)
		if c.lenient == "" {
			c.lenient = c.want
		}
		for _, want := range []string{c.want, c.lenient} {
			got := decodeText(t, f, p, c.bytes(t))
			if strings.HasPrefix(want, "error: ") && !strings.HasPrefix(got, want) || !strings.HasPrefix(want, "error: ") && got != want {
				t.Errorf("%s %.60x, lenient %v: %s\nwant %s", c.columns, c.bytes(t), p.Lenient, got, want)
			}
			p.Lenient = true
		}
	}
}

// splitColumns splits "a INT, b ROW<x INT, y INT>" at the commas that are in no brackets.
func splitColumns(s string) (cols []string) {
	depth, start := 0, 0
	for i, c := range s + "," {
		switch {
		case c == '<':
			depth++
		case c == '>':
			depth--
		case c == ',' && depth == 0:
			cols = append(cols, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	return cols
}

// What is absent, in proto2 with 'read-default-values'.
func TestDecode_Defaults(t *testing.T) {
	p := payloadOf(t, with("wide.Wide", "read-default-values", "true"), wideColumns...)
	got := decodeText(t, Format{Files: testFiles(t)}, p, nil)
	want := `{"i32":"-5","u32":"0","s32":"0","f32":"0","sf32":"0","i64":"0","u64":"0","s64":"0","f64":"0","sf64":"0","fl":"0.0","db":"1.5","bo":"FALSE","st":"none","by":"","en":"LATE","ens":[],"by_name":[],"by_flag":[],"by_long":[],` +
		`"node":{"a":"0","b":"","next":{"a":"0","b":""}},"nodes":[],"inside":{"x":"0","y":""},"left":{"a":"0","b":""},"right":"0","strict":{"must":"0","may":"0"},"stricts":[]}`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestDecode_IgnoreParseErrors(t *testing.T) {
	f := Format{Files: testFiles(t)}
	p := payloadOf(t, with("wide.Wide", "ignore-parse-errors", "true"), "i32 INT", "bo BOOLEAN")
	for message, want := range map[string]string{
		"\x08": "nothing", "\x08\x01": `{"i32":"1","bo":null}`,
		// What Flink would guess at is no parse error, which the option hides.
		"\x68\x02": "error: changelog: field bo: neither true nor false; Flink would read TRUE",
	} {
		if got := decodeText(t, f, p, []byte(message)); got != want {
			t.Errorf("%x: %s, want %s", message, got, want)
		}
	}
	for _, ignore := range []string{"true", "false"} {
		d, err := f.NewDecoder(payloadOf(t, with("wide.Wide", "ignore-parse-errors", ignore), "i32 INT"))
		if err != nil {
			t.Fatal(err)
		}
		null := d.(interface {
			DecodeNull(*changelog.Batch, *changelog.Record) error
		})
		if err := null.DecodeNull(changelog.NewBatch(nil), nil); (err != nil) != (ignore == "false") {
			t.Errorf("null, ignore %s: %v", ignore, err)
		}
	}
}

// Many small messages of one field, and arrays of a type that is empty on the wire, take time and memory in proportion to the message.
func TestDecode_IsBounded(t *testing.T) {
	f := Format{Files: testFiles(t)}
	many := strings.Repeat("\xaa\x01\x02\x08\x01", 1<<18)
	if got := decodeText(t, f, payloadOf(t, with("wide.Wide"), "node ROW<a INT>"), []byte(many)); got != `{"node":{"a":"1"}}` {
		t.Errorf("merged: %.200s", got)
	}
	const deep = 12
	wide := "nodes ARRAY<" + strings.Repeat("ROW<a INT, b STRING, next ", deep) + "ROW<a INT>" + strings.Repeat(">", deep) + ">"
	p := payloadOf(t, with("wide.Wide", "read-default-values", "true"), wide)
	got := decodeText(t, f, p, []byte(strings.Repeat("\xb2\x01\x00", 1<<18)))
	if !strings.Contains(got, "far more memory") {
		t.Errorf("elements: %.200s", got)
	}
}
