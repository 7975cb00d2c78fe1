package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5/pgconn"
)

// maxNamed is how many refused changes one error names. Those beyond it are named when the checkpoint is done again without these.
const maxNamed = 1000

// message names a message of a topic. A refusal is of a message: the caller leaves it out as a whole.
type message struct {
	changelog.Partition
	offset int64
}

// rejection says that a change can never be written, and why, without a value of its row.
func rejection(c *changelog.Change, err error) sink.Rejection {
	r := sink.Rejection{Partition: c.Partition, Offset: c.Offset, Index: c.Index, Reason: tell(err)}
	var re *rowError
	var ce *columnError
	var pe *pgconn.PgError
	switch {
	case errors.As(err, &ce):
		r.Column, r.Reason = ce.column, &cause{text: fmt.Sprintf("column %s: %v", quote(ce.column), tell(ce.err)), err: ce.err}
	case errors.As(err, &re):
		r.Column = re.column
	case errors.As(err, &pe):
		r.Column = pe.ColumnName
	}
	return r
}

// columnError is an error of the server with the column that it did not name.
type columnError struct {
	column string
	err    error
}

func (e *columnError) Error() string { return tell(e.err).Error() }
func (e *columnError) Unwrap() error { return e.err }

// rejected is the ErrRejected that names changes, in the order of their positions and at most one a message.
func rejected(all []sink.Rejection) error {
	slices.SortStableFunc(all, func(a, b sink.Rejection) int {
		return cmp.Or(a.Partition.Compare(b.Partition), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Index, b.Index))
	})
	all = slices.CompactFunc(all, func(a, b sink.Rejection) bool { return a.Partition == b.Partition && a.Offset == b.Offset })
	if len(all) > maxNamed {
		all = all[:maxNamed]
	}
	if len(all) == 0 {
		return &sink.Error{Class: sink.ErrRejected, Err: errors.New("nobody can tell which change it was")}
	}
	first := all[0]
	err := first.Reason
	if more := len(all) - 1; more > 0 {
		err = &cause{text: fmt.Sprintf("%v (and changes of %d more messages)", err, more), err: err}
	}
	return &sink.Error{Class: sink.ErrRejected, Position: &changelog.Position{Partition: first.Partition, Offset: first.Offset, LeaderEpoch: -1},
		Rejected: all, Err: err}
}

// named returns the changes that an ErrRejected names.
func named(err error) []sink.Rejection {
	var e *sink.Error
	if errors.As(err, &e) {
		return e.Rejected
	}
	return nil
}

// without returns changes but for those of the messages that are named, in a slice of its own.
func without(changes []changelog.Change, bad []sink.Rejection) []changelog.Change {
	gone := make(map[message]bool, len(bad))
	for _, r := range bad {
		gone[message{r.Partition, r.Offset}] = true
	}
	left := make([]changelog.Change, 0, len(changes))
	for _, c := range changes {
		if !gone[message{c.Partition, c.Offset}] {
			left = append(left, c)
		}
	}
	return left
}

// maxLooked bounds the work of unfit: changes that were looked at, over all its rounds.
const maxLooked = 5_000_000

// unfit finds all messages of a batch that this process can tell to be unwritable, so that the checkpoint is done again once and not once
// for each. Where such a message was the last of its key, the one before it is now what counts, so it looks again.
func (a *applier) unfit(tg *target, changes []changelog.Change) (all []sink.Rejection) {
	for looked := 0; looked <= maxLooked && len(all) < maxNamed; looked += len(changes) {
		bad := malformed(tg, changes)
		if len(bad) == 0 {
			bad = a.misfits(tg, changes)
		}
		if len(bad) == 0 {
			break
		}
		all = append(all, bad...)
		changes = without(changes, bad)
	}
	return all
}

// misfits finds values that do not fit their columns.
func (a *applier) misfits(tg *target, changes []changelog.Change) (bad []sink.Rejection) {
	todo, _ := a.plan(tg, changes)
	for _, w := range todo {
		a.room(w.st)
		for i := range w.changes {
			for _, n := range w.st.columns {
				col := &tg.columns[n]
				var err error
				if a.params[0], err = col.putOf(a.params[0][:0], &w.changes[i], &a.stamp); err != nil {
					bad = append(bad, rejection(&w.changes[i], &rowError{col.name, err.Error()}))
					break
				}
			}
		}
	}
	return bad
}
