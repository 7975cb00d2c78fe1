package postgres

import (
	"context"

	"github.com/flinksink/flinksink/sink"
)

// Committed reports whether a receipt of the modes Prepared and Staged is proven to be committed into this database: the mark of its generation says so. It only
// reads, so it may be called beside a running bridge, for a receipt that another store lists. false proves nothing. A receipt of another sink is an error.
func (st *Store) Committed(ctx context.Context, of sink.Committable) (bool, error) {
	p, err := readReceipt(of)
	if err != nil {
		return false, st.fail("read", "", err)
	}
	done := false
	made, err := st.s.hasTable(ctx, st.s.pool, "fence")
	if err == nil && made {
		done, err = st.s.committedAlready(ctx, st.s.pool, writer{p.receipt.Bridge, of.Sink, of.Generation}, of.Checkpoint)
	}
	if err != nil {
		return false, st.fail("read", p.receipt.Bridge, lift(err))
	}
	return done, nil
}
