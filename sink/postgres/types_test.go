package postgres_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
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

// typeCases are values of every type, the column they go into, and what the server then prints with its own output functions. Among them
// the control of P48, an escaped backslash before u0000, and P49, texts that go into jsonb and uuid without a cast of the user's.
var typeCases = []struct {
	flink, pg string // pg "": what SQL makes of it
	value     changelog.Value
	want      string
}{
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
}

func TestTypes_RoundTrip(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TYPE mood AS ENUM ('sad', 'very happy'); CREATE DOMAIN words AS text")
	// Settings of the session that change how the server reads and prints texts must change nothing.
	p := e.pool(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["datestyle"] = "SQL, DMY"
		c.ConnConfig.RuntimeParams["intervalstyle"] = "sql_standard"
		c.ConnConfig.RuntimeParams["timezone"] = "America/St_Johns"
		c.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1"
		c.ConnConfig.RuntimeParams["extra_float_digits"] = "-5"
		c.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
		c.ConnConfig.RuntimeParams["bytea_output"] = "escape"
		c.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	for _, tc := range typeCases {
		t.Run(tc.flink+" to "+tc.pg, func(t *testing.T) {
			e.exec("DROP TABLE IF EXISTS kv")
			tb := table(t, "kv", upsert, "k", "k INT NOT NULL", "v "+tc.flink)
			o := e.options()
			o.CreateTable = tc.pg == ""
			if tc.pg != "" {
				e.exec("CREATE TABLE kv (k int PRIMARY KEY, v " + tc.pg + ")")
			}
			c, err := e.lane(p, "", o, tb)
			if err != nil {
				t.Fatal(err)
			}
			w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
			w.acquire()
			defer c.Close(t.Context())
			err = w.write(w.change(changelog.Insert, num(1), tc.value), w.change(changelog.Insert, num(2), null))
			if tc.want == "NULL" {
				if sink.ClassOf(err) != sink.ErrRejected {
					t.Fatalf("expected a rejection: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.finish()
			var got string
			var second bool
			conn, err := e.admin.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			if _, err := conn.Exec(t.Context(), "SET timezone = 'UTC'"); err != nil {
				t.Fatal(err)
			}
			if err := conn.QueryRow(t.Context(), "SELECT (SELECT v::text FROM kv WHERE k = 1), (SELECT v IS NULL FROM kv WHERE k = 2)").Scan(&got, &second); err != nil {
				t.Fatal(err)
			}
			if got != tc.want || !second {
				t.Errorf("got  %s\nwant %s (NULL: %v)", got, tc.want, second)
			}
		})
	}
}

// Every type that can be a key finds its row again, to update and to delete it.
func TestTypes_Keys(t *testing.T) {
	e := newEnv(t)
	for _, tc := range typeCases {
		if strings.ContainsAny(tc.flink, "<") || tc.pg == "json" || tc.pg == "jsonb" || strings.HasPrefix(tc.pg, "char") || tc.want == "NULL" {
			continue
		}
		t.Run(tc.flink+" to "+tc.pg, func(t *testing.T) {
			e.exec("DROP TABLE IF EXISTS kv; DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('sad', 'very happy'); DROP DOMAIN IF EXISTS words; CREATE DOMAIN words AS text")
			tb := table(t, "kv", upsert, "k x", "k "+tc.flink+" NOT NULL", "v STRING", "x INT NOT NULL")
			o := e.options()
			o.CreateTable = tc.pg == ""
			if tc.pg != "" {
				e.exec("CREATE TABLE kv (k " + tc.pg + ", v text, x int, PRIMARY KEY (x, k))")
			}
			c, err := e.lane(e.pool(nil), "", o, tb)
			if err != nil {
				t.Fatal(err)
			}
			w := &writer{t: t, ctx: t.Context(), c: c, table: tb}
			w.acquire()
			defer c.Close(t.Context())
			w.put(w.change(changelog.Insert, tc.value, str("a"), num(1)), w.change(changelog.Insert, tc.value, str("a"), num(2)))
			w.put(w.change(changelog.UpdateAfter, tc.value, str("b"), num(1)))
			if got := e.one("SELECT string_agg(v, ',' ORDER BY x) FROM kv"); got != "b,a" {
				t.Errorf("after the update: %s", got)
			}
			w.put(w.change(changelog.Delete, tc.value, null, num(2)))
			if got := e.one("SELECT string_agg(v || x, ',') FROM kv"); got != "b1" {
				t.Errorf("after the delete: %s", got)
			}
		})
	}
}

// A type whose input function would make another value of a text than the text, or cut it, takes no STRING.
func TestTypes_StringRefused(t *testing.T) {
	e := newEnv(t)
	e.exec(`CREATE DOMAIN short AS name; CREATE DOMAIN shorter AS short; CREATE TYPE pair AS (a int, b int)`)
	for _, pg := range []string{`"char"`, "name", "short", "shorter", "bytea", "tsvector", "tsquery", "bit(4)", "bit varying", "bit varying(4)", "int4range", "tstzrange",
		"point", "box", "money", "interval", "timestamptz", "integer", "numeric", "boolean", "pair", "regclass", "oid", "pg_lsn", "int2vector", "name[]", `"char"[]`, "box[]", "text[]"} {
		e.exec("DROP TABLE IF EXISTS kv; CREATE TABLE kv (k int PRIMARY KEY, v " + pg + ")")
		_, err := e.lane(e.pool(nil), "", e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING"))
		if sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), "make the column text") {
			t.Errorf("STRING into %s: %v", pg, err)
		}
	}
	for flink, refused := range map[string][]string{
		"ARRAY<STRING>":       {"name[]", `"char"[]`, "bytea[]", "tsvector[]", "oidvector", "tsvector", "int4multirange"},
		"ARRAY<SMALLINT>":     {"int2vector", "oidvector"},
		"BIGINT":              {"oid", "money", "double precision", "real", `"char"`, "name", "char(30)"},
		"BYTES":               {"bit varying", "uuid", "char(20)", "name"},
		"DECIMAL(10, 2)":      {"money", "double precision", "numeric(10,1)", "bigint", "char(20)"},
		"DOUBLE":              {"real", "numeric", "money", "char(20)"},
		"DATE":                {"timestamp", "timestamptz", "char(10)", "name"},
		"BOOLEAN":             {`"char"`, "integer", "bit(1)", "char(5)"},
		"MAP<STRING, STRING>": {"name", "bytea", "char(20)", "varchar(9)", "xml"},
	} {
		for _, pg := range refused {
			if pg == "int4multirange" && e.one("SELECT to_regtype('int4multirange')") == "NULL" {
				continue // Postgres 13
			}
			e.exec("DROP TABLE IF EXISTS kv; CREATE TABLE kv (k int PRIMARY KEY, v " + pg + ")")
			if _, err := e.lane(e.pool(nil), "", e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "v "+flink)); sink.ClassOf(err) != sink.ErrConfig {
				t.Errorf("%s into %s: %v", flink, pg, err)
			}
		}
	}
}

// citext keeps a text as it is, but finds it by any case.
func TestTypes_Citext(t *testing.T) {
	e := newEnv(t)
	if e.one("SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'") == "0" {
		t.Skip("the server has no extension citext")
	}
	e.exec("CREATE EXTENSION citext SCHEMA " + e.schema + "; CREATE DOMAIN ci AS citext")
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, a citext, b ci, c citext[])")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "a STRING", "b STRING", "c ARRAY<STRING>"))
	w.put(w.change(changelog.Insert, num(1), str("Ab "), str("cD"), array(str("E"), str("e"))))
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{`(1,"Ab ",cD,"{E,e}")`}) {
		t.Errorf("%v", got)
	}
	e.exec("CREATE TABLE by (k ci PRIMARY KEY)")
	_, err := e.lane(e.pool(nil), "by", e.options(), table(t, "kv", upsert, "k", "k STRING NOT NULL"))
	wantConfig(t, err, "cannot hold a key", "text")
}

