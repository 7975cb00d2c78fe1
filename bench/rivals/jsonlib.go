package main

import (
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/bytedance/sonic"
	gojson "github.com/goccy/go-json"
)

// shape says where a message has its rows: at its root where row is "".
type shape struct {
	row, old string
	many     bool // rows are in arrays
}

var (
	errNoRow = errors.New("the message has no row")
	errUTF8  = errors.New("the message is not UTF-8")
)

// wire is an order as libraries that fill structs read it. Price stays what it was spelt as.
type wire struct {
	ID       int64       `json:"id"`
	Customer string      `json:"customer"`
	Item     string      `json:"item"`
	Quantity int32       `json:"quantity"`
	Price    json.Number `json:"price"`
	Weight   float64     `json:"weight"`
	Ordered  string      `json:"ordered"`
	Note     string      `json:"note"`
}

func (w *wire) order() (o order, err error) {
	o = order{ID: w.ID, Customer: w.Customer, Item: w.Item, Quantity: w.Quantity, Weight: w.Weight, Note: w.Note}
	return o, o.set(string(w.Price), w.Ordered)
}

// both is an envelope with a row before and one after; one with data and old.
type both struct {
	Before *wire  `json:"before"`
	After  *wire  `json:"after"`
	Op     string `json:"op"`
	OpType string `json:"op_type"`
}

type dataOld struct {
	Data *wire  `json:"data"`
	Old  *wire  `json:"old"`
	Type string `json:"type"`
}

// manyRows is the envelope with arrays of rows.
type manyRows struct {
	Data []wire `json:"data"`
	Old  []wire `json:"old"`
	Type string `json:"type"`
}

// checked has text looked at that is not UTF-8, which encoding/json replaces and flinksink refuses, and some libraries let pass.
func checked[O any](unmarshal func([]byte, any, ...O) error) func([]byte, any) error {
	return func(m []byte, v any) error {
		if !utf8.Valid(m) {
			return errUTF8
		}
		return unmarshal(m, v)
	}
}

func jsonRivals(s shape) []rival {
	quick := sonic.Config{ValidateString: true}.Froze() // it checks that text is UTF-8, as all others do, and lets it point into the message
	return []rival{
		{name: "encoding/json", decode: structs(s, json.Unmarshal)},
		{name: "goccy/go-json", decode: structs(s, checked(gojson.UnmarshalNoEscape))},
		{name: "bytedance/sonic", decode: structs(s, func(m []byte, v any) error { return quick.UnmarshalFromString(textOf(m), v) })},
		{name: "valyala/fastjson", decode: fastJSON(s)},
		{name: "jsontext of encoding/json/v2", decode: jsonText(s)},
	}
}

// structs reads with a library that fills structs. What a message needs is made once, as far as a library lets it be used again.
func structs(s shape, unmarshal func(message []byte, into any) error) func([][]byte, *[]order) error {
	var before, after wire
	var pair both
	var single dataOld
	var list manyRows
	read := func(m []byte) (old, row *wire, err error) {
		switch {
		case s.row == "":
			after = wire{}
			return nil, &after, unmarshal(m, &after)
		case s.many:
			clear(list.Data[:cap(list.Data)])
			clear(list.Old[:cap(list.Old)])
			list.Data, list.Old, list.Type = list.Data[:0], list.Old[:0], ""
			err := unmarshal(m, &list)
			if err == nil && (len(list.Data) != 1 || list.Type == "") {
				err = errNoRow
			}
			if err != nil {
				return nil, nil, err
			}
			if len(list.Old) == 1 {
				old = &list.Old[0]
			}
			return old, &list.Data[0], nil
		case s.row == "data":
			after, before = wire{}, wire{}
			single = dataOld{Data: &after, Old: &before}
			err := unmarshal(m, &single)
			if err == nil && (single.Data == nil || single.Type == "") {
				err = errNoRow
			}
			return single.Old, single.Data, err
		}
		after, before = wire{}, wire{}
		pair = both{Before: &before, After: &after}
		err = unmarshal(m, &pair)
		if err == nil && (pair.After == nil || pair.Op == pair.OpType) {
			err = errNoRow
		}
		return pair.Before, pair.After, err
	}
	return func(messages [][]byte, into *[]order) error {
		for _, m := range messages {
			old, row, err := read(m)
			if err != nil {
				return err
			}
			// An old row that is absent leaves what it would have been read into as it was.
			if old != nil && *old != (wire{}) {
				o, err := old.order()
				if err != nil {
					return err
				}
				*into = append(*into, o)
			}
			o, err := row.order()
			if err != nil {
				return err
			}
			*into = append(*into, o)
		}
		return nil
	}
}
