package ddl

import (
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// TestMistakes: every mistake is told with its place, and what could stand there or how to cure it.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string // without "ddl: "
	}{
		{"no table name", "CREATE TABLE (a INT)", `line 1, column 14: expected a table name, found "("`},
		{"string as table name", "CREATE TABLE 't' (a INT)", `line 1, column 14: expected a table name, found a string`},
		{"end in name", "CREATE TABLE a.", `line 1, column 16: expected a table name, found the end of the text`},
		{"four parts", "CREATE TABLE a.b.c.d (x INT)", `line 1, column 14: a table name has at most three parts (catalog, database, table), this one has 4`},
		{"empty name", "CREATE TABLE `` (x INT)", `line 1, column 14: expected a table name, found a name of no characters`},
		{"no columns in parentheses", "CREATE TABLE t ()", `line 1, column 17: expected a column, PRIMARY KEY or WATERMARK, found ")"`},
		{"no columns", "CREATE TABLE t WITH ('connector' = 'kafka')", `line 1, column 1: table t has no columns`},
		{"comma at the end", "CREATE TABLE t (\n  a INT,\n)", `line 3, column 1: expected a column, PRIMARY KEY or WATERMARK, found ")"`},
		{"no comma", "CREATE TABLE t (\n  a INT\n  b INT)", `line 3, column 3: expected ',' or ')', found "b"`},
		{"no type", "CREATE TABLE t (a, b INT)", `line 1, column 18: expected a type for the column`},
		{"reserved type", "CREATE TABLE t (a SELECT)", `line 1, column 19: expected a Flink type, found SELECT`},
		{"bad precision", "CREATE TABLE t (\n\ta DECIMAL(39, 2))", `line 2, column 12: expected a precision from 1 to 38, found 39`},
		{"bad type inside", "CREATE TABLE t (ü ARRAY<ROW<x INT, x INT>>)", `line 1, column 36: expected a name that no other field has, found x`},
		{"column in runes", "CREATE TABLE t (`größe 😀` INT b", `line 1, column 31: expected ',' or ')', found "b"`},
		{"unclosed parentheses", "CREATE TABLE t (a INT", `line 1, column 22: expected ',' or ')', found the end of the text`},
		{"two columns of a name", "CREATE TABLE t (a INT,\n b INT, a STRING)", `line 2, column 9: two columns are called "a"`},
		{"computed and physical of a name", "CREATE TABLE t (a INT, a AS 1)", `line 1, column 24: two columns are called "a"`},
		{"metadata twice", "CREATE TABLE t (`offset` INT METADATA, o BIGINT METADATA FROM 'offset')",
			`line 1, column 40: columns "offset" and "o" both are METADATA FROM "offset": keep one, and make the other a computed column`},
		{"reserved word", "CREATE TABLE t (id INT,\n  Value STRING)", "line 2, column 3: expected a column, PRIMARY KEY or WATERMARK, found \"Value\", a word that Flink's SQL keeps for itself; as a name it stands in back quotes: `Value`"},
		{"reserved word in a key", "CREATE TABLE t (`user` INT, PRIMARY KEY (user) NOT ENFORCED)", "line 1, column 42: expected a column name, found \"user\", a word that Flink's SQL keeps for itself; as a name it stands in back quotes: `user`"},
		{"reserved word in a row", "CREATE TABLE t (r ROW<`order` INT, free STRING>)", "line 1, column 36: expected the name of a field (a word that Flink's SQL keeps for itself is one in back quotes only: `free`), found free"},
		{"reserved word of a table", "CREATE TABLE db.`table`.order (id INT)", "line 1, column 25: expected a table name, found \"order\", a word that Flink's SQL keeps for itself; as a name it stands in back quotes: `order`"},
		{"metadata before type", "CREATE TABLE t (a METADATA INT)", `line 1, column 19: expected a Flink type, found METADATA`},
		{"metadata key not quoted", "CREATE TABLE t (a INT METADATA FROM offset)", `line 1, column 37: expected a metadata key in single quotes, found "offset"`},
		{"not null after metadata", "CREATE TABLE t (a INT METADATA VIRTUAL NOT NULL)", `line 1, column 40: expected ',' or ')', found "NOT"`},
		{"default", "CREATE TABLE t (a INT DEFAULT 1)", `line 1, column 23: expected ',' or ')', found "DEFAULT"`},
		{"comment not quoted", "CREATE TABLE t (a INT COMMENT x)", `line 1, column 31: expected a comment in single quotes, found "x"`},
		{"double quotes", `CREATE TABLE t ("a" INT)`, `line 1, column 17: expected a column, PRIMARY KEY or WATERMARK, found "\""`},
		{"key column missing", "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, c) NOT ENFORCED)",
			`line 1, column 47: PRIMARY KEY column "c" does not exist: there are "a", "b"`},
		{"key column of another case", "CREATE TABLE t (Id INT, PRIMARY KEY (id) NOT ENFORCED)", `line 1, column 38: PRIMARY KEY column "id" does not exist: there are "Id"`},
		{"key column twice", "CREATE TABLE t (a INT, PRIMARY KEY (a, a) NOT ENFORCED)", `line 1, column 40: PRIMARY KEY lists column "a" twice`},
		{"computed key column", "CREATE TABLE t (a AS 1, PRIMARY KEY (a) NOT ENFORCED)",
			`line 1, column 38: PRIMARY KEY column "a" is not a physical column: computed and METADATA columns cannot be part of a key`},
		{"metadata key column", "CREATE TABLE t (a INT METADATA, PRIMARY KEY (a) NOT ENFORCED)",
			`line 1, column 46: PRIMARY KEY column "a" is not a physical column: computed and METADATA columns cannot be part of a key`},
		{"two keys", "CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b INT, CONSTRAINT x PRIMARY KEY (b) NOT ENFORCED)",
			`line 1, column 56: a second PRIMARY KEY: a table has one, which may list several columns: PRIMARY KEY (a, b) NOT ENFORCED`},
		{"key enforced", "CREATE TABLE t (a INT PRIMARY KEY ENFORCED)", `line 1, column 35: a PRIMARY KEY cannot be ENFORCED, as in Flink: write NOT ENFORCED`},
		{"key enforced by default", "CREATE TABLE t (a INT, PRIMARY KEY (a))", `line 1, column 39: expected NOT ENFORCED after PRIMARY KEY, found ")"`},
		{"key without columns", "CREATE TABLE t (a INT, PRIMARY KEY NOT ENFORCED)", `line 1, column 36: expected '(', found "NOT"`},
		{"empty key", "CREATE TABLE t (a INT, PRIMARY KEY () NOT ENFORCED)", `line 1, column 37: expected a column name, found ")"`},
		{"unique", "CREATE TABLE t (a INT, UNIQUE (a) NOT ENFORCED)", `line 1, column 24: UNIQUE is not supported, as in Flink: leave it out, or declare a PRIMARY KEY`},
		{"constraint of nothing", "CREATE TABLE t (a INT CONSTRAINT x NOT NULL)", `line 1, column 36: expected PRIMARY KEY, found "NOT"`},
		{"watermark without AS", "CREATE TABLE t (a INT, WATERMARK FOR a, b INT)", `line 1, column 39: expected AS, found ","`},
		{"watermark of a field", "CREATE TABLE t (a ROW<b INT>, WATERMARK FOR a.b AS a.b)", `line 1, column 46: expected AS, found "."`},
		{"watermark column missing", "CREATE TABLE t (a INT, WATERMARK FOR b AS b)", `line 1, column 38: WATERMARK column "b" does not exist: there are "a"`},
		{"two watermarks", "CREATE TABLE t (a INT, WATERMARK FOR a AS a, WATERMARK FOR a AS a)", `line 1, column 46: a second WATERMARK: a table has one`},
		{"no expression", "CREATE TABLE t (a AS )", `line 1, column 22: expected an expression, found ")"`},
		{"no expression before comment", "CREATE TABLE t (a INT, b AS , c INT)", `line 1, column 29: expected an expression, found ","`},
		{"brackets crossed", "CREATE TABLE t (a AS (b[1)])", `line 1, column 26: expected ']', found ")"`},
		{"expression without end", "CREATE TABLE t (a AS f(1, ; ", `line 1, column 27: expected the end of the expression, ',' or ')', found ";"`},
		{"partition column missing", "CREATE TABLE t (a INT) PARTITIONED BY (b)", `line 1, column 40: PARTITIONED BY column "b" does not exist: there are "a"`},
		{"partitioned without BY", "CREATE TABLE t (a INT) PARTITIONED (b)", `line 1, column 36: expected BY, found "("`},
		{"distribution column missing", "CREATE TABLE t (a INT) DISTRIBUTED BY HASH(a, b)", `line 1, column 47: DISTRIBUTED BY column "b" does not exist: there are "a"`},
		{"distributed nowhere", "CREATE TABLE t (a INT) DISTRIBUTED a", `line 1, column 36: expected BY or INTO, found "a"`},
		{"no buckets", "CREATE TABLE t (a INT) DISTRIBUTED INTO 0 BUCKETS", `line 1, column 41: the number of buckets is not one that fits: expected 1 or more`},
		{"too many buckets", "CREATE TABLE t (a INT) DISTRIBUTED INTO 99999999999999999999 BUCKETS", `line 1, column 41: the number of buckets is not one that fits: expected 1 or more`},
		{"clauses out of order", "CREATE TABLE t (a INT) PARTITIONED BY (a) COMMENT 'x'", `line 1, column 43: expected WITH, ';' or the end of the text, found "COMMENT"`},
		{"word after columns", "CREATE TABLE t (a INT) ENGINE = x",
			`line 1, column 24: expected COMMENT, DISTRIBUTED, PARTITIONED BY, WITH, ';' or the end of the text, found "ENGINE"`},
		{"word after options", "CREATE TABLE t (a INT) WITH ('x' = 'y') COMMENT 'late'", `line 1, column 41: expected ';' or the end of the text, found a word without quotes`},
		{"option without value", "CREATE TABLE t (a INT) WITH ('x')", `line 1, column 33: expected '=', found ")"`},
		{"option value not quoted", "CREATE TABLE t (a INT) WITH ('x' = kafka)", `line 1, column 36: expected an option value in single quotes, found a word without quotes`},
		{"option value is a number", "CREATE TABLE t (a INT) WITH ('x' = 1)", `line 1, column 36: expected an option value in single quotes, found a number`},
		{"option name not quoted", "CREATE TABLE t (a INT) WITH (connector = 'kafka')", `line 1, column 30: expected an option name in single quotes, found a word without quotes`},
		{"comma after options", "CREATE TABLE t (a INT) WITH (\n'x' = 'y',\n)", `line 3, column 1: expected an option name in single quotes, found ")"`},
		{"no comma between options", "CREATE TABLE t (a INT) WITH ('x' = 'y'\n'z' = 'y')", `line 2, column 5: expected ',' or ')', found "="`},
		{"options not closed", "CREATE TABLE t (a INT) WITH ('x' = 'y'", `line 1, column 39: expected ',' or ')', found the end of the text`},
		{"string not closed", "CREATE TABLE t (a INT) WITH (\n 'x' = 'y)", `line 2, column 8: expected a closing single quote, found the end of the text: the string that begins here is not closed`},
		{"string that ends in a doubled quote", "CREATE TABLE t (a INT) WITH ('x' = 'y'')",
			`line 1, column 36: expected a closing single quote, found the end of the text: the string that begins here is not closed`},
		{"name not closed", "CREATE TABLE `t (a INT)", `line 1, column 14: expected a closing back quote, found the end of the text: the name that begins here is not closed`},
		{"comment not closed", "SET 'a' = 'b'; /* CREATE TABLE t (a INT)", `line 1, column 16: expected */, found the end of the text: the comment that begins here is not closed`},
		{"escape string", `CREATE TABLE t (a INT) WITH ('x' = E'\n')`,
			`line 1, column 36: a string that begins with E' is not supported here: write it as '...', with the characters themselves`},
		{"binary string", `CREATE TABLE t (a INT COMMENT x'41')`,
			`line 1, column 31: a string that begins with X' is not supported here: write it as '...', with the characters themselves`},
		{"bad unicode escape", `CREATE TABLE t (a INT COMMENT U&'\00g1')`,
			`line 1, column 31: a string that begins with U&' holds a bad escape: expected \ and four hexadecimal digits`},
		{"lone surrogate", `CREATE TABLE t (a INT COMMENT U&'\d83dx')`,
			`line 1, column 31: a string that begins with U&' holds a bad escape: expected \ and four hexadecimal digits`},
		{"as select", "CREATE TABLE `T x` WITH ('x' = 'y') AS SELECT a FROM b;",
			"line 1, column 37: table T x takes its columns from a query (AS), which only Flink can plan: run SHOW CREATE TABLE `T x` in Flink and use what it prints"},
		{"as select with names", "CREATE TABLE t (a, b)\nAS SELECT 1, 2;",
			"line 2, column 1: table t takes its columns from a query (AS), which only Flink can plan: run SHOW CREATE TABLE `t` in Flink and use what it prints"},
		{"like", "CREATE TABLE t (a INT) WITH ('x' = 'y') LIKE u (EXCLUDING ALL INCLUDING GENERATED)",
			"line 1, column 41: table t takes columns from another one (LIKE), which only Flink's catalog knows: run SHOW CREATE TABLE `t` in Flink and use what it prints"},
		{"second statement", "CREATE TABLE t (a INT);\nUSE x;\n\nCREATE TABLE u (a INT BAR)", `line 4, column 23: expected ',' or ')', found "BAR"`},
		{"after a table without ';'", "CREATE TABLE t (a INT)\nINSERT INTO t SELECT 1",
			`line 2, column 1: expected COMMENT, DISTRIBUTED, PARTITIONED BY, WITH, ';' or the end of the text, found "INSERT"`},
		{"long word", "CREATE TABLE t (a INT " + strings.Repeat("x", 100) + ")", `line 1, column 23: expected ',' or ')', found "` + strings.Repeat("x", 40) + `..."`},
		{"windows line ends", "CREATE TABLE t (\r\n  a INT\r\n  b INT)", `line 3, column 3: expected ',' or ')', found "b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.text)
			if err == nil {
				t.Fatalf("no error, but %v", got)
			}
			if want := "ddl: " + c.want; err.Error() != want {
				t.Errorf("got  %s\nwant %s", err, want)
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%T is not an *Error", err)
			}
			if e.Reason == "" && (e.Expected == "" || e.Found == "" || e.Line == 0) {
				t.Errorf("half an error: %+v", e)
			}
		})
	}
}

func TestMistakeInTypeIsTypeError(t *testing.T) {
	_, err := Parse("CREATE TABLE t (a MAP<INT>)")
	var te *changelog.TypeError
	if !errors.As(err, &te) || te.Expected == "" {
		t.Errorf("%v holds no *changelog.TypeError", err)
	}
}

// TestRefusedTablesTellAll: Parse says all tables that it cannot give, at once.
func TestRefusedTablesTellAll(t *testing.T) {
	_, err := Parse("CREATE TABLE a AS SELECT x FROM y; CREATE TABLE b (x INT); CREATE TABLE c LIKE b;")
	if err == nil || !strings.Contains(err.Error(), "table a takes") || !strings.Contains(err.Error(), "table c takes") {
		t.Errorf("%v", err)
	}
}

func TestFind(t *testing.T) {
	const text = `
SET 'sql-client.execution.result-mode' = 'tableau';
CREATE TABLE Orders (a INT);
CREATE TABLE c.d.Orders (b INT); -- another database
CREATE TABLE "no" ; 
`
	one := "CREATE TABLE `a.b` (x INT);"
	many := "CREATE TABLE Orders (a INT); CREATE TABLE c.d.Orders (b INT); CREATE TABLE `d`.`x``y` (c INT); CREATE TABLE e AS SELECT f FROM g;"
	for _, c := range []struct {
		text, name, want string
	}{
		{one, "", "`a.b`"},
		{one, "a.b", "`a.b`"},
		{one, "`a.b`", "`a.b`"},
		{many, "c.d.Orders", "`c`.`d`.`Orders`"},
		{many, "d.Orders", "`c`.`d`.`Orders`"},
		{many, "`d`.`Orders`", "`c`.`d`.`Orders`"},
		{many, "`x``y`", "`d`.`x``y`"},
		{many, "x`y", "`d`.`x``y`"},
		{many, "d.`x``y`", "`d`.`x``y`"},
		{many, "Orders", "ddl: line 1, column 30: the text creates table \"Orders\" 2 times: qualify the name or leave one statement, of `Orders`, `c`.`d`.`Orders`"},
		{many, "orders", "ddl: the text creates no table called \"orders\" (names are case-sensitive, and qualified only as far as the statement does: `Orders`): there are `Orders`, `c`.`d`.`Orders`, `d`.`x``y`, `e`"},
		{many, "z.Orders", "ddl: the text creates no table called \"z.Orders\" (names are case-sensitive, and qualified only as far as the statement does: `Orders`): there are `Orders`, `c`.`d`.`Orders`, `d`.`x``y`, `e`"},
		{many, "none", "ddl: the text creates no table called \"none\": there are `Orders`, `c`.`d`.`Orders`, `d`.`x``y`, `e`"},
		{many, "`none", "ddl: the text creates no table called \"`none\": there are `Orders`, `c`.`d`.`Orders`, `d`.`x``y`, `e`"},
		{many, "", "ddl: the text creates 4 tables: say which one, of `Orders`, `c`.`d`.`Orders`, `d`.`x``y`, `e`"},
		{many, "e", "ddl: line 1, column 111: table e takes its columns from a query (AS), which only Flink can plan: run SHOW CREATE TABLE `e` in Flink and use what it prints"},
		{"SELECT 1;", "", "ddl: the text holds no CREATE TABLE statement: it has 1 statement, SELECT"},
		{"SET 'a' = 'hunter2';\nuse x;;\nhunter2; (", "t", "ddl: the text holds no CREATE TABLE statement: it has 4 statements, SET, USE and others"},
		{"CREAT TABLE t (a INT)", "", "ddl: the text holds no CREATE TABLE statement: it has 1 statement, CREAT"},
		{"{\"type\": \"record\"}", "", "ddl: the text holds no CREATE TABLE statement: it has 1 statement, of no kind that Flink has"},
		{"-- nothing", "x", "ddl: the text holds no CREATE TABLE statement: it has no statement"},
		{"", "x", "ddl: the text holds no CREATE TABLE statement: it has no statement"},
		{text, "Orders", "ddl: line 5, column 14: expected a table name, found \"\\\"\""},
	} {
		got, err := Find(c.text, c.name)
		text := ""
		if err != nil {
			text = err.Error()
		} else {
			text = got.fullName()
		}
		if text != c.want {
			t.Errorf("Find %q:\ngot  %s\nwant %s", c.name, text, c.want)
		}
	}
}

