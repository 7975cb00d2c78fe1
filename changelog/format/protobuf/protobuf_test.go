package protobuf

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// flinkDir holds topics that Flink wrote, and proto/ their messages.
const flinkDir = "../../../testdata/flink"

func filesOf(t testing.TB, paths ...string) *protoregistry.Files {
	t.Helper()
	files, err := Load(context.Background(), paths...)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func testFiles(t testing.TB) *protoregistry.Files {
	t.Helper()
	return filesOf(t, filepath.Join(flinkDir, "proto"))
}

const (
	itemClass = "flinksink.testbed.Item"
	wideClass = "wide.WideOuterClass$Wide"
)

// itemColumns are those of the captured tables.
var itemColumns = []string{
	"id INT", "big BIGINT", "f FLOAT", "d DOUBLE", "ok BOOLEAN", "name STRING", "raw BYTES", "color STRING", "color_no INT", "inner ROW<a INT, b STRING>", "nums ARRAY<INT>",
	"tags ARRAY<STRING>", "inners ARRAY<ROW<a INT, b STRING>>", "counts MAP<STRING, INT>", "by_no MAP<INT, ROW<a INT, b STRING>>", "zig BIGINT", "fix INT", "maybe STRING", "left INT", "right STRING",
}

var wideColumns = []string{
	"i32 INT", "u32 INT", "s32 INT", "f32 INT", "sf32 INT", "i64 BIGINT", "u64 BIGINT", "s64 BIGINT", "f64 BIGINT", "sf64 BIGINT", "fl FLOAT", "db DOUBLE", "bo BOOLEAN", "st STRING", "by BYTES",
	"en STRING", "ens ARRAY<INT>", "by_name MAP<STRING, STRING>", "by_flag MAP<BOOLEAN, BYTES>", "by_long MAP<BIGINT, DOUBLE>", "node ROW<a INT, b STRING, next ROW<a INT, b STRING>>",
	"nodes ARRAY<ROW<a INT, next ROW<b STRING>>>", "inside ROW<x INT, y STRING>", "left ROW<a INT, b STRING>", "right INT", "strict ROW<must INT, may INT>", "stricts MAP<INT, ROW<must INT>>",
}

// payloadOf makes a payload of the columns given as "a INT".
func payloadOf(t testing.TB, options map[string]string, columns ...string) changelog.Payload {
	t.Helper()
	tab := &changelog.Table{Name: "t", Schema: &changelog.Schema{}, Mode: changelog.Append}
	p := changelog.Payload{Table: tab, Options: options}
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

func with(class string, more ...string) map[string]string {
	m := map[string]string{"message-class-name": class}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// decodeText is the row of a message as text, "nothing", or "error: ...".
func decodeText(t testing.TB, f Format, p changelog.Payload, message []byte) string {
	t.Helper()
	d, err := f.NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	b := changelog.NewBatch(p.Table)
	if err := d.DecodePayload(b, message, nil); err != nil {
		var de *changelog.DataError
		if !errors.As(err, &de) {
			t.Errorf("%v is no DataError", err)
		}
		return "error: " + err.Error()
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return string(rowtext.AppendRow(nil, p.Table.Schema, b.Changes[0].Row))
}

func TestNewDecoder_Refuses(t *testing.T) {
	f := Format{Files: testFiles(t)}
	for _, c := range []struct {
		options map[string]string
		columns []string
		want    string // in the error; "" for none
	}{
		{with(itemClass), itemColumns, ""},
		{with(wideClass), wideColumns, ""},
		{with("wide.Wide"), []string{"i32 INT"}, ""},
		{with(itemClass, "ignore-parse-errors", "TRUE", "read-default-values", "false", "write-null-string-literal", "x"), []string{"id INT"}, ""},
		{nil, []string{"id INT"}, "option 'message-class-name' is missing"},
		{with(itemClass, "ignore-parse-error", "true"), []string{"id INT"}, "unknown option 'ignore-parse-error'; the nearest that the format has is 'ignore-parse-errors'"},
		{with(itemClass, "read-default-values", "yes"), []string{"id INT"}, "must be 'true' or 'false'"},
		{with("flinksink.testbed.Nope"), []string{"id INT"}, "none of the message types that were given: flinksink.testbed.Inner, flinksink.testbed.Item, flinksink.testbed.OldItem, wide.WideOuterClass.Node"},
		{with(itemClass), []string{"id INT", "nope STRING", "big INT"}, "column nope: flinksink.testbed.Item has no field of this name"},
		{with(itemClass), []string{"id INT", "nope STRING", "big INT"}, "column big: the field is int64, which is no INT; make it BIGINT"},
		{with(itemClass), []string{"id BIGINT"}, "make it INT"},
		{with(itemClass), []string{"color_no BIGINT"}, "make it STRING (its name) or INT (its number)"},
		{with(itemClass), []string{"color_no SMALLINT"}, "make it STRING"},
		{with(itemClass), []string{"name DECIMAL(5, 2)"}, "make it STRING"},
		{with(itemClass), []string{"nums INT"}, "make it an ARRAY"},
		{with(itemClass), []string{"nums ARRAY<BIGINT>"}, "make it INT"},
		{with(itemClass), []string{"inner STRING"}, "make it a ROW"},
		{with(itemClass), []string{"inner ROW<c INT>"}, "column inner: column c: flinksink.testbed.Inner has no field"},
		{with(itemClass), []string{"counts ARRAY<INT>"}, "make it a MAP"},
		{with(itemClass), []string{"counts MAP<INT, INT>"}, "key: the field is string"},
		{with(itemClass), []string{"by_no MAP<INT, INT>"}, "make it a ROW"},
	} {
		d, err := f.NewDecoder(payloadOf(t, c.options, c.columns...))
		if c.want == "" && err != nil || c.want != "" && (err == nil || d != nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %v: error %v, want %q in it", c.options, c.columns, err, c.want)
		}
	}
	if _, err := (Format{}).NewDecoder(payloadOf(t, with(itemClass), "id INT")); err == nil || !strings.Contains(err.Error(), "set Format.Files") {
		t.Errorf("no files: %v", err)
	}
	if _, err := f.NewEncoder(payloadOf(t, with("wide.Wide"), "strict ROW<may INT>")); err == nil || !strings.Contains(err.Error(), "wide.Strict: the field must is required") {
		t.Errorf("required: %v", err)
	}
}

// Flink 2.2 wrote these rows: testdata/flink/protobuf_types and protobuf_read_defaults have the messages.
func TestEncode_AsFlinkWrote(t *testing.T) {
	i, s, null := changelog.IntValue, changelog.StringValue, changelog.Value{}
	row := func(v ...changelog.Value) changelog.Value { return changelog.RowValue(v) }
	list := func(v ...changelog.Value) changelog.Value { return changelog.ArrayValue(v) }
	pairs := func(v ...changelog.Value) changelog.Value { return changelog.MapValue(v) }
	rows := []changelog.Row{
		{i(1), i(-1), changelog.FloatValue(1.5), changelog.DoubleValue(0), changelog.BoolValue(true), s("ann"), changelog.BytesValue([]byte{0, 0xFF}), s("RED"), i(5), row(i(7), s("in")),
			list(i(1), i(-2), i(300)), list(s("x"), s("")), list(row(i(1), s("p")), row(i(2), s("q"))), pairs(s("k"), i(1)), pairs(i(3), row(i(4), s("m"))), i(-5), i(9), s("set"), i(3), s("both set")},
		make(changelog.Row, 20),
		{i(0), i(0), changelog.FloatValue(0), changelog.DoubleValue(0), changelog.BoolValue(false), s(""), changelog.BytesValue(nil), s("UNKNOWN"), i(0), row(null, null),
			list(null, i(0)), list(null, s("b")), null, pairs(s("z"), null), null, i(0), i(0), s(""), i(0), null},
		{i(1<<31 - 1), i(1<<63 - 1), null, null, null, s("😀"), null, s("NOPE"), i(77), null, list(), null, null, null, null, null, null, s("m"), null, s("only right")},
		{i(-1 << 31), i(-1 << 63), null, changelog.DoubleValue(1e300), null, null, null, s("GREEN"), i(1), row(i(-1), s("")), null, null, null, null, null, i(-1 << 63), i(-1), null, null, null},
	}
	f := Format{Files: testFiles(t)}
	for name, options := range map[string]map[string]string{
		"protobuf_types":         with(itemClass),
		"protobuf_read_defaults": with(itemClass, "read-default-values", "true", "write-null-string-literal", "<null>"),
	} {
		p := payloadOf(t, options, itemColumns...)
		p.Lenient = true // NOPE and 77 are none of the enum's
		e, err := f.NewEncoder(p)
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range captured(t, name) {
			got, null, err := e.AppendPayload([]byte("x"), &changelog.Change{Row: rows[k]})
			if err != nil || null || string(got) != "x"+string(want) {
				t.Errorf("%s %d: %x, null %v, %v\nFlink %x", name, k, got[1:], null, err, want)
			}
		}
	}
	p := payloadOf(t, with(itemClass), itemColumns...)
	e, err := f.NewEncoder(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.AppendPayload(nil, &changelog.Change{Row: rows[3]}); err == nil || !strings.Contains(err.Error(), "field color: the enum flinksink.testbed.Color has no such value") || strings.Contains(err.Error(), "NOPE") {
		t.Errorf("an unknown name: %v", err)
	}
}

// captured returns the values of a captured topic.
func captured(t testing.TB, name string) (values [][]byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(flinkDir, name, "topic.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(text))); dec.More(); {
		var r struct{ Value []byte }
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		values = append(values, r.Value)
	}
	if len(values) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return values
}

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

func TestLoad(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	single := write("acme/my_shop2go.proto", `syntax="proto3"; package acme; import "acme/dep.proto"; import "google/protobuf/timestamp.proto";
		message Order { Dep dep = 1; message Line { int32 n = 1; google.protobuf.Timestamp at = 2; } repeated Line lines = 2; }`)
	write("acme/dep.proto", `syntax="proto3"; package acme; option java_package="com.acme"; option java_outer_classname="Parts"; message Dep { enum E { NO = 0; } E e = 1; }`)
	write("acme/dep_outer.proto", `syntax="proto3"; package acme; option java_package="com.acme"; message X { message DepOuter { int32 a = 1; } }`)
	files := filesOf(t, dir)
	for class, want := range map[string]string{
		"acme.MyShop2Go$Order": "acme.Order", "acme.MyShop2Go.Order$Line": "acme.Order.Line", "com.acme.Parts$Dep": "acme.Dep", "acme.Dep": "acme.Dep", "acme.Order.Line": "acme.Order.Line",
		"com.acme.DepOuterOuterClass$X": "acme.X", "google.protobuf.Timestamp": "google.protobuf.Timestamp", "com.google.protobuf.Timestamp": "google.protobuf.Timestamp",
		"com.acme.Dep": "", "acme.Order$Nope": "", "acme": "", "": "", "acme.Dep.E": "",
	} {
		m, err := find(files, class)
		if want == "" && err == nil || want != "" && (err != nil || string(m.FullName()) != want) {
			t.Errorf("%s: %v, %v, want %s", class, m, err, want)
		}
	}
	// The same as a descriptor set.
	set := &descriptorpb.FileDescriptorSet{}
	files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(fd))
		return true
	})
	bytes, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	path := write("set.desc", string(bytes))
	both := filesOf(t, path, dir)
	if m, err := find(both, "acme.MyShop2Go$Order"); err != nil || m.FullName() != "acme.Order" {
		t.Errorf("descriptor set: %v, %v", m, err)
	}
	if _, err := ParseDescriptorSet(bytes); err != nil {
		t.Error(err)
	}
	set.File = set.File[:0]
	files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		if fd.Path() != "acme/dep.proto" {
			set.File = append(set.File, protodesc.ToFileDescriptorProto(fd))
		}
		return true
	})
	half, _ := proto.Marshal(set)
	for name, got := range map[string]error{
		"make it with --include_imports": errOf(ParseDescriptorSet(half)),
		"is empty":                       errOf(ParseDescriptorSet(nil)),
		"not a descriptor set":           errOf(ParseDescriptorSet([]byte("syntax"))),
		"no file":                        errOf(Load(ctx)),
		"nope.proto":                     errOf(Load(ctx, filepath.Join(dir, "nope.proto"))),
		"has no .proto file":             errOf(Load(ctx, t.TempDir())),
		"acme/dep.proto":                 errOf(Load(ctx, single)), // its imports are named from another folder
	} {
		if got == nil || !strings.Contains(got.Error(), name) {
			t.Errorf("error %v, want %q in it", got, name)
		}
	}
}

