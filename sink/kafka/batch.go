package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// This file writes record batches, version 2 (https://kafka.apache.org/documentation/#recordbatch).

const (
	batchHeader = 61 // bytes of a batch before its records
	// what a record takes at most beside key, value and headers: its length, attributes, and the two deltas and lengths.
	recordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is a run of records for one partition, until it is sent.
type batch struct {
	place
	records     []byte // behind room for the batch's header, so that it is sent as it lies; empty without records
	n           int32
	first, last int64 // timestamps
	from        []noted
	sources     []changelog.Partition // that from counts
	sequence    int32                 // of its first record; -1: not sent yet
	parted      bool                  // part of one that was too large, whose memory it shares
}

// origin is the change that a record was made of.
type origin struct {
	changelog.Partition
	offset int64
	index  int32
}

// noted is an origin as a batch keeps it: there is one a record, so it is small, and nothing that the collector has to look at.
type noted struct {
	offset        int64
	index, source int32
}

// notedSize is the memory of an origin, for the budget.
const notedSize = 16

// note keeps an origin. Records come in runs of one partition.
func (b *batch) note(o origin) noted {
	i := len(b.sources) - 1
	if n := len(b.from) - 1; n >= 0 {
		i = int(b.from[n].source)
	}
	if i < 0 || b.sources[i] != o.Partition {
		if i = slices.Index(b.sources, o.Partition); i < 0 {
			i = len(b.sources)
			b.sources = append(b.sources, o.Partition)
		}
	}
	return noted{o.offset, o.index, int32(i)}
}

// origin is the change that record i was made of.
func (b *batch) origin(i int) origin {
	n := b.from[i]
	return origin{b.sources[n.source], n.offset, n.index}
}

// size is what the batch takes without compression.
func (b *batch) size() int { return max(len(b.records), batchHeader) }

// recordSize is what a record takes at most.
func recordSize(r *changelog.Record) int {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 10 + len(h.Key) + len(h.Value)
	}
	return n
}

func (b *batch) append(r *changelog.Record, from origin) {
	if b.n == 0 {
		b.first, b.last = r.Timestamp, r.Timestamp
		b.records = append(b.records[:0], make([]byte, batchHeader)...)
	}
	b.last = max(b.last, r.Timestamp)
	b.records = appendRecord(b.records, r, r.Timestamp-b.first, b.n)
	b.n++
	b.from = append(b.from, b.note(from))
}

func appendRecord(dst []byte, r *changelog.Record, timestampDelta int64, offsetDelta int32) []byte {
	n := 1 + varintLen(timestampDelta) + varintLen(int64(offsetDelta)) + bytesLen(r.Key) + bytesLen(r.Value) + varintLen(int64(len(r.Headers)))
	for _, h := range r.Headers {
		n += varintLen(int64(len(h.Key))) + len(h.Key) + bytesLen(h.Value)
	}
	dst = binary.AppendVarint(dst, int64(n))
	dst = append(dst, 0) // attributes
	dst = binary.AppendVarint(dst, timestampDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

// appendBytes writes nil as null, which is not empty.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func bytesLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func varintLen(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

// encode returns the batch as a produce request holds it. Without compression that is the batch's own memory, which changes no more before the batch has arrived.
func (b *batch) encode(p producer, c kgo.Compressor) []byte {
	out, codec := b.records, kgo.CompressionCodecType(0)
	if c != nil {
		var buf bytes.Buffer
		if small, with := c.Compress(&buf, b.records[batchHeader:]); with > 0 && len(small) < len(b.records)-batchHeader {
			out, codec = append(make([]byte, batchHeader, batchHeader+len(small)), small...), with
		}
	}
	h := out[:0]
	h = binary.BigEndian.AppendUint64(h, 0)                   // first offset
	h = binary.BigEndian.AppendUint32(h, uint32(len(out)-12)) // length of what follows
	h = binary.BigEndian.AppendUint32(h, 1<<32-1)             // leader epoch: -1
	h = append(h, 2)                                          // magic
	h = binary.BigEndian.AppendUint32(h, 0)                   // checksum, below
	h = binary.BigEndian.AppendUint16(h, 1<<4|uint16(codec))  // transactional
	h = binary.BigEndian.AppendUint32(h, uint32(b.n-1))
	h = binary.BigEndian.AppendUint64(h, uint64(b.first))
	h = binary.BigEndian.AppendUint64(h, uint64(b.last))
	h = binary.BigEndian.AppendUint64(h, uint64(p.pid))
	h = binary.BigEndian.AppendUint16(h, uint16(p.epoch))
	h = binary.BigEndian.AppendUint32(h, uint32(b.sequence))
	binary.BigEndian.AppendUint32(h, uint32(b.n))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], castagnoli))
	return out
}

// split makes a batch of each record, for a broker that found the whole too large. The first one takes over the batch's place in the
// sequence.
func (b *batch) split() []*batch {
	var out []*batch
	rest := b.records[batchHeader:]
	for i := range b.from {
		n, w := binary.Varint(rest)
		record := rest[w : w+int(n)]
		rest = rest[w+int(n):]
		body := record[1:] // attributes
		delta, w := binary.Varint(body)
		body = body[w:]
		_, w = binary.Varint(body)
		body = body[w:]
		one := &batch{place: b.place, n: 1, first: b.first + delta, last: b.first + delta, from: b.from[i : i+1], sources: b.sources, sequence: -1, parted: true}
		one.records = binary.AppendVarint(make([]byte, batchHeader, batchHeader+8+len(body)), int64(3+len(body)))
		one.records = append(one.records, 0, 0, 0)
		one.records = append(one.records, body...)
		out = append(out, one)
	}
	return out
}
