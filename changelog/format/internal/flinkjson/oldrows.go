package flinkjson

import (
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// OldRows settles what a row is that goes away, where its source did not send all of it.
type OldRows struct {
	Columns []int    // of the payload: where they are in the table
	Names   []string // in the table
	Keyed   bool     // the table has a PRIMARY KEY
	isKey   []bool
	taken   bool   // a column that is missing is NULL
	refusal string // for a table without PRIMARY KEY
}

// NewOldRows makes it for p, whose options o are. format and advice are parts of the error text.
func NewOldRows(format, advice string, p changelog.Payload, o Options) *OldRows {
	s := p.Table.Schema
	r := &OldRows{
		Columns: p.Columns, Keyed: len(s.Key) > 0, taken: p.Lenient || o.IgnoreNulls,
		refusal: "the old row lacks this column, and without it a table without PRIMARY KEY has no row to delete; " + advice +
			", or declare the PRIMARY KEY; if the writer leaves NULLs out, set '" + format + ".encode.ignore-null-fields' = 'true'",
	}
	for _, col := range p.Columns {
		r.Names = append(r.Names, s.Columns[col].Name)
		r.isKey = append(r.isKey, slices.Contains(s.Key, col))
	}
	return r
}

// Settle makes the columns Unchanged that has says were not sent: with a PRIMARY KEY the row is found without them. keyOnly reports that
// nothing but the key is known; the other columns are NULL then. has may be nil: nothing was sent.
func (r *OldRows) Settle(row changelog.Row, has []bool) (keyOnly bool, f *Failure) {
	if r.taken {
		return false, nil
	}
	others, lacking := 0, 0
	for i, col := range r.Columns {
		if !r.isKey[i] {
			others++
		}
		if has != nil && has[i] {
			continue
		}
		if !r.Keyed {
			return false, finalf(r.refusal).As(changelog.Missing).at(r.Names[i])
		}
		row[col] = changelog.UnchangedValue()
		if !r.isKey[i] {
			lacking++
		}
	}
	if lacking == 0 || lacking < others {
		return false, nil
	}
	for i, col := range r.Columns {
		if !r.isKey[i] {
			row[col] = changelog.Value{}
		}
	}
	return true, nil
}
