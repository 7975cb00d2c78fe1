package s3

import (
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func (c Compression) extension() string {
	switch c {
	case Gzip:
		return ".gz"
	case Zstd:
		return ".zst"
	}
	return ""
}

// compressionOf is that of a file, by its name.
func compressionOf(key string) Compression {
	for _, c := range []Compression{Gzip, Zstd} {
		if strings.HasSuffix(key, c.extension()) {
			return c
		}
	}
	return Uncompressed
}

// compressor is a writer that can be used for one file after another.
type compressor interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// compressors are those of a lane that no file uses: making one costs more than a small file.
type compressors struct{ free []compressor }

// zstdWindow bounds an encoder's memory: about three times as much.
const zstdWindow = 1 << 20

func (cs *compressors) get(c Compression, level int, w io.Writer) (compressor, error) {
	if n := len(cs.free); n > 0 {
		out := cs.free[n-1]
		cs.free = cs.free[:n-1]
		out.Reset(w)
		return out, nil
	}
	switch c {
	case Gzip:
		return gzip.NewWriterLevel(w, level)
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow))
	}
	return nil, fmt.Errorf("compression %d", c)
}

func (cs *compressors) put(c compressor) { cs.free = append(cs.free, c) }

func (cs *compressors) close() { cs.free = nil }

// decompressed reads a whole file of an extension.
func decompressed(c Compression, r io.Reader) (io.Reader, func(), error) {
	switch c {
	case Gzip:
		g, err := gzip.NewReader(r)
		return g, func() {}, err
	case Zstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}
