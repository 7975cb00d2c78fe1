package postgres_test

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func ExampleSink_SQL() {
	bigint, _ := changelog.ParseType("BIGINT NOT NULL")
	text, _ := changelog.ParseType("STRING")
	price, _ := changelog.ParseType("DECIMAL(10, 2)")
	at, _ := changelog.ParseType("TIMESTAMP_LTZ(3)")
	tags, _ := changelog.ParseType("ARRAY<STRING>")
	orders := &changelog.Table{Name: "orders", Mode: changelog.Upsert, Schema: &changelog.Schema{
		Columns: []changelog.Column{{Name: "id", Type: bigint}, {Name: "customer", Type: text}, {Name: "price", Type: price}, {Name: "at", Type: at}, {Name: "tags", Type: tags}},
		Key:     []int{0},
	}}
	pool := new(pgxpool.Pool) // pgxpool.New(ctx, "postgres://...")
	s, err := postgres.New(pool, `shop."Orders"`, &postgres.Options{Columns: map[string]string{"at": "ordered_at"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.SQL(orders))
	// Output:
	// CREATE TABLE "shop"."Orders" (
	//   "id" bigint NOT NULL,
	//   "customer" text,
	//   "price" numeric(10,2),
	//   "ordered_at" timestamp(3) with time zone,
	//   "tags" text[],
	//   PRIMARY KEY ("id")
	// ) WITH (fillfactor = 70)
}

// One row for each checkpoint in a table of the user's, committed together with the rows that it describes.
func ExampleOptions_inCheckpoint() {
	pool := new(pgxpool.Pool) // pgxpool.New(ctx, "postgres://...")
	to, err := postgres.New(pool, "public.orders", &postgres.Options{
		InCheckpoint: func(ctx context.Context, tx pgx.Tx, info postgres.Info) error {
			_, err := tx.Exec(ctx, "INSERT INTO progress (bridge, changes, at) VALUES ($1, $2, now())", info.Bridge, info.Counters.Applied)
			return err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(to)
	// Output: postgres
}
