package postgres

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5/pgtype"
)

// This file writes arrays, of one dimension and of several.

// maxDimensions is the server's MAXDIM (https://www.postgresql.org/docs/current/limits.html does not list it; src/include/utils/array.h does).
const maxDimensions = 6

// What an ARRAY of ARRAY may be in Flink, and an array of several dimensions cannot.
var (
	errRagged = errors.New("the arrays within the array differ in length, and those of a Postgres array are all of one: make the column jsonb")
	errHole   = errors.New("an array within the array is NULL, which a Postgres array cannot hold: make the column jsonb")
	errVoid   = errors.New("an array within the array is empty, and Postgres would keep the whole as one empty array: make the column jsonb")
)

// fitArray writes the text form of a Postgres array, since an array of arrays would be taken apart by unnest down to the elements. To Postgres int[] and
// int[][] are one type, whose values have the dimensions that they were written with: so an ARRAY of ARRAY goes into either, as long as it is rectangular. An array of a domain that is an array has
// arrays for elements, each of its own length, or NULL.
func fitArray(src *changelog.Type, to *pgType, r rule) (binder, error) {
	dimensions, leaf := 1, src.Elem
	for leaf.Root == changelog.RootArray && to.elem.elem == nil {
		dimensions, leaf = dimensions+1, leaf.Elem
	}
	switch {
	case dimensions > maxDimensions:
		return binder{}, fmt.Errorf("type %s cannot hold arrays within arrays %d deep, but %d: make the column jsonb", to.shown, dimensions, maxDimensions)
	case leaf.Root == changelog.RootArray && to.elem.elem != nil: // by way of a domain: the elements are arrays of their own
	case !isArrayElement(leaf) && !(leaf.Root == changelog.RootRow && to.elem.kind == 'c') && !(leaf.Root == changelog.RootMap && to.elem.hstore):
		return binder{}, fmt.Errorf("type %s cannot hold %s: make the column jsonb", to.shown, src)
	}
	r.key = false
	elem, err := input(leaf, to.elem, r)
	if err != nil {
		return binder{}, fmt.Errorf("elements of %s: %w", to.shown, err)
	}
	return binder{pgtype.TextArrayOID, pgtype.TextOID, "::" + to.name, func(dst []byte, v changelog.Value) ([]byte, error) {
		a := arrayText{elem: elem, dimensions: dimensions, refuses: to.elem.refuses}
		return a.append(dst, v, 0)
	}}, nil
}

// arrayText is the text of one array while it is written.
type arrayText struct {
	elem       encoder
	dimensions int
	refuses    bool               // NULL as an element
	lengths    [maxDimensions]int // of the dimensions after the first, from the first array of each; 0: none was there yet
}

func (a *arrayText) append(dst []byte, v changelog.Value, at int) ([]byte, error) {
	if v.Kind() != changelog.KindArray {
		return dst, errKind
	}
	elems := v.Elems()
	if at > 0 {
		switch n := len(elems); {
		case n == 0:
			return dst, errVoid
		case a.lengths[at] == 0:
			a.lengths[at] = n
		case a.lengths[at] != n:
			return dst, errRagged
		}
	}
	dst = append(dst, '{')
	for i, e := range elems {
		if i > 0 {
			dst = append(dst, ',')
		}
		inner := at+1 < a.dimensions
		var err error
		switch {
		case e.IsUnchanged():
			return dst, errUnchangedInside
		case e.IsNull() && inner:
			return dst, errHole
		case e.IsNull() && a.refuses:
			return dst, errNull
		case e.IsNull():
			dst = append(dst, "NULL"...)
		case inner:
			dst, err = a.append(dst, e, at+1)
		default:
			var text []byte
			if text, err = a.elem(nil, e); err == nil {
				dst = appendQuoted(dst, text, '\\')
			}
		}
		if err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}
