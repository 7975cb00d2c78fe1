package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Bounds of a search. What was found within them is named; the rest is found when the checkpoint is done again without it.
const (
	maxAsked  = 50_000           // statements sent: two for each change of a full statement that is refused by itself, and all of it again
	maxSearch = 30 * time.Second // from the first refusal on, not counting what is done again before it
)

// blame finds which changes of the batch b the server refuses, after it refused a statement of it with refusal. Of a statement the server
// mostly does not say which row it was, and never which message.
//
// The refusal ended the transaction, so a new one does the batches of the checkpoint again, which are all still alive, and then takes b apart under
// savepoints: what is accepted stays, what is refused is halved, down to single changes. Whatever comes of it is rolled back: it finds
// names and writes nothing. The new transaction looks at the fence like any other.
//
// No change is blamed on a guess. Some refusals depend on other rows: a foreign key to a row of the same statement, a unique value that
// another row is about to give up, a trigger that counts. So a change counts as refused only if it is refused by itself once more after
// all that is accepted is in place, and more is asked where that proves nothing: see judge. Where the statement as a whole is refused and no change by itself is,
// the error names none: the caller does the checkpoint again in smaller pieces, in which changes come in the topic's order.
//
// An error of another class is returned as what it is: it says nothing about the changes.
func (c *committer) blame(ctx context.Context, b taken, refusal error) error {
	if len(named(refusal)) > 0 {
		return refusal
	}
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
	for _, done := range append(c.taken[:len(c.taken):len(c.taken)], b) {
		if err := s.batch(ctx, done); err != nil {
			return err
		}
		if s.over {
			break
		}
	}
	// The checkpoint goes on, and may make good what is refused for another row.
	if len(s.named) > 0 {
		all, err := c.edges(ctx, t)
		if err != nil {
			return err
		}
		if s.named = slices.DeleteFunc(s.named, func(r sink.Rejection) bool { return c.curable(b.target, r.Reason, all) }); len(s.named) == 0 {
			return refusal
		}
	}
	return s.found(refusal)
}

// found is what the search comes to, after the server refused something with refusal.
func (s *search) found(refusal error) error {
	switch {
	case len(s.named) > 0:
		return rejected(s.named)
	case occupied(s.refusal): // by one another: no row that stays is in the way
		return &sink.Error{Class: sink.ErrRejected, Err: fmt.Errorf("rows that hold one another's unique values cannot be moved out of one another's way in this table: make the constraint DEFERRABLE: %w", tell(s.refusal))}
	case s.refusal != nil:
		return s.refusal
	}
	// The world changed: somebody else gave up a value, put the parent there, dropped the constraint.
	return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("what the server refused it now accepts: %w", tell(refusal))}
}

// search takes batches apart in a transaction that will be rolled back.
type search struct {
	a *applier
	t *transaction

	named   []sink.Rejection
	refusal error // of a statement as a whole
	over    bool  // what comes after would be judged without what is before it

	pending []refused // by themselves, at the last try; whether they are to blame is not sure yet
	sure    int       // how many were found whose refusal has nothing to do with other rows
	within  bool      // rows of the table can refer to rows of it
	asked   int
	began   time.Time
	mark    string // what the next statement under the savepoint is preceded by
}

// refused is a change that was refused by itself.
type refused struct {
	st     statement
	change changelog.Change
	err    error
}

// batch brings a batch into the transaction, without the messages that it finds to be refused.
func (s *search) batch(ctx context.Context, b taken) error {
	if err := s.exec(ctx, "SAVEPOINT batch"); err != nil {
		return err
	}
	for changes := b.batch.Changes; ; {
		_, err := s.a.inOrder(ctx, s.t, b.target, changes, b.order)
		if err == nil {
			return s.exec(ctx, "RELEASE SAVEPOINT batch")
		}
		if classify(err) != sink.ErrRejected {
			return err
		}
		if s.began.IsZero() {
			s.began = time.Now()
		}
		if err := s.exec(ctx, "ROLLBACK TO SAVEPOINT batch"); err != nil {
			return err
		}
		// Where the message was the last of its key, the one before it is now what counts, and may be refused as well: hence the loop.
		bad := named(err)
		if len(bad) == 0 {
			s.refusal = err
			if bad, err = s.apart(ctx, b.target, changes); err != nil {
				return err
			}
			if err := s.exec(ctx, "ROLLBACK TO SAVEPOINT batch"); err != nil {
				return err
			}
		}
		s.named = append(s.named, bad...)
		if s.over = len(bad) == 0 || len(s.named) >= maxNamed || s.spent(); s.over {
			return nil
		}
		changes = without(changes, bad)
	}
}

func (s *search) exec(ctx context.Context, sql string) error {
	_, err := s.t.Exec(ctx, sql)
	return err
}

func (s *search) spent() bool {
	return s.asked > maxAsked || s.sure >= maxNamed || time.Since(s.began) > maxSearch
}

