package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
)

// blamed renders what an error names: offset, index and column.
func blamed(err error) string {
	var e *sink.Error
	if !errors.As(err, &e) {
		return fmt.Sprint("no sink.Error: ", err)
	}
	var out []string
	for _, r := range e.Rejected {
		text := fmt.Sprint(r.Offset)
		if r.Index != 0 {
			text += fmt.Sprint(".", r.Index)
		}
		if r.Column != "" {
			text += " " + r.Column
		}
		out = append(out, text)
		if r.Reason == nil || strings.Contains(r.Reason.Error(), "SECRET") {
			out = append(out, fmt.Sprint("reason ", r.Reason))
		}
		if r.Partition != part0 {
			out = append(out, r.Partition.String())
		}
	}
	return strings.Join(out, ", ")
}

// wantBlamed checks that err names exactly these, and holds no value.
func wantBlamed(t *testing.T, err error, want string) {
	t.Helper()
	if sink.ClassOf(err) != sink.ErrRejected {
		t.Fatalf("expected a rejection: %v", err)
	}
	if got := blamed(err); got != want {
		t.Errorf("named %q, expected %q: %v", got, want, err)
	}
	if strings.Contains(err.Error(), "SECRET") {
		t.Errorf("the text holds a value: %v", err)
	}
	if want != "" && !strings.Contains(err.Error(), "topic/0@") {
		t.Errorf("the text has no position: %v", err)
	}
}

// refusal writes batches as one checkpoint, over and over where the sink wants to see what may have come meanwhile, and returns why it is refused.
func (w *writer) refusal(batches ...[]changelog.Change) error {
	w.t.Helper()
	for at := w.at; ; {
		var err error
		for _, cs := range batches {
			if err = w.write(cs...); err != nil {
				break
			}
		}
		if err == nil {
			err = w.prepare()
		}
		if sink.ClassOf(err) != sink.ErrTransient {
			return err
		}
		w.c.Discard(w.ctx)
		w.acquire()
		w.at = at
	}
}

