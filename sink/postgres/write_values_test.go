package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
)

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
		{"arrays of two lengths", "ARRAY<ARRAY<STRING>>", "text[][]", array(array(str(secret)), array(str("a"), str("b"))), ""},
		{"arrays of two lengths, deeper", "ARRAY<ARRAY<ARRAY<STRING>>>", "text[]", array(array(array(str(secret))), array(array(str("a"), str("b")))), ""},
		{"arrays of two numbers of arrays", "ARRAY<ARRAY<ARRAY<STRING>>>", "text[]", array(array(array(str(secret))), array(array(str("a")), array(str("b")))), ""},
		{"a NULL among arrays", "ARRAY<ARRAY<STRING>>", "text[][]", array(array(str(secret)), null), ""},
		{"NULLs for arrays", "ARRAY<ARRAY<STRING>>", "text[][]", array(null, null), ""},
		{"an empty array among arrays", "ARRAY<ARRAY<STRING>>", "text[][]", array(array(str(secret)), array()), ""},
		{"empty arrays", "ARRAY<ARRAY<STRING>>", "text[][]", array(array(), array()), ""},
		{"too long in an array of arrays", "ARRAY<ARRAY<STRING>>", "varchar(5)[][]", array(array(str(secret))), ""},
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
			err := w.refusal([]changelog.Change{w.change(changelog.Insert, num(1), tc.value)})
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
