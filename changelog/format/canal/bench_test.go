package canal

import (
	"encoding/json"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
)

// record is what Flink writes of the row that the benchmarks of all text formats read.
const record = `{"data":[{"id":918273645,"customer":"c-00918273","item":"standard widget, blue","quantity":12,"price":1499.95,` +
	`"weight":0.375,"ordered":"2024-05-17 08:09:10.123","shipped":false,"note":"leave at door"}],"type":"INSERT"}`

// fromCanal is an update as Canal writes it.
const fromCanal = `{"data":[{"id":"918273645","customer":"c-00918273","item":"standard widget, blue","quantity":"12","price":"1499.95",` +
	`"weight":"0.375","ordered":"2024-05-17 08:09:10.123","shipped":"false","note":"leave at door"}],"database":"shop","es":1715933350000,"id":4711,"isDdl":false,` +
	`"mysqlType":{"id":"bigint","customer":"varchar(20)","item":"varchar(100)","quantity":"int","price":"decimal(10,2)","weight":"double","ordered":"datetime(3)","shipped":"varchar(5)","note":"text"},` +
	`"old":[{"quantity":"11"}],"pkNames":["id"],"sql":"","sqlType":{"id":-5,"customer":12,"item":12,"quantity":4,"price":3,"weight":8,"ordered":93,"shipped":12,"note":2005},` +
	`"table":"orders","ts":1715933350798,"type":"UPDATE"}`

var recordColumns = []string{"id BIGINT", "customer STRING", "item STRING", "quantity INT", "price DECIMAL(10, 2)", "weight DOUBLE",
	"ordered TIMESTAMP(3)", "shipped BOOLEAN", "note STRING"}

func benchmark(b *testing.B, record string, columns []string) {
	p := formattest.Payload(b, nil, []int{0}, columns...)
	d := formattest.Decoder(b, Format{}, p)
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

func BenchmarkDecode(b *testing.B) { benchmark(b, record, recordColumns) }

// The BOOLEAN is quoted here, which the one pass over plain JSON leaves to the reader of trees.
func BenchmarkDecode_FromCanal(b *testing.B) {
	columns := append([]string{}, recordColumns...)
	columns[7] = "shipped STRING"
	benchmark(b, fromCanal, columns)
}

func BenchmarkDecode_EncodingJSON(b *testing.B) {
	in := []byte(record)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		var m struct {
			Data []struct {
				ID       int64   `json:"id"`
				Customer string  `json:"customer"`
				Item     string  `json:"item"`
				Quantity int     `json:"quantity"`
				Price    string  `json:"-"`
				Weight   float64 `json:"weight"`
				Ordered  string  `json:"ordered"`
				Shipped  bool    `json:"shipped"`
				Note     string  `json:"note"`
			} `json:"data"`
			Type string `json:"type"`
		}
		if err := json.Unmarshal(in, &m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	p := formattest.Payload(b, nil, nil, recordColumns...)
	batch := changelog.NewBatch(p.Table)
	if err := formattest.Decoder(b, Format{}, p).DecodePayload(batch, []byte(record), nil); err != nil {
		b.Fatal(err)
	}
	e, err := Format{}.NewEncoder(p)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		if out, _, err = e.AppendPayload(out[:0], &batch.Changes[0]); err != nil {
			b.Fatal(err)
		}
	}
	if string(out) != record {
		b.Errorf("%s", out)
	}
}
