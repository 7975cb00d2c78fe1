package avro

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// payloadOf makes a payload of the columns given as "a INT".
func payloadOf(t testing.TB, options map[string]string, columns ...string) changelog.Payload {
	t.Helper()
	p := formattest.Payload(t, options, nil, columns...)
	p.Table.Mode = changelog.Append
	return p
}

func decoderOf(t testing.TB, p changelog.Payload) changelog.PayloadDecoder {
	t.Helper()
	return formattest.Decoder(t, Format{}, p)
}

func encoderOf(t testing.TB, p changelog.Payload) changelog.PayloadEncoder {
	t.Helper()
	return formattest.Encoder(t, Format{}, p)
}

func TestNewDecoder_Refuses(t *testing.T) {
	nonlegacy := map[string]string{"timestamp_mapping.legacy": "false"}
	for _, c := range []struct {
		options map[string]string
		columns []string
		want    string // in the error; "" for none
	}{
		{map[string]string{"encoding": "Binary", "timestamp_mapping.legacy": "TRUE"}, []string{"a INT"}, ""},
		{map[string]string{"encoding": "JSON"}, []string{"a INT"}, ""},
		{map[string]string{"encoding": "xml"}, []string{"a INT"}, "must be 'binary' or 'json'"},
		{map[string]string{"codec": "snappy"}, []string{"a INT"}, "avro: unknown option 'codec'"},
		{map[string]string{"timestamp_mapping.legacy": "yes"}, []string{"a INT"}, "'true' or 'false'"},
		{nil, []string{"a TIMESTAMP(6)"}, "column a: the legacy mapping has no TIMESTAMP(6)"},
		{nil, []string{"a TIMESTAMP_LTZ(3)"}, "set 'timestamp_mapping.legacy' = 'false'"},
		{nonlegacy, []string{"a TIMESTAMP(6)", "b TIMESTAMP_LTZ(6)", "c ROW<x TIMESTAMP(6)>", "d ARRAY<TIMESTAMP(3)>"}, ""},
		{nonlegacy, []string{"a TIMESTAMP(9)"}, "only up to precision 6"},
		{nonlegacy, []string{"a ARRAY<TIMESTAMP(6)>"}, "only up to precision 3"},
		{nonlegacy, []string{"a ROW<x TIMESTAMP_LTZ(3)>"}, "field x: Flink cannot read or write TIMESTAMP_LTZ inside"},
		{nonlegacy, []string{"a MAP<STRING, TIMESTAMP_LTZ(3)>"}, "TIMESTAMP_LTZ inside"},
		{nil, []string{"a MAP<INT, INT>", "b INTERVAL DAY TO SECOND"}, "column b: Avro has no type"},
	} {
		p := payloadOf(t, c.options, c.columns...)
		_, err := Format{}.NewDecoder(p)
		_, err2 := Format{}.NewEncoder(p)
		for _, err := range []error{err, err2} {
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v %v: error %v, want %q in it", c.options, c.columns, err, c.want)
			}
		}
	}
}

// Flink puts a MAP into a HashMap before it writes it.
func TestEncode_MapsAsFlinkDid(t *testing.T) {
	f, err := os.Open("testdata/maps.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := payloadOf(t, nil, "m MAP<STRING, INT>")
	d, e := decoderOf(t, p), encoderOf(t, p)
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		n++
		message, err := base64.StdEncoding.DecodeString(sc.Text())
		if err != nil {
			t.Fatal(err)
		}
		b := changelog.NewBatch(p.Table)
		if err := d.DecodePayload(b, message, nil); err != nil {
			t.Fatal(err)
		}
		type entry struct{ key, value changelog.Value }
		var entries []entry
		for pairs := b.Changes[0].Row[0].Elems(); len(pairs) > 0; pairs = pairs[2:] {
			entries = append(entries, entry{pairs[0], pairs[1]})
		}
		slices.SortFunc(entries, func(a, b entry) int { return int(a.value.Int() - b.value.Int()) })
		var pairs []changelog.Value
		for _, en := range entries {
			pairs = append(pairs, en.key, en.value)
		}
		got, _, err := e.AppendPayload(nil, &changelog.Change{Row: changelog.Row{changelog.MapValue(pairs)}})
		if err != nil || !bytes.Equal(got, message) {
			t.Errorf("%d entries: %q, %v\nFlink %q", len(entries), got, err, message)
		}
	}
	if n < 70 {
		t.Errorf("%d maps", n)
	}
}

