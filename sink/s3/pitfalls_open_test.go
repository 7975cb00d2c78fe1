package s3_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// P99: a process dies with three open uploads, one of them decided: the successor's Open completes the one and leaves no other.
func TestOpen_Leftovers(t *testing.T) {
	e := newFake(t)
	dead := e.writer(e.sink(nil).Lower(64, 0, 0, 0, 0), events(t))
	dead.must(dead.rows(10))
	d, err := dead.prepare()
	dead.must(err)
	dead.must(dead.save(d))
	dead.must(dead.rows(10)) // a lane waits with this for its Commit; two more uploads all the same
	e.api.CreateMultipartUpload(t.Context(), createInput(e.bucket, strings.Replace(firstKey(t, d), ".c1.", ".c2.", 1)))
	if n := len(e.uploads()); n != 3 {
		t.Fatalf("%d uploads are open", n)
	}
	e.api.CreateMultipartUpload(t.Context(), createInput(e.bucket, "lake/events/other.sink.p0-0.g1.c1.1.00000000.jsonl")) // another bridge's
	e.api.CreateMultipartUpload(t.Context(), createInput(e.bucket, "lake/events/somebody's own"))
	next := e.writer(e.sink(nil), events(t))
	e.holds(10, "after the successor's Open")
	var left []string
	for _, u := range e.uploads() {
		left = append(left, u[0])
	}
	if len(left) != 2 || !strings.Contains(left[0], "other.sink") || !strings.Contains(left[1], "somebody") {
		t.Errorf("uploads that are left: %v", left)
	}
	next.put(5)
	e.holds(15, "after the successor's checkpoint")
}

// P99, more of it: a listing of uploads is long, and one key has several because an answer was lost.
func TestOpen_SweepsAllPages(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(nil), events(t))
	w.put(1)
	key := e.dataKeys()[0]
	for i := range 1500 {
		e.api.CreateMultipartUpload(t.Context(), createInput(e.bucket, strings.Replace(key, ".c1.1.", fmt.Sprintf(".c2.%05d.", i/500), 1)))
	}
	w.must(w.acquire())
	if n := len(e.uploads()); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// P97: what the store keeps does not grow with checkpoints.
func TestStore_ConstantSize(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(nil), events(t))
	size := 0
	for i := range 30 {
		w.must(w.save(sink.Committable{}))
		if i == 10 {
			size = len(e.get("lake/_flinksink/bridge/store.json"))
		}
	}
	if now := len(e.get("lake/_flinksink/bridge/store.json")); now > size+10 {
		t.Errorf("%d bytes after 10 checkpoints, %d after 30", size, now)
	}
	if keys := e.keys("lake/_flinksink/"); len(keys) > 3 {
		t.Errorf("objects %v", keys)
	}
}

// P31: what was open when a process died does not count, whatever settings the next one has.
func TestOpen_OtherSettings(t *testing.T) {
	e := newFake(t)
	a := e.writer(e.sink(&s3.Options{Mode: s3.Rename, MaxFileRows: 3}), events(t))
	a.must(a.rows(10))
	d, err := a.prepare()
	a.must(err)
	a.must(a.save(d))
	b := e.writer(e.sink(&s3.Options{Compression: s3.Gzip, Manifest: true}), events(t)) // commits what Rename prepared
	e.holds(10, "after a successor in another mode")
	b.must(b.rows(7))
	c := e.writer(e.sink(&s3.Options{Mode: s3.Rename}), events(t))
	c.must(c.rows(7))
	if _, err := c.prepare(); err != nil {
		t.Fatal(err)
	}
	last := e.writer(e.sink(nil), events(t))
	e.holds(10, "after two that decided nothing")
	if left := e.keys("lake/_staging/"); len(left)+len(e.uploads()) != 0 {
		t.Errorf("left: %v %v", left, e.uploads())
	}
	last.put(7)
	e.holds(17, "at the end")
}

// P32: of three files one cannot be committed: the others are, and the error is told until it can.
func TestCommit_AllButOne(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(&s3.Options{MaxFileRows: 2, Uploads: 1}), events(t))
	w.must(w.rows(6))
	d, err := w.prepare()
	w.must(err)
	w.must(w.save(d))
	for i := range 20 {
		e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
			if r.Op == "CompleteMultipartUpload" && strings.Contains(r.Key, ".c1.1.") {
				return &s3test.Fault{Status: 503, Code: "SlowDown"}
			}
			return nil
		}
		is(t, w.c.Commit(t.Context(), d), sink.ErrTransient, "SlowDown")
		if n := len(e.ids()); n != 4 {
			t.Fatalf("try %d: %d rows are visible", i, n)
		}
	}
	e.fake.Intercept = nil
	w.must(w.c.Commit(t.Context(), d))
	e.holds(6, "in the end")
}

// P33: a generation that stalls before its last write is refused, and nothing of it becomes readable: at its Prepare, at a Commit that nobody decided, and when its requests arrive behind the sweep.
func TestZombie(t *testing.T) {
	for _, mode := range []s3.Mode{s3.Multipart, s3.Rename} {
		e := newFake(t)
		o := &s3.Options{Mode: mode}
		a := e.writer(e.sink(o), events(t))
		a.must(a.rows(3))
		// The successor comes exactly between the last byte and the look at the fence.
		var b *writer
		e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
			if r.Op != "HeadObject" || !strings.Contains(r.Key, "/fence/1") || b != nil {
				return nil
			}
			b = &writer{}
			return &s3test.Fault{Do: func() { b = e.writer(e.sink(o), events(t)) }}
		}
		_, err := a.prepare()
		is(t, err, sink.ErrFenced)
		e.fake.Intercept = nil
		if b == nil || b.c == nil {
			t.Fatal("the successor did not come")
		}
		e.holds(0, "after a fenced Prepare")
		b.put(3)
		e.holds(3, "after the successor's checkpoint")
		if left := append(e.keys("lake/_staging/"), fmt.Sprint(e.uploads())); len(left) != 1 || left[0] != "[]" {
			t.Errorf("left: %v", left)
		}
	}
}

