package postgres

import (
	"encoding/binary"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// putNumeric writes DECIMALs and integers into a numeric with so many digits before and after the point.
func putNumeric(before, after int) encoder {
	return func(dst []byte, v changelog.Value) ([]byte, error) {
		var buf [48]byte
		switch v.Kind() {
		case changelog.KindDecimal:
			hi, lo, scale := v.Decimal()
			if (hi == 0 || hi == -1 && lo != 0) && scale <= maxSmallScale {
				if hi < 0 {
					lo = -lo
				}
				return appendSmallNumeric(dst, hi < 0, lo, scale, before, after)
			}
			return appendNumeric(dst, string(changelog.AppendDecimal(buf[:0], v)), before, after)
		case changelog.KindInt:
			n := v.Int()
			lo := uint64(n)
			if n < 0 {
				lo = -lo
			}
			return appendSmallNumeric(dst, n < 0, lo, 0, before, after)
		}
		return dst, errKind
	}
}

// appendNumeric turns plain digits into the server's form: groups of four digits around the point, without zero groups at either end.
func appendNumeric(dst []byte, text string, before, after int) ([]byte, error) {
	sign := uint16(0)
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		text, sign = rest, 0x4000
	}
	whole, part, _ := strings.Cut(text, ".")
	whole = strings.TrimLeft(whole, "0")
	if len(part) > after {
		return dst, errScale
	}
	if len(whole) > before {
		return dst, errRange
	}
	digits := strings.Repeat("0", -len(whole)&3) + whole
	weight := len(digits)/4 - 1
	digits += part + strings.Repeat("0", -len(part)&3)
	for strings.HasPrefix(digits, "0000") {
		digits, weight = digits[4:], weight-1
	}
	digits = strings.TrimRight(digits, "0")
	digits += strings.Repeat("0", -len(digits)&3)
	if digits == "" {
		sign, weight = 0, 0
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(digits)/4))
	dst = binary.BigEndian.AppendUint16(dst, uint16(int16(weight)))
	dst = binary.BigEndian.AppendUint16(dst, sign)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(part)))
	for ; digits != ""; digits = digits[4:] {
		n := uint16(digits[0]-'0')*1000 + uint16(digits[1]-'0')*100 + uint16(digits[2]-'0')*10 + uint16(digits[3]-'0')
		dst = binary.BigEndian.AppendUint16(dst, n)
	}
	return dst, nil
}

// maxSmallScale is how many digits after the point appendSmallNumeric works with: whole groups of them have to fit 64 bits.
const maxSmallScale = 16

// appendSmallNumeric does what appendNumeric does, for a number of 64 bits without its point, of which scale digits are behind it.
func appendSmallNumeric(dst []byte, negative bool, n uint64, scale, before, after int) ([]byte, error) {
	if scale > after {
		return dst, errScale
	}
	unit := uint64(1)
	for range scale {
		unit *= 10
	}
	whole, part := n/unit, n%unit
	if before < 20 { // more than any number of 64 bits has
		if before < 0 { // numeric(2,4): fit takes no source for it
			return dst, errRange
		}
		limit := uint64(1)
		for range before {
			limit *= 10
		}
		if whole >= limit {
			return dst, errRange
		}
	}
	for range -scale & 3 {
		part *= 10
	}
	// From the last group to the first: at most 4 behind the point, and 5 before it.
	var groups [9]uint16
	first := len(groups)
	for range (scale + 3) / 4 {
		first--
		groups[first], part = uint16(part%10000), part/10000
	}
	weight := -1
	for ; whole > 0; whole /= 10000 {
		first--
		groups[first] = uint16(whole % 10000)
		weight++
	}
	digits := groups[first:]
	for len(digits) > 0 && digits[0] == 0 {
		digits, weight = digits[1:], weight-1
	}
	for len(digits) > 0 && digits[len(digits)-1] == 0 {
		digits = digits[:len(digits)-1]
	}
	sign := uint16(0)
	if negative {
		sign = 0x4000
	}
	if len(digits) == 0 {
		sign, weight = 0, 0
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(digits)))
	dst = binary.BigEndian.AppendUint16(dst, uint16(int16(weight)))
	dst = binary.BigEndian.AppendUint16(dst, sign)
	dst = binary.BigEndian.AppendUint16(dst, uint16(scale))
	for _, d := range digits {
		dst = binary.BigEndian.AppendUint16(dst, d)
	}
	return dst, nil
}
