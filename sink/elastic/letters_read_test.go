package elastic_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// Letters are read back byte for byte, the newest first, page after page; and of one bridge where one is named.
func TestDeadLetters_Read(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		reader, err := elastic.New(s.client(nil), s.prefix+"-orders", &elastic.Options{Deletes: elastic.Tombstone, DeadLetters: s.prefix + "-letters"})
		if err != nil {
			t.Fatal(err)
		}
		if all, err := reader.DeadLetters(t.Context(), "", 0); err != nil || len(all) > 0 {
			t.Fatalf("without an index: %v, %v", all, err)
		}
		l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone}, nil).open(7, 0, false)
		keep := func(letters ...sink.DeadLetter) {
			t.Helper()
			l.must(l.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), letters))
			l.must(l.prepare())
		}
		at := time.Date(2024, 2, 29, 1, 2, 3, 456_000_000, time.UTC)
		p := changelog.Partition{Topic: "orders", Partition: 3}
		whole := sink.DeadLetter{Partition: p, Offset: 1, Index: 2, Column: "v", Class: "rejected", Error: "no", Timestamp: at, Key: []byte{}, Value: []byte{0, 255, '"'},
			Headers: []changelog.Header{{Key: "a\xff", Value: []byte("x")}, {Key: "a\xff"}, {Key: "", Value: []byte{}}}, Changes: 4}
		bare := sink.DeadLetter{Partition: p, Offset: 2, Index: -1, Class: "data", Error: "bad", Changes: 1}
		keep(whole)
		keep(bare)
		all, err := reader.DeadLetters(t.Context(), "b", 0)
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		if diff := cmp.Diff([]sink.DeadLetter{bare, whole}, []sink.DeadLetter{all[0].DeadLetter, all[1].DeadLetter}); diff != "" {
			t.Error(diff)
		}
		if x := all[1]; x.Bridge != "b" || x.Generation != 7 || x.Checkpoint != 1 || x.Written.IsZero() || all[0].Checkpoint != 2 {
			t.Errorf("%+v", all)
		}
		// More than two pages of one checkpoint, which are equally new.
		var many []sink.DeadLetter
		for i := range 230 {
			many = append(many, sink.DeadLetter{Partition: p, Offset: int64(100 + i), Index: -1, Class: "data", Error: "bad", Value: fmt.Append(nil, i), Changes: 1})
		}
		keep(many...)
		if all, err = reader.DeadLetters(t.Context(), "", 0); err != nil || len(all) != 232 {
			t.Fatalf("%d letters, %v", len(all), err)
		}
		seen := map[int64]bool{}
		for i, x := range all {
			seen[x.Offset] = true
			if i > 0 && x.Written.After(all[i-1].Written) {
				t.Errorf("letter %d is newer than the one before it", i)
			}
		}
		if len(seen) != 232 || all[231].Offset != 1 {
			t.Errorf("%d different letters, the oldest %d", len(seen), all[231].Offset)
		}
		if all, err := reader.DeadLetters(t.Context(), "b", 150); err != nil || len(all) != 150 || all[0].Written.Before(all[149].Written) {
			t.Errorf("%d letters, %v", len(all), err)
		}
		if all, err := reader.DeadLetters(t.Context(), "another", 0); err != nil || len(all) > 0 {
			t.Errorf("of a bridge that set nothing aside: %d, %v", len(all), err)
		}
	})
}

// An index of something else is told as such.
func TestDeadLetters_OfAnotherIndex(t *testing.T) {
	s := standIn(t)
	l := s.lane(orders(t), elastic.Options{Deletes: elastic.Tombstone}, nil).open(1, 0, false)
	l.must(l.checkpoint(at(1, ins, 1, "SECRET")))
	reader, err := elastic.New(s.client(nil), l.index, &elastic.Options{Deletes: elastic.Tombstone, DeadLetters: l.index})
	if err != nil {
		t.Fatal(err)
	}
	_, err = reader.DeadLetters(t.Context(), "", 0)
	is(t, err, sink.ErrConfig, "holds a document that is no dead letter")
}
