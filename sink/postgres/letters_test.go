package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// setAside takes letters into the current checkpoint, and moves the position past each.
func (w *writer) setAside(letters ...sink.DeadLetter) error {
	for i := range letters {
		letters[i].Partition = part0
		letters[i].Offset = w.at
		letters[i].Changes = max(letters[i].Changes, 1)
		w.at++
	}
	return w.c.(sink.DeadLetterKeeper).WriteDeadLetters(w.ctx, letters)
}

func (e *env) letters(bridge string, limit int) []postgres.StoredLetter {
	e.t.Helper()
	out, err := e.operator().DeadLetters(e.t.Context(), bridge, limit)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

// oddLetters hold every byte that could be refused, and everything that is null.
func oddLetters() []sink.DeadLetter {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return []sink.DeadLetter{
		{Class: "data", Error: "cannot be decoded", Index: -1, Changes: 3},
		{Class: "rejected", Column: "v", Error: "too long", Key: []byte{}, Value: []byte{}, Timestamp: time.UnixMilli(1700000000123).UTC(), Headers: []changelog.Header{
			{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte{}}, {Key: "a", Value: []byte{0, 0xff}}, {Key: "\x00\xff"}, {Key: ""}}},
		{Class: "data", Key: all, Value: all},
		{Class: "data", Key: []byte("k"), Value: bytes.Repeat(all, 1<<12), Index: 1<<31 - 1},
		{Class: "data", Timestamp: time.UnixMilli(1<<62 + 1)},
	}
}

// Letters are there with the positions of their checkpoint, with all their bytes, and never without.
func TestDeadLetters_WithTheirCheckpoint(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			e := newEnv(t)
			w := e.writer(e.pool(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode; c.MaxConns = 1 }), e.options(), e.keyed())
			if err := w.setAside(oddLetters()...); err != nil {
				t.Fatal(err)
			}
			if err := w.prepare(); err != nil {
				t.Fatal(err)
			}
			if got := e.letters("bridge", 0); len(got) != 0 {
				t.Errorf("%d letters are visible before Save", len(got))
			}
			w.c.Discard(t.Context())
			w.acquire()
			if err := errors.Join(w.write(w.change(changelog.Insert, num(1), str("a"))), w.setAside(oddLetters()...), w.write(w.change(changelog.Insert, num(2), str("b")))); err != nil {
				t.Fatal(err)
			}
			w.finish()
			if got := e.one("SELECT next_offset FROM " + e.own + ".position"); got != "7" {
				t.Errorf("the position is %s", got)
			}
			got := e.letters("bridge", 0)
			want := oddLetters()
			if len(got) != len(want) {
				t.Fatalf("%d letters", len(got))
			}
			for i := range want {
				want[i].Partition, want[i].Offset, want[i].Changes = part0, int64(1+i), max(want[i].Changes, 1)
				l := got[len(got)-1-i] // newest first
				if i == 4 {
					want[i].Timestamp = time.Time{} // no time that Postgres knows
				}
				if d := cmp.Diff(want[i], l.DeadLetter, cmp.Comparer(time.Time.Equal)); d != "" {
					t.Errorf("letter %d: %.2000s", i, d)
				}
				if l.Bridge != "bridge" || l.Generation != w.claim.Generation.ID || l.Checkpoint != 1 || l.Written.IsZero() {
					t.Errorf("letter %d: %+v", i, l)
				}
			}
			if got := e.letters("", 2); len(got) != 2 || got[0].Offset != 5 {
				t.Errorf("the last two: %+v", got)
			}
			if got := e.letters("another", 0); len(got) != 0 {
				t.Errorf("%d letters of another bridge", len(got))
			}
		})
	}
}

// Texts that Postgres cannot hold do not refuse a letter.
func TestDeadLetters_OddTexts(t *testing.T) {
	e := newEnv(t)
	w := e.writer(e.pool(nil), e.options(), e.keyed())
	if err := w.setAside(sink.DeadLetter{Class: "a\x00", Error: "half \xed\xa0\x80", Column: "\xff"}); err != nil {
		t.Fatal(err)
	}
	w.finish()
	got := e.letters("bridge", 1)[0]
	if got.Class != "a\ufffd" || got.Error != "half \ufffd" || got.Column != "\ufffd" {
		t.Errorf("%q %q %q", got.Class, got.Error, got.Column)
	}
}

