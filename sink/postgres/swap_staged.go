package postgres

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgtype"
)

// This file is Options.Swap in mode Staged: what is staged of it are the same statements that the other modes run, those that put rows into the waiting table and those that
// put a group in place of the one before. The waiting table so holds what is merged, and a merge moves it on in the transaction in which readers see its groups.
//
// What waits in a partition is asked once a checkpoint, of the waiting table, before the first row. It is there, since Write comes after the Commit of the checkpoint before it; see merged.
// From then on the sink knows by itself.

// carryOut runs a statement whose parameters are the bridge, a partition and more, or stages it, or both.
func (a *applier) carryOut(ctx context.Context, t *transaction, tg *target, sql string, p changelog.Partition, more ...int64) error {
	c := chunk{statement: stagedStatement{SQL: sql, OIDs: []uint32{pgtype.TextOID, pgtype.TextOID, pgtype.Int4OID}},
		params: [][]byte{[]byte(a.stamp.bridge), []byte(p.Topic), binary.BigEndian.AppendUint32(nil, uint32(p.Partition))}}
	for _, n := range more {
		c.statement.OIDs = append(c.statement.OIDs, pgtype.Int8OID)
		c.params = append(c.params, binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	s := a.stage
	if !s.of(t) {
		return c.run(ctx, t)
	}
	if !s.later {
		if err := s.rehearse(ctx); err != nil {
			return err
		}
		if err := c.run(ctx, t); err != nil {
			return err
		}
	}
	s.add(c)
	s.into[tg] = true
	return nil
}

// merged returns an error while a checkpoint of the generation is staged and not merged: what waits after it nobody can see yet.
func (a *applier) merged(ctx context.Context, t *transaction) error {
	s := a.stage
	if !s.of(t) {
		return nil
	}
	var staged bool
	err := t.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+t.s.store.staging+` WHERE bridge = $1 AND sink = $2 AND generation = $3 AND checkpoint > 0)`, s.w.bridge, s.w.sink, int64(s.w.gen)).Scan(&staged)
	if err == nil && staged {
		err = &sink.Error{Class: sink.ErrTransient, Err: errors.New("Options.Swap in mode staged writes after the checkpoint before it is committed, and it is not")}
	}
	return err
}
