package format_test

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debezium"
)

// No odd message is refused without a class.
func TestDataClass_OddMessages(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(flinkDir, "odd", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	refused, classes := 0, map[changelog.DataClass]int{}
	for _, name := range files {
		if filepath.Base(name) == "written.jsonl" { // rows to write
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 16<<20)
		for sc.Scan() {
			var o oddMessage
			if err := json.Unmarshal(sc.Bytes(), &o); err != nil {
				t.Fatal(err)
			}
			for _, lenient := range []bool{false, true} {
				_, err := o.decode(t, lenient)
				var de *changelog.DataError
				if !errors.As(err, &de) {
					continue // read, or the table itself is refused
				}
				refused++
				if classes[de.Class]++; de.Class == changelog.Unclassified {
					t.Errorf("%s: %v has no class", &o, de)
				}
			}
		}
		if err := errors.Join(sc.Err(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d times refused: %v", refused, classes)
	for c := changelog.Malformed; c <= changelog.SchemaMismatch; c++ {
		if classes[c] == 0 {
			t.Errorf("no odd message is of class %s", c)
		}
	}
}

// One message for each class that a format has.
func TestDataClass_Formats(t *testing.T) {
	const null = "\x00null"
	for _, tt := range []struct {
		format, columns, value string
		want                   changelog.DataClass
	}{
		{"json", "a INT", `{"a":`, changelog.Malformed},
		{"json", "a INT", `{"a":1,"a":2}`, changelog.Malformed},
		{"json", "a INT", `{"a":1} x`, changelog.Malformed},
		{"json", "a INT", `{"a":"x"}`, changelog.WrongType},
		{"json", "a INT", `{"a":"1000.5"}`, changelog.WrongType},
		{"json", "a ROW<x INT>", `{"a":[]}`, changelog.WrongType},
		{"json", "a INT", null, changelog.Missing},
		{"json", "a INT", "", changelog.Missing},
		{"json", "a INT", `{"a":2147483648}`, changelog.OutOfRange},
		{"json", "a INT", `{"a":1e10}`, changelog.OutOfRange},
		{"json", "a TINYINT", `{"a":-129}`, changelog.OutOfRange},
		{"json", "a DECIMAL(3, 1)", `{"a":100}`, changelog.OutOfRange},
		{"json", "a STRING", `{"a":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`, changelog.OutOfRange},

		{"csv", "a STRING", `"x`, changelog.Malformed},
		{"csv", "a INT", `x`, changelog.WrongType},
		{"csv", "a INT", "", changelog.Missing},
		{"csv", "a SMALLINT", `32768`, changelog.OutOfRange},
		{"csv", "a DECIMAL(3, 1)", `100`, changelog.OutOfRange},
		{"csv", "a INT, b INT", `1`, changelog.SchemaMismatch},
		{"csv", "a INT", `1,2`, changelog.SchemaMismatch},

		{"avro", "a INT", "hex 02", changelog.Malformed},
		{"avro", "a BOOLEAN", "hex 0202", changelog.WrongType},
		{"avro", "a INT", null, changelog.Missing},
		{"avro", "a TINYINT", "hex 02d00f", changelog.OutOfRange},
		{"avro", "a INT", "hex 04", changelog.SchemaMismatch},

		{"avro-confluent", "id INT, name STRING", "hex 000000000602", changelog.Malformed},
		{"avro-confluent", "id INT, name STRING", "{}", changelog.Malformed},
		{"avro-confluent", "id INT, name STRING", null, changelog.Missing},
		{"avro-confluent", "id TINYINT, name STRING", "hex 000000000602d00f020261", changelog.OutOfRange},
		{"avro-confluent", "id INT, name STRING", "hex 000000270f0202020261", changelog.SchemaMismatch},
		{"avro-confluent", "id INT, n INT NOT NULL", "hex 000000006602", changelog.SchemaMismatch},

		{"debezium-avro-confluent", "id INT, name STRING", "hex 000000001b02", changelog.Malformed},
		{"debezium-avro-confluent", "id INT, name STRING", "hex 000000001b020002020202026202" + "0275", changelog.Missing},
		{"debezium-avro-confluent", "id TINYINT, name STRING", "hex 000000001b02000202d00f02026202" + "0263", changelog.OutOfRange},
		{"debezium-avro-confluent", "id INT, name STRING", "hex 000000001b020002020202026202" + "0278", changelog.UnknownOp},
		{"debezium-avro-confluent", "id INT, name STRING", "hex 000000270f02", changelog.SchemaMismatch},

		{"debezium-json", "id INT", `{"after":{"id":1},"op":"c"`, changelog.Malformed},
		{"debezium-json", "id INT", `{"after":{"id":"x"},"op":"c"}`, changelog.WrongType},
		{"debezium-json", "id INT", `{"before":null,"after":{"id":1},"op":"u"}`, changelog.Missing},
		{"debezium-json", "id INT", `{"after":{"id":1}}`, changelog.Missing},
		{"debezium-json", "id INT", `{"after":{"id":2147483648},"op":"c"}`, changelog.OutOfRange},
		{"debezium-json", "id INT", `{"after":{"id":1},"op":"x"}`, changelog.UnknownOp},
		{"debezium-json", "id INT", `{"op":"t"}`, changelog.UnknownOp},
		{"debezium-json", "d DATE", `{"schema":{"fields":[{"field":"after","fields":[{"field":"d","type":"int64","name":"io.debezium.time.Timestamp"}]}]},` +
			`"payload":{"after":{"d":1},"op":"c"}}`, changelog.SchemaMismatch},

		{"canal-json", "id INT", `{"data":[{"id":1}],"type":"INSERT"} x`, changelog.Malformed},
		{"canal-json", "id INT", `{"data":[{"id":"x"}],"type":"INSERT"}`, changelog.WrongType},
		{"canal-json", "id INT", `{"data":null,"type":"INSERT"}`, changelog.Missing},
		{"canal-json", "id INT", `{"data":[{"id":"2147483648"}],"type":"INSERT"}`, changelog.OutOfRange},
		{"canal-json", "id INT", `{"data":[{"id":1}],"type":"TRUNCATE"}`, changelog.UnknownOp},

		{"maxwell-json", "id INT", `{"data":{"id":1},"type":"insert"} x`, changelog.Malformed},
		{"maxwell-json", "id INT", `{"data":{"id":"x"},"type":"insert"}`, changelog.WrongType},
		{"maxwell-json", "id INT", `{"data":null,"type":"insert"}`, changelog.Missing},
		{"maxwell-json", "id INT", `{"data":{"id":2147483648},"type":"insert"}`, changelog.OutOfRange},
		{"maxwell-json", "id INT", `{"data":{"id":1},"type":"table-drop"}`, changelog.UnknownOp},

		{"ogg-json", "id INT", `{"after":{"id":1},"op_type":"I"} x`, changelog.Malformed},
		{"ogg-json", "id INT", `{"after":{"id":"x"},"op_type":"I"}`, changelog.WrongType},
		{"ogg-json", "id INT", `{"after":null,"op_type":"I"}`, changelog.Missing},
		{"ogg-json", "id INT", `{"after":{"id":2147483648},"op_type":"I"}`, changelog.OutOfRange},
		{"ogg-json", "id INT", `{"after":{"id":1},"op_type":"T"}`, changelog.UnknownOp},

		{"protobuf", "i32 INT", "hex 08", changelog.Malformed},
		{"protobuf", "bo BOOLEAN", "hex 6802", changelog.WrongType},
		{"protobuf", "i32 INT", null, changelog.Missing},
		{"protobuf", "i32 INT", "hex 08ffffffff1f", changelog.OutOfRange},
		{"protobuf", "by_name MAP<STRING, STRING>", "hex 9201050a0161100792010" + "50a01621001", changelog.SchemaMismatch},

		{"raw", "v STRING", "hex fffe", changelog.Malformed},
		{"raw", "v INT", "hex 00", changelog.WrongType},
		{"raw", "v BOOLEAN", "hex 02", changelog.WrongType},
	} {
		options := map[string]string{"connector": "kafka", "format": tt.format}
		known := formats
		switch tt.format {
		case "avro-confluent", "debezium-avro-confluent":
			options[tt.format+".url"] = "http://localhost:8081"
		case "protobuf":
			options["protobuf.message-class-name"] = "wide.WideOuterClass$Wide"
		case "debezium-json":
			if strings.HasPrefix(tt.value, `{"schema"`) {
				options["debezium-json.schema-include"] = "true"
				known = slices.DeleteFunc(slices.Clone(formats), func(f changelog.Format) bool { return f.Name() == tt.format })
				known = append(known, debezium.Format{SourceTypes: &debezium.SourceTypes{}})
			}
		}
		value := []byte(tt.value)
		if text, ok := strings.CutPrefix(tt.value, "hex "); ok {
			var err error
			if value, err = hex.DecodeString(text); err != nil {
				t.Fatal(err)
			}
		} else if tt.value == null {
			value = nil
		}
		err := classify(t, tt.columns, options, known, value)
		if err == nil || err.Class != tt.want {
			t.Errorf("%s: %s %.60q: %v: class %v, want %s", tt.format, tt.columns, tt.value, err, classOf(err), tt.want)
		}
	}
}

func classOf(err *changelog.DataError) any {
	if err == nil {
		return "none"
	}
	return err.Class
}

func classify(t *testing.T, columns string, options map[string]string, known []changelog.Format, value []byte) *changelog.DataError {
	t.Helper()
	var with []string
	for _, k := range slices.Sorted(maps.Keys(options)) {
		with = append(with, "'"+k+"' = '"+options[k]+"'")
	}
	tab, err := ddl.Find("CREATE TABLE t ("+columns+") WITH ("+strings.Join(with, ", ")+")", "t")
	if err != nil {
		t.Fatal(err)
	}
	d, err := format.New(tab, known, nil)
	if err != nil {
		t.Fatal(err)
	}
	var de *changelog.DataError
	errors.As(d.Decode(changelog.NewBatch(d.Table()), &changelog.Record{Value: value}), &de)
	return de
}

func TestDataClass_Keys(t *testing.T) {
	tab, err := ddl.Find("CREATE TABLE t (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json')", "t")
	if err != nil {
		t.Fatal(err)
	}
	d, err := format.New(tab, formats, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		key, value string
		want       changelog.DataClass
	}{
		{"", `{"k":1}`, changelog.Missing},
		{`{"k":null}`, `{"k":null}`, changelog.Missing},
		{`{"k":"x"}`, `{"k":1}`, changelog.WrongType},
		{`{"k":1}`, `{"v":"a"}`, changelog.Missing},
		{`{"k":1}`, `{"k":2}`, changelog.Malformed}, // the message contradicts itself
	} {
		var de *changelog.DataError
		err := d.Decode(changelog.NewBatch(d.Table()), &changelog.Record{Key: []byte(tt.key), Value: []byte(tt.value)})
		if !errors.As(err, &de) || de.Class != tt.want {
			t.Errorf("key %s, value %s: %v, want class %s", tt.key, tt.value, err, tt.want)
		}
	}
}

func TestDataClass_Encode(t *testing.T) {
	tab, err := ddl.Find("CREATE TABLE t (a TINYINT) WITH ('connector' = 'kafka', 'format' = 'raw')", "t")
	if err != nil {
		t.Fatal(err)
	}
	e, err := format.NewEncoder(tab, formats, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kind changelog.Kind
		row  changelog.Row
		want changelog.DataClass
	}{
		{changelog.Insert, changelog.Row{changelog.StringValue("x")}, changelog.WrongType},
		{changelog.Insert, changelog.Row{changelog.IntValue(128)}, changelog.OutOfRange},
		{changelog.Insert, changelog.Row{}, changelog.SchemaMismatch},
		{changelog.Delete, changelog.Row{changelog.IntValue(1)}, changelog.UnknownOp},
	} {
		var de *changelog.DataError
		err := e.Encode(&changelog.Record{}, &changelog.Change{Kind: tt.kind, Row: tt.row})
		if !errors.As(err, &de) || de.Class != tt.want {
			t.Errorf("%s %v: %v, want class %s", tt.kind, tt.row, err, tt.want)
		}
	}
}

// Who makes a DataError says its class, but for those that only wrap what somebody else's code said.
func TestDataClass_Source(t *testing.T) {
	wraps := map[string]bool{`"cannot be decoded"`: true, `"cannot be encoded"`: true, `"the sink refuses the message"`: true,
		`"the mapping does not take this row"`: true, `"Options.Map.Row added a change to the batch: it may only take memory from it"`: true}
	made := 0
	for _, root := range []string{"..", "../../bridge"} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok || !isDataError(lit.Type) {
					return true
				}
				made++
				for _, elt := range lit.Elts {
					kv, ok := elt.(*ast.KeyValueExpr)
					if !ok {
						continue
					}
					name, _ := kv.Key.(*ast.Ident)
					text, _ := kv.Value.(*ast.BasicLit)
					if name != nil && name.Name == "Class" || name != nil && name.Name == "Reason" && text != nil && wraps[text.Value] {
						return true
					}
				}
				t.Errorf("%s: a DataError without Class", fset.Position(lit.Pos()))
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if made < 30 {
		t.Errorf("%d places make a DataError, and there should be more than 30", made)
	}
}

func isDataError(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "DataError"
	case *ast.SelectorExpr:
		return e.Sel.Name == "DataError"
	}
	return false
}
