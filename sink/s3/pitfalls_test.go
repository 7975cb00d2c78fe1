package s3_test

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// P64: a delete that knows its key only, between two rows, in every format.
func TestChangelog_DeleteByKeyBetweenRows(t *testing.T) {
	for name, f := range lineFormats() {
		e := newFake(t)
		w := e.writer(e.sink(&s3.Options{Kind: s3.Changelog, Format: f}), table(t, "kv", "[I,UA,D]", "k", "k BIGINT NOT NULL", "v STRING NOT NULL"))
		del := w.change(changelog.Delete, num(2), changelog.Value{})
		del.KeyOnly = true
		w.must(w.write(w.change(changelog.Insert, num(1), str("a")), del, w.change(changelog.UpdateAfter, num(3), str("c"))))
		w.finish()
		w.must(w.acquire()) // a restart does not trip over it
		keys := e.dataKeys()
		if len(keys) != 1 {
			t.Fatalf("%s: %v", name, keys)
		}
		got := lines(e.get(keys[0]))
		if len(got) != 3 || !bytes.Contains(got[0], []byte("+I")) || !bytes.Contains(got[1], []byte("-D")) || !bytes.Contains(got[1], []byte("2")) || !bytes.Contains(got[2], []byte("+U")) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// P65: offsets around a kill before Save and after Save, with another cut after the restart: each is in exactly one object. Boundaries come from checkpoints, and
// the manifest says from where to where.
func TestPrepare_EachOffsetInOneObject(t *testing.T) {
	e := newFake(t)
	o := &s3.Options{Manifest: true}
	a := e.writer(e.sink(o), events(t))
	a.put(100)
	a.must(a.rows(50)) // 100..149
	if _, err := a.prepare(); err != nil {
		t.Fatal(err)
	}
	b := e.writer(e.sink(o), events(t)) // a was killed before Save
	e.holds(100, "after a kill before Save")
	b.must(b.rows(50))
	d, err := b.prepare()
	b.must(err)
	b.must(b.save(d))
	c := e.writer(e.sink(o), events(t)) // b was killed after Save
	e.holds(150, "after a kill after Save")
	c.put(31)
	e.holds(181, "after the restart")
	r, err := s3.NewReader(e.api, e.bucket, "lake", nil)
	if err != nil {
		t.Fatal(err)
	}
	next := int64(0)
	for m, err := range r.Manifests(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rows := int64(0)
		for _, f := range m.Files {
			rows += f.Rows
		}
		if m.From[0].Offset != next || m.To[0].Offset != next+rows {
			t.Errorf("checkpoint %d.%d is of %v to %v with %d rows, and the one before ended at %d", m.Generation, m.Checkpoint, m.From, m.To, rows, next)
		}
		next = m.To[0].Offset
	}
	if next != 181 {
		t.Errorf("the manifests end at %d", next)
	}
}

// P66: what is visible never changes, and no name is used twice, also by a generation with the same number after the store was begun anew.
func TestNames_NeverTwice(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(nil), events(t))
	w.put(3)
	first := e.dataKeys()
	content := string(e.get(first[0]))
	for _, k := range e.keys("lake/_flinksink/bridge/") {
		if strings.HasSuffix(k, "/store.json") || strings.HasSuffix(k, "/began") {
			e.remove(k)
		}
	}
	again := e.writer(e.sink(nil), events(t)) // generation 1 and checkpoint 1 once more
	if again.claim.Generation.ID != w.claim.Generation.ID {
		t.Fatalf("generation %d", again.claim.Generation.ID)
	}
	again.put(3)
	if keys := e.dataKeys(); len(keys) != 2 || !slices.Contains(keys, first[0]) || string(e.get(first[0])) != content {
		t.Errorf("objects %v, before %v", keys, first)
	}
}

// P68: 100 files, a partition that goes back and forth: create, part, complete and a look at the result for each, no copy and no delete of data.
func TestMultipart_Requests(t *testing.T) {
	e := newFake(t)
	s := e.sink(nil)
	w := e.writer(s, events(t))
	const files = 100
	for i := range files {
		if i%10 == 9 {
			w = e.writer(s, events(t))
		}
		w.put(1)
	}
	count := map[string]int{}
	for _, r := range e.fake.Requests() {
		if strings.HasPrefix(r.Key, "lake/events/") {
			count[r.Op]++
		}
	}
	// Each of the ten successors commits once more what its claim lists: nobody had said yet that it was committed.
	want := map[string]int{"CreateMultipartUpload": files, "UploadPart": files, "CompleteMultipartUpload": files + 10, "HeadObject": files + 10}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("requests on data %v, expected %v", count, want)
	}
	e.holds(files, "after all")
}

