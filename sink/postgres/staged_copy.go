package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"

	"github.com/jackc/pgx/v5/pgconn"
)

// copyNew writes the rows of a chunk as new ones, as applier.copyNew does, and with the same memory of how well that went; nil: it is not tried.
// false without an error: the transaction is as it was before.
func (c *chunk) copyNew(ctx context.Context, conn *pgconn.PgConn, fresh map[string]*freshness) (done bool, err error) {
	if fresh == nil || c.statement.Copy == "" || c.statement.Rows < copyRows {
		return false, nil
	}
	f := fresh[c.statement.Copy]
	if f == nil {
		f = new(freshness)
		fresh[c.statement.Copy] = f
	}
	if !f.try() {
		return false, nil
	}
	rows, ok := copyOfArrays(c.params, c.statement.Rows)
	if !ok {
		return false, nil
	}
	if err := conn.Exec(ctx, "SAVEPOINT copying").Close(); err != nil {
		return false, err
	}
	_, err = conn.CopyFrom(ctx, bytes.NewReader(rows), c.statement.Copy)
	switch {
	case err == nil:
		f.worked()
		return true, conn.Exec(ctx, "RELEASE SAVEPOINT copying").Close()
	case answered(err):
		f.failed()
		return false, conn.Exec(ctx, "ROLLBACK TO SAVEPOINT copying; RELEASE SAVEPOINT copying").Close()
	}
	return false, err
}

// copyOfArrays makes rows in the binary format of COPY of one array for each column: the elements of both are a length and a value, or a length
// of -1. It reports false where the arrays do not hold exactly n elements each.
func copyOfArrays(params [][]byte, n int) (out []byte, ok bool) {
	size := len(copyHeader) + 2 + 2*n
	rest := make([][]byte, len(params))
	for i, p := range params {
		if len(p) < arrayHeader {
			return nil, false
		}
		rest[i] = p[arrayHeader:]
		size += len(rest[i])
	}
	out = append(make([]byte, 0, size), copyHeader...)
	for range n {
		out = binary.BigEndian.AppendUint16(out, uint16(len(params)))
		for i, r := range rest {
			if len(r) < 4 {
				return nil, false
			}
			field := 4
			if length := int32(binary.BigEndian.Uint32(r)); length > 0 {
				if int64(len(r)) < 4+int64(length) {
					return nil, false
				}
				field += int(length)
			}
			out, rest[i] = append(out, r[:field]...), r[field:]
		}
	}
	for _, r := range rest {
		if len(r) > 0 {
			return nil, false
		}
	}
	return binary.BigEndian.AppendUint16(out, math.MaxUint16), true
}
