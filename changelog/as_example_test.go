package changelog_test

import (
	"fmt"
	"log"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

func ExampleAs() {
	type Order struct {
		ID       int64
		Customer *string           `flink:"cust"` // may be NULL
		Total    changelog.Decimal // exact
		PlacedAt time.Time         // takes the column placed_at
	}
	id, _ := changelog.ParseType("BIGINT")
	cust, _ := changelog.ParseType("STRING")
	total, _ := changelog.ParseType("DECIMAL(20, 2)")
	placed, _ := changelog.ParseType("TIMESTAMP(3)")
	// A decoder's table has such a schema: decoder.Table().Schema.
	schema := &changelog.Schema{Key: []int{0}, Columns: []changelog.Column{
		{Name: "id", Type: id}, {Name: "cust", Type: cust}, {Name: "total", Type: total}, {Name: "placed_at", Type: placed}}}

	orders, err := changelog.As[Order](schema)
	if err != nil {
		log.Fatal(err)
	}
	o, err := orders.Row(changelog.Row{
		changelog.IntValue(7), changelog.StringValue("ann"), changelog.DecimalValue(0, 1250, 2), changelog.TimestampValue(1709210096, 0)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.ID, *o.Customer, o.Total, o.PlacedAt.Format(time.DateTime))

	type Wrong struct {
		Cust  int
		Price float64
	}
	_, err = changelog.As[Wrong](schema)
	fmt.Println(err)

	// Output:
	// 7 ann 12.50 2024-02-29 12:34:56
	// changelog: rows cannot be mapped to changelog_test.Wrong: field Cust takes column cust: STRING does not go into int, but into string, []byte or any
	// field Price: there is no column of that name; tag it flink:"name", or flink:"-" to leave it out
}
