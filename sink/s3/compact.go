package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
)

// Merger is a [Format] whose files can be made one.
type Merger interface {
	// Merge writes a file with the rows of the files that next opens, in that order, until next returns io.EOF. It reads each to its end, and closes it.
	// [ErrUnlike] leaves these files as they are.
	Merge(w io.Writer, next func() (io.ReadCloser, error)) error
}

// ErrUnlike says that files cannot be made one: their columns differ.
var ErrUnlike = errors.New("files of different columns")

// CompactOptions are the settings of [Compact].
type CompactOptions struct {
	// Bridge and Sink name the sink whose files are merged. Required.
	Bridge, Sink string
	// Format is that of the files; others are left alone. It has to be a [Merger]. Defaults to [JSONLines].
	Format Format
	// OlderThan leaves checkpoints alone whose manifest is younger, by the server's clock against this host's. Defaults to an hour; negative: none is.
	OlderThan time.Duration
	// FileBytes is about the size that merged files get; files of half of that and more are left as they are. Defaults to 256 MiB.
	FileBytes int64
	// MaxFiles bounds how many files a call merges. Defaults to 10,000.
	MaxFiles int
	// DeleteAfter is how long files that were replaced stay, for readers that began before. Defaults to 24 hours; negative: for ever.
	DeleteAfter time.Duration
	// PartSize is that of Options: the memory of a call, beside what Format needs. Defaults to 8 MiB.
	PartSize int
	// Settings go with every object that is written.
	Settings Settings
}

// CompactResult says what a call did.
type CompactResult struct {
	Number  int64 // of the entry in the log; 0: there was nothing to merge
	Read    int   // files whose rows were merged
	Written int   // files that have them now
	Rows    int64
	Deleted int // files that earlier calls had replaced
	Left    CompactLeft
}

// CompactLeft says what a call looked at and left as it was, up to where it had found MaxFiles.
type CompactLeft struct {
	Checkpoints int            // and entries of earlier calls, that were looked into
	Young       int            // checkpoints that were not, because of OlderThan
	Large       int            // files of more than half of FileBytes
	Alone       int            // small files without another of their table, folder and compression
	Unlike      int            // small files whose columns differ from their neighbours'
	Others      map[string]int // files of other formats, by the end of their names, as in ".parquet" or ".jsonl.gz"
}

const (
	defaultOlderThan   = time.Hour
	defaultDeleteAfter = 24 * time.Hour
	defaultMaxFiles    = 10_000
	maxCompactTries    = 5
)

// Compact merges small files of committed checkpoints of a sink with Options.Manifest, folder by folder, and deletes what earlier calls replaced long
// enough ago. It is called by whoever wants to, a timer or an operator, beside the running bridge or not; calls at the same time do each other no harm.
//
// Readers by manifest ([Reader]) see each row once at every moment, and after a crash at any step: the write of one object decides. Who lists
// folders does not: he sees the old files until they are deleted, and never the merged ones. So a lake that is compacted is read by manifest.
//
// The server has to keep If-None-Match, and is asked with scratch objects. Of Kind Upsert a merged file may have several rows of a key: the greatest
// offset wins. Files that are gone, by a retention of the lake, are passed over.
func Compact(ctx context.Context, client *s3.Client, bucketName, prefix string, o CompactOptions) (CompactResult, error) {
	k, err := newCompactor(client, bucketName, prefix, o)
	if err != nil {
		return CompactResult{}, &sink.Error{Op: "compact", Sink: o.Sink, Bridge: o.Bridge, Class: sink.ErrConfig, Err: err}
	}
	err = k.run(ctx)
	return k.result, wrap(ctx, "compact", o.Sink, o.Bridge, classifyOrNil(err), err)
}

type compactor struct {
	b      bucket
	r      *Reader
	o      CompactOptions
	prefix string
	dir    string // of the sink's own objects
	merger Merger
	result CompactResult
}

func newCompactor(client *s3.Client, bucketName, prefix string, o CompactOptions) (*compactor, error) {
	var errs []error
	if o.Bridge == "" || o.Sink == "" {
		errs = append(errs, errors.New("name CompactOptions.Bridge and Sink"))
	}
	if o.Format == nil {
		o.Format = JSONLines()
	}
	m, ok := o.Format.(Merger)
	if !ok {
		errs = append(errs, fmt.Errorf("CompactOptions.Format makes %s, which cannot be merged: it is no Merger", o.Format.Layout().Extension))
	}
	o.OlderThan, o.DeleteAfter = orDefault(o.OlderThan, defaultOlderThan), orDefault(o.DeleteAfter, defaultDeleteAfter)
	o.FileBytes, o.MaxFiles, o.PartSize = orDefault(o.FileBytes, defaultFileBytes), orDefault(o.MaxFiles, defaultMaxFiles), orDefault(o.PartSize, defaultPartSize)
	if o.FileBytes < 2 || o.MaxFiles < 2 || o.PartSize < minPartSize || int64(o.PartSize) > 5<<30 {
		errs = append(errs, errors.New("CompactOptions.FileBytes and MaxFiles have to be 2 at least, and PartSize 5 MiB to 5 GiB"))
	}
	r, err := NewReader(client, bucketName, prefix, &ReaderOptions{RequesterPays: o.Settings.RequesterPays})
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	prefix = strings.Trim(prefix, "/")
	return &compactor{b: bucket{api: client, name: bucketName, settings: o.Settings}, r: r, o: o, prefix: prefix, dir: newNames(prefix, o.Bridge, o.Sink).own(), merger: m}, nil
}

