package s3

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// plan is what a compaction is about to do.
type plan struct {
	entry *compaction
	group []mergeGroup
	made  []string // keys that were written
	rows  int64
}

// mergeGroup are files that become one.
type mergeGroup struct {
	table, folder, extension string
	files                    []ManifestFile
	size                     int64
}

// source is a manifest or an entry that may be replaced.
type source struct {
	manifest string // name
	entry    *compaction
	files    []ManifestFile
	letters  []ManifestFile
}

// plan chooses what to merge; nil: nothing.
func (k *compactor) plan(ctx context.Context, log *compactions) (*plan, error) {
	var sources []source
	small := map[[3]string]int{}
	count := 0
	left := &k.result.Left
	*left = CompactLeft{Others: map[string]int{}}
	take := func(s source) {
		left.Checkpoints++
		for _, f := range s.files {
			switch id, ok := k.small(f); {
			case ok:
				small[id]++
				count++
			case !strings.HasSuffix(f.Key, id[2]):
				left.Others[endOf(f.Key)]++
			default:
				left.Large++
			}
		}
		sources = append(sources, s)
	}
	for _, e := range slices.Backward(log.live) {
		take(source{entry: e, files: e.Files, letters: e.Letters})
	}
	enough := errors.New("enough")
	young := time.Now().Add(-k.o.OlderThan)
	err := k.b.listAll(ctx, path.Join(k.dir, manifestFolder)+"/", "", func(key string, at time.Time) error {
		_, _, file, ok := ownKey(k.prefix, key)
		name, json := strings.CutSuffix(file, ".json")
		if !ok || !json || log.replaced[name] {
			return nil
		}
		if k.o.OlderThan >= 0 && !before(at, young) {
			left.Young++
			return nil
		}
		body, _, ok, err := k.b.get(ctx, key)
		if err != nil || !ok {
			return err
		}
		m, err := parseManifest(body)
		if err != nil {
			return errorf(sink.ErrConfig, "manifest %s: %w", brief(key), err)
		}
		take(source{manifest: name, files: m.Files, letters: m.Letters})
		if count >= k.o.MaxFiles || len(sources) >= k.o.MaxFiles {
			return enough
		}
		return nil
	})
	if err != nil && err != enough {
		return nil, err
	}
	for _, n := range small {
		if n == 1 {
			left.Alone++
		}
	}
	return k.group(log, sources, small), nil
}

// small reports whether a file may be merged, and with which: those of its table, folder and extension.
func (k *compactor) small(f ManifestFile) (id [3]string, ok bool) {
	base := path.Base(f.Key)
	extension := k.o.Format.Layout().Extension
	if c := compressionOf(base); c != Uncompressed {
		extension += c.extension()
	}
	return [3]string{f.Table, k.folder(f), extension}, f.Size <= k.o.FileBytes/2 && strings.HasSuffix(base, extension)
}

// endOf is what a file's name says of its format and its compression.
func endOf(key string) string {
	c := compressionOf(key).extension()
	return path.Ext(strings.TrimSuffix(key, c)) + c
}

func (k *compactor) folder(f ManifestFile) string {
	if f.Folder != "" {
		return f.Folder
	}
	return strings.TrimPrefix(path.Dir(f.Key), k.prefix+"/")
}

// group makes the plan. Sources are replaced as a whole: files that are not merged are named again.
func (k *compactor) group(log *compactions, sources []source, small map[[3]string]int) *plan {
	p := &plan{entry: &compaction{Format: manifestVersion, Bridge: k.o.Bridge, Sink: k.o.Sink, Number: log.last + 1}}
	open := map[[3]string]int{}
	for _, s := range sources {
		useful := slices.ContainsFunc(s.files, func(f ManifestFile) bool { id, ok := k.small(f); return ok && small[id] > 1 })
		if !useful && s.entry != nil {
			continue // manifests are replaced all the same: nobody has to read them again
		}
		if s.entry != nil {
			p.entry.Entries = append(append(p.entry.Entries, s.entry.Number), s.entry.Entries...)
			p.entry.Manifests = append(p.entry.Manifests, s.entry.Manifests...)
		} else {
			p.entry.Manifests = append(p.entry.Manifests, s.manifest)
		}
		p.entry.Letters = append(p.entry.Letters, s.letters...)
		for _, f := range s.files {
			id, ok := k.small(f)
			if !ok || small[id] < 2 {
				p.entry.Files = append(p.entry.Files, f)
				continue
			}
			i, there := open[id]
			if !there || p.group[i].size >= k.o.FileBytes/2 {
				i, open[id] = len(p.group), len(p.group)
				p.group = append(p.group, mergeGroup{table: id[0], folder: id[1], extension: id[2]})
			}
			p.group[i].files = append(p.group[i].files, f)
			p.group[i].size += f.Size
		}
	}
	if !slices.ContainsFunc(p.group, func(g mergeGroup) bool { return len(g.files) > 1 }) {
		return nil
	}
	return p
}
