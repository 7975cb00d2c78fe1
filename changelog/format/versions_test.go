package format_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/internal/capture"
	"github.com/flinksink/flinksink/internal/rowtext"
)

const versionsDir = "testdata/versions"

func versionOf(t *testing.T, s string) changelog.FlinkVersion {
	t.Helper()
	v, err := changelog.ParseFlinkVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Messages that another Flink reads otherwise than 2.2.
func TestDecode_OddMessagesOfOtherVersions(t *testing.T) {
	var text []byte
	for _, name := range []string{"odd.jsonl", "csv-2.3.0.jsonl"} {
		part, err := os.ReadFile(filepath.Join(versionsDir, name))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part...)
	}
	asFlink, stricter := map[string]int{}, 0
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var o struct {
			Version, Columns string
			Options          map[string]string `json:"ddl-options"`
			Key, Value       []byte
			Result           []any
			Error            string
		}
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatal(err)
		}
		o.Options["topic"] = "odd"
		tab := tableOf(t, o.Columns, o.Options)
		var want []string
		for _, row := range o.Result {
			if row != nil { // a null row, which a job drops or fails at
				want = append(want, canonical(t, row))
			}
		}
		for _, lenient := range []bool{true, false} {
			d, err := format.New(tab, formats, &format.Options{Lenient: lenient, FlinkVersion: versionOf(t, o.Version)})
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			b := changelog.NewBatch(d.Table())
			err = d.Decode(b, &changelog.Record{Partition: changelog.Partition{Topic: "odd"}, Offset: 7, Timestamp: 1700000000123, Key: o.Key, Value: o.Value})
			var got []string
			for i := range b.Changes {
				c := &b.Changes[i]
				row := rowtext.AppendRow(nil, d.Table().Schema, c.Row)
				got = append(got, parsed(t, fmt.Appendf(nil, `{"op":%q,"row":%s}`, c.Kind.String(), row)))
			}
			switch {
			case err != nil && o.Error != "", err == nil && o.Error == "" && slices.Equal(got, want):
				asFlink[o.Version]++
			case err != nil && !lenient:
				stricter++
			case err != nil && slices.Contains(o.Result, any(nil)):
			default:
				t.Errorf("lenient %v, Flink %s: %s %v\nvalue %s\n got %s, %v\nwant %s, %s", lenient, o.Version, o.Columns, o.Options, o.Value, got, err, want, o.Error)
			}
		}
	}
	for _, v := range []string{"1.17.2", "1.18.1", "1.20.4", "2.0.2", "2.3.0"} {
		if asFlink[v] == 0 {
			t.Errorf("no message of %s", v)
		}
	}
	t.Logf("as Flink: %v; stricter: %d", asFlink, stricter)
}

// Topics that other Flinks wrote are read as they read them, and written as they wrote them.
func TestTopicsOfOtherVersions(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(versionsDir, "*", "*", "topic.jsonl"))
	if err != nil || len(dirs) < 25 {
		t.Fatalf("%d topics, %v", len(dirs), err)
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		name, version := filepath.Base(dir), filepath.Base(filepath.Dir(dir))
		t.Run(version+"/"+name, func(t *testing.T) {
			o := &format.Options{FlinkVersion: versionOf(t, version)}
			tab := table(t, dir)
			want, failed := failing(t, dir)
			rows := decodeVersion(t, tab, dir, o, failed)
			if rows.Len() != len(want) {
				t.Fatalf("%d rows, Flink read %d", rows.Len(), len(want))
			}
			for i, w := range want {
				if got := parsed(t, rowtext.AppendChange(nil, rows.Table, &rows.Changes[i])); got != canonical(t, w) {
					t.Errorf("row %d:\n got %s\nwant %s", i, got, canonical(t, w))
				}
			}
			// The rows of the job: csv cannot tell them all.
			from := rows
			if !strings.HasSuffix(name, "_types") {
				plain := filepath.Join(filepath.Dir(dir), "json_plain")
				from = decodeVersion(t, table(t, plain), plain, o, nil)
			} else if len(failed) > 0 {
				return
			}
			e, err := format.NewEncoder(tab, formats, o)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range from.Changes {
				var r changelog.Record
				if err := e.Encode(&r, &from.Changes[i]); err != nil {
					t.Fatal(err)
				}
				got = append(got, string(r.Value))
			}
			records, err := capture.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var wrote []string
			for i := range records {
				wrote = append(wrote, strings.ReplaceAll(string(records[i].Value), `:-0.0,`, `:0.0,`)) // BigDecimals have no negative zero
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], `:-0.0,`, `:0.0,`)
			}
			slices.Sort(got)
			slices.Sort(wrote)
			if !slices.Equal(got, wrote) {
				t.Errorf("written:\n got %q\nwant %q", got, wrote)
			}
		})
	}
}

// decodeVersion decodes a topic but for the records of failed, at which Flink failed.
func decodeVersion(t *testing.T, tab *ddl.Table, dir string, o *format.Options, failed map[string]bool) *changelog.Batch {
	t.Helper()
	d, err := format.New(tab, formats, o)
	if err != nil {
		t.Fatal(err)
	}
	records, err := capture.ReadFile(filepath.Join(dir, "topic.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	b := changelog.NewBatch(d.Table())
	for i := range records {
		r := &records[i]
		err := d.Decode(b, &r.Record)
		if fails := failed[fmt.Sprint(r.Partition.Partition, "/", r.Offset)]; fails != (err != nil) {
			t.Fatalf("offset %d: error %v; Flink fails: %v", r.Offset, err, fails)
		}
	}
	return b
}

func TestNew_OptionsOfNewerVersions(t *testing.T) {
	for _, c := range []struct {
		version changelog.FlinkVersion
		format  string
		option  string
		want    string // in the error; "" for none
	}{
		{changelog.Flink1_19, "json", "encode.ignore-null-fields", "came with Flink 1.20"},
		{changelog.Flink1_20, "json", "encode.ignore-null-fields", ""},
		{changelog.Flink2_0, "json", "decode.json-parser.enabled", "came with Flink 2.1"},
		{0, "json", "decode.json-parser.enabled", ""},
		{changelog.Flink1_19, "canal-json", "encode.ignore-null-fields", "option 'canal-json.encode.ignore-null-fields' came with Flink 1.20, and the table is read as Flink 1.19 does"},
		{changelog.Flink1_18, "avro", "timestamp_mapping.legacy", "came with Flink 1.19"},
		{99, "json", "ignore-parse-errors", "FlinkVersion(99)"},
		{0, "csv", "trim-spaces", "option 'csv.trim-spaces' came with Flink 2.3, and the table is read as Flink 2.2 does; set Options.FlinkVersion to 2.3 or newer"},
		{changelog.Flink2_3, "csv", "trim-spaces", ""},
		{changelog.Flink2_3, "csv", "allow-trailing-comma", ""},
	} {
		with := map[string]string{"connector": "kafka", "format": c.format, c.format + "." + c.option: "true"}
		_, err := format.New(tableOf(t, "id INT", with), formats, &format.Options{FlinkVersion: c.version})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: error %v, want %q", c.version, c.option, err, c.want)
		}
	}
}
