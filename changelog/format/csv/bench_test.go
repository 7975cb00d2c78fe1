package csv

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// record is the row that the benchmarks of all text formats read, with two more words to make it 200 bytes.
const record = `918273645,c-00918273,"standard widget, blue, with the long handle and two spare parts",12,1499.95,0.375,"2024-05-17 08:09:10.123",false,` +
	`"leave at the door, or with the neighbour on the left"`

var recordColumns = []string{"id BIGINT", "customer STRING", "item STRING", "quantity INT", "price DECIMAL(10, 2)", "weight DOUBLE",
	"ordered TIMESTAMP(3)", "shipped BOOLEAN", "note STRING"}

func BenchmarkDecode(b *testing.B) {
	p := payloadOf(b, nil, recordColumns...)
	d := decoderOf(b, p)
	in := []byte(record)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	batch := changelog.NewBatch(p.Table)
	for i := 0; b.Loop(); i++ {
		if i%4096 == 0 {
			batch.Reset()
		}
		if err := d.DecodePayload(batch, in, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecode_EncodingCSV splits the same line and reads the numbers only.
func BenchmarkDecode_EncodingCSV(b *testing.B) {
	in := []byte(record)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		cells, err := csv.NewReader(bytes.NewReader(in)).Read()
		if err != nil || len(cells) != len(recordColumns) {
			b.Fatal(err)
		}
		if _, err := strconv.ParseInt(cells[0], 10, 64); err != nil {
			b.Fatal(err)
		}
		if _, err := strconv.ParseFloat(cells[5], 64); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecode_EncodingCSVReused is encoding/csv at its best: one reader for all lines, which Kafka's messages do not allow.
func BenchmarkDecode_EncodingCSVReused(b *testing.B) {
	in := bytes.Repeat([]byte(record+"\n"), 4096)
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	var r *csv.Reader
	for i := 0; b.Loop(); i++ {
		if i%4096 == 0 {
			r = csv.NewReader(bytes.NewReader(in))
			r.ReuseRecord = true
		}
		if _, err := r.Read(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	p := payloadOf(b, nil, recordColumns...)
	batch := changelog.NewBatch(p.Table)
	if err := decoderOf(b, p).DecodePayload(batch, []byte(record), nil); err != nil {
		b.Fatal(err)
	}
	e := encoderOf(b, p)
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		var err error
		if out, _, err = e.AppendPayload(out[:0], &batch.Changes[0]); err != nil {
			b.Fatal(err)
		}
	}
	if string(out) != record {
		b.Errorf("%s", out)
	}
}
