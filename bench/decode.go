package main

import (
	"context"
	stdjson "encoding/json"
	"fmt"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/bench/internal/turns"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
)

const ordersTable = `CREATE TABLE orders (
  id BIGINT, customer STRING, item STRING, quantity INT, price DECIMAL(10, 2), weight DOUBLE, ordered TIMESTAMP(3), note STRING
) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json')`

// order is what encoding/json decodes into. It is spared the work that our rows hold in addition: price and ordered stay text.
type order struct {
	ID       int64          `json:"id"`
	Customer string         `json:"customer"`
	Item     string         `json:"item"`
	Quantity int32          `json:"quantity"`
	Price    stdjson.Number `json:"price"`
	Weight   float64        `json:"weight"`
	Ordered  string         `json:"ordered"`
	Note     string         `json:"note"`
}

// orderText is the nth record, of about 200 bytes.
func orderText(n int) []byte {
	h := rows.Mix(uint64(n))
	return fmt.Appendf(nil, `{"id":%d,"customer":"c-%08d","item":"standard widget, blue, %04d","quantity":%d,"price":%d.%02d,"weight":%d.%03d,`+
		`"ordered":"2024-%02d-%02d %02d:%02d:%02d.%03d","note":"leave at the door, bell %05d"}`,
		918273645546372+int64(n), h%100000000, h%10000, 1+h%90, 100+h%9000, h>>8%100, 1+h%90, h>>16%1000,
		1+h>>8%12, 1+h>>12%28, h>>16%24, h>>24%60, h>>32%60, h>>40%1000, h>>20%100000)
}

// orders holds records to decode: more than the branch predictor learns by heart.
type orders struct {
	decoder *format.Decoder
	texts   [][]byte
	bytes   int // of a record, on average
}

func newOrders(n int) (*orders, error) {
	t, err := ddl.Find(ordersTable, "orders")
	if err != nil {
		return nil, err
	}
	o := &orders{}
	if o.decoder, err = format.New(t, []changelog.Format{json.Format{}}, nil); err != nil {
		return nil, err
	}
	for i := range n {
		o.texts = append(o.texts, orderText(i))
		o.bytes += len(o.texts[i])
	}
	o.bytes /= n
	return o, nil
}

// typed decodes all records into batch, which is how a bridge does it.
func (o *orders) typed(batch *changelog.Batch) error {
	batch.Reset()
	r := changelog.Record{Partition: changelog.Partition{Topic: "orders"}}
	for i, text := range o.texts {
		r.Offset, r.Value = int64(i), text
		if err := o.decoder.Decode(batch, &r); err != nil {
			return err
		}
	}
	return nil
}

func (o *orders) structs(into []order) error {
	for i, text := range o.texts {
		into[i] = order{}
		if err := stdjson.Unmarshal(text, &into[i]); err != nil {
			return err
		}
	}
	return nil
}

func (o *orders) maps(into []map[string]any) error {
	for i, text := range o.texts {
		into[i] = nil
		if err := stdjson.Unmarshal(text, &into[i]); err != nil {
			return err
		}
	}
	return nil
}

const decodeBatch = 20_000 // what a bridge decodes before it hands a batch on

func (b *bench) decode(context.Context) error {
	o, err := newOrders(decodeBatch)
	if err != nil {
		return err
	}
	batch := changelog.NewBatch(o.decoder.Table())
	structs, maps := make([]order, decodeBatch), make([]map[string]any, decodeBatch)
	times := 50
	if b.quick {
		times = 10
	}
	repeat := func(times int, f func() error) func() (int, error) {
		return func() (int, error) {
			for range times {
				if err := f(); err != nil {
					return 0, err
				}
			}
			return times * decodeBatch, nil
		}
	}
	cs := []turns.Contender{
		{Name: "flinksink, into typed rows", Run: repeat(times, func() error { return o.typed(batch) })},
		{Name: "encoding/json, into a struct", Run: repeat(max(1, times/10), func() error { return o.structs(structs) })},
		{Name: "encoding/json, into map[string]any", Run: repeat(max(1, times/10), func() error { return o.maps(maps) })},
	}
	rs, err := turns.OnOneCore(b.rounds, cs)
	if err != nil {
		return err
	}
	b.say("\nDECODE: JSON of %d bytes, 8 columns, one core", o.bytes)
	w := b.table("", "rows a CPU second", "rows/s by the clock", "allocations a row", "bytes a row", "of encoding/json into a struct")
	for i, r := range rs {
		cpu := figure(r.CPU)
		line(w, cs[i].Name, cpu.String(), figure(r.Rate).String(), number(figure(r.Allocs).median()), number(figure(r.Bytes).median()),
			cpu.over(rs[1].CPU).String())
	}
	flush(w)
	b.goal("decode: rows a second of one core", "rows/s", 1.2e6, rs[0].CPU...)
	b.atMost("decode: allocations a row", "", 1, rs[0].Allocs...)
	return nil
}
