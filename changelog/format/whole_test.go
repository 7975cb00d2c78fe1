package format_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/internal/capture"
)

// Of the formats that tell whether a message holds more than its rows, every message that Flink wrote does not, and every message of the systems' own does; the
// original is the value, byte by byte, and its changes are those of the message. Others keep no value.
func TestOriginals_AsFlinkWrote(t *testing.T) {
	whole, more := 0, 0
	for _, dir := range cases(t) {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			d, err := format.New(table(t, dir), formats, nil)
			if err != nil {
				t.Fatal(err)
			}
			records, err := capture.ReadFile(filepath.Join(dir, "topic.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for i := range records {
				b := changelog.NewBatch(d.Table())
				b.KeepOriginals = true
				r := &records[i].Record
				if err := d.Decode(b, r); err != nil || b.Len() == 0 {
					if len(b.Originals) > 0 {
						t.Errorf("offset %d: an original of no change", r.Offset)
					}
					continue
				}
				if len(b.Originals) != 1 || !b.Originals[0].Of(&b.Changes[0]) || int(b.Originals[0].Changes) != b.Len() {
					t.Fatalf("offset %d: %d changes, originals %+v", r.Offset, b.Len(), b.Originals)
				}
				switch o := b.Originals[0]; {
				case o.Value == nil:
					more++
				case d.FillsOriginals() == nil || r.Value == nil || !slices.Equal(o.Value, r.Value):
					t.Errorf("offset %d: the original is %q", r.Offset, o.Value)
				case slices.Contains([]string{"debezium_real", "canal_real", "maxwell_real", "ogg_real"}, name):
					t.Errorf("offset %d: a message with members that are no columns is called whole: %s", r.Offset, o.Value)
				default:
					whole++
				}
			}
		})
	}
	if whole == 0 || more == 0 {
		t.Errorf("%d messages are whole, %d are not: the test shows nothing", whole, more)
	}
}

// What two tables have to share for the one to take the other's values, and what not.
func TestEncoding(t *testing.T) {
	of := func(columns, with string, o *format.Options, writes bool, fs ...changelog.Format) string {
		t.Helper()
		tab, err := ddl.Find("CREATE TABLE t ("+columns+") WITH ('topic' = 't', 'properties.bootstrap.servers' = 'x', "+with+")", "")
		if err != nil {
			t.Fatal(err)
		}
		if fs == nil {
			fs = formats
		}
		if writes {
			e, err := format.NewEncoder(tab, fs, o)
			if err != nil {
				t.Fatal(err)
			}
			return e.Table().Encoding
		}
		d, err := format.New(tab, fs, o)
		if err != nil {
			t.Fatal(err)
		}
		if (d.FillsOriginals() != nil) != (d.Table().Encoding != "") {
			t.Errorf("%s: has an encoding, and no originals, or the other way round", with)
		}
		return d.Table().Encoding
	}
	const columns, keyed = "a INT, b STRING", "a INT, b STRING, PRIMARY KEY (a) NOT ENFORCED"
	const upsert, appends = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'", "'connector' = 'kafka', 'format' = 'json'"
	want := of(keyed, upsert, nil, false)
	if want == "" {
		t.Fatal("a table of json has no encoding")
	}
	for name, got := range map[string]string{
		"its writer":    of(keyed, upsert, nil, true),
		"key's format":  of(keyed, "'connector' = 'upsert-kafka', 'key.format' = 'csv', 'value.format' = 'json'", nil, true),
		"connector":     of(columns, appends, nil, true),
		"named version": of(keyed, upsert, &format.Options{FlinkVersion: changelog.DefaultFlinkVersion}, false),
		"virtual":       of("a INT, b STRING, o BIGINT METADATA FROM 'offset' VIRTUAL, PRIMARY KEY (a) NOT ENFORCED", upsert, nil, false),
	} {
		if got != want {
			t.Errorf("%s: another encoding, %q", name, got)
		}
	}
	seen := map[string]string{want: "the first"}
	for name, got := range map[string]string{
		"option":   of(columns, appends+", 'json.timestamp-format.standard' = 'ISO-8601'", nil, true),
		"order":    of("b STRING, a INT", appends, nil, true),
		"type":     of("a BIGINT, b STRING", appends, nil, true),
		"name":     of("a INT, c STRING", appends, nil, true),
		"more":     of("a INT, b STRING, c INT", appends, nil, true),
		"without":  of(keyed, upsert+", 'value.fields-include' = 'EXCEPT_KEY'", nil, true),
		"version":  of(columns, appends, &format.Options{FlinkVersion: changelog.Flink1_17}, false),
		"debezium": of(columns, "'connector' = 'kafka', 'format' = 'debezium-json'", nil, true),
		"canal":    of(columns, "'connector' = 'kafka', 'format' = 'canal-json'", nil, true),
	} {
		if got == "" || seen[got] != "" {
			t.Errorf("%s: the encoding is that of %q", name, seen[got])
		}
		seen[got] = name
	}
	for name, got := range map[string]string{
		"lenient":                     of(columns, appends, &format.Options{Lenient: true}, false),
		"errors passed over":          of(columns, appends+", 'json.ignore-parse-errors' = 'true'", nil, false),
		"a format that is set":        of(columns, "'connector' = 'kafka', 'format' = 'debezium-json'", nil, false, debezium.Format{UnavailableValue: "n/a"}),
		"the format's own metadata":   of(columns+", s STRING METADATA FROM 'value.source.table' VIRTUAL", "'connector' = 'kafka', 'format' = 'debezium-json'", nil, false),
		"a format that does not tell": of(columns, "'connector' = 'kafka', 'format' = 'csv'", nil, false),
	} {
		if got != "" {
			t.Errorf("%s: it has an encoding", name)
		}
	}
}

