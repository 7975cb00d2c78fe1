package protobuf

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
