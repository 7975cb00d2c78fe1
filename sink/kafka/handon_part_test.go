package kafka

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// batchOf decodes values with their originals into one batch.
func batchOf(t *testing.T, with string, values ...string) (*changelog.Batch, *encoder) {
	t.Helper()
	table := tableOf(t, "id BIGINT, s STRING", with)
	d := decoderOf(t, table, nil)
	e := sinkOf(t, table, false).encoderOf(t, d.Table())
	b := changelog.NewBatch(d.Table())
	b.KeepOriginals = true
	for i, v := range values {
		if err := d.Decode(b, &changelog.Record{Partition: changelog.Partition{Topic: "t"}, Offset: int64(i), Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	return b, e
}

// Who takes changes out of a batch need not look at originals: what is not all of a message any more, and what is not where it was, is encoded, and the rest is
// handed on.
func TestHandOn_ChangesTakenOut(t *testing.T) {
	const insert, update, remove = `{ "op":"c","after":{"id":1,"s":"a"}}`, `{ "op":"u","before":{"id":1,"s":"a"},"after":{"id":1,"s":"b"}}`, `{ "op":"d","before":{"id":1,"s":"b"}}`
	for _, c := range []struct {
		name string
		edit func(b *changelog.Batch)
		want []bool // of each record: handed on
	}{
		{"nothing", func(*changelog.Batch) {}, []bool{true, true, true}},
		{"half of an update", func(b *changelog.Batch) { b.Changes = slices.Delete(b.Changes, 1, 2) }, []bool{true, false, true}},
		{"the other half", func(b *changelog.Batch) { b.Changes = slices.Delete(b.Changes, 2, 3) }, []bool{true, false, true}},
		{"a message", func(b *changelog.Batch) { b.Changes = slices.Delete(b.Changes, 0, 1) }, []bool{true, true}},
		{"the last", func(b *changelog.Batch) { b.Truncate(3) }, []bool{true, true}},
		{"an original", func(b *changelog.Batch) { b.Originals = slices.Delete(b.Originals, 1, 2) }, []bool{true, false, false, false}}, // it looks for it to the end
		{"their order", func(b *changelog.Batch) { slices.Reverse(b.Originals) }, []bool{true, false, false, false}},
		{"all originals", func(b *changelog.Batch) { b.Originals = nil }, []bool{false, false, false, false}},
		{"another topic", func(b *changelog.Batch) { b.Changes[0].Topic = "u" }, []bool{false, false, false, false}},
		{"a value", func(b *changelog.Batch) { b.Originals[1].Value = nil }, []bool{true, false, false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, e := batchOf(t, retractTarget, insert, update, remove)
			c.edit(b)
			var got []bool
			if err := e.encode(b, func(r *changelog.Record, o origin) error {
				got = append(got, strings.HasPrefix(string(r.Value), "{ "))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("handed on: %v, expected %v", got, c.want)
			}
		})
	}
}

// A record that stands for several changes is refused as all of its message; one that stands for one names that.
func TestHandOn_Origin(t *testing.T) {
	b, e := batchOf(t, retractTarget, `{"op":"u","before":{"id":1,"s":"a"},"after":{"id":1,"s":"b"}}`, `{"op":"d","before":{"id":1,"s":"b"}}`)
	var got []int32
	if err := e.encode(b, func(_ *changelog.Record, o origin) error { got = append(got, o.index); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []int32{-1, 0}) {
		t.Errorf("the records are of changes %v", got)
	}
}

// A row that is not whole is refused, and not handed on as what it came in.
func TestHandOn_NotWhole(t *testing.T) {
	b, e := batchOf(t, retractTarget, `{"op":"u","before":{"id":1,"s":"a"},"after":{"id":1,"s":"b"}}`)
	b.Changes[1].Row[1] = changelog.UnchangedValue()
	var se *sink.Error
	if err := e.encode(b, func(*changelog.Record, origin) error { return nil }); !errors.As(err, &se) || len(se.Rejected) != 1 || se.Rejected[0].Index != 1 {
		t.Errorf("it is written: %v", err)
	}
}

// Once a batch is encoded nothing refers to the messages any more.
func TestHandOn_NothingKept(t *testing.T) {
	const value = `{ "id":1,"s":"a"}`
	b, e := batchOf(t, "'connector' = 'kafka', 'format' = 'json'", value)
	var out unsent
	if err := e.encode(b, out.add); err != nil {
		t.Fatal(err)
	}
	clear(b.Originals[0].Value)
	if !strings.Contains(string(out.b.records), value) {
		t.Errorf("the batch holds %q", out.b.records)
	}
}
