package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
)

// Reader reads what sinks with Options.Manifest wrote: committed checkpoints, whole or not at all. It is safe for use by several goroutines.
type Reader struct {
	b      bucket
	prefix string
	o      ReaderOptions
}

// ReaderOptions are the settings of a [Reader]. nil and the zero value are the defaults.
type ReaderOptions struct {
	// Bridge and Sink name one sink of one bridge. Defaults to all that wrote under the prefix.
	Bridge, Sink string
	// After leaves out this checkpoint and those before it, of the one sink that is named. Of several lanes, whose generations go side by side, a later
	// checkpoint may have a lower number: who reads on with several lanes remembers the manifests that he has seen. Defaults to none.
	AfterGeneration sink.GenerationID
	AfterCheckpoint sink.CheckpointID
	// Original gives checkpoints as they were written, without what [Compact] made of them. After implies it. Who reads on, and so must not see
	// merged rows again, has to be quicker than CompactOptions.DeleteAfter: files that are gone are ErrLost.
	Original bool
	// RequesterPays is that of Settings.
	RequesterPays bool
}

// NewReader returns a reader of a bucket, below prefix.
func NewReader(client *s3.Client, bucketName, prefix string, o *ReaderOptions) (*Reader, error) {
	r := &Reader{prefix: strings.Trim(prefix, "/")}
	if o != nil {
		r.o = *o
	}
	err := place(client, bucketName, prefix)
	if (r.o.Bridge == "") != (r.o.Sink == "") || r.o.AfterGeneration != 0 && r.o.Bridge == "" {
		err = errors.Join(err, errors.New("name both ReaderOptions.Bridge and Sink, or neither; After needs both"))
	}
	if err != nil {
		return nil, &sink.Error{Op: "new", Class: sink.ErrConfig, Err: err}
	}
	r.b = bucket{api: client, name: bucketName, settings: Settings{RequesterPays: r.o.RequesterPays}}
	return r, nil
}

// Manifests goes through the committed checkpoints, by sink, generation and checkpoint, and before those of a sink through what [Compact] made of the
// rest. All together their files have each row once. It ends with the first error.
func (r *Reader) Manifests(ctx context.Context) iter.Seq2[*Manifest, error] {
	return func(yield func(*Manifest, error) bool) {
		stop := errors.New("stop")
		w := walk{r: r, original: r.o.Original || r.o.AfterGeneration != 0, logs: map[string]*compactions{}}
		w.yield = func(m *Manifest) error {
			if !yield(m, nil) {
				return stop
			}
			return nil
		}
		err := w.run(ctx)
		if err != nil && err != stop {
			yield(nil, wrap(ctx, "read", r.o.Sink, r.o.Bridge, classify(err), err))
		}
	}
}

// walk is one pass of Manifests. It relies on the order of listings: a sink's log of compactions comes before its manifests.
type walk struct {
	r        *Reader
	original bool
	logs     map[string]*compactions // by the sink's own folder
	yield    func(*Manifest) error
}

func (w *walk) run(ctx context.Context) error {
	r := w.r
	if r.o.Bridge == "" {
		return r.b.listAll(ctx, path.Join(r.prefix, ownFolder)+"/", "", func(key string, _ time.Time) error { return w.key(ctx, key) })
	}
	n, after := newNames(r.prefix, r.o.Bridge, r.o.Sink), ""
	if !w.original {
		if err := r.b.listAll(ctx, n.own(compactionFolder)+"/", "", func(key string, _ time.Time) error { return w.key(ctx, key) }); err != nil {
			return err
		}
	}
	if r.o.AfterGeneration != 0 {
		after = n.own(manifestFolder, numbered(r.o.AfterGeneration, r.o.AfterCheckpoint)+"~")
	}
	return r.b.listAll(ctx, n.own(manifestFolder)+"/", after, func(key string, _ time.Time) error { return w.key(ctx, key) })
}

func (w *walk) key(ctx context.Context, key string) error {
	dir, kind, file, ok := ownKey(w.r.prefix, key)
	log := w.logs[dir]
	if log == nil {
		log = &compactions{}
	}
	switch name, isJSON := strings.CutSuffix(file, ".json"); {
	case !ok || !isJSON:
	case kind == compactionFolder && !w.original:
		if n, ok := entryNumber(file); ok {
			log.last = max(log.last, n)
			w.logs[dir] = log
		}
	case kind == manifestFolder:
		if log.last > 0 && log.replaced == nil {
			var err error
			if log, err = w.log(ctx, dir, log.last); err != nil {
				return err
			}
		}
		if log.replaced[name] {
			return nil
		}
		return w.manifest(ctx, key)
	}
	return nil
}

func (w *walk) log(ctx context.Context, dir string, last int64) (*compactions, error) {
	log, err := w.r.b.readLog(ctx, dir, last)
	if err != nil {
		return nil, err
	}
	clear(w.logs) // sinks before this one are done
	w.logs[dir] = log
	for _, c := range slices.Backward(log.live) {
		if err := w.yield(c.manifest(path.Join(dir, compactionFolder, entryName(c.Number)+".json"))); err != nil {
			return nil, err
		}
	}
	log.live = nil
	return log, nil
}

func (w *walk) manifest(ctx context.Context, key string) error {
	body, _, ok, err := w.r.b.get(ctx, key)
	if err != nil || !ok { // taken away since the listing
		return err
	}
	m, err := parseManifest(body)
	if err != nil {
		return errorf(sink.ErrConfig, "manifest %s: %w", brief(key), err)
	}
	m.Key = key
	return w.yield(m)
}

// Open opens a file of a manifest for reading, without its compression, which its name tells as it tells the format ([ManifestFile].Key). Read returns an error instead of io.EOF where the content is not what the
// manifest says: size and hash are known at the end.
func (r *Reader) Open(ctx context.Context, f ManifestFile) (io.ReadCloser, error) {
	out, err := r.b.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &r.b.name, Key: &f.Key, RequestPayer: r.b.payer()})
	if err != nil {
		class := classify(err)
		if isNoKey(err) {
			class = sink.ErrLost
		}
		return nil, wrap(ctx, "read", r.o.Sink, r.o.Bridge, class, err)
	}
	raw := &verified{r: out.Body, hash: sha256.New(), want: f}
	plain, done, err := decompressed(compressionOf(f.Key), raw)
	if err != nil {
		out.Body.Close()
		return nil, wrap(ctx, "read", r.o.Sink, r.o.Bridge, sink.ErrLost, err)
	}
	return &fileReader{plain, raw, out.Body, done}, nil
}

// verified compares what it reads with a manifest.
type verified struct {
	r    io.Reader
	hash hash.Hash
	size int64
	want ManifestFile
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.hash.Write(p[:n])
	v.size += int64(n)
	if err == io.EOF && (v.size != v.want.Size || hex.EncodeToString(v.hash.Sum(nil)) != v.want.SHA256) {
		err = errorf(sink.ErrLost, "the object %s is not what its manifest says", brief(v.want.Key))
	}
	return n, err
}

type fileReader struct {
	plain io.Reader
	raw   *verified
	body  io.Closer
	done  func()
}

func (f *fileReader) Read(p []byte) (int, error) {
	n, err := f.plain.Read(p)
	if err == io.EOF { // a decompressor may stop before the end of what it reads
		if _, rest := io.Copy(io.Discard, f.raw); rest != nil {
			return n, rest
		}
	}
	return n, err
}

func (f *fileReader) Close() error {
	f.done()
	return f.body.Close()
}

// String names the place.
func (r *Reader) String() string { return fmt.Sprintf("s3://%s", path.Join(r.b.name, r.prefix)) }
