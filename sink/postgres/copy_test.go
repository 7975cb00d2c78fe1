package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// many is enough changes for COPY to be tried.
const many = 300

// copies counts what a lane does with COPY.
type copies struct {
	wire
	mu           sync.Mutex
	tried, taken int
}

func newCopies() *copies {
	c := &copies{}
	c.fault = func(_ int, message []byte) fault {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tried += bytes.Count(message, []byte("FROM STDIN"))
		c.taken += bytes.Count(message, []byte("ROLLBACK TO SAVEPOINT copying"))
		return none
	}
	return c
}

func (c *copies) want(t *testing.T, tried, takenBack int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tried != tried || c.taken != takenBack {
		t.Errorf("%d COPY of which %d were taken back, expected %d and %d", c.tried, c.taken, tried, takenBack)
	}
}

// upserts makes changes of the keys [from, to).
func (w *writer) upserts(from, to int, text string) []changelog.Change {
	var out []changelog.Change
	for k := from; k < to; k++ {
		out = append(out, w.change(changelog.UpdateAfter, num(int64(k)), str(fmt.Sprint(text, k))))
	}
	return out
}

// rowsOf is what kv holds after upserts.
func rowsOf(to int, text func(k int) string) []string {
	var out []string
	for k := range to {
		out = append(out, fmt.Sprintf("(%d,%s%d)", k, text(k), k))
	}
	slices.Sort(out)
	return out
}

// New keys go by COPY. A key that is there takes the COPY back, after which it is tried less and less often.
func TestCopy_TriesLessAndLess(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	c := newCopies()
	w := e.writer(e.pool(c.through), e.options(), tb)
	w.put(w.upserts(0, many, "a")...)
	c.want(t, 1, 0)
	w.put(w.upserts(many, 2*many, "a")...)
	c.want(t, 2, 0)
	w.put(w.upserts(0, 10, "b")...) // few changes do not count
	c.want(t, 2, 0)
	w.put(w.upserts(many, 3*many, "b")...) // half of them are there
	c.want(t, 3, 1)
	for n, tried := range []int{3, 4, 4, 4, 4, 5} {
		w.put(w.upserts(2*many, 3*many, fmt.Sprint("c", n, "-"))...)
		c.want(t, tried, tried-2)
	}
	got := e.all("SELECT * FROM kv")
	slices.Sort(got)
	want := rowsOf(3*many, func(k int) string {
		switch {
		case k < 10 || k >= many && k < 2*many:
			return "b"
		case k < many:
			return "a"
		}
		return "c5-"
	})
	if !slices.Equal(got, want) {
		t.Errorf("%d rows, expected %d: %.300v", len(got), len(want), got)
	}
}

// After a batch of new keys, none of them twice, the next one is copied as it comes, in the order of the topic. What that cannot write, in keys that are there
// or come twice, and deletes, goes the usual way, and as it comes is tried less and less often.
func TestCopy_AsTheyCome(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	c := newCopies()
	w := e.writer(e.pool(c.through), e.options(), tb)
	backwards := func(from, to int, text string) []changelog.Change {
		out := w.upserts(from, to, text)
		for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i].Row, out[j].Row = out[j].Row, out[i].Row
		}
		return out
	}
	order := func() string {
		return e.one("SELECT CASE WHEN a.k < b.k THEN 'by key' ELSE 'as they came' END FROM (SELECT k FROM kv ORDER BY ctid DESC LIMIT 1 OFFSET 1) AS a, (SELECT k FROM kv ORDER BY ctid DESC LIMIT 1) AS b")
	}
	put := func(changes []changelog.Change, tried, takenBack int, want string) {
		t.Helper()
		w.put(changes...)
		c.want(t, tried, takenBack)
		if got := order(); got != want {
			t.Errorf("the last rows are in the order %q, expected %q", got, want)
		}
	}
	put(backwards(0, many, "a"), 1, 0, "by key") // nothing is known yet
	put(backwards(many, 2*many, "a"), 2, 0, "as they came")
	w.put(w.upserts(2*many, 2*many+3, "a")...) // few: they say nothing
	put(backwards(2*many+3, 3*many, "a"), 3, 0, "as they came")
	twice := backwards(3*many, 4*many, "old")
	put(append(twice, backwards(3*many, 4*many, "a")...), 5, 1, "by key") // taken back, then their net effect
	put(backwards(4*many, 5*many, "a"), 6, 1, "by key")                   // again nothing is known
	put(backwards(5*many, 6*many, "a"), 7, 1, "as they came")
	gone := backwards(6*many, 7*many, "a")
	gone = append(gone, w.change(changelog.Delete, num(6*many), str("")))
	put(gone, 8, 1, "by key") // as it comes is not tried with a delete
	put(backwards(7*many, 8*many, "a"), 9, 1, "by key")
	put(append(backwards(8*many, 9*many, "a"), w.upserts(0, 1, "a")...), 10, 2, "by key") // one key is there: neither as they come nor in order

	want := rowsOf(9*many, func(int) string { return "a" })
	want = slices.DeleteFunc(want, func(row string) bool { return strings.HasPrefix(row, fmt.Sprintf("(%d,", 6*many)) })
	if got := e.all("SELECT * FROM kv"); !sameRows(got, want) {
		t.Errorf("%d rows, expected %d", len(got), len(want))
	}
}