// More than one statement's worth of letters.
func TestDeadLetters_Many(t *testing.T) {
	e := newEnv(t)
	w := e.writer(e.pool(nil), e.options(), e.keyed())
	var all []sink.DeadLetter
	for i := range 6000 {
		l := sink.DeadLetter{Class: "data", Value: fmt.Append(nil, i)}
		if i%500 == 0 {
			l.Value = bytes.Repeat([]byte{byte(i)}, 1<<20)
		}
		all = append(all, l)
	}
	if err := errors.Join(w.setAside(all[:10]...), w.setAside(all[10:]...)); err != nil {
		t.Fatal(err)
	}
	w.finish()
	var bytes int
	for i := range all {
		bytes += len(all[i].Value)
	}
	if got := e.one("SELECT count(*) || ' ' || count(DISTINCT message_offset) || ' ' || sum(length(value)) FROM " + e.own + ".dead_letter"); got != fmt.Sprint("6000 6000 ", bytes) {
		t.Errorf("%s, and %d bytes were written", got, bytes)
	}
}

// A letter is lost by nothing: each message of a checkpoint that only sets aside, and each answer, is lost once.
func TestDeadLetters_EveryMessageLost(t *testing.T) {
	for _, f := range []fault{loseIt, loseAnswer} {
		for n, more := 1, true; more; n++ {
			if n > 100 {
				t.Fatal("the scenario does not end")
			}
			e := newEnv(t)
			tb := e.keyed()
			w := &wire{}
			a := e.writer(e.pool(w.through), e.options(), tb)
			from := w.sent
			w.fault = func(i int, _ []byte) fault {
				if i == from+n {
					return f
				}
				return none
			}
			err := errors.Join(a.setAside(sink.DeadLetter{Class: "data"}), a.prepare())
			if err == nil {
				err = a.save()
			}
			if more = w.hit; more == (err == nil) {
				t.Fatalf("%v %d: hit %v, %v", f, n, w.hit, err)
			}
			w.cut()
			next := e.writer(e.pool(nil), e.options(), tb)
			if got := len(e.letters("bridge", 0)); int64(got) != next.from {
				t.Errorf("%v %d: the position is %d, and there are %d letters", f, n, next.from, got)
			}
		}
	}
}

// A role that may not make the table in a store of before dead letters starts all the same, is told with its first
// letter what an administrator can run, and then that does without another start.
func TestDeadLetters_OlderStore(t *testing.T) {
	e := newEnv(t)
	e.fixture()
	if got := e.letters("orders", 5); len(got) != 0 {
		t.Errorf("letters without their table: %v", got)
	}
	tb := e.keyed()
	role := e.schema + "_role"
	e.exec("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + e.own + ", " + e.schema + " TO " + role + "; GRANT ALL ON kv TO " + role +
		"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + e.own + " TO " + role)
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role })
	wantFindings(t, findings(t, p, e.options(), "", tb), "store ok: dead letters cannot be kept")
	w := e.writer(p, e.options(), tb)
	if err := w.writeTo(3); err != nil {
		t.Fatal(err)
	}
	err := w.setAside(sink.DeadLetter{Class: "data"})
	wantConfig(t, err, "42501", "administrator", "dead_letter")
	w.c.Discard(t.Context())
	w.acquire()
	_, script, _ := strings.Cut(err.Error(), "administrator run\n")
	e.exec(script)
	if err := errors.Join(w.writeTo(3), w.setAside(sink.DeadLetter{Class: "data"})); err != nil {
		t.Fatal(err)
	}
	w.finish()
	if got := e.letters("bridge", 0); len(got) != 1 || got[0].Offset != 3 {
		t.Errorf("%+v", got)
	}
	wantFindings(t, findings(t, p, e.options(), "", tb), "store ok: dead letters can be kept")

	// The table is there and the right is missing: a bridge that sets messages aside is told at its start, not at its first letter.
	e.exec("REVOKE INSERT ON " + e.own + ".dead_letter FROM " + role)
	s, err := postgres.New(p, "", e.options())
	if err != nil {
		t.Fatal(err)
	}
	wantConfig(t, s.CheckDeadLetters(t.Context()), "may not write", "administrator", "dead_letter")
	w = e.writer(p, e.options(), tb)
	wantConfig(t, w.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), nil), "may not write", "administrator", "dead_letter")
	e.exec("GRANT INSERT ON " + e.own + ".dead_letter TO " + role)
	if err := errors.Join(s.CheckDeadLetters(t.Context()), w.c.Discard(t.Context()), w.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), nil)); err != nil {
		t.Error(err)
	}
}