func errOf(_ *protoregistry.Files, err error) error { return err }

// Java's HashMap, by what OpenJDK 17 printed of maps that were filled in these orders.
func TestEncode_MapsInHashOrder(t *testing.T) {
	multiples := ""
	for k := range 40 {
		multiples += fmt.Sprintf(" %d", k*37)
	}
	f := Format{Files: testFiles(t)}
	for _, c := range []struct{ class, column, keys, want string }{
		{itemClass, "counts MAP<STRING, INT>", "banana apple cherry date elderberry fig grape 😀 Zürich l m n o p q r s t", "banana date cherry fig grape elderberry l m n o p apple q r s t Zürich 😀"},
		{itemClass, "by_no MAP<INT, ROW<a INT>>", "100000 -1 17 1 33 65537 16 -70000 7", "-1 65537 16 100000 17 1 33 7 -70000"},
		{itemClass, "by_no MAP<INT, ROW<a INT>>", multiples, "0 962 259 1221 518 777 74 1036 333 1295 592 851 148 1110 407 1369 666 925 222 1184 481 1443 740 37 999 296 1258 555 814 111 1073 370 1332 629 888 185 1147 444 1406 703"},
		{"wide.Wide", "by_long MAP<BIGINT, DOUBLE>", "100000 -1 17 8589934592 1 33 65537 16 -70000 7 -1099511627776", "-1 65537 16 100000 17 1 33 8589934592 7 -70000 -1099511627776"},
		{"wide.Wide", "by_flag MAP<BOOLEAN, BYTES>", "true false", "false true"},
	} {
		p := payloadOf(t, with(c.class), c.column)
		e, err := f.NewEncoder(p)
		if err != nil {
			t.Fatal(err)
		}
		var pairs []changelog.Value
		for _, k := range strings.Fields(c.keys) {
			key := changelog.StringValue(k)
			switch n, err := strconv.ParseInt(k, 10, 64); {
			case err == nil:
				key = changelog.IntValue(n)
			case k == "true" || k == "false":
				key = changelog.BoolValue(k == "true")
			}
			pairs = append(pairs, key, changelog.Value{})
		}
		out, _, err := e.AppendPayload(nil, &changelog.Change{Row: changelog.Row{changelog.MapValue(pairs)}})
		if err != nil {
			t.Fatal(err)
		}
		// The text of a map is sorted by key, so the entries are read one by one.
		var order []string
		for len(out) > 0 {
			_, _, n := protowire.ConsumeTag(out)
			_, m := protowire.ConsumeBytes(out[n:])
			var row map[string][][]any
			if err := json.Unmarshal([]byte(decodeText(t, f, p, out[:n+m])), &row); err != nil {
				t.Fatal(err)
			}
			for _, m := range row {
				order = append(order, strings.ToLower(fmt.Sprint(m[0][0])))
			}
			out = out[n+m:]
		}
		if got := strings.Join(order, " "); got != strings.ToLower(c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.column, got, c.want)
		}
	}
}
