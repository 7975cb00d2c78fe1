package parquet

import (
	"bytes"
	"errors"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/flinksink/flinksink/sink/s3"
)

var _ s3.Merger = Format{}

// Merge implements [s3.Merger]. The rows are written anew, into row groups of the options' size: many small ones are what makes small files slow to
// read. A file that is read is held in memory. Its end is read first, so that nothing that fails its hash is parsed.
func (f Format) Merge(w io.Writer, next func() (io.ReadCloser, error)) error {
	var out *parquet.Writer
	var schema string
	held, rows := int64(0), int64(0)
	for {
		in, err := open(next)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if out == nil {
			schema = in.Schema().String()
			c, err := parquet.NewWriterConfig(in.Schema(), parquet.Compression((&table{o: f.o}).codec()), parquet.DataPageStatistics(true), parquet.CreatedBy("flinksink", "", ""))
			if err != nil {
				return err
			}
			out = parquet.NewWriter(w, c)
		} else if in.Schema().String() != schema {
			return s3.ErrUnlike
		}
		for i, g := range in.RowGroups() {
			r := g.Rows()
			_, err := parquet.CopyRows(out, r)
			if err = errors.Join(err, r.Close()); err != nil {
				return err
			}
			held, rows = held+in.Metadata().RowGroups[i].TotalByteSize, rows+g.NumRows()
			if held >= int64(f.o.RowGroupBytes) || rows >= int64(f.o.RowGroupRows) {
				held, rows = 0, 0
				if err := out.Flush(); err != nil {
					return err
				}
			}
		}
	}
	if out == nil {
		return nil
	}
	return out.Close()
}

func open(next func() (io.ReadCloser, error)) (*parquet.File, error) {
	r, err := next()
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	return parquet.OpenFile(bytes.NewReader(body), int64(len(body)))
}
