package ddl_test

import (
	"fmt"

	"github.com/flinksink/flinksink/changelog/ddl"
)

func ExampleFind() {
	table, err := ddl.Find(`
		SET 'table.local-time-zone' = 'UTC';
		CREATE TABLE orders (
			id BIGINT, total DECIMAL(20, 2), placed TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', cents AS total * 100,
			PRIMARY KEY (id) NOT ENFORCED
		) WITH ('connector' = 'upsert-kafka', 'topic' = 'orders', 'properties.sasl.jaas.config' = '... password="hunter2";')`, "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	schema := table.Schema()
	for _, c := range schema.Columns {
		fmt.Println(c.Name, c.Type)
	}
	fmt.Println("key:", table.PrimaryKey, schema.Key)
	fmt.Println("topic:", table.Options["topic"])
	fmt.Println(table.Options)

	_, err = ddl.Find("CREATE TABLE t (\n  id BIGINT,\n  name TEXT)", "")
	fmt.Println(err)
	// Output:
	// id BIGINT NOT NULL
	// total DECIMAL(20, 2)
	// placed TIMESTAMP_LTZ(3)
	// key: [id] [0]
	// topic: orders
	// ('connector' = 'upsert-kafka', 'properties.sasl.jaas.config' = '******', 'topic' = 'orders')
	// ddl: line 3, column 8: expected a Flink type, found TEXT: did you mean STRING?
}
