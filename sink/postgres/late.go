package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file writes tables that refer to one another. Their topics have no order between them: a row may come before the row that it refers to, and
// a row may go before those that refer to it. Where the foreign key is deferred the server waits by itself. Where it is not, the batch that was
// refused waits here, and what comes after it, until the end of the checkpoint; then the rows of all of them are put there, those that are referred
// to first, and taken away, those that refer first.

// maxAwaited is how often in a row a checkpoint is done again because a row refers to one that is not there, before a change is called rejected.
const maxAwaited = 5

// foreign reports whether a foreign key refused: 23001 is what Postgres 18 says for ON DELETE RESTRICT.
func foreign(err error) bool {
	code := state(err)
	return code == "23503" || code == "23001"
}

// edge says that rows of one target can refer to rows of another: indexes of c.targets.
type edge struct{ child, parent int }

// edges reads the foreign keys between the tables of the lane.
func (c *committer) edges(ctx context.Context) ([]edge, error) {
	names := make([]string, len(c.targets))
	for i, tg := range c.targets {
		names[i] = tg.name.SQL()
	}
	rows, err := c.tx.Query(ctx, `SELECT DISTINCT c.i - 1, p.i - 1 FROM unnest($1::text[]) WITH ORDINALITY AS c(name, i)
		JOIN pg_catalog.pg_constraint k ON k.contype = 'f' AND k.conrelid = to_regclass(c.name)
		JOIN unnest($1::text[]) WITH ORDINALITY AS p(name, i) ON k.confrelid = to_regclass(p.name) WHERE k.conrelid <> k.confrelid ORDER BY 1, 2`, names)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e edge, err error) {
		err = row.Scan(&e.child, &e.parent)
		return e, err
	})
}

// mayWait takes a batch that a foreign key refused for one that waits for rows of another table of the lane, if there is such a table. The
// transaction then holds what was taken before it.
func (c *committer) mayWait(ctx context.Context, b taken) (bool, error) {
	if len(c.targets) < 2 {
		return false, nil
	}
	if err := c.restart(ctx); err != nil {
		return false, err
	}
	all, err := c.edges(ctx)
	if err != nil {
		return false, err
	}
	i := slices.Index(c.targets, b.target)
	if !slices.ContainsFunc(all, func(e edge) bool { return e.child == i || e.parent == i }) {
		return false, nil
	}
	c.late = append(c.late, b)
	return true, nil
}

// ranks numbers targets so that a table comes after all that it refers to. Tables that refer to each other in a circle come in any order.
func ranks(n int, all []edge) []int {
	rank := make([]int, n)
	for range n {
		for _, e := range all {
			if rank[e.child] <= rank[e.parent] && rank[e.parent] < n {
				rank[e.child] = rank[e.parent] + 1
			}
		}
	}
	return rank
}

// lateWork is one statement over what waits of one table.
type lateWork struct {
	tg      *target
	rank    int
	removes bool
	work
}

// lateWorks is what waits, in the order in which foreign keys like it best.
func (c *committer) lateWorks(ctx context.Context) (todo []lateWork, superseded int, err error) {
	all, err := c.edges(ctx)
	if err != nil {
		return nil, 0, err
	}
	rank := ranks(len(c.targets), all)
	for i, tg := range c.targets {
		var changes []changelog.Change
		for _, b := range c.late {
			if b.target == tg {
				changes = append(changes, b.batch.Changes...)
			}
		}
		if len(changes) == 0 {
			continue
		}
		if bad := c.apply.unfit(tg, changes); len(bad) > 0 {
			return nil, 0, rejected(bad)
		}
		works, void := c.apply.plan(tg, changes)
		superseded += void
		for _, w := range works {
			w.changes = slices.Clone(w.changes) // the next plan would overwrite them
			removes := tg.remove.sql != "" && w.st.sql == tg.remove.sql
			todo = append(todo, lateWork{tg, rank[i], removes, w})
		}
	}
	slices.SortStableFunc(todo, func(a, b lateWork) int {
		switch {
		case a.removes != b.removes:
			return map[bool]int{false: -1, true: 1}[a.removes]
		case a.removes:
			return b.rank - a.rank
		}
		return a.rank - b.rank
	})
	return todo, superseded, nil
}

