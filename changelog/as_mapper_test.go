package changelog_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/google/go-cmp/cmp"
)

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
