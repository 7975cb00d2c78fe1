package changelog_test

import (
	"database/sql"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"pgregory.net/rapid"
)

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
