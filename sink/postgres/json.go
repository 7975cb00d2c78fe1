package postgres

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
)

// jsonbVersion is the first byte of jsonb's binary form; the JSON text follows.
const jsonbVersion = 1

var (
	errUnchangedInside = errors.New("a part of the value was not sent by its source (Unchanged): only whole columns can be left as they are")
	errNullKey         = errors.New("a MAP has a NULL key, which JSON cannot hold")
	errJSONEscape      = errors.New(`the JSON text holds \u0000 or half a surrogate pair, which jsonb cannot store`)
	errShape           = errors.New("the value does not have the fields of its type")
)

// jsonProblem says which part of a type has no JSON form.
func jsonProblem(t *changelog.Type) error {
	switch t.Root {
	case changelog.RootArray, changelog.RootMultiset:
		return jsonProblem(t.Elem)
	case changelog.RootMap:
		return errors.Join(jsonProblem(t.Key), jsonProblem(t.Elem))
	case changelog.RootRow:
		for i := range t.Fields {
			if err := jsonProblem(&t.Fields[i].Type); err != nil {
				return err
			}
		}
		return nil
	}
	if kindOf(t) == changelog.KindNull && t.Root != changelog.RootNull {
		return fmt.Errorf("%s has no JSON form: leave the column out with an empty name in Options.Columns", t)
	}
	return nil
}

// appendJSON appends a value as JSON that jsonb can store:
//
//	numbers                      all their digits; NaN and the infinities, which JSON does not have, as texts
//	BINARY .. BYTES              base64
//	DATE, TIME, TIMESTAMP        ISO 8601, TIMESTAMP_LTZ with a Z
//	INTERVAL                     months, or milliseconds
//	MAP                          an object, keys as Flink's CAST(x AS STRING) prints them
//	MULTISET                     an object from element to count
//	MAP, MULTISET of nested keys an array of [key, value] pairs
//	ROW                          an object with all fields
func appendJSON(dst []byte, t *changelog.Type, v changelog.Value) ([]byte, error) {
	switch v.Kind() {
	case changelog.KindNull:
		return append(dst, "null"...), nil
	case changelog.KindUnchanged:
		return dst, errUnchangedInside
	}
	switch t.Root {
	case changelog.RootArray:
		return appendJSONArray(dst, t.Elem, v)
	case changelog.RootMap:
		return appendJSONMap(dst, t.Key, t.Elem, v)
	case changelog.RootMultiset:
		return appendJSONMap(dst, t.Elem, &changelog.Type{Root: changelog.RootInt}, v)
	case changelog.RootRow:
		return appendJSONRow(dst, t, v)
	}
	if v.Kind() != kindOf(t) {
		return dst, errKind
	}
	switch v.Kind() {
	case changelog.KindBool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case changelog.KindInt:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case changelog.KindFloat:
		return appendJSONFloat(dst, float64(v.Float()), 32), nil
	case changelog.KindDouble:
		return appendJSONFloat(dst, v.Double(), 64), nil
	case changelog.KindDecimal:
		return changelog.AppendDecimal(dst, v), nil
	case changelog.KindString:
		return appendJSONString(dst, v.Str())
	case changelog.KindBytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes())
		return append(dst, '"'), nil
	}
	dst = append(dst, '"')
	start := len(dst)
	dst = changelog.AppendText(dst, t, v)
	if v.Kind() == changelog.KindTimestamp || v.Kind() == changelog.KindTimestampLTZ {
		for i := start; i < len(dst); i++ {
			if dst[i] == ' ' {
				dst[i] = 'T'
			}
		}
	}
	if v.Kind() == changelog.KindTimestampLTZ {
		dst = append(dst, 'Z')
	}
	return append(dst, '"'), nil
}

func appendJSONArray(dst []byte, elem *changelog.Type, v changelog.Value) ([]byte, error) {
	if v.Kind() != changelog.KindArray {
		return dst, errKind
	}
	var err error
	dst = append(dst, '[')
	for i, e := range v.Elems() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendJSON(dst, elem, e); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func appendJSONMap(dst []byte, key, elem *changelog.Type, v changelog.Value) ([]byte, error) {
	pairs := v.Elems()
	switch {
	case v.Kind() != changelog.KindMap:
		return dst, errKind
	case len(pairs)%2 != 0:
		return dst, errShape
	}
	object := kindOf(key) != changelog.KindNull
	open, between, shut := byte('['), byte(','), byte(']')
	if object {
		open, between, shut = '{', ':', '}'
	}
	dst = append(dst, open)
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if object {
			dst, err = appendJSONKey(dst, key, pairs[i])
		} else {
			dst, err = appendJSON(append(dst, '['), key, pairs[i])
		}
		if err != nil {
			return dst, err
		}
		if dst, err = appendJSON(append(dst, between), elem, pairs[i+1]); err != nil {
			return dst, err
		}
		if !object {
			dst = append(dst, ']')
		}
	}
	return append(dst, shut), nil
}

func appendJSONKey(dst []byte, t *changelog.Type, v changelog.Value) ([]byte, error) {
	switch {
	case v.IsNull():
		return dst, errNullKey
	case v.Kind() != kindOf(t):
		return dst, errKind
	case v.Kind() == changelog.KindString:
		return appendJSONString(dst, v.Str())
	}
	dst = changelog.AppendText(append(dst, '"'), t, v) // none of these texts needs an escape
	return append(dst, '"'), nil
}

func appendJSONRow(dst []byte, t *changelog.Type, v changelog.Value) ([]byte, error) {
	fields := v.Elems()
	switch {
	case v.Kind() != changelog.KindRow:
		return dst, errKind
	case len(fields) != len(t.Fields):
		return dst, errShape
	}
	dst = append(dst, '{')
	for i := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendJSONString(dst, t.Fields[i].Name); err != nil {
			return dst, err
		}
		if dst, err = appendJSON(append(dst, ':'), &t.Fields[i].Type, fields[i]); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendJSONFloat(dst []byte, f float64, bits int) []byte {
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

// appendJSONString escapes what JSON asks for and nothing else.
func appendJSONString(dst []byte, s string) ([]byte, error) {
	if err := checkText(s); err != nil {
		return dst, err
	}
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"'), nil
}

// putJSONText writes a STRING that holds JSON into jsonb. The server checks the JSON; what it would refuse with a text that
// does not lead to the change is found here: escapes of NUL and of half surrogate pairs. (An escaped backslash before u0000 is no escape of NUL.)
func putJSONText(dst []byte, v changelog.Value) ([]byte, error) {
	if v.Kind() != changelog.KindString {
		return dst, errKind
	}
	s := v.Str()
	if err := checkText(s); err != nil {
		return dst, err
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++ // what is escaped
		switch u := unicodeEscape(s, i); {
		case u == 0, u >= 0xdc00 && u <= 0xdfff:
			return dst, errJSONEscape
		case u >= 0xd800 && u <= 0xdbff:
			low := -1
			if i+5 < len(s) && s[i+5] == '\\' {
				low = unicodeEscape(s, i+6)
			}
			if low < 0xdc00 || low > 0xdfff {
				return dst, errJSONEscape
			}
			i += 10
		}
	}
	return append(append(dst, jsonbVersion), s...), nil
}

// unicodeEscape returns the number of the escape uXXXX at s[i:], or -1.
func unicodeEscape(s string, i int) int {
	if i+5 > len(s) || s[i] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
	if err != nil {
		return -1
	}
	return int(n)
}
