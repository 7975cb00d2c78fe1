package bridge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// Every kind of difference, in each column of every type, is found in each mode, and mended, and nothing else is.
func TestVerify_PlantedDifferences(t *testing.T) {
	for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCompared(t, strings.ReplaceAll(mode.String(), "-", "_"), typesSQL, postgres.Options{Mode: mode})
			c.story(300)
			c.catchUp(c.options())
			before := c.rows()
			if len(before) != 270 {
				t.Fatalf("%d rows", len(before))
			}
			if r := c.verify(nil); !r.Clean() || !r.Exact || r.Keys != 270 || r.NoExtra != "" || r.Passes != 1 {
				t.Fatalf("of an intact table: %+v", r)
			}
			for i, edit := range []string{"b = NOT b", "i = i + 1", "d = 0", "n = n + 0.0001", "s = s || ' '", "ts = ts + interval '1 microsecond'", "tz = tz + interval '1 microsecond'", "da = da + 1",
				"ti = ti + interval '1 microsecond'", `j = '{"a": 1}'`, "u = 'ffffffff-8b86-d011-b42d-00c04fc96000'", "a = a || 1", "b = NULL", "s = ''", "a = ARRAY[1]", "n = n::numeric(20,6)"} {
				c.db.exec(fmt.Sprintf("UPDATE kv SET %s WHERE k = %d", edit, 11+10*i))
			}
			c.db.exec("UPDATE kv SET own = 'by hand' WHERE k = 1")
			c.db.exec("DELETE FROM kv WHERE k IN (2, 3, 4)")
			c.db.exec("INSERT INTO kv (k, k2) VALUES (10, 'ü,10'), (1000, 'never there'), (5, 'of another second column')")
			planted := c.rows()
			var kinds []string
			r := c.verify(&VerifyOptions{Keys: true, Found: func(d sink.Difference) { kinds = append(kinds, d.Kind.String()+" "+d.Key) }})
			if got, want := counts(r), "keys 270 missing 3 stale 16 extra 3"; got != want {
				t.Errorf("found %s, expected %s", got, want)
			}
			slices.Sort(kinds)
			for _, want := range []string{`extra (5,"of another second column")`, `extra (10,"ü,10")`, "missing (2,ü,2)", "stale (161,ü,161)"} {
				if !slices.Contains(kinds, want) {
					t.Errorf("%q is not among %q", want, kinds)
				}
			}
			if len(r.First[sink.Stale]) != 16 || len(r.First[sink.Missing]) != 3 {
				t.Errorf("positions %v", r.First)
			}
			if !slices.Equal(c.rows(), planted) {
				t.Error("Verify changed the table")
			}
			r = c.repair(&VerifyOptions{Why: "test"})
			if want := (sink.Mended{Written: 19, Deleted: 3}); r.Mended != want {
				t.Errorf("mended %+v, expected %+v", r.Mended, want)
			}
			if r := c.verify(nil); !r.Clean() {
				t.Errorf("after the repair: %s", counts(r))
			}
			c.db.exec("UPDATE kv SET own = 'own'")
			if got := c.rows(); !slices.Equal(got, before) {
				t.Errorf("after the repair the table has\n%q\nand before\n%q", got, before)
			}
			audit := c.db.all("SELECT what || ': ' || reason FROM " + c.db.schema + "_own.audit ORDER BY at")
			if len(audit) != 2 || !strings.HasPrefix(audit[0], "repair: test (") {
				t.Errorf("the audit says %q", audit)
			}
			// And the bridge goes on.
			c.put(c.record(2, row(2, 7)), c.record(20, row(20, 7)))
			c.catchUp(c.options())
			if r := c.verify(nil); !r.Clean() || r.Keys != 271 {
				t.Errorf("after the bridge went on: %s", counts(r))
			}
		})
	}
}

