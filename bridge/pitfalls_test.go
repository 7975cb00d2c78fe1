package bridge

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// serve answers fetches of partition 0 at offsets [from, to) with raw, always with all of it, as brokers do with a batch.
func (k *cluster) serve(from, to int64, raw []byte) {
	k.c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.c.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
			return nil, nil, false
		}
		if at := req.Topics[0].Partitions[0].FetchOffset; at < from || at >= to {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		p := kmsg.NewFetchResponseTopicPartition()
		p.HighWatermark, p.LastStableOffset, p.RecordBatches = to, to, raw
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		rt.Partitions = append(rt.Partitions, p)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
}

// batchOf makes a batch of records at these offsets, ascending, whose values name them.
func batchOf(offsets ...int64) []byte {
	first, last := offsets[0], offsets[len(offsets)-1]
	var records []byte
	for _, o := range offsets {
		r := kmsg.Record{OffsetDelta: int32(o - first), Value: fmt.Appendf(nil, "v%05d", o)}
		body := r.AppendTo(nil)
		_, n := binary.Varint(body) // its length, which is not set yet
		r.Length = int32(len(body) - n)
		records = r.AppendTo(records)
	}
	b := kmsg.RecordBatch{FirstOffset: first, Magic: 2, LastOffsetDelta: int32(last - first), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(offsets)), Records: records}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// Offsets with gaps, as log compaction leaves them, and a batch that is fetched again from its start after a restart in its middle: each
// message is applied once, and the position goes over the gaps (P29).
func TestFetch_GapsAndRedelivery(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("x", 0, 17)...)
	if err := k.c.DeleteRecords(k.topic, 0, 10); err != nil {
		t.Fatal(err)
	}
	k.serve(10, 17, batchOf(10, 11, 15, 16))
	k.stopAt(g, k.input(), 3)
	g.wantValues(t, []string{"v00010", "v00011"})
	if at := g.positions(t, "test"); at[0] != 12 {
		t.Fatalf("positions %v", at)
	}
	r := start(t, k.bridge(g, options(g)))
	g.wantValues(t, []string{"v00010", "v00011", "v00015", "v00016"}, r)
	until(t, "the position after the last", func() bool { return g.positions(t, "test")[0] == 17 }, r)
	k.put(0, "after")
	g.wantValues(t, []string{"after", "v00010", "v00011", "v00015", "v00016"}, r)
	r.end()
}

// What the client hands on below the place that a partition was read to is delivered again, whatever the reason, and is not taken (P29).
func TestTake_BelowThePosition(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	r := start(t, k.bridge(g, options(g)))
	k.put(0, numbered("a", 0, 3)...)
	g.wantValues(t, numbered("a", 0, 3), r)
	f := r.b.cur.f
	again := func(offsets ...int64) {
		p := kgo.FetchPartition{Partition: 0, HighWatermark: 9, LastStableOffset: 9}
		for _, o := range offsets {
			p.Records = append(p.Records, &kgo.Record{Topic: k.topic, Offset: o, Value: fmt.Appendf(nil, "b%05d", o)})
		}
		if err := f.take(kgo.FetchTopic{Topic: k.topic}, p); err != nil {
			t.Error(err)
		}
	}
	again(1, 2)
	again(0, 1, 2, 5, 5, 4, 7)
	again(5, 7)
	g.wantValues(t, append(numbered("a", 0, 3), "b00005", "b00007"), r)
	until(t, "the position after the last", func() bool { return g.positions(t, "test")[0] == 8 }, r)
	r.stop()
	r.wait()
	g.wantValues(t, append(numbered("a", 0, 3), "b00005", "b00007"))
}

// timeless notes what records say of their time.
type timeless struct {
	texts
	mu   sync.Mutex
	seen []string
}

func (d *timeless) Decode(b *changelog.Batch, r *changelog.Record) error {
	d.mu.Lock()
	d.seen = append(d.seen, fmt.Sprintf("%s %d", r.TimestampType, r.Timestamp))
	d.mu.Unlock()
	return d.texts.Decode(b, r)
}

// A message without timestamp is legal: those of format 0, of before Kafka 0.10, have none (P28).
func TestFetch_NoTimestamp(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "x", "y")
	var raw []byte
	for o, v := range []string{"old0", "old1"} {
		m := kmsg.MessageV0{Offset: int64(o), Value: []byte(v)}
		one := m.AppendTo(nil)
		binary.BigEndian.PutUint32(one[8:], uint32(len(one)-12))
		binary.BigEndian.PutUint32(one[12:], crc32.ChecksumIEEE(one[16:]))
		raw = append(raw, one...)
	}
	k.serve(0, 2, raw)
	in := k.input()
	d := &timeless{texts: texts{sinktest.Appended()}}
	in.Decoder = d
	b, err := New("test", in, g, options(g))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	g.wantValues(t, []string{"old0", "old1"}, r)
	r.end()
	d.mu.Lock()
	defer d.mu.Unlock()
	if want := []string{"NoTimestampType -1", "NoTimestampType -1"}; !slices.Equal(d.seen, want) {
		t.Errorf("%q, expected %q", d.seen, want)
	}
}

// A first start on a log whose beginning is gone loses nothing that anybody had asked for: it begins at what there is (P93).
func TestBegin_FirstStartIsNoLoss(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, numbered("a", 0, 10)...)
	if err := k.c.DeleteRecords(k.topic, 0, 7); err != nil {
		t.Fatal(err)
	}
	k.read(g)
	g.wantValues(t, numbered("a", 7, 10))
}

// Dead letters are switched on and all else is at its default: one malformed message is set aside, and the bridge goes on. One setting
// decides (P94). Where it can mean nothing it is refused.
func TestDeadLetters_OneSettingDecides(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a", "bad one", "b")
	in := k.input()
	store := sinktest.NewStore(g.srv)
	b, err := New("test", in, sinktest.NewSink(g.srv, nil), &Options{OnData: DeadLetter, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	g.wantValues(t, []string{"a", "b"}, r)
	k.put(0, "c")
	g.wantValues(t, []string{"a", "b", "c"}, r)
	r.end()
	letters := g.srv.DeadLetters()
	if len(letters) != 1 || letters[0].Offset != 1 || string(letters[0].Value) != "bad one" || letters[0].Class != "data" {
		t.Errorf("dead letters %+v", letters)
	}
	if at := g.positions(t, "test"); at[0] != 4 {
		t.Errorf("positions %v", at)
	}

	cannot := keepsNone{sinktest.NewSink(g.srv, nil)}
	if b, err = New("other", in, cannot, &Options{OnData: DeadLetter, Store: store}); err == nil {
		err = start(t, b).wait()
	}
	configError(t, err, "Options.OnData", "dead letters")
	_, err = New("other", in, sinktest.NewSink(g.srv, nil), &Options{OnData: Skip + 1, DataBudget: -1, Store: store})
	configError(t, err, "Options.OnData", "Options.DataBudget")
}

// keepsNone is a sink whose committers keep no dead letters.
type keepsNone struct{ sink.Sink }

func (s keepsNone) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := s.Sink.Lane(ctx, l)
	return struct{ sink.Committer }{c}, err
}