// P100: the audit: every offset below the saved position is in exactly one object, by what the objects themselves say.
func TestAudit(t *testing.T) {
	e := newFake(t)
	s := e.sink(&s3.Options{Kind: s3.Changelog, PartitionBy: []s3.PartitionField{{Column: "id"}}, MaxFileRows: 3})
	w := e.writer(s, table(t, "kv", "[I,UA,D]", "id", "id BIGINT NOT NULL", "v STRING"))
	for range 5 {
		var cs []changelog.Change
		for range 10 {
			cs = append(cs, w.change(changelog.UpdateAfter, num(w.at%4), str("v")))
		}
		w.must(w.write(cs...))
		w.finish()
	}
	seen := map[int64]int{}
	for _, k := range e.dataKeys() {
		ls, err := (&cache{m: map[string][]line{}}).lines(e, k, w.table, s3.Changelog)
		w.must(err)
		for _, l := range ls {
			seen[l.offset]++
		}
	}
	state, err := w.store.Read(t.Context(), "bridge")
	w.must(err)
	for o := range state.Positions[0].Offset {
		if seen[o] != 1 {
			t.Errorf("offset %d is in %d objects", o, seen[o])
		}
	}
}

// P76 for the sink: a server that does not know the condition of a completion or a copy is asked without; names are used once.
func TestCommit_ServerWithoutConditions(t *testing.T) {
	for _, mode := range []s3.Mode{s3.Multipart, s3.Rename} {
		e := newFake(t)
		w := e.writer(e.sink(&s3.Options{Mode: mode}), events(t))
		e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
			if (r.Op == "CompleteMultipartUpload" || r.Op == "CopyObject") && r.Header.Get("If-None-Match") != "" {
				return &s3test.Fault{Status: 501, Code: "NotImplemented"}
			}
			return nil
		}
		w.put(3)
		e.holds(3, "after a commit without a condition")
	}
}

// Upsert: one row a key in a file, with the last change's kind; a checkpoint beyond the budget has several files, and the greater offset wins.
func TestUpsert_OneRowAKey(t *testing.T) {
	e := newFake(t)
	tb := table(t, "kv", "[I,UB,UA,D]", "k", "k BIGINT NOT NULL", "v STRING")
	c, err := e.sink(&s3.Options{Kind: s3.Upsert}).Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: tables(tb), ByteBudget: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := e.writer(e.sink(&s3.Options{Kind: s3.Upsert}), tb)
	w.must(w.write(w.change(changelog.Insert, num(1), str("a")), w.change(changelog.UpdateBefore, num(1), str("a")), w.change(changelog.UpdateAfter, num(1), str("b")),
		w.change(changelog.Insert, num(2), str("x")), w.change(changelog.Delete, num(2), str("x")), w.change(changelog.UpdateBefore, num(3), str("old"))))
	w.finish()
	if n := w.c.(sink.Superseder).Superseded(); n != 3 {
		t.Errorf("%d changes are told to be superseded", n)
	}
	got := lines(e.get(e.dataKeys()[0]))
	want := []string{
		`{"_op":"-D","_topic":"topic","_partition":0,"_offset":4,"_index":0,"k":2,"v":"x"}`,
		`{"_op":"-D","_topic":"topic","_partition":0,"_offset":5,"_index":0,"k":3,"v":"old"}`,
		`{"_op":"+U","_topic":"topic","_partition":0,"_offset":2,"_index":0,"k":1,"v":"b"}`,
	}
	if fmt.Sprintf("%s", got) != fmt.Sprint(want) {
		t.Errorf("the file holds\n%s\nexpected\n%s", got, want)
	}
	w.c = c // of a budget of one byte: every batch is a file
	w.must(w.acquire())
	for _, v := range []string{"c", "d", "e"} {
		w.must(w.write(w.change(changelog.UpdateAfter, num(1), str(v))))
	}
	w.finish()
	rows, err := read(e, &cache{m: map[string][]line{}}, tb, s3.Options{Kind: s3.Upsert})
	if err != nil || len(rows) != 1 || !bytes.Contains(rows[0].text, []byte(`"e"`)) || len(e.dataKeys()) != 4 {
		t.Errorf("rows %v in files %v, %v", rows, e.dataKeys(), err)
	}
}

// P28: nothing waits in a format or a compressor when Prepare returns; a message without a timestamp is a message.
func TestPrepare_LeavesNothingInMemory(t *testing.T) {
	for _, o := range []s3.Options{{Compression: s3.Gzip}, {Compression: s3.Zstd}, {Kind: s3.Upsert}} {
		e := newFake(t)
		tb := table(t, "events", "[I]", "id", "id BIGINT NOT NULL", "v STRING")
		w := e.writer(e.sink(&o), tb)
		w.must(w.rows(5))
		d, err := w.prepare()
		w.must(err)
		w.must(w.save(d))
		other := e.sink(nil) // another process
		c, err := other.Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: []*changelog.Table{tb}})
		w.must(err)
		w.must(c.Commit(t.Context(), d))
		n := 0
		for _, k := range e.dataKeys() {
			n += len(lines(unpacked(k, e.get(k))))
		}
		if n != 5 {
			t.Errorf("%d rows", n)
		}
	}
}
