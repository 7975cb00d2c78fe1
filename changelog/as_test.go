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
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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

type audit struct {
	UpdatedAt time.Time
	by        string
}

type order struct {
	ID       int64
	Customer string `flink:"cust name"`
	Total    changelog.Decimal
	ItemsIn3 []string
	Cache    *int `flink:"-"`
	audit
}

var orderColumns = []string{"updated_at TIMESTAMP(3)", "*id BIGINT", "cust name STRING", "TOTAL DECIMAL(20, 2)", "items_in_3 ARRAY<STRING>", "unused INT"}

func orderSchema(t testing.TB) *changelog.Schema {
	s := columns(t, orderColumns[0], orderColumns[1], "c STRING", orderColumns[3], orderColumns[4], orderColumns[5])
	s.Columns[2].Name = "cust name"
	return s
}

func TestAs_Names(t *testing.T) {
	m, err := changelog.As[order](orderSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	row := changelog.Row{changelog.TimestampValue(0, 0), changelog.IntValue(7), changelog.StringValue("ann"), decimal(t, "1.50", 20, 2),
		changelog.ArrayValue([]changelog.Value{changelog.StringValue("pen")}), changelog.IntValue(1)}
	got, err := m.Row(row)
	want := order{ID: 7, Customer: "ann", Total: got.Total, ItemsIn3: []string{"pen"}, audit: audit{UpdatedAt: time.Unix(0, 0).UTC()}}
	if err != nil || got.Total.String() != "1.50" || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := m.Row(row[:5]); err == nil || !strings.Contains(err.Error(), "5 values, and its table 6 columns") {
		t.Errorf("a narrow row: %v", err)
	}
}

// The values are the struct's own: the batch may be reset.
func TestAs_OwnsItsMemory(t *testing.T) {
	type row struct {
		S string
		B []byte
		A any
	}
	m, err := changelog.As[row](columns(t, "s STRING", "b BYTES", "a BYTES"))
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("abc")
	r, err := m.Row(changelog.Row{changelog.StringBytesValue(message), changelog.BytesValue(message), changelog.BytesValue(message)})
	copy(message, "xyz")
	if err != nil || r.S != "abc" || string(r.B) != "abc" || string(r.A.([]byte)) != "abc" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestMapper_ChangesOfOneKey(t *testing.T) {
	m, err := changelog.As[order](orderSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	same := changelog.UnchangedValue()
	key := changelog.Row{{}, changelog.IntValue(7), {}, {}, {}, {}}
	o, err := m.Change(&changelog.Change{Kind: changelog.Delete, KeyOnly: true, Row: key})
	if err != nil || !reflect.DeepEqual(o, order{ID: 7}) {
		t.Errorf("a delete: %+v, %v", o, err)
	}
	if _, err := m.Change(&changelog.Change{Kind: changelog.Delete, Row: key}); err == nil {
		t.Error("a delete of a row of NULLs")
	}
	older := order{ID: 7, Customer: "ann", ItemsIn3: []string{"pen"}, audit: audit{by: "me"}}
	partial := changelog.Row{changelog.TimestampValue(60, 0), changelog.IntValue(7), same, decimal(t, "2.00", 20, 2), same, same}
	if _, err := m.Row(partial); err == nil || !strings.Contains(err.Error(), "field cust name: the source did not send the value") {
		t.Errorf("a partial row: %v", err)
	}
	if err := m.Into(&older, partial); err != nil || older.Customer != "ann" || older.Total.String() != "2.00" || older.ItemsIn3[0] != "pen" || older.by != "me" || older.UpdatedAt.Unix() != 60 {
		t.Errorf("into the older one: %+v, %v", older, err)
	}
	if err := m.KeyInto(&older, changelog.Row{{}, changelog.IntValue(8), {}, {}, {}, {}}); err != nil || older.ID != 8 || older.Customer != "ann" {
		t.Errorf("the key: %+v, %v", older, err)
	}
	if err := m.KeyInto(&older, changelog.Row{{}, {}, {}, {}, {}, {}}); err == nil || !strings.Contains(err.Error(), "field id: NULL") {
		t.Errorf("a NULL key: %v", err)
	}
}

// All that does not fit is named at once, with what would.
func TestAs_Mismatches(t *testing.T) {
	type inner struct {
		A string
		B int
	}
	type row struct {
		Missing int
		Tagged  int `flink:"nothing"`
		Twice   int
		Other   int `flink:"one"`
		One     int
		Total   float64
		Flag    string
		Size    float64
		Ratio   float32
		Seen    int64
		For     int64
		Text    int
		Raw     string
		List    [2]int
		Deep    []inner
		Map     map[*string]int
		Iface   map[any]int
		Reader  interface{ Read([]byte) (int, error) }
		Var     any
		Ch      chan int
		Scanned sql.NullString
		*audit
	}
	_, err := changelog.As[row](columns(t, "twice INT", "T_wice INT", "one INT", "total DECIMAL(4, 2)", "flag BOOLEAN", "size INT", "ratio DOUBLE", "seen TIMESTAMP(3)",
		"for TIME", "text STRING", "raw BYTES", "list ARRAY<INT>", "deep ARRAY<ROW<a INT, c INT>>", "map MAP<STRING, INT>", "iface MAP<BYTES, INT>", "reader STRING", "var VARIANT",
		"ch INT", "scanned ARRAY<INT>"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"rows cannot be mapped to changelog_test.row: ",
		`field Missing: there is no column of that name; tag it flink:"name", or flink:"-"`,
		`field Tagged: there is no column "nothing"`,
		"fields Other and One both take column one",
		"field Total takes column total: DECIMAL(4, 2) does not go into float64, but into changelog.Decimal, big.Rat, string or any",
		"field Flag takes column flag: BOOLEAN does not go into string, but into bool or any",
		"field Size takes column size: INT does not go into float64, but into an integer type or any",
		"DOUBLE does not go into float32",
		"TIMESTAMP(3) does not go into int64, but into time.Time, string or any",
		"TIME(0) does not go into int64, but into time.Duration, string or any",
		"STRING does not go into int, but into string, []byte or any",
		"BYTES does not go into string, but into []byte or any",
		"ARRAY<INT> does not go into [2]int, but into a slice or any",
		"field Deep takes column deep: elements: changelog_test.inner: field A takes ROW field a: INT does not go into string",
		"field B: there is no ROW field of that name",
		"pointers to equal keys are not equal",
		"Go cannot compare what an any holds of a BYTES",
		"STRING does not go into interface { Read([]uint8) (int, error) }",
		"no format reads the type VARIANT",
		"INT does not go into chan int",
		"ARRAY<INT> does not go into sql.NullString",
		"field audit is an embedded pointer",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	type two struct{ OrderID int }
	if _, err := changelog.As[two](columns(t, "order_id INT", "orderId INT")); err == nil || !strings.Contains(err.Error(), `field OrderID could be column order_id or orderId: tag it`) {
		t.Errorf("two columns: %v", err)
	}
	if m, err := changelog.As[two](columns(t, "order_id INT", "OrderID INT")); err != nil {
		t.Errorf("the very name: %v", err)
	} else if r, err := m.Row(changelog.Row{changelog.IntValue(1), changelog.IntValue(2)}); err != nil || r.OrderID != 2 {
		t.Errorf("the very name: %v, %v", r, err)
	}
	if _, err := changelog.As[time.Duration](columns(t, "a INT")); err == nil || !strings.Contains(err.Error(), "to a struct, and time.Duration is none") {
		t.Errorf("no struct: %v", err)
	}
	if _, err := changelog.As[two](nil); err == nil {
		t.Error("no schema")
	}
	for _, typ := range []changelog.Type{{Root: changelog.RootArray}, {Root: changelog.RootMap}, {Root: changelog.RootMultiset}, {Root: 200}} {
		s := &changelog.Schema{Columns: []changelog.Column{{Name: "x", Type: typ}}}
		_, slice := changelog.As[struct{ X []int }](s)
		_, keyed := changelog.As[struct{ X map[int]int }](s)
		if slice == nil || keyed == nil {
			t.Errorf("%s: an incomplete type is taken", typ)
		}
	}
}

// No value is too odd for any Go type: what does not fit is an error, never a panic, whatever the value's own kind is.
func TestAs_NeverPanics(t *testing.T) {
	types := []string{"BOOLEAN", "TINYINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4, 2)", "DECIMAL(20, 0)", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)",
		"INTERVAL MONTH", "INTERVAL DAY", "ARRAY<BIGINT>", "ARRAY<MAP<BYTES, INT>>", "MAP<STRING, BIGINT>", "MAP<BYTES, INT>", "MAP<ROW<a INT>, INT>", "MULTISET<STRING>", "ROW<a BIGINT, b STRING>"}
	rapid.Check(t, func(r *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(r, "type")
		v := oddValue(r, 3)
		tries := []func(*rapid.T, string, changelog.Value) error{
			try[any], try[string], try[*int8], try[uint64], try[[]byte], try[[]any], try[[]int64], try[map[any]any], try[map[string]any], try[map[any]int], try[time.Time], try[time.Duration],
			try[big.Rat], try[*big.Int], try[changelog.Decimal], try[sql.NullString], try[sql.NullTime], try[map[[1]string]int], try[struct{ A any }], try[*struct{ A, B *string }]}
		for _, try := range tries {
			if err := try(r, typ, v); err == nil && v.IsUnchanged() {
				r.Fatal("an Unchanged value went somewhere")
			}
		}
	})
}

func try[F any](r *rapid.T, typ string, v changelog.Value) error {
	ty, err := changelog.ParseType(typ)
	if err != nil {
		r.Fatal(err)
	}
	m, err := changelog.As[struct{ X F }](&changelog.Schema{Columns: []changelog.Column{{Name: "x", Type: ty}}})
	if err != nil {
		return err
	}
	_, err = m.Row(changelog.Row{v})
	return err
}

// oddValue draws a value of any kind, with elements of any kind.
func oddValue(r *rapid.T, depth int) changelog.Value {
	i := rapid.Int64().Draw(r, "i")
	elems := func() []changelog.Value {
		out := make([]changelog.Value, rapid.IntRange(0, 3).Draw(r, "n"))
		for i := range out {
			out[i] = oddValue(r, depth-1)
		}
		return out
	}
	kinds := 15
	if depth == 0 {
		kinds = 12
	}
	switch rapid.IntRange(0, kinds-1).Draw(r, "kind") {
	case 0:
		return changelog.UnchangedValue()
	case 1:
		return changelog.BoolValue(i > 0)
	case 2:
		return changelog.IntValue(i)
	case 3:
		return changelog.FloatValue(float32(i))
	case 4:
		return changelog.DoubleValue(math.Float64frombits(uint64(i)))
	case 5:
		return changelog.DecimalValue(i, uint64(i), rapid.IntRange(0, 38).Draw(r, "scale"))
	case 6:
		return changelog.StringValue(rapid.String().Draw(r, "s"))
	case 7:
		return changelog.BytesValue([]byte(rapid.String().Draw(r, "y")))
	case 8:
		return changelog.DateValue(i >> 32)
	case 9:
		return changelog.TimeValue(i)
	case 10:
		return changelog.TimestampValue(i, 0)
	case 12:
		return changelog.ArrayValue(elems())
	case 13:
		return changelog.MapValue(elems())
	case 14:
		return changelog.RowValue(elems())
	}
	return changelog.Value{}
}

// One mapper serves several goroutines.
func TestAs_IsUsedByManyGoroutines(t *testing.T) {
	m, err := changelog.As[order](orderSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	rows := orderRows(t, 100)
	done := make(chan error)
	for range 4 {
		go func() {
			for i, r := range rows {
				o, err := m.Row(r)
				if err == nil && o.ID != int64(i) {
					err = fmt.Errorf("row %d is %d", i, o.ID)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func orderRows(t testing.TB, n int) []changelog.Row {
	rows := make([]changelog.Row, n)
	for i := range rows {
		rows[i] = changelog.Row{changelog.TimestampValue(int64(i), 0), changelog.IntValue(int64(i)), changelog.StringValue("customer"), decimal(t, "1.50", 20, 2), {}, {}}
	}
	return rows
}

func TestMapper_Allocations(t *testing.T) {
	type narrow struct {
		ID        int64
		Total     changelog.Decimal
		UpdatedAt time.Time
	}
	m, err := changelog.As[narrow](orderSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	row := orderRows(t, 1)[0]
	var dst narrow
	if n := testing.AllocsPerRun(100, func() {
		if err := m.Into(&dst, row); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("scalars into a struct that is there: %v allocations", n)
	}
	w, err := changelog.As[order](orderSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	var o order
	if n := testing.AllocsPerRun(100, func() { w.Into(&o, row) }); n != 1 {
		t.Errorf("one string: %v allocations", n)
	}
	if diff := cmp.Diff("customer", o.Customer); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkMapper(b *testing.B) {
	m, err := changelog.As[order](orderSchema(b))
	if err != nil {
		b.Fatal(err)
	}
	row := orderRows(b, 1)[0]
	b.Run("Row", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.Row(row); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Into", func(b *testing.B) {
		b.ReportAllocs()
		var o order
		for b.Loop() {
			if err := m.Into(&o, row); err != nil {
				b.Fatal(err)
			}
		}
	})
}