// settleLate writes what waits. The net effects of a table are disjoint by key, so the order is free. What is refused in the first round
// may be accepted when the others are in place, a unique value that a deleted row still held for one; so rounds go on as long as each of them
// gets on.
func (c *committer) settleLate(ctx context.Context) error {
	c.lateVoid = 0
	if len(c.late) == 0 {
		return nil
	}
	stage := c.apply.stage
	if stage == nil {
		// Keys that can be deferred are, for here they may be broken on the way; the end of the checkpoint looks at them again. Not so what is
		// rehearsed: whoever merges it does not know of this.
		if _, err := c.tx.Exec(ctx, "SET CONSTRAINTS ALL DEFERRED"); err != nil {
			return err
		}
	} else if !stage.later {
		if err := stage.rehearse(ctx); err != nil { // its savepoint has to be outside of those below
			return err
		}
	}
	todo, superseded, err := c.lateWorks(ctx)
	if err != nil {
		return err
	}
	c.apply.void = 0
	for len(todo) > 0 {
		var left []lateWork
		var refusal error
		for _, w := range todo {
			if _, err := c.tx.Exec(ctx, "SAVEPOINT late"); err != nil {
				return err
			}
			held, void := stage.held(), c.apply.void
			err := c.apply.run(ctx, c.tx, w.tg, w.st, w.changes)
			after := "RELEASE SAVEPOINT late"
			switch {
			case err == nil && stage != nil && stage.later:
				continue // the rehearsal was ended, and this savepoint with it
			case err == nil:
			case classify(err) == sink.ErrRejected:
				stage.back(held)
				c.apply.void = void
				after = "ROLLBACK TO SAVEPOINT late; RELEASE SAVEPOINT late"
				left, refusal = append(left, w), err
			default:
				return err
			}
			if _, err := c.tx.Exec(ctx, after); err != nil {
				return err
			}
		}
		if len(left) == len(todo) {
			return refusal
		}
		todo = left
	}
	c.lateVoid = int64(superseded + c.apply.void)
	return nil
}

// orphaned names the changes that leave a foreign key broken at the end of the checkpoint: rows that refer to nothing, and rows that went while others
// refer to them. Without it the caller would do the checkpoint again in smaller pieces, which end in more places between a row and the one that
// it refers to, and blame the first.
func (c *committer) orphaned(ctx context.Context, refusal error) error {
	if len(c.late) > 0 {
		return c.blameLate(ctx, refusal)
	}
	if err := c.restart(ctx); err != nil {
		return err
	}
	var bad []sink.Rejection
	for _, tg := range c.targets {
		more, err := c.unreferred(ctx, tg, refusal)
		if err != nil {
			return err
		}
		bad = append(bad, more...)
	}
	if len(bad) == 0 {
		return refusal
	}
	return rejected(bad)
}

// blameLate finds which changes the server refuses, of what was taken and of what waits, in the order in which it is written.
func (c *committer) blameLate(ctx context.Context, refusal error) error {
	if err := c.restart(ctx); err != nil {
		return err
	}
	todo, _, err := c.lateWorks(ctx)
	if err != nil {
		return err
	}
	all := slices.Clone(c.taken)
	for _, w := range todo {
		all = append(all, taken{target: w.tg, batch: &changelog.Batch{Table: w.tg.table, Changes: w.changes}})
	}
	return c.blameOf(ctx, all, refusal)
}

