package changelog_test

import (
	"fmt"

	"github.com/flinksink/flinksink/changelog"
)

func ExampleParseType() {
	t, err := changelog.ParseType("MAP<VARCHAR(2147483647), ROW(amount DEC(10, 2) NOT NULL, at TIMESTAMP(3) WITH LOCAL TIME ZONE)>")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t)
	_, err = changelog.ParseType("DECIMAL(39, 2)")
	fmt.Println(err)
	// Output:
	// MAP<STRING, ROW<amount DECIMAL(10, 2) NOT NULL, `at` TIMESTAMP_LTZ(3)>>
	// changelog: type: at byte 8: expected a precision from 1 to 38, found 39
}

// The row of key 1 moves to key 2, and the row of key 3 comes and goes.
func ExampleNet() {
	schema := &changelog.Schema{
		Columns: []changelog.Column{
			{Name: "id", Type: changelog.Type{Root: changelog.RootBigInt, NotNull: true}},
			{Name: "name", Type: changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}},
		},
		Key: []int{0},
	}
	row := func(id int64, name string) changelog.Row {
		return changelog.Row{changelog.IntValue(id), changelog.StringValue(name)}
	}
	var net changelog.Net
	net.Compute(schema, []changelog.Change{
		{Kind: changelog.UpdateBefore, Row: row(1, "Ada")},
		{Kind: changelog.UpdateAfter, Row: row(2, "Ada")},
		{Kind: changelog.Insert, Row: row(3, "Bob")},
		{Kind: changelog.Delete, Row: row(3, "Bob")},
	})
	for _, c := range net.Deletes {
		fmt.Println("delete", c.Row[0].Int())
	}
	for _, c := range net.Upserts {
		fmt.Println("upsert", c.Row[0].Int(), c.Row[1].Str())
	}
	fmt.Println("superseded", net.Superseded)
	// Output:
	// delete 1
	// delete 3
	// upsert 2 Ada
	// superseded 1
}