// P69: a conditional write that is answered 409 is tried again; one whose answer is lost, and whose repeat says 412, is recognised by the token in the object's metadata; another
// one's is ErrFenced.
func TestStore_ConflictAndLostAnswer(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(nil), events(t))
	for name, f := range map[string]s3test.Fault{
		"409":               {Status: 409, Code: "ConditionalRequestConflict"},
		"answer lost":       {After: true},
		"500 and not done":  {Status: 500, Code: "InternalError"},
		"500 after success": {After: true, Status: 500, Code: "InternalError"},
		"412 after success": {After: true, Status: 412, Code: "PreconditionFailed"}, // as a repeat by the SDK is answered
		"503":               {Status: 503, Code: "SlowDown"},
	} {
		w.must(w.rows(1))
		d, err := w.prepare()
		w.must(err)
		fired := e.on("PutObject", 1, f)
		if err := w.save(d); err != nil || !fired() {
			t.Errorf("%s: Save: %v (the fault fired: %t)", name, err, fired())
		}
		w.must(w.c.Commit(t.Context(), d))
		state, err := w.store.Read(t.Context(), "bridge")
		if err != nil || state.Positions[0].Offset != w.at {
			t.Errorf("%s: the saved positions are %v, %v", name, state.Positions, err)
		}
	}
	old := w.claim.Generation
	fired := e.on("PutObject", 1, s3test.Fault{After: true})
	w.must(w.acquire())
	if !fired() || w.claim.Generation.ID != old.ID+1 {
		t.Errorf("an Acquire whose answer was lost became generation %d after %d", w.claim.Generation.ID, old.ID)
	}
	is(t, w.store.Save(t.Context(), old, sink.Checkpoint{ID: 99, From: at(w.at), To: at(w.at + 1)}), sink.ErrFenced)
}

// P70: a completion that is answered 200 with an error in its body was not done.
func TestCommit_ErrorIn200(t *testing.T) {
	for _, o := range []s3.Options{{}, {Mode: s3.Rename}} {
		e := newFake(t)
		w := e.writer(e.sink(&o), events(t))
		w.must(w.rows(2))
		d, err := w.prepare()
		w.must(err)
		w.must(w.save(d))
		op := map[s3.Mode]string{s3.Multipart: "CompleteMultipartUpload", s3.Rename: "CopyObject"}[o.Mode]
		fired := e.on(op, 1, s3test.Fault{Status: 200, Code: "InternalError"})
		if err := w.c.Commit(t.Context(), d); sink.ClassOf(err) != sink.ErrUncertain || !fired() {
			t.Errorf("mode %d: Commit: %v (the fault fired: %t)", o.Mode, err, fired())
		}
		e.holds(0, "after 200 with an error")
		w.must(w.c.Commit(t.Context(), d))
		e.holds(2, "after the next try")
	}
}

