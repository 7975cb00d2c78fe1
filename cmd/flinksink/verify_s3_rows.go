package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

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

// flush writes the batch as files would hold it, in the format of each lot's, and adds its rows to their lots.
func (e *expected) flush() error {
	formats := make(map[string][]int) // numbers of changes
	lots := make([]*lot, e.b.Len())
	for i := range e.b.Changes {
		c := &e.b.Changes[i]
		if lots[i] = e.l.lotOf(c.Partition, c.Offset); lots[i] != nil && lots[i].unlike == "" && !e.skip[i] {
			formats[lots[i].format] = append(formats[lots[i].format], i)
		}
	}
	for _, format := range slices.Sorted(maps.Keys(formats)) {
		if err := e.write(format, formats[format], lots); err != nil {
			return err
		}
	}
	e.b.Reset()
	e.skip = nil
	return nil
}

// write writes some changes in one format, without those that no file takes.
func (e *expected) write(format string, changes []int, lots []*lot) error {
	var out bytes.Buffer
	for {
		out.Reset()
		refused, err := e.file(format, &out, changes)
		if err != nil {
			return err
		}
		if refused < 0 {
			break
		}
		e.l.unwritten++
		changes = slices.Delete(changes, refused, refused+1)
	}
	i := 0
	err := eachRow(cmp.Or(format, e.l.forms.standard), &out, func(row []byte) error {
		if i < len(changes) {
			lots[changes[i]].want.add(row)
		}
		i++
		return nil
	})
	if err == nil && i != len(changes) {
		err = fmt.Errorf("verify: %d rows were written in format %s, and %d can be read", len(changes), cmp.Or(format, e.l.forms.standard), i)
	}
	return err
}

// file writes changes of the batch. It returns which of them no file takes, -1 for none.
func (e *expected) file(format string, out io.Writer, changes []int) (refused int, err error) {
	f, err := e.l.forms.file(format, out)
	if err != nil {
		return -1, err
	}
	for at, i := range changes {
		err := f.WriteRow(&e.b.Changes[i])
		var bad *changelog.DataError
		switch {
		case errors.As(err, &bad):
			return at, nil
		case err != nil:
			return -1, err
		}
	}
	return -1, f.Close()
}
