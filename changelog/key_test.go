package changelog_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flinksink/flinksink/changelog"
)

func schemaOf(t testing.TB, types ...string) *changelog.Schema {
	s := &changelog.Schema{}
	for i, typ := range types {
		s.Columns = append(s.Columns, changelog.Column{Name: string(rune('a' + i)), Type: parseType(t, typ)})
		s.Key = append(s.Key, i)
	}
	return s
}

// The bytes are stored, in document ids: a change here breaks every index that was ever written.
func TestAppendKey_Golden(t *testing.T) {
	str, num := changelog.StringValue, changelog.IntValue
	for _, tt := range []struct {
		typ  string
		v    changelog.Value
		want string
	}{
		{"INT", changelog.Value{}, "00"},
		{"INT", changelog.UnchangedValue(), "01"},
		{"BOOLEAN", changelog.BoolValue(false), "02 00"},
		{"BOOLEAN", changelog.BoolValue(true), "02 01"},
		{"INT", num(0), "03 8000000000000000"},
		{"INT", num(-1), "03 7fffffffffffffff"},
		{"BIGINT", num(math.MaxInt64), "03 ffffffffffffffff"},
		{"INTERVAL MONTH", num(1), "03 8000000000000001"},
		{"FLOAT", changelog.FloatValue(1), "04 bf800000"},
		{"FLOAT", changelog.FloatValue(float32(math.Copysign(0, -1))), "04 80000000"},
		{"FLOAT", changelog.FloatValue(float32(math.NaN())), "04 ffffffff"},
		{"DOUBLE", changelog.DoubleValue(-1), "05 400fffffffffffff"},
		{"DOUBLE", changelog.DoubleValue(0), "05 8000000000000000"},
		{"DOUBLE", changelog.DoubleValue(math.Copysign(0, -1)), "05 8000000000000000"},
		{"DECIMAL(10, 2)", changelog.DecimalValue(0, 150, 2), "06 8000000000000000 0000000000000096"},
		{"DECIMAL(10, 2)", changelog.DecimalValue(0, 15, 1), "06 8000000000000000 0000000000000096"},
		{"DECIMAL(10, 2)", changelog.DecimalValue(0, 1500, 3), "06 8000000000000000 0000000000000096"},
		{"DECIMAL(10, 2)", changelog.DecimalValue(-1, math.MaxUint64, 2), "06 7fffffffffffffff ffffffffffffffff"},
		{"STRING", str(""), "07 0001"},
		{"STRING", str("a\x00b"), "07 61 00ff 62 0001"},
		{"BYTES", changelog.BytesValue([]byte{0xff}), "08 ff 0001"},
		{"DATE", changelog.DateValue(1), "09 8000000000000001"},
		{"TIME(0)", changelog.TimeValue(1), "0a 8000000000000001"},
		{"TIMESTAMP(3)", changelog.TimestampValue(-1, 5), "0b 7fffffffffffffff 00000005"},
		{"TIMESTAMP_LTZ(3)", changelog.TimestampLTZValue(1, 0), "0c 8000000000000001 00000000"},
		{"ARRAY<STRING>", changelog.ArrayValue([]changelog.Value{str("x"), {}}), "0d 01 07 78 0001 01 00 00"},
		{"ARRAY<STRING>", changelog.ArrayValue(nil), "0d 00"},
		{"MAP<STRING, DECIMAL(3, 1)>", changelog.MapValue([]changelog.Value{str("b"), {}, str("a"), changelog.DecimalValue(0, 1, 0)}),
			"0e 01 07 61 0001 06 8000000000000000 000000000000000a 01 07 62 0001 00 00"},
		{"ROW<a BOOLEAN, b DECIMAL(3, 1)>", changelog.RowValue([]changelog.Value{changelog.BoolValue(true), changelog.DecimalValue(0, 1, 0)}),
			"0f 01 02 01 01 06 8000000000000000 000000000000000a 00"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(tt.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := changelog.AppendKey(nil, schemaOf(t, tt.typ), changelog.Row{tt.v}); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", tt.typ, got, want)
		}
	}
}

func TestAppendKey_KeyOrder(t *testing.T) {
	s := schemaOf(t, "INT", "STRING", "BOOLEAN")
	s.Key = []int{2, 0}
	row := changelog.Row{changelog.IntValue(7), changelog.StringValue("not in the key"), changelog.BoolValue(true)}
	got := changelog.AppendKey([]byte("x"), s, row)
	want := changelog.AppendKeyColumns(changelog.AppendKeyColumns([]byte("x"), s, []int{2}, row), s, []int{0}, row)
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if other := changelog.AppendKeyColumns(nil, s, []int{0, 1, 2}, row); bytes.Contains(got, []byte("not")) || !bytes.Contains(other, []byte("not")) {
		t.Errorf("columns are mixed up: %x, %x", got, other)
	}
}

// P04: null is no key, zero bytes is a real key.
func TestAppendKey_NullIsNotEmpty(t *testing.T) {
	s := schemaOf(t, "STRING", "STRING")
	seen := make(map[string]bool)
	values := []changelog.Value{{}, changelog.StringValue(""), changelog.StringValue("\x00"), changelog.StringValue("\x00\x01"), changelog.StringValue("\x01")}
	for _, a := range values {
		for _, b := range values {
			seen[string(changelog.AppendKey(nil, s, changelog.Row{a, b}))] = true
		}
	}
	if len(seen) != len(values)*len(values) {
		t.Errorf("%d forms of %d keys", len(seen), len(values)*len(values))
	}
}

// scalar is a column type with a generator, dense enough that equal and neighbouring values come up, and the order of its
// values, written down independently of the bytes.
type scalar struct {
	typ     string
	draw    func(t *rapid.T, name string) changelog.Value
	compare func(a, b changelog.Value) int
}

func scalars() []scalar {
	ints := rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 255, 256, -256}))
	floats := rapid.OneOf(rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1, -1, 1.5, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64}),
		rapid.Float64(), rapid.Map(rapid.Float32(), func(f float32) float64 { return float64(f) }))
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "\x00", "\x00\x00", "\x00\x01", "\x01", "a", "a\x00", "ab", "\xff", "é"}), rapid.StringN(0, 4, -1))
	compareInt := func(get func(changelog.Value) int64) func(a, b changelog.Value) int {
		return func(a, b changelog.Value) int { return cmp.Compare(get(a), get(b)) }
	}
	// NaN is the largest here and the smallest in package cmp.
	compareFloat := func(a, b float64) int {
		switch an, bn := a != a, b != b; {
		case an && bn:
			return 0
		case an:
			return 1
		case bn:
			return -1
		}
		return cmp.Compare(a, b)
	}
	compareTimestamp := func(a, b changelog.Value) int {
		as, an := a.Timestamp()
		bs, bn := b.Timestamp()
		return cmp.Or(cmp.Compare(as, bs), cmp.Compare(an, bn))
	}
	nanos := rapid.SampledFrom([]int32{0, 1, 999_999_999})
	return []scalar{
		{"BOOLEAN", func(t *rapid.T, n string) changelog.Value { return changelog.BoolValue(rapid.Bool().Draw(t, n)) },
			func(a, b changelog.Value) int { return cmp.Compare(boolInt(a.Bool()), boolInt(b.Bool())) }},
		{"BIGINT", func(t *rapid.T, n string) changelog.Value { return changelog.IntValue(ints.Draw(t, n)) }, compareInt(changelog.Value.Int)},
		{"INTERVAL SECOND(3)", func(t *rapid.T, n string) changelog.Value { return changelog.IntValue(ints.Draw(t, n)) }, compareInt(changelog.Value.Int)},
		{"FLOAT", func(t *rapid.T, n string) changelog.Value { return changelog.FloatValue(float32(floats.Draw(t, n))) },
			func(a, b changelog.Value) int { return compareFloat(float64(a.Float()), float64(b.Float())) }},
		{"DOUBLE", func(t *rapid.T, n string) changelog.Value { return changelog.DoubleValue(floats.Draw(t, n)) },
			func(a, b changelog.Value) int { return compareFloat(a.Double(), b.Double()) }},
		{"DECIMAL(38, 2)", drawDecimal, compareDecimal},
		{"STRING", func(t *rapid.T, n string) changelog.Value { return changelog.StringValue(text.Draw(t, n)) },
			func(a, b changelog.Value) int { return strings.Compare(a.Str(), b.Str()) }},
		{"BYTES", func(t *rapid.T, n string) changelog.Value { return changelog.BytesValue([]byte(text.Draw(t, n))) },
			func(a, b changelog.Value) int { return bytes.Compare(a.Bytes(), b.Bytes()) }},
		{"DATE", func(t *rapid.T, n string) changelog.Value { return changelog.DateValue(ints.Draw(t, n)) }, compareInt(changelog.Value.Date)},
		{"TIME(3)", func(t *rapid.T, n string) changelog.Value { return changelog.TimeValue(ints.Draw(t, n)) }, compareInt(changelog.Value.Time)},
		{"TIMESTAMP(9)", func(t *rapid.T, n string) changelog.Value {
			return changelog.TimestampValue(ints.Draw(t, n), nanos.Draw(t, n))
		}, compareTimestamp},
		{"TIMESTAMP_LTZ(9)", func(t *rapid.T, n string) changelog.Value {
			return changelog.TimestampLTZValue(ints.Draw(t, n), nanos.Draw(t, n))
		}, compareTimestamp},
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// drawDecimal draws values of up to 36 digits at scales 0 to 2, the same number at several scales among them.
func drawDecimal(t *rapid.T, name string) changelog.Value {
	u := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64()).Draw(t, name)
	i := big.NewInt(u)
	if rapid.Bool().Draw(t, name+" long") {
		i.Mul(i, big.NewInt(1e17))
	}
	scale := rapid.IntRange(0, 2).Draw(t, name+" scale")
	for k := 0; k < scale && rapid.Bool().Draw(t, name+" same number"); k++ {
		i.Mul(i, big.NewInt(10))
	}
	lo := new(big.Int).And(i, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	hi := new(big.Int).Rsh(i, 64).Int64()
	return changelog.DecimalValue(hi, lo, scale)
}

func compareDecimal(a, b changelog.Value) int {
	rat := func(v changelog.Value) *big.Rat {
		_, _, scale := v.Decimal()
		return new(big.Rat).SetFrac(unscaled(v), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
	}
	return rat(a).Cmp(rat(b))
}

// The three laws of the canonical form, over keys of one to three columns of any scalar types: bytes order as values do, they
// are equal exactly if the values are, and no form is a prefix of another.
func TestAppendKey_Laws(t *testing.T) {
	all := scalars()
	rapid.Check(t, func(rt *rapid.T) {
		cols := rapid.SliceOfN(rapid.IntRange(0, len(all)-1), 1, 3).Draw(rt, "columns")
		types := make([]string, len(cols))
		for i, c := range cols {
			types[i] = all[c].typ
		}
		s := schemaOf(t, types...)
		a, b := make(changelog.Row, len(cols)), make(changelog.Row, len(cols))
		want := 0
		for i, c := range cols {
			a[i], b[i] = drawNullable(rt, all[c], "a"), drawNullable(rt, all[c], "b")
			if rapid.IntRange(0, 2).Draw(rt, "same") == 0 {
				b[i] = a[i]
			}
			if want == 0 {
				want = compareNullable(all[c], a[i], b[i])
			}
		}
		ka, kb := changelog.AppendKey(nil, s, a), changelog.AppendKey(nil, s, b)
		if got := bytes.Compare(ka, kb); got != want {
			rt.Fatalf("%v: values compare %d, keys %x and %x compare %d", types, want, ka, kb, got)
		}
		if want != 0 && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
			rt.Fatalf("%v: of %x and %x one is a prefix of the other", types, ka, kb)
		}
	})
}

func drawNullable(t *rapid.T, s scalar, name string) changelog.Value {
	if rapid.IntRange(0, 9).Draw(t, name+" null") == 0 {
		return changelog.Value{}
	}
	return s.draw(t, name)
}

func compareNullable(s scalar, a, b changelog.Value) int {
	if a.IsNull() || b.IsNull() {
		return boolInt(b.IsNull()) - boolInt(a.IsNull())
	}
	return s.compare(a, b)
}

// Neither the order of a map's entries nor a scale inside of it makes another key; anything else does.
func TestAppendKey_MapIsUnordered(t *testing.T) {
	s := schemaOf(t, "MAP<STRING, DECIMAL(10, 2)>", "INT")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "entries")
		var pairs []changelog.Value
		for i := range n {
			pairs = append(pairs, changelog.StringValue(strings.Repeat("k", i)), changelog.DecimalValue(0, uint64(i), 1))
		}
		order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		})).Draw(t, "order")
		var shuffled []changelog.Value
		for _, i := range order {
			shuffled = append(shuffled, pairs[2*i], changelog.DecimalValue(0, uint64(i)*10, 2))
		}
		one := changelog.IntValue(1)
		a := changelog.AppendKey([]byte("head"), s, changelog.Row{changelog.MapValue(pairs), one})
		b := changelog.AppendKey([]byte("head"), s, changelog.Row{changelog.MapValue(shuffled), one})
		if !bytes.Equal(a, b) {
			t.Fatalf("%x\n%x", a, b)
		}
		if n == 0 {
			return
		}
		shuffled[1] = changelog.DecimalValue(0, 12345, 2)
		if c := changelog.AppendKey([]byte("head"), s, changelog.Row{changelog.MapValue(shuffled), one}); bytes.Equal(a, c) {
			t.Fatal("another value makes the same key")
		}
	})
}