// redo discards, acquires anew and writes batches again without the messages that err names, as a bridge does.
func (w *writer) redo(err error, batches ...[]changelog.Change) error {
	w.t.Helper()
	var e *sink.Error
	if !errors.As(err, &e) {
		w.t.Fatal(err)
	}
	gone := map[int64]bool{}
	for _, r := range e.Rejected {
		gone[r.Offset] = true
	}
	if err := w.c.Discard(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.acquire()
	for _, cs := range batches {
		var left []changelog.Change
		for _, c := range cs {
			w.at = max(w.at, c.Offset+1)
			if !gone[c.Offset] {
				left = append(left, c)
			}
		}
		if err := w.write(left...); err != nil {
			return err
		}
	}
	return nil
}

// A refusal of the server in the middle of batches that follow good ones: exactly the refused changes are named, nothing of the checkpoint
// is left, and it passes without them. A change is not blamed for the statement that it shares with another, nor for one that comes after (P43).
func TestWrite_NamesWhatTheServerRefuses(t *testing.T) {
	ins := func(k int64, v string) changelog.Change {
		return changelog.Change{Kind: changelog.Insert, Row: changelog.Row{num(k), str(v)}}
	}
	upd := func(k int64, v string) changelog.Change {
		return changelog.Change{Kind: changelog.UpdateAfter, Row: changelog.Row{num(k), str(v)}}
	}
	del := func(k int64) changelog.Change {
		return changelog.Change{Kind: changelog.Delete, KeyOnly: true, Row: changelog.Row{num(k), {}}}
	}
	many := func(n int64, bad ...int64) (out []changelog.Change) {
		for i := range n {
			v := "good"
			if slices.Contains(bad, i) {
				v = "SECRET"
			}
			out = append(out, ins(100+i, v))
		}
		return out
	}
	const check = "CHECK (v <> 'SECRET')"
	for _, tc := range []struct {
		name, column, more string // of v; SQL run after the table is made
		changes            []changelog.Change
		want               string // offsets that are named; the first batch has offsets 0 to 9
		state              string
	}{
		{"check", "text " + check, "", many(40, 3, 17, 39), "13, 27, 49", "23514"},
		{"check, first and last of a large batch", "text " + check, "", many(21_000, 0, 19_999, 20_000, 20_999), "10, 20009, 20010, 21009", "23514"},
		{"check, all", "text " + check, "", many(5, 0, 1, 2, 3, 4), "10, 11, 12, 13, 14", "23514"},
		{"unique over another column", "text", "CREATE UNIQUE INDEX ON kv (v) WHERE v = 'SECRET'", many(30, 4, 9, 28), "19, 38", "23505"},
		{"cast", "uuid", "", []changelog.Change{ins(1, "6f9619ff-8b86-d011-b42d-00c04fc964ff"), ins(2, "SECRET"), ins(3, "6f9619ff-8b86-d011-b42d-00c04fc964fe")}, "11 v", "22P02"},
		{"foreign key", "text", "CREATE TABLE p (v text PRIMARY KEY); INSERT INTO p VALUES ('good'), ('first'); ALTER TABLE kv ADD FOREIGN KEY (v) REFERENCES p", many(20, 5, 6), "15, 16", "23503"},
		{"exclusion", "text", "ALTER TABLE kv ADD EXCLUDE USING btree (v WITH =) WHERE (v = 'SECRET')", many(20, 5, 6), "16", "23P01"},
		{"trigger", "text", `CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v = 'SECRET' THEN RAISE EXCEPTION 'no %', NEW.v; END IF; RETURN NEW; END $$;
			CREATE TRIGGER no AFTER INSERT OR UPDATE ON kv FOR EACH ROW EXECUTE FUNCTION no()`, many(20, 5, 19), "15, 29", "P0001"},
		{"delete that a foreign key refuses", "text", "CREATE TABLE child (k bigint REFERENCES kv); CREATE FUNCTION c() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO child VALUES (NEW.k); RETURN NULL; END $$;" +
			"CREATE TRIGGER c AFTER INSERT ON kv FOR EACH ROW WHEN (NEW.k = 2) EXECUTE FUNCTION c()", []changelog.Change{del(1), del(2), del(3), ins(20, "x")}, "11", "23503"},
		{"superseded by a good one", "text " + check, "", []changelog.Change{ins(50, "SECRET"), ins(51, "SECRET"), upd(50, "good"), ins(52, "good")}, "11", "23514"},
		{"the one before it is refused as well", "text " + check, "", []changelog.Change{ins(50, "good"), ins(51, "good"), upd(51, "SECRET"), upd(51, "SECRET")}, "12, 13", "23514"},
		{"client and server", "text " + check, "", []changelog.Change{ins(50, "SECRET"), ins(51, "nul\x00"), ins(52, "good"), ins(53, "\xff")}, "11 v, 13 v", ""},
		{"client alone", "text", "", []changelog.Change{ins(50, "good"), ins(51, "nul\x00"), upd(51, "nul\x00"), ins(53, "\xff")}, "11 v, 12 v, 13 v", ""},
		{"a message of two changes", "text " + check, "", []changelog.Change{ins(50, "good"), {Kind: changelog.UpdateAfter, Index: 1, Row: changelog.Row{num(51), str("SECRET")}}}, "11.1", "23514"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t)
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v " + tc.column + ")")
			e.exec(tc.more)
			w := e.writer(e.pool(nil), e.options(), e.anyTable())
			first := make([]changelog.Change, 0, 10)
			for i := range int64(10) {
				c := ins(i, "first")
				if tc.column == "uuid" {
					c.Row[1] = null
				}
				first = append(first, c)
			}
			batches := [][]changelog.Change{first, tc.changes}
			for _, b := range batches {
				for i := range b {
					b[i].Partition, b[i].Offset = part0, w.at
					w.at++
				}
			}
			err := w.refusal(batches...)
			wantBlamed(t, err, tc.want)
			var pe *pgconn.PgError
			if tc.state != "" && (!errors.As(err, &pe) || pe.Code != tc.state) {
				t.Errorf("expected SQLSTATE %s: %v", tc.state, err)
			}
			if got := e.all("SELECT * FROM kv"); len(got) > 0 {
				t.Errorf("rows of a refused checkpoint: %v", got)
			}
			if again := w.write(ins(1, "x")); sink.ClassOf(again) != sink.ErrRejected {
				t.Errorf("the checkpoint goes on: %v", again)
			}
			err = w.redo(err, batches...)
			if tc.name == "client and server" { // the server was not asked before
				wantBlamed(t, err, "10")
				for i := range tc.changes[1:] {
					tc.changes[1+i].Row[1] = str("good")
				}
				err = w.redo(err, batches...)
			}
			if err != nil {
				t.Fatalf("without what was named: %v", err)
			}
			w.finish()
			if tc.name == "the one before it is refused as well" {
				if got := e.one("SELECT v FROM kv WHERE k = 51"); got != "good" {
					t.Errorf("the change before those that were left out does not count: %s", got)
				}
			}
			if got := e.one("SELECT next_offset FROM " + e.own + ".position"); got != fmt.Sprint(10+len(tc.changes)) {
				t.Errorf("the position is %s", got)
			}
		})
	}
}

