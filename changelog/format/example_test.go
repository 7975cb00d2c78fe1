package format_test

import (
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
)

func ExampleNew() {
	table, err := ddl.Find(`CREATE TABLE orders (id BIGINT, item STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
	  'connector' = 'upsert-kafka', 'topic' = 'orders', 'key.format' = 'json', 'value.format' = 'json')`, "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := changelog.NewBatch(d.Table())
	for _, r := range []changelog.Record{
		{Offset: 0, Key: []byte(`{"id":7}`), Value: []byte(`{"id":7,"item":"tea"}`)},
		{Offset: 1, Key: []byte(`{"id":7}`)},
		{Offset: 2, Key: []byte(`{"id":8}`), Value: []byte(`{"id":"eight","item":"tea"}`)},
	} {
		if err := d.Decode(b, &r); err != nil {
			fmt.Println(err)
		}
	}
	for _, c := range b.Changes {
		fmt.Println(c.Kind, c.Offset, c.Row[0].Int(), c.Row[1].Str(), c.KeyOnly)
	}
	// Output:
	// changelog: value field id: not a value of type BIGINT NOT NULL
	// +I 0 7 tea false
	// -D 1 7  true
}

func ExampleNewEncoder() {
	table, err := ddl.Find(`CREATE TABLE orders (id BIGINT, item STRING, price DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED) WITH (
	  'connector' = 'upsert-kafka', 'topic' = 'orders', 'key.format' = 'json', 'value.format' = 'json')`, "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := format.NewEncoder(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	row := changelog.Row{changelog.IntValue(7), changelog.StringValue("tea"), changelog.DecimalValue(0, 10000, 2)}
	var r changelog.Record
	for _, kind := range []changelog.Kind{changelog.Insert, changelog.Delete} {
		if err := e.Encode(&r, &changelog.Change{Kind: kind, Row: row}); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %s %s %v\n", kind, r.Key, r.Value, r.Value == nil)
	}
	// Output:
	// +I {"id":7} {"id":7,"item":"tea","price":1E+2} false
	// -D {"id":7}  true
}
