package format_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/internal/registry/registrytest"
)

// What is written here is read by Flink: odd/written.jsonl holds messages that the encoders wrote, with what Flink 2.2.0 read from them. It is made
// by 'go test ./changelog/format -run TestWritten_ForFlink -written FILE', whose lines are then put to Flink's readers as those of odd are,
// with a registry of the schemas in FILE.schemas.json, and the classes that protoc makes of testdata/flink/proto.
var writtenFile = flag.String("written", "", "write messages for Flink to read into this file")

// writtenTable is a table whose rows are written.
type writtenTable struct {
	format  string
	types   []string
	options map[string]string
	names   []string // of the columns; c0, c1 and so on where there are none
}

var writtenTables = []writtenTable{
	{format: "json", types: jsonTypes, options: map[string]string{}},
	{format: "json", types: jsonTypes, options: map[string]string{"timestamp-format.standard": "ISO-8601", "encode.decimal-as-plain-number": "true", "encode.ignore-null-fields": "true"}},
	{format: "debezium-json", types: jsonTypes, options: map[string]string{}},
	{format: "canal-json", types: jsonTypes, options: map[string]string{}},
	{format: "maxwell-json", types: jsonTypes, options: map[string]string{"timestamp-format.standard": "ISO-8601"}},
	{format: "ogg-json", types: jsonTypes, options: map[string]string{"encode.ignore-null-fields": "true"}},
	{format: "csv", types: csvTypes, options: map[string]string{"null-literal": "NULL"}},
	{format: "csv", types: csvTypes, options: map[string]string{"null-literal": "NULL", "escape-character": `\`, "quote-character": "'", "field-delimiter": "|"}},
	{format: "csv", types: csvTypes, options: map[string]string{"null-literal": "NULL", "escape-character": "^", "quote-character": "é", "field-delimiter": `\t`, "array-element-delimiter": "#"}},
	{format: "avro", types: avroTypes, options: map[string]string{}},
	{format: "avro", types: avroJSONTypes, options: map[string]string{"encoding": "json"}},
	{format: "avro-confluent", types: avroTypes, options: map[string]string{"url": "http://localhost:8081", "subject": "written"}},
	{format: "debezium-avro-confluent", types: avroTypes, options: map[string]string{"url": "http://localhost:8081", "subject": "written"}},
	{format: "protobuf", types: protobufTypes, names: protobufNames, options: map[string]string{"message-class-name": "flinksink.testbed.Item"}},
	{format: "raw", types: []string{"STRING NOT NULL"}, options: map[string]string{}},
	{format: "raw", types: []string{"STRING NOT NULL"}, options: map[string]string{"charset": "UTF-16"}},
	{format: "raw", types: []string{"BYTES NOT NULL"}, options: map[string]string{}},
	{format: "raw", types: []string{"BOOLEAN NOT NULL"}, options: map[string]string{}},
	{format: "raw", types: []string{"TINYINT NOT NULL"}, options: map[string]string{}},
	{format: "raw", types: []string{"SMALLINT NOT NULL"}, options: map[string]string{"endianness": "little-endian"}},
	{format: "raw", types: []string{"INT NOT NULL"}, options: map[string]string{}},
	{format: "raw", types: []string{"BIGINT NOT NULL"}, options: map[string]string{"endianness": "little-endian"}},
	{format: "raw", types: []string{"FLOAT NOT NULL"}, options: map[string]string{}},
	{format: "raw", types: []string{"DOUBLE NOT NULL"}, options: map[string]string{"endianness": "little-endian"}},
}

// The fields of an Item that a row keeps when it is written: not those of a oneof, of which one is, nor an optional one, whose NULL is read as its
// default.
var (
	protobufNames = []string{"id", "big", "f", "d", "ok", "name", "raw", "inner", "nums", "tags", "inners", "counts", "zig", "fix"}
	protobufTypes = []string{"INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "STRING", "BYTES", "ROW<a INT, b STRING>", "ARRAY<INT>", "ARRAY<STRING>", "ARRAY<ROW<a INT, b STRING>>",
		"MAP<STRING, INT>", "BIGINT", "INT"}
)

func (w *writtenTable) ddl() (columns string, with map[string]string) {
	var list []string
	for i, t := range w.types {
		name := fmt.Sprintf("c%d", i)
		if w.names != nil {
			name = "`" + w.names[i] + "`"
		}
		list = append(list, name+" "+t)
	}
	with = map[string]string{"connector": "kafka", "format": w.format}
	for k, v := range w.options {
		with[w.format+"."+k] = v
	}
	return strings.Join(list, ", "), with
}

func tableOf(t testing.TB, columns string, with map[string]string) *ddl.Table {
	t.Helper()
	var list []string
	for _, k := range slices.Sorted(maps.Keys(with)) {
		list = append(list, fmt.Sprintf("'%s' = '%s'", k, strings.ReplaceAll(with[k], "'", "''")))
	}
	tab, err := ddl.Find(fmt.Sprintf("CREATE TABLE t (%s) WITH (%s)", columns, strings.Join(list, ", ")), "t")
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestWritten_ForFlink(t *testing.T) {
	if *writtenFile == "" {
		t.Skip("-written FILE makes the messages that Flink is to read")
	}
	f, err := os.Create(*writtenFile)
	if err != nil {
		t.Fatal(err)
	}
	out := json.NewEncoder(f)
	for _, w := range writtenTables {
		columns, with := w.ddl()
		e, err := format.NewEncoder(tableOf(t, columns, with), formats, nil)
		if err != nil {
			t.Fatal(err)
		}
		between := ';'
		if b := w.options["array-element-delimiter"]; b != "" {
			between = rune(b[0])
		}
		rows := rapid.Custom(func(r *rapid.T) changelog.Row {
			row := make(changelog.Row, len(w.types))
			for i := range row {
				row[i] = draw(r, &e.Table().Schema.Columns[i].Type, w.format == "csv", false, between)
			}
			return row
		})
		for i := range 16 {
			kind := changelog.Insert
			if e.Table().Mode == changelog.Retract && i%2 == 1 {
				kind = changelog.Delete
			}
			var r changelog.Record
			if err := e.Encode(&r, &changelog.Change{Kind: kind, Row: rows.Example(i)}); err != nil {
				t.Fatal(err)
			}
			if err := out.Encode(map[string]any{"columns": columns, "ddl-options": with, "key": nil, "value": r.Value}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(captured.Transport.(*registrytest.Registry).Schemas())
	if err == nil {
		err = os.WriteFile(*writtenFile+".schemas.json", text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Flink read each row, and it is read here as Flink read it and written again as it was.
func TestWritten_AsFlinkRead(t *testing.T) {
	f, err := os.Open(filepath.Join(flinkDir, "odd", "written.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	met := map[string]int{}
	for sc.Scan() {
		var o oddMessage
		if err := json.Unmarshal(sc.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		if o.Error != "" || len(o.Result) != 1 {
			t.Fatalf("%s: Flink read %d rows, %s", &o, len(o.Result), o.Error)
		}
		m := o.Result[0].(map[string]any)
		want := fmt.Sprintf("%s %s", m["op"], canonical(t, m["row"]))
		got, err := o.decode(t, false)
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s:\n got   %q, %v\n Flink %q", &o, got, err, want)
			continue
		}
		tab := tableOf(t, o.Columns, o.Options)
		d, err := format.New(tab, formats, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := format.NewEncoder(tab, formats, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := changelog.NewBatch(d.Table())
		value := unbase64(t, o.Value)
		if err := d.Decode(b, &changelog.Record{Value: value}); err != nil {
			t.Fatal(err)
		}
		var r changelog.Record
		if err := e.Encode(&r, &b.Changes[0]); err != nil || unbroken(r.Value) != unbroken(value) {
			t.Errorf("%s: written again: %q, %v", &o, r.Value, err)
		}
		met[o.Options["format"]]++
	}
	for _, w := range writtenTables {
		if met[w.format] < 16 {
			t.Errorf("%s: %d messages", w.format, met[w.format])
		}
	}
}
