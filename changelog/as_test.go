package changelog_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// columns makes a schema of "name TYPE" texts; those that begin with * are the key.
func columns(t testing.TB, cols ...string) *changelog.Schema {
	t.Helper()
	s := &changelog.Schema{}
	for i, c := range cols {
		name, typ, _ := strings.Cut(c, " ")
		if n, ok := strings.CutPrefix(name, "*"); ok {
			name = n
			s.Key = append(s.Key, i)
		}
		ty, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		s.Columns = append(s.Columns, changelog.Column{Name: name, Type: ty})
	}
	return s
}

func decimal(t testing.TB, text string, precision, scale int) changelog.Value {
	t.Helper()
	v, err := changelog.ParseDecimal([]byte(text), precision, scale)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// field maps one value of a column of the type into a field of type F.
func field[F any](t testing.TB, typ string, v changelog.Value) (F, error) {
	t.Helper()
	type row struct {
		X F `flink:"x"`
	}
	m, err := changelog.As[row](columns(t, "x "+typ))
	if err != nil {
		t.Fatalf("%s into %s: %v", typ, reflect.TypeFor[F](), err)
	}
	r, err := m.Row(changelog.Row{v})
	return r.X, err
}

func goes[F any](t *testing.T, typ string, v changelog.Value, want F) {
	t.Helper()
	got, err := field[F](t, typ, v)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s into %T: %v, %v, want %v", typ, want, got, err, want)
	}
}

func fails[F any](t *testing.T, typ string, v changelog.Value, want string) {
	t.Helper()
	got, err := field[F](t, typ, v)
	var de *changelog.DataError
	if !errors.As(err, &de) || !strings.HasPrefix(de.Field, "x") || !strings.Contains(err.Error(), want) {
		t.Errorf("%s into %s: %v, %v, want %q", typ, reflect.TypeFor[F](), got, err, want)
	}
}

type (
	status string
	cents  int32
	flags  bool
	blob   []byte
)

// lower is a Scanner of the user's own.
type lower struct{ s string }

func (l *lower) Scan(src any) error {
	s, ok := src.(string)
	if !ok {
		return fmt.Errorf("not a string: %v", src)
	}
	l.s = strings.ToLower(s)
	return nil
}

