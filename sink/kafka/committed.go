package kafka

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Committed reports whether a receipt of TwoPhase is proven to be committed: the end of its transaction stands in the log behind its records, and is a commit. It only
// reads, so it may be called beside a running bridge, by tools that show what a store still lists. false proves nothing: the transaction may be open, aborted,
// or its end gone from the log. cl is any client of the target's cluster; on another one the topic has another id, and nothing is found. A receipt of
// another sink is an error.
func Committed(ctx context.Context, cl *kgo.Client, of sink.Committable) (bool, error) {
	r, err := parseReceipt(of)
	if err != nil {
		return false, err
	}
	c := newCluster(cl)
	for _, w := range r.wrote {
		switch o, _, err := c.readEnd(ctx, r, w); {
		case err != nil:
			return false, fmt.Errorf("the end of transaction %s: %w", r.id, err)
		case o != unknowable:
			return o == committed, nil
		}
	}
	return false, nil
}
