package parquet

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3"
)

// Codec compresses pages.
type Codec uint8

const (
	Snappy Codec = iota
	Zstd
	Gzip
	Uncompressed
)

// Options are the settings of a [Format]. nil and the zero value are the defaults.
type Options struct {
	// Codec defaults to Snappy.
	Codec Codec
	// RowGroupBytes ends a row group when its values, before encoding and compression, are about this long: the memory of an open file. Defaults to 32 MiB.
	RowGroupBytes int
	// RowGroupRows ends a row group at this number of rows. Defaults to 1,000,000.
	RowGroupRows int
}

const (
	defaultRowGroupBytes = 32 << 20
	defaultRowGroupRows  = 1_000_000
)

// Format is the file format Parquet, for s3.Options.Format.
type Format struct{ o Options }

var _ s3.Format = Format{}

// New returns the format.
func New(o *Options) Format {
	var f Format
	if o != nil {
		f.o = *o
	}
	if f.o.RowGroupBytes <= 0 {
		f.o.RowGroupBytes = defaultRowGroupBytes
	}
	if f.o.RowGroupRows <= 0 {
		f.o.RowGroupRows = defaultRowGroupRows
	}
	return f
}

// Layout implements [s3.Format].
func (Format) Layout() s3.Layout {
	return s3.Layout{Extension: ".parquet", ContentType: "application/vnd.apache.parquet", Compressed: true}
}

// Table implements [s3.Format].
func (f Format) Table(t *changelog.Table) (s3.TableFormat, error) {
	if f.o.Codec > Uncompressed {
		return nil, fmt.Errorf("Options.Codec is %d: it has to be Snappy, Zstd, Gzip or Uncompressed", f.o.Codec)
	}
	tree, err := compile(t.Schema)
	if err != nil {
		return nil, err
	}
	return &table{o: f.o, tree: tree, schema: parquet.NewSchema(t.Name, tree.group())}, nil
}

type table struct {
	o      Options
	tree   *tree
	schema *parquet.Schema
}

func (t *table) codec() compress.Codec {
	switch t.o.Codec {
	case Zstd:
		return &parquet.Zstd
	case Gzip:
		return &parquet.Gzip
	case Uncompressed:
		return &parquet.Uncompressed
	}
	return &parquet.Snappy
}

// NewFile implements [s3.TableFormat].
func (t *table) NewFile(w io.Writer) (s3.FileWriter, error) {
	c, err := parquet.NewWriterConfig(t.schema, parquet.Compression(t.codec()), parquet.DataPageStatistics(true), parquet.CreatedBy("flinksink", "", ""))
	if err != nil {
		return nil, err
	}
	out := parquet.NewWriter(w, c)
	return &file{t: t, w: out, columns: out.ColumnWriters(), block: newBlock(t.tree.columns)}, nil
}

type file struct {
	t       *table
	w       *parquet.Writer
	columns []*parquet.ColumnWriter
	block   block
	held    int // bytes of values in the open row group, without the block's
	rows    int
}

func (f *file) WriteRow(c *changelog.Change) error {
	if err := f.block.row(f.t.tree, c.Row); err != nil {
		err.Partition, err.Offset = c.Partition, c.Offset
		return err
	}
	if f.held+f.block.size >= f.t.o.RowGroupBytes || f.rows+f.block.rows >= f.t.o.RowGroupRows {
		return f.Flush()
	}
	if f.block.full() {
		return f.settle()
	}
	return nil
}

// settle hands the block on.
func (f *file) settle() error {
	f.held, f.rows = f.held+f.block.size, f.rows+f.block.rows
	return f.block.writeTo(f.columns)
}

func (f *file) Buffered() int { return f.held + f.block.size }

// Flush ends the row group.
func (f *file) Flush() error {
	if err := f.settle(); err != nil {
		return err
	}
	f.held, f.rows = 0, 0
	return f.w.Flush()
}

func (f *file) Close() error {
	if err := f.settle(); err != nil {
		return err
	}
	return f.w.Close()
}
