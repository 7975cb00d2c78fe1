package changelog

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// AppendJavaDouble appends f as Double.toString of a JDK up to 18 prints it, the text that Flink's CAST to STRING and its json writer
// give on those JDKs. The digits are not always the shortest that read back as f (JDK-4511638: 2E23 is 1.9999999999999998E23); JDK 19
// and later print the shortest. Between 2^83 and 2^86 those JDKs sometimes round the last digit down where it should go up; that is
// not copied.
func AppendJavaDouble(dst []byte, f float64) []byte {
	if dst, done := appendJavaSpecial(dst, f); done {
		return dst
	}
	mant, exp := math.Float64bits(f)&(1<<52-1), int(math.Float64bits(f)>>52&0x7ff)
	if exp == 0 {
		exp = 1
	} else {
		mant |= 1 << 52
	}
	return appendJava(dst, f, mant, exp-1075, 64)
}

// AppendJavaFloat appends f as Float.toString of a JDK up to 18 prints it.
func AppendJavaFloat(dst []byte, f float32) []byte {
	if dst, done := appendJavaSpecial(dst, float64(f)); done {
		return dst
	}
	mant, exp := uint64(math.Float32bits(f)&(1<<23-1)), int(math.Float32bits(f)>>23&0xff)
	if exp == 0 {
		exp = 1
	} else {
		mant |= 1 << 23
	}
	return appendJava(dst, float64(f), mant, exp-150, 32)
}

func appendJavaSpecial(dst []byte, f float64) ([]byte, bool) {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...), true
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...), true
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...), true
	case f == 0 && math.Signbit(f):
		return append(dst, "-0.0"...), true
	case f == 0:
		return append(dst, "0.0"...), true
	}
	return dst, false
}

// appendJava appends mant * 2^exp, of which f is the signed value.
func appendJava(dst []byte, f float64, mant uint64, exp, width int) []byte {
	if f < 0 {
		dst = append(dst, '-')
		f = -f
	}
	if v, ok := wholeNumber(mant, exp); ok {
		digits := strconv.AppendUint(nil, v, 10)
		return appendJavaDigits(dst, digits, len(digits)-1)
	}
	var buf [24]byte
	digits, e := javaDigits(buf[:0], f, mant, exp, width)
	return appendJavaDigits(dst, digits, e)
}

// wholeNumber returns mant * 2^exp if it is a whole number of at most 63 bits whose neighbours are whole numbers too. Java prints such a number
// by its own digits rather than by the shortest that tell it from its neighbours; only the digits that are less than a quarter of the
// distance to them are rounded away, half up. (Read off the texts in testdata.)
func wholeNumber(mant uint64, exp int) (uint64, bool) {
	if exp < 0 || bits.Len64(mant)+exp > 63 {
		return 0, false
	}
	v, drop := mant<<exp, uint64(1)
	for quarter := uint64(1) << max(exp-2, 0); drop*10 <= quarter; {
		drop *= 10
	}
	return (v + drop/2) / drop * drop, true
}

// javaDigits generates digits d1 d2 d3 ... with f = d1.d2d3... * 10^e by the free-format algorithm of Steele and White ("How to Print
// Floating-Point Numbers Accurately", PLDI 1990): digits until what is left is less than the distance to the neighbours' midpoint.
// Java's variant differs from the shortest text in three ways, known from its bug reports: the midpoints themselves do not count, below a power
// of two the smaller distance serves for both sides, and a number in scientific form gets its second digit unasked.
//
// The digits are appended to digits, which is empty.
func javaDigits(digits []byte, f float64, mant uint64, exp, width int) ([]byte, int) {
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], f, 'e', -1, width)
	i := 0
	for text[i] != 'e' {
		i++
	}
	e, _ := strconv.Atoi(string(text[i+1:])) // always a number
	if digits, e, ok := javaDigits64(digits, mant, exp, e); ok {
		return digits, e
	}
	return javaDigitsBig(digits, mant, exp, e)
}