// P71: a completion that was done and whose answer is lost is told from one whose upload was aborted by a rule: the first is done, the second is ErrLost with the offsets.
func TestCommit_DoneOrAborted(t *testing.T) {
	for _, o := range []s3.Options{{}, {Mode: s3.Rename}, {Manifest: true}} {
		e := newFake(t)
		w := e.writer(e.sink(&o), events(t))
		w.must(w.rows(2))
		d, err := w.prepare()
		w.must(err)
		w.must(w.save(d))
		op := map[s3.Mode]string{s3.Multipart: "CompleteMultipartUpload", s3.Rename: "CopyObject"}[o.Mode]
		fired := e.on(op, 1, s3test.Fault{After: true})
		if err := w.c.Commit(t.Context(), d); err != nil && sink.ClassOf(err) != sink.ErrUncertain || !fired() {
			t.Errorf("Commit with a lost answer: %v (the fault fired: %t)", err, fired())
		}
		for range 2 {
			if err := w.c.Commit(t.Context(), d); err != nil {
				t.Errorf("Commit again: %v", err)
			}
		}
		e.holds(2, "after lost answers")

		w.must(w.rows(2))
		d, err = w.prepare()
		w.must(err)
		w.must(w.save(d))
		e.fake.AbortAll(e.bucket)
		for _, k := range e.keys("lake/_staging/") {
			e.remove(k)
		}
		for range 2 {
			is(t, w.c.Commit(t.Context(), d), sink.ErrLost, "topic/0@2", "topic/0@4")
		}
		e.holds(2, "after the upload was aborted")
	}
}

// P71 and P70 on servers that answer oddly: 200 to the completion of an upload that is gone, 500 to the same, an answer for a name that another object holds.
func TestCommit_AnswersThatProveNothing(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(nil), events(t))
	prepared := func() (d sink.Committable) {
		w.must(w.rows(1))
		d, err := w.prepare()
		w.must(err)
		w.must(w.save(d))
		return d
	}
	d := prepared()
	e.fake.AbortAll(e.bucket)
	e.on("CompleteMultipartUpload", 1, s3test.Fault{Status: 500, Code: "InternalError"})
	is(t, w.c.Commit(t.Context(), d), sink.ErrLost)

	d = prepared()
	_, key, _, _ := s3.Files(d)
	e.putObject(key, "another's", "")
	e.on("CompleteMultipartUpload", 1, s3test.Fault{Status: 412, Code: "PreconditionFailed"})
	is(t, w.c.Commit(t.Context(), d), sink.ErrConfig, path.Base(key), "Move it away")
	if string(e.get(key)) != "another's" {
		t.Error("another one's object was overwritten")
	}
	e.remove(key)
	w.must(w.c.Commit(t.Context(), d)) // the upload was kept
}

// P72 and P73: rows that alternate between folders make one file a folder; the number of open files is bounded, and a file ends before it has too many parts. Nothing is lost.
func TestFiles_FoldersAndParts(t *testing.T) {
	ts := func(hour int64) changelog.Value { return changelog.TimestampValue(hour*3600, 0) }
	by := []s3.PartitionField{{Column: "ts", Name: "hour", Layout: "15"}}
	e := newFake(t)
	w := e.writer(e.sink(&s3.Options{PartitionBy: by}), table(t, "events", "[I]", "", "id BIGINT", "ts TIMESTAMP(3)"))
	var cs []changelog.Change
	for i := range int64(1000) {
		cs = append(cs, w.change(changelog.Insert, num(i), ts(10+i%2)))
	}
	w.must(w.write(cs...))
	w.finish()
	keys := e.dataKeys()
	if len(keys) != 2 || !strings.HasPrefix(keys[0], "lake/events/hour=10/") || !strings.HasPrefix(keys[1], "lake/events/hour=11/") {
		t.Errorf("files %v", keys)
	}
	e.holds(1000, "in two folders")

	e = newFake(t)
	s := e.sink(&s3.Options{PartitionBy: by, MaxOpenFiles: 2}).Lower(256, 4, 0, 0, 0)
	w = e.writer(s, table(t, "events", "[I]", "", "id BIGINT", "ts TIMESTAMP(3)"))
	cs = nil
	for i := range int64(1000) {
		cs = append(cs, w.change(changelog.Insert, num(i), ts(10+i/4%3)))
	}
	w.must(w.write(cs...))
	w.finish()
	e.holds(1000, "in three folders, two open at a time, four parts a file")
	most := 0
	for _, r := range e.fake.Requests() {
		if r.Op == "UploadPart" {
			most = max(most, len(r.Key))
		}
	}
	if n := len(e.dataKeys()); n < 100 {
		t.Errorf("%d files: the bound of open files was not met", n)
	}
	e = newFake(t)
	w = e.writer(e.sink(nil).Lower(256, 4, 0, 0, 0), events(t))
	w.put(1000)
	e.holds(1000, "in files of four parts")
	if n := len(e.dataKeys()); n < 1000*27/1024 {
		t.Errorf("%d files", n)
	}
}

