package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/twmb/avro/ocf"
)

// eachRow goes through the rows of a file, as a reader of its format gives them, in a form that is equal for equal rows. It is for files of one
// table, whose columns are the same. r is read to its end, which is where a hash over all of it is known.
func eachRow(format string, r io.Reader, each func(row []byte) error) error {
	switch format {
	case "parquet":
		return eachParquetRow(r, each)
	case "avro":
		return eachAvroRow(r, each)
	}
	return eachLine(r, format == "csv", each)
}

// eachLine reads lines. A field of CSV may hold a line feed, between quotes.
func eachLine(r io.Reader, quoted bool, each func(row []byte) error) error {
	b := bufio.NewReaderSize(r, 64<<10)
	var row []byte
	for {
		part, err := b.ReadSlice('\n')
		row = append(row, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(row) == 0:
			return nil
		case err != nil && err != io.EOF:
			return err
		case err == nil && quoted && bytes.Count(row, []byte{'"'})%2 == 1:
			continue
		}
		if err := each(bytes.TrimSuffix(row, []byte{'\n'})); err != nil {
			return err
		}
		if row = row[:0]; err == io.EOF {
			return nil
		}
	}
}

// eachParquetRow reads a file whose index is at its end, from a file of this host's.
func eachParquetRow(r io.Reader, each func(row []byte) error) error {
	tmp, err := os.CreateTemp("", "flinksink-*.parquet")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	size, err := io.Copy(tmp, r)
	if err != nil {
		return err
	}
	f, err := parquet.OpenFile(tmp, size)
	if err != nil {
		return err
	}
	rows := make([]parquet.Row, 64)
	var form []byte
	for _, g := range f.RowGroups() {
		from := g.Rows()
		for {
			n, err := from.ReadRows(rows)
			for _, row := range rows[:n] {
				form = form[:0]
				for _, v := range row {
					form = binary.AppendVarint(form, int64(v.Column()))
					form = binary.AppendVarint(form, int64(v.RepetitionLevel()))
					form = binary.AppendVarint(form, int64(v.DefinitionLevel()))
					at := len(form)
					form = v.AppendBytes(form)
					form = binary.AppendVarint(form, int64(len(form)-at)) // behind, so that two values cannot be read as others
				}
				if err := each(form); err != nil {
					from.Close()
					return err
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				from.Close()
				return err
			}
		}
		if err := from.Close(); err != nil {
			return err
		}
	}
	return nil
}

func eachAvroRow(r io.Reader, each func(row []byte) error) error {
	rd, err := ocf.NewReader(r)
	if err != nil {
		return err
	}
	defer rd.Close()
	for {
		var v any
		switch err := rd.Decode(&v); {
		case err == io.EOF:
			_, err = io.Copy(io.Discard, r)
			return err
		case err != nil:
			return err
		}
		if err := each(fmt.Appendf(nil, "%v", v)); err != nil { // members of maps are sorted
			return err
		}
	}
}

// rowSum is a number of rows and a sum of their hashes: equal for equal rows in whatever order.
type rowSum struct {
	n      int64
	hi, lo uint64
}

func (s *rowSum) add(row []byte) {
	h := fnv.New128a()
	h.Write(row)
	sum := h.Sum(nil)
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, binary.BigEndian.Uint64(sum[8:]), 0)
	s.hi, _ = bits.Add64(s.hi, binary.BigEndian.Uint64(sum[:8]), carry)
	s.n++
}