// javaDigitsBig generates the digits of mant * 2^exp. e is the decimal exponent, or one more.
func javaDigitsBig(digits []byte, mant uint64, exp, e int) ([]byte, int) {
	r, s, m := new(big.Int).SetUint64(mant), big.NewInt(1), big.NewInt(1) // f = r/s, the half distance m/s; scaled by 4 to stay whole
	r.Lsh(r, 2)
	s.Lsh(s, 2)
	m.Lsh(m, 1)
	if mant&(mant-1) == 0 && mant > 1 {
		m.Rsh(m, 1)
	}
	if exp > 0 {
		r.Lsh(r, uint(exp))
		m.Lsh(m, uint(exp))
	} else {
		s.Lsh(s, uint(-exp))
	}
	ten := big.NewInt(10)
	if p := new(big.Int).Exp(ten, big.NewInt(int64(abs(e))), nil); e >= 0 {
		s.Mul(s, p)
	} else {
		r.Mul(r, p)
		m.Mul(m, p)
	}
	if r.Cmp(s) < 0 { // the shortest text was rounded up to the next power of ten
		e--
		r.Mul(r, ten)
		m.Mul(m, ten)
	}
	q, sum := new(big.Int), new(big.Int)
	for {
		q.QuoRem(r, s, r)
		digits = append(digits, '0'+byte(q.Int64()))
		low, high := r.Cmp(m) < 0, sum.Add(r, m).Cmp(s) > 0
		if len(digits) == 1 && (e < -3 || e >= 8) {
			low, high = false, false
		}
		if low || high {
			up := high
			if low && high {
				half := sum.Lsh(r, 1).Cmp(s)
				up = half > 0 || half == 0 && digits[len(digits)-1]&1 == 1
			}
			if up {
				return roundUp(digits, e)
			}
			return digits, e
		}
		r.Mul(r, ten)
		m.Mul(m, ten)
	}
}

// javaDigits64 is javaDigitsBig, step by step, where all of its numbers fit 64 bits. That is so if s does with four bits to spare: r is
// less than 10s, and m far less, for a mantissa of 24 or 53 bits (the exponents of subnormal numbers are too low to come here).
func javaDigits64(digits []byte, mant uint64, exp, e int) ([]byte, int, bool) {
	const spare = 4
	if exp > 0 || 2-exp > 64-spare || abs(e) > 15 {
		return nil, 0, false
	}
	r, s, m := mant<<2, uint64(4)<<-exp, uint64(2)
	if mant&(mant-1) == 0 && mant > 1 {
		m = 1
	}
	if p := pow10[abs(e)].lo; e >= 0 {
		hi, lo := bits.Mul64(s, p)
		if hi != 0 || lo>>(64-spare) != 0 {
			return nil, 0, false
		}
		s = lo
	} else {
		r *= p
		m *= p
	}
	if r < s {
		e--
		r *= 10
		m *= 10
	}
	for {
		digits = append(digits, '0'+byte(r/s))
		r %= s
		low, high := r < m, r+m > s
		if len(digits) == 1 && (e < -3 || e >= 8) {
			low, high = false, false
		}
		if low || high {
			up := high
			if low && high {
				up = 2*r > s || 2*r == s && digits[len(digits)-1]&1 == 1
			}
			if up {
				digits, e = roundUp(digits, e)
			}
			return digits, e, true
		}
		r *= 10
		m *= 10
	}
}

func roundUp(digits []byte, e int) ([]byte, int) {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '9' {
			digits[i]++
			return digits[:i+1], e
		}
		digits[i] = '0'
	}
	return []byte{'1'}, e + 1
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// appendJavaDigits lays out d1.d2d3... * 10^e: plain from 1e-3 up to 1e7, scientific elsewhere, always with a fraction digit.
func appendJavaDigits(dst, digits []byte, e int) []byte {
	for len(digits) > 1 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	at := func(i int) byte {
		if i < len(digits) {
			return digits[i]
		}
		return '0'
	}
	switch {
	case e >= 0 && e < 7:
		for i := 0; i <= e; i++ {
			dst = append(dst, at(i))
		}
		dst = append(dst, '.', at(e+1))
		if len(digits) > e+2 {
			dst = append(dst, digits[e+2:]...)
		}
		return dst
	case e < 0 && e >= -3:
		dst = append(dst, "0."...)
		for i := e + 1; i < 0; i++ {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	dst = append(dst, digits[0], '.', at(1))
	if len(digits) > 2 {
		dst = append(dst, digits[2:]...)
	}
	return strconv.AppendInt(append(dst, 'E'), int64(e), 10)
}