// P74: a lane writes one version of a table; another one is another lane, or another checkpoint. So files never follow alternations.
func TestSchema_OneVersionALane(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(nil), events(t))
	w.put(500)
	wider := e.writer(e.sink(nil), table(t, "events", "[I]", "", "id BIGINT", "v STRING", "more STRING"))
	var cs []changelog.Change
	for range 500 {
		cs = append(cs, wider.change(changelog.Insert, num(wider.at), str("v"), changelog.Value{}))
	}
	wider.must(wider.write(cs...))
	wider.finish()
	e.holds(1000, "after a column was added")
	if keys := e.dataKeys(); len(keys) != 2 {
		t.Errorf("files %v", keys)
	}
	is(t, w.write(w.change(changelog.Insert, num(1), str("v"), str("too wide"))), sink.ErrRejected)
}

// P75: a bucket that wants checksums says so in words that name the option, and with it everything is accepted.
func TestChecksum_ObjectLock(t *testing.T) {
	for _, mode := range []s3.Mode{s3.Multipart, s3.Rename} {
		e := newFake(t)
		e.fake.NeedChecksum = true
		s := e.sink(&s3.Options{Mode: mode})
		c, err := s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: []*changelog.Table{events(t)}})
		if err != nil {
			t.Fatal(err)
		}
		g := sink.Generation{Bridge: "bridge", ID: 1, Partitions: []changelog.Partition{part0}}
		if err := c.Open(t.Context(), sink.Claim{Generation: g}); err != nil {
			t.Fatal(err)
		}
		b := changelog.NewBatch(events(t))
		b.Append(changelog.Change{Partition: part0, Row: changelog.Row{num(0), str("a")}})
		err = c.Write(t.Context(), b)
		if err == nil {
			_, err = c.Prepare(t.Context(), sink.Cut{Generation: g, Checkpoint: 1, From: at(0), To: at(1)})
		}
		is(t, err, sink.ErrConfig, "Checksum", "ChecksumCRC32")
		with := s3.Settings{Checksum: s3.ChecksumCRC32}
		s = e.sink(&s3.Options{Mode: mode, Settings: with, Manifest: true})
		if c, err = s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: []*changelog.Table{events(t)}}); err != nil {
			t.Fatal(err)
		}
		g.ID = 2
		if err := c.Open(t.Context(), sink.Claim{Generation: g, Ended: []sink.EndedGeneration{{ID: 1}}}); err != nil {
			t.Fatal(err)
		}
		if err := c.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		d, err := c.Prepare(t.Context(), sink.Cut{Generation: g, Checkpoint: 1, From: at(0), To: at(1)})
		if err == nil {
			err = c.Commit(t.Context(), d)
		}
		if err != nil {
			t.Fatal(err)
		}
		e.holds(1, "with checksums")
		store, err := s3.NewStore(e.client(nil), e.bucket, "lake", with)
		if err == nil {
			_, err = store.Acquire(t.Context(), sink.AcquireRequest{Bridge: "b", Partitions: []changelog.Partition{part0}, GroupGeneration: -1})
		}
		if err != nil {
			t.Errorf("the store: %v", err)
		}
	}
}

// P76: a server that ignores conditions is found out and refused by the store, with what works instead; the sink works all the same.
func TestStore_ServerWithoutConditions(t *testing.T) {
	e := newFake(t)
	e.fake.Unconditional = true
	store, err := s3.NewStore(e.client(nil), e.bucket, "lake", s3.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Acquire(t.Context(), sink.AcquireRequest{Bridge: "bridge", Partitions: []changelog.Partition{part0}, GroupGeneration: -1})
	is(t, err, sink.ErrConfig, "ignores If-None-Match", "filestore")
	if keys := e.keys(""); len(keys) != 0 {
		t.Errorf("the probe left %v", keys)
	}
}
