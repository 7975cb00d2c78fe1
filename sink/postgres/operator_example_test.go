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

// The messages that a bridge set aside, with what was wrong about them.
func ExampleStore_DeadLetters() {
	show := func(ctx context.Context, pool *pgxpool.Pool) error {
		store, err := postgres.NewStore(pool, nil)
		if err != nil {
			return err
		}
		letters, err := store.DeadLetters(ctx, "orders", 20)
		for _, l := range letters {
			fmt.Printf("%d %s@%d %s: %s (%d bytes)\n", l.Number, l.Partition, l.Offset, l.Class, l.Error, len(l.Value))
		}
		return err
	}
	_ = show
}