// What is refused only because of other rows of its statement is not blamed.
func TestWrite_BlamesNoneOnAGuess(t *testing.T) {
	row := func(offset, k, ref int64, v string) changelog.Change {
		c := changelog.Change{Partition: part0, Offset: offset, Kind: changelog.Insert, Row: changelog.Row{num(k), num(ref), str(v)}}
		if ref < 0 {
			c.Row[1] = null
		}
		return c
	}
	for _, tc := range []struct {
		name, more string
		changes    []changelog.Change
		want       string
	}{
		// Rows come sorted by key: a child stands before its parent, which is fine within a statement and not in its halves.
		{"children before their parents", "ALTER TABLE kv ADD FOREIGN KEY (r) REFERENCES kv",
			[]changelog.Change{row(0, 1, 8, "a"), row(1, 2, 7, "a"), row(2, 3, 99, "orphan"), row(3, 7, 8, "a"), row(4, 8, -1, "a"), row(5, 9, -1, "SECRET"), row(6, 10, 9, "of a refused one")}, "5; 2, 6"},
		{"children of one another", "ALTER TABLE kv ADD FOREIGN KEY (r) REFERENCES kv",
			[]changelog.Change{row(0, 1, 8, "a"), row(1, 2, 7, "a"), row(2, 3, 99, "orphan"), row(3, 7, 8, "a"), row(4, 8, 1, "a"), row(5, 9, -1, "SECRET"), row(6, 10, 9, "of a refused one"), row(7, 11, 99, "orphan")}, "5; 2, 6, 7"},
		{"a value that moves on, and a bad one", "CREATE UNIQUE INDEX ON kv (r); INSERT INTO kv VALUES (5, 1, 'a')",
			[]changelog.Change{row(0, 1, 1, "a"), row(1, 5, 2, "a"), row(2, 6, 3, "SECRET")}, "2"},
		{"a swap", "ALTER TABLE kv ADD UNIQUE (r) DEFERRABLE; INSERT INTO kv VALUES (5, 1, 'a'), (6, 2, 'a')",
			[]changelog.Change{row(0, 5, 2, "a"), row(1, 6, 1, "a"), row(2, 7, 3, "SECRET")}, "2"},
		{"a swap, and a duplicate", "ALTER TABLE kv ADD UNIQUE (r) DEFERRABLE; INSERT INTO kv VALUES (5, 1, 'a'), (6, 2, 'a'), (90, 9, 'a')",
			[]changelog.Change{row(0, 5, 2, "a"), row(1, 6, 1, "a"), row(2, 7, 9, "a"), row(3, 8, 3, "a"), row(4, 9, 3, "a")}, "2, 4"},
		{"a trigger that counts", `CREATE FUNCTION few() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF (SELECT count(*) FROM n) > 2 THEN RAISE EXCEPTION 'too many'; END IF; RETURN NULL; END $$;
			CREATE TRIGGER few AFTER INSERT ON kv REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION few()`,
			[]changelog.Change{row(0, 5, 2, "a"), row(1, 6, 1, "a"), row(2, 7, 3, "a"), row(3, 8, 3, "a"), row(4, 9, 3, "a")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t)
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, r bigint, v text CHECK (v <> 'SECRET'))")
			e.exec(tc.more)
			w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "r BIGINT", "v STRING"))
			// What may be made good in the rest of the checkpoint is named at its end, when what is refused for good is left out.
			left, gone := tc.changes, map[int64]bool{}
			for _, want := range strings.Split(tc.want, "; ") {
				err := w.refusal(left)
				wantBlamed(t, err, want)
				if want == "" {
					return
				}
				var e *sink.Error
				errors.As(err, &e)
				for _, r := range e.Rejected {
					gone[r.Offset] = true
				}
				left = slices.DeleteFunc(slices.Clone(left), func(c changelog.Change) bool { return gone[c.Offset] })
				w.c.Discard(t.Context())
				w.acquire()
			}
			w.put(left...)
		})
	}
}

// Rows that are not there to be changed are named all at once.
func TestWrite_NamesMissingRows(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, a text, b text CHECK (b <> 'SECRET')); INSERT INTO kv VALUES (1, 'a', 'b'), (2, 'a', 'b')")
	w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "a STRING", "b STRING"))
	var cs []changelog.Change
	for k, b := range []string{"x", "x", "SECRET", "x", "SECRET"} {
		cs = append(cs, w.change(changelog.UpdateAfter, num(int64(k)), changelog.UnchangedValue(), str(b)))
	}
	err := w.write(cs...)
	wantBlamed(t, err, "0, 3, 4")
	err = w.redo(err, cs)
	wantBlamed(t, err, "2")
}

