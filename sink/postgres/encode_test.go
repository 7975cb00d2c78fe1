package postgres

import (
	"bytes"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"
)

// pgx reads what we write.
func TestNumeric_Decoded(t *testing.T) {
	m := pgtype.NewMap()
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.IntRange(0, 38).Draw(t, "scale")
		digits := rapid.StringMatching(`[0-9]{1,38}`).Draw(t, "digits")
		n, _ := new(big.Int).SetString(digits, 10)
		if rapid.Bool().Draw(t, "negative") {
			n.Neg(n)
		}
		text := n.String()
		if scale > 0 {
			sign := ""
			if strings.HasPrefix(text, "-") {
				sign, text = "-", text[1:]
			}
			text = strings.Repeat("0", max(0, scale+1-len(text))) + text
			text = sign + text[:len(text)-scale] + "." + text[len(text)-scale:]
		}
		b, err := appendNumeric(nil, text, unbounded, unbounded)
		if err != nil {
			t.Fatal(err)
		}
		var got pgtype.Numeric
		if err := m.Scan(pgtype.NumericOID, pgtype.BinaryFormatCode, b, &got); err != nil {
			t.Fatal(err)
		}
		have := new(big.Rat).SetInt(got.Int)
		exp := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(got.Exp, -got.Exp))), nil)
		if got.Exp < 0 {
			have.Quo(have, new(big.Rat).SetInt(exp))
		} else {
			have.Mul(have, new(big.Rat).SetInt(exp))
		}
		want, _ := new(big.Rat).SetString(text)
		if have.Cmp(want) != 0 {
			t.Fatalf("%s is read as %v", text, have)
		}
	})
}

// Numbers of 64 bits have a shorter way to the same bytes, and to the same errors.
func TestNumeric_Small(t *testing.T) {
	same := func(t interface {
		Helper()
		Errorf(string, ...any)
	}, v changelog.Value, before, after int) {
		t.Helper()
		text := string(changelog.AppendText(nil, &changelog.Type{Root: changelog.RootBigInt}, v))
		if v.Kind() == changelog.KindDecimal {
			text = string(changelog.AppendDecimal(nil, v))
		}
		want, wantErr := appendNumeric([]byte("x"), text, before, after)
		got, err := putNumeric(before, after)([]byte("x"), v)
		if err != wantErr || err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s into (%d, %d): % x, %v; expected % x, %v", text, before, after, got, err, want, wantErr)
		}
	}
	for _, n := range []int64{0, 1, -1, 9999, 10000, -10000, 100000000, 1e16, 1e18, math.MaxInt64, math.MinInt64, math.MinInt64 + 1} {
		same(t, changelog.IntValue(n), unbounded, unbounded)
		for scale := range 39 {
			for _, hi := range []int64{0, -1} {
				same(t, changelog.DecimalValue(hi, uint64(n), scale), unbounded, unbounded)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.IntRange(-2, 24)
		before, after := limits.Draw(t, "before"), limits.Draw(t, "after")
		lo := rapid.Uint64().Draw(t, "lo") / uint64(rapid.SampledFrom([]int64{1, 1e3, 1e7, 1e12, 1e18}).Draw(t, "by"))
		same(t, changelog.DecimalValue(int64(rapid.IntRange(-1, 0).Draw(t, "hi")), lo, rapid.IntRange(0, 20).Draw(t, "scale")), before, after)
		same(t, changelog.IntValue(int64(lo)), before, after)
	})
}

func TestNumeric_Limits(t *testing.T) {
	for _, tc := range []struct {
		text          string
		before, after int
		want          error
	}{
		{"99.99", 2, 2, nil}, {"100.0", 2, 2, errRange}, {"1.234", 2, 2, errScale}, {"0.5", 0, 1, nil}, {"-007", 1, 0, nil},
		{"1500", 2, -2, errScale}, // numeric(2,-2): refused by fit already, and here
	} {
		if _, err := appendNumeric(nil, tc.text, tc.before, tc.after); err != tc.want {
			t.Errorf("%s in %d, %d: %v", tc.text, tc.before, tc.after, err)
		}
	}
}

func TestPutInt_OutOfRange(t *testing.T) {
	for _, tc := range []struct {
		size int
		v    changelog.Value
		want error
	}{
		{2, changelog.IntValue(32768), errRange}, {4, changelog.IntValue(-1 << 40), errRange}, {8, changelog.DecimalValue(1, 0, 0), errRange},
		{8, changelog.DecimalValue(-1, 1<<63, 0), nil}, {8, changelog.DecimalValue(0, 1<<63, 0), errRange}, {8, changelog.DecimalValue(0, 1, 1), errRange},
		{8, changelog.StringValue("1"), errKind},
	} {
		if _, err := putInt(tc.size)(nil, tc.v); err != tc.want {
			t.Errorf("%d bytes: %v, expected %v", tc.size, err, tc.want)
		}
	}
}

