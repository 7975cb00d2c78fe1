package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// Rows of many columns reach the server more cheaply by COPY into a temporary table, from which the upsert takes them, than as one array for each
// column: the server takes such arrays apart one column after the other, and keeps them all. For rows of few columns the table is not worth making.
// Where that turns is different on every server, so it is measured: the quicker way writes, and now and then the other one is tried.
//
// The table is made and dropped within the transaction, so that nothing of it is left in a session that a pooler gives to somebody else. A prepared
// transaction must not have touched a temporary table (PREPARE TRANSACTION, "Notes"), and a staged one writes elsewhere: this is of mode
// InTransaction alone.
const (
	mergeColumns = 8    // of fewer it is never worth it
	mergeRows    = 2000 // fewer are not worth a table
	mergeRetry   = 16   // batches between two tries of the slower way
)

const scratch = "pg_temp.flinksink_merge"

// merging is the upsert by way of a temporary table: a query string that takes the rows by COPY and writes them, and one that ends it.
type merging struct{ write, end string }

// mergeSQL is nil where rows would need a cast, as copySQL is "".
func (tg *target) mergeSQL(all []int) *merging {
	if len(tg.columns) < mergeColumns || len(tg.keys) == 0 {
		return nil
	}
	names, columns := make([]string, len(all)), make([]string, len(all))
	for n, i := range all {
		if tg.columns[i].bind.cast != "" {
			return nil
		}
		names[n] = fmt.Sprintf("c%d", n+1)
		columns[n] = names[n] + " " + tg.columns[i].typ
	}
	// Rows come out of a temporary table in the order in which they were put there (heapam.c: only a table of shared buffers is read from the middle), which is
	// that of their keys.
	return &merging{
		write: "SAVEPOINT copying; CREATE TEMPORARY TABLE flinksink_merge (" + strings.Join(columns, ", ") + ") ON COMMIT DROP; " +
			"COPY " + scratch + " (" + strings.Join(names, ", ") + ") FROM STDIN (FORMAT binary); " + tg.insertSQL(all, scratch+" AS s") + tg.onConflict(all),
		end: "DROP TABLE " + scratch + "; RELEASE SAVEPOINT copying",
	}
}

// pace is what a way to write costs.
type pace struct {
	row  float64 // nanoseconds, of late
	n    int     // measurements
	last int     // batches since the last of them
}

// measured believes what is quicker than before sooner than what is slower, for which the server may have had other reasons.
func (p *pace) measured(took time.Duration, rows int) {
	now := float64(took) / float64(rows)
	switch {
	case p.n == 0:
		p.row = now
	case now < p.row:
		p.row += (now - p.row) / 2
	default:
		p.row += (now - p.row) / 8
	}
	p.n++
	p.last = 0
}

// ways are those of the upsert of one table.
type ways struct {
	plain, merged pace
	refused       bool // the server has something against the temporary table
}

// merge reports whether the next batch goes by way of the temporary table. First both ways are tried twice.
func (w *ways) merge() bool {
	w.plain.last++
	w.merged.last++
	switch {
	case w.refused:
		return false
	case w.plain.n < 2 || w.merged.n < 2:
		return w.merged.n < w.plain.n
	case w.merged.row < w.plain.row:
		return w.plain.last < mergeRetry
	}
	return w.merged.last >= mergeRetry
}

// waysOf returns nil where there is no choice.
func (a *applier) waysOf(t *transaction, tg *target, w work) *ways {
	if w.st.merge == nil || len(w.changes) < mergeRows || a.stage.of(t) {
		return nil
	}
	if a.ways == nil {
		a.ways = make(map[string]*ways)
	}
	x := a.ways[w.st.merge.write]
	if x == nil {
		x = new(ways)
		a.ways[w.st.merge.write] = x
	}
	return x
}

// upsert writes changes, no two of one key, by the way that is likely to be quicker.
func (a *applier) upsert(ctx context.Context, t *transaction, tg *target, w work) error {
	x := a.waysOf(t, tg, w)
	if x == nil {
		return a.upsertAll(ctx, t, tg, w.st, w.changes)
	}
	began := time.Now()
	if x.merge() {
		done, err := a.merge(ctx, t, tg, w, x)
		if done && err == nil {
			x.merged.measured(time.Since(began), len(w.changes))
		}
		if done || err != nil {
			return err
		}
		x.merged.last = 0
		began = time.Now()
	}
	if err := a.upsertAll(ctx, t, tg, w.st, w.changes); err != nil {
		return err
	}
	x.plain.measured(time.Since(began), len(w.changes))
	return nil
}

// merge writes changes by way of the temporary table, and reports whether it did. false without an error: the server refused that, and the transaction is
// as it was before; what is refused of the rows, the other way finds out and names.
func (a *applier) merge(ctx context.Context, t *transaction, tg *target, w work, x *ways) (done bool, err error) {
	if err := a.clocked(ctx, t, tg); err != nil {
		return false, err
	}
	conn := t.Conn().PgConn()
	// One message where nobody asks how many rows were written: see copy. The answer tells of the last statement.
	sql := w.st.merge.write
	if !w.st.counts {
		sql += "; " + w.st.merge.end
	}
	r := a.copyOf(tg, w.changes)
	tag, err := conn.CopyFrom(ctx, r, sql)
	r.stop()
	if err == nil && w.st.counts {
		a.void += max(0, len(w.changes)-int(tag.RowsAffected()))
		return true, conn.Exec(ctx, w.st.merge.end).Close()
	}
	switch {
	case err == nil:
		return true, nil
	case answered(err) && (r.err != nil || classify(err) == sink.ErrRejected || classify(err) == sink.ErrConfig):
		x.refused = r.err == nil && classify(err) == sink.ErrConfig
		return false, conn.Exec(ctx, "ROLLBACK TO SAVEPOINT copying; RELEASE SAVEPOINT copying").Close()
	}
	return false, err
}
