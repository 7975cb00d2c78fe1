//go:build unix

package customsink

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// The whole test of a sink: how to open one, how to empty it, how to read it.
func TestLaws(t *testing.T) {
	var root string
	sinktest.Run(t, sinktest.Harness{
		Reset: func(context.Context, *changelog.Table) error {
			root = t.TempDir()
			return nil
		},
		Connect: func(context.Context, *changelog.Table) (sinktest.Client, error) {
			return sinktest.Client{Sink: &Sink{root: root, disk: disk{unsynced: true}}}, nil
		},
		Rows: func(_ context.Context, t *changelog.Table) ([]sinktest.Row, error) {
			rows, err := read(root, t)
			return sinktest.FixtureRows(rows), err
		},
		Values: func(_ context.Context, t *changelog.Table) ([]changelog.Row, error) { return read(root, t) },
		Leftovers: func(context.Context) ([]string, error) {
			return filepath.Glob(filepath.Join(root, "work", "*", "*", "*.staged"))
		},
		NotAtomic: true, // a file at a time
		Skip:      map[string]string{"L49": "66,000 files take a minute"},
	})
}

// read reads the rows' files by itself, as another program would.
func read(root string, t *changelog.Table) ([]changelog.Row, error) {
	files, err := filepath.Glob(filepath.Join(root, "rows", t.Name, "*.json"))
	var rows []changelog.Row
	for _, f := range files {
		b, err := os.ReadFile(f)
		if os.IsNotExist(err) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		var values []any
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.UseNumber()
		if err := d.Decode(&values); err != nil {
			return nil, err
		}
		row := make(changelog.Row, len(values))
		for i, v := range values {
			switch v := v.(type) {
			case bool:
				row[i] = changelog.BoolValue(v)
			case json.Number:
				n, err := v.Int64()
				if err != nil {
					return nil, err
				}
				row[i] = changelog.IntValue(n)
			case string:
				row[i] = changelog.StringValue(v)
				if root := t.Schema.Columns[i].Type.Root; root == changelog.RootVarbinary || root == changelog.RootBinary {
					raw, err := base64.StdEncoding.DecodeString(v)
					if err != nil {
						return nil, err
					}
					row[i] = changelog.BytesValue(raw)
				}
			}
		}
		rows = append(rows, row)
	}
	return rows, err
}
