package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
)

// expected turns records into rows of files.
type expected struct {
	l *lake
	b *changelog.Batch
	// skip are changes of the batch that are in no file.
	skip map[int]bool
}

func (e *expected) record(r *kgo.Record) error {
	at := e.b.Len()
	rec := record(r)
	if err := e.l.dec.Decode(e.b, rec); err != nil {
		var bad *changelog.DataError
		if !errors.As(err, &bad) {
			return err
		}
		e.b.Truncate(at)
		if !e.l.letters[changelog.Position{Partition: rec.Partition, Offset: rec.Offset}] {
			e.l.unread++
		}
		return nil
	}
	if e.l.letters[changelog.Position{Partition: rec.Partition, Offset: rec.Offset}] {
		e.b.Truncate(at)
	}
	for i := at; i < e.b.Len() && len(e.l.refused) > 0; i++ {
		n, ok := e.l.refused[letterAt{rec.Partition, rec.Offset, e.b.Changes[i].Index}]
		if !ok {
			continue
		}
		e.leaveOut(i)
		switch kind := e.b.Changes[i].Kind; { // the two changes of an update go together
		case n > 1 && kind == changelog.UpdateAfter && i > at:
			e.leaveOut(i - 1)
		case n > 1 && kind == changelog.UpdateBefore && i+1 < e.b.Len():
			e.leaveOut(i + 1)
		}
	}
	if e.b.Len() >= printChanges || e.b.Bytes() >= printBytes {
		return e.flush()
	}
	return nil
}

func (e *expected) leaveOut(i int) {
	if e.skip == nil {
		e.skip = make(map[int]bool)
	}
	e.skip[i] = true
}

// flush writes the batch as files would hold it, and adds its rows to their lots.
func (e *expected) flush() error {
	var lots []*lot
	var out bytes.Buffer
	for {
		lots = lots[:0]
		out.Reset()
		refused, err := e.file(&out, &lots)
		if err != nil {
			return err
		}
		if refused < 0 {
			break
		}
		e.l.unwritten++
		e.leaveOut(refused)
	}
	i := 0
	err := eachRow(e.l.format, &out, func(row []byte) error {
		if i < len(lots) && lots[i] != nil {
			lots[i].want.add(row)
		}
		i++
		return nil
	})
	if err == nil && i != len(lots) {
		err = fmt.Errorf("verify: %d rows were written in format %s, and %d can be read", len(lots), e.l.format, i)
	}
	e.b.Reset()
	e.skip = nil
	return err
}

// file writes the changes of the batch. It returns the number of one that no file takes, -1 for none.
func (e *expected) file(out io.Writer, lots *[]*lot) (refused int, err error) {
	f, err := e.l.target.sink.NewFile(e.l.dec.Table(), out)
	if err != nil {
		return -1, err
	}
	for i := range e.b.Changes {
		c := &e.b.Changes[i]
		if e.skip[i] {
			continue
		}
		err := f.WriteRow(c)
		var bad *changelog.DataError
		switch {
		case errors.As(err, &bad):
			return i, nil
		case err != nil:
			return -1, err
		}
		*lots = append(*lots, e.l.lotOf(c.Partition, c.Offset))
	}
	return -1, f.Close()
}
