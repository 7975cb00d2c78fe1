package changelog

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Mapper fills values of a struct type from the rows of one table. [As] makes one. It is safe for use by several goroutines.
type Mapper[T any] struct {
	width  int // of the rows
	fields []mappedField
}

type mappedField struct {
	index  []int // of the Go field, through embedded structs
	column int
	name   string // of the column
	key    bool
	set    setter
}

// setter puts a value that is neither Unchanged nor missing into a Go variable. It returns nil or a *DataError whose Field is the path
// below the variable.
type setter func(dst reflect.Value, v Value) *DataError

// As matches the fields of T, a struct type, with the columns of s. Every field that finds no column, and every column whose type does
// not fit its field, is named in the one error that comes back, so that a mistake shows at the start and not at row one million.
//
// # Names
//
// A field tagged `flink:"name"` takes the column of exactly that name; `flink:"-"` leaves a field out, as being unexported does. A field
// without a tag takes the column that has its name, and if there is none the one whose name differs from it in nothing but the case of
// letters and underscores: OrderID takes order_id, orderId or ORDERID, and if s has two such columns the field needs a tag. The fields of
// an embedded struct count as T's own. Columns that no field takes are left out. The fields of a ROW are matched with those of its struct
// in the same way.
//
// # Types
//
//	BOOLEAN                 bool
//	TINYINT .. BIGINT       int, int8 .. int64, uint, uint8 .. uint64; a number that does not fit is an error
//	FLOAT                   float32, float64
//	DOUBLE                  float64
//	DECIMAL                 Decimal, big.Rat, string; with scale 0 also big.Int and the integers
//	CHAR .. STRING          string, []byte
//	BINARY .. BYTES         []byte
//	DATE                    time.Time, the day's begin in UTC; string
//	TIME                    time.Duration since midnight; string
//	TIMESTAMP               time.Time whose clock in UTC shows the reading; string
//	TIMESTAMP_LTZ           time.Time, in UTC; string
//	INTERVAL of days        time.Duration; string
//	INTERVAL of months      the integers, in months; string
//	ARRAY                   a slice
//	MAP, MULTISET           a map; a MULTISET's values, the counts, are integers
//	ROW                     a struct
//	every type              any
//	every type of one value a type whose pointer has the method Scan(any) error, as those of database/sql's Null types have
//
// Types derived from these (type Status string) do as well. A string for what is no text holds the text of [AppendText]. In an any stand
// bool, int64, float32, float64, [Decimal], string, []byte, time.Time, time.Duration, []any, map[string]any for a ROW, and for a MAP
// map[any]any, or [][2]any where Go cannot compare the keys; an INTERVAL that is longer than 292 years is an int64 of milliseconds. Scan is given what database/sql drivers give: int64, float64, bool, string
// (also for a DECIMAL, a TIME and an INTERVAL), []byte, time.Time or nil.
//
// A pointer to any of these is nil for NULL. NULL also goes into a slice, a map, an any and a Scan; into anything else it is an error that names the
// column, whatever the schema says about NULL.
func As[T any](s *Schema) (*Mapper[T], error) {
	if s == nil {
		return nil, errors.New("changelog: As needs a schema")
	}
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("changelog: rows are mapped to a struct, and %s is none", t)
	}
	columns := make([]Field, len(s.Columns))
	for i := range s.Columns {
		columns[i] = Field{Name: s.Columns[i].Name, Type: s.Columns[i].Type}
	}
	fields, errs := matchFields(t, columns, "column")
	if len(errs) > 0 {
		return nil, fmt.Errorf("changelog: rows cannot be mapped to %s: %w", t, errors.Join(errs...))
	}
	for i := range fields {
		fields[i].key = slices.Contains(s.Key, fields[i].column)
	}
	return &Mapper[T]{width: len(columns), fields: fields}, nil
}

// Row returns the row as a T that owns its memory: it stays valid when the batch is reset. A column that the source did not send
// ([Value.IsUnchanged]) is an error; see Into. Errors are a *DataError that names the column.
func (m *Mapper[T]) Row(row Row) (T, error) {
	var t T
	err := m.into(&t, row, false, false)
	return t, err
}