// xml is parsed, and kept as it is written. A server without libxml has the type, but not its input.
func TestTypes_XML(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k int PRIMARY KEY, v xml)")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "v STRING"))
	const text = "<a  b='1'>\n c</a>"
	err := w.write(w.change(changelog.Insert, num(1), str(text)))
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code == "0A000" {
		t.Skip("the server was built without libxml")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.finish()
	if got := e.one("SELECT v FROM kv"); got != text {
		t.Errorf("%q", got)
	}
}

// TruncateNanos cuts digits off, and never rounds up.
func TestTypes_TruncateNanos(t *testing.T) {
	e := newEnv(t)
	o := e.options()
	o.CreateTable, o.TruncateNanos = true, true
	w := e.writer(e.pool(nil), o, table(t, "kv", upsert, "k", "k INT NOT NULL", "a TIMESTAMP(9)", "b TIMESTAMP_LTZ(9)", "c TIME(9)"))
	w.put(w.change(changelog.Insert, num(1), stamp(1969, 12, 31, 86399, 999999999), instant(2024, 1, 1, 0, 1999), changelog.TimeValue(86399_999_999_999)))
	if got := e.one("SELECT a || ' ' || (b AT TIME ZONE 'UTC') || ' ' || c FROM kv"); got != "1969-12-31 23:59:59.999999 2024-01-01 00:00:00.000001 23:59:59.999999" {
		t.Errorf("%s", got)
	}
}

