package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// copyNew writes the rows of chunks, all of one statement, as new ones, as applier.copyNew does, and with the same memory of how well that went. false without
// an error: it was not tried, or the transaction is as it was before.
func (m *merger) copyNew(ctx context.Context, conn *pgconn.PgConn, chunks []chunk) (done bool, err error) {
	if m.fresh == nil || m.cast {
		return false, nil
	}
	sql, rows := chunks[0].statement.Copy, 0
	for i := range chunks {
		if chunks[i].statement.Copy != sql {
			return false, nil
		}
		rows += chunks[i].statement.Rows
	}
	if sql == "" || rows < copyRows {
		return false, nil
	}
	f := m.fresh[sql]
	if f == nil {
		f = new(freshness)
		m.fresh[sql] = f
	}
	if !f.try() {
		return false, nil
	}
	r := &chunkReader{chunks: chunks, rest: []byte(copyHeader)}
	_, err = conn.CopyFrom(ctx, r, savedCopy(sql))
	r.stop()
	switch {
	case err == nil:
		f.worked()
		return true, nil
	case answered(err):
		f.failed()
		return false, conn.Exec(ctx, "ROLLBACK TO SAVEPOINT copying; RELEASE SAVEPOINT copying").Close()
	}
	return false, err
}

// chunkReader makes the rows of COPY of chunks, one chunk after the other, while they are sent.
type chunkReader struct {
	mu     sync.Mutex // CopyFrom reads in a goroutine, and does not wait for it when the connection breaks
	chunks []chunk
	rest   []byte // what did not fit
	buf    []byte
	ended  bool
}

// errChunk is told of arrays that are not of one length. They end a COPY, and then the statement says what is wrong.
var errChunk = errors.New("a staged statement whose arrays are not of one length")

// stop lets go of the chunks.
func (r *chunkReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chunks, r.rest, r.buf, r.ended = nil, nil, nil, true
}

// Read implements io.Reader.
func (r *chunkReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.rest) == 0 {
		switch {
		case r.ended:
			return 0, io.EOF
		case len(r.chunks) == 0:
			r.rest, r.ended = binary.BigEndian.AppendUint16(nil, math.MaxUint16), true // the trailer
		default:
			c := &r.chunks[0]
			r.chunks = r.chunks[1:]
			var ok bool
			if r.buf, ok = appendRows(r.buf[:0], c.params, c.statement.Rows); !ok {
				return 0, errChunk
			}
			r.rest = r.buf
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// appendRows appends rows in the binary format of COPY, made of one array for each column: the elements of both are a length and a value, or a length
// of -1. It reports false where the arrays do not hold exactly n elements each.
func appendRows(out []byte, params [][]byte, n int) (_ []byte, ok bool) {
	rest := make([][]byte, len(params))
	for i, p := range params {
		if len(p) < arrayHeader {
			return out, false
		}
		rest[i] = p[arrayHeader:]
	}
	for range n {
		out = binary.BigEndian.AppendUint16(out, uint16(len(params)))
		for i, r := range rest {
			if len(r) < 4 {
				return out, false
			}
			field := 4
			if length := int32(binary.BigEndian.Uint32(r)); length > 0 {
				if int64(len(r)) < 4+int64(length) {
					return out, false
				}
				field += int(length)
			}
			out, rest[i] = append(out, r[:field]...), r[field:]
		}
	}
	for _, r := range rest {
		if len(r) > 0 {
			return out, false
		}
	}
	return out, true
}