// The connection breaks at each message of a COPY that goes well, and of one that is taken back: rows and position agree.
func TestCopy_EveryMessage(t *testing.T) {
	step := 2 // of the messages, the other half for each; FLINKSINK_LONG=1: all
	if os.Getenv("FLINKSINK_LONG") != "" {
		step = 1
	}
	for i, f := range []fault{loseIt, loseAnswer} {
		for n, more := 1+i%step, true; more; n += step {
			if n > 200 {
				t.Fatal("the scenario does not end")
			}
			more = false
			t.Run(fmt.Sprintf("%v/%d", f, n), func(t *testing.T) {
				e := newEnv(t)
				tb := e.keyed()
				first := e.writer(e.pool(nil), e.options(), tb)
				if err := errors.Join(first.write(first.upserts(0, many, "a")...), first.prepare(), first.save()); err != nil {
					t.Fatal(err)
				}
				w := &wire{fault: func(i int, _ []byte) fault {
					if i == n {
						return f
					}
					return none
				}}
				err := func() error {
					c, err := e.lane(e.pool(w.through), "", e.options(), tb)
					if err != nil {
						return err
					}
					defer c.Close(t.Context())
					a := &writer{t: t, ctx: t.Context(), c: c, table: tb}
					if err := a.tryAcquire(); err != nil {
						return err
					}
					if err := a.write(a.upserts(many, 2*many, "b")...); err != nil {
						return err
					}
					if err := a.write(a.upserts(3*many, 4*many, "c")...); err != nil { // as they come
						return err
					}
					if err := a.write(a.upserts(many, 3*many, "c")...); err != nil {
						return err
					}
					if err := a.prepare(); err != nil {
						return err
					}
					return a.save()
				}()
				more = w.hit
				if !more && err != nil {
					t.Fatalf("no fault happened, and yet: %v", err)
				}
				w.cut()
				next := e.writer(e.pool(nil), e.options(), tb)
				want := rowsOf(many, func(int) string { return "a" })
				if next.from != many {
					want = rowsOf(4*many, func(k int) string {
						if k < many {
							return "a"
						}
						return "c"
					})
				}
				if got := e.all("SELECT * FROM kv"); !sameRows(got, want) {
					t.Errorf("position %d after %v: %d rows, expected %d", next.from, err, len(got), len(want))
				}
			})
		}
	}
}

func sameRows(got, want []string) bool {
	got = slices.Clone(got)
	slices.Sort(got)
	return slices.Equal(got, want)
}

// A row that the server refuses in a COPY is named, and the others are none the worse.
func TestCopy_Refused(t *testing.T) {
	for name, c := range map[string]struct{ ddl, bad string }{
		"check":     {"CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'bad'))", "bad"},
		"unique":    {"CREATE TABLE kv (k bigint PRIMARY KEY, v text UNIQUE)", "a7"},
		"not ours":  {"CREATE TABLE kv (k bigint PRIMARY KEY, v varchar(5))", "too long for it"},
		"encodable": {"CREATE TABLE kv (k bigint PRIMARY KEY, v text)", "a\x00b"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.exec(c.ddl)
			w := e.writer(e.pool(nil), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING"))
			changes := w.upserts(0, many, "a")
			changes[many-1].Row[1] = str(c.bad)
			err := w.refusal(changes)
			var se *sink.Error
			if !errors.As(err, &se) || sink.ClassOf(err) != sink.ErrRejected || len(se.Rejected) == 0 {
				t.Fatalf("%v", err)
			}
			last := se.Rejected[len(se.Rejected)-1]
			if last.Offset != many-1 && name != "unique" {
				t.Errorf("%+v", se.Rejected)
			}
			if strings.Contains(err.Error(), c.bad) {
				t.Errorf("the error shows the value: %v", err)
			}
			if err := w.c.Discard(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.acquire()
			w.put(w.upserts(0, many, "a")[:many-1]...)
			if got := e.one("SELECT count(*) FROM kv"); got != fmt.Sprint(many-1) {
				t.Errorf("%s rows", got)
			}
		})
	}
}

// COPY passes rules by and knows no casts: where they matter, INSERT writes.
func TestCopy_NotWhereInsertDiffers(t *testing.T) {
	t.Run("rule", func(t *testing.T) {
		e := newEnv(t)
		e.exec("CREATE TABLE kv (k bigint, v text)")
		e.exec("CREATE TABLE log (k bigint)")
		e.exec("CREATE RULE also AS ON INSERT TO kv DO ALSO INSERT INTO log VALUES (NEW.k)")
		c := newCopies()
		w := e.writer(e.pool(c.through), e.options(), table(t, "kv", appnd, "", "k BIGINT", "v STRING"))
		var changes []changelog.Change
		for k := range many {
			changes = append(changes, w.change(changelog.Insert, num(int64(k)), str("a")))
		}
		w.put(changes...)
		c.want(t, 0, 0)
		if got := e.one("SELECT count(*) FROM log"); got != fmt.Sprint(many) {
			t.Errorf("the rule ran for %s rows", got)
		}
	})
	t.Run("cast", func(t *testing.T) {
		e := newEnv(t)
		e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v uuid)")
		c := newCopies()
		w := e.writer(e.pool(c.through), e.options(), table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "v STRING"))
		var changes []changelog.Change
		for k := range many {
			changes = append(changes, w.change(changelog.Insert, num(int64(k)), str(fmt.Sprintf("00000000-0000-0000-0000-%012d", k))))
		}
		w.put(changes...)
		c.want(t, 0, 0)
		if got := e.one("SELECT count(*) FROM kv"); got != fmt.Sprint(many) {
			t.Errorf("%s rows", got)
		}
	})
}