// A bridge that runs gives no false difference, and a repair beside it does no harm.
func TestVerify_BesideARunningBridge(t *testing.T) {
	for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Staged} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCompared(t, "running_"+strings.ReplaceAll(mode.String(), "-", "_"), typesSQL, postgres.Options{Mode: mode})
			c.story(100)
			c.catchUp(c.options())
			b, err := New("test", c.in, c.to, c.options())
			if err != nil {
				t.Fatal(err)
			}
			r := start(t, b)
			done := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer close(done)
				for n := 0; ctx.Err() == nil; n++ {
					value := row(n%100, n)
					if n%7 == 0 {
						value = ""
					}
					_ = c.k.cl.ProduceSync(ctx, c.record(n%100, value)).FirstErr()
					time.Sleep(time.Millisecond) // of a topic that grows as fast as it can every look would take longer than the one before
				}
			}()
			for range 8 {
				v := c.verify(nil)
				if !v.Clean() || !v.Exact {
					t.Errorf("found %s", counts(v))
				}
			}
			for range 3 {
				v, err := Repair(t.Context(), "test", c.in, c.to, c.options(), nil)
				if err != nil || v.Mended != (sink.Mended{}) {
					t.Errorf("a repair of nothing: %+v, %v", v.Mended, err)
				}
			}
			// A difference in a table that is being written: the repair mends it or says that the bridge went on.
			c.db.exec("INSERT INTO kv (k, k2) VALUES (1000, 'extra')")
			for {
				_, err := Repair(t.Context(), "test", c.in, c.to, c.options(), nil)
				if err == nil {
					break
				}
				if sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "repair of") && !strings.Contains(err.Error(), "repair sink") {
					t.Fatal(err)
				}
				cancel() // the bridge has nothing to read soon
			}
			cancel()
			<-done
			r.stop()
			if err := r.wait(); err != nil {
				t.Fatal(err)
			}
			c.catchUp(c.options())
			if v := c.verify(nil); !v.Clean() {
				t.Errorf("at the end: %s", counts(v))
			}
		})
	}
}

// A compacted topic whose deletes were compacted away unread leaves rows behind, which are found and deleted.
func TestVerify_MissedDeletes(t *testing.T) {
	c := newCompared(t, "missed", typesSQL, postgres.Options{})
	c.put(c.record(0, row(0, 1)), c.record(3, row(3, 1)))
	c.catchUp(c.options())
	c.put(c.record(3, ""), c.record(6, row(6, 1)))
	c.k.empty(1, 3) // the insert of 3 and its delete are gone
	c.catchUp(c.options())
	r := c.verify(nil)
	if got, want := counts(r), "keys 2 missing 0 stale 0 extra 1"; got != want {
		t.Fatalf("found %s, expected %s", got, want)
	}
	c.repair(nil)
	if got := c.db.all("SELECT k::text FROM kv ORDER BY k"); !slices.Equal(got, []string{"0", "6"}) {
		t.Errorf("the table has %q", got)
	}
	// What lies at the end of a partition may be compacted away too: nothing ever comes for it.
	c.put(c.record(9, row(9, 1)), c.record(9, ""))
	c.catchUp(c.options())
	c.k.empty(4, 6)
	if r := c.verify(nil); !r.Clean() || r.Keys != 2 {
		t.Errorf("with an empty end: %s", counts(r))
	}
}

