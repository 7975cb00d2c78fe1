package protobuf

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// The messages of odd/protobuf-more.jsonl, to which Flink 2.2.0 gave the answers: those of wireCases, and rows that the encoder here wrote. They are made by
// 'go test ./changelog/format/protobuf -run TestAsk -ask FILE', whose lines are then put to Flink's readers as those of odd are.
var ask = flag.String("ask", "", "write messages for Flink to read into this file")

func TestAsk_ForFlink(t *testing.T) {
	if *ask == "" {
		t.Skip("-ask FILE makes the messages that Flink is to read")
	}
	out, err := os.Create(*ask)
	if err != nil {
		t.Fatal(err)
	}
	put := func(class, columns string, value []byte, more ...string) {
		t.Helper()
		options := map[string]string{"connector": "kafka", "format": "protobuf", "protobuf.message-class-name": class}
		for i := 0; i < len(more); i += 2 {
			options["protobuf."+more[i]] = more[i+1]
		}
		if err := json.NewEncoder(out).Encode(map[string]any{"columns": columns, "ddl-options": options, "key": nil, "value": value}); err != nil {
			t.Fatal(err)
		}
	}
	quoted := func(columns string) string { // words of SQL as names
		for _, w := range []string{"left", "right", "next"} {
			columns = strings.ReplaceAll(columns, w+" ", "`"+w+"` ")
		}
		return columns
	}
	for _, c := range wireCases() {
		if !strings.Contains(c.columns, "inside") { // a ROW of a group, which Flink cannot do
			put(wideClass, quoted(c.columns), c.bytes(t))
			put(wideClass, quoted(c.columns), c.bytes(t), "read-default-values", "true")
		}
	}
	f := Format{Files: testFiles(t)}
	for _, w := range []struct {
		class   string
		columns []string
	}{{itemClass, itemColumns}, {wideClass, wideColumns}} {
		var columns []string
		for _, c := range w.columns {
			if !strings.HasPrefix(c, "inside ") {
				name, typ, _ := strings.Cut(c, " ")
				columns = append(columns, "`"+name+"` "+strings.ReplaceAll(typ, "next ", "`next` "))
			}
		}
		var plain []string
		for _, c := range columns {
			plain = append(plain, strings.ReplaceAll(c, "`", ""))
		}
		p := payloadOf(t, with(w.class, "write-null-string-literal", "nil"), plain...)
		e, err := f.NewEncoder(p)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 40 {
			row := make(changelog.Row, len(plain))
			for i := range row {
				row[i] = draw(r, plain[i], &p.Table.Schema.Columns[i].Type, 0)
			}
			message, _, err := e.AppendPayload(nil, &changelog.Change{Row: row})
			if err != nil {
				t.Fatal(err)
			}
			put(w.class, strings.Join(columns, ", "), message)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// draw makes a value; enums are known by their columns.
func draw(r *rand.Rand, column string, t *changelog.Type, depth int) changelog.Value {
	if r.IntN(5) == 0 && !strings.HasPrefix(column, "must") {
		return changelog.Value{}
	}
	numbers := []int64{0, 1, -1, 127, 128, 300, -300, 1<<31 - 1, -1 << 31}
	switch t.Root {
	case changelog.RootInt:
		switch {
		case strings.HasPrefix(column, "color_no"):
			return changelog.IntValue([]int64{0, 1, 5}[r.IntN(3)])
		case strings.HasPrefix(column, "ens"):
			return changelog.IntValue([]int64{7, 3}[r.IntN(2)])
		}
		return changelog.IntValue(numbers[r.IntN(len(numbers))])
	case changelog.RootBigInt:
		return changelog.IntValue(append(numbers, 1<<63-1, -1<<63, 1<<40)[r.IntN(len(numbers)+3)])
	case changelog.RootFloat:
		return changelog.FloatValue([]float32{0, 1.5, -2e-10, 3e38}[r.IntN(4)])
	case changelog.RootDouble:
		return changelog.DoubleValue([]float64{0, 1.5, -2e-100, 3e300}[r.IntN(4)])
	case changelog.RootBoolean:
		return changelog.BoolValue(r.IntN(2) == 0)
	case changelog.RootVarbinary:
		return changelog.BytesValue(make([]byte, r.IntN(4)))
	case changelog.RootVarchar:
		switch {
		case strings.HasPrefix(column, "color"):
			return changelog.StringValue([]string{"UNKNOWN", "RED", "GREEN"}[r.IntN(3)])
		case strings.HasPrefix(column, "en "):
			return changelog.StringValue([]string{"LATE", "EARLY"}[r.IntN(2)])
		case strings.HasPrefix(column, "by_name value"):
			return changelog.StringValue([]string{"ZERO", "SEVEN", "THREE"}[r.IntN(3)])
		}
		return changelog.StringValue([]string{"", "a", "é😀", strings.Repeat("long", 50)}[r.IntN(4)])
	case changelog.RootArray:
		elems := make([]changelog.Value, r.IntN(5))
		for i := range elems {
			elems[i] = draw(r, column, t.Elem, depth+1)
		}
		return changelog.ArrayValue(elems)
	case changelog.RootMap:
		var pairs []changelog.Value
		name, _, _ := strings.Cut(column, " ")
		for range r.IntN(5) {
			value := draw(r, name+" value", t.Elem, depth+1)
			if value.IsNull() && strings.HasPrefix(column, "stricts") {
				continue // an empty message would lack what is required
			}
			pairs = append(pairs, draw(r, name+" key", t.Key, depth+1), value)
		}
		return changelog.MapValue(pairs)
	case changelog.RootRow:
		fields := make([]changelog.Value, len(t.Fields))
		for i := range fields {
			fields[i] = draw(r, t.Fields[i].Name, &t.Fields[i].Type, depth+1)
		}
		return changelog.RowValue(fields)
	}
	return changelog.Value{}
}
