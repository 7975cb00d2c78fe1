package postgres_test

import (
	"math"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

func date(y int64, m, d int) changelog.Value { return changelog.DateValue(changelog.DaysOf(y, m, d)) }

func stamp(y int64, m, d int, sec int64, nsec int32) changelog.Value {
	return changelog.TimestampValue(changelog.DaysOf(y, m, d)*86400+sec, nsec)
}

func instant(y int64, m, d int, sec int64, nsec int32) changelog.Value {
	return changelog.TimestampLTZValue(changelog.DaysOf(y, m, d)*86400+sec, nsec)
}

func dec(text string, p, s int) changelog.Value {
	v, err := changelog.ParseDecimal([]byte(text), p, s)
	if err != nil {
		panic(err)
	}
	return v
}

func array(vs ...changelog.Value) changelog.Value { return changelog.ArrayValue(vs) }
func mapOf(vs ...changelog.Value) changelog.Value { return changelog.MapValue(vs) }
func rowOf(vs ...changelog.Value) changelog.Value { return changelog.RowValue(vs) }

var null changelog.Value

type typeCase struct {
	flink, pg string // pg "": what SQL makes of it
	value     changelog.Value
	want      string
}

// typeCases are values of every type, the column they go into, and what the server then prints with its own output functions. Among them
// the control of P48, an escaped backslash before u0000, and P49, texts that go into jsonb and uuid without a cast of the user's.
var typeCases = []typeCase{
	{"BOOLEAN", "", changelog.BoolValue(true), "true"},
	{"BOOLEAN", "", changelog.BoolValue(false), "false"},
	{"BOOLEAN", "text", changelog.BoolValue(true), "TRUE"},
	{"TINYINT", "", num(-128), "-128"},
	{"TINYINT", "real", num(-128), "-128"},
	{"TINYINT", "numeric(3)", num(127), "127"},
	{"SMALLINT", "", num(-32768), "-32768"},
	{"SMALLINT", "bigint", num(32767), "32767"},
	{"INT", "", num(math.MinInt32), "-2147483648"},
	{"INT", "double precision", num(math.MaxInt32), "2147483647"},
	{"BIGINT", "", num(math.MaxInt64), "9223372036854775807"},
	{"BIGINT", "", num(9007199254740993), "9007199254740993"},
	{"BIGINT", "numeric", num(math.MinInt64), "-9223372036854775808"},
	{"BIGINT", "numeric(19,0)", num(1234567890123456789), "1234567890123456789"},
	{"BIGINT", "text", num(-5), "-5"},
	{"FLOAT", "", changelog.FloatValue(0.1), "0.1"},
	{"FLOAT", "double precision", changelog.FloatValue(0.5), "0.5"},
	{"FLOAT", "double precision", changelog.FloatValue(0.1), "0.10000000149011612"},
	{"FLOAT", "", changelog.FloatValue(float32(math.NaN())), "NaN"},
	{"DOUBLE", "", changelog.DoubleValue(math.Inf(-1)), "-Infinity"},
	{"DOUBLE", "", changelog.DoubleValue(math.SmallestNonzeroFloat64), "5e-324"},
	{"DOUBLE", "", changelog.DoubleValue(math.Copysign(0, -1)), "-0"},
	{"DECIMAL(10, 2)", "", dec("-12345678.90", 10, 2), "-12345678.90"},
	{"DECIMAL(10, 2)", "numeric", dec("0.05", 10, 2), "0.05"},
	{"DECIMAL(10, 2)", "numeric(20,5)", dec("1.5", 10, 2), "1.50000"},
	{"DECIMAL(38, 18)", "", dec("12345678901234567890.123456789012345678", 38, 18), "12345678901234567890.123456789012345678"},
	{"DECIMAL(38, 18)", "", dec("-0.000000000000000001", 38, 18), "-0.000000000000000001"},
	{"DECIMAL(38, 0)", "", dec("99999999999999999999999999999999999999", 38, 0), "99999999999999999999999999999999999999"},
	{"DECIMAL(38, 38)", "", dec("0.00000000000000000000000000000000000001", 38, 38), "0.00000000000000000000000000000000000001"},
	{"DECIMAL(5, 1)", "", dec("10000", 6, 1), "NULL"}, // out of range: see want "NULL" below
	{"DECIMAL(20, 0)", "", dec("18446744073709551615", 20, 0), "18446744073709551615"},
	{"DECIMAL(9, 0)", "integer", dec("-999999999", 9, 0), "-999999999"},
	{"DECIMAL(10, 4)", "", dec("0", 10, 4), "0.0000"},
	{"DECIMAL(10, 2)", "text", dec("1.50", 10, 2), "1.50"},
	{"CHAR(3)", "", str("ab "), "ab "},
	{"CHAR(3)", "char(3)", str("ab"), "ab"},
	{"VARCHAR(10)", "varchar(10)", str("äöü€𝄞abcde"), "äöü€𝄞abcde"},
	{"STRING", "", str(""), ""},
	{"STRING", "", str("a'b\"c\\d\ne{},NULL"), "a'b\"c\\d\ne{},NULL"},
	{"STRING", "uuid", str("6F9619FF-8B86-D011-B42D-00C04FC964FF"), "6f9619ff-8b86-d011-b42d-00c04fc964ff"},
	{"STRING", "json", str(`{"b":1.0,  "a":"\u0000"}`), `{"b":1.0,  "a":"\u0000"}`},
	{"STRING", "jsonb", str(`{"b":1.0,  "a":"\\u0000 \ud83d\ude00"}`), `{"a": "\\u0000 😀", "b": 1.0}`},
	{"STRING", "inet", str("10.0.0.1/8"), "10.0.0.1/8"},
	{"STRING", "mood", str("very happy"), "very happy"},
	{"STRING", "cidr", str("10.0.0.0/8"), "10.0.0.0/8"},
	{"STRING", "macaddr", str("08:00:2b:01:02:03"), "08:00:2b:01:02:03"},
	{"STRING", "macaddr8", str("08:00:2b:01:02:03:04:05"), "08:00:2b:01:02:03:04:05"},
	{"STRING", "words", str("two  words "), "two  words "},
	{"BYTES", "", changelog.BytesValue([]byte{0, 255, '\\', '\''}), `\x00ff5c27`},
	{"BYTES", "", changelog.BytesValue(nil), `\x`},
	{"BINARY(2)", "text", changelog.BytesValue([]byte{0xab, 1}), "ab01"},
	{"DATE", "", date(2024, 2, 29), "2024-02-29"},
	{"DATE", "", date(-4712, 1, 1), "4713-01-01 BC"},
	{"DATE", "", date(5874897, 12, 31), "5874897-12-31"},
	{"DATE", "text", date(12024, 1, 1), "+12024-01-01"},
	{"TIME(0)", "", changelog.TimeValue(0), "00:00:00"},
	{"TIME(3)", "", changelog.TimeValue(86399_999_000_000), "23:59:59.999"},
	{"TIME(6)", "time", changelog.TimeValue(1000), "00:00:00.000001"},
	{"TIME(9)", "", changelog.TimeValue(1), "00:00:00.000000001"}, // text
	{"TIMESTAMP(3)", "", stamp(1754, 8, 30, 81821, 129000000), "1754-08-30 22:43:41.129"},
	{"TIMESTAMP(6)", "timestamp", stamp(2024, 2, 29, 86399, 999999000), "2024-02-29 23:59:59.999999"},
	{"TIMESTAMP(6)", "", stamp(294276, 12, 31, 86399, 999999000), "294276-12-31 23:59:59.999999"},
	{"TIMESTAMP(0)", "", stamp(-4712, 1, 1, 0, 0), "4713-01-01 00:00:00 BC"},
	{"TIMESTAMP(6)", "", stamp(0, 12, 31, 85228, 1000), "0001-12-31 23:40:28.000001 BC"},
	{"TIMESTAMP(9)", "", stamp(2024, 1, 1, 0, 123456789), "2024-01-01 00:00:00.123456789"}, // text
	{"TIMESTAMP_LTZ(3)", "", instant(2024, 7, 1, 0, 5000000), "2024-07-01 00:00:00.005+00"},
	{"TIMESTAMP_LTZ(6)", "", instant(15000, 12, 31, 86399, 0), "15000-12-31 23:59:59+00"},
	{"INTERVAL YEAR TO MONTH", "", num(-14), "-1 years -2 mons"},
	{"INTERVAL DAY TO SECOND(3)", "", num(-90061001), "-25:01:01.001"},
	{"INTERVAL DAY TO SECOND(3)", "text", num(90061001), "+1 01:01:01.001"},
	{"ARRAY<INT>", "", array(num(1), null, num(-3)), "{1,NULL,-3}"},
	{"ARRAY<INT>", "bigint[]", array(), "{}"},
	{"ARRAY<STRING>", "", array(str(""), str("NULL"), null, str(`a"b\c,{}`), str(" x ")), `{"","NULL",NULL,"a\"b\\c,{}"," x "}`},
	{"ARRAY<STRING>", "varchar(4)[]", array(str("äöüß")), `{äöüß}`},
	{"ARRAY<STRING>", "uuid[]", array(str("6f9619ff-8b86-d011-b42d-00c04fc964ff")), `{6f9619ff-8b86-d011-b42d-00c04fc964ff}`},
	{"ARRAY<BOOLEAN>", "", array(changelog.BoolValue(true), changelog.BoolValue(false)), "{t,f}"},
	{"ARRAY<DOUBLE>", "", array(changelog.DoubleValue(math.Inf(1)), changelog.DoubleValue(math.NaN()), changelog.DoubleValue(-1e300)), "{Infinity,NaN,-1e+300}"},
	{"ARRAY<DECIMAL(38, 18)>", "", array(dec("-1.5", 38, 18)), "{-1.500000000000000000}"},
	{"ARRAY<BYTES>", "", array(changelog.BytesValue([]byte{0, 1}), changelog.BytesValue(nil)), `{"\\x0001","\\x"}`},
	{"ARRAY<DATE>", "", array(date(2024, 2, 29), date(-1, 1, 2)), `{2024-02-29,"0002-01-02 BC"}`},
	{"ARRAY<TIME(3)>", "", array(changelog.TimeValue(1000000)), "{00:00:00.001}"},
	{"ARRAY<TIMESTAMP(6)>", "", array(stamp(-1, 1, 2, 3, 1000), stamp(12024, 1, 1, 0, 0)), `{"0002-01-02 00:00:03.000001 BC","12024-01-01 00:00:00"}`},
	{"ARRAY<TIMESTAMP_LTZ(3)>", "", array(instant(2024, 1, 1, 1, 0)), `{"2024-01-01 00:00:01+00"}`},
	{"ARRAY<FLOAT>", "", array(changelog.FloatValue(0.1), changelog.FloatValue(math.SmallestNonzeroFloat32)), "{0.1,1e-45}"},
	{"ARRAY<FLOAT>", "double precision[]", array(changelog.FloatValue(0.1)), "{0.10000000149011612}"}, // as FLOAT into double precision
	{"ARRAY<BOOLEAN>", "text[]", array(changelog.BoolValue(true)), "{TRUE}"},
	{"ARRAY<INT>", "jsonb", array(num(1), null), "[1, null]"},
	{"ARRAY<ARRAY<INT>>", "", array(array(num(1)), array(num(2), num(3)), null), "[[1], [2, 3], null]"},
	{"MAP<STRING, BIGINT>", "", mapOf(str(`k"\`), num(9007199254740993), str(""), null), `{"": null, "k\"\\": 9007199254740993}`},
	{"MAP<INT, STRING>", "json", mapOf(num(2), str("\x01\n€")), `{"2":"\u0001\n€"}`},
	{"MAP<ROW<a INT>, INT>", "", mapOf(rowOf(num(1)), num(2)), `[[{"a": 1}, 2]]`},
	{"MULTISET<STRING>", "", mapOf(str("a"), num(2), str("b"), num(1)), `{"a": 2, "b": 1}`},
	{"ROW<a DECIMAL(38, 18), b BYTES, c DOUBLE, d TIMESTAMP_LTZ(3), e DATE, `f g` BOOLEAN>", "",
		rowOf(dec("0.1", 38, 18), changelog.BytesValue([]byte("hi?>")), changelog.DoubleValue(math.NaN()), instant(2024, 1, 1, 1, 0), date(2024, 1, 1), null),
		`{"a": 0.100000000000000000, "b": "aGk/Pg==", "c": "NaN", "d": "2024-01-01T00:00:01.000Z", "e": "2024-01-01", "f g": null}`},
	{"ROW<a INT>", "text", rowOf(num(1)), `{"a":1}`},

	{"TINYINT", "integer", num(-128), "-128"},
	{"TINYINT", "bigint", num(127), "127"},
	{"TINYINT", "double precision", num(-1), "-1"},
	{"TINYINT", "text", num(-1), "-1"},
	{"SMALLINT", "integer", num(-32768), "-32768"},
	{"SMALLINT", "numeric(5)", num(-32768), "-32768"},
	{"SMALLINT", "real", num(32767), "32767"},
	{"SMALLINT", "double precision", num(32767), "32767"},
	{"SMALLINT", "text", num(0), "0"},
	{"INT", "bigint", num(math.MinInt32), "-2147483648"},
	{"INT", "numeric", num(math.MaxInt32), "2147483647"},
	{"INT", "text", num(math.MaxInt32), "2147483647"},
	{"FLOAT", "text", changelog.FloatValue(0.1), "0.1"},
	{"DOUBLE", "", changelog.DoubleValue(math.MaxFloat64), "1.7976931348623157e+308"},
	{"DOUBLE", "text", changelog.DoubleValue(1e300), "1.0E300"},
	{"DECIMAL(4, 0)", "smallint", dec("-9999", 4, 0), "-9999"},
	{"DECIMAL(18, 0)", "bigint", dec("999999999999999999", 18, 0), "999999999999999999"},
	{"MAP<STRING, ARRAY<INT>>", "", mapOf(str("a"), array(num(1), null)), `{"a": [1, null]}`},
	{"MAP<STRING, ARRAY<INT>>", "json", mapOf(str("a"), array(num(1))), `{"a":[1]}`},
	{"MAP<STRING, ARRAY<INT>>", "text", mapOf(str("a"), array(num(1))), `{"a":[1]}`},
	{"ARRAY<ROW<x INT>>", "", array(rowOf(num(1))), `[{"x": 1}]`},
	{"ARRAY<ROW<x INT>>", "json", array(rowOf(num(1))), `[{"x":1}]`},
	{"ARRAY<ROW<x INT>>", "text", array(rowOf(num(1))), `[{"x":1}]`},
	{"ARRAY<MAP<STRING, INT>>", "", array(mapOf(str("a"), num(1)), null), `[{"a": 1}, null]`},
	{"ARRAY<MAP<STRING, INT>>", "json", array(mapOf(str("a"), num(1))), `[{"a":1}]`},
	{"ARRAY<MAP<STRING, INT>>", "text", array(mapOf(str("a"), num(1))), `[{"a":1}]`},
	{"DECIMAL(9, 0)", "", dec("-999999999", 9, 0), "-999999999"},
	{"DECIMAL(9, 0)", "bigint", dec("999999999", 9, 0), "999999999"},
	{"DECIMAL(9, 0)", "text", dec("-1", 9, 0), "-1"},
	{"DECIMAL(4, 0)", "", dec("9999", 4, 0), "9999"},
	{"DECIMAL(4, 0)", "integer", dec("-9999", 4, 0), "-9999"},
	{"DECIMAL(4, 0)", "bigint", dec("9999", 4, 0), "9999"},
	{"DECIMAL(4, 0)", "text", dec("0", 4, 0), "0"},
	{"DECIMAL(18, 0)", "", dec("-999999999999999999", 18, 0), "-999999999999999999"},
	{"DECIMAL(18, 0)", "text", dec("1", 18, 0), "1"},
	{"TINYINT", "numeric", num(-128), "-128"},
	{"SMALLINT", "numeric", num(-1), "-1"},
	{"STRING", "char(3)", str("ab "), "ab"},
	{"TIMESTAMP_LTZ(9)", "", instant(2024, 1, 1, 0, 123456789), "2024-01-01 00:00:00.123456789"},
	{"VARBINARY(3)", "", changelog.BytesValue([]byte{1, 2, 3}), `\x010203`},
	{"DATE", "", date(1, 1, 1), "0001-01-01"},
	{"TIME(3)", "text", changelog.TimeValue(1_500_000_000), "00:00:01.5"},
	{"TIMESTAMP(3)", "text", stamp(2024, 2, 29, 1, 5000000), "2024-02-29 00:00:01.005"},
	{"TIMESTAMP_LTZ(3)", "text", instant(2024, 2, 29, 1, 5000000), "2024-02-29 00:00:01.005"},
	{"TIMESTAMP_LTZ(6)", "", instant(-4712, 1, 1, 0, 0), "4713-01-01 00:00:00+00 BC"},
	{"TIMESTAMP_LTZ(6)", "", instant(294276, 12, 31, 86399, 999999000), "294276-12-31 23:59:59.999999+00"},
	{"INTERVAL YEAR TO MONTH", "text", num(-14), "-1-02"},
	{"INTERVAL DAY TO SECOND(3)", "", num(math.MaxInt32*3600000 + 3599999), "2147483647:59:59.999"},
	{"ARRAY<INT>", "json", array(num(1), null), "[1,null]"},
	{"ARRAY<INT>", "text", array(num(1), null), "[1,null]"},
	{"ARRAY<STRING>", "jsonb[]", array(str(`{"a": "b\\c"}`), null, str("1")), `{"{\"a\": \"b\\\\c\"}",NULL,1}`},
	{"ARRAY<STRING>", "mood[]", array(str("very happy"), str("sad")), `{"very happy",sad}`},
	{"ARRAY<INTERVAL DAY TO SECOND(3)>", "", array(num(-90061001), num(math.MaxInt32*3600000+3599999), num(0)), `{-25:01:01.001,2147483647:59:59.999,00:00:00}`},
	{"ARRAY<INTERVAL YEAR TO MONTH>", "", array(num(-14), num(25)), `{"-1 years -2 mons","2 years 1 mon"}`},
	{"ARRAY<ROW<x INT, y STRING>>", "point2[]", array(rowOf(num(1), str("a,b")), null, rowOf(null, null)), `{"(1,\"a,b\")",NULL,"(,)"}`},
	{"ARRAY<MAP<STRING, STRING>>", "hstore[]", array(mapOf(str("a"), str("b"))), `{"\"a\"=>\"b\""}`},
	{"ARRAY<ARRAY<INT>>", "json", array(array(num(1)), null), "[[1],null]"},
	{"ARRAY<ARRAY<INT>>", "text", array(array(num(1))), "[[1]]"},
	{"ARRAY<ARRAY<INT>>", "int[][]", array(array(num(1), num(2)), array(null, num(-3))), "{{1,2},{NULL,-3}}"},
	{"ARRAY<ARRAY<INT>>", "int[]", array(array(num(math.MinInt32))), "{{-2147483648}}"}, // to the server the same type
	{"ARRAY<ARRAY<INT>>", "int[][]", array(), "{}"},
	{"ARRAY<ARRAY<INT>>", "bigint[3][3]", array(array(num(1)), array(num(2))), "{{1},{2}}"}, // lengths are not held to
	{"ARRAY<ARRAY<ARRAY<STRING>>>", "text[][][]", array(array(array(str(`a"b`), str("{}")), array(null, str("NULL"))), array(array(str(""), str(`\`)), array(str(" x,"), str("y")))),
		`{{{"a\"b","{}"},{NULL,"NULL"}},{{"","\\"},{" x,",y}}}`},
	{"ARRAY<ARRAY<DECIMAL(10, 2)>>", "numeric(10,2)[][]", array(array(dec("1.50", 10, 2), dec("-0.05", 10, 2))), "{{1.50,-0.05}}"},
	{"ARRAY<ARRAY<TIMESTAMP_LTZ(6)>>", "timestamptz[][]", array(array(instant(2024, 1, 2, 3, 4000)), array(null)), `{{"2024-01-02 00:00:03.000004+00"},{NULL}}`},
	{"ARRAY<ARRAY<DOUBLE>>", "double precision[][]", array(array(changelog.DoubleValue(math.Inf(-1)), changelog.DoubleValue(math.NaN()))), "{{-Infinity,NaN}}"},
	{"ARRAY<ARRAY<ROW<x INT, y STRING>>>", "point2[][]", array(array(rowOf(num(1), str("a,b")), null)), `{{"(1,\"a,b\")",NULL}}`},
	{"ARRAY<ARRAY<MAP<STRING, STRING>>>", "hstore[][]", array(array(mapOf(str("a"), str("b")))), `{{"\"a\"=>\"b\""}}`},
	{"ROW<grid ARRAY<ARRAY<INT>>>", "chart", rowOf(array(array(num(1), num(2)), array(num(3), num(4)))), `("{{1,2},{3,4}}")`},
	{"ARRAY<STRING>", "words[]", array(str(`a"b`), null, str("NULL"), str("")), `{"a\"b",NULL,"NULL",""}`},
	{"ARRAY<STRING>", "code[]", array(str("a1"), str("b")), `{a1,b}`},
	{"ARRAY<STRING>", "code[]", array(str("a1"), null), "NULL"}, // which the domain refuses
	{"ARRAY<STRING>", "code[]", array(str("not a code")), "NULL"},
	{"ARRAY<STRING>", "code[]", array(str("too long a code for it")), "NULL"},
	{"ARRAY<DECIMAL(10, 2)>", "price[]", array(dec("1.50", 10, 2), null, dec("-99999999.99", 10, 2)), "{1.50,NULL,-99999999.99}"},
	{"ARRAY<INT>", "codes", array(num(3), null), "{3,NULL}"},
	{"ARRAY<INT>", "codes", array(), "NULL"},
	{"ARRAY<STRING>", "moods", array(str("very happy"), str("sad")), `{"very happy",sad}`},
	{"ARRAY<STRING>", "glad[]", array(str("very happy"), null), `{"very happy",NULL}`},
	{"ARRAY<STRING>", "glad[]", array(str("sad")), "NULL"},
	{"STRING", "glad", str("very happy"), "very happy"},
	{"ARRAY<TIMESTAMP(3)>", "moment[]", array(stamp(2024, 1, 2, 3, 5000000)), `{"2024-01-02 00:00:03.005"}`},
	{"ARRAY<ROW<x INT, y STRING>>", "point3[]", array(rowOf(num(1), str("a,b")), null, rowOf(null, str(""))), `{"(1,\"a,b\")",NULL,"(,\"\")"}`},
	{"ROW<x INT, y STRING>", "point3", rowOf(num(1), str("a")), `(1,a)`},
	{"ROW<c ARRAY<STRING>, p ROW<x INT, y STRING>>", "kit", rowOf(array(str("a1"), str("b2")), rowOf(num(1), null)), `("{a1,b2}","(1,)")`},
	{"ARRAY<MAP<STRING, STRING>>", "pairs[]", array(mapOf(str("a"), str("b"))), `{"\"a\"=>\"b\""}`},
	{"ARRAY<ARRAY<INT>>", "codes[]", array(array(num(1)), null, array(num(2), null, num(3))), `{"{1}",NULL,"{2,NULL,3}"}`}, // arrays of any length, and none
	{"ARRAY<ARRAY<STRING>>", "code[][]", array(array(str("a"), str("b")), array(str("c"), str("d"))), `{{a,b},{c,d}}`},
	{"MAP<STRING, INT>", "text", mapOf(str("a"), num(1)), `{"a":1}`},
	{"MAP<STRING, STRING>", "hstore", mapOf(str(`a"\ =>`), str(""), str("b"), null), `"b"=>NULL, "a\"\\ =>"=>""`},
	{"MAP<INT, DECIMAL(10, 2)>", "hstore", mapOf(num(7), dec("1.50", 10, 2)), `"7"=>"1.50"`},
	{"MULTISET<STRING>", "json", mapOf(str("a"), num(2)), `{"a":2}`},
	{"MULTISET<STRING>", "text", mapOf(str("a"), num(2)), `{"a":2}`},
	{"ROW<a INT, b STRING>", "json", rowOf(num(1), null), `{"a":1,"b":null}`},
	{"ROW<y STRING, x INT>", "point2", rowOf(str("q\"\\ (),\n"), num(-1)), "(-1,\"q\"\"\\\\ (),\n\")"},
	{"ROW<x INT, y STRING>", "point2", rowOf(null, str("")), `(,"")`},
	{"ROW<x INT, y STRING>", "point2", rowOf(num(1), null), `(1,)`},
	{"ROW<p ROW<x INT, y STRING>, tags ARRAY<STRING>, at TIMESTAMP(3), raw BYTES, n DECIMAL(10, 2), doc STRING>", "place",
		rowOf(rowOf(num(1), str("a")), array(str("x,y"), null), stamp(2024, 1, 2, 3, 0), changelog.BytesValue([]byte{0xff}), dec("-0.50", 10, 2), str(`{"k":[1]}`)),
		`("(1,a)","{""x,y"",NULL}","2024-01-02 00:00:03","\\xff",-0.50,"{""k"": [1]}")`},
}

// allTypeCases are typeCases, and those of text for varchar too.
func allTypeCases() []typeCase {
	out := slices.Clone(typeCases)
	for _, tc := range typeCases {
		if tc.pg == "text" || tc.pg == "" && rowIsText(tc.flink) {
			tc.pg = "varchar"
			out = append(out, tc)
		}
	}
	return out
}

// rowIsText reports whether CreateTable makes text of a type that is no text.
func rowIsText(flink string) bool { return strings.HasSuffix(flink, "(9)") }
