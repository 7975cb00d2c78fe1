package postgres

import (
	"context"
	"errors"
	"fmt"
)

// errOtherTypes is told of rows that went as they were staged into a table whose columns have other types by now.
var errOtherTypes = errors.New("columns have other types")

// sameTables compares the tables that were merged into with what they were when the checkpoint was staged. The merge has written into them, so nobody alters them
// now.
//
// Columns of other types are no obstacle to what is decided: values that are cast to them are what ALTER TABLE has made of the rows that were there, so the table is as if the
// checkpoint had been merged before it. Only COPY does not cast. Another key or row security may take rows away from the merge without a word.
func (m *merger) sameTables(ctx context.Context, t *transaction, were []shapedTable) error {
	if len(were) == 0 {
		return nil
	}
	now, err := shapes(ctx, t, were)
	if err != nil {
		return err
	}
	for i, w := range were {
		was := shape{w.Rows, w.Rules}
		switch {
		case was.rules != now[i].rules:
			return fmt.Errorf("%w: table %s %s", errAltered, w.Name, was.altered(now[i]))
		case was.rows != now[i].rows && !m.cast:
			return errOtherTypes
		}
	}
	return nil
}
