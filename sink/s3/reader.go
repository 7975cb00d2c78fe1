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
	"strings"

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

// Manifests goes through the committed checkpoints, by sink, generation and checkpoint. It ends with the first error.
func (r *Reader) Manifests(ctx context.Context) iter.Seq2[*Manifest, error] {
	return func(yield func(*Manifest, error) bool) {
		stop := errors.New("stop")
		prefix, after := path.Join(r.prefix, ownFolder)+"/", ""
		if r.o.Bridge != "" {
			n := newNames(r.prefix, r.o.Bridge, r.o.Sink)
			prefix = n.own("manifest") + "/"
			if r.o.AfterGeneration != 0 {
				after = n.own("manifest", numbered(r.o.AfterGeneration, r.o.AfterCheckpoint)+"~")
			}
		}
		err := r.b.list(ctx, prefix, after, func(key string) error {
			if path.Base(path.Dir(key)) != "manifest" || !strings.HasSuffix(key, ".json") {
				return nil
			}
			body, _, ok, err := r.b.get(ctx, key)
			if err != nil {
				return err
			}
			if !ok {
				return nil // taken away since the listing
			}
			m, err := parseManifest(body)
			if err != nil {
				return errorf(sink.ErrConfig, "manifest %s: %w", brief(key), err)
			}
			if !yield(m, nil) {
				return stop
			}
			return nil
		})
		if err != nil && err != stop {
			yield(nil, wrap(ctx, "read", r.o.Sink, r.o.Bridge, classify(err), err))
		}
	}
}

// Open opens a file of a manifest for reading, without its compression. Read returns an error instead of io.EOF where the content is not what the
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
	c := Uncompressed
	switch {
	case strings.HasSuffix(f.Key, Gzip.extension()):
		c = Gzip
	case strings.HasSuffix(f.Key, Zstd.extension()):
		c = Zstd
	}
	plain, done, err := decompressed(c, raw)
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
