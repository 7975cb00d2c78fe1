package postgres_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

var updateGolden = flag.Bool("update-receipts", false, "write testdata/receipt-*.json anew: only where the format's version rises")

// outer is an engine that decides: it keeps the newest completed state.
type outer struct {
	t     *testing.T
	e     *env
	m     postgres.Mode
	tb    *changelog.Table
	runs  sink.GenerationID
	state []byte
}

// run starts a run of the lane from the newest completed state.
func (o *outer) run() (*sink.External, *rewinder) {
	o.t.Helper()
	s, err := postgres.New(o.e.pool(nil), "", o.e.mode(o.m))
	if err != nil {
		o.t.Fatal(err)
	}
	src := &rewinder{}
	x, err := sink.NewExternal(o.t.Context(), sink.Options{
		Bridge: "bridge", Sinks: []sink.Declared{{Name: "target", Sink: s}}, Source: src, Tables: []*changelog.Table{o.tb},
		Backoff: func(int) time.Duration { return time.Millisecond },
	}, func(context.Context) (sink.GenerationID, error) { o.runs++; return o.runs, nil })
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { x.Close(context.Background()) })
	at, err := x.Restore(o.t.Context(), []changelog.Partition{part0}, o.state)
	if err != nil {
		o.t.Fatal(err)
	}
	src.at = at[0].Offset
	return x, src
}

// write writes on with the history up to offset end.
func (o *outer) write(x *sink.External, src *rewinder, end int64) {
	o.t.Helper()
	b := changelog.NewBatch(o.tb)
	from := src.at
	for ; src.at < end; src.at++ {
		b.Append(history(src.at))
	}
	if err := x.Write(o.t.Context(), b, sink.Progress{To: []changelog.Position{{Partition: part0, Offset: end, LeaderEpoch: -1}}, Records: end - from}); err != nil {
		o.t.Fatal(err)
	}
}

// holds compares the table with the history up to an offset.
func (o *outer) holds(what string, end int64) {
	o.t.Helper()
	if got, want := o.e.all("SELECT * FROM kv"), tableAfter(end); !slices.Equal(got, want) {
		o.t.Errorf("%s: the table is\n%v, expected\n%v", what, got, want)
	}
}

