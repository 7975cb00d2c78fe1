package format_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/canal"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/changelog/format/maxwell"
	"github.com/flinksink/flinksink/changelog/format/ogg"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// writerSettings are the settings that cases of testdata/writers name.
var writerSettings = map[string]map[string]changelog.Format{
	"debezium": {
		"":              debezium.Format{},
		"skip events":   debezium.Format{Truncate: debezium.EventSkip, Messages: debezium.EventSkip},
		"refuse events": debezium.Format{Truncate: debezium.EventRefuse, Messages: debezium.EventRefuse},
		"adaptive":      debezium.Format{SourceTypes: &debezium.SourceTypes{}},
		"microseconds":  debezium.Format{SourceTypes: &debezium.SourceTypes{Time: debezium.TimeAdaptiveMicroseconds}},
		"connect text":  debezium.Format{SourceTypes: &debezium.SourceTypes{Time: debezium.TimeConnect, Decimal: debezium.DecimalAsText}},
	},
	"canal":   {"": canal.Format{}, "skip DDL": canal.Format{SkipDDL: true}},
	"maxwell": {"": maxwell.Format{}, "bootstrap and skip DDL": maxwell.Format{Bootstrap: true, SkipDDL: true}},
	"ogg":     {"": ogg.Format{}},
}

// What other writers than Flink write, in the shapes that they document (testdata/writers), and what becomes of it. P18 to P22 are among them.
func TestDecode_OtherWriters(t *testing.T) {
	files, err := filepath.Glob("testdata/writers/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Cases []struct {
				Note, Columns, Settings, Flink string
				Options                        map[string]string
				Messages                       []struct {
					Value       json.RawMessage
					Want, Error string
				}
			}
		}
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		writer, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "-")
		for _, c := range f.Cases {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".json")+"/"+c.Note, func(t *testing.T) {
				fm, ok := writerSettings[writer][c.Settings]
				if !ok {
					t.Fatalf("no settings %q", c.Settings)
				}
				version, err := changelog.ParseFlinkVersion(c.Flink)
				if err != nil {
					t.Fatal(err)
				}
				with := map[string]string{"connector": "kafka", "format": fm.Name()}
				maps.Copy(with, c.Options)
				d, err := format.New(tableOf(t, c.Columns, with), []changelog.Format{fm}, &format.Options{FlinkVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				for i, m := range c.Messages {
					r := &changelog.Record{Offset: int64(i), Value: m.Value}
					if string(m.Value) == "null" {
						r.Value = nil
					}
					b := changelog.NewBatch(d.Table())
					err := d.Decode(b, r)
					var de *changelog.DataError
					switch {
					case m.Error != "":
						if !errors.As(err, &de) || !strings.Contains(err.Error(), m.Error) {
							t.Errorf("%s:\nerror %v\nwant  %s", m.Value, err, m.Error)
						}
					case err != nil:
						t.Errorf("%s: %v", m.Value, err)
					default:
						if got := changesText(b); got != m.Want {
							t.Errorf("%s:\n got %s\nwant %s", m.Value, got, m.Want)
						}
					}
				}
			})
		}
	}
}

// changesText shows changes in a line. Columns that are Unchanged are left out.
func changesText(b *changelog.Batch) string {
	var out []string
	for i := range b.Changes {
		c := &b.Changes[i]
		kind := c.Kind.String() + " "
		if c.KeyOnly {
			kind += "key "
		}
		out = append(out, string(rowtext.AppendRow([]byte(kind), b.Table.Schema, c.Row)))
	}
	return strings.Join(out, " ")
}

func TestNewDecoder_DebeziumSettings(t *testing.T) {
	with := map[string]string{"connector": "kafka", "format": "debezium-json"}
	for want, f := range map[string]debezium.Format{
		"column tm: SourceTypes.Time is TimeAdaptive": {SourceTypes: &debezium.SourceTypes{}},
		"Format.Truncate is 9":                        {Truncate: 9},
		"unknown mode":                                {SourceTypes: &debezium.SourceTypes{Time: 9}},
	} {
		_, err := format.New(tableOf(t, "id INT, tm TIME(6)", with), []changelog.Format{f}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
