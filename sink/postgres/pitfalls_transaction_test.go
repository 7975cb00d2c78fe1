package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file holds what has become of open transactions, and of positions, in other sinks.

// Changes wait in a buffer of a sink when its Prepare is called, and the process dies after Save: all of them are there (P28). Five of one
// key, five of others, and one of each in a batch of its own.
func TestPrepare_NothingStaysInMemory(t *testing.T) {
	for name, key := range map[string]func(i int64) int64{"one key": func(int64) int64 { return 1 }, "five keys": func(i int64) int64 { return i }} {
		for _, batches := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s in %d", name, batches), func(t *testing.T) {
				e := newEnv(t)
				tb := e.keyed()
				var net wire
				w := e.writer(e.pool(net.through), e.options(), tb)
				want := map[int64]string{}
				var cs []changelog.Change
				for i := range int64(5) {
					v := fmt.Sprint("v", i)
					want[key(i)] = v
					cs = append(cs, w.change(changelog.UpdateAfter, num(key(i)), str(v)))
				}
				for part := range slices.Chunk(cs, len(cs)/batches) {
					if err := w.write(part...); err != nil {
						t.Fatal(err)
					}
				}
				w.finish()
				net.cut() // the process dies: Commit, and whatever it would flush, is never called
				var rows []string
				for k, v := range want {
					rows = append(rows, fmt.Sprintf("(%d,%s)", k, v))
				}
				slices.Sort(rows)
				if got := e.all("SELECT * FROM kv"); !slices.Equal(got, rows) {
					t.Errorf("%v, expected %v", got, rows)
				}
				if got := e.one("SELECT next_offset FROM " + e.own + ".position"); got != "5" {
					t.Errorf("position %s", got)
				}
			})
		}
	}
}

// Two changes of a key at offsets 10 and 11, of which the net effect keeps one: the position is 12 (P30). So it is where both cancel out, and
// where nothing is left to write at all.
func TestSave_PositionCountsOffsetsNotKeys(t *testing.T) {
	for name, kinds := range map[string][2]changelog.Kind{
		"two upserts":             {changelog.UpdateAfter, changelog.UpdateAfter},
		"an upsert and a delete":  {changelog.UpdateAfter, changelog.Delete},
		"a delete and an upsert":  {changelog.Delete, changelog.UpdateAfter},
		"two deletes of no row":   {changelog.Delete, changelog.Delete},
		"the two halves of one U": {changelog.UpdateBefore, changelog.UpdateAfter},
	} {
		e := newEnv(t)
		w := e.writer(e.pool(nil), e.options(), e.keyed())
		w.at, w.from = 10, 10
		w.put(w.change(kinds[0], num(1), str("a")), w.change(kinds[1], num(1), str("b")))
		if got := e.one("SELECT next_offset FROM " + e.own + ".position"); got != "12" {
			t.Errorf("%s: position %s", name, got)
		}
		want := []string{"(1,b)"}
		if kinds[1] == changelog.Delete {
			want = nil
		}
		if got := e.all("SELECT * FROM kv"); !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
		if w.acquire(); w.from != 12 {
			t.Errorf("%s: acquired at %d", name, w.from)
		}
	}
}

// A process dies with rows in its open transaction and comes back with other settings: an ordinary recovery, from the last saved position,
// with all changes present. What was open never counts as done (P31).
func TestAcquire_RestartWithOtherSettings(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.exec("ALTER TABLE kv ADD COLUMN w text")
	for i, prepared := range []bool{false, true} {
		var net wire
		w := e.writer(e.pool(net.through), e.options(), tb)
		saved := w.from
		if err := w.writeTo(saved + 10); err != nil {
			t.Fatal(err)
		}
		if prepared {
			if err := w.prepare(); err != nil {
				t.Fatal(err)
			}
		}
		net.cut()
		o := e.options()
		o.LockTimeout, o.IdleTimeout, o.StatementTimeout, o.TruncateNanos = time.Minute, time.Minute, time.Minute, true
		next := e.writer(e.pool(func(c *pgxpool.Config) { c.MaxConns = 2 }), o, tb)
		if next.from != saved {
			t.Fatalf("the next process begins at %d, and %d is saved", next.from, saved)
		}
		if err := next.writeTo(saved + 7); err != nil {
			t.Fatal(err)
		}
		next.finish()
		if got, want := e.all("SELECT k, v FROM kv"), tableAfter(saved+7); !slices.Equal(got, want) {
			t.Errorf("round %d: %v, expected %v", i, got, want)
		}
	}
}

