//go:build unix

package customsink

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// change is one change of a row's file.
type change struct {
	Table  string
	Key    []byte `json:",omitempty"` // canonical; nil: the table has no key, and each row is a file of its own
	Delete bool   `json:",omitempty"`
	Row    []any  `json:",omitempty"` // one value for each column
}

// writable lists the types that a JSON file holds exactly: integers, texts, bytes (as base64) and truth values.
func writable(t *changelog.Type) bool {
	switch t.Root.ValueKind() {
	case changelog.KindInt, changelog.KindString, changelog.KindBytes, changelog.KindBool:
		return true
	}
	return false
}

// changeOf copies a change. -U is a delete: the +U that follows it puts the row back, perhaps under another key.
func changeOf(t *changelog.Table, c *changelog.Change) (change, error) {
	out := change{Table: t.Name, Delete: !c.Kind.Adds()}
	if len(t.Schema.Key) > 0 {
		out.Key = changelog.AppendKey([]byte{}, t.Schema, c.Row)
	} else if out.Delete {
		return out, errors.New("a delete from a table without a key")
	}
	if out.Delete {
		return out, nil
	}
	for i, v := range c.Row {
		switch v.Kind() {
		case changelog.KindNull:
			out.Row = append(out.Row, nil)
		case changelog.KindInt:
			out.Row = append(out.Row, v.Int())
		case changelog.KindBool:
			out.Row = append(out.Row, v.Bool())
		case changelog.KindBytes:
			out.Row = append(out.Row, bytes.Clone(v.Bytes()))
		case changelog.KindString:
			if !utf8.Valid(v.Bytes()) {
				return out, fmt.Errorf("column %s: the text is no UTF-8, and JSON holds no other", t.Schema.Columns[i].Name)
			}
			out.Row = append(out.Row, string(v.Bytes()))
		default: // an unchanged column of a partial update
			return out, fmt.Errorf("column %s: the value was not sent, and a file is written as a whole", t.Schema.Columns[i].Name)
		}
	}
	return out, nil
}

func encode(changes []change) ([]byte, error) { return json.Marshal(changes) }

func decode(b []byte) ([]change, error) {
	var out []change
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // a BIGINT is no float64
	err := d.Decode(&out)
	return out, err
}

// path is the row's file. name is that of a row without a key, the same each time the change is applied.
func (c change) path(root, name string) string {
	if c.Key != nil {
		name = fmt.Sprintf("%x", sha256.Sum256(c.Key)) // keys may be longer than names, and hold anything
	}
	return filepath.Join(root, "rows", c.Table, name+".json")
}

// apply writes or deletes the row's file.
func (c change) apply(d disk, path string) error {
	if c.Delete {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	content, err := json.Marshal(c.Row)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return d.replace(path, content)
}
