package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"
)

var errCells = errors.New("not 8 cells")

func csvRivals() []rival {
	var stream []byte
	return []rival{
		// At its best it has all lines in one stream, which a topic does not give it.
		{name: "encoding/csv, all lines in one stream", decode: func(messages [][]byte, into *[]order) error {
			if stream == nil {
				stream = lines(messages)
			}
			if !utf8.Valid(stream) {
				return errUTF8
			}
			return csvOrders(bytes.NewReader(stream), len(messages), into)
		}},
		{name: "encoding/csv, a reader a message", apart: true, decode: func(messages [][]byte, into *[]order) error {
			for _, m := range messages {
				if !utf8.Valid(m) {
					return errUTF8
				}
				if err := csvOrders(bytes.NewReader(m), 1, into); err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

func csvOrders(in io.Reader, n int, into *[]order) error {
	r := csv.NewReader(in)
	r.ReuseRecord = true // the texts of a line are one allocation, which they keep
	for range n {
		cells, err := r.Read()
		if err != nil {
			return err
		}
		if len(cells) != 8 {
			return errCells
		}
		o := order{Customer: cells[1], Item: cells[2], Note: cells[7]}
		if o.ID, err = strconv.ParseInt(cells[0], 10, 64); err != nil {
			return err
		}
		quantity, err := strconv.ParseInt(cells[3], 10, 32)
		if err != nil {
			return err
		}
		o.Quantity = int32(quantity)
		if o.Weight, err = strconv.ParseFloat(cells[5], 64); err != nil {
			return err
		}
		if err := o.set(cells[4], cells[6]); err != nil {
			return err
		}
		*into = append(*into, o)
	}
	return nil
}
