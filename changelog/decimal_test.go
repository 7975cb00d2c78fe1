package changelog_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flinksink/flinksink/changelog"
)

func TestParseDecimal(t *testing.T) {
	nines := strings.Repeat("9", 38)
	for _, tt := range []struct {
		text             string
		precision, scale int
		want             string // "!" overflow, "?" malformed
	}{
		{"0", 10, 2, "0.00"},
		{"-0", 10, 2, "0.00"},
		{"12.5", 10, 2, "12.50"},
		{"12.345", 10, 2, "12.35"},
		{"12.344999999", 10, 2, "12.34"},
		{"-12.345", 10, 2, "-12.35"}, // ties go away from zero
		{"-0.005", 10, 2, "-0.01"},
		{"-0.0049", 10, 2, "0.00"},
		{"0.5", 1, 0, "1"},
		{"0.4", 1, 0, "0"},
		{"0.05", 1, 0, "0"},
		{"9.5", 1, 0, "!"}, // the rounding makes the digit too many
		{"9.4", 1, 0, "9"},
		{"99999999.994", 10, 2, "99999999.99"},
		{"99999999.995", 10, 2, "!"},
		{"100000000", 10, 2, "!"},
		{"-100000000", 10, 2, "!"},
		{nines, 38, 0, nines},
		{"-" + nines, 38, 0, "-" + nines},
		{nines + ".4", 38, 0, nines},
		{nines + ".5", 38, 0, "!"},
		{"0." + nines, 38, 38, "0." + nines},
		{"1", 38, 38, "!"},
		{"1e2", 10, 0, "100"},
		{"1E+2", 10, 0, "100"},
		{"1.25e-1", 10, 2, "0.13"},
		{"1234e-3", 10, 2, "1.23"},
		{"0.000123e4", 10, 2, "1.23"},
		{"+5", 10, 0, "5"},
		{".5", 10, 1, "0.5"},
		{"5.", 10, 1, "5.0"},
		{"007", 10, 0, "7"},
		{"00000000000000000000000000000000000000000000000001", 1, 0, "1"},
		{"1" + strings.Repeat("0", 60) + "e-60", 1, 0, "1"},
		{"9007199254740993", 20, 0, "9007199254740993"},
		{"18446744073709551615", 20, 0, "18446744073709551615"},
		{"18446744073709551616", 38, 10, "18446744073709551616.0000000000"},
		{"1e999999999", 10, 2, "!"},
		{"-1e2147483647", 38, 0, "!"},
		{"1e-999999999", 10, 2, "0.00"},
		{"0e999999999", 10, 2, "0.00"},
		{"0." + strings.Repeat("0", 5000) + "1e5001", 10, 0, "1"},
		{"1e2147483648", 10, 0, "?"}, // BigDecimal refuses these exponents as well
		{"1e-99999999999999999999", 10, 0, "?"},
		{"", 10, 0, "?"}, {"-", 10, 0, "?"}, {".", 10, 0, "?"}, {"e5", 10, 0, "?"}, {"1e", 10, 0, "?"}, {"1e+", 10, 0, "?"},
		{"1.2.3", 10, 0, "?"}, {" 1", 10, 0, "?"}, {"1 ", 10, 0, "?"}, {"--1", 10, 0, "?"}, {"0x10", 10, 0, "?"}, {"1e1.5", 10, 0, "?"},
		{"NaN", 10, 0, "?"}, {"Infinity", 10, 0, "?"}, {"1_000", 10, 0, "?"}, {"1,5", 10, 1, "?"}, {"1e5x", 10, 0, "?"},
	} {
		v, err := changelog.ParseDecimal([]byte(tt.text), tt.precision, tt.scale)
		got := string(changelog.AppendDecimal(nil, v))
		switch {
		case errors.Is(err, changelog.ErrDecimalOverflow):
			got = "!"
		case err != nil:
			got = "?"
		}
		if got != tt.want {
			t.Errorf("%.60s as DECIMAL(%d, %d) = %s, want %s", tt.text, tt.precision, tt.scale, got, tt.want)
		}
	}
}

func TestParseDecimal_TypeOutOfRange(t *testing.T) {
	for _, ps := range [][2]int{{0, 0}, {39, 0}, {5, 6}, {5, -1}, {-1, 0}} {
		if _, err := changelog.ParseDecimal([]byte("1"), ps[0], ps[1]); err == nil || errors.Is(err, changelog.ErrDecimalOverflow) {
			t.Errorf("DECIMAL(%d, %d): error %v", ps[0], ps[1], err)
		}
		if _, err := changelog.RescaleDecimal(changelog.DecimalValue(0, 1, 0), ps[0], ps[1]); err == nil {
			t.Errorf("rescale to DECIMAL(%d, %d): no error", ps[0], ps[1])
		}
	}
}

// halfUp is the dumb twin: exact rational arithmetic.
func halfUp(r *big.Rat, scale int) *big.Int {
	num := new(big.Int).Mul(r.Num(), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
	num.Mul(num, big.NewInt(2))
	den := new(big.Int).Mul(r.Denom(), big.NewInt(2))
	if num.Sign() < 0 {
		return num.Quo(num.Sub(num, r.Denom()), den)
	}
	return num.Quo(num.Add(num, r.Denom()), den)
}

func tooLong(i *big.Int, precision int) bool {
	return new(big.Int).Abs(i).Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)) >= 0
}

