package format_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/avro"
	"github.com/flinksink/flinksink/changelog/format/avroconfluent"
	"github.com/flinksink/flinksink/changelog/format/canal"
	"github.com/flinksink/flinksink/changelog/format/csv"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/changelog/format/debeziumavro"
	jsonformat "github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/changelog/format/maxwell"
	"github.com/flinksink/flinksink/changelog/format/ogg"
	"github.com/flinksink/flinksink/internal/rowtext"
)

var scalarTypes = []string{
	"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 18)", "DECIMAL(10, 2)", "DECIMAL(5, 0)", "CHAR(3)", "VARCHAR(9)", "STRING",
	"BINARY(4)", "BYTES", "DATE", "TIME(0)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(6)",
}

var (
	jsonTypes = append([]string{"ARRAY<BIGINT>", "ARRAY<ROW<x INT, y ARRAY<STRING>>>", "MAP<STRING, DECIMAL(20, 5)>", "MULTISET<STRING>", "ROW<a TIMESTAMP(3), b ROW<c BYTES>>",
		"MAP<STRING, MAP<STRING, DOUBLE>>"}, scalarTypes...)
	csvTypes  = append([]string{"ARRAY<BIGINT>", "ARRAY<STRING>", "ROW<a TIMESTAMP(3), b BYTES, c STRING, d DECIMAL(9, 4)>"}, scalarTypes...)
	avroTypes = append([]string{"ARRAY<BIGINT NOT NULL>", "ARRAY<ROW<x INT, y ARRAY<STRING>>>", "MAP<STRING, DECIMAL(20, 5)>", "MULTISET<STRING>", "ROW<a TIMESTAMP(3), b ROW<c BYTES NOT NULL> NOT NULL>",
		"MAP<STRING, MAP<STRING, DOUBLE>>", "TIMESTAMP(3)", "INT NOT NULL", "STRING NOT NULL"},
		slices.DeleteFunc(slices.Clone(scalarTypes), func(t string) bool { return strings.HasPrefix(t, "TIMESTAMP") })...)
	avroJSONTypes = slices.DeleteFunc(slices.Clone(avroTypes), func(t string) bool { // it has no NaN
		return strings.Contains(t, "FLOAT") || strings.Contains(t, "DOUBLE")
	})
)

// unbroken is a message without the line feed that Avro's JSON encoder puts before each but its first one.
func unbroken(message []byte) string { return strings.TrimPrefix(string(message), "\n") }