// A change that Postgres cannot hold is told by its position and column, and its value is not (P47, P48).
func TestWrite_Rejected(t *testing.T) {
	const secret = "SECRET"
	for _, tc := range []struct {
		name, flink, pg string
		value           changelog.Value
		state           string // of the server's error, where the server is the one to find it
	}{
		{"NUL", "STRING", "text", str(secret + "\x00"), ""},
		{"half a surrogate pair", "STRING", "text", str(secret + "\xed\xa0\x80"), ""},
		{"NUL in JSON", "STRING", "jsonb", str(`{"a":"` + secret + `\u0000"}`), ""},
		{"half a surrogate pair in JSON", "STRING", "jsonb", str(`{"a":"` + secret + `\ud800"}`), ""},
		{"second half alone in JSON", "STRING", "jsonb", str(`["` + secret + `\udc00"]`), ""},
		{"two first halves in JSON", "STRING", "jsonb", str(`["` + secret + `\ud800\ud800"]`), ""},
		{"NUL in a MAP", "MAP<STRING, STRING>", "jsonb", mapOf(str("a"), str(secret+"\x00")), ""},
		{"NULL key of a MAP", "MAP<STRING, STRING>", "jsonb", mapOf(null, str(secret)), ""},
		{"too long", "STRING", "varchar(5)", str(secret), ""},
		{"too long with spaces", "STRING", "varchar(5)", str("abcde "), ""},
		{"too long in an array", "ARRAY<STRING>", "varchar(5)[]", array(str(secret)), ""},
		{"no uuid", "STRING", "uuid", str(secret), "22P02"},
		{"no JSON", "STRING", "jsonb", str(secret), "22P02"},
		{"no enum value", "STRING", "mood", str(secret), "22P02"},
		{"no number in a domain", "STRING", "positive", str(secret), "23514"},
		{"check", "STRING", "text CHECK (v <> 'SECRET')", str(secret), "23514"},
		{"unique", "STRING", "text UNIQUE DEFAULT 'x'", str("SECRET0"), "23505"},
		{"not null", "STRING", "text NOT NULL", null, ""},
		{"date", "DATE", "date", date(5874898, 1, 1), ""},
		{"date BC", "DATE", "date", date(-4800, 1, 1), ""},
		{"timestamp", "TIMESTAMP(3)", "timestamp", stamp(294277, 1, 1, 0, 0), ""},
		{"index row too large", "STRING", "text UNIQUE", str(strings.Repeat("SECRETx0Qp7", 1) + random(100000)), "54000"},
		{"trigger", "STRING", "text", str("raise " + secret), "P0001"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t)
			e.exec(`CREATE TYPE mood AS ENUM ('sad'); CREATE DOMAIN positive AS text CHECK (value ~ '^[0-9]+$')`)
			e.exec("CREATE TABLE kv (k int PRIMARY KEY, v " + tc.pg + ")")
			if tc.state == "23505" {
				e.exec("INSERT INTO kv VALUES (77, 'SECRET0')")
			}
			if tc.state == "P0001" {
				e.exec(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v LIKE 'raise%' THEN RAISE EXCEPTION 'cannot: %', NEW.v; END IF; RETURN NEW; END $$;
					CREATE TRIGGER no BEFORE INSERT ON kv FOR EACH ROW EXECUTE FUNCTION no()`)
			}
			w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k INT NOT NULL", "v "+tc.flink))
			w.at = 41
			err := w.write(w.change(changelog.Insert, num(1), tc.value))
			if sink.ClassOf(err) != sink.ErrRejected {
				t.Fatalf("expected a rejection: %v", err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the text holds the value: %v", err)
			}
			if !strings.Contains(err.Error(), "topic/0@41") {
				t.Errorf("the text does not hold the position: %v", err)
			}
			var pe *pgconn.PgError
			switch {
			case tc.state == "" && !strings.Contains(err.Error(), `column "v"`):
				t.Errorf("the text does not name the column: %v", err)
			case tc.state == "22P02" && !strings.Contains(err.Error(), `column "v"`):
				t.Errorf("the text does not name the column: %v", err)
			case tc.state != "" && (!errors.As(err, &pe) || pe.Code != tc.state):
				t.Errorf("expected SQLSTATE %s: %v", tc.state, err)
			}
			if err := w.prepare(); err == nil {
				t.Error("Prepare after a failed Write succeeded")
			}
			if err := w.save(); err == nil {
				t.Error("Save after a failed Write succeeded")
			}
			if err := w.c.Discard(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.acquire()
			w.put() // the lane goes on on a clean connection
		})
	}
}

// A change that no decoder makes is rejected with its position, wherever it stands in the batch, and never a panic.
func TestWrite_Malformed(t *testing.T) {
	for _, mode := range []string{upsert, appnd} {
		e := newEnv(t)
		tb := e.anyTable()
		e.exec("CREATE TABLE kv (k bigint, v text)")
		if mode == appnd {
			tb.Schema.Key, tb.Mode = nil, changelog.Append
		} else {
			e.exec("ALTER TABLE kv ADD PRIMARY KEY (k)")
		}
		w := e.writer(e.pool(nil), e.options(), tb)
		for what, bad := range map[string]changelog.Change{
			"nil row":           {Kind: changelog.Insert},
			"nil row, key only": {Kind: changelog.Delete, KeyOnly: true},
			"empty row":         {Kind: changelog.UpdateAfter, Row: changelog.Row{}},
			"short row":         {Kind: changelog.Insert, Row: changelog.Row{num(1)}},
			"long row":          {Kind: changelog.Insert, Row: changelog.Row{num(1), str("a"), str("b")}},
			"invalid kind":      {Kind: changelog.Kind(4), Row: changelog.Row{num(1), str("a")}},
			"kind 255":          {Kind: changelog.Kind(255), Row: changelog.Row{num(1), str("a")}},
		} {
			bad.Partition, bad.Offset = part0, 41
			err := w.write(w.change(changelog.Insert, num(1), str("a")), bad, w.change(changelog.Insert, num(1), str("b")))
			if sink.ClassOf(err) != sink.ErrRejected || !strings.Contains(err.Error(), "topic/0@41") {
				t.Errorf("%s: %v", what, err)
			}
			if err := w.c.Discard(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.at = w.from
		w.put(w.change(changelog.Insert, num(1), str("c")))
		if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,c)"}) {
			t.Errorf("%v", got)
		}
	}
}

// random is text that does not compress.
func random(n int) string {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = 'a' + byte(x%26)
	}
	return string(b)
}

// NULL is the key of no row, and no DELETE ... IS NULL is made of it.
func TestWrite_NullKey(t *testing.T) {
	for _, kind := range []changelog.Kind{changelog.Insert, changelog.Delete} {
		e := newEnv(t)
		e.exec("CREATE TABLE kv (k bigint UNIQUE, v text); INSERT INTO kv VALUES (NULL, 'mine')")
		w := e.writer(e.pool(nil), e.options(), e.anyTable())
		err := w.write(w.change(kind, null, str("a")))
		if sink.ClassOf(err) != sink.ErrRejected || !strings.Contains(err.Error(), `column "k"`) {
			t.Errorf("%v: %v", kind, err)
		}
	}
}

// Two spellings of a uuid are two keys in the topic and one in the table: said so, not repeated for ever.
func TestWrite_KeysFold(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k uuid PRIMARY KEY, v text)")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k STRING NOT NULL", "v STRING"))
	err := w.write(w.change(changelog.Insert, str("6f9619ff-8b86-d011-b42d-00c04fc964ff"), str("a")), w.change(changelog.Insert, str("6F9619FF-8B86-D011-B42D-00C04FC964FF"), str("b")))
	wantConfig(t, err, "21000", "one key")
}

// Columns that the source did not send stay what they are.
func TestWrite_Unchanged(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, a text, b text)")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "a STRING", "b STRING"))
	same := changelog.UnchangedValue()
	w.put(w.change(changelog.Insert, num(1), str("a1"), str("b1")), w.change(changelog.Insert, num(2), str("a2"), str("b2")), w.change(changelog.Insert, num(3), str("a3"), str("b3")),
		w.change(changelog.Insert, num(4), str("a4"), str("b4")))
	w.put(
		w.change(changelog.UpdateAfter, num(1), same, str("B1")),
		w.change(changelog.UpdateAfter, num(2), null, same),
		w.change(changelog.UpdateAfter, num(3), same, same),
		w.change(changelog.UpdateAfter, num(4), str("A4"), str("B4")),
		w.change(changelog.Insert, num(5), str("a5"), str("b5")),
		w.change(changelog.UpdateAfter, num(5), same, str("B5"))) // known within the batch
	if got := e.one("SELECT string_agg(coalesce(a, '-') || b, ' ' ORDER BY k) FROM kv"); got != "a1B1 -b2 a3b3 A4B4 a5B5" {
		t.Errorf("%s", got)
	}
	// Without a row there is nothing to keep, and nothing is guessed.
	for _, row := range [][]changelog.Value{{num(9), same, str("x")}, {num(9), same, same}} {
		at := w.at
		err := w.write(w.change(changelog.UpdateAfter, num(1), same, str("x")), w.change(changelog.UpdateAfter, row...), w.change(changelog.UpdateAfter, num(2), same, str("x")))
		var se *sink.Error
		if !errors.As(err, &se) || se.Class != sink.ErrRejected || se.Position == nil || se.Position.Offset != at+1 {
			t.Errorf("%v", err)
		}
		w.c.Discard(t.Context())
		w.acquire()
	}
	err := w.write(w.change(changelog.UpdateAfter, same, str("x"), str("x")))
	if sink.ClassOf(err) != sink.ErrRejected {
		t.Errorf("Unchanged in the key: %v", err)
	}
	w.c.Discard(t.Context())
	w.acquire()
	if got := e.one("SELECT string_agg(b, ' ' ORDER BY k) FROM kv"); got != "B1 b2 b3 B4 B5" {
		t.Errorf("%s", got)
	}
}

// Rows without a key are appended as often as they come; they cannot be taken away.
func TestWrite_Append(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE log (v text)")
	tb := table(t, "log", appnd, "", "v STRING")
	w := e.writer(e.pool(nil), e.options(), tb)
	w.put(w.change(changelog.Insert, str("a")), w.change(changelog.Insert, str("a")), w.change(changelog.Insert, null))
	if got := e.one("SELECT count(*) || ' ' || count(v) FROM log"); got != "3 2" {
		t.Errorf("%s", got)
	}
	for _, c := range []changelog.Change{w.change(changelog.Delete, str("a")), w.change(changelog.Insert, changelog.UnchangedValue()), w.change(changelog.Insert)} {
		if err := w.write(c); sink.ClassOf(err) != sink.ErrRejected {
			t.Errorf("%v", err)
		}
		w.c.Discard(t.Context())
	}
}

// One batch of many bytes is sent in pieces, and two kinds of change of many keys in one.
func TestWrite_LargeBatch(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	w := e.writer(e.pool(nil), e.options(), tb)
	big := str(strings.Repeat("x", 1<<20))
	var cs []changelog.Change
	for i := range int64(20) {
		cs = append(cs, w.change(changelog.Insert, num(i), big))
	}
	for i := range int64(12000) {
		cs = append(cs, w.change(changelog.Insert, num(100+i), str("y")))
	}
	w.put(cs...)
	cs = cs[:0]
	for i := range int64(12000) {
		if i%2 == 0 {
			cs = append(cs, w.change(changelog.Delete, num(100+i), null))
		} else {
			cs = append(cs, w.change(changelog.UpdateBefore, num(100+i), str("y")), w.change(changelog.UpdateAfter, num(100+i), str("z")))
		}
	}
	w.put(cs...)
	if got := e.one("SELECT count(*) || ' ' || sum(length(v)) || ' ' || count(*) FILTER (WHERE v = 'z') FROM kv"); got != "6020 20977520 6000" {
		t.Errorf("%s", got)
	}
}
