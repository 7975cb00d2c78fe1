package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
)

// This file holds what values have gone through on their way from a topic into a table.

// topic decodes the messages of an upsert-kafka or a debezium topic and writes each into a lane.
type topic struct {
	*writer
	d *format.Decoder
}

// upsertTopic makes a lane for a topic of upsert-kafka in json; columns end with the PRIMARY KEY.
func (e *env) upsertTopic(columns string) *topic {
	return e.topic(columns, "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'")
}

func (e *env) topic(columns, options string) *topic {
	e.t.Helper()
	tab, err := ddl.Find("CREATE TABLE kv ("+columns+") WITH ("+options+")", "")
	if err != nil {
		e.t.Fatal(err)
	}
	d, err := format.New(tab, []changelog.Format{json.Format{}, debezium.Format{}}, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	o := e.options()
	o.CreateTable = true
	return &topic{e.writer(e.pool(nil), o, d.Table()), d}
}

// read decodes one message, at the next offset.
func (p *topic) read(key, value string) ([]changelog.Change, error) {
	r := &changelog.Record{Partition: part0, Offset: p.at, Key: []byte(key), Value: []byte(value)}
	if value == "" {
		r.Value = nil
	}
	b := changelog.NewBatch(p.table)
	if err := p.d.Decode(b, r); err != nil {
		return nil, err
	}
	p.at++
	return b.Changes, nil
}

// take reads a message and writes it as a checkpoint of its own.
func (p *topic) take(key, value string) {
	p.t.Helper()
	cs, err := p.read(key, value)
	if err != nil {
		p.t.Fatalf("%s %s: %v", key, value, err)
	}
	p.put(cs...)
}

// Whole numbers keep their digits: in columns, in keys, inside of nested values (P10).
func TestTopic_WholeNumbers(t *testing.T) {
	e := newEnv(t)
	p := e.upsertTopic("k BIGINT, big BIGINT, wide DECIMAL(20, 0), nested ROW<a BIGINT, m MAP<STRING, BIGINT>, l ARRAY<DECIMAL(20, 0)>>, s STRING, PRIMARY KEY (k) NOT ENFORCED")
	for _, n := range []string{"2129020", "2129021", "9007199254740993", "1234567890123456789", "-9223372036854775808"} {
		p.take(`{"k":`+n+`}`, `{"k":`+n+`,"big":`+n+`,"wide":18446744073709551615,"nested":{"a":`+n+`,"m":{"x":`+n+`},"l":[18446744073709551615,`+n+`]},"s":{"n":`+n+`}}`)
		want := fmt.Sprintf(`%[1]s|%[1]s|18446744073709551615|{"a": %[1]s, "l": [18446744073709551615, %[1]s], "m": {"x": %[1]s}}|{"n":%[1]s}`, n)
		if got := e.one("SELECT concat_ws('|', k, big, wide, nested, s) FROM kv WHERE k = " + n); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := e.one("SELECT count(*) FROM kv"); got != "5" {
		t.Errorf("%s rows: two keys became one", got)
	}
	for _, n := range []string{"2129021", "9007199254740993", "1234567890123456789", "-9223372036854775808"} {
		p.take(`{"k":`+n+`}`, "")
	}
	if got := e.all("SELECT k FROM kv"); !slices.Equal(got, []string{"(2129020)"}) {
		t.Errorf("after the deletes: %v", got)
	}
	// What does not fit is an error with the message's place, not another number; in the text, too.
	for _, m := range [][2]string{
		{`{"k":1}`, `{"k":1,"big":18446744073709551615}`}, {`{"k":18446744073709551615}`, ""}, {`{"k":1}`, `{"k":1,"nested":{"m":{"x":9223372036854775808}}}`}, {`{"k":1}`, `{"k":1,"wide":184467440737095516150}`},
	} {
		_, err := p.read(m[0], m[1])
		var de *changelog.DataError
		if !errors.As(err, &de) || de.Offset != p.at || strings.Contains(err.Error(), "e+") || strings.Contains(err.Error(), "18446744073709551615") {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// NaN and the infinities arrive as what they are: as themselves in columns, as texts in JSON, which has no such numbers. A DECIMAL takes none,
// and there is no NULL in their place (P11).
func TestTopic_NotANumber(t *testing.T) {
	e := newEnv(t)
	p := e.upsertTopic("k INT, d DOUBLE, f FLOAT, r ROW<d DOUBLE>, m MAP<STRING, FLOAT>, l ARRAY<DOUBLE>, t DECIMAL(10, 2), PRIMARY KEY (k) NOT ENFORCED")
	for i, n := range []string{"NaN", "Infinity", "-Infinity"} {
		p.take(fmt.Sprintf(`{"k":%d}`, i), fmt.Sprintf(`{"k":%d,"d":"%[2]s","f":"%[2]s","r":{"d":"%[2]s"},"m":{"x":"%[2]s"},"l":["%[2]s"]}`, i, n))
		want := fmt.Sprintf(`%d|%[2]s|%[2]s|{"d": "%[2]s"}|{"x": "%[2]s"}|{%[2]s}`, i, n)
		if got := e.one(fmt.Sprintf("SELECT concat_ws('|', k, d, f, r, m, l) FROM kv WHERE k = %d", i)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if _, err := p.read(`{"k":9}`, `{"k":9,"t":"`+n+`"}`); err == nil {
			t.Errorf("a DECIMAL takes %s", n)
		}
	}
	keyed := newEnv(t)
	k := keyed.upsertTopic("d DOUBLE, v STRING, PRIMARY KEY (d) NOT ENFORCED")
	for _, n := range []string{"NaN", "Infinity", "-Infinity"} {
		k.take(`{"d":"`+n+`"}`, `{"d":"`+n+`","v":"a"}`)
		k.take(`{"d":"`+n+`"}`, `{"d":"`+n+`","v":"b"}`)
	}
	if got, want := keyed.all("SELECT * FROM kv"), []string{"(-Infinity,b)", "(Infinity,b)", "(NaN,b)"}; !slices.Equal(got, want) {
		t.Errorf("as keys: %v", got)
	}
	k.take(`{"d":"NaN"}`, "")
	if got := keyed.one("SELECT count(*) FROM kv"); got != "2" {
		t.Errorf("%s rows after the delete of NaN", got)
	}
}

// Instants before year 1 and beyond year 9999 are stored as they are, in a column, in a key and in an array; what Postgres cannot hold is
// refused, and not moved to another day (P12).
func TestTopic_DistantInstants(t *testing.T) {
	e := newEnv(t)
	p := e.upsertTopic("k TIMESTAMP_LTZ(3), v TIMESTAMP_LTZ(3), l ARRAY<TIMESTAMP_LTZ(3)>, r ROW<v TIMESTAMP_LTZ(3)>, d DATE, PRIMARY KEY (k) NOT ENFORCED")
	for _, c := range []struct{ text, day, pg, json string }{
		{"0000-12-31 23:40:28Z", "0000-12-31", "0001-12-31 23:40:28 BC", "0000-12-31T23:40:28.000Z"},
		{"+15000-12-31 23:40:28Z", "+15000-12-31", "15000-12-31 23:40:28", "+15000-12-31T23:40:28.000Z"},
	} {
		key := `{"k":"` + c.text + `"}`
		for range 2 {
			p.take(key, fmt.Sprintf(`{"k":"%[1]s","v":"%[1]s","l":["%[1]s"],"r":{"v":"%[1]s"},"d":"%[2]s"}`, c.text, c.day))
		}
		day, era, _ := strings.Cut(c.pg, " ")
		if strings.HasSuffix(era, "BC") {
			day += " BC"
		}
		want := strings.Join([]string{c.pg, c.pg, c.pg, c.json, day}, "|")
		got := e.one("SELECT concat_ws('|', k AT TIME ZONE 'UTC', v AT TIME ZONE 'UTC', l[1] AT TIME ZONE 'UTC', r->>'v', d) FROM kv WHERE k = '" +
			strings.TrimSuffix(c.pg, " BC") + "+00" + map[bool]string{true: " BC"}[strings.HasSuffix(c.pg, "BC")] + "'")
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		p.take(key, "")
	}
	if got := e.one("SELECT count(*) FROM kv"); got != "0" {
		t.Errorf("%s rows after the deletes", got)
	}
	for _, beyond := range []string{"-5000-01-01 00:00:00Z", "+294277-01-01 00:00:00Z"} {
		for _, m := range []string{`"v":"` + beyond + `"`, `"l":["` + beyond + `"]`} {
			cs, err := p.read(`{"k":"2024-01-01 00:00:00Z"}`, `{"k":"2024-01-01 00:00:00Z",`+m+`}`)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.write(cs...); sink.ClassOf(err) != sink.ErrRejected {
				t.Errorf("%s: %v", m, err)
			}
			p.c.Discard(t.Context())
			p.acquire()
		}
	}
}

// A key whose members are in another order is the same key: a delete finds its row (P13).
func TestTopic_KeyMembersInAnyOrder(t *testing.T) {
	e := newEnv(t)
	p := e.upsertTopic("a INT, b INT, v STRING, PRIMARY KEY (a, b) NOT ENFORCED")
	p.take(`{"a":1,"b":2}`, `{"a":1,"b":2,"v":"x"}`)
	p.take(`{"b":2, "a":1}`, `{"v":"y","b":2,"a":1}`)
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,2,y)"}) {
		t.Errorf("%v", got)
	}
	p.take(`{ "b" : 2.0e0 , "a" : "1" , "c" : null }`, "")
	if got := e.all("SELECT * FROM kv"); len(got) > 0 {
		t.Errorf("after the delete: %v", got)
	}
}

// A NUL in the text of one change of a hundred: that one is refused, with its place and column; without it the others are written, and
// nothing was cut out of it (P47). Wherever the server would be the one to refuse, it is not asked.
func TestTopic_NULInOneOfMany(t *testing.T) {
	for _, columns := range []string{"k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED", "k INT, v ROW<t STRING>, PRIMARY KEY (k) NOT ENFORCED", "k INT, v ARRAY<STRING>, PRIMARY KEY (k) NOT ENFORCED",
		"k INT, v MAP<STRING, INT>, PRIMARY KEY (k) NOT ENFORCED"} {
		t.Run(columns, func(t *testing.T) {
			e := newEnv(t)
			p := e.upsertTopic(columns)
			value := func(text string) string {
				switch {
				case strings.Contains(columns, "ROW"):
					return `{"t":` + text + `}`
				case strings.Contains(columns, "ARRAY"):
					return `[` + text + `]`
				case strings.Contains(columns, "MAP"):
					return `{` + text + `:1}`
				}
				return text
			}
			var good, all []changelog.Change
			for k := range 100 {
				text := `"Hello world!"`
				if k == 41 {
					text = `"Hello world\u0000!"`
				}
				cs, err := p.read(fmt.Sprintf(`{"k":%d}`, k), fmt.Sprintf(`{"k":%d,"v":%s}`, k, value(text)))
				if err != nil {
					t.Fatal(err)
				}
				if all = append(all, cs...); k != 41 {
					good = append(good, cs...)
				}
			}
			err := p.write(all...)
			var se *sink.Error
			if !errors.As(err, &se) || se.Class != sink.ErrRejected || se.Position == nil || se.Position.Offset != 41 || se.Position.Partition != part0 {
				t.Fatalf("Write: %v", err)
			}
			if !strings.Contains(err.Error(), `column "v"`) || strings.Contains(err.Error(), "Hello") {
				t.Errorf("the text: %v", err)
			}
			p.c.Discard(t.Context())
			p.acquire()
			p.at = 100
			p.put(good...)
			if got := e.one("SELECT count(*) || ' ' || count(*) FILTER (WHERE k = 41) FROM kv"); got != "99 0" {
				t.Errorf("%s", got)
			}
		})
	}
}

// An UPDATE that does not know a column, and a delete that knows its key alone, from their text to the table (P09, P14).
func TestTopic_ColumnsNotSent(t *testing.T) {
	e := newEnv(t)
	p := e.topic("k INT, body STRING, a INT, PRIMARY KEY (k) NOT ENFORCED", "'connector' = 'kafka', 'format' = 'debezium-json'")
	p.take(`{"k":1}`, `{"op":"c","before":null,"after":{"k":1,"body":"X","a":1}}`)
	p.take(`{"k":1}`, `{"op":"u","before":{"k":1},"after":{"k":1,"body":"`+debezium.DefaultUnavailableValue+`","a":2}}`)
	if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,X,2)"}) {
		t.Errorf("%v", got)
	}
	p.take(`{"k":1}`, `{"op":"d","before":{"k":1},"after":null}`)
	if got := e.all("SELECT * FROM kv"); len(got) > 0 {
		t.Errorf("%v", got)
	}
}
