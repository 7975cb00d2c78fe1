package flinkjson

import (
	"bytes"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
)

// treeText is JsonNode.toString, which Flink reads into a STRING: compact, numbers reformatted.
func (x *exact) treeText(n *Node, dst *changelog.Value) *Failure {
	if n.holdsLossy() {
		if f := x.guess(lossyInside); f != nil {
			return f
		}
	}
	x.out = n.appendJSON(x.out[:0])
	*dst = changelog.StringBytesValue(x.keep(x.out))
	return nil
}

const lossyInside = "a number inside that a double does not hold; Flink would write another one into the text"

func (n *Node) holdsLossy() bool {
	if n.flags&(nodeLossy|nodeTwice) != 0 {
		return true
	}
	kids := n.Kids()
	for i := range kids {
		if kids[i].holdsLossy() {
			return true
		}
	}
	return false
}

func (n *Node) appendJSON(dst []byte) []byte {
	kids := n.Kids()
	switch n.tok {
	case tokObject:
		dst = append(dst, '{')
		for i := range kids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendQuoted(dst, kids[i].Name()), ':')
			dst = kids[i].appendJSON(dst)
		}
		return append(dst, '}')
	case tokArray:
		dst = append(dst, '[')
		for i := range kids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = kids[i].appendJSON(dst)
		}
		return append(dst, ']')
	}
	return appendScalar(dst, n.tok, n.Text())
}

// appendScalar writes the node of a scalar, whose text is s.
func appendScalar(dst []byte, tok token, s []byte) []byte {
	if tok == tokString || tok == tokFloat && bytes.HasSuffix(s, []byte("Infinity")) {
		return appendQuoted(dst, s)
	}
	return append(dst, s...)
}

// appendQuoted writes a string as JsonNode.toString does: only what must be escaped is.
func appendQuoted(dst, s []byte) []byte {
	dst = append(dst, '"')
	for _, c := range s {
		if c >= ' ' && c != '"' && c != '\\' {
			dst = append(dst, c)
		} else {
			dst = appendEscaped(dst, c)
		}
	}
	return append(dst, '"')
}

const hexDigits = "0123456789ABCDEF" // Jackson's are upper-case

// appendEscaped appends a character that may not stand in a JSON string as it is.
func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// significant splits a number into its digits, without zeros at either end, and the exponent e of 0.digits * 10^e. It is not ok where
// Java's BigDecimal is not: the exponent does not fit 32 bits.
func significant(s []byte) (negative bool, digits []byte, e int64, ok bool) {
	if len(s) > 0 && s[0] == '-' {
		negative = true
		s = s[1:]
	}
	if i := bytes.IndexAny(s, "eE"); i >= 0 {
		n, err := strconv.ParseInt(string(s[i+1:]), 10, 32)
		if err != nil {
			return false, nil, 0, false
		}
		e = n
		s = s[:i]
	}
	point := bytes.IndexByte(s, '.')
	if point < 0 {
		point = len(s)
	}
	e += int64(point)
	for _, c := range s {
		if c == '.' {
			continue
		}
		if c == '0' && len(digits) == 0 {
			e--
			continue
		}
		digits = append(digits, c)
	}
	digits = bytes.TrimRight(digits, "0")
	if len(digits) == 0 {
		return false, nil, 0, true
	}
	return negative, digits, e, true
}

// sameNumber reports whether two numbers, spelt as JSON or by Double.toString, are equal.
func sameNumber(a, b []byte) bool {
	na, da, ea, oka := significant(a)
	nb, db, eb, okb := significant(b)
	return oka && okb && ea == eb && bytes.Equal(da, db) && (na == nb || len(da) == 0)
}

// strippedDecimal reports that s, a JSON number with a fraction, is what bigDecimal makes of it.
func strippedDecimal(s []byte) bool {
	whole, fraction, _ := bytes.Cut(s, []byte("."))
	if len(fraction) == 0 || fraction[len(fraction)-1] == '0' || bytes.IndexAny(fraction, "eE") >= 0 {
		return false
	}
	return len(bytes.TrimPrefix(whole, []byte("-"))) > 1 || whole[len(whole)-1] != '0' || !bytes.HasPrefix(fraction, []byte("000000"))
}

// bigDecimal is new BigDecimal(s).stripTrailingZeros().toString().
func bigDecimal(s []byte) ([]byte, bool) {
	negative, digits, e, ok := significant(s)
	if !ok {
		return nil, false
	}
	if len(digits) == 0 {
		return []byte("0"), true
	}
	var out []byte
	if negative {
		out = append(out, '-')
	}
	scale := int64(len(digits)) - e
	if scale >= 0 && e-1 >= -6 {
		switch {
		case scale == 0:
			return append(out, digits...), true
		case e > 0:
			out = append(append(out, digits[:e]...), '.')
			return append(out, digits[e:]...), true
		}
		out = append(out, '0', '.')
		for range -e {
			out = append(out, '0')
		}
		return append(out, digits...), true
	}
	out = append(out, digits[0])
	if len(digits) > 1 {
		out = append(append(out, '.'), digits[1:]...)
	}
	out = append(out, 'E')
	if e-1 >= 0 {
		out = append(out, '+')
	}
	return strconv.AppendInt(out, e-1, 10), true
}