func (k *compactor) run(ctx context.Context) error {
	last, err := k.b.lastEntry(ctx, k.dir)
	if err != nil {
		return err
	}
	if err := k.sweep(ctx, last); err != nil {
		return err
	}
	for try := range maxCompactTries {
		log, err := k.b.readLog(ctx, k.dir, last)
		if err != nil {
			return err
		}
		p, err := k.plan(ctx, log)
		if err != nil || p == nil {
			return err
		}
		if try == 0 {
			s := &Store{b: k.b, prefix: k.prefix}
			if err := s.probe(ctx, "compact"); err != nil {
				return err
			}
		}
		if err := k.merge(ctx, p); err != nil || len(p.entry.Merged) == 0 {
			k.drop(ctx, p)
			return err
		}
		won, err := k.decide(ctx, p)
		if err != nil {
			return err // it may have been done: its files stay
		}
		if won {
			k.result.Number, k.result.Read, k.result.Written, k.result.Rows = p.entry.Number, len(p.entry.Merged), len(p.made), p.rows
			return nil
		}
		k.drop(ctx, p)
		if last, err = k.b.lastEntry(ctx, k.dir); err != nil {
			return err
		}
	}
	return errorf(sink.ErrTransient, "other compactors of this sink were faster, %d times", maxCompactTries)
}

// merge writes the merged files, and adds them to the entry.
func (k *compactor) merge(ctx context.Context, p *plan) error {
	for i := range p.group {
		g := &p.group[i]
		if len(g.files) < 2 {
			p.entry.Files = append(p.entry.Files, g.files...)
			continue
		}
		token := newToken()
		key := path.Join(k.dir, compactedFolder, entryName(p.entry.Number), fmt.Sprintf("%d-%s%s", i, token[:8], g.extension))
		p.made = append(p.made, key)
		w := newObjectWriter(ctx, &k.b, key, token, k.o.PartSize)
		merged, gone, err := k.mergeInto(ctx, w, g)
		if err == nil && len(merged) > 0 {
			err = w.finish()
		} else {
			w.abort()
		}
		if errors.Is(err, ErrUnlike) {
			k.result.Left.Unlike += len(g.files)
		}
		if errors.Is(err, ErrUnlike) || err == nil && len(merged) == 0 {
			p.made = p.made[:len(p.made)-1]
			p.entry.Files = append(p.entry.Files, g.files...)
			continue
		}
		if err != nil {
			return err
		}
		out := ManifestFile{Table: g.table, Key: key, Folder: g.folder, Size: w.size, SHA256: w.sum()}
		for _, f := range merged {
			out.Rows += f.Rows
			p.entry.Merged = append(p.entry.Merged, f.Key)
		}
		p.rows += out.Rows
		p.entry.Files = append(append(p.entry.Files, out), gone...)
	}
	return nil
}

// mergeInto writes one file of a group's, and says which are in it, and which are not there any more.
func (k *compactor) mergeInto(ctx context.Context, to *objectWriter, g *mergeGroup) (merged, gone []ManifestFile, err error) {
	var w io.Writer = to
	var squash compressor
	if c := compressionOf(g.extension); c != Uncompressed && !k.o.Format.Layout().Compressed {
		if squash, err = (&compressors{}).get(c, level(c, 0, nil), to); err != nil {
			return nil, nil, err
		}
		w = squash
	}
	rest := g.files
	err = k.merger.Merge(w, func() (io.ReadCloser, error) {
		for len(rest) > 0 {
			f := rest[0]
			rest = rest[1:]
			body, err := k.r.Open(ctx, f)
			if err != nil && isNoKey(err) {
				gone = append(gone, f)
				continue
			}
			if err == nil {
				merged = append(merged, f)
			}
			return body, err
		}
		return nil, io.EOF
	})
	if squash != nil {
		err = errors.Join(err, squash.Close())
	}
	if err == nil && len(rest) > 0 {
		err = errorf(sink.ErrConfig, "CompactOptions.Format left out %d files: a mistake of its Merge", len(rest))
	}
	return merged, gone, err
}

// decide writes the entry. won is false where another compactor has written one of this number.
func (k *compactor) decide(ctx context.Context, p *plan) (won bool, err error) {
	body, err := json.Marshal(p.entry)
	if err != nil {
		return false, err
	}
	token := newToken()
	_, perr := k.b.put(ctx, path.Join(k.dir, compactionFolder, entryName(p.entry.Number)+".json"), append(body, '\n'), condition{absent: true}, token)
	if perr == nil {
		return true, nil
	}
	// Whose it is says its token. Where there is none, the write may still be on its way: then nothing is known, and nothing is deleted.
	_, o, ok, err := k.b.entry(ctx, k.dir, p.entry.Number)
	switch {
	case ok:
		return o.token == token, nil
	case err != nil:
		return false, errors.Join(perr, err)
	}
	return false, perr
}