func TestAs_Types(t *testing.T) {
	num, str := changelog.IntValue, changelog.StringValue
	at := time.Date(2024, 2, 29, 12, 34, 56, 789, time.UTC)
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	ts, ltz, date := changelog.TimestampValue(at.Unix(), 789), changelog.TimestampLTZValue(at.Unix(), 789), changelog.DateValue(day.Unix()/86400)

	goes(t, "BOOLEAN", changelog.BoolValue(true), true)
	goes(t, "BOOLEAN", changelog.BoolValue(true), flags(true))
	goes(t, "TINYINT", num(-128), int8(-128))
	goes(t, "SMALLINT", num(-1), -1)
	goes(t, "INT", num(7), cents(7))
	goes(t, "BIGINT", num(math.MinInt64), int64(math.MinInt64))
	goes(t, "BIGINT", num(math.MaxInt64), uint64(math.MaxInt64))
	goes(t, "BIGINT", num(255), uint8(255))
	fails[uint8](t, "BIGINT", num(256), "does not fit into the Go field, a uint8")
	fails[int32](t, "BIGINT", num(1<<31), "does not fit")
	fails[uint](t, "INT", num(-1), "does not fit")
	goes(t, "FLOAT", changelog.FloatValue(1.5), float32(1.5))
	goes(t, "FLOAT", changelog.FloatValue(0.1), float64(float32(0.1)))
	goes(t, "DOUBLE", changelog.DoubleValue(0.1), 0.1)

	goes(t, "DECIMAL(10, 2)", decimal(t, "-12.50", 10, 2), "-12.50")
	goes(t, "DECIMAL(10, 2)", decimal(t, "-12.50", 10, 2), *big.NewRat(-25, 2))
	goes(t, "DECIMAL(10, 2)", decimal(t, "-12.50", 10, 2), big.NewRat(-25, 2))
	huge, _ := new(big.Int).SetString("-99999999999999999999999999999999999999", 10)
	goes(t, "DECIMAL(38, 0)", decimal(t, huge.String(), 38, 0), *huge)
	goes(t, "DECIMAL(20, 0)", decimal(t, "-9223372036854775808", 20, 0), int64(math.MinInt64))
	fails[int64](t, "DECIMAL(20, 0)", decimal(t, "9223372036854775808", 20, 0), "does not fit")
	fails[int64](t, "DECIMAL(38, 0)", decimal(t, huge.String(), 38, 0), "does not fit")
	fails[int8](t, "DECIMAL(3, 0)", decimal(t, "128", 3, 0), "does not fit")

	goes(t, "STRING", str("é"), "é")
	goes(t, "CHAR(3)", str("new"), status("new"))
	goes(t, "STRING", str(""), []byte{})
	goes(t, "BYTES", changelog.BytesValue([]byte{0, 255}), []byte{0, 255})
	goes(t, "BINARY(1)", changelog.BytesValue(nil), blob{})

	goes(t, "DATE", date, day)
	goes(t, "DATE", date, "2024-02-29")
	goes(t, "TIME", changelog.TimeValue(int64(90*time.Minute)), 90*time.Minute)
	goes(t, "TIME(0)", changelog.TimeValue(int64(90*time.Minute)), "01:30:00")
	goes(t, "TIMESTAMP(9)", ts, at)
	goes(t, "TIMESTAMP(9)", ts, &at)
	goes(t, "TIMESTAMP(3)", ts, "2024-02-29 12:34:56.000")
	goes(t, "TIMESTAMP_LTZ(9)", ltz, at)
	goes(t, "TIMESTAMP(0)", changelog.TimestampValue(-62135596801, 0), time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC))
	goes(t, "INTERVAL DAY TO SECOND", num(-1500), -1500*time.Millisecond)
	goes(t, "INTERVAL SECOND(3)", num(1500), "+0 00:00:01.500")
	fails[time.Duration](t, "INTERVAL DAY", num(math.MaxInt64/1000), "longer than a time.Duration")
	goes(t, "INTERVAL YEAR TO MONTH", num(14), 14)
	goes(t, "INTERVAL MONTH", num(14), "+1-02")

	goes(t, "ARRAY<INT>", changelog.ArrayValue([]changelog.Value{num(1), {}}), []*int{ptr(1), nil})
	goes(t, "ARRAY<INT>", changelog.ArrayValue(nil), []int{})
	fails[[]int](t, "ARRAY<INT>", changelog.ArrayValue([]changelog.Value{num(1), {}}), "field x[1]: NULL")
	goes(t, "MAP<STRING, BIGINT>", changelog.MapValue([]changelog.Value{str("a"), num(1), str("b"), num(2)}), map[status]int{"a": 1, "b": 2})
	fails[map[string]int](t, "MAP<STRING, BIGINT>", changelog.MapValue([]changelog.Value{str("a"), {}}), "field x[value 0]: NULL")
	fails[map[string]int](t, "MAP<STRING, BIGINT>", changelog.MapValue([]changelog.Value{{}, num(1)}), "field x[key 0]: NULL")
	goes(t, "MULTISET<STRING>", changelog.MapValue([]changelog.Value{str("a"), num(2)}), map[string]int{"a": 2})
	fails[map[struct{ A any }]int](t, "MAP<ROW<a BYTES>, INT>", changelog.MapValue([]changelog.Value{changelog.RowValue([]changelog.Value{changelog.BytesValue(nil)}), num(1)}), "field x[key 0]: Go cannot compare")
	type point struct {
		X, Y int
		Note *string `flink:"note text"`
	}
	goes(t, "ARRAY<ROW<x INT, `note text` STRING, y BIGINT, more INT>>", changelog.ArrayValue([]changelog.Value{changelog.RowValue([]changelog.Value{num(1), str("n"), num(2), {}})}), []point{{1, 2, ptr("n")}})
	fails[[]point](t, "ARRAY<ROW<x INT, `note text` STRING, y BIGINT>>", changelog.ArrayValue([]changelog.Value{changelog.RowValue([]changelog.Value{num(1), {}, {}})}), "field x[0].y: NULL")
	goes(t, "MAP<ROW<x INT>, INT>", changelog.MapValue([]changelog.Value{changelog.RowValue([]changelog.Value{num(1)}), num(2)}), map[struct{ X int }]int{{1}: 2})

	goes(t, "STRING", str("A"), sql.NullString{String: "A", Valid: true})
	goes(t, "STRING", changelog.Value{}, sql.NullString{})
	goes(t, "BIGINT", num(5), sql.Null[int32]{V: 5, Valid: true})
	goes(t, "FLOAT", changelog.FloatValue(1.5), sql.NullFloat64{Float64: 1.5, Valid: true})
	goes(t, "DECIMAL(4, 2)", decimal(t, "1.50", 4, 2), sql.Null[string]{V: "1.50", Valid: true})
	goes(t, "TIMESTAMP(9)", ts, sql.NullTime{Time: at, Valid: true})
	goes(t, "TIME", changelog.TimeValue(int64(time.Hour)), sql.NullString{String: "01:00:00", Valid: true})
	goes(t, "BYTES", changelog.BytesValue([]byte{1}), sql.Null[[]byte]{V: []byte{1}, Valid: true})
	goes(t, "STRING", str("ABC"), lower{"abc"})
	goes(t, "STRING", changelog.Value{}, (*lower)(nil))
	fails[lower](t, "INT", num(4711), "Scan of the Go field's type changelog_test.lower")
	if _, err := field[lower](t, "INT", num(4711)); strings.Contains(err.Error(), "4711") {
		t.Errorf("the error shows the value: %v", err)
	}
}

