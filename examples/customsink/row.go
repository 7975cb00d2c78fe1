//go:build unix

package customsink

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// errUnsent is told of a column that was not sent where there is no row to keep it from.
var errUnsent = errors.New("a column was not sent by its source, and there is no row that holds its value")

// writable says why a change can never be written.
func writable(s *changelog.Schema, ch *changelog.Change) error {
	if len(ch.Row) != len(s.Columns) {
		return fmt.Errorf("the row has %d values, and the table %d columns", len(ch.Row), len(s.Columns))
	}
	for _, i := range s.Key {
		if v := ch.Row[i]; v.IsNull() || v.IsUnchanged() {
			return fmt.Errorf("key column %s has no value", s.Columns[i].Name)
		}
	}
	return nil
}

// name names a row by its key, and without one by the change that brought it, so that the same change read again is the same file. Keys
// may be longer than names of files, and hold anything: so it is a hash.
func (c *committer) name(s *changelog.Schema, ch *changelog.Change) string {
	var b []byte
	if len(s.Key) > 0 {
		b = changelog.AppendKey(nil, s, ch.Row)
	} else {
		b = fmt.Appendf(nil, "%q %q %d %q %d %d %d", c.lane.Bridge, c.lane.Sink, c.incarnation, ch.Topic, ch.Partition.Partition, ch.Offset, ch.Index)
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// latest reads a row as the next change of its key finds it: what the checkpoint has staged of it or else what readers see, as every
// checkpoint before this one is committed when this one is written.
func latest(staged, rows, name string) ([]byte, error) {
	if exists(filepath.Join(staged, name+".del")) {
		return nil, fs.ErrNotExist
	}
	text, err := os.ReadFile(filepath.Join(staged, name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(rows, name+".json"))
	}
	return text, err
}

// stage writes what becomes of a row, in place of what was to become of it.
func (c *committer) stage(folder, name, other string, content []byte) error {
	if err := c.create(filepath.Join(folder, name), content); err != nil {
		return err
	}
	return remove(filepath.Join(folder, other))
}

// encode makes an object with a member for each column. Columns that were not sent are taken from what old returns.
func encode(s *changelog.Schema, r changelog.Row, old func() ([]byte, error)) ([]byte, error) {
	var kept map[string]json.RawMessage
	row := make(map[string]json.RawMessage, len(r))
	for i, v := range r {
		column := s.Columns[i].Name
		if v.IsUnchanged() {
			if kept == nil {
				text, err := old()
				if errors.Is(err, fs.ErrNotExist) {
					return nil, errUnsent
				}
				if err != nil {
					return nil, err
				}
				if err := json.Unmarshal(text, &kept); err != nil {
					return nil, err
				}
			}
			if row[column] = kept[column]; row[column] == nil {
				return nil, errUnsent
			}
			continue
		}
		x, err := plain(v)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", column, err)
		}
		if row[column], err = json.Marshal(x); err != nil {
			return nil, fmt.Errorf("column %s: %w", column, err)
		}
	}
	return json.Marshal(row)
}

// plain makes of a value what encoding/json writes without a loss.
func plain(v changelog.Value) (any, error) {
	switch v.Kind() {
	case changelog.KindNull:
		return nil, nil
	case changelog.KindBool:
		return v.Bool(), nil
	case changelog.KindInt:
		return v.Int(), nil
	case changelog.KindFloat: // as text: JSON has no NaN and no infinity
		return strconv.FormatFloat(float64(v.Float()), 'g', -1, 32), nil
	case changelog.KindDouble:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64), nil
	case changelog.KindDecimal:
		return string(changelog.AppendDecimal(nil, v)), nil
	case changelog.KindString:
		if !utf8.ValidString(v.Str()) { // a lone surrogate, which encoding/json would replace
			return map[string][]byte{"base64": v.Bytes()}, nil
		}
		return v.Str(), nil
	case changelog.KindBytes:
		return base64.StdEncoding.EncodeToString(v.Bytes()), nil
	case changelog.KindDate: // days since 1970
		return v.Date(), nil
	case changelog.KindTime: // nanoseconds
		return v.Time(), nil
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		sec, nsec := v.Timestamp()
		return []int64{sec, int64(nsec)}, nil
	case changelog.KindArray, changelog.KindMap, changelog.KindRow: // a map as its keys and values in turn
		elems := []any{}
		for _, e := range v.Elems() {
			x, err := plain(e)
			if err != nil {
				return nil, err
			}
			elems = append(elems, x)
		}
		return elems, nil
	}
	return nil, fmt.Errorf("a value of kind %d cannot be written", v.Kind())
}

// escape makes a folder's name of any text, also of "", "." and "a/b".
func escape(s string) string { return "=" + url.QueryEscape(s) }

func (c *committer) path(kind string, names ...string) string {
	parts := []string{c.root, kind}
	for _, n := range names {
		parts = append(parts, escape(n))
	}
	return filepath.Join(parts...)
}

func (c *committer) work(bridge, name string, g sink.GenerationID) string {
	return filepath.Join(c.path("work", bridge, name), fmt.Sprint(g))
}

func (c *committer) staged(r sink.Committable) string {
	return filepath.Join(c.work(string(r.Data), r.Sink, r.Generation), fmt.Sprint(r.Checkpoint))
}

func (c *committer) proof(r sink.Committable) string {
	return filepath.Join(c.path("done", string(r.Data), r.Sink), fmt.Sprintf("%d-%d", r.Generation, r.Checkpoint))
}

func (c *committer) fence(g sink.GenerationID) string {
	return filepath.Join(c.path("fence", c.lane.Bridge), fmt.Sprint(g))
}

func (c *committer) fenced(g sink.GenerationID) bool { return exists(c.fence(g)) }

// disk writes files. unsynced leaves out what only a power failure would miss, so that a test takes seconds instead of minutes.
type disk struct{ unsynced bool }

// create writes a file, durable once its folder is synced.
func (d disk) create(path string, content []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && !d.unsynced {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// mark makes an empty file whose being there says something, durably.
func (d disk) mark(path string) error {
	if err := d.folder(filepath.Dir(path)); err != nil {
		return err
	}
	if err := d.create(path, nil); err != nil {
		return err
	}
	return d.sync(filepath.Dir(path))
}

// folder makes a folder, and those above it, durably.
func (d disk) folder(path string) error {
	if exists(path) {
		return nil
	}
	if err := d.folder(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.sync(filepath.Dir(path))
}

// sync makes the names in a folder durable.
func (d disk) sync(folder string) error {
	if d.unsynced {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
