package changelog

import (
	"errors"
	"math/bits"
	"strconv"
)

// ErrDecimalOverflow says that a number has more digits than its DECIMAL type holds. Flink's DecimalData.fromBigDecimal
// answers null there; a lenient decoder does too.
var ErrDecimalOverflow = errors.New("changelog: number has more digits than its DECIMAL type holds")

var (
	errNoNumber    = errors.New("changelog: text is no decimal number")
	errExponent    = errors.New("changelog: exponent of decimal number is beyond 32 bits")
	errDecimalType = errors.New("changelog: DECIMAL takes a precision from 1 to 38 and a scale from 0 to the precision")
)

// MaxPrecision is the largest number of digits of a DECIMAL.
const MaxPrecision = 38

// ParseDecimal reads a number, plain or with an exponent, and rounds it HALF_UP (ties away from zero) to the scale, as Flink's
// DecimalData.fromBigDecimal does. It takes what java.math.BigDecimal takes in ASCII: a sign, digits with a point anywhere
// or nowhere, an exponent of 32 bits; no blanks.
//
// A number that has more than precision digits after rounding is [ErrDecimalOverflow]; any other error means that the text is
// no number. Time is linear in the text, whatever the exponent says, and nothing is allocated.
func ParseDecimal(text []byte, precision, scale int) (Value, error) {
	if precision < 1 || precision > MaxPrecision || scale < 0 || scale > precision {
		return Value{}, errDecimalType
	}
	n, err := scanNumber(text)
	if err != nil {
		return Value{}, err
	}
	if n.first < 0 {
		return DecimalValue(0, 0, scale), nil
	}
	// The digits from the first non-zero one down to the last one that the scale keeps. With keep > precision the
	// first digit alone is too far left; the exponent is never followed further than that.
	keep := n.lead + n.exponent + int64(scale)
	if keep > int64(precision) {
		return Value{}, ErrDecimalOverflow
	}
	if keep < 0 {
		return DecimalValue(0, 0, scale), nil // below a tenth of the last place
	}
	u, roundUp := n.digits(text, int(keep))
	if roundUp {
		u = u.mulAdd(1, 1)
	}
	if u.cmp(pow10[precision]) >= 0 {
		return Value{}, ErrDecimalOverflow
	}
	return u.decimal(n.negative, scale), nil
}

// number is where the parts of a number lie in its text.
type number struct {
	negative   bool
	first, end int   // index of the first digit that is not zero (-1: none), and past the last digit
	lead       int64 // decimal exponent of 0.first…: 1 for a first digit just before the point
	exponent   int64
}

func scanNumber(text []byte) (number, error) {
	n := number{first: -1}
	i := 0
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		n.negative = text[i] == '-'
		i++
	}
	point, digits := -1, 0
scan:
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits++
			if c != '0' && n.first < 0 {
				n.first = i
			}
		case c == '.' && point < 0:
			point = i
		default:
			break scan
		}
	}
	if digits == 0 {
		return n, errNoNumber
	}
	n.end = i
	if point < 0 {
		point = i
	}
	if n.first < point {
		n.lead = int64(point - n.first)
	} else {
		n.lead = int64(point + 1 - n.first)
	}
	if i == len(text) {
		return n, nil
	}
	if text[i] != 'e' && text[i] != 'E' {
		return n, errNoNumber
	}
	var err error
	n.exponent, err = scanExponent(text[i+1:])
	return n, err
}

func scanExponent(text []byte) (int64, error) {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, errNoNumber
	}
	var e int64
	beyond := false
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, errNoNumber
		}
		if e = e*10 + int64(c-'0'); e > 1<<31-1 {
			e, beyond = 1<<31-1, true
		}
	}
	if beyond {
		return 0, errExponent
	}
	if negative {
		e = -e
	}
	return e, nil
}

// digits returns the number that the first keep significant digits make, and whether the digit after them rounds it up.
func (n number) digits(text []byte, keep int) (u uint128, roundUp bool) {
	var part, weight uint64 = 0, 1
	rest := text[n.first:n.end]
	for keep > 0 && len(rest) > 0 {
		c := rest[0]
		rest = rest[1:]
		if c == '.' {
			continue
		}
		keep--
		part, weight = part*10+uint64(c-'0'), weight*10
		if weight == 1e18 {
			u = u.mulAdd(weight, part)
			part, weight = 0, 1
		}
	}
	u = u.mulAdd(weight, part)
	if keep > 0 {
		return u.mulPow10(keep), false
	}
	if len(rest) > 0 && rest[0] == '.' {
		rest = rest[1:]
	}
	return u, len(rest) > 0 && rest[0] >= '5'
}