func ptr[T any](v T) *T { return &v }

func TestAs_Any(t *testing.T) {
	num, str := changelog.IntValue, changelog.StringValue
	d, err := field[changelog.Decimal](t, "DECIMAL(4, 2)", decimal(t, "-1.50", 4, 2))
	if err != nil || d.String() != "-1.50" || d.Scale() != 2 || d.Unscaled().Int64() != -150 {
		t.Fatalf("%v, %v", d, err)
	}
	if b, err := json.Marshal(d); err != nil || string(b) != `"-1.50"` {
		t.Errorf("%s, %v", b, err)
	}
	if (changelog.Decimal{}).String() != "0" {
		t.Error("the zero Decimal")
	}
	goes[any](t, "BOOLEAN", changelog.BoolValue(false), false)
	goes[any](t, "TINYINT", num(1), int64(1))
	goes[any](t, "FLOAT", changelog.FloatValue(1), float32(1))
	goes[any](t, "DOUBLE", changelog.DoubleValue(1), 1.0)
	goes[any](t, "DECIMAL(4, 2)", decimal(t, "-1.50", 4, 2), d)
	goes[any](t, "STRING", str("a"), "a")
	goes[any](t, "BYTES", changelog.BytesValue([]byte("a")), []byte("a"))
	goes[any](t, "DATE", changelog.DateValue(0), time.Unix(0, 0).UTC())
	goes[any](t, "TIME", changelog.TimeValue(1), time.Duration(1))
	goes[any](t, "INTERVAL DAY", num(1), time.Millisecond)
	goes[any](t, "INTERVAL DAY", num(math.MaxInt64), int64(math.MaxInt64))
	goes[any](t, "INTERVAL MONTH", num(1), int64(1))
	goes[any](t, "INT", changelog.Value{}, nil)
	goes[any](t, "ARRAY<INT>", changelog.ArrayValue([]changelog.Value{num(1), {}}), []any{int64(1), nil})
	goes[any](t, "ROW<a INT, b STRING>", changelog.RowValue([]changelog.Value{num(1), {}}), map[string]any{"a": int64(1), "b": nil})
	goes[any](t, "MAP<STRING, INT>", changelog.MapValue([]changelog.Value{str("a"), num(1), {}, num(2)}), map[any]any{"a": int64(1), nil: int64(2)})
	goes[any](t, "MAP<BYTES, INT>", changelog.MapValue([]changelog.Value{changelog.BytesValue([]byte{1}), num(1)}), [][2]any{{[]byte{1}, int64(1)}})
	goes[any](t, "MULTISET<INT>", changelog.MapValue([]changelog.Value{num(7), num(2)}), map[any]any{int64(7): int64(2)})
	goes(t, "MAP<INT, ARRAY<INT>>", changelog.MapValue([]changelog.Value{num(7), changelog.ArrayValue([]changelog.Value{num(1)})}), map[any]any{int64(7): []any{int64(1)}})
}

func TestAs_Null(t *testing.T) {
	fails[int](t, "INT", changelog.Value{}, "field x: NULL, and the Go field is a int: make it a *int")
	fails[string](t, "STRING NOT NULL", changelog.Value{}, "make it a *string")
	fails[time.Time](t, "DATE", changelog.Value{}, "make it a *time.Time")
	fails[struct{}](t, "ROW<a INT>", changelog.Value{}, "NULL")
	fails[big.Rat](t, "DECIMAL(4, 2)", changelog.Value{}, "make it a *big.Rat")
	goes[*int](t, "INT", changelog.Value{}, nil)
	goes[**int](t, "INT", changelog.Value{}, nil)
	goes[[]byte](t, "BYTES", changelog.Value{}, nil)
	goes[[]int](t, "ARRAY<INT>", changelog.Value{}, nil)
	goes[map[int]int](t, "MAP<INT, INT>", changelog.Value{}, nil)
	goes[*struct{}](t, "ROW<a INT>", changelog.Value{}, nil)
	// A decoder that does not keep to its table is told so.
	fails[int](t, "INT", changelog.StringValue("1"), "the value is no INT")
	fails[*int](t, "INT", changelog.StringValue("1"), "the value is no INT")
	fails[sql.NullInt64](t, "INT", changelog.StringValue("1"), "the value is no INT")
	fails[any](t, "ARRAY<INT>", changelog.ArrayValue([]changelog.Value{changelog.MapValue(nil)}), "field x[0]: the value is no INT")
	fails[any](t, "MAP<INT, INT>", changelog.MapValue([]changelog.Value{changelog.BytesValue(nil), {}}), "field x[key 0]: the value is no INT")
	fails[any](t, "ROW<a INT>", changelog.RowValue([]changelog.Value{changelog.UnchangedValue()}), "field x.a: the value is no INT")
	fails[struct{ A int }](t, "ROW<a INT, b INT>", changelog.RowValue([]changelog.Value{changelog.IntValue(1)}), "the ROW has 1 values")
}
