package format_test

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// typed is a row of the case json_types. The tag text is the layout of a time in Flink's CAST.
type typed struct {
	ID  int
	T1  *int8
	S2  *int16
	I4  *int32
	I8  *int64
	F4  *float32
	F8  *float64
	D1  *changelog.Decimal
	D2  *changelog.Decimal
	D3  *changelog.Decimal
	B   *bool
	C5  *string
	V3  *string
	S   *string
	Y4  []byte
	YV  []byte
	Y   []byte
	DT  *time.Time `text:"2006-01-02"`
	T0  *time.Duration
	T3  *time.Duration
	TS0 *time.Time `text:"2006-01-02 15:04:05"`
	TS3 *time.Time `text:"2006-01-02 15:04:05.000"`
	TS6 *time.Time `text:"2006-01-02 15:04:05.000000"`
	TS9 *time.Time `text:"2006-01-02 15:04:05.000000000"`
	L0  *time.Time `text:"2006-01-02 15:04:05"`
	L3  *time.Time `text:"2006-01-02 15:04:05.000"`
	L6  *time.Time `text:"2006-01-02 15:04:05.000000"`
	L9  *time.Time `text:"2006-01-02 15:04:05.000000000"`
}

// castText prints a Go value as Flink casts the column, with Go's own means where it has them. nil is NULL.
func castText(v reflect.Value, layout string) any {
	if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice) && v.IsNil() {
		return nil
	}
	switch x := reflect.Indirect(v).Interface().(type) {
	case bool:
		return strings.ToUpper(strconv.FormatBool(x))
	case float32:
		return string(changelog.AppendJavaFloat(nil, x))
	case float64:
		return string(changelog.AppendJavaDouble(nil, x))
	case []byte:
		return hex.EncodeToString(x)
	case time.Time:
		return x.Format(layout)
	case time.Duration:
		return time.Time{}.Add(x).Format(time.TimeOnly)
	default:
		return fmt.Sprint(x)
	}
}

// Go values of rows that Flink wrote say what Flink read.
func TestAs_FlinkTypes(t *testing.T) {
	dir := filepath.Join(flinkDir, "json_types")
	b := decodeCase(t, dir, false)
	rows, err := changelog.As[typed](b.Table.Schema)
	if err != nil {
		t.Fatal(err)
	}
	want := lines(t, filepath.Join(dir, "read.jsonl"))
	if len(want) != b.Len() || b.Len() < 10 {
		t.Fatalf("%d rows, Flink read %d", b.Len(), len(want))
	}
	typ := reflect.TypeFor[typed]()
	values := 0
	for i := range b.Changes {
		r, err := rows.Change(&b.Changes[i])
		if err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
		row := want[i].(map[string]any)["row"].(map[string]any)
		if len(row) != typ.NumField() {
			t.Fatalf("%d columns", len(row))
		}
		for f := range typ.NumField() {
			name := strings.ToLower(typ.Field(f).Name)
			got := castText(reflect.ValueOf(r).Field(f), typ.Field(f).Tag.Get("text"))
			if got != row[name] {
				t.Errorf("row %d, column %s: %q, Flink has %q", i, name, got, row[name])
			}
			if got != nil {
				values++
			}
		}
	}
	if values < 200 {
		t.Errorf("only %d values", values)
	}
}

// The rows of json_nested as structs, slices and maps.
func TestAs_FlinkNested(t *testing.T) {
	type z struct {
		P *changelog.Decimal
		Q []float64
	}
	type r struct {
		X *int
		Y *string
		Z *z
	}
	type nested struct {
		ID int
		A  []*int
		AA [][]string
		M  map[string]*int
		MM map[string]map[string]bool
		R  *r
		AR []*struct {
			K string
			V time.Time
		}
		MR map[string]*struct {
			D time.Time
			T time.Duration
		}
	}
	b := decodeCase(t, filepath.Join(flinkDir, "json_nested"), false)
	rows, err := changelog.As[nested](b.Table.Schema)
	if err != nil {
		t.Fatal(err)
	}
	var got []nested
	for i := range 2 {
		row, err := rows.Change(&b.Changes[i])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
	one := got[0]
	if *one.A[1] != -2 || one.AA[1][0] != `"c\` || *one.M["y"] != 2 || one.MM["o"]["f"] || !one.MM["o"]["t"] || *one.R.Y != "one" ||
		one.R.Z.P.String() != "10.50" || one.R.Z.Q[0] != 1.5 || one.AR[0].K != "k1" || !one.AR[1].V.Equal(time.UnixMilli(-1)) ||
		one.MR["d"].D.Format(time.DateOnly) != "2024-02-29" || one.MR["d"].T != time.Hour+2*time.Minute+3*time.Second {
		t.Errorf("%+v", one)
	}
	two := got[1]
	if two.A[0] != nil || *two.A[1] != 7 || two.AA[0] != nil || len(two.AA[1]) != 2 || two.M["n"] != nil || *two.M[""] != 0 || two.MM["o"] != nil ||
		two.R.X != nil || two.R.Z != nil || two.AR[0] != nil || two.MR["d"] != nil {
		t.Errorf("%+v", two)
	}
}