// An outer engine decides, and keeps the positions.
func TestExternal_Receipts(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		o := &outer{t: t, e: e, m: m, tb: e.keyed()}
		x, src := o.run()
		barrier := func(id, end int64) []byte {
			t.Helper()
			o.write(x, src, end)
			state, err := x.Barrier(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return state
		}
		one := barrier(1, 10)
		o.holds("before Complete", 0)
		o.state = one
		for range 2 {
			if err := x.Complete(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			o.holds("after Complete", 10)
		}
		barrier(2, 20)
		if err := x.Abort(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if src.at != 10 {
			t.Errorf("after Abort the source is at %d", src.at)
		}
		o.holds("after Abort", 10)
		// The engine completes the next one, and the process dies before it hears of that.
		o.state = barrier(3, 25)
		zombie := x
		x, src = o.run()
		o.holds("after Restore of what was completed", 25)
		// This one is not completed, and the process dies.
		barrier(4, 30)
		x, src = o.run()
		if src.at != 25 {
			t.Errorf("restored at %d", src.at)
		}
		o.holds("after Restore of an older one", 25)
		if err := zombie.Complete(t.Context(), 3); err != nil {
			t.Errorf("Complete by the dead process: %v", err)
		}
		o.holds("after a late Complete", 25)
		o.state = barrier(5, 40)
		if err := x.Complete(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		o.holds("at the end", 40)
		if left := e.leftovers(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// Mode InTransaction is refused there, and the text names the modes that are not.
func TestExternal_RefusesInTransaction(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	s, err := postgres.New(e.pool(nil), "", e.options())
	if err != nil {
		t.Fatal(err)
	}
	_, err = sink.NewExternal(t.Context(), sink.Options{Bridge: "bridge", Sinks: []sink.Declared{{Name: "target", Sink: s}}, Source: &rewinder{}, Tables: []*changelog.Table{tb}},
		func(context.Context) (sink.GenerationID, error) { return 1, nil })
	wantConfig(t, err, "Prepared", "Staged")
}

// A receipt that this or an older release wrote is committed by this one. The fixtures are what version 1 wrote, but for what names the server: the
// hash in the name, and the digest.
func TestReceipts_Golden(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		tb := e.keyed()
		a := e.decide(m, tb, 10)
		if a.receipt.Version != postgres.ReceiptVersion {
			t.Errorf("version %d", a.receipt.Version)
		}
		var fields map[string]any
		if err := json.Unmarshal(a.receipt.Data, &fields); err != nil {
			t.Fatal(err)
		}
		if m == postgres.Prepared {
			fields["gid"] = strings.Replace(fields["gid"].(string), strings.Split(e.prefix(), "/")[2], strings.Repeat("0", 32), 1)
		} else {
			fields["digest"] = ""
		}
		got, err := json.MarshalIndent(fields, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", fmt.Sprintf("receipt-%v-v1.json", m))
		if *updateGolden {
			if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(append(got, '\n'), want) {
			t.Errorf("the receipt is\n%s\nexpected\n%s", got, want)
		}
		// The fixture itself, with the names of this server in it, is committed.
		if err := json.Unmarshal(want, &fields); err != nil {
			t.Fatal(err)
		}
		if m == postgres.Prepared {
			fields["gid"] = e.ofBridge()[0]
		} else {
			var mine struct{ Digest []byte }
			if err := json.Unmarshal(a.receipt.Data, &mine); err != nil {
				t.Fatal(err)
			}
			fields["digest"] = mine.Digest
		}
		old := a.receipt
		if old.Data, err = json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
		if err := a.c.Commit(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		e.agrees("after the fixture was committed")
	})
}

// A receipt that was altered, or is another sink's, is refused and does nothing.
func TestReceipts_Altered(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		tb := e.keyed()
		a := e.decide(m, tb, 10)
		bad := func(what string, change func(r *sink.Committable)) {
			t.Helper()
			r := a.receipt
			r.Data = bytes.Clone(r.Data)
			change(&r)
			for op, call := range map[string]func(context.Context, sink.Committable) error{"Commit": a.c.Commit, "Abort": a.c.Abort} {
				if err := call(t.Context(), r); sink.ClassOf(err) != sink.ErrConfig {
					t.Errorf("%s of a receipt with %s: %v", op, what, err)
				}
			}
		}
		bad("another version", func(r *sink.Committable) { r.Version = 2 })
		bad("no JSON", func(r *sink.Committable) { r.Data = []byte("{") })
		bad("an unknown field", func(r *sink.Committable) {
			r.Data = append([]byte(`{"x":1,`), r.Data[1:]...)
		})
		bad("another mode", func(r *sink.Committable) {
			r.Data = bytes.Replace(r.Data, []byte(m.String()), []byte("in-transaction"), 1)
		})
		bad("another bridge", func(r *sink.Committable) {
			r.Data = bytes.Replace(r.Data, []byte(`"bridge":"bridge"`), []byte(`"bridge":"other"`), 1)
		})
		bad("another sink", func(r *sink.Committable) { r.Sink = "other" })
		if m == postgres.Prepared {
			bad("another generation", func(r *sink.Committable) { r.Generation++ })
			bad("a name with a quote", func(r *sink.Committable) {
				r.Data = bytes.Replace(r.Data, []byte("flinksink/bridge"), []byte("flinksink/bri'ge"), 1)
			})
		}
		if err := a.c.Commit(t.Context(), a.receipt); err != nil {
			t.Fatal(err)
		}
		e.agrees("after the right receipt")
	})
}

// A change that the server refuses is named before the decision, in Write or Prepare, also by what is deferred and by columns that were not sent.
func TestReceipts_Rejected(t *testing.T) {
	eachMode(t, func(t *testing.T, e *env, m postgres.Mode) {
		e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'bad') UNIQUE)")
		tb := e.anyTable()
		a := e.writer(e.pool(nil), e.mode(m), tb)
		a.put(a.change(changelog.Insert, num(1), str("one")))
		two, bad, one := a.change(changelog.Insert, num(2), str("two")), a.change(changelog.Insert, num(3), str("bad")), a.change(changelog.Insert, num(4), str("one"))
		err := a.refusal([]changelog.Change{two, bad, one})
		wantBlamed(t, err, "2")
		a.c.Discard(t.Context())
		a.acquire()
		a.at = 4
		wantBlamed(t, a.refusal([]changelog.Change{two, one}), "3") // which the rest of the checkpoint might have made good
		a.c.Discard(t.Context())
		a.acquire()
		a.put(a.change(changelog.Insert, num(2), str("two")))
		if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,one)", "(2,two)"}) {
			t.Errorf("the table is %v", got)
		}
	})
}

// Between Prepare and Commit somebody else takes a unique value. Prepared has it locked; Staged cannot: its merge waits, says so, and goes through
// once the value is free, or is let go.
func TestStaged_RefusedMerge(t *testing.T) {
	for _, accept := range []bool{false, true} {
		e := newEnv(t)
		e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text UNIQUE)")
		tb := e.anyTable()
		a := e.writer(e.pool(nil), e.mode(postgres.Staged), tb)
		if err := errors.Join(a.write(a.change(changelog.Insert, num(1), str("one")), a.change(changelog.Insert, num(2), str("two"))), a.prepare()); err != nil {
			t.Fatal(err)
		}
		if err := a.save(); err != nil {
			t.Fatal(err)
		}
		e.exec("INSERT INTO kv VALUES (9, 'two')")
		for range 2 {
			err := a.c.Commit(t.Context(), a.receipt)
			if sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "flinksink settle") || !strings.Contains(err.Error(), "kv_v_key") {
				t.Fatalf("Commit: %v", err)
			}
		}
		if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(9,two)"}) {
			t.Errorf("the table is %v", got)
		}
		if !accept {
			e.exec("DELETE FROM kv WHERE k = 9")
			if err := a.c.Commit(t.Context(), a.receipt); err != nil {
				t.Fatal(err)
			}
			if got := e.all("SELECT * FROM kv"); !slices.Equal(got, []string{"(1,one)", "(2,two)"}) {
				t.Errorf("the table is %v", got)
			}
			continue
		}
		done, err := e.settler().Settle(t.Context(), postgres.SettleOptions{Bridge: "bridge", AcceptLost: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range done {
			if d.Err != nil {
				t.Errorf("%+v: %v", d.InDoubt, d.Err)
			}
		}
		e.writer(e.pool(nil), e.mode(postgres.Staged), tb) // opens
		if left := e.leftovers(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// More than a rehearsal may hold in memory is tried out in Prepare, as a whole.
func TestStaged_LargeRehearsal(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'bad'))")
	tb := e.anyTable()
	a := e.writer(e.pool(nil), e.mode(postgres.Staged), tb)
	big := strings.Repeat("x", 1<<20)
	for i := range int64(24) {
		if err := a.write(a.change(changelog.UpdateAfter, num(i%20), str(fmt.Sprint(i, big))), a.change(changelog.UpdateAfter, num(100+i), changelog.Value{})); err != nil {
			t.Fatal(err)
		}
	}
	a.finish()
	if got := e.one("SELECT string_agg(k || '=' || regexp_replace(v, 'x+', ''), ' ' ORDER BY k) FROM kv WHERE k < 5"); got != "0=20 1=21 2=22 3=23 4=4" {
		t.Errorf("the table is %s", got)
	}
	for i := range int64(24) {
		v := str(fmt.Sprint(i, big))
		if i == 20 {
			v = str("bad")
		}
		if err := a.write(a.change(changelog.UpdateAfter, num(i), v)); err != nil {
			if sink.ClassOf(err) == sink.ErrRejected {
				return // it came before the memory was full
			}
			t.Fatal(err)
		}
	}
	if err := a.prepare(); sink.ClassOf(err) != sink.ErrRejected {
		t.Errorf("Prepare: %v", err)
	}
}