// A nullable value is a union: its branch, then the value.
func TestEncode_Bytes(t *testing.T) {
	text := changelog.StringValue
	for _, c := range []struct {
		typ  string
		v    changelog.Value
		want string
	}{
		{"INT", changelog.Value{}, "\x00"},
		{"INT", changelog.IntValue(-1), "\x02\x01"},
		{"INT NOT NULL", changelog.IntValue(64), "\x80\x01"},
		{"BIGINT NOT NULL", changelog.IntValue(-1 << 63), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"STRING", text("é"), "\x02\x04é"},
		{"BOOLEAN", changelog.BoolValue(true), "\x02\x01"},
		{"DOUBLE NOT NULL", changelog.DoubleValue(1.5), "\x00\x00\x00\x00\x00\x00\xf8\x3f"},
		{"FLOAT NOT NULL", changelog.FloatValue(1.5), "\x00\x00\xc0\x3f"},
		{"DECIMAL(5, 2) NOT NULL", changelog.DecimalValue(0, 128, 2), "\x04\x00\x80"},
		{"DECIMAL(5, 2) NOT NULL", changelog.DecimalValue(-1, ^uint64(127), 2), "\x02\x80"},
		{"DECIMAL(5, 2) NOT NULL", changelog.DecimalValue(0, 1, 0), "\x02\x64"}, // at the column's scale
		{"DECIMAL(5, 2) NOT NULL", changelog.DecimalValue(0, 0, 2), "\x02\x00"},
		{"DATE NOT NULL", changelog.DateValue(-1), "\x01"},
		{"TIME(0) NOT NULL", changelog.TimeValue(1e9), "\xd0\x0f"},
		{"TIMESTAMP(3) NOT NULL", changelog.TimestampValue(-1, 999e6), "\x01"},
		{"ARRAY<INT>", changelog.ArrayValue(nil), "\x02\x00"},
		{"ARRAY<INT>", changelog.ArrayValue([]changelog.Value{{}, changelog.IntValue(1)}), "\x02\x04\x00\x02\x02\x00"},
		{"MAP<STRING, INT NOT NULL>", changelog.MapValue([]changelog.Value{text("a"), changelog.IntValue(1)}), "\x02\x02\x02a\x02\x00"},
		{"MULTISET<STRING>", changelog.MapValue([]changelog.Value{text("a"), changelog.IntValue(1)}), "\x02\x02\x02a\x02\x02\x00"},
		{"ROW<x INT, y INT NOT NULL>", changelog.RowValue([]changelog.Value{{}, changelog.IntValue(1)}), "\x02\x00\x02"},
	} {
		p := payloadOf(t, nil, "v "+c.typ)
		got, null, err := encoderOf(t, p).AppendPayload([]byte("x"), &changelog.Change{Row: changelog.Row{c.v}})
		if err != nil || null || string(got) != "x"+c.want {
			t.Errorf("%s: %q, %v; want %q", c.typ, got, err, c.want)
		}
	}
}