// The same rows, by COPY and in parts that are too small for it, also into a partitioned table.
func TestCopy_EveryType(t *testing.T) {
	const columns = `(k bigint PRIMARY KEY, b boolean, i2 smallint, i4 positive, f4 real, f8 double precision, n numeric(20,4), t text, v varchar(40), c char(12), x bytea,
		d date, tm time, ts timestamp, tz timestamptz, y interval, j jsonb, ft text, w numeric)`
	schema := []string{"k BIGINT NOT NULL", "b BOOLEAN", "i2 SMALLINT", "i4 INT", "f4 FLOAT", "f8 DOUBLE", "n DECIMAL(20, 4)", "t STRING", "v VARCHAR(40)", "c CHAR(12)", "x BYTES",
		"d DATE", "tm TIME(3)", "ts TIMESTAMP(6)", "tz TIMESTAMP_LTZ(6)", "y INTERVAL YEAR TO MONTH", "j ROW<a INT, b ARRAY<STRING>>", "ft DOUBLE", "w BIGINT"}
	var all [2][]string
	for n, step := range []int{100, 2 * many} {
		e := newEnv(t)
		e.exec("CREATE DOMAIN positive AS integer CHECK (VALUE >= 0)")
		e.exec("CREATE TABLE kv " + columns + " PARTITION BY RANGE (k)")
		e.exec("CREATE TABLE kv1 PARTITION OF kv FOR VALUES FROM (MINVALUE) TO (100)")
		e.exec("CREATE TABLE kv2 PARTITION OF kv FOR VALUES FROM (100) TO (MAXVALUE)")
		c := newCopies()
		w := e.writer(e.pool(c.through), e.options(), table(t, "kv", upsert, "k", schema...))
		var changes []changelog.Change
		for k := range int64(2 * many) {
			row := make([]changelog.Value, len(schema))
			row[0] = num(k - 5)
			if k%7 != 0 { // else NULLs
				row[1], row[2], row[3] = changelog.BoolValue(k%2 == 0), num(k-300), num(k)
				row[4], row[5] = changelog.FloatValue(float32(k)/3), changelog.DoubleValue(-float64(k)*1e-300)
				row[6], row[7], row[8] = changelog.DecimalValue(0, uint64(k*12345), 4), str(fmt.Sprint("ü", k, "\n\\N")), str(fmt.Sprint("v", k))
				row[9], row[10] = str(fmt.Sprint("c", k)), changelog.BytesValue([]byte{0, byte(k), 0xff})
				row[11], row[12] = changelog.DateValue(k*1000-100000), changelog.TimeValue(k*1e6)
				row[13], row[14] = changelog.TimestampValue(k*1e7-1e9, 123456000), changelog.TimestampLTZValue(k*1e7, 1000)
				row[15] = num(k)
				row[16] = changelog.RowValue([]changelog.Value{num(k), changelog.ArrayValue([]changelog.Value{str("é"), {}})})
				row[17], row[18] = changelog.DoubleValue(float64(k)/7), num(k*k)
			}
			changes = append(changes, w.change(changelog.UpdateAfter, row...))
		}
		for part := range slices.Chunk(changes, step) {
			if err := w.write(part...); err != nil {
				t.Fatal(err)
			}
		}
		w.finish()
		c.want(t, n, 0)
		all[n] = e.all("SELECT kv::text FROM kv ORDER BY k")
	}
	if len(all[0]) != 2*many || !slices.Equal(all[0], all[1]) {
		t.Errorf("%d and %d rows, and they differ:\n%.600v\n%.600v", len(all[0]), len(all[1]), all[0], all[1])
	}
}
