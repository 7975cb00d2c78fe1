package main

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/bench/internal/turns"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	flinkjson "github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// encoding measures how many documents of about 200 bytes a core makes into bulk requests, from rows that are ready in memory: by the CPU time of this whole
// process, what collects its garbage and the stub that counts lines included.
func encoding(ctx context.Context, rounds int) error {
	table, err := ddl.Find(`CREATE TABLE encode (id BIGINT, customer STRING, country STRING, status STRING, net BIGINT, vat DOUBLE, shipped TIMESTAMP(3), note STRING, PRIMARY KEY (id) NOT ENFORCED)
		WITH ('connector' = 'upsert-kafka', 'topic' = 'encode', 'properties.bootstrap.servers' = 'none:9092', 'key.format' = 'json', 'value.format' = 'json')`, "encode")
	if err != nil {
		return err
	}
	d, err := format.New(table, []changelog.Format{flinkjson.Format{}}, nil)
	if err != nil {
		return err
	}
	t := d.Table()
	es, err := elastic.New(new(stub), "encode", &elastic.Options{Deletes: elastic.Tombstone})
	if err != nil {
		return err
	}
	c, err := es.Lane(ctx, sink.Lane{Bridge: "encode", Sink: "elastic", Tables: []*changelog.Table{t}})
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if err := c.Open(ctx, sink.Claim{Generation: sink.Generation{Bridge: "encode", ID: 1}}); err != nil {
		return err
	}
	const rows, times = 5000, 40
	b := changelog.NewBatch(t)
	for i := range rows {
		b.Append(changelog.Change{Partition: changelog.Partition{Topic: "encode"}, Offset: int64(i), Kind: changelog.UpdateAfter, Row: changelog.Row{
			changelog.IntValue(int64(i)), changelog.StringValue("customer name"), changelog.StringValue("Germany"), changelog.StringValue("SHIPPED"), changelog.IntValue(123456),
			changelog.DoubleValue(19.5), changelog.TimestampValue(1709210096, 5e6), changelog.StringValue("some longer text that a row may have in it")}})
	}
	var rates []float64
	for range rounds {
		before, known := turns.CPUTime()
		for range times {
			if err := c.Write(ctx, b); err != nil {
				return err
			}
			if _, err := c.Prepare(ctx, sink.Cut{}); err != nil {
				return err
			}
		}
		now, _ := turns.CPUTime()
		if !known {
			fmt.Println("encoding: this system does not tell CPU times")
			return nil
		}
		rates = append(rates, rows*times/(now-before).Seconds())
	}
	fmt.Printf("encoding, documents of 200 bytes a CPU second: %s, wanted 1000000\n", figure(rates, "%.0f"))
	return nil
}