// More keys than the memory holds are compared in several passes, with the same outcome.
func TestVerify_Passes(t *testing.T) {
	c := newCompared(t, "passes", typesSQL, postgres.Options{})
	const n = 15_000
	c.story(n)
	c.catchUp(c.options())
	c.db.exec("DELETE FROM kv WHERE k % 100 = 1")
	c.db.exec("UPDATE kv SET i = -1 WHERE k % 100 = 2")
	c.db.exec("INSERT INTO kv (k, k2) SELECT k, 'extra' FROM generate_series(1, 1500) k")
	const want = "keys 13500 missing 150 stale 150 extra 1500"
	small := &VerifyOptions{Memory: 1 << 20}
	if r := c.verify(small); counts(r) != want || r.Passes < 2 || r.Passes > 4 {
		t.Errorf("in %d passes: found %s, expected %s", r.Passes, counts(r), want)
	}
	if r := c.verify(nil); counts(r) != want || r.Passes != 1 {
		t.Errorf("in %d passes: found %s, expected %s", r.Passes, counts(r), want)
	}
	// A process that dies between two transactions of a repair leaves a part mended; the next repair finds the rest.
	ctx, cancel := context.WithCancel(t.Context())
	found := 0
	died, err := Repair(ctx, "test", c.in, c.to, c.options(), &VerifyOptions{Found: func(sink.Difference) {
		if found++; found == 1600 {
			cancel()
		}
	}})
	if err == nil {
		t.Fatal("the repair did not die")
	}
	if died.Mended.Deleted != 1000 {
		t.Errorf("before it died it deleted %d", died.Mended.Deleted)
	}
	if r := c.verify(nil); counts(r) != "keys 13500 missing 0 stale 0 extra 500" {
		t.Errorf("after it died: %s", counts(r))
	}
	c.repair(small)
	if r := c.verify(nil); !r.Clean() {
		t.Errorf("after the repair: %s", counts(r))
	}
}

// A row that somebody changed between the look and the repair is left alone.
func TestRepair_OnlyWhatIsAsSeen(t *testing.T) {
	c := newCompared(t, "seen", typesSQL, postgres.Options{})
	c.story(30)
	c.catchUp(c.options())
	c.db.exec("UPDATE kv SET i = -1 WHERE k IN (1, 2)")
	c.db.exec("INSERT INTO kv (k, k2) VALUES (1000, ''), (1001, '')")
	c.db.exec("DELETE FROM kv WHERE k = 3")
	edits := []string{"UPDATE kv SET i = -2 WHERE k = 1", "INSERT INTO kv (k, k2) VALUES (3, 'ü,3')", "UPDATE kv SET i = 5 WHERE k = 1000"}
	r := c.repair(&VerifyOptions{Found: func(sink.Difference) {
		for _, e := range edits {
			c.db.exec(e)
		}
		edits = nil
	}})
	if want := (sink.Mended{Written: 1, Deleted: 1, Changed: 3}); r.Mended != want {
		t.Errorf("mended %+v, expected %+v", r.Mended, want)
	}
	if r := c.verify(nil); counts(r) != "keys 27 missing 0 stale 2 extra 1" {
		t.Errorf("then: %s", counts(r))
	}
}

// A row that waits for an extra one to go, which is found last, is mended by the same repair; and what is refused for good is counted once.
func TestRepair_LooksTwice(t *testing.T) {
	c := newCompared(t, "twice", typesSQL, postgres.Options{})
	c.put(c.record(1, row(1, 1)), c.record(2, row(2, 2)), c.record(3, row(3, 3)))
	c.catchUp(c.options())
	c.db.exec("CREATE UNIQUE INDEX ON kv (s)")
	c.db.exec("DELETE FROM kv")
	c.db.exec("INSERT INTO kv (k, k2, s) VALUES (1000, '', 's2')")
	c.db.exec("ALTER TABLE kv ADD CHECK (s <> 's3')")
	found := 0
	r := c.repair(&VerifyOptions{Found: func(sink.Difference) { found++ }})
	if want := (sink.Mended{Written: 2, Deleted: 1, Refused: 1}); r.Mended != want || counts(r) != "keys 3 missing 3 stale 0 extra 1" || found != 4 {
		t.Errorf("%s, told of %d; mended %+v, expected %+v", counts(r), found, r.Mended, want)
	}
	if r := c.verify(nil); counts(r) != "keys 3 missing 1 stale 0 extra 0" {
		t.Errorf("then: %s", counts(r))
	}
}
