package postgres

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/google/go-cmp/cmp"
)

// What a row of the sink's own tables holds, however odd, is read as what was written, or is a mistake of the settings that says what is
// odd. The server is left out: a row is a row.
func FuzzStored(f *testing.F) {
	id := changelog.TopicID{1, 2, 3}.String()
	good := `[{"topic":"t","partition":3,"offset":17,"leaderEpoch":-1,"topicId":"` + id + `"}]`
	f.Add(uint8(0), int64(4), int64(2), "pg", int32(1), []byte("x"), good, good, "t", int32(3), int64(17), int32(5), id)
	f.Add(uint8(1), int64(4), int64(0), "", int32(0), []byte(nil), "", "", "", int32(0), int64(0), int32(0), "")
	f.Add(uint8(30), int64(4), int64(1), "pg", int32(1), []byte(nil), good, good, "t", int32(0), int64(0), int32(-1), "")
	f.Add(uint8(0), int64(-1), int64(-2), "pg", int32(-3), []byte{}, `[{"offset":-1}]`, `null`, "t", int32(-1), int64(-1), int32(-2), "no id")
	f.Add(uint8(0), int64(1), int64(1), "pg", int32(1), []byte{}, `[{"topic":"t","partition":9999999999}]`, `{"topic":"t"}`, "t", int32(1<<31-1), int64(-1<<63), int32(-1<<31), strings.Repeat("A", 22))
	f.Add(uint8(0), int64(1), int64(1), "pg", int32(1), []byte{}, `[[[[[[[[`, `[{"topic":"t","topicId":"AAAAAAAAAAAAAAAAAAAAAA=="}]`, "t\x00", int32(0), int64(0), int32(0), "\xff")
	f.Fuzz(func(t *testing.T, null uint8, gen, checkpoint int64, name string, version int32, data []byte, from, to, topic string, partition int32, offset int64, epoch int32, id string) {
		wantOdd := func(err error) bool {
			t.Helper()
			if err != nil && (sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), "never writes")) {
				t.Errorf("an odd row is %v", err)
			}
			return err != nil
		}
		var n nullCommittable
		for i, set := range []func(){func() { n.checkpoint = &checkpoint }, func() { n.sink = &name }, func() { n.version = &version }, func() { n.from = &from }, func() { n.to = &to }} {
			if null>>i&1 == 0 {
				set()
			}
		}
		n.data = data
		c, err := n.committable(sink.GenerationID(gen))
		if !wantOdd(err) && c != nil {
			if c.Sink == "" || c.Checkpoint <= 0 || c.Generation <= 0 || c.Version < 0 {
				t.Errorf("%+v", c)
			}
			again(t, wantOdd, c.From)
			again(t, wantOdd, c.To)
		}
		at, err := storedAt(changelog.Partition{Topic: topic, Partition: partition}, offset, epoch, id)
		if !wantOdd(err) {
			if at.Offset < 0 || at.Partition.Partition < 0 || at.Topic == "" {
				t.Errorf("%v", at)
			}
			again(t, wantOdd, []changelog.Position{at})
		}
		_, err = incarnationOf(version)
		wantOdd(err)
		for _, numbers := range [][]int32{nil, {partition}, {partition, 0}} {
			ps, err := join([]string{topic}, numbers)
			if !wantOdd(err) && len(ps) != len(numbers) {
				t.Errorf("%v of %v", ps, numbers)
			}
		}
	})
}

// again checks that positions that were read survive being written.
func again(t *testing.T, wantOdd func(error) bool, ps []changelog.Position) {
	t.Helper()
	for i := range ps {
		if ps[i].Offset < 0 || ps[i].Topic == "" {
			t.Errorf("%v", ps[i])
		}
		ps[i].Topic = strings.ToValidUTF8(ps[i].Topic, "?") // which all texts in Postgres are
	}
	text, err := encodePositions(ps)
	if err != nil {
		t.Error(err)
		return
	}
	got, err := decodePositions(text)
	if wantOdd(err) || !cmp.Equal(got, ps) {
		t.Errorf("%v was read as %v, %v", ps, got, err)
	}
}
