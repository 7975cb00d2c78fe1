// Package rowtext prints changes as lines of JSON in the form of the captured files read.jsonl, changelog.jsonl and final.jsonl, which
// Flink's own answers are kept in, so that both can be compared byte for byte or by eye.
//
// A scalar is the text of CAST(x AS STRING), also where that misprints a year beyond 0 to 9999; BYTES are lower-case hexadecimal digits, ARRAY is a JSON array, ROW a JSON object, MAP and
// MULTISET a JSON array of [key, value] pairs sorted by key, NULL is null. A column whose value the source did not send is left out.
package rowtext

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// AppendChange appends {"op":"+I","partition":0,"offset":0,"row":{...}}, without a line break.
func AppendChange(dst []byte, t *changelog.Table, c *changelog.Change) []byte {
	return appendChange(dst, t, c, false)
}

// AppendChangeOfTopic is AppendChange with "topic":"..." before the partition, for output that holds several topics.
func AppendChangeOfTopic(dst []byte, t *changelog.Table, c *changelog.Change) []byte {
	return appendChange(dst, t, c, true)
}

func appendChange(dst []byte, t *changelog.Table, c *changelog.Change, topic bool) []byte {
	dst = append(dst, `{"op":"`...)
	dst = append(dst, c.Kind.String()...)
	dst = append(dst, `",`...)
	dst = AppendPosition(dst, c.Partition, c.Offset, topic)
	dst = append(dst, `,"row":`...)
	dst = AppendRow(dst, t.Schema, c.Row)
	return append(dst, '}')
}

// AppendPosition appends "partition":0,"offset":0, with the topic before it if that is wanted.
func AppendPosition(dst []byte, p changelog.Partition, offset int64, topic bool) []byte {
	if topic {
		dst = append(dst, `"topic":`...)
		dst = append(AppendString(dst, p.Topic), ',')
	}
	dst = append(dst, `"partition":`...)
	dst = strconv.AppendInt(dst, int64(p.Partition), 10)
	dst = append(dst, `,"offset":`...)
	return strconv.AppendInt(dst, offset, 10)
}

// AppendRow appends the row as a JSON object, columns in the order of the schema.
func AppendRow(dst []byte, s *changelog.Schema, row changelog.Row) []byte {
	dst = append(dst, '{')
	first := true
	for i := range s.Columns {
		if row[i].IsUnchanged() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(AppendString(dst, s.Columns[i].Name), ':')
		dst = AppendValue(dst, &s.Columns[i].Type, row[i])
	}
	return append(dst, '}')
}

// AppendValue appends one value of type t as JSON.
func AppendValue(dst []byte, t *changelog.Type, v changelog.Value) []byte {
	switch v.Kind() {
	case changelog.KindNull, changelog.KindUnchanged:
		return append(dst, "null"...)
	case changelog.KindArray:
		dst = append(dst, '[')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendValue(dst, t.Elem, e)
		}
		return append(dst, ']')
	case changelog.KindRow:
		dst = append(dst, '{')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, t.Fields[i].Name), ':')
			dst = AppendValue(dst, &t.Fields[i].Type, e)
		}
		return append(dst, '}')
	case changelog.KindMap:
		return appendPairs(dst, t, v.Elems())
	case changelog.KindString:
		return AppendString(dst, v.Str())
	}
	var buf [64]byte
	return AppendString(dst, string(appendText(buf[:0], t, v)))
}

// appendText appends the text of the cast, which prints a year by its last four decimal places, each as the character so many after '0', also
// before it: 12024 is 2024, and -44 is 00,, (two characters four before '0').
func appendText(dst []byte, t *changelog.Type, v changelog.Value) []byte {
	var days int64
	switch v.Kind() {
	case changelog.KindDate:
		days = v.Date()
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		sec, _ := v.Timestamp()
		days = sec / 86400
		if sec%86400 < 0 {
			days--
		}
	default:
		return changelog.AppendText(dst, t, v)
	}
	year, _, _ := changelog.CivilOf(days)
	start := len(dst)
	dst = changelog.AppendText(dst, t, v)
	if year >= 0 && year <= 9999 {
		return dst
	}
	rest := start + 1 + bytes.IndexByte(dst[start+1:], '-') // the sign of the year may be one too
	for i, place := range [...]int64{1000, 100, 10, 1} {
		dst[start+i] = byte('0' + year/place%10)
	}
	return append(dst[:start+4], dst[rest:]...)
}

var countType = changelog.Type{Root: changelog.RootInt}

// appendPairs sorts by the JSON text of the keys in units of UTF-16, as the program that made the captures does.
func appendPairs(dst []byte, t *changelog.Type, elems []changelog.Value) []byte {
	key, value := t.Key, t.Elem
	if t.Root == changelog.RootMultiset {
		key, value = t.Elem, &countType
	}
	type pair struct {
		key   []byte
		order []uint16
		value changelog.Value
	}
	pairs := make([]pair, 0, len(elems)/2)
	for i := 0; i+1 < len(elems); i += 2 {
		k := AppendValue(nil, key, elems[i])
		pairs = append(pairs, pair{k, utf16.Encode([]rune(string(k))), elems[i+1]})
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return slices.Compare(a.order, b.order) })
	dst = append(dst, '[')
	for i, p := range pairs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = append(dst, p.key...)
		dst = append(dst, ',')
		dst = AppendValue(dst, value, p.value)
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

// AppendString appends s in quotes as Jackson writes it: only what JSON demands is escaped, with upper-case digits. A lone surrogate
// (see changelog.StringValue) becomes an escape, since its three bytes are no UTF-8; other bytes that are none become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	const short = "\bb\ff\nn\rr\tt"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r != utf8.RuneError || n > 1:
				dst = append(dst, s[i:i+n]...)
			case c == 0xED && i+2 < len(s) && s[i+1] >= 0xA0 && s[i+1] < 0xC0 && s[i+2]&0xC0 == 0x80:
				u := uint16(0xD000) | uint16(s[i+1]&0x3F)<<6 | uint16(s[i+2]&0x3F)
				dst = append(dst, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
				n = 3
			default:
				dst = utf8.AppendRune(dst, utf8.RuneError)
			}
			i += n
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		default:
			if k := bytes.IndexByte([]byte(short), c); k >= 0 {
				dst = append(dst, '\\', short[k+1])
			} else {
				dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			}
		}
	}
	return append(dst, '"')
}
