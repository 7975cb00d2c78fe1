package postgres_test

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A program of your own that lets somebody skip the message that a bridge stopped at.
func ExampleStore_Skip() {
	skip := func(ctx context.Context, pool *pgxpool.Pool, who, why string) error {
		store, err := postgres.NewStore(pool, &postgres.StoreOptions{Who: who})
		if err != nil {
			return err
		}
		did, err := store.Skip(ctx, "orders", changelog.Partition{Topic: "orders", Partition: 3}, 1017, why)
		if err != nil {
			return err // another position is stored: nothing was changed
		}
		for _, m := range did.Moved {
			fmt.Println(m.Partition, m.Before.Offset, m.After.Offset)
		}
		return nil
	}
	_ = skip
}
