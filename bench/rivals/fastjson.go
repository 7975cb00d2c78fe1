package main

import (
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

// fastJSON reads trees of valyala/fastjson. They live until the parser reads the next message, so texts are copied.
func fastJSON(s shape) func([][]byte, *[]order) error {
	return func(messages [][]byte, into *[]order) error {
		var p fastjson.Parser
		f := fastReader{}
		for _, m := range messages {
			if !utf8.Valid(m) {
				return errUTF8
			}
			root, err := p.ParseBytes(m)
			if err != nil {
				return err
			}
			row := root
			if s.row != "" {
				row = root.Get(s.row)
				if s.many {
					rows, err := row.Array()
					if err != nil || len(rows) != 1 {
						return errNoRow
					}
					row = rows[0]
				}
				if root.Get("op") == nil && root.Get("op_type") == nil && root.Get("type") == nil {
					return errNoRow
				}
				if old := root.Get(s.old); old != nil && old.Type() == fastjson.TypeObject {
					o, err := f.order(old)
					if err != nil {
						return err
					}
					*into = append(*into, o)
				}
			}
			o, err := f.order(row)
			if err != nil {
				return err
			}
			*into = append(*into, o)
		}
		return nil
	}
}

type fastReader struct {
	arena arena
	text  []byte
}

func (f *fastReader) order(v *fastjson.Value) (o order, err error) {
	fail := func(e error) {
		if err == nil {
			err = e
		}
	}
	obj, e := v.Object()
	if e != nil {
		return o, e
	}
	str := func(name string) []byte {
		s, e := obj.Get(name).StringBytes()
		fail(e)
		return s
	}
	var n int
	o.ID, e = obj.Get("id").Int64()
	fail(e)
	o.Customer, o.Item, o.Note = f.arena.keep(str("customer")), f.arena.keep(str("item")), f.arena.keep(str("note"))
	n, e = obj.Get("quantity").Int()
	fail(e)
	o.Quantity = int32(n)
	o.Weight, e = obj.Get("weight").Float64()
	fail(e)
	if num := obj.Get("price"); num != nil {
		f.text = num.MarshalTo(f.text[:0])
	}
	if err != nil {
		return o, err
	}
	if o.Price, err = parsePrice(f.text); err != nil {
		return o, err
	}
	o.Ordered, err = parseWallClock(str("ordered"))
	return o, err
}
