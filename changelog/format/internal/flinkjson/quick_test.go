package flinkjson

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// What the quick readers take the general ones read alike.
func TestQuickNumber(t *testing.T) {
	types := []changelog.Type{}
	for _, s := range []string{"DECIMAL(10, 2)", "DECIMAL(5, 0)", "DECIMAL(18, 18)", "DECIMAL(38, 10)", "DECIMAL(38, 38)", "DECIMAL(1, 0)"} {
		typ, err := changelog.ParseType(s)
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, typ)
	}
	took := 0
	check := func(text string) {
		q, fraction, end := QuickNumber([]byte(text), 0)
		if end == 0 {
			return
		}
		whole := text[:end]
		if rest := text[end:]; rest != "" && (rest[0]-'0' <= 9 || rest[0]|0x20 == 'e') {
			t.Errorf("%s: it ends within the number", text)
		}
		took++
		for i := range types {
			var got changelog.Value
			if !q.Decimal(&types[i], fraction, &got) {
				continue
			}
			if want, err := changelog.ParseDecimal([]byte(whole), types[i].Precision, types[i].Scale); err != nil || got != want {
				t.Errorf("%s as %s: %v, want %v, %v", text, &types[i], got, want, err)
			}
		}
		var got changelog.Value
		if want, err := strconv.ParseFloat(whole, 64); q.Double(fraction, &got) && (err != nil || math.Float64bits(got.Double()) != math.Float64bits(want)) {
			t.Errorf("%s: %v, want %v, %v", text, got.Double(), want, err)
		}
		if want, err := strconv.ParseInt(whole, 10, 64); fraction == 0 && (err != nil || q.Int() != want) {
			t.Errorf("%s: %v, want %v, %v", text, q.Int(), want, err)
		}
	}
	for _, text := range []string{
		"", "-", "0", "-0", "-0.0", "00", "01", "0.", ".1", "1.", "1e5", "1.5E3", "1.5", "-1.50", "+1", "999999999999999999", "1000000000000000000", "9007199254740993",
		"0.000000000000000001", "0.0000000000000000001", "99999.99", "99999999.99", "100000000.00", "1.005", "12 ", "12,", "1-2", "9.", "٣",
	} {
		check(text)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		text := strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)
		if n := r.IntN(len(text) + 1); n > 0 && n < len(text) {
			text = text[:n] + "." + text[n:]
		}
		if r.IntN(3) == 0 {
			text = "-" + text
		}
		check(text)
	}
	if took < 25_000 {
		t.Errorf("%d numbers taken", took)
	}
}

func TestQuickTimestamp(t *testing.T) {
	took := 0
	check := func(s string) {
		for _, root := range []changelog.Root{changelog.RootTimestamp, changelog.RootTimestampLTZ} {
			for _, iso := range []bool{false, true} {
				got, ok := quickTimestamp(root, iso, []byte(s))
				if !ok {
					continue
				}
				took++
				if want, guess, ok := parseTemporal(root, iso, false, []byte(s)); !ok || guess || got != want {
					t.Errorf("%s: %v, want %v, %v, %v", s, got, want, guess, ok)
				}
			}
		}
	}
	seeds := []string{
		"2024-02-29 12:34:56.789", "2023-02-29 00:00:00", "2023-02-28 23:59:59.999999999", "0000-01-01 00:00:00", "9999-12-31 23:59:59.000000001", "2024-04-31 00:00:00",
		"2024-01-01 24:00:00", "2024-01-01 00:60:00", "2024-13-01 00:00:00", "2024-00-10 00:00:00", "2024-01-00 00:00:00", "2024-01-01 00:00:00.", "2024-01-01 00:00:00.1234567890",
		"1969-12-31 23:59:59.5", "-024-01-01 00:00:00", "2024-01-01 00:00", "", "Z",
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range seeds {
		for _, s := range []string{s, s + "Z", strings.Replace(s, " ", "T", 1), strings.Replace(s, " ", "T", 1) + "Z", strings.Replace(s, " ", "t", 1)} {
			check(s)
			for range 2000 {
				b := []byte(s)
				for range min(len(b), 1+r.IntN(2)) {
					b[r.IntN(len(b))] = "0123456789:-. TZ/"[r.IntN(17)]
				}
				check(string(b))
			}
		}
	}
	if took < 10_000 {
		t.Errorf("%d timestamps taken", took)
	}
}

func TestScanText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		p := make([]byte, r.IntN(40))
		for i := range p {
			p[i] = "abc !#[]\x00\x1f\x7f\x80\xa2\xdc\xff"[r.IntN(15)]
			if r.IntN(20) == 0 {
				p[i] = "\"\\"[r.IntN(2)]
			}
		}
		from := r.IntN(len(p) + 1)
		want := len(p)
		if i := bytes.IndexAny(p[from:], "\"\\"); i >= 0 {
			want = from + i
		}
		high := bytes.ContainsFunc(p[from:want], func(r rune) bool { return r > 0x7F })
		if at, h := scanText(p, from); at != want || h != high {
			t.Fatalf("%q from %d: %d, %v, want %d, %v", p, from, at, h, want, high)
		}
		plain := 0
		for plain < len(p) && p[plain] >= ' ' && p[plain] < 0x80 && p[plain] != '"' && p[plain] != '\\' {
			plain++
		}
		if got := plainText(p); got != plain {
			t.Fatalf("%q: %d, want %d", p, got, plain)
		}
	}
}