// A store of before dead letters gets their table with the next start, and stays one that the program that made it can use.
func TestDeadLetters_OlderStoreGetsTheTable(t *testing.T) {
	e := newEnv(t)
	e.fixture()
	wantFindings(t, findings(t, e.pool(nil), e.options(), "", e.keyed()), "store ok: the next start makes the table of dead letters")
	w := e.writer(e.pool(nil), e.options(), e.anyTable())
	if err := w.setAside(sink.DeadLetter{Class: "data"}); err != nil {
		t.Fatal(err)
	}
	w.finish()
	if v := e.one("SELECT version FROM " + e.own + ".format"); v != "1" {
		t.Errorf("version %s: the program that made this store would refuse it", v)
	}
}

// A table of that name that is not ours is a mistake of the settings, and no change is rejected for it.
func TestDeadLetters_ForeignTable(t *testing.T) {
	for _, sql := range []string{"DROP TABLE %s.dead_letter; CREATE TABLE %s.dead_letter (x int)", "ALTER TABLE %s.dead_letter ADD CHECK (class <> 'data')", "DROP TABLE %s.dead_letter"} {
		e := newEnv(t)
		w := e.writer(e.pool(nil), e.options(), e.keyed())
		e.exec(strings.ReplaceAll(sql, "%s", e.own))
		if err := w.setAside(sink.DeadLetter{Class: "data"}); err != nil {
			t.Fatal(err)
		}
		wantConfig(t, w.prepare(), "dead_letter")
	}
}

// What the lane was told before it was discarded is forgotten.
func TestDeadLetters_Discarded(t *testing.T) {
	e := newEnv(t)
	w := e.writer(e.pool(nil), e.options(), e.keyed())
	if err := w.setAside(sink.DeadLetter{Class: "data"}); err != nil {
		t.Fatal(err)
	}
	w.c.Discard(t.Context())
	w.at = 0
	if err := w.setAside(sink.DeadLetter{Class: "data"}); err != nil {
		t.Fatal(err)
	}
	w.finish()
	if got := e.letters("bridge", 0); len(got) != 1 {
		t.Errorf("%d letters", len(got))
	}
}

// Superseded counts what was written since the last Prepare, and nothing that was discarded.
func TestSuperseded(t *testing.T) {
	e := newEnv(t)
	w := e.writer(e.pool(nil), e.options(), e.keyed())
	count := func(want int64) {
		t.Helper()
		if err := w.prepare(); err != nil {
			t.Fatal(err)
		}
		if got := w.c.(sink.Superseder).Superseded(); got != want {
			t.Errorf("superseded %d, expected %d", got, want)
		}
		if err := w.save(); err != nil {
			t.Fatal(err)
		}
	}
	two := func() {
		t.Helper()
		if err := w.write(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.UpdateAfter, num(1), str("b")), w.change(changelog.Delete, num(1), null), w.change(changelog.Insert, num(2), str("c"))); err != nil {
			t.Fatal(err)
		}
	}
	two()
	count(2)
	two()
	w.c.Discard(context.Background())
	w.at = w.from
	two()
	two()
	count(4)
	count(0)
}
