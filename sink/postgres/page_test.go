package postgres

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5/pgtype"
)

// typeRow is a row of the table of types in docs/postgres.md.
type typeRow struct {
	flink string
	made  string
	fits  []string // made included
}

var words = regexp.MustCompile("`[^`]+`|enum|array|composite")

// typesOfPage reads the table.
func typesOfPage(t *testing.T) (rows []typeRow) {
	t.Helper()
	page, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "<!-- types -->")
	text, _, found := strings.Cut(text, "<!-- end of types -->")
	if !found {
		t.Fatal("the page has no table of types")
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 3 {
			t.Fatalf("a row of %d cells: %s", len(cells), line)
		}
		list := func(cell string) (out []string) {
			for _, w := range words.FindAllString(cell, -1) {
				out = append(out, strings.Trim(w, "`"))
			}
			return out
		}
		r := typeRow{flink: strings.ReplaceAll(strings.TrimSpace(cells[0]), "`", ""), made: list(cells[1])[0]}
		r.fits = append(list(cells[1]), list(cells[2])...)
		rows = append(rows, r)
	}
	return rows
}

// samples are types for each row of the table; the last of several is the widest that the row is about.
var samples = map[string][]string{
	"BOOLEAN": {"BOOLEAN"}, "TINYINT": {"TINYINT"}, "SMALLINT": {"SMALLINT"}, "INT": {"INT"}, "BIGINT": {"BIGINT"}, "FLOAT": {"FLOAT"}, "DOUBLE": {"DOUBLE"},
	"DECIMAL(p, s)":           {"DECIMAL(10, 2)", "DECIMAL(38, 38)", "DECIMAL(1, 1)", "DECIMAL(19, 0)", "DECIMAL(38, 0)"},
	"DECIMAL(4, 0) and less":  {"DECIMAL(1, 0)", "DECIMAL(4, 0)"},
	"DECIMAL(9, 0) and less":  {"DECIMAL(5, 0)", "DECIMAL(9, 0)"},
	"DECIMAL(18, 0) and less": {"DECIMAL(10, 0)", "DECIMAL(18, 0)"},
	"CHAR, VARCHAR, STRING":   {"CHAR(3)", "VARCHAR(5)", "STRING"}, "BINARY, VARBINARY, BYTES": {"BINARY(3)", "VARBINARY(5)", "BYTES"},
	"DATE": {"DATE"}, "TIME(0) to TIME(6)": {"TIME(0)", "TIME(3)", "TIME(6)"}, "TIME(7) to TIME(9)": {"TIME(7)", "TIME(9)"},
	"TIMESTAMP(0) to TIMESTAMP(6)": {"TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)"}, "TIMESTAMP(7) to TIMESTAMP(9)": {"TIMESTAMP(7)", "TIMESTAMP(9)"},
	"TIMESTAMP_LTZ(0) to TIMESTAMP_LTZ(6)": {"TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(6)"}, "TIMESTAMP_LTZ(7) to TIMESTAMP_LTZ(9)": {"TIMESTAMP_LTZ(7)", "TIMESTAMP_LTZ(9)"},
	"INTERVAL YEAR TO MONTH": {"INTERVAL YEAR TO MONTH", "INTERVAL YEAR"}, "INTERVAL DAY TO SECOND": {"INTERVAL DAY TO SECOND(3)", "INTERVAL HOUR"},
	"ARRAY of scalars": {"ARRAY<INT>", "ARRAY<STRING>", "ARRAY<DECIMAL(10, 2)>", "ARRAY<TIMESTAMP(3)>"}, "ARRAY of ROW": {"ARRAY<ROW<x INT>>"}, "ARRAY of MAP": {"ARRAY<MAP<STRING, INT>>"},
	"ARRAY of ARRAY": {"ARRAY<ARRAY<INT>>", "ARRAY<ARRAY<ARRAY<ROW<x INT>>>>"}, "MAP of scalars": {"MAP<STRING, INT>", "MAP<INT, DATE>"}, "MAP with a nested key or value": {"MAP<STRING, ARRAY<INT>>", "MAP<ROW<a INT>, INT>"},
	"MULTISET": {"MULTISET<STRING>"}, "ROW": {"ROW<x INT>", "ROW<x ROW<x INT>>"},
}