// A value of another kind than its column's type is an error of every encoder, never a wrong value or a panic.
func TestEncoders_OtherKind(t *testing.T) {
	values := []changelog.Value{changelog.BoolValue(true), changelog.IntValue(1), changelog.FloatValue(1), changelog.DoubleValue(1), changelog.DecimalValue(0, 1, 0), changelog.StringValue("x"),
		changelog.BytesValue([]byte("x")), changelog.DateValue(1), changelog.TimeValue(1), changelog.TimestampValue(1, 0), changelog.TimestampLTZValue(1, 0),
		changelog.ArrayValue(nil), changelog.MapValue(nil), changelog.RowValue(nil)}
	for _, text := range []string{"BOOLEAN", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 0)", "STRING", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)",
		"INTERVAL DAY TO SECOND(3)", "ARRAY<INT>", "MAP<INT, INT>", "ROW<a INT>"} {
		typ, err := changelog.ParseType(text)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := sqlType(&typ, rule{})
		to := columnType(name)
		for _, to := range []*pgType{to, {oid: pgtype.TextOID, shown: "text", mod: -1, kind: 'b'}} {
			b, err := fit(&typ, to, rule{})
			if err != nil {
				t.Fatalf("%s into %s: %v", text, to.shown, err)
			}
			for _, v := range values {
				if _, err := b.put(nil, v); err == nil && v.Kind() != kindOf(&typ) && v.Kind() != kindOfNested(&typ) {
					t.Errorf("%s into %s takes a value of kind %d", text, to.shown, v.Kind())
				}
			}
		}
	}
}

func kindOfNested(t *changelog.Type) changelog.ValueKind {
	switch t.Root {
	case changelog.RootArray:
		return changelog.KindArray
	case changelog.RootMap:
		return changelog.KindMap
	case changelog.RootRow:
		return changelog.KindRow
	}
	return kindOf(t)
}

// columnType is the catalogue's entry of a type that sqlType names.
func columnType(name string) *pgType {
	base, _, _ := strings.Cut(name, "(")
	t := &pgType{shown: name, mod: -1, kind: 'b'}
	elem, isArray := strings.CutSuffix(base, "[]")
	if strings.HasSuffix(name, "with time zone") {
		base = "timestamptz"
	}
	t.oid = map[string]uint32{"boolean": pgtype.BoolOID, "smallint": pgtype.Int2OID, "integer": pgtype.Int4OID, "bigint": pgtype.Int8OID, "real": pgtype.Float4OID,
		"double precision": pgtype.Float8OID, "numeric": pgtype.NumericOID, "text": pgtype.TextOID, "bytea": pgtype.ByteaOID, "date": pgtype.DateOID, "time": pgtype.TimeOID,
		"timestamp": pgtype.TimestampOID, "timestamptz": pgtype.TimestamptzOID, "interval": pgtype.IntervalOID, "jsonb": pgtype.JSONBOID}[base]
	if isArray {
		t.elem = columnType(elem)
	}
	return t
}

// P48: what is escaped is looked at, and an escaped backslash is not.
func TestPutJSONText_Escapes(t *testing.T) {
	for text, bad := range map[string]bool{
		`{"a":"\\u0000"}`: false, `"\u0001"`: false, `"\\\\u0000"`: false, `"\ud83d\ude00"`: false, `"\uD83D\uDE00x"`: false, `"u0000"`: false, `"\"`: false, `"\u00`: false,
		`"\u0000"`: true, `"\\\u0000"`: true, `"\ud83d"`: true, `"\ude00"`: true, `"\ud83d\\ude00"`: true, `"\ud83dx"`: true, "\x00": true, "\xed\xa0\x80": true,
	} {
		if _, err := putJSONText(nil, changelog.StringValue(text)); (err != nil) != bad {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzPutJSONText(f *testing.F) {
	f.Add(`{"a":"\ud83d\ude00 \\u0000"}`)
	f.Add(`"\ud83d\`)
	f.Fuzz(func(t *testing.T, s string) {
		b, err := putJSONText(nil, changelog.StringValue(s))
		if err == nil && string(b[1:]) != s {
			t.Errorf("%q became %q", s, b[1:])
		}
	})
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"a", "a.b", `"A ""b""".c`, `a."b`, "1a", "a b", ".", "a..b", "ü.ä", "A$1_"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := parseName(s)
		if err != nil {
			return
		}
		again, err := parseName(q.SQL())
		if err != nil || again != q {
			t.Errorf("%q is %+v, whose SQL is %+v, %v", s, q, again, err)
		}
	})
}

func TestParseName(t *testing.T) {
	for _, tc := range []struct {
		in            string
		schema, table string
	}{
		{"orders", "", "orders"}, {"Orders", "", "orders"}, {"S.Orders", "s", "orders"}, {`"My Table"`, "", "My Table"}, {`s."a.b"`, "s", "a.b"},
		{`"a""b"."C"`, `a"b`, "C"}, {"größe", "", "größe"}, {"Äb", "", "Äb"},
	} {
		q, err := parseName(tc.in)
		if err != nil || q != (qualified{tc.schema, tc.table}) {
			t.Errorf("%s: %+v, %v", tc.in, q, err)
		}
	}
	for _, bad := range []string{"My Table", "a.b.c", `"a`, "", "a.", "1a", `""`, "a;b", "x'", strings.Repeat("a", 64), "a\x00"} {
		if q, err := parseName(bad); err == nil {
			t.Errorf("%q is %+v", bad, q)
		}
	}
}