// A server ends the transaction of a process that was away for longer than the timeout: nothing is lost, and each change is there once (P95).
func TestLane_AwayBeyondIdleTimeout(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE log (id bigint, v text)")
	o := e.options()
	o.IdleTimeout = 200 * time.Millisecond
	w := e.writer(e.pool(nil), o, table(t, "log", appnd, "", "id BIGINT", "v STRING"))
	write := func(from, to int64) error {
		var cs []changelog.Change
		for ; from < to; from++ {
			cs = append(cs, w.change(changelog.Insert, num(from), str(string(rune('a'+from)))))
		}
		return w.write(cs...)
	}
	for err := write(0, 2); err != nil; err = write(0, 2) { // on a busy machine it may be away for longer between two statements
		w.doAgain(err)
	}
	e.untilUnlocked("log")
	if err := write(2, 3); sink.ClassOf(err) != sink.ErrTransient {
		t.Fatalf("Write after a long absence: %v", err)
	}
	w.c.Discard(t.Context())
	w.acquireAgain()
	for w.from < 3 {
		err := write(w.from, 3)
		if err == nil {
			err = w.prepare()
		}
		if err == nil {
			err = w.save()
		}
		if err != nil {
			w.doAgain(err)
		}
	}
	if got, want := e.all("SELECT * FROM log"), []string{"(0,a)", "(1,b)", "(2,c)"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// A role's own bound on transactions is shorter than a checkpoint, which would so be done again for ever: the sink has one of its own, and where that
// is too short the error names it. The neighbour of P95 and P96, which are about brokers.
func TestLane_TransactionTimeoutOfTheRole(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	if e.one("SELECT current_setting('transaction_timeout', true)") == "NULL" {
		t.Skip("the server has no transaction_timeout: it came with Postgres 17")
	}
	for _, own := range []time.Duration{0, time.Second} {
		o := e.options()
		o.TransactionTimeout = own
		p := e.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["transaction_timeout"] = "500ms" })
		w := e.patientWriter(p, o, tb)
		if own == 0 {
			if err := w.writeTo(w.at + 5); err != nil {
				t.Fatal(err)
			}
			e.exec("SELECT pg_sleep(1)") // beyond the role's
			if err := w.writeTo(w.at + 5); err != nil {
				t.Fatal(err)
			}
			w.finish()
		} else {
			w.start(w.from + 5)
			e.untilUnlocked("kv")
			err := w.writeTo(w.at + 5)
			var pe *pgconn.PgError
			if sink.ClassOf(err) != sink.ErrTransient || !errors.As(err, &pe) || pe.Code != "25P04" || !strings.Contains(err.Error(), "Options.TransactionTimeout") {
				t.Errorf("Write: %v", err)
			}
			w.c.Discard(t.Context())
			w.acquireAgain()
			w.carry(w.from + 5)
		}
		e.agrees(fmt.Sprint("with ", own))
	}
}

// A constraint fails in the second statement of a checkpoint, then COMMIT is answered with a timeout: neither leaves a connection behind that
// the next checkpoint would trip over, of the one that there is (P52).
func TestSave_TimeoutAtCommit(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	e.exec("ALTER TABLE kv ADD CHECK (v <> 'bad')")
	// What runs within COMMIT is what is deferred. (The server stops its clock for statement_timeout before that; other timeouts go on.)
	e.exec(`CREATE TABLE late (x int);
		CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '57014'; END $$;
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()`)
	var a atCommit
	p := e.pool(func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 1, &a })
	w := e.writer(p, e.options(), tb)
	w.put(w.history(5)...)

	// A delete goes out first, the upsert that is refused is the second statement.
	err := w.write(w.change(changelog.Delete, num(0), str("x")), w.change(changelog.UpdateAfter, num(1), str("bad")))
	var pe *pgconn.PgError
	if sink.ClassOf(err) != sink.ErrRejected || !errors.As(err, &pe) || pe.Code != "23514" {
		t.Fatalf("Write: %v", err)
	}
	w.c.Discard(t.Context())
	w.acquire()
	e.agrees("after the refusal")

	for _, rows := range []bool{true, false} { // with them the end of the transaction is looked at before COMMIT, and without COMMIT finds it
		if rows {
			if err := errors.Join(w.writeTo(10), w.prepare()); err != nil {
				t.Fatal(err)
			}
		}
		w.at = 10
		a.done, a.do = false, func(ctx context.Context, c *pgconn.PgConn) {
			if _, err := c.Exec(ctx, "SET CONSTRAINTS ALL DEFERRED; INSERT INTO late VALUES (1)").ReadAll(); err != nil {
				t.Error(err)
			}
		}
		err = w.save()
		if sink.ClassOf(err) != sink.ErrTransient || !errors.As(err, &pe) || pe.Code != "57014" {
			t.Fatalf("Save: %v", err)
		}
		e.agrees("after the timeout at COMMIT")
		if n := p.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%d connections were not given back", n)
		}
		w.c.Discard(t.Context())
		w.acquire()
	}
	if err := w.writeTo(20); err != nil {
		t.Fatal(err)
	}
	w.finish()
	e.agrees("on a clean connection")
}

