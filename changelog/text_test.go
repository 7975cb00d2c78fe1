package changelog_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// valueOf reads a text of Flink's by other means than the package's own, so that printing it again can be compared.
func valueOf(t *testing.T, typ *changelog.Type, text string) changelog.Value {
	t.Helper()
	bad := func(err error) {
		if err != nil {
			t.Fatalf("%s as %s: %v", text, typ, err)
		}
	}
	layout := "2006-01-02 15:04:05"
	switch typ.Root {
	case changelog.RootBoolean:
		return changelog.BoolValue(text == "TRUE")
	case changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootBigInt:
		i, err := strconv.ParseInt(text, 10, 64)
		bad(err)
		return changelog.IntValue(i)
	case changelog.RootFloat:
		f, err := strconv.ParseFloat(text, 32)
		bad(err)
		return changelog.FloatValue(float32(f))
	case changelog.RootDouble:
		f, err := strconv.ParseFloat(text, 64)
		bad(err)
		return changelog.DoubleValue(f)
	case changelog.RootDecimal:
		v, err := changelog.ParseDecimal([]byte(text), typ.Precision, typ.Scale)
		bad(err)
		return v
	case changelog.RootBinary, changelog.RootVarbinary:
		b, err := hex.DecodeString(text)
		bad(err)
		return changelog.BytesValue(b)
	case changelog.RootDate:
		d, err := time.Parse("2006-01-02", text)
		bad(err)
		return changelog.DateValue(d.Unix() / 86400)
	case changelog.RootTime:
		d, err := time.Parse("15:04:05", text)
		bad(err)
		return changelog.TimeValue(int64(d.Sub(d.Truncate(24 * time.Hour))))
	case changelog.RootTimestamp:
		d, err := time.Parse(layout, text)
		bad(err)
		return changelog.TimestampValue(d.Unix(), int32(d.Nanosecond()))
	case changelog.RootTimestampLTZ:
		d, err := time.Parse(layout, text)
		bad(err)
		return changelog.TimestampLTZValue(d.Unix(), int32(d.Nanosecond()))
	case changelog.RootIntervalYearMonth:
		var y, m int64
		_, err := fmt.Sscanf(text[1:], "%d-%d", &y, &m)
		bad(err)
		return changelog.IntValue(signed(text, y*12+m))
	case changelog.RootIntervalDayTime:
		var d, h, m, s, ms int64
		_, err := fmt.Sscanf(text[1:], "%d %d:%d:%d.%d", &d, &h, &m, &s, &ms)
		bad(err)
		return changelog.IntValue(signed(text, (((d*24+h)*60+m)*60+s)*1000+ms))
	}
	return changelog.StringValue(text)
}

func signed(text string, i int64) int64 {
	if text[0] == '-' {
		return -i
	}
	return i
}

// Every scalar that Flink read from a captured topic, printed again, is Flink's text.
func TestAppendText_AsFlink(t *testing.T) {
	values := 0
	roots := make(map[changelog.Root]int)
	for _, g := range goldens(t) {
		for _, c := range g.columns {
			typ := parseType(t, c.Type)
			for _, row := range g.read {
				text, ok := row[c.Name].(string)
				if !ok {
					continue // NULL, or nested
				}
				v := valueOf(t, &typ, text)
				if got := string(changelog.AppendText(nil, &typ, v)); got != text {
					t.Errorf("%s: %s %s prints %q, want %q", g.name, c.Name, typ, got, text)
				}
				values++
				roots[typ.Root]++
			}
		}
	}
	if values < 1000 {
		t.Errorf("only %d values", values)
	}
	for root := changelog.RootChar; root <= changelog.RootIntervalDayTime; root++ {
		if roots[root] == 0 && root != changelog.RootTimestampTZ {
			t.Errorf("no value of type %s was tried", changelog.Type{Root: root})
		}
	}
}

