package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// What is merged is said by a log of compactions, an object each, numbered without gaps:
//
//	PREFIX/_flinksink/BRIDGE/SINK/compaction/NUMBER.json    which manifests it replaces, by which files
//	PREFIX/_flinksink/BRIDGE/SINK/compacted/NUMBER/...      its files
//	PREFIX/_flinksink/BRIDGE/SINK/compaction-swept/NUMBER   what it replaced was deleted
//
// An entry is written with If-None-Match, after all its files: that write is the decision. Two compactors that read a log up to N both try to write
// N+1, and one does; the other's files are in no entry, so nobody sees them. Each entry is thus made in the knowledge of all before it, and no
// manifest is replaced twice.
//
// A reader reads the log first and the manifests after it. It takes the files of the entries, and of the manifests those that no entry it has read
// replaces. Manifests are never deleted, so whatever was decided in between, it sees each row once, as of the moment when it read the log: what was
// replaced later is still there under its old names. The old files are deleted only a while later, see CompactOptions.DeleteAfter; a reader
// that is slower gets an error and no wrong rows.
//
// An entry may replace older entries as well. It then repeats what they replace, so that readers open only what nothing replaces.
const (
	compactionFolder = "compaction"
	compactedFolder  = "compacted"
	sweptFolder      = "compaction-swept"
	manifestFolder   = "manifest"
)

// compaction is one entry of the log.
type compaction struct {
	Format    int            `json:"format"` // manifestVersion
	Bridge    string         `json:"bridge"`
	Sink      string         `json:"sink"`
	Number    int64          `json:"number"`
	Manifests []string       `json:"manifests"`         // that it and the entries that it replaces replace: names without folder and .json
	Entries   []int64        `json:"entries,omitempty"` // that it replaces
	Files     []ManifestFile `json:"files"`             // merged ones, and those of replaced manifests that stay as they are
	Letters   []ManifestFile `json:"letters,omitempty"`
	Merged    []string       `json:"merged"` // keys of files whose rows are in Files now
}

// manifest is the entry as a reader sees it.
func (c *compaction) manifest(key string) *Manifest {
	return &Manifest{Format: c.Format, Bridge: c.Bridge, Sink: c.Sink, Files: c.Files, Letters: c.Letters, Compaction: c.Number, Key: key}
}

// ownKey takes a key of the sink's own apart: PREFIX/_flinksink/BRIDGE/SINK/KIND/NAME. dir is what comes before KIND.
func ownKey(prefix, key string) (dir, kind, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, path.Join(prefix, ownFolder)+"/")
	words := strings.Split(rest, "/")
	if !ok || len(words) != 4 {
		return "", "", "", false
	}
	return strings.TrimSuffix(key, "/"+words[2]+"/"+words[3]), words[2], words[3], true
}

func entryName(n int64) string { return fmt.Sprintf("%012d", n) }

// compactions is a log that was read.
type compactions struct {
	last     int64
	live     []*compaction   // that no other replaces, newest first
	replaced map[string]bool // names of manifests
}

// readLog reads the log of the sink whose own folder is dir, up to the entry number last.
func (b *bucket) readLog(ctx context.Context, dir string, last int64) (*compactions, error) {
	log := &compactions{last: last, replaced: map[string]bool{}}
	gone := map[int64]bool{}
	for n := last; n > 0; n-- {
		if gone[n] {
			continue
		}
		c, _, ok, err := b.entry(ctx, dir, n)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errorf(sink.ErrLost, "entry %d of the log of compactions is gone, and %d is there: put it back", n, last)
		}
		log.live = append(log.live, c)
		for _, e := range c.Entries {
			gone[e] = true
		}
		for _, m := range c.Manifests {
			log.replaced[m] = true
		}
	}
	return log, nil
}

// entry reads one entry.
func (b *bucket) entry(ctx context.Context, dir string, n int64) (*compaction, stored, bool, error) {
	key := path.Join(dir, compactionFolder, entryName(n)+".json")
	body, o, ok, err := b.get(ctx, key)
	if err != nil || !ok {
		return nil, o, ok, err
	}
	c := &compaction{}
	err = json.NewDecoder(bytes.NewReader(body)).Decode(c)
	switch {
	case err != nil:
	case c.Format != manifestVersion:
		err = fmt.Errorf("it is in version %d of the format, and this release reads version %d", c.Format, manifestVersion)
	case c.Number != n || len(c.Manifests) == 0 || slices.ContainsFunc(c.Entries, func(e int64) bool { return e < 1 || e >= n }):
		err = errors.New("it is damaged")
	default:
		err = sound(append(slices.Clip(c.Files), c.Letters...))
	}
	if err != nil {
		return nil, o, ok, errorf(sink.ErrConfig, "compaction %d: %w", n, err)
	}
	return c, o, true, nil
}

// entryNumber reads the number out of the name of an entry.
func entryNumber(name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSuffix(name, ".json"), 10, 64)
	return n, err == nil && n > 0 && name == entryName(n)+".json"
}

// lastEntry lists the log, and returns the number of its last entry; 0 for none.
func (b *bucket) lastEntry(ctx context.Context, dir string) (last int64, err error) {
	err = b.listAll(ctx, path.Join(dir, compactionFolder)+"/", "", func(key string, _ time.Time) error {
		if n, ok := entryNumber(path.Base(key)); ok {
			last = max(last, n)
		}
		return nil
	})
	return last, err
}
