package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file decides which of the changes that were refused by themselves are to blame, whatever becomes of the others.

// dependsOnOthers tells whether a refusal can be due to rows of the batch beside the one that was refused: foreign keys within the table,
// unique and exclusion constraints, and whatever a trigger looks at. All others of the server's checks see one row, or other tables.
func (s *search) dependsOnOthers(err error) bool {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return false
	}
	switch pe.Code {
	case "23503":
		return s.within
	case "23505", "23P01":
		return true
	}
	return len(pe.Code) == 5 && pe.Code[:2] == "P0" || pe.Routine == "exec_stmt_raise"
}

// state is the SQLSTATE of an error of the server.
func state(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// judge returns those of s.pending that are surely to blame. Those that nobody can tell about it leaves out.
//
// First all of them are tried once more, now that all that is accepted is in place, until nothing more of it is accepted: a child before its
// parent, a value that another row has given up meanwhile. What is left may still wait for one another.
func (s *search) judge(ctx context.Context, tg *target) (bad []sink.Rejection, err error) {
	for {
		groups, sure := s.groups()
		bad = append(bad, sure...)
		if len(groups) == 0 || s.spent() {
			return bad, nil // what is pending was not tried to the end
		}
		tried := len(s.pending) - len(sure)
		s.pending = nil
		for _, g := range groups {
			if _, err := s.send(ctx, tg, g.work()); err != nil {
				return nil, err
			}
		}
		if s.spent() {
			return bad, nil
		}
		if len(s.pending) < tried {
			continue
		}
		groups, sure = s.groups()
		bad = append(bad, sure...)
		accepted := 0
		if s.within {
			s.pending = nil
			for i, g := range groups {
				if !g.foreign {
					s.pending = append(s.pending, g.rows...)
					continue
				}
				orphans, rest, err := s.orphans(ctx, tg, g)
				if err != nil {
					return nil, err
				}
				bad = append(bad, orphans...)
				accepted += rest
				groups[i].rows = nil
			}
			if accepted > 0 {
				continue
			}
		}
		for _, g := range groups {
			if g.unique && len(tg.keys) > 0 {
				more, err := s.holders(ctx, tg, g)
				if err != nil {
					return nil, err
				}
				bad = append(bad, more...)
				continue
			}
			for _, r := range g.rows {
				bad = append(bad, rejection(&r.change, r.err))
			}
		}
		return bad, nil
	}
}

// group is pending rows of one statement that were refused for the like reason.
type group struct {
	st              statement
	foreign, unique bool
	rows            []refused
}

func (g group) work() work {
	w := work{st: g.st}
	for _, r := range g.rows {
		w.changes = append(w.changes, r.change)
	}
	return w
}

// groups sets apart what is pending; sure are those whose refusal has nothing to do with other rows.
func (s *search) groups() (out []group, sure []sink.Rejection) {
	for _, r := range s.pending {
		if !s.dependsOnOthers(r.err) {
			sure = append(sure, rejection(&r.change, r.err))
			continue
		}
		code := state(r.err)
		g := group{st: r.st, foreign: code == "23503", unique: code == "23505" || code == "23P01"}
		i := slices.IndexFunc(out, func(o group) bool { return o.st.sql == g.st.sql && o.foreign == g.foreign && o.unique == g.unique })
		if i < 0 {
			i, out = len(out), append(out, g)
		}
		out[i].rows = append(out[i].rows, r)
	}
	return out, sure
}

// refersToItself reports whether rows of the table can refer to rows of it.
func (s *search) refersToItself(ctx context.Context, tg *target) (yes bool, err error) {
	err = s.t.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE contype = 'f' AND conrelid = to_regclass($1) AND confrelid = conrelid)`,
		tg.name.SQL()).Scan(&yes)
	return yes, err
}

// orphans tells apart rows that refer to rows of their own table. Those that refer to one another are accepted together or not at all, which
// halves cannot show. All of them in one statement are refused for one whose key is nowhere, and the server's detail holds that key:
// rows that were refused by themselves with the same detail are orphans. Without them it is tried again, until the rest, whose number is
// returned, is accepted; or until there is no telling.
func (s *search) orphans(ctx context.Context, tg *target, g group) (bad []sink.Rejection, accepted int, err error) {
	for len(g.rows) > 0 && !s.spent() {
		w := g.work()
		n, err := s.a.fill(tg, w.st, w.changes)
		if err != nil || n < len(w.changes) {
			return bad, 0, err // too many for one statement
		}
		_, refusal, err := s.try(ctx, tg, w.st, w.changes)
		if err != nil {
			return nil, 0, err
		}
		if refusal == nil {
			return bad, len(g.rows), nil
		}
		var left []refused
		for _, r := range g.rows {
			if sameKeyMissing(refusal, r.err) {
				bad = append(bad, rejection(&r.change, r.err))
			} else {
				left = append(left, r)
			}
		}
		if len(left) == len(g.rows) {
			break
		}
		g.rows = left
	}
	return bad, 0, nil
}

// sameKeyMissing compares the details of two refusals by a foreign key. They are translated, but always the same words around the same
// columns and values; where the server may not show values, it shows neither, and all details are alike.
func sameKeyMissing(a, b error) bool {
	var x, y *pgconn.PgError
	return errors.As(a, &x) && errors.As(b, &y) && x.Code == "23503" && y.Code == x.Code && x.ConstraintName == y.ConstraintName &&
		x.Detail == y.Detail && strings.Contains(x.Detail, ")=(")
}

// holders tells which rows are refused by a unique or an exclusion constraint for good. Two rows that swap their values are each refused for
// the other; so all rows of these keys are taken out of the table, or where they have to stay give up their values, which is undone later, and who is refused even now is refused
// for a row that stays. That is no proof where it is for a unique value that could not be given up: then nobody is named.
func (s *search) holders(ctx context.Context, tg *target, g group) (bad []sink.Rejection, err error) {
	w := g.work()
	ways := []statement{tg.takeOut}
	if !tg.deletes {
		ways = nil // the role may only mark rows
	}
	if err := s.exec(ctx, s.mark); err != nil { // what the last try left behind
		return nil, err
	}
	s.mark = "ROLLBACK TO SAVEPOINT try"
	p, err := tg.parking(ctx, s.t)
	if err != nil {
		return nil, err
	}
	if st := p.statement(tg, g.st.columns); st.sql != "" {
		ways = append(ways, st)
	}
	gone, moved := false, false
	for _, st := range ways {
		n, err := s.a.fill(tg, st, w.changes)
		if err != nil || n < len(w.changes) {
			return nil, err // too many for one statement
		}
		_, refusal, err := s.try(ctx, tg, st, w.changes)
		if err != nil {
			return nil, err
		}
		if gone, moved = refusal == nil, st.parks != nil; gone {
			break
		}
	}
	if !gone {
		return nil, nil
	}
	for i := range w.changes {
		if s.spent() {
			break
		}
		_, refusal, err := s.try(ctx, tg, g.st, w.changes[i:i+1])
		if err != nil {
			return nil, err
		}
		code := state(refusal)
		switch {
		case refusal == nil:
			s.mark = "ROLLBACK TO SAVEPOINT try"
		case moved && (code == "23505" || code == "23P01") && !p.frees(tg, g.st.columns, refusal):
		default:
			bad = append(bad, rejection(&w.changes[i], refusal))
		}
	}
	return bad, nil
}
