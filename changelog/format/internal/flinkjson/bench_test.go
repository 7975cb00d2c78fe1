package flinkjson

import (
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// record is a record of 200 bytes.
const record = `{"id":918273645546372,"customer":"c-00918273","item":"standard widget, blue","quantity":12,"price":1499.95,` +
	`"weight":0.375,"ordered":"2024-05-17 08:09:10.123","shipped":false,"note":"leave at door"}`

var recordColumns = []string{
	"id BIGINT", "customer STRING", "item STRING", "quantity INT", "price DECIMAL(10, 2)", "weight DOUBLE", "ordered TIMESTAMP(3)",
	"shipped BOOLEAN", "note STRING",
}

func TestDecode_ScalarsDoNotAllocate(t *testing.T) {
	tab := tableOf(t, append(recordColumns, "f FLOAT", "d DATE", "t TIME(0)", "l TIMESTAMP_LTZ(6)", "y BYTES", "e STRING")...)
	d := decoderOf(t, tab, nil, false)
	in := []byte(record[:len(record)-1] + `,"f":"1.25","d":"2024-02-29","t":"01:02:03","l":"2024-02-29 01:02:03.123456Z","y":"AQIDBA==","e":"\u00e9\n","other":{"x":[1,"y"]}}`)
	b := changelog.NewBatch(tab)
	const records = 1000
	one := func() {
		b.Reset()
		for range records {
			if err := d.DecodePayload(b, in, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	one() // the slice of changes grows
	allocs := testing.AllocsPerRun(5, one)
	// The arena takes a chunk of 1024 values, and one of 16 KiB, now and then: far less than one allocation a record.
	if limit := float64(records*len(tab.Schema.Columns))/1000 + 10; allocs > limit && !raceEnabled {
		t.Errorf("%v allocations for %d records", allocs, records)
	}
}

func BenchmarkDecode200(b *testing.B) {
	tab := tableOf(b, recordColumns...)
	d := decoderOf(b, tab, nil, false)
	in := []byte(record)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	batch := changelog.NewBatch(tab)
	for i := 0; b.Loop(); i++ {
		if i%4096 == 0 {
			batch.Reset()
		}
		if err := d.DecodePayload(batch, in, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// The exact reader sees only what the plain one does not take.
func BenchmarkDecode200_Exact(b *testing.B) {
	tab := tableOf(b, recordColumns...)
	d := decoderOf(b, tab, nil, true)
	in := []byte(record + " x")
	batch := changelog.NewBatch(tab)
	for i := 0; b.Loop(); i++ {
		if i%4096 == 0 {
			batch.Reset()
		}
		if err := d.DecodePayload(batch, in, nil); err != nil {
			b.Fatal(err)
		}
	}
}
