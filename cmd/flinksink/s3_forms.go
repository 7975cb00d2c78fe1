package main

import (
	"io"
	"path"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

// endOf is what a file's name, or the end of one, says of its format and its compression: ".parquet", ".jsonl.gz".
func endOf(key string) string {
	base := path.Base(key)
	end := path.Ext(base)
	if end == ".gz" || end == ".zst" {
		end = path.Ext(strings.TrimSuffix(base, end)) + end
	}
	return end
}

// formatOf is the --s3-format whose files are called so, "" for none.
func formatOf(key string) string {
	end := endOf(key)
	for _, name := range []string{"json", "csv", "raw", "parquet", "avro"} {
		f, err := (&s3Flags{format: name}).files()
		if err == nil && strings.HasPrefix(end+".", f.Layout().Extension+".") {
			return name
		}
	}
	return ""
}

// forms write the rows of one table as the sink of a target would in any format.
type forms struct {
	standard string // --s3-format
	target   *filesTarget
	table    *changelog.Table
	made     map[string]form
}

// form is a sink of one format, or what is wrong with it.
type form struct {
	sink *s3sink.Sink
	err  error
}

func newForms(standard string, t *filesTarget, table *changelog.Table) forms {
	return forms{standard, t, table, make(map[string]form)}
}

func (f *forms) form(format string) form {
	x, ok := f.made[format]
	if !ok {
		x.sink, x.err = f.make(format)
		f.made[format] = x
	}
	return x
}

func (f *forms) make(format string) (*s3sink.Sink, error) {
	if format == f.standard {
		return f.target.sink, f.fits(f.target.sink)
	}
	o := *f.target.options
	var err error
	if o.Format, err = (&s3Flags{format: format}).files(); err != nil {
		return nil, err
	}
	o.Compression, o.Level = s3sink.Uncompressed, 0 // rows are compared
	s, err := s3sink.New(f.target.client, f.target.folder.bucket, f.target.folder.prefix, &o)
	if err != nil {
		return nil, err
	}
	return s, f.fits(s)
}

func (f *forms) fits(s *s3sink.Sink) error {
	_, err := s.NewFile(f.table, io.Discard)
	return err
}

// misfit is why the table cannot be written in a format.
func (f *forms) misfit(format string) error {
	err := f.form(format).err
	if e, ok := err.(*sink.Error); ok && e.Err != nil {
		return e.Err
	}
	return err
}

// file begins a file of a format; "" is that of --s3-format.
func (f *forms) file(format string, w io.Writer) (s3sink.FileWriter, error) {
	if format == "" {
		format = f.standard
	}
	x := f.form(format)
	if x.err != nil {
		return nil, x.err
	}
	return x.sink.NewFile(f.table, w)
}
