package s3

import (
	"io"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// NewFile begins a file of rows of t that is written to w as the sink writes its own: in Options.Format, with the columns of Options.Kind, without
// Options.Compression. It is for who compares files with a topic. WriteRow refuses, with a *changelog.DataError, what the sink
// refuses; then the file is of no use any more. What cannot be a file of t is an ErrConfig.
func (s *Sink) NewFile(t *changelog.Table, w io.Writer) (FileWriter, error) {
	tg, err := s.newTarget(t)
	if err != nil {
		return nil, &sink.Error{Op: "write", Class: sink.ErrConfig, Err: err}
	}
	f, err := tg.format.NewFile(w)
	if err != nil {
		return nil, &sink.Error{Op: "write", Class: sink.ErrConfig, Err: err}
	}
	return &expectedFile{f, tg, s.o.Kind}, nil
}

type expectedFile struct {
	FileWriter
	tg   *target
	kind Kind
}

func (f *expectedFile) WriteRow(c *changelog.Change) error {
	if bad := f.tg.judge(c, f.kind); bad != nil {
		return bad
	}
	return f.FileWriter.WriteRow(f.tg.change(c))
}