// RescaleDecimal gives the DECIMAL v another scale, rounding HALF_UP; more than precision digits then is [ErrDecimalOverflow]. An
// integer i becomes a DECIMAL as RescaleDecimal(DecimalValue(i>>63, uint64(i), 0), precision, scale).
func RescaleDecimal(v Value, precision, scale int) (Value, error) {
	if precision < 1 || precision > MaxPrecision || scale < 0 || scale > precision {
		return Value{}, errDecimalType
	}
	if v.kind != KindDecimal {
		return Value{}, errNoNumber
	}
	u, negative := magnitude(v)
	u, ok := u.rescale(scale - int(v.scale))
	if !ok || u.cmp(pow10[precision]) >= 0 {
		return Value{}, ErrDecimalOverflow
	}
	return u.decimal(negative, scale), nil
}

// AppendDecimal appends the DECIMAL v as plain digits with exactly its scale's fraction digits: "-0.05", "100", never an exponent.
// It appends nothing for a value of another kind.
func AppendDecimal(dst []byte, v Value) []byte {
	if v.kind != KindDecimal {
		return dst
	}
	u, negative := magnitude(v)
	if negative {
		dst = append(dst, '-')
	}
	var buf [40]byte
	digits := u.digits(&buf)
	point := len(digits) - int(v.scale) // digits before the point; 0 or less: zeros must be put in
	if point > 0 {
		dst = append(dst, digits[:point]...)
	} else {
		dst = append(dst, '0')
	}
	if v.scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	for ; point < 0; point++ {
		dst = append(dst, '0')
	}
	return append(dst, digits[point:]...)
}

// magnitude splits off the sign of a DECIMAL.
func magnitude(v Value) (u uint128, negative bool) {
	u = uint128{v.hi, v.lo}
	if int64(v.hi) < 0 {
		return u.neg(), true
	}
	return u, false
}

// uint128 is the magnitude of an unscaled DECIMAL.
type uint128 struct{ hi, lo uint64 }

func (u uint128) decimal(negative bool, scale int) Value {
	if negative {
		u = u.neg()
	}
	return DecimalValue(int64(u.hi), u.lo, scale)
}

func (u uint128) neg() uint128 {
	lo, borrow := bits.Sub64(0, u.lo, 0)
	hi, _ := bits.Sub64(0, u.hi, borrow)
	return uint128{hi, lo}
}

func (u uint128) cmp(w uint128) int {
	switch {
	case u.hi < w.hi || u.hi == w.hi && u.lo < w.lo:
		return -1
	case u == w:
		return 0
	}
	return 1
}

// mulAdd returns u*m + a, which must fit.
func (u uint128) mulAdd(m, a uint64) uint128 {
	hi, lo := bits.Mul64(u.lo, m)
	hi += u.hi * m
	lo, carry := bits.Add64(lo, a, 0)
	return uint128{hi + carry, lo}
}

// mulPow10 returns u * 10^n, which must fit.
func (u uint128) mulPow10(n int) uint128 {
	for ; n > 18; n -= 18 {
		u = u.mulAdd(1e18, 0)
	}
	return u.mulAdd(pow10[n].lo, 0)
}

// div returns the quotient and the remainder.
func (u uint128) div(d uint64) (q uint128, r uint64) {
	q.hi, r = u.hi/d, u.hi%d
	q.lo, r = bits.Div64(r, u.lo, d)
	return q, r
}

// rescale returns u * 10^by, rounded HALF_UP, and whether it is at most 38 digits.
func (u uint128) rescale(by int) (uint128, bool) {
	switch {
	case u == uint128{} || by == 0:
		return u, true
	case by > 0:
		if by >= MaxPrecision || u.cmp(pow10[MaxPrecision-by]) >= 0 {
			return uint128{}, false
		}
		return u.mulPow10(by), true
	case by < -MaxPrecision-1:
		return uint128{}, true
	}
	// Only the first digit that is dropped decides; dividing in steps keeps it exact.
	for ; by < -19; by += 18 {
		u, _ = u.div(1e18)
	}
	u, _ = u.div(pow10[-by-1].lo)
	u, last := u.div(10)
	if last >= 5 {
		u = u.mulAdd(1, 1)
	}
	return u, true
}

// digits writes u in decimal into buf and returns the part written.
func (u uint128) digits(buf *[40]byte) []byte {
	if u.hi == 0 {
		return strconv.AppendUint(buf[:0], u.lo, 10)
	}
	i := len(buf)
	for u != (uint128{}) {
		var r uint64
		u, r = u.div(1e18)
		for n := 0; n < 18 && (u != (uint128{}) || r > 0); n++ {
			i--
			buf[i] = byte('0' + r%10)
			r /= 10
		}
	}
	return buf[i:]
}
