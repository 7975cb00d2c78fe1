package main

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// A batch is printed when it holds so many changes or bytes: enough to spread the cost of its arena, and little memory.
const (
	printChanges = 1000
	printBytes   = 4 << 20
)

// printer decodes records and prints their changes in the form of the captured read.jsonl files.
type printer struct {
	out   *bufio.Writer
	dec   changelog.Decoder
	batch *changelog.Batch
	line  []byte
	topic bool // lines name the topic

	records, bad int64
}

func newPrinter(w io.Writer, d changelog.Decoder) *printer {
	return &printer{out: bufio.NewWriterSize(w, 64<<10), dec: d, batch: changelog.NewBatch(d.Table())}
}

// refusal decodes nothing: the table itself was refused, and so is each of its records.
type refusal struct{ err error }

func (refusal) Table() *changelog.Table { return &changelog.Table{Schema: &changelog.Schema{}} }

func (r refusal) Decode(*changelog.Batch, *changelog.Record) error { return r.err }

// print takes one record. r's key and value must not change any more. An error means that nothing can be written any more.
func (p *printer) print(r *changelog.Record) error {
	p.records++
	if err := p.dec.Decode(p.batch, r); err != nil {
		if end := (*outage)(nil); errors.As(err, &end) {
			return end
		}
		p.bad++
		if err := p.flush(); err != nil {
			return err
		}
		return p.fault(r, err)
	}
	if p.batch.Len() >= printChanges || p.batch.Bytes() >= printBytes {
		return p.flush()
	}
	return nil
}

// flush prints the batch.
func (p *printer) flush() error {
	change := rowtext.AppendChange
	if p.topic {
		change = rowtext.AppendChangeOfTopic
	}
	for i := range p.batch.Changes {
		p.line = append(change(p.line[:0], p.batch.Table, &p.batch.Changes[i]), '\n')
		if _, err := p.out.Write(p.line); err != nil {
			return err
		}
	}
	p.batch.Reset()
	return nil
}

// fault prints the line of a record that cannot be decoded. The line has its coordinates already, so they are taken out of the text.
func (p *printer) fault(r *changelog.Record, err error) error {
	text, class := err.Error(), changelog.Unclassified
	var d *changelog.DataError
	if errors.As(err, &d) {
		class = d.Class
		short := *d
		short.Topic = ""
		text = strings.TrimPrefix(short.Error(), "changelog: ")
	}
	p.line = rowtext.AppendPosition(append(p.line[:0], '{'), r.Partition, r.Offset, p.topic)
	p.line = append(p.line, `,"error":`...)
	p.line = rowtext.AppendString(p.line, text)
	if class != changelog.Unclassified {
		p.line = rowtext.AppendString(append(p.line, `,"class":`...), class.String())
	}
	p.line = append(p.line, "}\n"...)
	_, err = p.out.Write(p.line)
	return err
}

// close prints what is held back.
func (p *printer) close() error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.out.Flush()
}