// Nested values: bytes are equal exactly if the values are, and never a prefix.
func TestAppendKey_Nested(t *testing.T) {
	s := schemaOf(t, "ARRAY<ROW<a INT, b ARRAY<STRING>>>")
	str := changelog.StringValue
	row := func(i int64, b ...changelog.Value) changelog.Value {
		return changelog.RowValue([]changelog.Value{changelog.IntValue(i), changelog.ArrayValue(b)})
	}
	values := []changelog.Value{ // ascending
		{},
		changelog.ArrayValue(nil),
		changelog.ArrayValue([]changelog.Value{{}}),
		changelog.ArrayValue([]changelog.Value{{}, {}}),
		changelog.ArrayValue([]changelog.Value{row(1)}),
		changelog.ArrayValue([]changelog.Value{row(1), {}}),
		changelog.ArrayValue([]changelog.Value{row(1), row(1)}),
		changelog.ArrayValue([]changelog.Value{row(1, changelog.Value{})}),
		changelog.ArrayValue([]changelog.Value{row(1, str(""))}),
		changelog.ArrayValue([]changelog.Value{row(1, str(""), str(""))}),
		changelog.ArrayValue([]changelog.Value{row(1, str("\x00"))}),
		changelog.ArrayValue([]changelog.Value{row(1, str("a"))}),
		changelog.ArrayValue([]changelog.Value{row(2)}),
	}
	var last []byte
	for i, v := range values {
		key := changelog.AppendKey(nil, s, changelog.Row{v})
		if i > 0 && (bytes.Compare(last, key) >= 0 || bytes.HasPrefix(key, last)) {
			t.Errorf("%d: %x does not come after %x", i, key, last)
		}
		last = key
	}
}

