package changelog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flinksink/flinksink/changelog"
)

// Flink's own text of every captured column must come out as it went in.
func TestParseType_ColumnsOfFlink(t *testing.T) {
	for _, g := range goldens(t) {
		for _, c := range g.columns {
			typ := parseType(t, c.Type)
			if got := typ.SQL(); got != c.Type {
				t.Errorf("%s: %s: SQL gives %s", g.name, c.Type, got)
			}
			if back := parseType(t, typ.String()); !back.Equal(typ) {
				t.Errorf("%s: %s: String gives %s, which is another type", g.name, c.Type, typ)
			}
			if !typ.FromSQL().Equal(typ) {
				t.Errorf("%s: %s: FromSQL changes what Flink printed to %s", g.name, c.Type, typ.FromSQL())
			}
		}
	}
}

// The type in a column of SHOW CREATE TABLE ends where it ends, whatever follows.
func TestScanType_ShowCreateTable(t *testing.T) {
	for _, g := range goldens(t) {
		types := make(map[string]string)
		for _, c := range g.columns {
			types[c.Name] = c.Type
		}
		found := 0
		for line := range strings.Lines(g.show) {
			line = strings.TrimRight(line, "\n")
			name, rest, ok := strings.Cut(strings.TrimPrefix(line, "  `"), "` ")
			name = strings.ReplaceAll(name, "``", "`")
			if !ok || !strings.HasPrefix(line, "  `") || strings.HasPrefix(rest, "AS ") {
				continue
			}
			found++
			typ, n, err := changelog.ScanType(rest)
			if err != nil {
				t.Errorf("%s: %s: %v", g.name, line, err)
				continue
			}
			if typ.SQL() != types[name] || rest[:n] != types[name] {
				t.Errorf("%s: %s: read %s from %q, want %s", g.name, line, typ.SQL(), rest[:n], types[name])
			}
			if next := rest[n:]; next != "" && next != "," && !strings.HasPrefix(next, " METADATA") && !strings.HasPrefix(next, " COMMENT") {
				t.Errorf("%s: %s: left over %q", g.name, line, next)
			}
		}
		if found == 0 {
			t.Errorf("%s: no column found in SHOW CREATE TABLE", g.name)
		}
	}
}

