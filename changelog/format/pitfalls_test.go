package format_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// textFormats are the formats that write values as text: how each says that a row of these members, names and JSON values, is there.
var textFormats = map[string]func(members [][2]string) string{
	"json":          jsonRow,
	"debezium-json": func(m [][2]string) string { return `{"before":null,"after":` + jsonRow(m) + `,"op":"c"}` },
	"canal-json":    func(m [][2]string) string { return `{"data":[` + jsonRow(m) + `],"type":"INSERT"}` },
	"maxwell-json":  func(m [][2]string) string { return `{"data":` + jsonRow(m) + `,"type":"insert"}` },
	"ogg-json":      func(m [][2]string) string { return `{"after":` + jsonRow(m) + `,"op_type":"I"}` },
	"csv": func(m [][2]string) string {
		var fields []string
		for _, one := range m {
			fields = append(fields, strings.Trim(one[1], `"`))
		}
		return strings.Join(fields, ",")
	},
}

// binaryFormats have no text in which a value could be misread.
var binaryFormats = map[string]bool{"raw": true, "avro": true, "avro-confluent": true, "debezium-avro-confluent": true, "protobuf": true}

func jsonRow(members [][2]string) string {
	var b strings.Builder
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%s":%s`, m[0], m[1])
	}
	return "{" + b.String() + "}"
}

// eachTextFormat runs a test for every text format that there is.
func eachTextFormat(t *testing.T, test func(t *testing.T, p *probe)) {
	for _, f := range all.Formats() {
		message, ok := textFormats[f.Name()]
		if !ok {
			if !binaryFormats[f.Name()] {
				t.Errorf("format %s: say here whether it is a text format, and how its messages look", f.Name())
			}
			continue
		}
		t.Run(f.Name(), func(t *testing.T) { test(t, &probe{t, f, message}) })
	}
}

// probe reads and writes single rows in one format.
type probe struct {
	*testing.T
	format  changelog.Format
	message func(members [][2]string) string
}

// nests reports whether the format has values inside of values.
func (p *probe) nests() bool { return p.format.Name() != "csv" }

func (p *probe) table(columns string) *ddl.Table {
	p.Helper()
	tab, err := ddl.Find(fmt.Sprintf("CREATE TABLE t (%s) WITH ('connector' = 'kafka', 'format' = '%s')", columns, p.format.Name()), "")
	if err != nil {
		p.Fatal(err)
	}
	return tab
}

func (p *probe) decode(columns string, lenient bool, members ...[2]string) (*changelog.Batch, error) {
	p.Helper()
	d, err := format.New(p.table(columns), all.Formats(), &format.Options{Lenient: lenient})
	if err != nil {
		p.Fatal(err)
	}
	b := changelog.NewBatch(d.Table())
	err = d.Decode(b, &changelog.Record{Partition: changelog.Partition{Topic: "topic"}, Offset: 9, Value: []byte(p.message(members))})
	return b, err
}

// row decodes one row, of which it returns the printed form; written again it has to be the same row.
func (p *probe) row(columns string, members ...[2]string) string {
	p.Helper()
	b, err := p.decode(columns, false, members...)
	if err != nil || b.Len() != 1 {
		p.Errorf("%v: %d changes, %v", members, b.Len(), err)
		return ""
	}
	text := string(rowtext.AppendRow(nil, b.Table.Schema, b.Changes[0].Row))
	r := p.encode(columns, &b.Changes[0])
	d, err := format.New(p.table(columns), all.Formats(), nil)
	if err != nil {
		p.Fatal(err)
	}
	b.Reset()
	if err := d.Decode(b, r); err != nil || b.Len() != 1 {
		p.Errorf("%s, which was written as %s: %v", text, r.Value, err)
	} else if again := string(rowtext.AppendRow(nil, b.Table.Schema, b.Changes[0].Row)); again != text {
		p.Errorf("%s became %s, written as %s", text, again, r.Value)
	}
	return text
}

func (p *probe) encode(columns string, c *changelog.Change) *changelog.Record {
	p.Helper()
	e, err := format.NewEncoder(p.table(columns), all.Formats(), nil)
	if err != nil {
		p.Fatal(err)
	}
	var r changelog.Record
	if err := e.Encode(&r, c); err != nil {
		p.Fatal(err)
	}
	return &r
}

// refused demands a DataError with coordinates, whose text does not hold secret.
func (p *probe) refused(columns, secret string, lenient bool, members ...[2]string) {
	p.Helper()
	b, err := p.decode(columns, lenient, members...)
	var de *changelog.DataError
	if !errors.As(err, &de) || de.Offset != 9 || de.Topic != "topic" || b.Len() != 0 {
		var rows []byte
		for _, c := range b.Changes {
			rows = rowtext.AppendRow(rows, b.Table.Schema, c.Row)
		}
		p.Errorf("%v in %s (lenient %v): %s, %v", members, columns, lenient, rows, err)
	} else if strings.Contains(err.Error(), secret) {
		p.Errorf("the text holds the value: %v", err)
	}
}