func TestAppendText(t *testing.T) {
	date := func(y int64, m, d int) int64 { return changelog.DaysOf(y, m, d) }
	for _, tt := range []struct {
		typ  string
		v    changelog.Value
		want string
	}{
		{"BOOLEAN", changelog.BoolValue(false), "FALSE"},
		{"BIGINT", changelog.IntValue(math.MinInt64), "-9223372036854775808"},
		{"FLOAT", changelog.FloatValue(0.1), "0.1"},
		{"DOUBLE", changelog.DoubleValue(math.Copysign(0, -1)), "-0.0"},
		{"DOUBLE", changelog.DoubleValue(2e23), "1.9999999999999998E23"},
		{"DOUBLE", changelog.DoubleValue(math.NaN()), "NaN"},
		{"DECIMAL(5, 2)", changelog.DecimalValue(-1, math.MaxUint64-4, 2), "-0.05"},
		{"DECIMAL(5, 0)", changelog.DecimalValue(0, 0, 0), "0"},
		{"STRING", changelog.StringValue("a\x00b"), "a\x00b"},
		{"BYTES", changelog.BytesValue([]byte{0, 0xAB}), "00ab"},
		{"DATE", changelog.DateValue(date(0, 1, 1)), "0000-01-01"},
		{"DATE", changelog.DateValue(date(-1, 12, 31)), "-0001-12-31"},
		{"DATE", changelog.DateValue(date(12024, 1, 2)), "+12024-01-02"},
		{"DATE", changelog.DateValue(date(-999999999, 1, 1)), "-999999999-01-01"},
		{"TIME(0)", changelog.TimeValue(3723 * 1e9), "01:02:03"},
		{"TIME(0)", changelog.TimeValue(86399_999_999_999), "23:59:59"},
		{"TIME(3)", changelog.TimeValue(120e6), "00:00:00.12"},
		{"TIME(3)", changelog.TimeValue(0), "00:00:00.0"},
		{"TIME(9)", changelog.TimeValue(1), "00:00:00.000000001"},
		{"TIMESTAMP(0)", changelog.TimestampValue(-1, 999_999_999), "1969-12-31 23:59:59"},
		{"TIMESTAMP(3)", changelog.TimestampValue(-1, 999_999_999), "1969-12-31 23:59:59.999"},
		{"TIMESTAMP(9)", changelog.TimestampValue(0, 1), "1970-01-01 00:00:00.000000001"},
		{"TIMESTAMP_LTZ(6)", changelog.TimestampLTZValue(-62135596800, 0), "0001-01-01 00:00:00.000000"},
		{"INTERVAL MONTH", changelog.IntValue(0), "+0-00"},
		{"INTERVAL YEAR", changelog.IntValue(-131), "-10-11"},
		{"INTERVAL SECOND(3)", changelog.IntValue(-1), "-0 00:00:00.001"},
		{"INTERVAL DAY", changelog.IntValue(math.MinInt64), "-106751991167 07:12:55.808"},
		{"INT", changelog.Value{}, ""},
		{"INT", changelog.UnchangedValue(), ""},
		{"ARRAY<INT>", changelog.ArrayValue([]changelog.Value{changelog.IntValue(1)}), ""},
	} {
		typ := parseType(t, tt.typ)
		if got := string(changelog.AppendText([]byte("<"), &typ, tt.v)); got != "<"+tt.want {
			t.Errorf("%s: %q, want %q", tt.typ, got[1:], tt.want)
		}
	}
}

// Values that no decoder makes must not hurt either.
func TestAppendText_AnyValue(t *testing.T) {
	edge := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	var dst []byte
	for _, p := range []int{-1, 0, 3, 9, 100} {
		typ := changelog.Type{Root: changelog.RootTimestamp, Precision: p}
		for _, i := range edge {
			for _, v := range []changelog.Value{changelog.DateValue(i), changelog.TimeValue(i), changelog.TimestampValue(i, int32(i)),
				changelog.TimestampLTZValue(i, -1), changelog.DecimalValue(i, uint64(i), 255)} {
				dst = changelog.AppendText(dst[:0], &typ, v)
				if len(dst) > 400 {
					t.Errorf("%d bytes", len(dst))
				}
			}
		}
	}
}

func TestAppendText_NoAllocation(t *testing.T) {
	dst := make([]byte, 0, 128)
	for _, tt := range []struct {
		typ string
		v   changelog.Value
	}{
		{"BIGINT", changelog.IntValue(math.MinInt64)},
		{"DECIMAL(38, 18)", changelog.DecimalValue(math.MaxInt64, 1, 18)},
		{"TIMESTAMP(9)", changelog.TimestampValue(1709210096, 789012345)},
		{"TIME(3)", changelog.TimeValue(1e9)},
		{"STRING", changelog.StringValue(strings.Repeat("x", 50))},
		{"BYTES", changelog.BytesValue([]byte("abc"))},
		{"INTERVAL DAY", changelog.IntValue(-1)},
	} {
		typ := parseType(t, tt.typ)
		if n := testing.AllocsPerRun(100, func() { dst = changelog.AppendText(dst[:0], &typ, tt.v) }); n != 0 {
			t.Errorf("%s: %v allocations", tt.typ, n)
		}
	}
}
