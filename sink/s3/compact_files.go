package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strconv"
	"time"
)

// objectWriter writes an object whose size is not known before, with the memory of one part. It becomes visible with finish.
type objectWriter struct {
	ctx        context.Context
	b          *bucket
	key, token string
	part       []byte
	partSize   int
	upload     string
	parts      []partReceipt
	size       int64
	hash       hash.Hash
}

func newObjectWriter(ctx context.Context, b *bucket, key, token string, partSize int) *objectWriter {
	return &objectWriter{ctx: ctx, b: b, key: key, token: token, partSize: partSize, hash: sha256.New()}
}

// Write implements [io.Writer].
func (w *objectWriter) Write(p []byte) (int, error) {
	w.hash.Write(p)
	w.size += int64(len(p))
	for rest := p; len(rest) > 0; {
		n := min(len(rest), w.partSize-len(w.part))
		w.part = append(w.part, rest[:n]...)
		rest = rest[n:]
		if len(w.part) == w.partSize {
			if err := w.send(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

func (w *objectWriter) send() (err error) {
	if len(w.parts) == maxParts {
		return fmt.Errorf("the merged file has more than %d parts: raise CompactOptions.PartSize", maxParts)
	}
	if w.upload == "" {
		if w.upload, err = w.b.createUpload(w.ctx, w.key, w.token, ""); err != nil {
			return err
		}
	}
	p, err := w.b.uploadPart(w.ctx, w.key, w.upload, len(w.parts)+1, w.part)
	w.parts, w.part = append(w.parts, p), w.part[:0]
	return err
}

// finish makes the object visible under its key, and looks: the answer proves nothing, see Commit.
func (w *objectWriter) finish() error {
	var err error
	switch {
	case w.upload == "":
		_, err = w.b.put(w.ctx, w.key, w.part, condition{}, w.token)
	case len(w.part) > 0:
		err = w.send()
		fallthrough
	default:
		if err == nil {
			_, err = w.b.completeUpload(w.ctx, w.key, w.upload, w.parts)
		}
	}
	o, ok, herr := w.b.head(w.ctx, w.key)
	switch {
	case ok && o.token == w.token && o.size == w.size:
		return nil
	case err == nil && herr == nil:
		err = errors.New("a merged file is not there after it was written")
	}
	return errors.Join(err, herr)
}

func (w *objectWriter) abort() {
	if w.upload != "" {
		w.b.abortAnyway(w.ctx, w.key, w.upload)
	}
}

func (w *objectWriter) sum() string { return hex.EncodeToString(w.hash.Sum(nil)) }

// drop deletes the files of a plan that was certainly not decided. What it cannot delete, a later sweep does.
func (k *compactor) drop(ctx context.Context, p *plan) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	for _, key := range p.made {
		k.b.remove(ctx, key)
	}
}

// sweep deletes what entries replaced that are old enough, and what compactors left that died or were not first: files under the number of an entry
// that are not the entry's, and uploads. A compactor that is still at it for such a number can decide nothing any more.
func (k *compactor) sweep(ctx context.Context, last int64) error {
	if k.o.DeleteAfter < 0 || last == 0 {
		return nil
	}
	swept := map[int64]bool{}
	err := k.b.listAll(ctx, path.Join(k.dir, sweptFolder)+"/", "", func(key string, _ time.Time) error {
		if n, err := strconv.ParseInt(path.Base(key), 10, 64); err == nil {
			swept[n] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	var due []int64
	old := time.Now().Add(-k.o.DeleteAfter)
	err = k.b.listAll(ctx, path.Join(k.dir, compactionFolder)+"/", "", func(key string, at time.Time) error {
		if n, ok := entryNumber(path.Base(key)); ok && !swept[n] && before(at, old) {
			due = append(due, n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range due {
		if err := k.sweepEntry(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// before is false for an object of which the listing tells no time.
func before(at, t time.Time) bool { return !at.IsZero() && at.Before(t) }

func (k *compactor) sweepEntry(ctx context.Context, n int64) error {
	e, _, ok, err := k.b.entry(ctx, k.dir, n)
	if err != nil || !ok {
		return err
	}
	for _, key := range e.Merged {
		if err := k.b.remove(ctx, key); err != nil {
			return err
		}
		k.result.Deleted++
	}
	folder := path.Join(k.dir, compactedFolder, entryName(n)) + "/"
	err = k.b.listAll(ctx, folder, "", func(key string, _ time.Time) error {
		if slices.ContainsFunc(e.Files, func(f ManifestFile) bool { return f.Key == key }) {
			return nil
		}
		return k.b.remove(ctx, key)
	})
	if err != nil {
		return err
	}
	if err := k.b.listUploads(ctx, folder, func(key, id string) error { return k.b.abort(ctx, key, id) }); err != nil {
		return err
	}
	_, err = k.b.put(ctx, path.Join(k.dir, sweptFolder, entryName(n)), []byte("What compaction "+strconv.FormatInt(n, 10)+" replaced was deleted.\n"), condition{}, "")
	return err
}

// Merge implements [Merger]: lines follow each other.
func (l lines) Merge(w io.Writer, next func() (io.ReadCloser, error)) error {
	for {
		r, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = io.Copy(w, r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
}