// A number with more digits than its DECIMAL holds is rounded: its row is not what the message says, so the message is none that a reader with more
// digits may be given as that row. However the same number is spelt, it is whole.
func TestOriginals_RoundedDecimal(t *testing.T) {
	for _, encoding := range []struct{ with, before, after string }{
		{"'connector' = 'kafka', 'format' = 'json'", "", ""},
		{"'connector' = 'kafka', 'format' = 'debezium-json'", `{"before":null,"after":`, `,"op":"c"}`},
	} {
		tab, err := ddl.Find("CREATE TABLE t (a DECIMAL(10, 2), r ROW<m MAP<STRING, DECIMAL(5, 1)>>) WITH ('topic' = 't', 'properties.bootstrap.servers' = 'x', "+encoding.with+")", "")
		if err != nil {
			t.Fatal(err)
		}
		d, err := format.New(tab, formats, nil)
		if err != nil {
			t.Fatal(err)
		}
		for value, whole := range map[string]bool{
			`{"a":10.55}`: true, `{"a":10.5}`: true, `{"a":10}`: true, `{"a":"10.55"}`: true, `{"a":-0.01}`: true,
			`{"a":10.555}`: false, `{"a":"10.555"}`: false, `{"a":-0.001}`: false, `{"r":{"m":{"k":1.25}}}`: false, `{"r":{"m":{"k":1.2}}}`: true,
		} {
			b := changelog.NewBatch(d.Table())
			b.KeepOriginals = true
			if err := d.Decode(b, &changelog.Record{Value: []byte(encoding.before + value + encoding.after)}); err != nil || len(b.Originals) != 1 {
				t.Fatalf("%s: %v, %d originals", value, err, len(b.Originals))
			}
			if got := b.Originals[0].Value != nil; got != whole {
				t.Errorf("%s, %s: whole is %t", encoding.with, value, got)
			}
		}
		if encoding.before != "" {
			continue // whose reader takes no exponent
		}
		for value, whole := range map[string]bool{`{"a":1E+2}`: true, `{"a":1.5e1}`: true, `{"a":1055e-2}`: true, `{"a":1.055E1}`: true, `{"a":10555e-3}`: false, `{"a":1e-3}`: false} {
			b := changelog.NewBatch(d.Table())
			b.KeepOriginals = true
			if err := d.Decode(b, &changelog.Record{Value: []byte(value)}); err != nil {
				t.Fatalf("%s: %v", value, err)
			}
			if got := b.Originals[0].Value != nil; got != whole {
				t.Errorf("%s: whole is %t", value, got)
			}
		}
	}
}
