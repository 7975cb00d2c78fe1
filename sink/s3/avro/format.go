package avro

import (
	"crypto/rand"
	"fmt"
	"io"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3"
)

// Codec compresses blocks.
type Codec uint8

const (
	Snappy Codec = iota
	Zstd
	Deflate
	Uncompressed
)

// Options are the settings of a [Format]. nil and the zero value are the defaults.
type Options struct {
	// Codec defaults to Snappy.
	Codec Codec
	// BlockBytes is about how long a block is before compression: the memory of an open file. Defaults to 64 KiB.
	BlockBytes int
}

const defaultBlockBytes = 64 << 10

// Format is the file format of Avro's object containers, for s3.Options.Format.
type Format struct{ o Options }

var _ s3.Format = Format{}

// New returns the format.
func New(o *Options) Format {
	var f Format
	if o != nil {
		f.o = *o
	}
	if f.o.BlockBytes <= 0 {
		f.o.BlockBytes = defaultBlockBytes
	}
	return f
}

// Layout implements [s3.Format].
func (Format) Layout() s3.Layout {
	return s3.Layout{Extension: ".avro", ContentType: "application/avro", Compressed: true}
}

// Table implements [s3.Format].
func (f Format) Table(t *changelog.Table) (s3.TableFormat, error) {
	if f.o.Codec > Uncompressed {
		return nil, fmt.Errorf("Options.Codec is %d: it has to be Snappy, Zstd, Deflate or Uncompressed", f.o.Codec)
	}
	root, err := compile(t)
	if err != nil {
		return nil, err
	}
	text, err := root.text()
	if err != nil {
		return nil, err
	}
	schema, err := avro.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the table's Avro schema: %w", err)
	}
	return &table{o: f.o, root: root, schema: schema, text: text}, nil
}

type table struct {
	o      Options
	root   *node
	schema *avro.Schema
	text   string
	datum  []byte
}

// NewFile implements [s3.TableFormat].
func (t *table) NewFile(w io.Writer) (s3.FileWriter, error) {
	var sync [16]byte
	rand.Read(sync[:])
	opts := []ocf.WriterOpt{ocf.WithSchema(t.text), ocf.WithBlockBytes(t.o.BlockBytes), ocf.WithSyncMarker(sync)}
	switch t.o.Codec {
	case Snappy:
		opts = append(opts, ocf.WithCodec(ocf.SnappyCodec()))
	case Zstd:
		c, err := ocf.ZstdCodec(nil, nil)
		if err != nil {
			return nil, err
		}
		opts = append(opts, ocf.WithCodec(c))
	case Deflate:
		opts = append(opts, ocf.WithCodec(ocf.DeflateCodec(-1)))
	}
	out, err := ocf.NewWriter(w, t.schema, opts...)
	if err != nil {
		return nil, err
	}
	return &file{t: t, w: out}, nil
}

type file struct {
	t *table
	w *ocf.Writer
}

func (f *file) WriteRow(c *changelog.Change) error {
	b, err := f.t.root.row(f.t.datum[:0], c.Row)
	if err != nil {
		err.Partition, err.Offset = c.Partition, c.Offset
		return err
	}
	f.t.datum = b
	_, werr := f.w.Write(b)
	return werr
}

// Buffered is a block at most, which counts for nothing beside a part.
func (f *file) Buffered() int { return 0 }
func (f *file) Flush() error  { return f.w.Flush() }
func (f *file) Close() error  { return f.w.Close() }
