package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file finds which changes are to blame for what the server refuses at the end of a checkpoint.

// blameLate finds which of the changes that wait the server refuses, in a transaction of its own that holds all that it accepts, as blame does. deferred is how
// what can be deferred is.
//
// A part of a statement that is refused may be what others wait for, so all parts that are accepted come in first, and who is refused even then is asked.
// Those that are to blame are left out, and all is written again without them, until it is accepted or nobody else is found.
func (c *committer) blameLate(ctx context.Context, refusal error, deferred bool) error {
	if c.tx != nil {
		c.tx.rollback(ctx)
		c.tx = nil
	}
	t, err := c.beginAside(ctx)
	if err != nil {
		return err
	}
	defer t.rollback(ctx)
	s := search{a: &c.apply, t: t}
	for _, done := range c.taken {
		if err := s.batch(ctx, done); err != nil {
			return err
		}
		if s.over {
			return s.found(refusal)
		}
	}
	if deferred {
		if err := s.exec(ctx, "SET CONSTRAINTS ALL DEFERRED"); err != nil {
			return err
		}
	}
	runs := c.lateRuns()
	s.began = time.Now()
	for {
		if err := s.exec(ctx, "SAVEPOINT blaming"); err != nil {
			return err
		}
		before := len(s.named)
		_, stuck, err := c.arrange(ctx, t, runs)
		if err != nil {
			if more := named(err); len(more) > 0 {
				return rejected(append(s.named, more...))
			}
			return err
		}
		if len(stuck) == 0 {
			return s.found(refusal)
		}
		s.refusal = refusalOf(stuck)
		if err := s.loosen(ctx, stuck); err != nil {
			return err
		}
		for _, w := range stuck {
			if s.over = s.spent(); s.over {
				break
			}
			if err := s.batch(ctx, taken{target: w.tg, batch: &changelog.Batch{Table: w.tg.table, Changes: w.changes}}); err != nil {
				return err
			}
			if s.over {
				break
			}
		}
		if len(s.named) == before || len(s.named) >= maxNamed || s.spent() {
			return s.found(refusal)
		}
		if err := s.exec(ctx, "ROLLBACK TO SAVEPOINT blaming"); err != nil {
			return err
		}
		for i := range runs {
			runs[i] = without(runs[i], s.named[before:])
		}
	}
}

// blameDeferred does so where a unique constraint that is deferred until the end of the checkpoint was broken there, which is refused row by row where it is not
// deferred. The server does not say so of others that are: then nobody is named.
func (c *committer) blameDeferred(ctx context.Context, refusal error) error {
	bad := named(c.blameLate(ctx, refusal, false))
	bad = slices.DeleteFunc(bad, func(r sink.Rejection) bool { return !occupied(r.Reason) })
	if len(bad) == 0 {
		return refusal
	}
	return rejected(bad)
}

// loosen writes all parts of the works that are accepted by now, and leaves those in them that are not.
func (s *search) loosen(ctx context.Context, stuck []lateWork) error {
	defer func(sure int) { s.sure, s.pending = sure, nil }(s.sure)
	s.mark = "SAVEPOINT try"
	for more := true; more && !s.spent(); {
		more = false
		for i := range stuck {
			w := &stuck[i]
			if w.run || len(w.changes) == 0 {
				continue
			}
			s.pending, s.sure = nil, -len(w.changes) // nobody is to blame yet
			missing, err := s.send(ctx, w.tg, w.work)
			if err != nil {
				return err
			}
			if s.spent() {
				break
			}
			left := make(map[message]bool, len(s.pending)+len(missing))
			for _, r := range s.pending {
				left[message{r.change.Partition, r.change.Offset}] = true
			}
			for _, r := range missing {
				left[message{r.Partition, r.Offset}] = true
			}
			was := len(w.changes)
			w.changes = slices.DeleteFunc(w.changes, func(c changelog.Change) bool { return !left[message{c.Partition, c.Offset}] })
			more = more || len(w.changes) < was
		}
	}
	return s.exec(ctx, s.mark) // what the last try left behind
}

// orphaned names the changes that leave a foreign key broken at the end of the checkpoint: rows that refer to nothing, and rows that went while others
// refer to them. Without it the caller would do the checkpoint again in smaller pieces, which end in more places between a row and the one that
// it refers to, and blame the first.
func (c *committer) orphaned(ctx context.Context, refusal error) error {
	if err := c.restart(ctx); err != nil {
		return err
	}
	if err := c.settleLate(ctx); err != nil {
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
	for _, b := range slices.Concat(c.taken, c.late) {
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
