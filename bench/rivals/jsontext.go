package main

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonText reads the tokens of encoding/json/v2's jsontext, by hand. It is spared the look for members that come twice.
func jsonText(s shape) func([][]byte, *[]order) error {
	return func(messages [][]byte, into *[]order) error {
		var in bytes.Buffer
		r := tokenReader{shape: s, d: jsontext.NewDecoder(&in, jsontext.AllowDuplicateNames(true))}
		for _, m := range messages {
			in = *bytes.NewBuffer(m)
			r.d.Reset(&in, jsontext.AllowDuplicateNames(true))
			r.found, r.hasOld = false, false
			var o order
			var err error
			if s.row == "" {
				err = r.order(&o)
			} else {
				err = r.envelope(&o)
			}
			if err != nil {
				return err
			}
			if r.hasOld {
				*into = append(*into, r.before)
			}
			*into = append(*into, o)
		}
		return nil
	}
}

type tokenReader struct {
	shape
	d     *jsontext.Decoder
	arena arena
	text  []byte
	found bool

	before order
	hasOld bool
}

// envelope reads a message with rows in it.
func (r *tokenReader) envelope(o *order) error {
	if _, err := r.d.ReadToken(); err != nil { // its brace
		return err
	}
	op := false
	for r.d.PeekKind() == '"' {
		name, err := r.d.ReadValue()
		if err != nil {
			return err
		}
		name = name[1 : len(name)-1]
		switch {
		case string(name) == r.row:
			err = r.rows(o)
		case string(name) == r.shape.old:
			r.hasOld, r.before = r.d.PeekKind() != 'n', order{}
			err = r.rows(&r.before)
		case string(name) == "op", string(name) == "op_type", string(name) == "type":
			_, err = r.d.ReadValue()
			op = true
		default:
			err = r.d.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	if !op || !r.found {
		return errNoRow
	}
	_, err := r.d.ReadToken()
	return err
}

func (r *tokenReader) rows(o *order) error {
	switch k := r.d.PeekKind(); {
	case k == 'n':
		return r.d.SkipValue()
	case r.many:
		if _, err := r.d.ReadToken(); err != nil {
			return err
		}
		for r.d.PeekKind() == '{' {
			if err := r.order(o); err != nil {
				return err
			}
		}
		_, err := r.d.ReadToken()
		return err
	}
	return r.order(o)
}

func (r *tokenReader) order(o *order) error {
	r.found = true
	if _, err := r.d.ReadToken(); err != nil { // its brace
		return err
	}
	for r.d.PeekKind() == '"' {
		name, err := r.d.ReadValue()
		if err != nil {
			return err
		}
		field := fieldOf(name)
		value, err := r.d.ReadValue()
		if err != nil {
			return err
		}
		switch field {
		case 0:
			o.ID, err = strconv.ParseInt(textOf(value), 10, 64)
		case 1:
			o.Customer, err = r.string(value)
		case 2:
			o.Item, err = r.string(value)
		case 3:
			var n int64
			n, err = strconv.ParseInt(textOf(value), 10, 32)
			o.Quantity = int32(n)
		case 4:
			o.Price, err = parsePrice(value)
		case 5:
			o.Weight, err = strconv.ParseFloat(textOf(value), 64)
		case 6:
			if r.text, err = jsontext.AppendUnquote(r.text[:0], value); err == nil {
				o.Ordered, err = parseWallClock(r.text)
			}
		case 7:
			o.Note, err = r.string(value)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.d.ReadToken()
	return err
}

func fieldOf(name []byte) int {
	switch string(name) {
	case `"id"`:
		return 0
	case `"customer"`:
		return 1
	case `"item"`:
		return 2
	case `"quantity"`:
		return 3
	case `"price"`:
		return 4
	case `"weight"`:
		return 5
	case `"ordered"`:
		return 6
	case `"note"`:
		return 7
	}
	return -1
}

func (r *tokenReader) string(value []byte) (string, error) {
	if len(value) < 2 || value[0] != '"' {
		return "", fmt.Errorf("not a string")
	}
	text, err := jsontext.AppendUnquote(r.text[:0], value)
	r.text = text
	return r.arena.keep(text), err
}
