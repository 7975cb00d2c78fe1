package changelog

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// The two ways to generate digits are one algorithm, so that they agree wherever the short one can be taken.
func TestJavaDigits_BothWays(t *testing.T) {
	taken := 0
	compare := func(f float64, mant uint64, exp, width int) {
		text := strconv.FormatFloat(f, 'e', -1, width)
		i := len(text) - 1
		for text[i] != 'e' {
			i--
		}
		e, err := strconv.Atoi(text[i+1:])
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []int{e, e + 1} { // e may be one too high
			short, se, ok := javaDigits64(nil, mant, exp, e)
			if !ok {
				continue
			}
			taken++
			if long, le := javaDigitsBig(nil, mant, exp, e); string(long) != string(short) || le != se {
				t.Fatalf("%v, %d bits, exponent %d: %s e%d and %s e%d", f, width, e, short, se, long, le)
			}
		}
	}
	double := func(f float64) {
		if exp := int(math.Float64bits(f) >> 52); exp > 0 && exp < 0x7ff {
			compare(f, math.Float64bits(f)&(1<<52-1)|1<<52, exp-1075, 64)
		}
	}
	float := func(f float32) {
		if exp := int(math.Float32bits(f) >> 23); exp > 0 && exp < 0xff {
			compare(float64(f), uint64(math.Float32bits(f)&(1<<23-1)|1<<23), exp-150, 32)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		double(math.Ldexp(1+random.Float64(), random.IntN(70)-10))
		double(float64(random.IntN(1_000_000)) / 100)
		float(float32(math.Ldexp(1+random.Float64(), random.IntN(100)-50)))
	}
	for i := -1100; i < 1100; i++ { // powers of two, with their neighbours, and of ten
		p := math.Ldexp(1, i)
		double(p)
		double(math.Nextafter(p, 0))
		double(math.Nextafter(p, math.Inf(1)))
		double(math.Pow(10, float64(i)))
		float(float32(p))
		float(math.Nextafter32(float32(p), 0))
	}
	if taken < 300_000 {
		t.Errorf("the short way was taken %d times", taken)
	}
}
