package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// inPieces reports whether the changes of a statement are staged in pieces: there are enough of them, and nothing about them can be refused. A rehearsal takes them as
// they would be written otherwise, since what the server checks at the end of a statement it would then check at the end of a piece.
func (s *stage) inPieces(ctx context.Context, tg *target, st statement, rows int) (bool, error) {
	if !st.parts || rows <= pieceRows || s.rehearsing || s.later {
		return false, nil
	}
	return s.accepts(ctx, tg, st)
}

// stagePieces puts changes into the staging table, a chunk for each piece, of which only the last is waited for: the server stores one while the next is made.
//
// After an error the transaction is over, or the batch is one that cannot be written at all; either way nothing that was staged counts.
func (a *applier) stagePieces(ctx context.Context, t *transaction, tg *target, st statement, changes []changelog.Change) error {
	s := a.stage
	if err := s.flush(ctx); err != nil {
		return err
	}
	type part struct {
		statement string
		params    [][]byte
	}
	parts, digested := make(chan part, 4), make(chan struct{})
	go func() {
		defer close(digested)
		for p := range parts {
			s.digest.add(p.statement, p.params)
		}
	}()
	s.into[tg] = true
	p := t.Conn().PgConn().StartPipeline(ctx)
	err := func() error {
		sent := 0
		for len(changes) > 0 {
			n, err := a.fill(tg, st, changes[:min(len(changes), pieceRows)])
			if err != nil {
				return err
			}
			changes = changes[n:]
			c := s.chunk(a, tg, st, n)
			text, err := json.Marshal(c.statement)
			if err != nil {
				return err
			}
			s.count++
			s.row = appendBytesArray(s.row[:0], c.params)
			p.SendQueryParams(stagingInsert(s.t.s.store.staging), [][]byte{[]byte(s.w.bridge), []byte(s.w.sink), strconv.AppendInt(nil, int64(s.w.gen), 10), strconv.AppendInt(nil, int64(s.count), 10),
				text, s.row}, []uint32{pgtype.TextOID, pgtype.TextOID, pgtype.Int8OID, pgtype.Int4OID, pgtype.TextOID, pgtype.ByteaArrayOID}, []int16{0, 0, 0, 0, 0, 1}, nil)
			if err := p.Flush(); err != nil {
				return err
			}
			a.handOver(len(st.columns))
			parts <- part{string(text), c.params}
			s.kept.add([]chunk{c}, c.bytes())
			sent++
		}
		if err := p.Sync(); err != nil {
			return err
		}
		for range sent {
			if err := done(p); err != nil {
				return err
			}
		}
		return nil
	}()
	if errors.Is(err, errUnfit) {
		_ = p.Sync() // else Close would end the connection; if this fails it is over anyway
	}
	if end := p.Close(); err == nil {
		err = end
	}
	close(parts)
	<-digested
	return err
}

// done reads the answer to a statement whose answer tells nothing but that.
func done(p *pgconn.Pipeline) error {
	got, err := p.GetResults()
	if err != nil {
		return err
	}
	r, ok := got.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("the server answered a statement with %T", got)
	}
	_, err = r.Close()
	return err
}

func stagingInsert(staging string) string {
	return `INSERT INTO ` + staging + ` (bridge, sink, generation, checkpoint, number, statement, params) VALUES ($1, $2, $3, 0, $4, $5, $6)`
}

// appendBytesArray appends values as a bytea[] in binary form: see arrayHeader.
func appendBytesArray(dst []byte, values [][]byte) []byte {
	if len(values) == 0 { // no dimensions
		return append(append(dst, 0, 0, 0, 0, 0, 0, 0, 0), 0, 0, 0, pgtype.ByteaOID)
	}
	dst = binary.BigEndian.AppendUint32(dst, 1)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, pgtype.ByteaOID)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(values)))
	dst = binary.BigEndian.AppendUint32(dst, 1)
	for _, v := range values {
		dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(v))), v...)
	}
	return dst
}