// Without a key every change is written as it comes.
func TestWrite_NamesInTableWithoutKey(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE log (v text CHECK (v <> 'SECRET'))")
	w := e.writer(e.pool(nil), e.options(), table(t, "log", appnd, "", "v STRING"))
	var cs []changelog.Change
	for i := range 20 {
		v := "a"
		if i%7 == 3 {
			v = "SECRET"
		}
		cs = append(cs, w.change(changelog.Insert, str(v)))
	}
	wantBlamed(t, w.write(cs...), "3, 10, 17")
}

// No more are named than the bound, and the next round names the rest.
func TestWrite_NamesWithinABound(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'SECRET'))")
	w := e.writer(e.pool(nil), e.options(), e.anyTable())
	var cs []changelog.Change
	for i := range int64(1500) {
		cs = append(cs, w.change(changelog.Insert, num(i), str("SECRET")))
	}
	err := w.write(cs...)
	var se *sink.Error
	if !errors.As(err, &se) || len(se.Rejected) != 1000 || se.Rejected[0].Offset != 0 {
		t.Fatalf("%d named: %v", len(se.Rejected), err)
	}
	if err = w.redo(err, cs); !errors.As(err, &se) || len(se.Rejected) != 500 {
		t.Fatalf("%d named: %v", len(se.Rejected), err)
	}
}

// Whatever happens to a message or an answer while the refused changes are looked for, nothing of the checkpoint takes effect, and the
// error is either the names, all of them, or not a rejection at all.
func TestWrite_ConnectionLostWhileBlaming(t *testing.T) {
	for _, f := range []fault{loseIt, loseAnswer} {
		for n, more := 1, true; more; n++ {
			if n > 200 {
				t.Fatal("the scenario does not end")
			}
			e := newEnv(t)
			e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'v13'))")
			w := &wire{}
			a := e.writer(e.pool(w.through), e.options(), e.anyTable())
			if err := a.writeTo(10); err != nil {
				t.Fatal(err)
			}
			from := w.sent
			w.fault = func(i int, _ []byte) fault {
				if i == from+n {
					return f
				}
				return none
			}
			// Offset 13 is a delete in history, so a message of its own kind is put there.
			cs := []changelog.Change{history(10), history(11), history(12), {Partition: part0, Offset: 13, Kind: changelog.Insert, Row: changelog.Row{num(50), str("v13")}}, history(14)}
			a.at = 15
			err := a.write(cs...)
			if more = w.hit; !more {
				wantBlamed(t, err, "13")
			} else if sink.ClassOf(err) != sink.ErrTransient && blamed(err) != "13" {
				t.Errorf("%v %d: %v", f, n, err)
			}
			if got := e.all("SELECT * FROM kv"); len(got) > 0 {
				t.Errorf("%v %d: rows of a refused checkpoint: %v", f, n, got)
			}
			w.cut()
			next := e.writer(e.pool(nil), e.options(), e.anyTable())
			if next.from != 0 {
				t.Errorf("%v %d: the successor begins at %d", f, n, next.from)
			}
		}
	}
}

// A lane that was fenced while it looks for what was refused is told so, and names nothing.
func TestWrite_FencedWhileBlaming(t *testing.T) {
	e := newEnv(t)
	e.exec(`CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'SECRET'))`)
	a := e.writer(e.pool(nil), e.options(), e.anyTable())
	if err := a.write(a.change(changelog.Insert, num(1), str("a"))); err != nil {
		t.Fatal(err)
	}
	// The lane ends its transaction to look; what waits for the row it wrote is then the successor's turn.
	e.exec("UPDATE " + e.own + ".generation SET ended = true")
	err := a.write(a.change(changelog.Insert, num(2), str("SECRET")), a.change(changelog.Insert, num(3), str("b")))
	if sink.ClassOf(err) != sink.ErrFenced || len(blamed(err)) > 0 {
		t.Errorf("%v", err)
	}
}

// A caller that gives up in the middle of the search gets an error that is not a rejection.
func TestWrite_GivenUpWhileBlaming(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'SECRET'))")
	w := &wire{}
	a := e.writer(e.pool(w.through), e.options(), e.anyTable())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a.ctx = ctx
	if err := a.write(a.change(changelog.Insert, num(1), str("a"))); err != nil {
		t.Fatal(err)
	}
	w.fault = func(_ int, m []byte) fault {
		if strings.Contains(string(m), "SAVEPOINT try") {
			cancel()
		}
		return none
	}
	err := a.write(a.change(changelog.Insert, num(2), str("SECRET")), a.change(changelog.Insert, num(3), str("b")))
	if sink.ClassOf(err) != sink.ErrTransient || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