func unscaled(v changelog.Value) *big.Int {
	hi, lo, _ := v.Decimal()
	i := new(big.Int).Lsh(big.NewInt(hi), 64)
	return i.Add(i, new(big.Int).SetUint64(lo))
}

func checkDecimal(t interface {
	Helper()
	Fatalf(string, ...any)
}, v changelog.Value, err error, want *big.Int, precision, scale int) {
	t.Helper()
	if tooLong(want, precision) {
		if !errors.Is(err, changelog.ErrDecimalOverflow) {
			t.Fatalf("error %v, want overflow for unscaled %v", err, want)
		}
		return
	}
	if err != nil {
		t.Fatalf("error %v, want unscaled %v", err, want)
	}
	if _, _, s := v.Decimal(); unscaled(v).Cmp(want) != 0 || s != scale {
		t.Fatalf("unscaled %v scale %d, want %v scale %d", unscaled(v), s, want, scale)
	}
	text := string(changelog.AppendDecimal(nil, v))
	back, ok := new(big.Rat).SetString(text)
	if !ok || halfUp(back, scale).Cmp(want) != 0 || strings.ContainsAny(text, "eE+") || strings.HasPrefix(text, "-0") && want.Sign() == 0 {
		t.Fatalf("text %q of unscaled %v scale %d", text, want, scale)
	}
	if i := strings.IndexByte(text, '.'); scale == 0 && i >= 0 || scale > 0 && len(text)-i-1 != scale {
		t.Fatalf("text %q has not %d fraction digits", text, scale)
	}
}

func FuzzParseDecimal(f *testing.F) {
	for _, s := range []string{"0", "-12.345", "1e5", "99999999999999999999999999999999999999.5", "1e999999999", "0.000e-7", ".5e+3", "1e", "-.", "123456789012345678.5"} {
		f.Add([]byte(s), uint8(10), uint8(2))
		f.Add([]byte(s), uint8(38), uint8(0))
	}
	f.Fuzz(func(t *testing.T, text []byte, p, s uint8) {
		precision := int(p)%38 + 1
		scale := int(s) % (precision + 1)
		v, err := changelog.ParseDecimal(text, precision, scale)
		// big.Rat follows exponents as far as they go, and knows more syntax.
		mantissa, exponent, _ := strings.Cut(strings.ToLower(string(text)), "e")
		if len(strings.TrimLeft(exponent, "+-0")) > 3 || strings.Trim(mantissa, "+-.0123456789") != "" || strings.Trim(exponent, "+-0123456789") != "" {
			return
		}
		r, ok := new(big.Rat).SetString(string(text))
		if !ok {
			if err == nil || errors.Is(err, changelog.ErrDecimalOverflow) {
				t.Fatalf("%q is no number, error %v", text, err)
			}
			return
		}
		checkDecimal(t, v, err, halfUp(r, scale), precision, scale)
	})
}

func TestParseDecimal_AgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		precision := rapid.IntRange(1, 38).Draw(t, "precision")
		scale := rapid.IntRange(0, precision).Draw(t, "scale")
		text := rapid.StringMatching(`-?[0-9]{1,45}(\.[0-9]{0,45})?([eE][-+]?[0-9]{1,2})?`).Draw(t, "text")
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("big.Rat does not know %q", text)
		}
		v, err := changelog.ParseDecimal([]byte(text), precision, scale)
		checkDecimal(t, v, err, halfUp(r, scale), precision, scale)
	})
}

func TestRescaleDecimal_AgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(0, 38).Draw(t, "from")
		precision := rapid.IntRange(1, 38).Draw(t, "precision")
		scale := rapid.IntRange(0, precision).Draw(t, "scale")
		v := changelog.DecimalValue(rapid.Int64().Draw(t, "hi"), rapid.Uint64().Draw(t, "lo"), from)
		if rapid.Bool().Draw(t, "small") {
			i := rapid.Int64().Draw(t, "i")
			v = changelog.DecimalValue(i>>63, uint64(i), from)
		}
		r := new(big.Rat).SetFrac(unscaled(v), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(from)), nil))
		got, err := changelog.RescaleDecimal(v, precision, scale)
		checkDecimal(t, got, err, halfUp(r, scale), precision, scale)
	})
}

func TestDecimal_NoAllocation(t *testing.T) {
	dst := make([]byte, 0, 64)
	for _, text := range []string{"12.5", "-99999999999999999999.999999999999999999", "1e999999999", "nonsense"} {
		if n := testing.AllocsPerRun(100, func() {
			v, _ := changelog.ParseDecimal([]byte(text), 38, 18)
			dst = changelog.AppendDecimal(dst[:0], v)
		}); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

func BenchmarkParseDecimal(b *testing.B) {
	for _, text := range []string{"12.50", "-99999999999999999999.999999999999999999"} {
		b.Run(text, func(b *testing.B) {
			in := []byte(text)
			for b.Loop() {
				if _, err := changelog.ParseDecimal(in, 38, 18); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
