package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5/pgconn"
)

// pieceRows is how many rows a statement takes where several are sent one behind the other: the server takes the arrays of so many apart
// within its caches, which for rows of 20 columns saves a fifth of its work, and is at work on one piece while the next is made.
const pieceRows = 2000

// upsertAll runs a statement over changes: in pieces, of which only the last is waited for, where it may be parted. What the server checks at the end of
// a statement it then checks at the end of a piece: a row that refers to another of its table may come before it, or take a unique value that the other is yet to
// give up. Where that was refused once, the table's statements take all rows from then on; what was refused comes again in the order of the topic, see again.
func (a *applier) upsertAll(ctx context.Context, t *transaction, tg *target, st statement, changes []changelog.Change) error {
	if !st.parts || len(changes) <= pieceRows || a.whole[st.sql] || a.stage.of(t) {
		return a.run(ctx, t, tg, st, changes)
	}
	if err := a.clocked(ctx, t, tg); err != nil {
		return err
	}
	p := t.Conn().PgConn().StartPipeline(ctx)
	err := a.pieces(p, tg, st, changes)
	if errors.Is(err, errUnfit) {
		_ = p.Sync() // else Close would end the connection; if this fails it is over anyway
	}
	if end := p.Close(); err == nil {
		err = end
	}
	if err != nil && byOrder(err) {
		if a.whole == nil {
			a.whole = make(map[string]bool)
		}
		a.whole[st.sql] = true
	}
	return err
}

// pieces sends all pieces and reads the answers. After an error the caller ends the pipeline, which reads what is left of them.
func (a *applier) pieces(p *pgconn.Pipeline, tg *target, st statement, changes []changelog.Change) error {
	var sent []int
	for len(changes) > 0 {
		n, err := a.fill(tg, st, changes[:min(len(changes), pieceRows)])
		if err != nil {
			return err
		}
		p.SendQueryParams(st.sql, a.params[:len(st.columns)], st.oids, binaryFormat(), nil)
		if err := p.Flush(); err != nil {
			return err
		}
		sent, changes = append(sent, n), changes[n:]
	}
	if err := p.Sync(); err != nil {
		return err
	}
	for _, n := range sent {
		got, err := p.GetResults()
		if err != nil {
			return err
		}
		r, ok := got.(*pgconn.ResultReader)
		if !ok {
			return fmt.Errorf("the server answered a statement with %T", got)
		}
		tag, err := r.Close()
		if err != nil {
			return err
		}
		if st.counts {
			a.void += max(0, n-int(tag.RowsAffected()))
		}
	}
	return nil
}
