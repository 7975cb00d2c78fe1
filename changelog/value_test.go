package changelog_test

import (
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/flinksink/flinksink/changelog"
)

func TestValue_Size(t *testing.T) {
	if size := unsafe.Sizeof(changelog.Value{}); size > 32 {
		t.Errorf("%d bytes, at most 32 are promised", size)
	}
}

func allKinds() map[changelog.ValueKind]changelog.Value {
	return map[changelog.ValueKind]changelog.Value{
		changelog.KindNull:         {},
		changelog.KindUnchanged:    changelog.UnchangedValue(),
		changelog.KindBool:         changelog.BoolValue(true),
		changelog.KindInt:          changelog.IntValue(math.MinInt64),
		changelog.KindFloat:        changelog.FloatValue(1.5),
		changelog.KindDouble:       changelog.DoubleValue(-2.5),
		changelog.KindDecimal:      changelog.DecimalValue(-1, 2, 38),
		changelog.KindString:       changelog.StringValue("é"),
		changelog.KindBytes:        changelog.BytesValue([]byte{0, 1}),
		changelog.KindDate:         changelog.DateValue(-5),
		changelog.KindTime:         changelog.TimeValue(6),
		changelog.KindTimestamp:    changelog.TimestampValue(-7, 999_999_999),
		changelog.KindTimestampLTZ: changelog.TimestampLTZValue(7, 1),
		changelog.KindArray:        changelog.ArrayValue([]changelog.Value{{}, changelog.IntValue(1)}),
		changelog.KindMap:          changelog.MapValue([]changelog.Value{changelog.IntValue(1), {}}),
		changelog.KindRow:          changelog.RowValue([]changelog.Value{changelog.BoolValue(true)}),
	}
}

// Every getter gives what went in for its own kind and the zero of its type for every other.
func TestValue_Getters(t *testing.T) {
	for kind, v := range allKinds() {
		if v.Kind() != kind {
			t.Errorf("kind %d, want %d", v.Kind(), kind)
		}
		is := func(kinds ...changelog.ValueKind) bool {
			for _, k := range kinds {
				if k == kind {
					return true
				}
			}
			return false
		}
		check := func(what string, ok bool) {
			if !ok {
				t.Errorf("%s of kind %d is wrong", what, kind)
			}
		}
		pick := func(own bool, want int64) int64 {
			if own {
				return want
			}
			return 0
		}
		check("IsNull", v.IsNull() == is(changelog.KindNull))
		check("IsUnchanged", v.IsUnchanged() == is(changelog.KindUnchanged))
		check("Bool", v.Bool() == is(changelog.KindBool))
		check("Int", v.Int() == pick(is(changelog.KindInt), math.MinInt64))
		check("Float", v.Float() == float32(pick(is(changelog.KindFloat), 3))/2)
		check("Double", v.Double() == float64(pick(is(changelog.KindDouble), -5))/2)
		check("Date", v.Date() == pick(is(changelog.KindDate), -5))
		check("Time", v.Time() == pick(is(changelog.KindTime), 6))
		hi, lo, scale := v.Decimal()
		own := is(changelog.KindDecimal)
		check("Decimal", hi == pick(own, -1) && lo == uint64(pick(own, 2)) && scale == int(pick(own, 38)))
		sec, nsec := v.Timestamp()
		switch kind {
		case changelog.KindTimestamp:
			check("Timestamp", sec == -7 && nsec == 999_999_999)
		case changelog.KindTimestampLTZ:
			check("Timestamp", sec == 7 && nsec == 1)
		default:
			check("Timestamp", sec == 0 && nsec == 0)
		}
		check("Str", (v.Str() == "é") == is(changelog.KindString) && (v.Str() == "") != is(changelog.KindString))
		check("Bytes", (v.Bytes() != nil) == is(changelog.KindString, changelog.KindBytes))
		check("Elems", (len(v.Elems()) > 0) == is(changelog.KindArray, changelog.KindMap, changelog.KindRow))
	}
}

// P04: empty is not NULL, in either direction.
func TestValue_EmptyIsNotNull(t *testing.T) {
	for name, v := range map[string]changelog.Value{
		"empty string":     changelog.StringValue(""),
		"string of no buf": changelog.StringBytesValue(nil),
		"nil bytes":        changelog.BytesValue(nil),
		"empty bytes":      changelog.BytesValue([]byte{}),
		"empty array":      changelog.ArrayValue(nil),
		"empty map":        changelog.MapValue(nil),
		"empty row":        changelog.RowValue(nil),
	} {
		if v.IsNull() || len(v.Bytes()) != 0 || len(v.Elems()) != 0 || v.Str() != "" {
			t.Errorf("%s is NULL or has content", name)
		}
		if k := v.Kind(); (k == changelog.KindBytes || k == changelog.KindString) && v.Bytes() == nil {
			t.Errorf("%s has nil bytes, which reads as NULL elsewhere", name)
		}
	}
}

func TestValue_SharesMemory(t *testing.T) {
	buf := []byte("abc")
	v, s := changelog.BytesValue(buf), changelog.StringBytesValue(buf)
	elems := []changelog.Value{changelog.IntValue(1)}
	a := changelog.ArrayValue(elems)
	buf[0], elems[0] = 'x', changelog.IntValue(2)
	if string(v.Bytes()) != "xbc" || s.Str() != "xbc" || a.Elems()[0].Int() != 2 {
		t.Error("a value copied what it was made of")
	}
}

func TestValue_NoAllocation(t *testing.T) {
	text, buf, elems := strings.Repeat("x", 100), []byte("bytes"), make([]changelog.Value, 3)
	var row [8]changelog.Value
	if n := testing.AllocsPerRun(100, func() {
		row[0], row[1], row[2] = changelog.StringValue(text), changelog.BytesValue(buf), changelog.ArrayValue(elems)
		row[3], row[4] = changelog.DecimalValue(1, 2, 3), changelog.TimestampValue(1, 2)
		row[5], row[6], row[7] = changelog.DoubleValue(1), changelog.IntValue(1), changelog.BoolValue(true)
		if len(row[0].Str())+len(row[1].Bytes())+len(row[2].Elems()) != 108 {
			t.Error("content is lost")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