// P10: the digits of whole numbers stay what they are, in rows, in nested values, in keys and in what is printed.
func TestPitfall_WholeNumbers(t *testing.T) {
	eachTextFormat(t, func(t *testing.T, p *probe) {
		keys := map[string]string{}
		for _, n := range []string{"2129020", "2129021", "9007199254740992", "9007199254740993", "1234567890123456789", "-9223372036854775808", "9223372036854775807"} {
			want := `{"k":"` + n + `","d":"` + n + `"}`
			if got := p.row("k BIGINT, d DECIMAL(20, 0)", [2]string{"k", n}, [2]string{"d", n}); got != want {
				t.Errorf("%s, expected %s", got, want)
			}
			b, err := p.decode("k BIGINT, d DECIMAL(20, 0)", false, [2]string{"k", n}, [2]string{"d", n})
			if err != nil {
				t.Fatal(err)
			}
			for _, cols := range [][]int{{0}, {1}} {
				key := fmt.Sprint(cols, string(changelog.AppendKeyColumns(nil, b.Table.Schema, cols, b.Changes[0].Row)))
				if other, ok := keys[key]; ok {
					t.Errorf("%s and %s are one key", n, other)
				}
				keys[key] = n
			}
			if !p.nests() {
				continue
			}
			const nested = "r ROW<a BIGINT, m MAP<STRING, BIGINT>, l ARRAY<DECIMAL(20, 0)>>"
			want = fmt.Sprintf(`{"r":{"a":"%[1]s","m":[["x","%[1]s"]],"l":["%[1]s"]}}`, n)
			if got := p.row(nested, [2]string{"r", `{"a":` + n + `,"m":{"x":` + n + `},"l":[` + n + `]}`}); got != want {
				t.Errorf("%s, expected %s", got, want)
			}
		}
		const beyond = "18446744073709551615"
		if got := p.row("d DECIMAL(20, 0)", [2]string{"d", beyond}); got != `{"d":"`+beyond+`"}` {
			t.Errorf("%s", got)
		}
		for _, lenient := range []bool{false, true} {
			p.refused("k BIGINT", beyond, lenient, [2]string{"k", beyond})
			p.refused("k BIGINT", "92233", lenient, [2]string{"k", "9223372036854775808"})
			if p.nests() {
				p.refused("m MAP<STRING, BIGINT>", beyond, lenient, [2]string{"m", `{"x":` + beyond + `}`})
			}
		}
	})
}

// P11: DOUBLE and FLOAT keep NaN and the infinities, in the spelling that Flink writes and reads; another spelling is refused, and so is any
// of them in a DECIMAL. NULL is never put in their place, and what is written can be read.
func TestPitfall_NotANumber(t *testing.T) {
	eachTextFormat(t, func(t *testing.T, p *probe) {
		for _, typ := range []string{"DOUBLE", "FLOAT"} {
			for _, n := range []string{"NaN", "Infinity", "-Infinity"} {
				if got := p.row("v "+typ, [2]string{"v", `"` + n + `"`}); got != `{"v":"`+n+`"}` {
					t.Errorf("%s %s: %s", typ, n, got)
				}
			}
			for _, n := range []string{"NAN", "nan", "inf", "-inf", "INFINITY", "POSITIVE_INFINITY", "NEGATIVE_INFINITY"} {
				for _, lenient := range []bool{false, true} {
					p.refused("v "+typ, n, lenient, [2]string{"v", `"` + n + `"`})
				}
			}
		}
		for _, n := range []string{"NaN", "Infinity", "-Infinity", "NAN", "POSITIVE_INFINITY"} {
			p.refused("v DECIMAL(10, 2)", n, false, [2]string{"v", `"` + n + `"`})
			p.refused("v BIGINT", n, false, [2]string{"v", `"` + n + `"`})
		}
		if p.nests() {
			p.refused("v DOUBLE", "secret", false, [2]string{"v", "NaN"}) // a word that JSON does not have
			if got := p.row("v ROW<a DOUBLE, l ARRAY<FLOAT>>", [2]string{"v", `{"a":"NaN","l":["-Infinity"]}`}); got != `{"v":{"a":"NaN","l":["-Infinity"]}}` {
				t.Errorf("nested: %s", got)
			}
		}
	})
}