// A decimal that no column of its type can hold has a form of its own all the same.
func TestAppendKey_DecimalBeyondItsType(t *testing.T) {
	s := schemaOf(t, "DECIMAL(38, 38)")
	seen := make(map[string]bool)
	values := []changelog.Value{changelog.DecimalValue(0, 1, 0), changelog.DecimalValue(0, 2, 0), changelog.DecimalValue(-1, math.MaxUint64, 0),
		changelog.DecimalValue(math.MaxInt64, math.MaxUint64, 38), changelog.DecimalValue(math.MinInt64, 0, 38), changelog.DecimalValue(math.MinInt64, 0, 255)}
	for _, v := range values {
		seen[string(changelog.AppendKey(nil, s, changelog.Row{v}))] = true
	}
	if len(seen) != len(values) {
		t.Errorf("%d forms of %d values", len(seen), len(values))
	}
	form := func(v changelog.Value) []byte { return changelog.AppendKey(nil, s, changelog.Row{v}) }
	one, zero, minusOne := changelog.DecimalValue(0, 1, 0), changelog.DecimalValue(0, 0, 0), changelog.DecimalValue(-1, math.MaxUint64, 0)
	if bytes.Compare(form(minusOne), form(zero)) >= 0 || bytes.Compare(form(zero), form(one)) >= 0 {
		t.Error("what is too large is not at the ends")
	}
}