// Texts from Flink's documentation of data types and the tests of its parser.
func TestParseType(t *testing.T) {
	for _, tt := range []struct{ in, summary, sql string }{
		{"CHAR", "CHAR(1)", ""},
		{"char(33)", "CHAR(33)", ""},
		{"CHARACTER VARYING(7)", "VARCHAR(7)", ""},
		{"VARCHAR", "STRING", "VARCHAR(2147483647)"},
		{"VARBINARY NOT NULL", "BYTES NOT NULL", "VARBINARY(2147483647) NOT NULL"},
		{"VARCHAR(2147483647)", "STRING", "VARCHAR(2147483647)"},
		{"STRING NOT NULL", "STRING NOT NULL", "VARCHAR(2147483647) NOT NULL"},
		{"BOOLEAN", "BOOLEAN", ""},
		{"BINARY", "BINARY(1)", ""},
		{"BINARY VARYING(3)", "VARBINARY(3)", ""},
		{"VARBINARY ( 33 )", "VARBINARY(33)", ""},
		{"BYTES", "BYTES", "VARBINARY(2147483647)"},
		{"DECIMAL", "DECIMAL(10, 0)", ""},
		{"DEC(38)", "DECIMAL(38, 0)", ""},
		{"numeric(10,3)", "DECIMAL(10, 3)", ""},
		{"TINYINT", "TINYINT", ""},
		{"SMALLINT", "SMALLINT", ""},
		{"INTEGER", "INT", ""},
		{"INT NULL", "INT", ""},
		{"BIGINT", "BIGINT", ""},
		{"FLOAT", "FLOAT", ""},
		{"DOUBLE PRECISION", "DOUBLE", ""},
		{"DATE", "DATE", ""},
		{"TIME", "TIME(0)", ""},
		{"TIME(3) WITHOUT TIME ZONE", "TIME(3)", ""},
		{"TIMESTAMP", "TIMESTAMP(6)", ""},
		{"TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)", ""},
		{"TIMESTAMP WITH TIME ZONE", "TIMESTAMP(6) WITH TIME ZONE", ""},
		{"TIMESTAMP(0) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(0)", "TIMESTAMP(0) WITH LOCAL TIME ZONE"},
		{"TIMESTAMP_LTZ", "TIMESTAMP_LTZ(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"},
		{"TIMESTAMP_LTZ(9) NOT NULL", "TIMESTAMP_LTZ(9) NOT NULL", "TIMESTAMP(9) WITH LOCAL TIME ZONE NOT NULL"},
		{"INTERVAL YEAR", "INTERVAL YEAR(2)", ""},
		{"INTERVAL YEAR(4) TO MONTH", "INTERVAL YEAR(4) TO MONTH", ""},
		{"INTERVAL MONTH", "INTERVAL MONTH", ""},
		{"INTERVAL DAY", "INTERVAL DAY(2)", ""},
		{"INTERVAL DAY(6) TO SECOND(9)", "INTERVAL DAY(6) TO SECOND(9)", ""},
		{"INTERVAL DAY TO HOUR", "INTERVAL DAY(2) TO HOUR", ""},
		{"INTERVAL DAY TO MINUTE", "INTERVAL DAY(2) TO MINUTE", ""},
		{"INTERVAL HOUR", "INTERVAL HOUR", ""},
		{"INTERVAL HOUR TO MINUTE", "INTERVAL HOUR TO MINUTE", ""},
		{"INTERVAL HOUR TO SECOND(3)", "INTERVAL HOUR TO SECOND(3)", ""},
		{"INTERVAL MINUTE", "INTERVAL MINUTE", ""},
		{"INTERVAL MINUTE TO SECOND", "INTERVAL MINUTE TO SECOND(6)", ""},
		{"INTERVAL SECOND(3)", "INTERVAL SECOND(3)", ""},
		{"ARRAY<INT NOT NULL>", "ARRAY<INT NOT NULL>", ""},
		{"INT ARRAY", "ARRAY<INT>", ""},
		{"INT NOT NULL ARRAY NOT NULL", "ARRAY<INT NOT NULL> NOT NULL", ""},
		{"INT ARRAY MULTISET", "MULTISET<ARRAY<INT>>", ""},
		{"MULTISET<STRING>", "MULTISET<STRING>", "MULTISET<VARCHAR(2147483647)>"},
		{"MAP<BIGINT,BOOLEAN NOT NULL>", "MAP<BIGINT, BOOLEAN NOT NULL>", ""},
		{"ROW<a INT, b ARRAY<STRING>>", "ROW<a INT, b ARRAY<STRING>>", "ROW<`a` INT, `b` ARRAY<VARCHAR(2147483647)>>"},
		{"ROW(a INT NOT NULL 'it''s', `b c` BOOLEAN) NOT NULL", "ROW<a INT NOT NULL, `b c` BOOLEAN> NOT NULL", "ROW<`a` INT NOT NULL 'it''s', `b c` BOOLEAN> NOT NULL"},
		{"ROW<`date` DATE, `a``b` INT, `1x` INT, ü INT, `Value` INT>", "ROW<`date` DATE, `a``b` INT, `1x` INT, ü INT, `Value` INT>", "ROW<`date` DATE, `a``b` INT, `1x` INT, `ü` INT, `Value` INT>"},
		{"ROW<>", "ROW<>", ""},
		{"ROW()", "ROW<>", ""},
		{"NULL", "NULL", ""},
		{"VARIANT NOT NULL", "VARIANT NOT NULL", ""},
		{"bitmap NOT NULL", "BITMAP NOT NULL", ""},
		{"ROW<`tables` INT, tables_ INT, `use` INT, `statement` INT, `hash` INT>", "ROW<`tables` INT, tables_ INT, `use` INT, `statement` INT, `hash` INT>", "ROW<`tables` INT, `tables_` INT, `use` INT, `statement` INT, `hash` INT>"},
		{"RAW('java.lang.Object', 'AB''C=')", "RAW('java.lang.Object', 'AB''C=')", ""},
		{"STRUCTURED<'com.example.User', name STRING, age INT NOT NULL 'years'>", "STRUCTURED<'com.example.User', name STRING, age INT NOT NULL>",
			"STRUCTURED<'com.example.User', `name` VARCHAR(2147483647), `age` INT NOT NULL 'years'>"},
		{"STRUCTURED<'com.example.Empty'>", "STRUCTURED<'com.example.Empty'>", ""},
		{"cat.db.MyType", "`cat`.`db`.`MyType`", ""},
		{"`my``db`.t NOT NULL", "`my``db`.`t` NOT NULL", ""},
		{" /* a */ DECIMAL -- b\n ( /**/ 10 , 2 ) // c\n NOT /* d */ NULL ", "DECIMAL(10, 2) NOT NULL", ""},
		{"map<string,row<x array<int>>>", "MAP<STRING, ROW<x ARRAY<INT>>>", "MAP<VARCHAR(2147483647), ROW<`x` ARRAY<INT>>>"},
	} {
		typ, err := changelog.ParseType(tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if tt.sql == "" {
			tt.sql = tt.summary
		}
		if got := typ.String(); got != tt.summary {
			t.Errorf("%s: String gives %s, want %s", tt.in, got, tt.summary)
		}
		if got := typ.SQL(); got != tt.sql {
			t.Errorf("%s: SQL gives %s, want %s", tt.in, got, tt.sql)
		}
		for _, text := range []string{typ.String(), typ.SQL()} {
			if back := parseType(t, text); !back.Equal(typ) {
				t.Errorf("%s: %s is read back as %s", tt.in, text, back)
			}
		}
	}
}

func TestParseType_Structure(t *testing.T) {
	got := parseType(t, "MAP<STRING NOT NULL, ROW<d DECIMAL(6, 2) 'money', i INTERVAL DAY(3) TO SECOND(1)>>")
	want := changelog.Type{
		Root: changelog.RootMap,
		Key:  &changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength, NotNull: true},
		Elem: &changelog.Type{Root: changelog.RootRow, Fields: []changelog.Field{
			{Name: "d", Type: changelog.Type{Root: changelog.RootDecimal, Precision: 6, Scale: 2}, Comment: "money"},
			{Name: "i", Type: changelog.Type{Root: changelog.RootIntervalDayTime, Interval: changelog.IntervalDayToSecond, Precision: 3, Scale: 1}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseType_Errors(t *testing.T) {
	for _, tt := range []struct {
		in              string
		offset          int
		expected, found string
	}{
		{"", 0, "a Flink type", "the end"},
		{"  -- only a comment", 19, "a Flink type", "the end"},
		{"DESCRIPTOR", 0, "a type that a column can have (DESCRIPTOR is of arguments of table functions only)", "DESCRIPTOR"},
		{"DECIMAL(39, 2)", 8, "a precision from 1 to 38", "39"},
		{"DECIMAL(0)", 8, "a precision from 1 to 38", "0"},
		{"DECIMAL(5, 6)", 11, "a scale from 0 to 5", "6"},
		{"DECIMAL(5 6)", 10, "',' or ')'", "6"},
		{"DECIMAL()", 8, "a precision from 1 to 38", "')'"},
		{"CHAR(0)", 5, "a length from 1 to 2147483647", "0"},
		{"VARCHAR(2147483648)", 8, "a length from 1 to 2147483647", "2147483648"},
		{"VARCHAR(99999999999999999999999)", 8, "a length from 1 to 2147483647", "99999999999999999999999"},
		{"TIME(10)", 5, "a precision from 0 to 9", "10"},
		{"TIMESTAMP(3", 11, "')'", "the end"},
		{"TIMESTAMP(3) WITH LOCAL ZONE", 24, "TIME", "ZONE"},
		{"TIMESTAMP(-1)", 10, "a precision from 0 to 9", "'-'"},
		{"INTERVAL WEEK", 9, "YEAR, MONTH, DAY, HOUR, MINUTE or SECOND", "WEEK"},
		{"INTERVAL SECOND TO DAY", 19, "a finer unit than SECOND", "DAY"},
		{"INTERVAL YEAR TO DAY", 17, "a finer unit than YEAR", "DAY"},
		{"INTERVAL YEAR(5)", 14, "digits of years from 1 to 4", "5"},
		{"INTERVAL DAY(7)", 13, "digits of days from 1 to 6", "7"},
		{"INTERVAL DAY TO", 15, "a finer unit than DAY", "the end"},
		{"INT INT", 4, "the end of the type", "INT"},
		{"INT NOT", 4, "the end of the type", "NOT"},
		{"ARRAY", 5, "'<'", "the end"},
		{"ARRAY<INT", 9, "'>'", "the end"},
		{"MAP<INT>", 7, "','", "'>'"},
		{"ROW", 3, "'<' or '('", "the end"},
		{"ROW<INT>", 7, "a Flink type", "'>'"},
		{"ROW<a INT b INT>", 10, "',' or '>'", "b"},
		{"ROW(a INT>", 9, "',' or ')'", "'>'"},
		{"ROW<a INT, a BIGINT>", 11, "a name that no other field has", "a"},
		{"ROW<` ` INT>", 4, "a name that no other field has", "` `"},
		{"ROW<`a INT>", 4, "the name of a field", "a name without closing back-quote"},
		{"ROW<a INT 'x>", 10, "',' or '>'", "a string without closing quote"},
		{"INT /* x", 4, "the end of the type", "a comment without closing */"},
		{"RAW(x, 'y')", 4, "the name of a class in single quotes", "x"},
		{"SELECT", 0, "a Flink type", "SELECT"},
		{"a.b.c.d", 5, "the end of the type", "'.'"},
		{"\xff", 0, "a Flink type", "'\xff'"},
		{"'text'", 0, "a Flink type", "'text'"},
	} {
		_, err := changelog.ParseType(tt.in)
		var te *changelog.TypeError
		if !errors.As(err, &te) {
			t.Errorf("%q: error %v is no TypeError", tt.in, err)
			continue
		}
		if want := (changelog.TypeError{Offset: tt.offset, Expected: tt.expected, Found: tt.found}); *te != want {
			t.Errorf("%q:\n got %+v\nwant %+v", tt.in, *te, want)
		}
	}
}

func TestScanType_EndsWithTheType(t *testing.T) {
	for _, tt := range []struct{ in, took string }{
		{"INT, b STRING", "INT"},
		{"INT) WITH (", "INT"},
		{"INT NOT NULL PRIMARY KEY NOT ENFORCED", "INT NOT NULL"},
		{"INT PRIMARY KEY NOT ENFORCED", "INT"},
		{"INT NOT ENFORCED", "INT"},
		{" /* x */ INT /* y */ COMMENT 'z'", " /* x */ INT"},
		{"TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL", "TIMESTAMP_LTZ(3)"},
		{"TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA", "TIMESTAMP(3) WITH LOCAL TIME ZONE"},
		{"DOUBLE COMMENT 'PRECISION'", "DOUBLE"},
		{"ROW<a INT>>", "ROW<a INT>"},
		{"INT -- the id\n,", "INT"},
		{"STRING 'unclosed", "STRING"},
	} {
		_, n, err := changelog.ScanType(tt.in)
		if err != nil || tt.in[:n] != tt.took {
			t.Errorf("%q: took %q, error %v, want %q", tt.in, tt.in[:n], err, tt.took)
		}
	}
}

func TestParseType_DepthIsBounded(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("ARRAY<", n) + "INT" + strings.Repeat(">", n) }
	if _, err := changelog.ParseType(deep(99)); err != nil {
		t.Errorf("99 levels: %v", err)
	}
	for _, bomb := range []string{
		deep(1_000_000),
		strings.Repeat("MAP<INT, ", 1_000_000),
		strings.Repeat("ROW(a ", 1_000_000),
		"INT" + strings.Repeat(" ARRAY", 1_000_000),
		strings.Repeat("ARRAY<", 60) + "INT" + strings.Repeat(" ARRAY", 60) + strings.Repeat(">", 60),
	} {
		var te *changelog.TypeError
		if _, err := changelog.ParseType(bomb); !errors.As(err, &te) || te.Expected != "at most 100 types inside one another" {
			t.Errorf("%.20s...: error %v", bomb, err)
		}
	}
}

func TestType_FromSQL(t *testing.T) {
	in := "ROW<t TIME(3) NOT NULL, a ARRAY<TIME(6)>, m MAP<TIME(1), MULTISET<TIME(2)>>, ts TIMESTAMP(3)>"
	typ := parseType(t, in)
	want := "ROW<t TIME(0) NOT NULL, a ARRAY<TIME(0)>, m MAP<TIME(0), MULTISET<TIME(0)>>, ts TIMESTAMP(3)>"
	if got := typ.FromSQL().String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := typ.String(); got != in {
		t.Errorf("FromSQL changed its receiver to %s", got)
	}
}

func TestType_Equal(t *testing.T) {
	types := []string{"INT", "INT NOT NULL", "BIGINT", "CHAR(1)", "CHAR(2)", "DECIMAL(3, 1)", "DECIMAL(3, 2)", "TIME(1)", "TIMESTAMP(1)",
		"INTERVAL DAY(2)", "INTERVAL DAY(2) TO HOUR", "ARRAY<INT>", "MULTISET<INT>", "ARRAY<INT NOT NULL>", "MAP<INT, INT>", "MAP<INT, BIGINT>",
		"MAP<BIGINT, INT>", "ROW<a INT>", "ROW<b INT>", "ROW<a BIGINT>", "ROW<a INT, b INT>", "RAW('a', 'b')", "RAW('a', 'c')", "RAW('b', 'b')",
		"STRUCTURED<'a'>", "STRUCTURED<'a', x INT>", "a", "NULL", "VARIANT", "BITMAP"}
	for i, a := range types {
		for j, b := range types {
			if got := parseType(t, a).Equal(parseType(t, b)); got != (i == j) {
				t.Errorf("%s equal to %s: %v", a, b, got)
			}
		}
	}
	if !parseType(t, "ROW<a INT 'x'>").Equal(parseType(t, "ROW<a INT>")) {
		t.Error("a comment makes another type")
	}
}

func TestType_InvalidPrints(t *testing.T) {
	for _, typ := range []changelog.Type{{}, {Root: 200}, {Root: changelog.RootArray}, {Root: changelog.RootMap}, {Root: changelog.RootIntervalDayTime}} {
		if typ.String() == "" || typ.SQL() == "" {
			t.Errorf("%#v prints nothing", typ)
		}
	}
}

func FuzzParseType(f *testing.F) {
	for _, s := range []string{
		"ROW<`a``b` DECIMAL(10, 2) NOT NULL 'it''s', b MAP<STRING, INT ARRAY>>", "INTERVAL DAY(3) TO SECOND(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE",
		"RAW('a', 'b')", "STRUCTURED<'c', x INT>", "`a`.b NOT NULL", "/* */ INT -- x\n", "ROW()", "ARRAY<ARRAY<", "INT NOT", "'", "`", "ı", "\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		typ, n, err := changelog.ScanType(s)
		if err != nil {
			var te *changelog.TypeError
			if !errors.As(err, &te) || te.Offset < 0 || te.Offset > len(s) || te.Expected == "" || te.Found == "" {
				t.Fatalf("%q: error %#v", s, err)
			}
			return
		}
		if n <= 0 || n > len(s) {
			t.Fatalf("%q: took %d bytes", s, n)
		}
		whole, err := changelog.ParseType(s[:n])
		if err != nil || !whole.Equal(typ) {
			t.Fatalf("%q: the part that was taken is read as %v (%v), want %v", s[:n], whole, err, typ)
		}
		for _, text := range []string{typ.String(), typ.SQL()} {
			back, err := changelog.ParseType(text)
			if err != nil || !back.Equal(typ) || back.SQL() != typ.SQL() && text == typ.SQL() {
				t.Fatalf("%q prints %q, which is read back as %v (%v)", s, text, back, err)
			}
		}
	})
}

// A column of a table has a built-in type; a type by itself may have a name of the user's.
func TestScanType_RefusesUserDefined(t *testing.T) {
	for _, in := range []string{"INTT", "`INT`", "a.b.c", "ARRAY<INTT>"} {
		if _, err := changelog.ParseType(in); err != nil {
			t.Errorf("ParseType %s: %v", in, err)
		}
		var te *changelog.TypeError
		if typ, _, err := changelog.ScanType(in); !errors.As(err, &te) || te.Expected != "a Flink type" {
			t.Errorf("ScanType %s: %v, %v", in, typ, err)
		}
	}
}
