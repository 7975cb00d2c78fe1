package s3_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/parquet"
)

func (e *env) letters(t *testing.T, o *s3.ReaderOptions) (out []string, err error) {
	t.Helper()
	r, err := s3.NewReader(e.api, e.bucket, "lake", o)
	if err != nil {
		t.Fatal(err)
	}
	for l, err := range r.DeadLetters(t.Context()) {
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%s/%d@%d %q", l.Topic, l.Partition, l.Offset, l.Value))
	}
	return out, nil
}

func letter(offset int64, value string) sink.DeadLetter {
	return sink.DeadLetter{Partition: part0, Offset: offset, Index: -1, Class: "data", Error: "is bad", Value: []byte(value), Changes: 1}
}

// Letters go beside files of any format and compression, in a checkpoint without rows too; they are in no table's folder, and in a manifest apart from its files.
func TestLetters_BesideEveryFormat(t *testing.T) {
	for name, o := range map[string]s3.Options{
		"gzip": {Compression: s3.Gzip, Manifest: true}, "zstd": {Compression: s3.Zstd, Mode: s3.Rename}, "parquet": {Format: parquet.New(nil), Manifest: true, Mode: s3.Rename},
		"upsert": {Kind: s3.Upsert}, "partitioned": {PartitionBy: []s3.PartitionField{{Column: "id"}}, MaxOpenFiles: 1},
	} {
		e := newFake(t)
		w := e.writer(e.sink(&o), table(t, "events", "[I]", "id", "id BIGINT NOT NULL", "v STRING"))
		keeper := w.c.(sink.DeadLetterKeeper)
		w.must(keeper.WriteDeadLetters(t.Context(), nil)) // asks whether they could be written
		for range 2 {
			w.must(keeper.WriteDeadLetters(t.Context(), []sink.DeadLetter{letter(w.at, "a"), letter(w.at+1, "b")}))
			w.at += 2
			w.must(w.rows(2))
			w.finish()
		}
		w.must(keeper.WriteDeadLetters(t.Context(), []sink.DeadLetter{letter(w.at, "c")}))
		w.at++
		w.finish()
		for _, ro := range []*s3.ReaderOptions{nil, {Bridge: "bridge", Sink: "lake"}} {
			got, err := e.letters(t, ro)
			if want := `[topic/0@0 "a" topic/0@1 "b" topic/0@4 "a" topic/0@5 "b" topic/0@8 "c"]`; fmt.Sprint(got) != want || err != nil {
				t.Errorf("%s: letters %v, %v", name, got, err)
			}
		}
		for _, k := range e.dataKeys() {
			if !strings.HasPrefix(k, "lake/events/") {
				t.Errorf("%s: %s among the data", name, k)
			}
		}
		if !o.Manifest {
			continue
		}
		r, _ := s3.NewReader(e.api, e.bucket, "lake", nil)
		n := 0
		for m, err := range r.Manifests(t.Context()) {
			n++
			if err != nil || len(m.Letters) != 1 || n < 3 && len(m.Files) != 1 || n == 3 && len(m.Files) != 0 {
				t.Errorf("%s: manifest %+v, %v", name, m, err)
			}
		}
	}
}

// Times that JSON cannot hold, and bytes that are no text, are no reason to refuse a letter.
func TestLetters_AnythingGoes(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(nil), events(t))
	odd := letter(0, "\x00\xff")
	odd.Timestamp = time.UnixMilli(1 << 60)
	odd.Error, odd.Column = "\xff", "\xfe"
	odd.Headers = []changelog.Header{{Key: "\xff", Value: nil}}
	w.must(w.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), []sink.DeadLetter{odd}))
	w.at = 1
	w.finish()
	r, err := s3.NewReader(e.api, e.bucket, "lake", nil)
	w.must(err)
	n := 0
	for l, err := range r.DeadLetters(t.Context()) {
		w.must(err)
		n++
		if d := l.DeadLetter(); string(d.Value) != "\x00\xff" || !d.Timestamp.IsZero() || d.Headers[0].Key != "\xff" || d.Headers[0].Value != nil {
			t.Errorf("%+v", d)
		}
	}
	if n != 1 {
		t.Errorf("%d letters", n)
	}
}

// A damaged file is an error without what was read.
func TestLetters_Damaged(t *testing.T) {
	for _, text := range []string{"secret", `{"offset": "secret"}`, `{"topic": "secret`, `{"key": "sec ret"}`} {
		e := newFake(t)
		e.putObject("lake/_flinksink/bridge/lake/letter/x.jsonl", text, "")
		got, err := e.letters(t, nil)
		is(t, err, sink.ErrLost, "x.jsonl")
		if err != nil && strings.Contains(err.Error(), "secret") || len(got) != 0 {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// Letters that are written before Open are a mistake, and a letter ends with the checkpoint that it is in.
func TestLetters_BeforeOpen(t *testing.T) {
	e := newFake(t)
	c, err := e.sink(nil).Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: tables(events(t))})
	if err != nil {
		t.Fatal(err)
	}
	is(t, c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), []sink.DeadLetter{letter(0, "a")}), sink.ErrConfig, "before Open")
	_, err = e.sink(nil).Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: []*changelog.Table{table(t, "", "[I]", "", "id BIGINT")}})
	is(t, err, sink.ErrConfig, "name")
}
