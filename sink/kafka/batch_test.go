package kafka

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readBack decodes a batch with kgo, which knows nothing of how it was written.
func readBack(t *testing.T, b []byte) []*kgo.Record {
	t.Helper()
	p := &kmsg.FetchResponseTopicPartition{RecordBatches: b, HighWatermark: 1000, LastStableOffset: 1000}
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t"}, p, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		t.Fatal(fp.Err)
	}
	return fp.Records
}

func someRecords() []changelog.Record {
	return []changelog.Record{
		{Key: []byte("k1"), Value: []byte("v1"), Timestamp: 1_700_000_000_000},
		{Key: nil, Value: nil, Timestamp: 1_700_000_000_005},
		{Key: []byte{}, Value: []byte{}, Timestamp: 1_699_999_999_000}, // earlier than the one before
		{Key: []byte("k"), Value: bytes.Repeat([]byte("long "), 10_000), Timestamp: 1_700_000_000_001,
			Headers: []changelog.Header{{Key: "h", Value: []byte("x")}, {Key: "h", Value: nil}, {Key: "", Value: []byte{}}}},
	}
}

func check(t *testing.T, got []*kgo.Record, want []changelog.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, expected %d", len(got), len(want))
	}
	null := func(b []byte) string { return fmt.Sprintf("%t %q", b == nil, b) }
	for i, r := range got {
		w := want[i]
		if null(r.Key) != null(w.Key) || null(r.Value) != null(w.Value) || r.Timestamp.UnixMilli() != w.Timestamp || len(r.Headers) != len(w.Headers) {
			t.Errorf("record %d: %v %v at %d, %d headers", i, null(r.Key), r.Timestamp, r.Timestamp.UnixMilli(), len(r.Headers))
			continue
		}
		for j, h := range r.Headers {
			if h.Key != w.Headers[j].Key || null(h.Value) != null(w.Headers[j].Value) {
				t.Errorf("record %d, header %d: %v", i, j, h)
			}
		}
		if r.ProducerID != 7 || r.ProducerEpoch != 3 || !r.Attrs.IsTransactional() {
			t.Errorf("record %d is of producer %d, epoch %d, transactional %t", i, r.ProducerID, r.ProducerEpoch, r.Attrs.IsTransactional())
		}
	}
}

func TestBatch(t *testing.T) {
	p := producer{"id", 7, 3}
	for name, codecs := range map[string][]kgo.CompressionCodec{"none": nil, "gzip": {kgo.GzipCompression()}, "snappy": {kgo.SnappyCompression()},
		"lz4": {kgo.Lz4Compression()}, "zstd": {kgo.ZstdCompression()}} {
		c, err := kgo.DefaultCompressor(codecs...)
		if err != nil {
			t.Fatal(err)
		}
		b := &batch{sequence: 5}
		size := batchHeader
		for _, r := range someRecords() {
			b.append(&r, origin{})
			size += recordSize(&r)
		}
		if b.size() > size {
			t.Errorf("%s: the batch has %d bytes, at most %d were foretold", name, b.size(), size)
		}
		encoded := b.encode(p, c)
		if len(codecs) > 0 && len(encoded) > b.size()/2 {
			t.Errorf("%s: %d bytes of %d", name, len(encoded), b.size())
		}
		check(t, readBack(t, encoded), someRecords())
	}
}

func TestBatch_Split(t *testing.T) {
	b := &batch{sequence: 5}
	for i, r := range someRecords() {
		b.append(&r, origin{offset: int64(i)})
	}
	var got []*kgo.Record
	for i, one := range b.split() {
		one.sequence = 0
		if one.from[0].offset != int64(i) || one.n != 1 {
			t.Errorf("part %d is of change %d", i, one.from[0].offset)
		}
		got = append(got, readBack(t, one.encode(producer{"id", 7, 3}, nil))...)
	}
	check(t, got, someRecords())
}