// unreferred finds the changes of one table that leave the foreign key broken which refused the end of the checkpoint.
func (c *committer) unreferred(ctx context.Context, tg *target, refusal error) (bad []sink.Rejection, err error) {
	var pe *pgconn.PgError
	if !errors.As(refusal, &pe) || pe.ConstraintName == "" || len(tg.keys) == 0 {
		return nil, nil
	}
	rows, err := c.tx.Query(ctx, `SELECT k.conrelid = r, format('%I.%I', cn.nspname, ct.relname), format('%I.%I', pn.nspname, pt.relname),
			ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY n(at, i) JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = n.at ORDER BY n.i),
			ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY n(at, i) JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = n.at ORDER BY n.i)
		FROM to_regclass($1) AS r, pg_catalog.pg_constraint k
		JOIN pg_catalog.pg_class ct ON ct.oid = k.conrelid JOIN pg_catalog.pg_namespace cn ON cn.oid = ct.relnamespace
		JOIN pg_catalog.pg_class pt ON pt.oid = k.confrelid JOIN pg_catalog.pg_namespace pn ON pn.oid = pt.relnamespace
		WHERE k.contype = 'f' AND k.conname = $2 AND (k.conrelid = r OR k.confrelid = r)`, tg.name.SQL(), pe.ConstraintName)
	if err != nil {
		return nil, err
	}
	type key struct {
		Refers        bool
		Child, Parent string
		From, To      []string
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[key])
	if err != nil {
		return nil, err
	}
	var runs [][]changelog.Change
	for _, b := range c.taken {
		if b.target == tg {
			runs = append(runs, b.batch.Changes)
		}
	}
	if len(runs) == 0 {
		return nil, nil
	}
	for _, k := range keys {
		c.apply.net.Compute(tg.table.Schema, runs...)
		sql, changes := "", c.apply.net.Upserts
		if k.Refers {
			sql = tg.refersToNothing(k.Parent, k.From, k.To)
		} else {
			sql, changes = tg.stillReferredTo(k.Child, k.From, k.To), c.apply.net.Deletes
		}
		more, err := c.which(ctx, tg, sql, changes, refusal)
		if err != nil {
			return nil, err
		}
		bad = append(bad, more...)
	}
	return bad, nil
}

// refersToNothing selects the numbers of keys whose row refers to a row that is not there.
func (tg *target) refersToNothing(parent string, from, to []string) string {
	var set, equal []string
	for i := range from {
		set = append(set, fmt.Sprintf("t.%s IS NOT NULL", quote(from[i])))
		equal = append(equal, fmt.Sprintf("p.%s = t.%s", quote(to[i]), quote(from[i])))
	}
	return fmt.Sprintf("SELECT s.ord FROM %s JOIN %s AS t ON %s WHERE %s AND NOT EXISTS (SELECT FROM %s AS p WHERE %s) LIMIT %d",
		tg.unnest(tg.keys, " WITH ORDINALITY"), tg.name.SQL(), tg.sameKey(tg.keys), strings.Join(set, " AND "), parent, strings.Join(equal, " AND "), maxNamed)
}

// stillReferredTo selects the numbers of keys whose row is gone while others refer to it; "" where they refer to it by other columns than the key.
func (tg *target) stillReferredTo(child string, from, to []string) string {
	var equal []string
	for i := range to {
		n := slices.IndexFunc(tg.keys, func(k int) bool { return tg.columns[k].name == to[i] })
		if n < 0 {
			return ""
		}
		equal = append(equal, fmt.Sprintf("c.%s = s.c%d%s", quote(from[i]), n+1, tg.columns[tg.keys[n]].bind.cast))
	}
	return fmt.Sprintf("SELECT s.ord FROM %s WHERE NOT EXISTS (SELECT FROM %s AS t WHERE %s) AND EXISTS (SELECT FROM %s AS c WHERE %s) LIMIT %d",
		tg.unnest(tg.keys, " WITH ORDINALITY"), tg.name.SQL(), tg.sameKey(tg.keys), child, strings.Join(equal, " AND "), maxNamed)
}

// which returns those of changes whose numbers sql selects of their keys.
func (c *committer) which(ctx context.Context, tg *target, sql string, changes []changelog.Change, refusal error) (bad []sink.Rejection, err error) {
	st := tg.statement(tg.keys, sql)
	for len(changes) > 0 && sql != "" {
		n, err := c.apply.fill(tg, st, changes)
		if err != nil {
			return nil, err
		}
		r := c.tx.Conn().PgConn().ExecParams(ctx, sql, c.apply.params[:len(st.columns)], st.oids, binaryFormat(), nil).Read()
		if r.Err != nil {
			return nil, r.Err
		}
		for _, row := range r.Rows {
			if i, err := strconv.Atoi(string(row[0])); err == nil && i >= 1 && i <= n {
				bad = append(bad, rejection(&changes[i-1], refusal))
			}
		}
		changes = changes[n:]
	}
	return bad, nil
}