// apart writes changes, of which the server refuses some, and returns those.
func (s *search) apart(ctx context.Context, tg *target, changes []changelog.Change) (bad []sink.Rejection, err error) {
	if bad := s.a.unfit(tg, changes); len(bad) > 0 {
		return bad, nil // in a statement after the one that the server refused
	}
	if s.within, err = s.refersToItself(ctx, tg); err != nil {
		return nil, err
	}
	s.mark, s.pending = "SAVEPOINT try", nil
	todo, _ := s.a.plan(tg, changes)
	for _, w := range todo {
		missing, err := s.send(ctx, tg, w)
		if err != nil {
			return nil, err
		}
		bad = append(bad, missing...)
	}
	more, err := s.judge(ctx, tg)
	return append(bad, more...), err
}

// send writes what is accepted of w. The rest is pending, but for those whose row is not there to be changed.
func (s *search) send(ctx context.Context, tg *target, w work) (missing []sink.Rejection, err error) {
	for rest := w.changes; len(rest) > 0; {
		n, err := s.a.fill(tg, w.st, rest)
		if err != nil {
			return nil, err
		}
		more, err := s.halve(ctx, tg, w.st, rest[:n], nil)
		if err != nil {
			return nil, err
		}
		missing, rest = append(missing, more...), rest[n:]
	}
	return missing, nil
}

// halve writes changes through one statement, or their halves, and so on; single changes that are refused go into s.pending. A refusal that
// is known already spares the first try. missing are those whose row is not there to be changed.
func (s *search) halve(ctx context.Context, tg *target, st statement, changes []changelog.Change, refusal error) (missing []sink.Rejection, err error) {
	for len(changes) > 0 && refusal == nil {
		if s.spent() {
			return missing, nil
		}
		var bad []sink.Rejection
		if bad, refusal, err = s.try(ctx, tg, st, changes); err != nil {
			return nil, err
		}
		if refusal == nil && len(bad) == 0 {
			return missing, nil
		}
		missing = append(missing, bad...)
		if len(bad) > 0 {
			changes, refusal = without(changes, bad), nil
		}
	}
	switch len(changes) {
	case 0:
		return missing, nil
	case 1:
		refusal, err = s.column(ctx, tg, st, changes, refusal)
		s.pending = append(s.pending, refused{st, changes[0], refusal})
		if !s.dependsOnOthers(refusal) {
			s.sure++
		}
		return missing, err
	}
	half := len(changes) / 2
	before := len(s.pending)
	more, err := s.halve(ctx, tg, st, changes[:half], nil)
	if err != nil {
		return nil, err
	}
	missing = append(missing, more...)
	// The first half was accepted, so it is the second that is refused. Not so with one change: that is the last word about it.
	if len(s.pending) > before || len(more) > 0 || len(changes)-half == 1 {
		refusal = nil
	}
	more, err = s.halve(ctx, tg, st, changes[half:], refusal)
	return append(missing, more...), err
}

// column adds the column to a refusal of a text by the type of its column (a uuid, an enum, an address), of which the server does not
// say in which column it is.
func (s *search) column(ctx context.Context, tg *target, st statement, change []changelog.Change, refusal error) (error, error) {
	var pe *pgconn.PgError
	if !errors.As(refusal, &pe) || !strings.HasPrefix(pe.Code, "22") || pe.ColumnName != "" {
		return refusal, nil
	}
	for _, i := range st.columns {
		col := &tg.columns[i]
		if col.bind.cast == "" && col.bind.elem != pgtype.JSONBOID {
			continue // what is sent in binary form was checked before it was sent
		}
		alone := tg.statement([]int{i}, fmt.Sprintf("SELECT count(s.c1%s) FROM unnest($1) AS s(c1)", col.bind.cast))
		_, why, err := s.try(ctx, tg, alone, change)
		if err != nil {
			return nil, err
		}
		if why != nil {
			return &columnError{column: col.name, err: refusal}, nil
		}
	}
	return refusal, nil
}

// try sends one statement under the savepoint. What goes before it to set or undo the savepoint is one message, so that a try is two
// round trips.
func (s *search) try(ctx context.Context, tg *target, st statement, changes []changelog.Change) (missing []sink.Rejection, refusal, err error) {
	s.asked++
	if err := s.exec(ctx, s.mark); err != nil {
		return nil, nil, err
	}
	if _, err := s.a.fill(tg, st, changes); err != nil {
		return nil, nil, err
	}
	err = s.a.send(ctx, s.t, tg, st, changes)
	switch {
	case err == nil:
		s.mark = "RELEASE SAVEPOINT try; SAVEPOINT try"
		return nil, nil, nil
	case classify(err) != sink.ErrRejected:
		return nil, nil, err
	}
	s.mark = "ROLLBACK TO SAVEPOINT try"
	if missing = named(err); len(missing) > 0 {
		return missing, nil, nil
	}
	return nil, err, nil
}