// Another session alters types between two checkpoints. The server says 0A000 of a statement that is cached on the connection, in whatever
// language; the calls that meet it say that they can be done again, and then they succeed (P50).
func TestLane_CachedStatementAltered(t *testing.T) {
	e := newEnv(t)
	e.notPooled("no statement is cached")
	tb := e.keyed()
	w := e.writer(e.pool(func(c *pgxpool.Config) { c.MaxConns = 1 }), e.options(), tb)
	ctx := t.Context()
	for end := int64(5); end <= 15; end += 5 {
		if err := w.writeTo(end); err != nil {
			t.Fatal(err)
		}
		w.finish()
		w.acquire()
	}
	met := 0
	try := func(what string, do func() error) {
		t.Helper()
		for range 10 { // each statement of the call may be one that was cached
			err := do()
			if err == nil {
				return
			}
			if sink.ClassOf(err) == sink.ErrTransient && strings.Contains(err.Error(), "was altered") { // of the target: its statements are made anew
				w.c.Discard(ctx)
				w.acquire()
				continue
			}
			var pe *pgconn.PgError
			if sink.ClassOf(err) != sink.ErrTransient || !errors.As(err, &pe) || pe.Code != "0A000" {
				t.Fatalf("%s: %v", what, err)
			}
			met++
			w.c.Discard(ctx)
		}
		t.Fatalf("%s does not come to an end", what)
	}
	for _, alter := range []string{
		"ALTER TABLE kv ALTER COLUMN v TYPE varchar(75)",
		"ALTER TABLE " + e.own + ".position ALTER COLUMN topic TYPE varchar(75)",
		"ALTER TABLE " + e.own + ".generation ALTER COLUMN owner TYPE varchar(75)",
		"ALTER TABLE " + e.own + ".bridge ALTER COLUMN fingerprint TYPE varchar(7500)",
	} {
		e.exec(alter)
		try("Acquire after "+alter, w.tryAcquire)
		e.exec(strings.Replace(alter, "varchar(75", "varchar(175", 1))
		end := w.from + 5
		try("a checkpoint after "+alter, func() error {
			w.at = w.from
			return errors.Join(w.writeTo(end), w.prepare(), w.save())
		})
		try("Read after "+alter, func() error { _, err := w.store().Read(ctx, "bridge"); return err })
		e.agrees(alter)
	}
	if met == 0 {
		t.Error("no call met a cached statement that was altered: this test shows nothing")
	}
}

// 10,000 checkpoints over 8 partitions leave a row for each partition, in place (P97).
func TestSave_StoreDoesNotGrow(t *testing.T) {
	e := newEnv(t)
	c, err := e.lane(e.pool(nil), "", e.options(), e.keyed())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	st := c.(sink.Store)
	var parts []changelog.Partition
	for n := range int32(8) {
		parts = append(parts, changelog.Partition{Topic: "topic", Partition: n})
	}
	claim, err := st.Acquire(t.Context(), sink.AcquireRequest{Bridge: "bridge", Partitions: parts, GroupGeneration: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Open(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	at := func(n int64) (out []changelog.Position) {
		for _, p := range parts {
			out = append(out, changelog.Position{Partition: p, Offset: n, LeaderEpoch: -1})
		}
		return out
	}
	size := func() string {
		return e.one("SELECT string_agg(format('%s %s', relname, (xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n FROM ' || c.oid::regclass, false, true, '')))[1]), ', ' ORDER BY relname)" +
			" FROM pg_class c WHERE relkind = 'r' AND relnamespace = '" + e.own + "'::regnamespace")
	}
	var after string
	for n := range int64(10_000) {
		if err := st.Save(t.Context(), claim.Generation, sink.Checkpoint{ID: sink.CheckpointID(n + 1), From: at(n), To: at(n + 1)}); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			after = size()
		}
	}
	if got := size(); got != after || !strings.Contains(got, "position 8") {
		t.Errorf("rows of the store: %s, after two checkpoints: %s", got, after)
	}
	if got := e.one("SELECT min(next_offset) FROM " + e.own + ".position"); got != "10000" {
		t.Errorf("positions %s", got)
	}
}