func TestEncode_Refuses(t *testing.T) {
	for _, c := range []struct {
		typ  string
		v    changelog.Value
		want string
	}{
		{"INT NOT NULL", changelog.Value{}, "field v: the value is NULL"},
		{"INT", changelog.UnchangedValue(), "field v: the value was not sent"},
		{"INT", changelog.StringValue(""), "another type"},
		{"STRING", changelog.StringValue("\xED\xA0\xBD"), "lone surrogate"},
		{"TIMESTAMP(3)", changelog.TimestampValue(1, 1), "more than milliseconds"},
		{"TIMESTAMP(3)", changelog.TimestampValue(1<<60, 0), "64 bits do not hold"},
		{"TIMESTAMP(3)", changelog.TimestampValue(-1<<63, 0), "64 bits do not hold"},
		{"TIME(0)", changelog.TimeValue(1), "more than milliseconds"},
		{"DECIMAL(3, 1)", changelog.DecimalValue(0, 1234, 2), "more digits"},
		{"MAP<STRING, INT>", changelog.MapValue([]changelog.Value{{}, {}}), "a key of the map is NULL"},
		{"ARRAY<INT NOT NULL>", changelog.ArrayValue([]changelog.Value{{}}), "field v[0]: the value is NULL"},
		{"ROW<x INT>", changelog.RowValue(nil), "does not have the fields"},
	} {
		out, _, err := encoderOf(t, payloadOf(t, nil, "v "+c.typ)).AppendPayload([]byte("x"), &changelog.Change{Row: changelog.Row{c.v}})
		if err == nil || !strings.Contains(err.Error(), c.want) || string(out) != "x" {
			t.Errorf("%s: %q, %v, want %s", c.typ, out, err, c.want)
		}
	}
	lenient := payloadOf(t, nil, "v TIMESTAMP(3)")
	lenient.Lenient = true
	if out, _, err := encoderOf(t, lenient).AppendPayload(nil, &changelog.Change{Row: changelog.Row{changelog.TimestampValue(-1, 999999999)}}); err != nil || string(out) != "\x02\x01" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestDecode_Bombs(t *testing.T) {
	for _, c := range []struct{ typ, in string }{
		{"ARRAY<ROW<x ARRAY<INT NOT NULL> NOT NULL> NOT NULL> NOT NULL", "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{"ARRAY<INT NOT NULL> NOT NULL", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"},
		{"ARRAY<INT NOT NULL> NOT NULL", strings.Repeat("\x02\x00", 1e6)},
		{"STRING NOT NULL", "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01x"},
		{"BYTES NOT NULL", "\x01"},
		{"MAP<STRING, INT NOT NULL> NOT NULL", strings.Repeat("\x02\x00\x00", 1e6)},
		{"DECIMAL(38, 0) NOT NULL", "\x80\x89\x7a" + strings.Repeat("\x7f", 1e6)},
	} {
		p := payloadOf(t, nil, "v "+c.typ)
		b := changelog.NewBatch(p.Table)
		if err := decoderOf(t, p).DecodePayload(b, []byte(c.in), nil); err == nil || b.Len() > 0 {
			t.Errorf("%s: %d rows, %v", c.typ, b.Len(), err)
		}
		if b.Bytes() > 128<<20 {
			t.Errorf("%s: %d bytes", c.typ, b.Bytes())
		}
	}
}

// FuzzDecode holds what a decoder promises whatever comes: one row or an error; what is no guess is the same with leniency; and a row that was
// read is read again from what an encoder makes of it.
// A long array takes the memory of its values about twice (three times with -race), and not that of every size on the way there.
func TestDecode_LongArrayMemory(t *testing.T) {
	const elements = 1 << 20
	message := binary.AppendVarint(nil, elements)
	message = append(append(message, bytes.Repeat([]byte{1}, elements)...), 0)
	p := payloadOf(t, nil, "a ARRAY<BOOLEAN NOT NULL> NOT NULL")
	d := decoderOf(t, p)
	b := changelog.NewBatch(p.Table)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := d.DecodePayload(b, message, nil); err != nil || len(b.Changes[0].Row[0].Elems()) != elements {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took, most := after.TotalAlloc-before.TotalAlloc, uint64(elements*4*unsafe.Sizeof(changelog.Value{})); took > most {
		t.Errorf("%d bytes, want at most %d", took, most)
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"avro.jsonl", "avro-more.jsonl", "avro-json.jsonl"} {
		file, err := os.Open(filepath.Join("..", "..", "..", "testdata", "flink", "odd", name))
		if err != nil {
			f.Fatal(err)
		}
		defer file.Close()
		for dec := json.NewDecoder(file); ; {
			var o struct{ Value []byte }
			if err := dec.Decode(&o); err == io.EOF {
				break
			} else if err != nil {
				f.Fatal(err)
			}
			f.Add(o.Value)
		}
	}
	type mode struct {
		p       changelog.Payload
		decoder [2]changelog.PayloadDecoder // strict, lenient
		encoder changelog.PayloadEncoder
	}
	var modes []mode
	tables := [][]string{
		{"a INT", "b STRING", "c BOOLEAN", "d DECIMAL(38, 2)", "e TIMESTAMP(3)", "f DOUBLE", "g BYTES"}, {"a ARRAY<STRING>"}, {"a MAP<STRING, ARRAY<BIGINT>>"}, {"a DECIMAL(3, 1)"},
		{"a TINYINT", "b SMALLINT NOT NULL", "c DATE", "d TIME(0)"}, {"a ROW<x INT, y ROW<z STRING> NOT NULL>", "b MULTISET<STRING>"}, {"a STRING NOT NULL", "b FLOAT NOT NULL"},
		{"a ARRAY<ROW<x ARRAY<INT NOT NULL> NOT NULL> NOT NULL> NOT NULL"},
	}
	inJSON := [][]string{{"a INT", "b STRING"}, {"a ROW<x INT, y ROW<z STRING>>"}, {"a ARRAY<ROW<x INT>>"}, {"a MAP<STRING, INT>"}, {"a DECIMAL(5, 2)"}, {"a BYTES"}, {"a DOUBLE"},
		{"a FLOAT"}, {"a BIGINT"}, {"a TIMESTAMP(3)", "b TIMESTAMP(0)"}, {"a INT NOT NULL"}}
	for i, columns := range append(tables, inJSON...) {
		var options map[string]string
		if i >= len(tables) {
			options = map[string]string{"encoding": "json"}
		}
		m := mode{p: payloadOf(f, options, columns...)}
		m.encoder = encoderOf(f, m.p)
		for i := range m.decoder {
			m.p.Lenient = i == 1
			m.decoder[i] = decoderOf(f, m.p)
		}
		modes = append(modes, m)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for i, m := range modes {
			var results [2]string
			for k, d := range m.decoder {
				b := changelog.NewBatch(m.p.Table)
				err := d.DecodePayload(b, in, nil)
				var de *changelog.DataError
				if err != nil {
					if !errors.As(err, &de) || b.Len() > 0 {
						t.Fatalf("mode %d: %#v, %d changes", i, err, b.Len())
					}
					results[k] = "error"
					continue
				}
				results[k] = string(rowtext.AppendRow(nil, m.p.Table.Schema, b.Changes[0].Row))
				if k > 0 {
					continue
				}
				message, _, err := m.encoder.AppendPayload(nil, &b.Changes[0])
				if err != nil {
					t.Fatalf("mode %d: %v, %s", i, err, results[0])
				}
				again := changelog.NewBatch(m.p.Table)
				if err := d.DecodePayload(again, message, nil); err != nil {
					t.Fatalf("mode %d: %v, %s", i, err, results[0])
				}
				if got := string(rowtext.AppendRow(nil, m.p.Table.Schema, again.Changes[0].Row)); got != results[0] {
					t.Fatalf("mode %d: %s, then %s", i, results[0], got)
				}
			}
			if results[0] != "error" && results[0] != results[1] {
				t.Fatalf("mode %d: default %s, lenient %s", i, results[0], results[1])
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) { benchmark(b, true) }
func BenchmarkEncode(b *testing.B) { benchmark(b, false) }

func benchmark(b *testing.B, decode bool) {
	p := payloadOf(b, nil, "id BIGINT", "customer STRING", "item STRING", "quantity INT", "price DECIMAL(10, 2)", "weight DOUBLE",
		"ordered TIMESTAMP(3)", "shipped BOOLEAN", "note STRING")
	d, e := decoderOf(b, p), encoderOf(b, p)
	text := changelog.StringValue
	in, _, err := e.AppendPayload(nil, &changelog.Change{Row: changelog.Row{changelog.IntValue(918273645), text("c-00918273"), text("standard widget, blue"), changelog.IntValue(12),
		changelog.DecimalValue(0, 149995, 2), changelog.DoubleValue(0.375), changelog.TimestampValue(1715933350, 123e6), changelog.BoolValue(false), text("leave at door")}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	batch := changelog.NewBatch(p.Table)
	var out []byte
	for i := 0; b.Loop(); i++ {
		if decode || i == 0 {
			if i%4096 == 0 {
				batch.Reset()
			}
			if err := d.DecodePayload(batch, in, nil); err != nil {
				b.Fatal(err)
			}
		}
		if !decode {
			if out, _, err = e.AppendPayload(out[:0], &batch.Changes[0]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