func TestAppendKey_NoAllocation(t *testing.T) {
	dst := make([]byte, 0, 1024)
	for _, sc := range scalars() {
		s := schemaOf(t, sc.typ)
		row := changelog.Row{rapid.Custom(func(t *rapid.T) changelog.Value { return sc.draw(t, "v") }).Example(1)}
		if n := testing.AllocsPerRun(100, func() { dst = changelog.AppendKey(dst[:0], s, row) }); n != 0 {
			t.Errorf("%s: %v allocations", sc.typ, n)
		}
	}
	s := schemaOf(t, "MAP<STRING, INT>")
	row := changelog.Row{changelog.MapValue([]changelog.Value{changelog.StringValue("b"), changelog.IntValue(1), changelog.StringValue("a"), changelog.IntValue(2)})}
	if n := testing.AllocsPerRun(100, func() { dst = changelog.AppendKey(dst[:0], s, row) }); n != 0 {
		t.Errorf("MAP: %v allocations", n)
	}
}

func BenchmarkAppendKey(b *testing.B) {
	s := schemaOf(b, "BIGINT", "STRING")
	row := changelog.Row{changelog.IntValue(42), changelog.StringValue("customer-0000042")}
	dst := make([]byte, 0, 64)
	for b.Loop() {
		dst = changelog.AppendKey(dst[:0], s, row)
	}
}
