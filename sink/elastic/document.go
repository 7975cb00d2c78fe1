package elastic

import (
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// This file writes documents, straight from the columns.
//
//	BOOLEAN                 true, false
//	TINYINT .. BIGINT, INTERVAL (months, milliseconds)
//	                        a number with all its digits
//	FLOAT, DOUBLE           the shortest number that reads back the same; "NaN", "Infinity" and "-Infinity", which no field of numbers can
//	                        search, and which a mapping that is not [Sink.Mapping]'s refuses
//	DECIMAL(p, s), p <= 18  a number with all its digits
//	DECIMAL above           a text of digits: a reader that takes numbers for doubles would lose some
//	CHAR .. STRING          a text
//	BINARY .. BYTES         base64
//	DATE                    "2024-02-29"
//	TIME(p)                 "12:34:56.789"
//	TIMESTAMP(p)            "2024-02-29T12:34:56.789", all p digits
//	TIMESTAMP_LTZ(p)        the same in UTC, with a Z
//	ARRAY, ROW              array, object
//	MAP, MULTISET           object; keys that are no texts as changelog.AppendText prints them
//
// NULL is null. The source keeps these texts to the last digit, whatever the mapping makes of them for searching.

// A refusal says why a row has no document. It holds no value.
type refusal struct {
	column int
	why    error
}

var (
	errUnsent  = errors.New("the source did not send this column, and only whole documents are written: a partial update cannot be guarded by its version")
	errNullKey = errors.New("a MAP has a null key, which no JSON member can be")
	errWide    = errors.New("the row is narrower than the table: a mistake of the decoder")
)

// appendDocument appends the members of the document of row, without braces.
func (p *plan) appendDocument(dst []byte, row changelog.Row) ([]byte, *refusal) {
	for i := range p.columns {
		c := &p.columns[i]
		if c.number >= len(row) {
			return dst, &refusal{c.number, errWide}
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, c.name...)
		var err error
		if dst, err = appendValue(dst, c.typ, row[c.number]); err != nil {
			return dst, &refusal{c.number, err}
		}
	}
	return dst, nil
}

func appendValue(dst []byte, t *changelog.Type, v changelog.Value) ([]byte, error) {
	switch v.Kind() {
	case changelog.KindNull:
		return append(dst, "null"...), nil
	case changelog.KindUnchanged:
		return dst, errUnsent
	case changelog.KindBool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case changelog.KindInt:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case changelog.KindFloat:
		return appendFloat(dst, float64(v.Float()), 32), nil
	case changelog.KindDouble:
		return appendFloat(dst, v.Double(), 64), nil
	case changelog.KindDecimal:
		if t.Precision <= exactDigits {
			return changelog.AppendDecimal(dst, v), nil
		}
		dst = append(dst, '"')
		return append(changelog.AppendDecimal(dst, v), '"'), nil
	case changelog.KindString:
		return appendString(dst, v.Bytes()), nil
	case changelog.KindBytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes())
		return append(dst, '"'), nil
	case changelog.KindDate, changelog.KindTime:
		dst = append(dst, '"')
		return append(changelog.AppendText(dst, t, v), '"'), nil
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		dst = append(dst, '"')
		start := len(dst)
		dst = changelog.AppendText(dst, t, v)
		for i := start; i < len(dst); i++ {
			if dst[i] == ' ' {
				dst[i] = 'T'
				break
			}
		}
		if v.Kind() == changelog.KindTimestampLTZ {
			dst = append(dst, 'Z')
		}
		return append(dst, '"'), nil
	case changelog.KindArray:
		return appendElems(dst, v.Elems(), func(int) *changelog.Type { return t.Elem })
	case changelog.KindRow:
		return appendRow(dst, t, v.Elems())
	case changelog.KindMap:
		return appendMap(dst, t, v.Elems())
	}
	return dst, errors.New("the value has a kind that is not known: a mistake of the decoder")
}

// exactDigits is how many digits of a DECIMAL a 64-bit integer holds, and so the field type scaled_float.
const exactDigits = 18

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}

func appendElems(dst []byte, elems []changelog.Value, typ func(i int) *changelog.Type) ([]byte, error) {
	dst = append(dst, '[')
	for i, e := range elems {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, typ(i), e); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func appendRow(dst []byte, t *changelog.Type, fields []changelog.Value) ([]byte, error) {
	dst = append(dst, '{')
	for i, f := range fields {
		if i >= len(t.Fields) {
			return dst, errWide
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, []byte(t.Fields[i].Name)), ':')
		var err error
		if dst, err = appendValue(dst, &t.Fields[i].Type, f); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

var bigint = changelog.Type{Root: changelog.RootBigInt}

func appendMap(dst []byte, t *changelog.Type, pairs []changelog.Value) ([]byte, error) {
	key, elem := t.Key, t.Elem
	if t.Root == changelog.RootMultiset {
		key, elem = t.Elem, &bigint
	}
	dst = append(dst, '{')
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		switch {
		case pairs[i].IsNull():
			return dst, errNullKey
		case pairs[i].Kind() == changelog.KindString:
			dst = appendString(dst, pairs[i].Bytes())
		default:
			dst = append(dst, '"')
			dst = append(changelog.AppendText(dst, key, pairs[i]), '"')
		}
		dst = append(dst, ':')
		var err error
		if dst, err = appendValue(dst, elem, pairs[i+1]); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. A lone surrogate, which Flink lets pass and which UTF-8 has no form for, is written as an escape; any
// other byte that is not UTF-8 cannot be in a STRING.
func appendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			if b >= ' ' && b != '"' && b != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch b {
			case '"', '\\':
				dst = append(dst, '\\', b)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		if r != utf8.RuneError || n > 1 {
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		if b == 0xed && i+2 < len(s) && s[i+1] >= 0xa0 && s[i+1] <= 0xbf && s[i+2] >= 0x80 && s[i+2] <= 0xbf {
			u := uint16(0xd000) | uint16(s[i+1]&0x3f)<<6 | uint16(s[i+2]&0x3f)
			dst = append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
			i += 3
		} else {
			dst = append(dst, `\ufffd`...)
			i++
		}
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendDeleted appends the member that makes a document a tombstone.
func appendDeleted(dst []byte, now time.Time) []byte {
	dst = append(dst, `"`+DeletedField+`":"`...)
	dst = now.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	return append(dst, '"')
}
