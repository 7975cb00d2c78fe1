package s3_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/csv"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// now merges everything and deletes nothing.
func compactNow() s3.CompactOptions {
	return s3.CompactOptions{Bridge: "bridge", Sink: "lake", OlderThan: -1, DeleteAfter: -1}
}

func hourAgo() time.Time { return time.Now().Add(-time.Hour) }

func (e *env) compact(o s3.CompactOptions) (s3.CompactResult, error) {
	return s3.Compact(context.Background(), e.api, e.bucket, "lake", o)
}

// seen returns the ids that a reader by manifest sees, in order. It reads every file to its end, and so its hash.
func (e *env) seen(o *s3.ReaderOptions) ([]int64, error) {
	r, err := s3.NewReader(e.api, e.bucket, "lake", o)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for m, err := range r.Manifests(context.Background()) {
		if err != nil {
			return nil, err
		}
		for _, f := range m.Files {
			body, err := r.Open(context.Background(), f)
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(body)
			body.Close()
			if err != nil {
				return nil, err
			}
			ls := lines(text)
			if int64(len(ls)) != f.Rows {
				return nil, fmt.Errorf("a file of %d lines, and its manifest says %d", len(ls), f.Rows)
			}
			for _, l := range ls {
				var row struct{ ID int64 }
				if err := json.Unmarshal(l, &row); err != nil {
					return nil, err
				}
				ids = append(ids, row.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// sees fails unless readers by manifest see rows 0 to n-1, each once: all sinks, and the one.
func (e *env) sees(n int64, when string) {
	e.t.Helper()
	for _, o := range []*s3.ReaderOptions{nil, {Bridge: "bridge", Sink: "lake"}} {
		ids, err := e.seen(o)
		ok := err == nil && int64(len(ids)) == n
		for i, id := range ids {
			ok = ok && id == int64(i)
		}
		if !ok {
			e.t.Errorf("%s: readers see %v, %v; expected 0 to %d", when, ids, err, n-1)
		}
	}
}

func (e *env) manifests() (n int, files int) {
	r, err := s3.NewReader(e.api, e.bucket, "lake", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	for m, err := range r.Manifests(context.Background()) {
		if err != nil {
			e.t.Fatal(err)
		}
		n, files = n+1, files+len(m.Files)
	}
	return n, files
}

// Small files become one, again and again, in every compression; the replaced ones are deleted later, and a Commit that comes again then is no loss.
func TestCompact(t *testing.T) {
	for _, c := range []s3.Compression{s3.Uncompressed, s3.Gzip, s3.Zstd} {
		for _, mode := range []s3.Mode{s3.Multipart, s3.Rename} {
			e := newFake(t)
			e.fake.Clock = hourAgo
			w := e.writer(e.sink(&s3.Options{Manifest: true, Compression: c, Mode: mode}), events(t))
			var all []sink.Committable
			for range 5 {
				all = append(all, w.put(3))
			}
			if r, err := e.compact(compactNow()); err != nil || r.Number != 1 || r.Read != 5 || r.Written != 1 || r.Rows != 15 {
				t.Fatalf("compression %d: %+v, %v", c, r, err)
			}
			e.sees(15, "merged")
			e.holds(15, "who lists folders still sees the old files")
			all = append(all, w.put(2))
			e.sees(17, "a checkpoint later")
			if n, files := e.manifests(); n != 2 || files != 2 {
				t.Errorf("%d manifests of %d files", n, files)
			}
			if r, err := e.compact(compactNow()); err != nil || r.Number != 2 || r.Read != 2 || r.Rows != 17 {
				t.Fatalf("compression %d, again: %+v, %v", c, r, err)
			}
			e.sees(17, "merged twice")
			if r, err := e.compact(compactNow()); err != nil || r.Number+int64(r.Deleted) != 0 || r.Left.Alone != 1 {
				t.Errorf("nothing to merge: %+v, %v", r, err)
			}
			o := compactNow()
			o.DeleteAfter = time.Minute
			if r, err := e.compact(o); err != nil || r.Deleted != 7 {
				t.Errorf("deleting: %+v, %v", r, err)
			}
			e.sees(17, "after the old files were deleted")
			e.holds(0, "of the old files")
			for _, d := range all {
				w.must(w.c.Commit(t.Context(), d))
			}
			e.holds(0, "after all Commits came again")
			if n := len(e.keys("lake/_flinksink/bridge/lake/compacted/")); n != 1 {
				t.Errorf("%d merged files are there", n)
			}
			if r, err := e.compact(o); err != nil || r.Number+int64(r.Deleted) != 0 {
				t.Errorf("nothing to do: %+v, %v", r, err)
			}
			if _, err := e.seen(&s3.ReaderOptions{Original: true}); sink.ClassOf(err) != sink.ErrLost {
				t.Errorf("a reader of the originals, too late: %v", err)
			}
		}
	}
}

// Folders stay apart, letters and other files are named on, young checkpoints are left alone, and who reads on never sees a row again.
func TestCompact_WhatStays(t *testing.T) {
	e := newFake(t)
	by := []s3.PartitionField{{Column: "v"}}
	w := e.writer(e.sink(&s3.Options{Manifest: true, PartitionBy: by}), events(t))
	for range 3 {
		w.must(w.write(w.change(changelog.Insert, num(w.at), str("a")), w.change(changelog.Insert, num(w.at), str("b"))))
		w.must(w.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), []sink.DeadLetter{{Partition: part0, Offset: w.at, Changes: 1}}))
		w.finish()
	}
	young := compactNow()
	young.OlderThan = 0
	if r, err := e.compact(young); err != nil || r.Number != 0 || r.Left.Young != 3 || r.Left.Checkpoints != 0 {
		t.Errorf("young checkpoints: %+v, %v", r, err)
	}
	other := compactNow()
	other.Format = s3.Lines(csv.Format{}, nil)
	if r, err := e.compact(other); err != nil || r.Number != 0 || len(r.Left.Others) != 1 || r.Left.Others[".jsonl"] != 6 || r.Left.Checkpoints != 3 {
		t.Errorf("another format: %+v, %v", r, err)
	}
	large := compactNow()
	large.FileBytes = 2
	if r, err := e.compact(large); err != nil || r.Number != 0 || r.Left.Large != 6 || len(r.Left.Others) != 0 {
		t.Errorf("large files: %+v, %v", r, err)
	}
	if r, err := e.compact(compactNow()); err != nil || r.Written != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	e.sees(6, "two folders")
	r, _ := s3.NewReader(e.api, e.bucket, "lake", nil)
	for m, err := range r.Manifests(t.Context()) {
		if err != nil || m.Compaction != 1 || len(m.Letters) != 3 || len(m.Files) != 2 || m.Files[0].Folder != "events/v=a" && m.Files[0].Folder != "events/v=b" {
			t.Errorf("%+v, %v", m, err)
		}
	}
	on := &s3.ReaderOptions{Bridge: "bridge", Sink: "lake", AfterGeneration: w.claim.Generation.ID, AfterCheckpoint: 2}
	if ids, err := e.seen(on); err != nil || fmt.Sprint(ids) != "[4 5]" {
		t.Errorf("who reads on sees %v, %v", ids, err)
	}
	_, err := s3.Compact(t.Context(), e.api, e.bucket, "lake", s3.CompactOptions{})
	is(t, err, sink.ErrConfig, "Bridge")
}

// A compactor is cut off before and after each of its requests in turn. Readers see each row once, at once and after the next compactor.
func TestCompact_CutAtEveryRequest(t *testing.T) {
	step := 3
	if os.Getenv(longVariable) != "" {
		step = 1
	}
	for _, after := range []bool{false, true} {
		for n := 1; ; n += step {
			e := newFake(t)
			e.fake.Clock = hourAgo
			var mu sync.Mutex
			count, armed := 0, false
			e.fake.Intercept = func(s3test.Request) *s3test.Fault {
				mu.Lock()
				defer mu.Unlock()
				if !armed {
					return nil
				}
				if count++; count < n {
					return nil
				}
				return &s3test.Fault{After: after && count == n} // dead from here on
			}
			arm := func(on bool) int {
				mu.Lock()
				defer mu.Unlock()
				armed = on
				return count
			}
			w := e.writer(e.sink(&s3.Options{Manifest: true}), events(t))
			w.put(2)
			w.put(2)
			o := compactNow()
			if _, err := e.compact(o); err != nil {
				t.Fatal(err)
			}
			w.put(2)
			w.put(2)
			o.DeleteAfter = time.Minute
			arm(true)
			_, err := e.compact(o)
			requests := arm(false)
			when := fmt.Sprintf("cut off at request %d (carried out: %t)", n, after)
			e.sees(8, when)
			if requests < n {
				if err != nil || n < 30 {
					t.Errorf("%d requests: %v", requests, err)
				}
				break
			}
			if _, err := e.compact(compactNow()); err != nil {
				t.Errorf("%s, the next: %v", when, err)
			}
			e.sees(8, when+", after the next")
			if m, files := e.manifests(); m != 1 || files != 1 {
				t.Errorf("%s: %d manifests of %d files in the end", when, m, files)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// Compactors at once, beside a bridge that goes on, and readers all the while.
func TestCompact_Beside(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(&s3.Options{Manifest: true}), events(t))
	w.put(2)
	w.put(2)
	besides(t, e, w, 30)
}

func TestCompact_BesideServer(t *testing.T) {
	e := newReal(t)
	w := e.writer(e.sink(&s3.Options{Manifest: true}), events(t))
	w.put(2)
	w.put(2)
	besides(t, e, w, 8)
}

func besides(t *testing.T, e *env, w *writer, rounds int) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := e.compact(compactNow()); err != nil && sink.ClassOf(err) != sink.ErrTransient {
					t.Errorf("Compact: %v", err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		last := 0
		for {
			select {
			case <-done:
				return
			default:
			}
			ids, err := e.seen(nil)
			if err != nil || len(ids) < last {
				t.Errorf("a reader saw %d rows, and then %d: %v", last, len(ids), err)
				return
			}
			last = len(ids)
			for i, id := range ids {
				if id != int64(i) {
					t.Errorf("a reader sees %v", ids)
					return
				}
			}
		}
	})
	for range rounds {
		w.put(2)
	}
	close(done)
	wg.Wait()
	if _, err := e.compact(compactNow()); err != nil {
		t.Error(err)
	}
	e.sees(w.at, "at the end")
	// No entry replaces what an earlier one has replaced.
	once := map[string]int64{}
	for _, k := range e.keys("lake/_flinksink/bridge/lake/compaction/") {
		var c struct {
			Number int64
			Merged []string
		}
		if err := json.Unmarshal(e.get(k), &c); err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Merged {
			if once[m] != 0 {
				t.Errorf("%s was merged by %d and %d", m, once[m], c.Number)
			}
			once[m] = c.Number
		}
	}
}

// Another one writes the entry first: the loser begins anew, and deletes what it made.
func TestCompact_NotFirst(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(&s3.Options{Manifest: true}), events(t))
	w.put(2)
	w.put(2)
	var once sync.Once
	e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
		if r.Op != "PutObject" || !strings.Contains(r.Key, "/compaction/") {
			return nil
		}
		first := false
		once.Do(func() { first = true })
		if !first {
			return nil
		}
		return &s3test.Fault{Do: func() {
			if _, err := e.compact(compactNow()); err != nil {
				t.Error(err)
			}
			w.put(1)
		}}
	}
	r, err := e.compact(compactNow())
	if err != nil || r.Number != 2 || r.Rows != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	e.fake.Intercept = nil
	e.sees(5, "after two at once")
	if n := len(e.keys("lake/_flinksink/bridge/lake/compacted/")); n != 2 {
		t.Errorf("%d merged files are there", n)
	}
}

// P76 of the compactor.
func TestCompact_ServerWithoutConditions(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(&s3.Options{Manifest: true}), events(t))
	w.put(2)
	w.put(2)
	e.fake.Unconditional = true
	_, err := e.compact(compactNow())
	is(t, err, sink.ErrConfig, "If-None-Match")
	e.sees(4, "after it was refused")
}

// A file that is not what its manifest says stops the merge: nothing is replaced. One that is gone is passed over.
func TestCompact_Damaged(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(&s3.Options{Manifest: true}), events(t))
	for range 3 {
		w.put(2)
	}
	keys := e.dataKeys()
	was := string(e.get(keys[0]))
	e.putObject(keys[0], was[:10], "")
	_, err := e.compact(compactNow())
	is(t, err, sink.ErrLost, "manifest says")
	if n, _ := e.manifests(); n != 3 || len(e.keys("lake/_flinksink/bridge/lake/compacted/")) != 0 {
		t.Errorf("%d manifests", n)
	}
	e.remove(keys[0])
	if r, err := e.compact(compactNow()); err != nil || r.Read != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := e.seen(nil); sink.ClassOf(err) != sink.ErrLost {
		t.Errorf("the file that is gone is not missed: %v", err)
	}
	e.putObject(keys[0], was, "")
	e.sees(6, "after it was put back")
}
