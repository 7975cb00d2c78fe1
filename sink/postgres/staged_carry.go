package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// merger is who carries staged chunks out.
type merger struct {
	fresh map[string]*freshness // where COPY went well; nil: it is not tried
	kept  *kept                 // the checkpoint, if it is at hand
	moved parking               // rows that have to be written yet
	cast  bool                  // rows go by statements, which cast values to the types that columns have now
}

// carry carries chunks out, in order.
func (m *merger) carry(ctx context.Context, s *Sink, t *transaction, p prepared, chunks []chunk) error {
	for len(chunks) > 0 {
		n, err := m.some(ctx, s, t, p, chunks)
		if err != nil {
			return err
		}
		chunks = chunks[n:]
	}
	return nil
}

// some carries the first of chunks out, and those after it that are of its kind, and tells how many that were.
func (m *merger) some(ctx context.Context, s *Sink, t *transaction, p prepared, chunks []chunk) (n int, err error) {
	conn := t.Conn().PgConn()
	first := &chunks[0]
	switch {
	case first.statement.Letters:
		return 1, s.playLetters(ctx, t, p.writer, p.cp, first)
	case first.statement.Parks:
		r := conn.ExecParams(ctx, first.statement.SQL, first.params, first.statement.OIDs, binaryFormat(), nil).Read()
		m.moved.moved(r)
		return 1, r.Err
	case first.statement.Written != "":
		left, err := m.moved.left(ctx, t, first.statement.Written)
		if err == nil && left {
			err = errMergeMoved
		}
		return 1, err
	case !first.simple():
		return 1, first.run(ctx, t)
	}
	for n = 1; n < len(chunks) && chunks[n].simple() && chunks[n].statement.SQL == first.statement.SQL; n++ {
	}
	if done, err := m.copyNew(ctx, conn, chunks[:n]); done || err != nil {
		return n, err
	}
	return n, runAll(ctx, conn, chunks[:n])
}

// simple reports whether a chunk is a statement of whose answer nothing matters but whether it is an error.
func (c *chunk) simple() bool {
	return !c.statement.Letters && c.statement.Missing == "" && c.statement.Takes == 0 && !c.statement.Parks && c.statement.SQL != "" && c.statement.Then == ""
}

// runAll sends the statements of simple chunks one behind the other, and waits for the last, as applier.upsertAll does.
func runAll(ctx context.Context, conn *pgconn.PgConn, chunks []chunk) error {
	p := conn.StartPipeline(ctx)
	err := sendAll(p, chunks)
	if end := p.Close(); err == nil {
		err = end
	}
	return err
}

func sendAll(p *pgconn.Pipeline, chunks []chunk) error {
	for _, c := range chunks {
		p.SendQueryParams(c.statement.SQL, c.params, c.statement.OIDs, binaryFormat(), nil)
		if err := p.Flush(); err != nil {
			return err
		}
	}
	if err := p.Sync(); err != nil {
		return err
	}
	for range chunks {
		if err := done(p); err != nil {
			return err
		}
	}
	return nil
}