// What the quick writers write the general ones write alike.
func TestQuickWriters(t *testing.T) {
	var took struct{ double, decimal, timestamp int }
	double := func(f float64) {
		got, ok := AppendQuickDouble([]byte("x"), f)
		want := "x"
		if ok {
			took.double++
			want = string(changelog.AppendJavaDouble([]byte("x"), f))
		}
		if string(got) != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
	decimal := func(hi int64, lo uint64, scale int) {
		v := changelog.DecimalValue(hi, lo, scale)
		got, ok := appendQuickStripped([]byte("x"), &v, scale)
		want := "x"
		if ok {
			took.decimal++
			want = string(appendStripped([]byte("x"), v))
		}
		if string(got) != want {
			t.Errorf("%d %d scale %d: %s, want %s", hi, lo, scale, got, want)
		}
	}
	timestamp := func(sec int64, nanos int32) {
		got, ok := AppendQuickTimestamp([]byte("x"), sec, nanos, ' ')
		want := "x"
		if ok {
			took.timestamp++
			want = string(changelog.AppendText([]byte("x"), &nanoseconds, changelog.TimestampValue(sec, nanos)))
			want = strings.TrimSuffix(strings.TrimRight(want, "0"), ".")
		}
		if string(got) != want {
			t.Errorf("%d %d: %s, want %s", sec, nanos, got, want)
		}
	}
	for _, f := range []float64{0, 1, -1, 1e-3, 0.00099, 1e7, 9999999.999999, 9999999.9999999, 123456.789, 0.1, 0.3, 2e-3, 0.0078125, 0.001953125, 1.0 / 3, math.Inf(1), math.NaN(), 0.5, 1024.000001} {
		for _, f := range []float64{f, -f, math.Nextafter(f, 2), math.Nextafter(f, 0)} {
			double(f)
		}
	}
	for _, hi := range []int64{0, -1, 1, -2} {
		for _, lo := range []uint64{0, 1, 10, 100, 999, 1e17, 1e18 - 1, 1e18, math.MaxUint64, math.MaxUint64 - 9} {
			for scale := range 39 {
				decimal(hi, lo, scale)
			}
		}
	}
	for _, sec := range []int64{0, -1, 86399, 86400, -86400, -86401, -62_167_219_200, -62_167_219_201, 253_402_300_799, 253_402_300_800} {
		for _, nanos := range []int32{0, 1, 100, 1000, 123_000_000, 120_000, 999_999_999, -1} {
			timestamp(sec, nanos)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 50_000 {
		double(float64(r.IntN(1e9)) / float64(tens[r.IntN(9)]))
		double(math.Ldexp(r.Float64(), r.IntN(40)-15))
		u := r.Uint64() >> r.IntN(64) / tens[i%4] * tens[i%4]
		if v := int64(u >> 1); i%2 == 0 {
			decimal(-1, uint64(-v), r.IntN(39))
		}
		decimal(0, u, r.IntN(39))
		timestamp(r.Int64N(400e9)-80e9, int32(r.IntN(1e9))/int32(tens[i%9])*int32(tens[i%9]))
	}
	if took.double < 25_000 || took.decimal < 12_000 || took.timestamp < 25_000 {
		t.Errorf("%s", fmt.Sprint(took))
	}
}