// columnTypes are the types that a column may have; those that depend on the source's type are made by columnLike.
var columnTypes = map[string]pgType{
	"boolean": {oid: pgtype.BoolOID}, "smallint": {oid: pgtype.Int2OID}, "integer": {oid: pgtype.Int4OID}, "bigint": {oid: pgtype.Int8OID}, "numeric": {oid: pgtype.NumericOID},
	"real": {oid: pgtype.Float4OID}, "double precision": {oid: pgtype.Float8OID}, "text": {oid: pgtype.TextOID}, "varchar": {oid: pgtype.VarcharOID}, "char": {oid: pgtype.BPCharOID},
	"citext": {oid: 70001, citext: true}, "uuid": {oid: pgtype.UUIDOID}, "json": {oid: pgtype.JSONOID}, "jsonb": {oid: pgtype.JSONBOID}, "xml": {oid: pgtype.XMLOID},
	"inet": {oid: pgtype.InetOID}, "cidr": {oid: pgtype.CIDROID}, "macaddr": {oid: pgtype.MacaddrOID}, "macaddr8": {oid: pgtype.Macaddr8OID}, "enum": {oid: 70002, kind: 'e'},
	"bytea": {oid: pgtype.ByteaOID}, "date": {oid: pgtype.DateOID}, "time": {oid: pgtype.TimeOID}, "timetz": {oid: pgtype.TimetzOID}, "timestamp": {oid: pgtype.TimestampOID},
	"timestamptz": {oid: pgtype.TimestamptzOID}, "interval": {oid: pgtype.IntervalOID}, "hstore": {oid: 70003, hstore: true}, "array": {}, "composite": {},
	// Types that take nothing.
	`"char"`: {oid: pgtype.QCharOID}, "name": {oid: pgtype.NameOID}, "oid": {oid: pgtype.OIDOID}, "money": {oid: 790}, "bit": {oid: pgtype.BitOID}, "bit varying": {oid: pgtype.VarbitOID},
	"point": {oid: pgtype.PointOID}, "tsvector": {oid: pgtype.TSVectorOID}, "int4range": {oid: pgtype.Int4rangeOID, kind: 'r'}, "pg_lsn": {oid: 3220}, "jsonpath": {oid: pgtype.JSONPathOID},
}

// columnLike returns a column type that suits the source as well as one of its name can.
func columnLike(name string, src *changelog.Type) *pgType {
	typ := columnTypes[name]
	typ.name, typ.shown, typ.mod = name, name, -1
	if typ.kind == 0 {
		typ.kind = 'b'
	}
	suits := func(t *changelog.Type) *pgType {
		want := ""
		switch t.Root {
		case changelog.RootRow:
			want = "composite"
		case changelog.RootMap:
			want = "hstore"
		case changelog.RootArray:
			want = "array"
		default:
			sql, _ := sqlType(t, rule{})
			want, _, _ = strings.Cut(sql, "(")
		}
		return columnLike(want, t)
	}
	switch name {
	case "array":
		typ.elem = &pgType{oid: pgtype.Int4OID, name: "int4", shown: "integer", mod: -1, kind: 'b'}
		if leaf := src.Elem; src.Root == changelog.RootArray {
			for leaf.Root == changelog.RootArray { // int[][] is int[] to the server
				leaf = leaf.Elem
			}
			typ.elem = suits(leaf)
		}
	case "composite":
		typ.kind = 'c'
		typ.fields = []pgColumn{{name: "x", typ: pgType{oid: pgtype.Int4OID, shown: "integer", mod: -1, kind: 'b'}}}
		if src.Root == changelog.RootRow {
			typ.fields = nil
			for _, f := range src.Fields {
				typ.fields = append(typ.fields, pgColumn{name: f.Name, typ: *suits(&f.Type)})
			}
		}
	}
	return &typ
}

// The table of types says what fits, no more and no less, and what CreateTable makes.
func TestPage_Types(t *testing.T) {
	seen := 0
	for _, row := range typesOfPage(t) {
		if len(samples[row.flink]) == 0 {
			t.Errorf("no sample for %q", row.flink)
		}
		for _, name := range samples[row.flink] {
			seen++
			src, err := changelog.ParseType(name)
			if err != nil {
				t.Fatal(err)
			}
			made, ok := sqlType(&src, rule{})
			made, _, _ = strings.Cut(made, "(")
			if src.Root == changelog.RootTimestampLTZ && made == "timestamp" {
				made = "timestamptz"
			}
			if strings.HasSuffix(made, "]") || src.Root == changelog.RootArray && made != "jsonb" {
				made = "array"
			}
			if !ok || made != row.made {
				t.Errorf("%s: CreateTable makes %s, the page says %s", name, made, row.made)
			}
			for column := range columnTypes {
				_, err := fit(&src, columnLike(column, &src), rule{})
				if listed := slices.Contains(row.fits, column); listed != (err == nil) {
					t.Errorf("%s into %s: %v, and the page says %v", name, column, err, listed)
				}
			}
		}
	}
	if seen < 50 || len(typesOfPage(t)) != len(samples) {
		t.Errorf("%d samples, %d rows, %d kinds of type", seen, len(typesOfPage(t)), len(samples))
	}
}
