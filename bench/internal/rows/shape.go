// Package rows is the data that benchmarks move: rows of two shapes, as a topic and as Postgres hold them. bench and bench/peers, which is a
// module of its own, move the same.
package rows

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the type of a column. It says which of Go's types its values have.
type Kind uint8

const (
	Int    Kind = iota // int64, BIGINT, bigint
	Text               // string, STRING, text
	Double             // float64, DOUBLE, double precision
)

// Column is one column of a shape.
type Column struct {
	Name string
	Kind Kind
}

// Shape is a table. Its first column is its key: id, an Int.
type Shape struct {
	Name    string
	Columns []Column
	parse   func(value []byte) ([]any, error)
}

// Narrow has four columns, of about 120 bytes with the key in the topic.
func Narrow() *Shape {
	return &Shape{"narrow", []Column{{"id", Int}, {"cust", Text}, {"qty", Int}, {"price", Double}}, func(value []byte) ([]any, error) {
		var v struct {
			ID    int64   `json:"id"`
			Cust  string  `json:"cust"`
			Qty   int64   `json:"qty"`
			Price float64 `json:"price"`
		}
		err := json.Unmarshal(value, &v)
		return []any{v.ID, v.Cust, v.Qty, v.Price}, err
	}}
}

// Wide has twenty columns, of about 430 bytes with the key in the topic.
func Wide() *Shape {
	s := &Shape{Name: "wide", Columns: []Column{{"id", Int}}, parse: parseWide}
	for i := range 19 {
		s.Columns = append(s.Columns, Column{fmt.Sprintf("c%02d", i+1), []Kind{Text, Int, Double, Text}[i%4]})
	}
	return s
}

// parseWide is what one writes by hand: a struct with a field for each column.
func parseWide(value []byte) ([]any, error) {
	var v struct {
		ID  int64   `json:"id"`
		C01 string  `json:"c01"`
		C02 int64   `json:"c02"`
		C03 float64 `json:"c03"`
		C04 string  `json:"c04"`
		C05 string  `json:"c05"`
		C06 int64   `json:"c06"`
		C07 float64 `json:"c07"`
		C08 string  `json:"c08"`
		C09 string  `json:"c09"`
		C10 int64   `json:"c10"`
		C11 float64 `json:"c11"`
		C12 string  `json:"c12"`
		C13 string  `json:"c13"`
		C14 int64   `json:"c14"`
		C15 float64 `json:"c15"`
		C16 string  `json:"c16"`
		C17 string  `json:"c17"`
		C18 int64   `json:"c18"`
		C19 float64 `json:"c19"`
	}
	err := json.Unmarshal(value, &v)
	return []any{v.ID, v.C01, v.C02, v.C03, v.C04, v.C05, v.C06, v.C07, v.C08, v.C09, v.C10, v.C11, v.C12, v.C13, v.C14, v.C15, v.C16, v.C17, v.C18, v.C19}, err
}

// Row is row id in one of its versions.
func (s *Shape) Row(id int64, version int) []any {
	row := make([]any, len(s.Columns))
	row[0] = id
	for i, c := range s.Columns[1:] {
		h := Mix(uint64(id)<<12 + uint64(version)<<6 + uint64(i))
		switch {
		case c.Kind == Int:
			row[i+1] = int64(h % 1000)
		case c.Kind == Double:
			row[i+1] = float64(h>>20%1_000_000) / 100
		case len(s.Columns) == 4:
			row[i+1] = fmt.Sprintf("customer-%08d-%016x-v%d-of-the-north", id%50_000, h, version)
		default:
			row[i+1] = fmt.Sprintf("%012x, version %d", h>>16, version)
		}
	}
	return row
}

// Key is the key of a record.
func Key(id int64) []byte { return fmt.Appendf(nil, `{"id":%d}`, id) }

// Value is the value of a record.
func (s *Shape) Value(row []any) []byte {
	b := []byte{'{'}
	for i, c := range s.Columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), c.Name...), '"', ':')
		switch v := row[i].(type) {
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case float64:
			b = strconv.AppendFloat(b, v, 'f', -1, 64)
		case string: // nothing in it needs escaping
			b = append(append(append(b, '"'), v...), '"')
		}
	}
	return append(b, '}')
}

// ParseKey reads what Key wrote.
func ParseKey(key []byte) (id int64, err error) {
	var v struct {
		ID int64 `json:"id"`
	}
	err = json.Unmarshal(key, &v)
	return v.ID, err
}

// Parse reads what Value wrote, into a struct, by encoding/json.
func (s *Shape) Parse(value []byte) ([]any, error) { return s.parse(value) }

// Names are those of all columns.
func (s *Shape) Names() (out []string) {
	for _, c := range s.Columns {
		out = append(out, c.Name)
	}
	return out
}

func (s *Shape) columns(types [3]string) string {
	var out []string
	for _, c := range s.Columns {
		out = append(out, c.Name+" "+types[c.Kind])
	}
	return strings.Join(out, ", ")
}

// SQL is the list of columns of a CREATE TABLE of Postgres, without the key.
func (s *Shape) SQL() string { return s.columns([3]string{"bigint", "text", "double precision"}) }

// Flink is the list of columns of a CREATE TABLE of Flink, with the key.
func (s *Shape) Flink() string {
	return s.columns([3]string{"BIGINT", "STRING", "DOUBLE"}) + ", PRIMARY KEY (id) NOT ENFORCED"
}

// Set is the list of assignments that overwrites a row, from rows of the given name.
func (s *Shape) Set(from string) string {
	var out []string
	for _, c := range s.Columns[1:] {
		out = append(out, c.Name+" = "+from+"."+c.Name)
	}
	return strings.Join(out, ", ")
}

// OnConflict is the end of an INSERT that overwrites the row that is there.
func (s *Shape) OnConflict() string { return " ON CONFLICT (id) DO UPDATE SET " + s.Set("EXCLUDED") }

// Signature is a query of one text, which is equal for tables that hold the same rows, and for hardly any others.
func Signature(table string) string {
	return `SELECT count(*) || ' rows, sum of hashes ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM "` + table + `" AS t`
}

// Mix spreads the bits of n.
func Mix(n uint64) uint64 {
	n *= 0x9E3779B97F4A7C15
	n ^= n >> 32
	n *= 0xBF58476D1CE4E5B9
	return n ^ n>>29
}

// Shuffled is the ith of n numbers in an order that looks like none.
func Shuffled(i, n int) int64 {
	// A step that shares no factor with n meets each number once.
	step := uint64(float64(n)*0.6180339887) | 1
	for gcd(step, uint64(n)) != 1 {
		step += 2
	}
	return int64(uint64(i) * step % uint64(n))
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
