package format_test

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/internal/capture"
)

// Flink's csv cannot read all that it wrote: NULLs that are nothing, and without quotes text with delimiters; nor its avro in JSON: NaN. The rows of such records are read
// here with other options than the table's, or from the same rows in another topic, and must be written as Flink wrote them.
func TestEncode_WhatFlinkCannotRead(t *testing.T) {
	readings := []map[string]string{
		{},
		{"csv.null-literal": "", "key.csv.null-literal": ""},
		{"csv.null-literal": "", "csv.ignore-parse-errors": "true"},
	}
	again := map[string]map[string]string{
		"csv_types_options": {"csv.escape-character": "\x00"},    // which its null-literal begins with
		"csv_nested":        {"csv.ignore-parse-errors": "true"}, // a ROW of one NULL
	}
	// The rows of these are those of csv_text.
	alike := map[string]bool{"csv_no_quote": true}
	unread := map[string]int{"csv_one_column": 2, "csv_nested": 1, "avro_json_encoding": 2} // rows that no reading gives
	total := 0
	for _, dir := range cases(t) {
		name := filepath.Base(dir)
		if _, failed := failing(t, dir); len(failed) == 0 || notWritten[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			e, err := format.NewEncoder(table(t, dir), formats, nil)
			if err != nil {
				t.Fatal(err)
			}
			var decoders []*format.Decoder
			for _, options := range append(readings, again[name]) {
				tab := table(t, dir)
				tab.Options = maps.Clone(tab.Options)
				for k, v := range options {
					if k == "key.csv.null-literal" && tab.Options["key.format"] == "" || k != "key.csv.null-literal" && tab.Options["format"] != "csv" {
						continue
					}
					if v == "\x00" {
						delete(tab.Options, k)
					} else {
						tab.Options[k] = v
					}
				}
				d, err := format.New(tab, formats, nil)
				if err != nil {
					t.Fatal(err)
				}
				decoders = append(decoders, d)
			}
			records, err := capture.ReadFile(filepath.Join(dir, "topic.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			sources := [][]capture.Record{records}
			if alike[name] {
				text, err := capture.ReadFile(filepath.Join(flinkDir, "csv_text", "topic.jsonl"))
				if err != nil {
					t.Fatal(err)
				}
				sources = append(sources, text)
				d, err := format.New(table(t, filepath.Join(flinkDir, "csv_text")), formats, nil)
				if err != nil {
					t.Fatal(err)
				}
				decoders = append(decoders, d)
			}
			left := 0
			for i := range records {
				if !written(t, e, decoders, sources, i) {
					left++
					continue
				}
				total++
			}
			if left != unread[name] {
				t.Errorf("%d records of %d were not written as Flink did, and %d are known", left, len(records), unread[name])
			}
		})
	}
	if total < 50 {
		t.Errorf("only %d records", total)
	}
	t.Logf("%d records", total)
}

// written reports whether a row that some decoder reads from record i of some source is written as record i of the first.
func written(t *testing.T, e *format.Encoder, decoders []*format.Decoder, sources [][]capture.Record, i int) bool {
	want := &sources[0][i].Record
	for _, records := range sources {
		for _, d := range decoders {
			b := changelog.NewBatch(d.Table())
			if err := d.Decode(b, &records[i].Record); err != nil || b.Len() != 1 {
				continue
			}
			var out changelog.Record
			if err := e.Encode(&out, &b.Changes[0]); err == nil && same(out.Key, want.Key) && same(out.Value, want.Value) {
				return true
			}
		}
	}
	t.Logf("offset %d: %q", want.Offset, want.Value)
	return false
}
