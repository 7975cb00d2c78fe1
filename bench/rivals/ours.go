package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
)

// ours decodes and encodes with flinksink, record by record, as a bridge does.
type ours struct {
	decoder  *format.Decoder
	encoder  *format.Encoder // nil where messages are those of another writer
	batch    *changelog.Batch
	rows     []changelog.Change // to write: the first ones only, or the collector would be busy with them
	messages [][]byte
	out      changelog.Record
	changes  int // that a message holds: rows, of which it may have several
	row      func(*order) changelog.Row
	back     func(changelog.Row) order
}

// newOurs makes it for a table with the options of WITH beside the connector's.
func newOurs(f changelog.Format, columns string, options ...string) (*ours, error) {
	text := "CREATE TABLE orders (" + columns + ") WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = '" + f.Name() + "'"
	for _, o := range options {
		text += ", " + o
	}
	t, err := ddl.Find(text+")", "orders")
	if err != nil {
		return nil, err
	}
	o := &ours{changes: 1, row: rowOf, back: orderOf}
	formats := []changelog.Format{f}
	if o.decoder, err = format.New(t, formats, nil); err != nil {
		return nil, err
	}
	o.encoder, err = format.NewEncoder(t, formats, nil)
	o.batch = changelog.NewBatch(o.decoder.Table())
	return o, err
}

// write makes the messages of rows.
func (o *ours) write(rows []order) error {
	for i := range rows {
		c := changelog.Change{Kind: changelog.Insert, Row: o.row(&rows[i])}
		if i < written {
			o.rows = append(o.rows, c)
		}
		var r changelog.Record
		if err := o.encoder.Encode(&r, &c); err != nil {
			return err
		}
		o.messages = append(o.messages, r.Value)
	}
	return nil
}

// written is how many rows are written again and again.
const written = 2000

func (o *ours) decode() error {
	o.batch.Reset()
	r := changelog.Record{Partition: changelog.Partition{Topic: "orders"}}
	for i, m := range o.messages {
		r.Offset, r.Value = int64(i), m
		if err := o.decoder.Decode(o.batch, &r); err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) encode() error {
	for i := range o.rows {
		o.out.Key, o.out.Value = o.out.Key[:0], o.out.Value[:0]
		if err := o.encoder.Encode(&o.out, &o.rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// check decodes all messages, and writes the rows again.
func (o *ours) check(rows []order) error {
	if err := o.decode(); err != nil {
		return err
	}
	if n := o.batch.Len(); n != len(rows) {
		return fmt.Errorf("%d changes of %d rows", n, len(rows))
	}
	for i := range rows {
		c := &o.batch.Changes[i]
		if got := o.back(c.Row); got != rows[i] {
			return fmt.Errorf("message %s\nis read as %+v\nand is      %+v", o.messages[i/o.changes], got, rows[i])
		}
		if o.encoder == nil {
			continue
		}
		var r changelog.Record
		if err := o.encoder.Encode(&r, c); err != nil {
			return err
		}
		if !bytes.Equal(r.Value, o.messages[i]) {
			return fmt.Errorf("%s\nis written again as\n%s", o.messages[i], r.Value)
		}
	}
	return nil
}

// arena keeps copies of texts whose memory a library uses again: one allocation for many.
type arena struct{ chunk []byte }

func (a *arena) keep(s []byte) string {
	if len(a.chunk)+len(s) > cap(a.chunk) {
		a.chunk = make([]byte, 0, max(len(s), 16<<10))
	}
	start := len(a.chunk)
	a.chunk = append(a.chunk, s...)
	return textOf(a.chunk[start:])
}

// lines joins messages to what a reader of files reads.
func lines(messages [][]byte) []byte {
	var b strings.Builder
	for _, m := range messages {
		b.Write(m)
		b.WriteByte('\n')
	}
	return []byte(b.String())
}