// TestUnknownTypes: a name that is no type of Flink's is told at its place, with the type that was likely meant.
func TestUnknownTypes(t *testing.T) {
	for _, c := range []struct{ typ, want string }{ // want without "expected a Flink type, found "; the type begins in column 19
		{"INTT", `column 19: INTT: did you mean INT?`},
		{"intt NOT NULL", `column 19: intt: did you mean INT?`},
		{"BIGNIT", `column 19: BIGNIT: did you mean BIGINT?`},
		{"STIRNG", `column 19: STIRNG: did you mean STRING?`},
		{"TIMESTMP(3)", `column 19: TIMESTMP: did you mean TIMESTAMP?`},
		{"TEXT", `column 19: TEXT: did you mean STRING?`},
		{"Varchar2(20)", `column 19: Varchar2: did you mean VARCHAR?`},
		{"DATETIME", `column 19: DATETIME: did you mean TIMESTAMP?`},
		{"DATETIME2(7)", `column 19: DATETIME2: did you mean TIMESTAMP?`},
		{"TIMESTAMPTZ", `column 19: TIMESTAMPTZ: did you mean TIMESTAMP_LTZ?`},
		{"SERIAL", `column 19: SERIAL: did you mean BIGINT?`},
		{"REAL", `column 19: REAL: did you mean FLOAT?`},
		{"NUMBER(10, 2)", `column 19: NUMBER: did you mean DECIMAL?`},
		{"bool", `column 19: bool: did you mean BOOLEAN?`},
		{"JSONB", `column 19: JSONB: did you mean STRING?`},
		{"`INT`", "column 19: `INT`: did you mean INT, without quotes?"},
		{"`INTT`", "column 19: `INTT`: did you mean INT, without quotes?"},
		{"GEOMETRY", `column 19: GEOMETRY`},
		{"POINT", `column 19: POINT`},
		{"cat.db.TEXT", `column 19: cat`},
		{"`my``db`.t", "column 19: `my``db`"},
		{"ARRAY<TEXT>", `column 25: TEXT: did you mean STRING?`},
		{"MAP<INTT, INT>", `column 23: INTT: did you mean INT?`},
		{"MAP<INT, INTT>", `column 28: INTT: did you mean INT?`},
		{"MULTISET<INTT>", `column 28: INTT: did you mean INT?`},
		{"ROW<x INT, y ROW(z INTT)>", `column 38: INTT: did you mean INT?`},
		{"STRUCTURED<'C', x INTT>", `column 37: INTT: did you mean INT?`},
		{"INTT ARRAY", `column 19: INTT: did you mean INT?`},
		{"INTT METADATA FROM 'offset' VIRTUAL", `column 19: INTT: did you mean INT?`},
	} {
		_, err := Parse("CREATE TABLE t (a " + c.typ + ")")
		place, found, _ := strings.Cut(c.want, ": ")
		if want := "ddl: line 1, " + place + ": expected a Flink type, found " + found; err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", c.typ, err, want)
		}
		var te *changelog.TypeError
		if !errors.As(err, &te) {
			t.Errorf("%s: %v holds no *changelog.TypeError", c.typ, err)
		}
	}
	for _, typ := range []string{"STRUCTURED<'C', x INT>", "RAW('C', 'AA==')", "STRUCTURED<'C'>", "INT ARRAY", "VARIANT"} {
		if _, err := Parse("CREATE TABLE t (a " + typ + ")"); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

// TestInterval: Flink's own CREATE TABLE cannot say it, what SHOW CREATE TABLE prints can.
func TestInterval(t *testing.T) {
	for _, typ := range []string{"INTERVAL MONTH", "INTERVAL SECOND(3) NOT NULL", "INTERVAL YEAR(4) TO MONTH", "INTERVAL DAY(3) TO SECOND(3)",
		"ARRAY<INTERVAL MONTH>", "MAP<STRING, INTERVAL MONTH>", "MAP<INTERVAL MONTH, INT>", "ROW<a INT, b ROW<c INTERVAL MONTH>>", "INTERVAL MONTH MULTISET"} {
		for _, name := range []string{"t", "db.t"} {
			_, err := Parse("CREATE TABLE " + name + " (\n  a " + typ + ", b INT)")
			if err == nil || !strings.Contains(err.Error(), "line 2, column 5: Flink takes no INTERVAL in a CREATE TABLE") || !strings.Contains(err.Error(), "use what SHOW CREATE TABLE prints") {
				t.Errorf("%s in %s: %v", typ, name, err)
			}
		}
		if _, err := Parse("CREATE TABLE `c`.`db`.`t` (`a` " + typ + ")"); err != nil {
			t.Errorf("%s as SHOW CREATE TABLE prints it: %v", typ, err)
		}
	}
	if _, err := Parse("CREATE TABLE t (ts TIMESTAMP(3), d AS ts - INTERVAL '1' DAY, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"); err != nil {
		t.Errorf("in expressions: %v", err)
	}
	if _, err := Parse("CREATE TABLE t (a DESCRIPTOR)"); err == nil || !strings.Contains(err.Error(), "table functions") {
		t.Errorf("DESCRIPTOR: %v", err)
	}
}

// TestCreateOfNothing: a CREATE of something that Flink does not create is a slip of the pen, and not a statement to skip.
func TestCreateOfNothing(t *testing.T) {
	const expected = "expected TABLE, or what else Flink creates (VIEW, FUNCTION, CATALOG, DATABASE, MODEL, MATERIALIZED TABLE), found "
	for _, c := range []struct{ text, want string }{
		{"CREATE TABL orders (id INT)", `line 1, column 8: ` + expected + `"TABL"`},
		{"SET 'a' = 'b';\n create or replace temporary tabel t (a INT);", `line 2, column 30: ` + expected + `"tabel"`},
		{"CREATE IF NOT EXISTS t (a INT)", `line 1, column 8: ` + expected + `"IF"`},
		{"CREATE", `line 1, column 7: ` + expected + `the end of the text`},
		{"CREATE 'hunter2'", `line 1, column 8: ` + expected + `a string`},
		{"CREATE OR REPLAC TABLE t (a INT)", `line 1, column 11: expected REPLACE, found "REPLAC"`},
		{"CREATE EXTERNAL TABLE t (a INT)", `line 1, column 8: ` + expected + `"EXTERNAL"`},
		{"CREATE TABLE t (a INT);\nCREATE TABL u (a INT);", `line 2, column 8: ` + expected + `"TABL"`},
	} {
		_, err := Find(c.text, "")
		var e *Error
		if !errors.As(err, &e) || err.Error() != "ddl: "+c.want {
			t.Errorf("%s:\ngot  %v\nwant ddl: %s", c.text, err, c.want)
		}
	}
	for _, other := range []string{"VIEW v AS SELECT 1", "OR REPLACE VIEW v AS SELECT 1", "TEMPORARY VIEW v AS SELECT 1", "FUNCTION f AS 'C'",
		"TEMPORARY SYSTEM FUNCTION f AS 'C'", "CATALOG c WITH ('type' = 'jdbc')", "database d", "MODEL m WITH ('a' = 'b')",
		"TEMPORARY MODEL m WITH ('a' = 'b')", "MATERIALIZED TABLE m AS SELECT 1", "OR ALTER MATERIALIZED TABLE m AS SELECT 1", "CONNECTION c WITH ('a' = 'b')"} {
		if got, err := Find("CREATE "+other+";\nCREATE TABLE t (a INT)", ""); err != nil || got.Name() != "t" {
			t.Errorf("%s: %v, %v", other, got, err)
		}
	}
}