// A row that is written is read as it was, in every format, for every type that the format has.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		f       changelog.Format
		types   []string
		options map[string]string
	}{
		{jsonformat.Format{}, jsonTypes, nil},
		{jsonformat.Format{}, jsonTypes, map[string]string{"timestamp-format.standard": "ISO-8601", "encode.decimal-as-plain-number": "true"}},
		{debezium.Format{}, jsonTypes, nil},
		{canal.Format{}, jsonTypes, nil},
		{canal.Format{}, jsonTypes, map[string]string{"encode.ignore-null-fields": "true"}},
		{maxwell.Format{}, jsonTypes, nil},
		{ogg.Format{}, jsonTypes, map[string]string{"encode.ignore-null-fields": "true"}},
		{avro.Format{}, avroTypes, nil},
		{avroconfluent.Format{HTTP: captured}, avroTypes, map[string]string{"url": "http://localhost:8081", "subject": "trip"}},
		{debeziumavro.Format{HTTP: captured}, avroTypes, map[string]string{"url": "http://localhost:8081", "subject": "trip"}},
		{avro.Format{}, avroJSONTypes, map[string]string{"encoding": "json"}},
		{csv.Format{}, csvTypes, map[string]string{"null-literal": "NULL"}},
		{csv.Format{}, csvTypes, map[string]string{"null-literal": "NULL", "escape-character": `\`, "quote-character": "'", "field-delimiter": "|"}},
		{csv.Format{}, csvTypes, map[string]string{"null-literal": "NULL", "escape-character": "^", "quote-character": "é", "field-delimiter": "，"}},
	} {
		t.Run(c.f.Name(), func(t *testing.T) {
			tab := &changelog.Table{Name: "t", Schema: &changelog.Schema{}, Mode: c.f.Mode()}
			p := changelog.Payload{Table: tab, Options: c.options}
			for i, text := range c.types {
				typ, err := changelog.ParseType(text)
				if err != nil {
					t.Fatal(err)
				}
				name := string(rune('a' + i))
				tab.Schema.Columns = append(tab.Schema.Columns, changelog.Column{Name: name, Type: typ})
				p.Columns = append(p.Columns, i)
				p.Names = append(p.Names, name)
			}
			d, err := c.f.NewDecoder(p)
			if err != nil {
				t.Fatal(err)
			}
			e, err := c.f.NewEncoder(p)
			if err != nil {
				t.Fatal(err)
			}
			isCSV := c.f.Name() == "csv"
			rapid.Check(t, func(r *rapid.T) {
				row := make(changelog.Row, len(c.types))
				for i := range row {
					row[i] = draw(r, &tab.Schema.Columns[i].Type, isCSV, false, ';')
				}
				kind := changelog.Insert
				if c.f.Mode() == changelog.Retract && rapid.Bool().Draw(r, "delete") {
					kind = changelog.Delete
				}
				message, null, err := e.AppendPayload(nil, &changelog.Change{Kind: kind, Row: row})
				if err != nil || null {
					r.Fatalf("%v, null %v", err, null)
				}
				b := changelog.NewBatch(tab)
				if err := d.DecodePayload(b, message, nil); err != nil {
					r.Fatalf("%v\n%s", err, message)
				}
				want := rowtext.AppendRow(nil, tab.Schema, row)
				if b.Len() != 1 || b.Changes[0].Kind != kind || string(rowtext.AppendRow(nil, tab.Schema, b.Changes[0].Row)) != string(want) {
					r.Fatalf("%d changes, %s\n%s\n%s", b.Len(), rowtext.AppendRow(nil, tab.Schema, b.Changes[0].Row), want, message)
				}
				again, _, err := e.AppendPayload(nil, &b.Changes[0])
				if err != nil || unbroken(again) != unbroken(message) {
					r.Fatalf("written again: %s, %v\n%s", again, err, message)
				}
			})
		})
	}
}

// draw makes a value of type t. In CSV an ARRAY has an element that is not blank, and no element has the delimiter in it.
func draw(r *rapid.T, t *changelog.Type, isCSV, element bool, between rune) changelog.Value {
	if !t.NotNull && rapid.IntRange(0, 7).Draw(r, "null") == 0 && !(isCSV && (t.Root == changelog.RootArray || t.Root == changelog.RootRow)) {
		return changelog.Value{}
	}
	integer := func(bits int) changelog.Value {
		return changelog.IntValue(rapid.Int64Range(-1<<(bits-1), 1<<(bits-1)-1).Draw(r, "int"))
	}
	seconds := func() int64 {
		return rapid.Int64Range(changelog.DaysOf(1583, 1, 1)*86400, changelog.DaysOf(9999, 12, 31)*86400).Draw(r, "seconds")
	}
	nanos := func() int32 {
		unit := int32(1)
		for range 9 - t.Precision {
			unit *= 10
		}
		n := rapid.Int32Range(0, 999_999_999).Draw(r, "nanos")
		return n - n%unit
	}
	switch t.Root {
	case changelog.RootBoolean:
		return changelog.BoolValue(rapid.Bool().Draw(r, "bool"))
	case changelog.RootTinyInt:
		return integer(8)
	case changelog.RootSmallInt:
		return integer(16)
	case changelog.RootInt:
		return integer(32)
	case changelog.RootBigInt:
		return integer(64)
	case changelog.RootFloat:
		f := math.Float32frombits(rapid.Uint32().Draw(r, "float"))
		return changelog.FloatValue(f + 0) // -0 is lost where a column is a DECIMAL, as in Flink
	case changelog.RootDouble:
		f := math.Float64frombits(rapid.Uint64().Draw(r, "double"))
		return changelog.DoubleValue(f + 0)
	case changelog.RootDecimal:
		u := rapid.Int64().Draw(r, "unscaled")
		for limit := math.Pow10(t.Precision); math.Abs(float64(u)) >= limit; {
			u /= 10
		}
		return changelog.DecimalValue(u>>63, uint64(u), t.Scale)
	case changelog.RootChar, changelog.RootVarchar:
		s := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("ab'\"\\|,; \t\n\r^é，\x00#N")), rapid.Rune())).Draw(r, "string")
		if isCSV && s == "NULL" {
			s = "null"
		}
		if isCSV && element {
			s = "x" + strings.ReplaceAll(s, string(between), "")
		}
		return changelog.StringValue(s)
	case changelog.RootBinary, changelog.RootVarbinary:
		return changelog.BytesValue(rapid.SliceOf(rapid.Byte()).Draw(r, "bytes"))
	case changelog.RootDate:
		return changelog.DateValue(seconds() / 86400)
	case changelog.RootTime:
		return changelog.TimeValue(rapid.Int64Range(0, 86399).Draw(r, "time") * 1e9)
	case changelog.RootTimestamp:
		return changelog.TimestampValue(seconds(), nanos())
	case changelog.RootTimestampLTZ:
		return changelog.TimestampLTZValue(seconds(), nanos())
	case changelog.RootArray:
		least := 0
		if isCSV {
			least = 1
		}
		n := rapid.IntRange(least, 4).Draw(r, "elements")
		elems := make([]changelog.Value, n)
		for i := range elems {
			elems[i] = draw(r, t.Elem, isCSV, true, between)
		}
		return changelog.ArrayValue(elems)
	case changelog.RootMap, changelog.RootMultiset:
		// Java and Go sort characters beyond U+FFFF differently, and the texts of maps are sorted.
		keys := rapid.SliceOfNDistinct(rapid.StringOf(rapid.RuneFrom([]rune("ab\"\\ é中\n"))), 0, 3, rapid.ID[string]).Draw(r, "keys")
		var pairs []changelog.Value
		for _, k := range keys {
			v := changelog.IntValue(2)
			if t.Root == changelog.RootMap {
				v = draw(r, t.Elem, isCSV, true, between)
			}
			pairs = append(pairs, changelog.StringValue(k), v)
		}
		return changelog.MapValue(pairs)
	case changelog.RootRow:
		fields := make([]changelog.Value, len(t.Fields))
		for i := range fields {
			fields[i] = draw(r, &t.Fields[i].Type, isCSV, true, between)
		}
		return changelog.RowValue(fields)
	}
	panic(t.String())
}
