package s3_test

import (
	"slices"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
)

// A receipt is proven to be committed by its manifest or, without one, by all its files, and by nothing else.
func TestCommitted(t *testing.T) {
	for name, open := range servers() {
		t.Run(name, func(t *testing.T) { committed(t, open) })
	}
}

func committed(t *testing.T, open func(testing.TB) *env) {
	for _, manifest := range []bool{false, true} {
		for _, mode := range []s3.Mode{s3.Multipart, s3.Rename} {
			e := open(t)
			w := e.writer(e.sink(&s3.Options{Manifest: manifest, Mode: mode}), events(t))
			says := func(d sink.Committable, want bool, when string) {
				t.Helper()
				if done, err := s3.Committed(t.Context(), e.client(nil), d); err != nil || done != want {
					t.Errorf("manifest %t, mode %d: %s: %t, %v", manifest, mode, when, done, err)
				}
			}
			w.must(w.rows(2))
			d, err := w.prepare()
			w.must(err)
			says(d, false, "prepared")
			w.must(w.save(d))
			says(d, false, "decided")
			w.must(w.c.Commit(t.Context(), d))
			says(d, true, "committed")
			next := w.put(1)
			says(d, true, "committed before another")
			says(next, true, "the other")
			first := e.dataKeys()[0]
			e.remove(first)
			says(d, manifest, "a file was taken away")
			e.putObject(first, "something else", "")
			says(d, manifest, "a file is another's")
			if _, err := s3.Committed(t.Context(), e.client(nil), sink.Committable{Version: 1, Data: []byte(`{"transactional_id":"x"}`)}); sink.ClassOf(err) != sink.ErrLost {
				t.Errorf("a receipt of another sink: %v", err)
			}
		}
	}
}

// Sinks are named whatever else lies beside their folders.
func TestSinks(t *testing.T) {
	for name, open := range servers() {
		t.Run(name, func(t *testing.T) { sinks(t, open(t)) })
	}
}

func sinks(t *testing.T, e *env) {
	names := func() []s3.SinkName {
		t.Helper()
		all, err := s3.Sinks(t.Context(), e.client(nil), e.bucket, "lake")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := names(); len(all) != 0 {
		t.Errorf("of an empty bucket: %v", all)
	}
	w := e.writer(e.sink(&s3.Options{Manifest: true}), events(t))
	for range 3 {
		w.put(1)
	}
	for _, key := range []string{"bridge/lake-2/manifest/x.json", "bridge/lake0/letter/x", "bridge!2eb/s!20x/fence/1", "bridge-a/store.json", "zz/y/manifest/1.json", "zz/y/manifest/2.json"} {
		e.putObject("lake/_flinksink/"+key, "{}", "")
	}
	want := []s3.SinkName{{Bridge: "bridge.b", Sink: "s x"}, {Bridge: "bridge", Sink: "lake-2"}, {Bridge: "bridge", Sink: "lake"}, {Bridge: "bridge", Sink: "lake0"}, {Bridge: "zz", Sink: "y"}}
	if all := names(); !slices.Equal(all, want) {
		t.Errorf("%v, expected %v", all, want)
	}
}