// P12: instants before year 1 and beyond year 9999 are exactly those of the text.
func TestPitfall_DistantInstants(t *testing.T) {
	eachTextFormat(t, func(t *testing.T, p *probe) {
		for _, c := range []struct {
			text string
			sec  int64
		}{
			{"0000-12-31 23:40:28Z", changelog.DaysOf(0, 12, 31)*86400 + 85228}, // 0001-12-31 BC
			{"-0001-01-01 00:00:00Z", changelog.DaysOf(-1, 1, 1) * 86400},
			{"+15000-12-31 23:40:28Z", changelog.DaysOf(15000, 12, 31)*86400 + 85228},
			{"9999-12-31 23:59:59Z", changelog.DaysOf(9999, 12, 31)*86400 + 86399},
		} {
			for _, typ := range []string{"TIMESTAMP_LTZ(3)", "TIMESTAMP(3)"} {
				text := c.text
				if typ == "TIMESTAMP(3)" {
					text = strings.TrimSuffix(text, "Z")
				}
				b, err := p.decode("v "+typ, false, [2]string{"v", `"` + text + `"`})
				if err != nil {
					t.Errorf("%s: %v", text, err)
					continue
				}
				v := b.Changes[0].Row[0]
				if sec, nsec := v.Timestamp(); sec != c.sec || nsec != 0 {
					t.Errorf("%s: %d s, %d ns, expected %d s", text, sec, nsec, c.sec)
				}
				if got, want := string(changelog.AppendText(nil, &b.Table.Schema.Columns[0].Type, v)), strings.TrimSuffix(text, "Z")+".000"; got != want {
					t.Errorf("printed as %s, expected %s", got, want)
				}
				if r := p.encode("v "+typ, &b.Changes[0]); !bytes.Contains(r.Value, []byte(text)) {
					t.Errorf("%s is written as %s", text, r.Value)
				}
			}
		}
	})
}

// P13: a key is what it says, whatever the order of its members; those that are written have one form, deletes included.
func TestPitfall_KeyOfSeveralColumns(t *testing.T) {
	const columns = "a INT, b INT, v STRING, PRIMARY KEY (a, b) NOT ENFORCED"
	const options = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
	d := mustDecoder(t, columns, options, false)
	b := changelog.NewBatch(d.Table())
	for _, r := range []*changelog.Record{
		{Key: []byte(`{"a":1,"b":2}`), Value: []byte(`{"a":1,"b":2,"v":"x"}`)},
		{Key: []byte(`{"b":2,"a":1}`), Value: []byte(`{"v":"y","b":2,"a":1}`)},
		{Key: []byte(`{ "b" : 2, "x" : null, "a" : 1 }`)},
	} {
		if err := d.Decode(b, r); err != nil {
			t.Fatal(err)
		}
	}
	var n changelog.Net
	for _, c := range b.Changes[1:] {
		if !bytes.Equal(changelog.AppendKey(nil, b.Table.Schema, c.Row), changelog.AppendKey(nil, b.Table.Schema, b.Changes[0].Row)) {
			t.Errorf("%s is another key", rowtext.AppendRow(nil, b.Table.Schema, c.Row))
		}
	}
	if n.Compute(b.Table.Schema, b.Changes); len(n.Upserts) != 0 || len(n.Deletes) != 1 {
		t.Errorf("the net effect is %d upserts and %d deletes", len(n.Upserts), len(n.Deletes))
	}
	e, err := newEncoder(t, columns, options, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Changes {
		var r changelog.Record
		if err := e.Encode(&r, &c); err != nil || string(r.Key) != `{"a":1,"b":2}` || (r.Value == nil) != (c.Kind == changelog.Delete) {
			t.Errorf("%s: key %s, value %s, %v", c.Kind, r.Key, r.Value, err)
		}
	}
}

// P28: a record without a timestamp is legal, and Flink shows it as one millisecond before the epoch.
func TestPitfall_NoTimestamp(t *testing.T) {
	d := mustDecoder(t, "v INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', tt STRING METADATA FROM 'timestamp-type'", "'connector' = 'kafka', 'format' = 'json'", false)
	b := changelog.NewBatch(d.Table())
	if err := d.Decode(b, &changelog.Record{Value: []byte(`{"v":1}`), Timestamp: -1, TimestampType: changelog.NoTimestamp}); err != nil {
		t.Fatal(err)
	}
	if got, want := string(rowtext.AppendRow(nil, b.Table.Schema, b.Changes[0].Row)), `{"v":"1","ts":"1969-12-31 23:59:59.999","tt":"NoTimestampType"}`; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

// P11, without a text: every NaN is one value to keys, and one text.
func TestPitfall_NaNAsKey(t *testing.T) {
	s := &changelog.Schema{Columns: []changelog.Column{{Name: "d", Type: changelog.Type{Root: changelog.RootDouble}}}, Key: []int{0}}
	one := changelog.AppendKey(nil, s, changelog.Row{changelog.DoubleValue(math.NaN())})
	for _, bits := range []uint64{0x7ff8000000000001, 0xfff8000000000000, 0x7ff0000000000001} {
		row := changelog.Row{changelog.DoubleValue(math.Float64frombits(bits))}
		if got := changelog.AppendKey(nil, s, row); !bytes.Equal(got, one) {
			t.Errorf("%x is another key", bits)
		}
		if got := string(changelog.AppendText(nil, &s.Columns[0].Type, row[0])); got != "NaN" {
			t.Errorf("%x is printed as %s", bits, got)
		}
	}
}