// Change is Row for the row of a change; of a delete that knows its key only, only the fields of the key are set.
func (m *Mapper[T]) Change(c *Change) (T, error) {
	var t T
	err := m.into(&t, c.Row, c.KeyOnly, false)
	return t, err
}

// Into puts the row into *dst, and leaves a field as it is whose column the source did not send: with the older version of the row in *dst, it
// is the newer one afterwards. After an error some fields are the row's and some are not.
func (m *Mapper[T]) Into(dst *T, row Row) error { return m.into(dst, row, false, true) }

// KeyInto puts the columns of the key into *dst and leaves the other fields as they are.
func (m *Mapper[T]) KeyInto(dst *T, row Row) error { return m.into(dst, row, true, true) }

func (m *Mapper[T]) into(dst *T, row Row, keyOnly, keep bool) error {
	if len(row) != m.width {
		return &DataError{Class: SchemaMismatch, Reason: fmt.Sprintf("the row has %d values, and its table %d columns", len(row), m.width)}
	}
	v := reflect.ValueOf(dst).Elem()
	for i := range m.fields {
		f := &m.fields[i]
		if keyOnly && !f.key {
			continue
		}
		if row[f.column].kind == KindUnchanged {
			if keep {
				continue
			}
			return &DataError{Class: Missing, Field: f.name, Reason: "the source did not send the value; put the row into its older version (Into)"}
		}
		if err := f.set(fieldOf(v, f.index), row[f.column]); err != nil {
			return err.in(f.name)
		}
	}
	return nil
}

// fieldOf is FieldByIndex for embedded structs that are no pointers.
func fieldOf(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		v = v.Field(i)
	}
	return v
}

// in puts the name of a column, or of a field of a ROW, before the path.
func (e *DataError) in(name string) *DataError {
	switch {
	case e.Field == "":
		e.Field = name
	case e.Field[0] == '[':
		e.Field = name + e.Field
	default:
		e.Field = name + "." + e.Field
	}
	return e
}

// matchFields finds the column of each field of t, and what puts one into the other. what is what columns are called in errors.
func matchFields(t reflect.Type, columns []Field, what string) (fields []mappedField, errs []error) {
	taken := make(map[int]string) // column to Go field
	var walk func(t reflect.Type, index []int)
	walk = func(t reflect.Type, index []int) {
		for i := range t.NumField() {
			f := t.Field(i)
			at := append(slices.Clone(index), i)
			tag, tagged := f.Tag.Lookup("flink")
			if f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct && !whole(f.Type) {
				walk(f.Type, at)
				continue
			}
			if !f.IsExported() || tag == "-" {
				if f.Anonymous && !tagged && f.Type.Kind() == reflect.Pointer {
					errs = append(errs, fmt.Errorf(`field %s is an embedded pointer: embed the struct itself, or tag it flink:"-"`, f.Name))
				}
				continue
			}
			c, err := columnFor(f.Name, tag, tagged, columns, what)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if other, ok := taken[c]; ok {
				errs = append(errs, fmt.Errorf("fields %s and %s both take %s %s", other, f.Name, what, columns[c].Name))
				continue
			}
			taken[c] = f.Name
			set, err := setterFor(f.Type, &columns[c].Type)
			if err != nil {
				errs = append(errs, fmt.Errorf("field %s takes %s %s: %w", f.Name, what, columns[c].Name, err))
				continue
			}
			fields = append(fields, mappedField{index: at, column: c, name: columns[c].Name, set: set})
		}
	}
	walk(t, nil)
	return fields, errs
}

func columnFor(field, tag string, tagged bool, columns []Field, what string) (int, error) {
	name := field
	if tagged {
		name = tag
	}
	for i := range columns {
		if columns[i].Name == name {
			return i, nil
		}
	}
	if tagged {
		return 0, fmt.Errorf("field %s: there is no %s %q", field, what, tag)
	}
	found := -1
	for i := range columns {
		if !strings.EqualFold(strings.ReplaceAll(columns[i].Name, "_", ""), strings.ReplaceAll(field, "_", "")) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf(`field %s could be %s %s or %s: tag it flink:"..."`, field, what, columns[found].Name, columns[i].Name)
		}
		found = i
	}
	if found < 0 {
		return 0, fmt.Errorf(`field %s: there is no %s of that name; tag it flink:"name", or flink:"-" to leave it out`, field, what)
	}
	return found, nil
}
