//go:build unix

package customsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
		Leftovers: func(context.Context) (left []string, err error) {
			err = filepath.WalkDir(filepath.Join(root, "work"), func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					left = append(left, path)
				}
				return err
			})
			return left, err
		},
		NotAtomic: true, // a file at a time
	})
}

// read reads the rows' files by itself, as another program would.
func read(root string, t *changelog.Table) ([]changelog.Row, error) {
	files, err := filepath.Glob(filepath.Join(root, "rows", escape(t.Name), "*.json"))
	var rows []changelog.Row
	for _, f := range files {
		text, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil {
			return nil, err
		}
		row := make(changelog.Row, len(t.Schema.Columns))
		for i, c := range t.Schema.Columns {
			if row[i], err = value(&c.Type, object[c.Name]); err != nil {
				return nil, fmt.Errorf("%s, column %s: %w", f, c.Name, err)
			}
		}
		rows = append(rows, row)
	}
	return rows, err
}

// value reads a value of a type back.
func value(t *changelog.Type, text json.RawMessage) (v changelog.Value, err error) {
	if string(text) == "null" {
		return v, nil
	}
	switch t.Root.ValueKind() {
	case changelog.KindBool:
		return scan(text, plainly(changelog.BoolValue))
	case changelog.KindInt:
		return scan(text, plainly(changelog.IntValue))
	case changelog.KindDate:
		return scan(text, plainly(changelog.DateValue))
	case changelog.KindTime:
		return scan(text, plainly(changelog.TimeValue))
	case changelog.KindBytes:
		return scan(text, plainly(changelog.BytesValue))
	case changelog.KindFloat:
		return scan(text, func(s string) (changelog.Value, error) {
			f, err := strconv.ParseFloat(s, 32)
			return changelog.FloatValue(float32(f)), err
		})
	case changelog.KindDouble:
		return scan(text, func(s string) (changelog.Value, error) {
			f, err := strconv.ParseFloat(s, 64)
			return changelog.DoubleValue(f), err
		})
	case changelog.KindDecimal:
		return scan(text, func(s string) (changelog.Value, error) {
			return changelog.ParseDecimal([]byte(s), t.Precision, t.Scale)
		})
	case changelog.KindString:
		if text[0] == '{' {
			return scan(text, func(m map[string][]byte) (changelog.Value, error) {
				return changelog.StringBytesValue(m["base64"]), nil
			})
		}
		return scan(text, plainly(changelog.StringValue))
	case changelog.KindTimestamp:
		return scan(text, func(at [2]int64) (changelog.Value, error) { return changelog.TimestampValue(at[0], int32(at[1])), nil })
	case changelog.KindTimestampLTZ:
		return scan(text, func(at [2]int64) (changelog.Value, error) {
			return changelog.TimestampLTZValue(at[0], int32(at[1])), nil
		})
	case changelog.KindArray:
		elems, err := values(text, func(int) *changelog.Type { return t.Elem })
		return changelog.ArrayValue(elems), err
	case changelog.KindRow:
		elems, err := values(text, func(i int) *changelog.Type { return &t.Fields[i].Type })
		return changelog.RowValue(elems), err
	case changelog.KindMap:
		of := [2]*changelog.Type{t.Key, t.Elem}
		if t.Root == changelog.RootMultiset {
			of = [2]*changelog.Type{t.Elem, {Root: changelog.RootInt}}
		}
		elems, err := values(text, func(i int) *changelog.Type { return of[i%2] })
		return changelog.MapValue(elems), err
	}
	return v, fmt.Errorf("no values of type %s", t)
}

func scan[T any](text json.RawMessage, make func(T) (changelog.Value, error)) (changelog.Value, error) {
	var x T
	if err := json.Unmarshal(text, &x); err != nil {
		return changelog.Value{}, err
	}
	return make(x)
}

func plainly[T any](make func(T) changelog.Value) func(T) (changelog.Value, error) {
	return func(x T) (changelog.Value, error) { return make(x), nil }
}

func values(text json.RawMessage, of func(i int) *changelog.Type) ([]changelog.Value, error) {
	var texts []json.RawMessage
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, err
	}
	elems := make([]changelog.Value, len(texts))
	for i, x := range texts {
		var err error
		if elems[i], err = value(of(i), x); err != nil {
			return nil, err
		}
	}
	return elems, nil
}
