package s3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/json"
)

// Format makes files of one file format. It is a value that is passed in; packages parquet and avro below this one have more. It is safe for use by
// several goroutines.
type Format interface {
	// Layout says what files are called.
	Layout() Layout
	// Table returns what makes files of rows of t, or says which column or option the format cannot hold. Columns that are metadata count.
	Table(t *changelog.Table) (TableFormat, error)
}

// Layout describes the files of a format.
type Layout struct {
	Extension   string // ".jsonl"
	ContentType string // "": application/octet-stream
	Compressed  bool   // the files compress their own blocks
}

// TableFormat makes files of rows of one table. It is used from one goroutine at a time; several of its files may be open.
type TableFormat interface {
	// NewFile begins a file that is written to w.
	NewFile(w io.Writer) (FileWriter, error)
}

// FileWriter is one open file.
type FileWriter interface {
	// WriteRow adds a row, which it does not keep. Errors of a value are a *changelog.DataError; then the file is of no use any more.
	WriteRow(c *changelog.Change) error
	// Buffered is how many bytes of rows it holds that are not yet written to w, about.
	Buffered() int
	// Flush writes what is held to w as far as the format can: a row group, a block.
	Flush() error
	// Close writes the rest and the end of the file. It does not close w.
	Close() error
}

// JSONLines is a JSON object a line, each as Flink's format 'json' writes a row: numbers keep their digits, a TIMESTAMP has no zone.
func JSONLines() Format { return Lines(json.Format{}, nil) }

// Lines makes files of one payload a line, of a format that knows no kinds of change: json, csv, raw. options are the format's own, by Flink's names, such
// as "field-delimiter". A payload that holds a line feed is refused, but for csv, where quotes enclose it; so is one that is Kafka's null.
func Lines(f changelog.Format, options map[string]string) Format {
	return lines{f, maps.Clone(options)}
}

type lines struct {
	format  changelog.Format
	options map[string]string
}

func (l lines) Layout() Layout {
	switch name := l.format.Name(); name {
	case "json":
		return Layout{Extension: ".jsonl", ContentType: "application/x-ndjson"}
	case "csv":
		return Layout{Extension: ".csv", ContentType: "text/csv"}
	case "raw":
		return Layout{Extension: ".txt", ContentType: "text/plain"}
	default:
		return Layout{Extension: "." + escape(name)}
	}
}

func (l lines) Table(t *changelog.Table) (TableFormat, error) {
	if l.format.Mode() != changelog.Append {
		return nil, fmt.Errorf("format %q writes kinds of change in a way of its own, which Lines does not: use json, and Options.Kind for the kinds", l.format.Name())
	}
	p := changelog.Payload{Table: t, Options: l.options}
	for i, c := range t.Schema.Columns {
		p.Columns, p.Names = append(p.Columns, i), append(p.Names, c.Name)
	}
	e, err := l.format.NewEncoder(p)
	if err != nil {
		return nil, err
	}
	for _, c := range t.Schema.Columns {
		if l.format.Name() == "json" && cutTime(&c.Type) {
			return nil, fmt.Errorf("column %q is of type %s, and Flink's json holds a TIME without its fraction: declare TIME(0), or write Parquet or Avro", c.Name, c.Type)
		}
	}
	return &lineTable{encoder: e, quoted: l.format.Name() == "csv"}, nil
}

// cutTime reports a TIME with a fraction, at any depth.
func cutTime(t *changelog.Type) bool {
	if t.Root == changelog.RootTime {
		return t.Precision > 0
	}
	if t.Elem != nil && cutTime(t.Elem) || t.Key != nil && cutTime(t.Key) {
		return true
	}
	for i := range t.Fields {
		if cutTime(&t.Fields[i].Type) {
			return true
		}
	}
	return false
}

type lineTable struct {
	encoder changelog.PayloadEncoder
	quoted  bool
	buf     []byte
}

func (t *lineTable) NewFile(w io.Writer) (FileWriter, error) { return &lineFile{t, w}, nil }

type lineFile struct {
	t *lineTable
	w io.Writer
}

func (f *lineFile) WriteRow(c *changelog.Change) error {
	b, null, err := f.t.encoder.AppendPayload(f.t.buf[:0], c)
	if err != nil {
		return err
	}
	switch {
	case null:
		return &changelog.DataError{Partition: c.Partition, Offset: c.Offset, Class: changelog.Missing, Reason: "the row is NULL, which is no line"}
	case !f.t.quoted && bytes.IndexByte(b, '\n') >= 0:
		return &changelog.DataError{Partition: c.Partition, Offset: c.Offset, Class: changelog.Malformed, Reason: "the row holds a line feed, which would make two lines of it"}
	}
	b = append(b, '\n')
	if cap(b) <= maxKeptLine {
		f.t.buf = b
	}
	_, err = f.w.Write(b)
	return err
}

// maxKeptLine is how large a line's memory may be to be used again.
const maxKeptLine = 1 << 20

func (f *lineFile) Buffered() int { return 0 }
func (f *lineFile) Flush() error  { return nil }
func (f *lineFile) Close() error  { return nil }

// rowError tells that a row, and not the file, is to blame.
func rowError(err error) (*changelog.DataError, bool) {
	var d *changelog.DataError
	ok := errors.As(err, &d)
	return d, ok
}
