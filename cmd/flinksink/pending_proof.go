package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/flinksink/flinksink/sink/postgres"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

// This file finds out which receipts are committed. A store hears of that with the checkpoint after it, so every bridge that stops leaves one in it; whether it is done
// stands at the target. Asked are the server that holds the positions, which often is the target's, and the targets that --to names.

// witness reports whether a receipt is proven to be committed. A receipt of another kind of sink is an error of class ErrLost or ErrConfig.
type witness func(ctx context.Context, of sink.Committable) (bool, error)

func atBucket(client *s3.Client) witness {
	return func(ctx context.Context, of sink.Committable) (bool, error) { return s3sink.Committed(ctx, client, of) }
}

func atBrokers(cl *kgo.Client) witness {
	return func(ctx context.Context, of sink.Committable) (bool, error) { return kafka.Committed(ctx, cl, of) }
}

// witnessOf is the witness of a target; nil: it leaves no receipts.
func witnessOf(t target, schema string) witness {
	switch t := t.(type) {
	case *filesTarget:
		return atBucket(t.client)
	case *topicTarget:
		return atBrokers(t.cl.Client)
	case *tableTarget:
		if st, err := newStore(t.pool, schema); err == nil {
			return st.Committed
		}
	}
	return nil
}

// proven asks the witnesses about a receipt. why says what kept one of them from answering.
func (c *call) proven(ctx context.Context, ws []witness, of sink.Committable) (done bool, why error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	for _, w := range ws {
		done, err := w(ctx, of)
		switch class := sink.ClassOf(err); {
		case done:
			return true, nil
		case err != nil && !errors.Is(class, sink.ErrLost) && !errors.Is(class, sink.ErrConfig):
			why = err
		}
	}
	return false, why
}

// witnesses connects to the targets of --to.
func (c *call) witnesses(cmd *cobra.Command, f *positionFlags, k *keeper) (ws []witness, done func(), err error) {
	var closers []func()
	done = func() {
		for _, f := range closers {
			f()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	if k.witness != nil {
		ws = append(ws, k.witness)
	}
	for _, p := range f.at {
		switch p.kind {
		case atS3:
			d, err := p.folder("--to")
			if err != nil {
				return nil, nil, err
			}
			client, err := c.bucketAt(cmd.Context(), "--to", &f.s3, d)
			if err != nil {
				return nil, nil, err
			}
			ws = append(ws, atBucket(client))
		case atKafka:
			b, err := p.broker("--to")
			if err != nil {
				return nil, nil, err
			}
			t, err := f.kafka.clientTable("--kafka-config", b.seeds, nil)
			if err != nil {
				return nil, nil, err
			}
			cl, err := c.brokersAt(cmd.Context(), "--to", t)
			if err != nil {
				return nil, nil, err
			}
			closers = append(closers, cl.Close)
			ws = append(ws, atBrokers(cl.Client))
		case atPostgres:
			pool, err := c.openPool(cmd.Context(), "--to", p.url, 1)
			if err != nil {
				return nil, nil, err
			}
			closers = append(closers, pool.Close)
			st, err := newStore(pool, f.keep.schema)
			if err != nil {
				return nil, nil, err
			}
			ws = append(ws, st.Committed)
		}
	}
	return ws, done, nil
}

// judge finds out which of the receipts in all are committed that the store itself knows nothing of.
func (c *call) judge(ctx context.Context, k *keeper, ws []witness, all []postgres.InDoubt) error {
	receipts := make(map[string][]sink.Committable) // by bridge
	for i := range all {
		d := &all[i]
		if d.What != "receipt" || d.Plan != postgres.Leave {
			continue
		}
		decided, read := receipts[d.Bridge]
		if !read {
			state, err := k.Read(ctx, d.Bridge)
			if err != nil {
				return err
			}
			decided = state.Pending
			receipts[d.Bridge] = decided
		}
		d.Why = "it is decided, and may be committed already, which the store hears of with the next checkpoint; if it is not, the bridge does it before anything else when it is started (--to asks its target)"
		j := slices.IndexFunc(decided, func(x sink.Committable) bool {
			return x.Sink == d.Sink && x.Generation == d.Generation && x.Checkpoint == d.Checkpoint
		})
		if j < 0 {
			d.Plan, d.Why = postgres.Done, "it was committed while this looked"
			continue
		}
		switch done, why := c.proven(ctx, ws, decided[j]); {
		case done:
			d.Plan, d.Why = postgres.Done, "it is committed, and its generation's next checkpoint, or its successor's first, takes the receipt out of the store"
		case why != nil:
			d.Why = fmt.Sprintf("%s. Its target could not be asked: %v", d.Why, why)
		}
	}
	return nil
}

// inDoubt lists what waits, and what to know beside it. Of a misspelt name nothing is in doubt, and so it is refused.
func (c *call) inDoubt(cmd *cobra.Command, f *positionFlags, k *keeper) (all []postgres.InDoubt, notes []string, err error) {
	ctx := cmd.Context()
	if k.pg == nil {
		read, err := readBridges(cmd, k, f.bridge)
		if err != nil {
			return nil, nil, err
		}
		all = pendingOf(&read[0].State)
	} else {
		elsewhere, err := k.elsewhere(ctx)
		if err != nil {
			return nil, nil, err
		}
		if f.bridge != "" && !slices.Contains(elsewhere, f.bridge) {
			if _, err := readBridges(cmd, k, f.bridge); err != nil {
				return nil, nil, err
			}
		}
		if all, err = k.pg.Pending(ctx, f.bridge); err != nil {
			return nil, nil, err
		}
		for _, name := range elsewhere {
			if f.bridge == "" || f.bridge == name {
				notes = append(notes, fmt.Sprintf("bridge %q writes here and has its positions in another store: what it has decided is seen there (--store as of run, with this database as --to)", name))
			}
		}
	}
	ws, done, err := c.witnesses(cmd, f, k)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	return all, notes, c.judge(ctx, k, ws, all)
}

// elsewhere names the bridges that have written into this Postgres while another store decided: they have a fence here, and no positions.
func (k *keeper) elsewhere(ctx context.Context) ([]string, error) {
	names, err := k.pg.Bridges(ctx)
	if err != nil {
		return nil, err
	}
	writers, err := k.writers(ctx)
	return slices.DeleteFunc(writers, func(name string) bool { return slices.Contains(names, name) }), err
}
