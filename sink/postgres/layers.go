package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
)

// This file writes changes under Options.Version of which some lack columns. The net effect would put the columns that such a change lacks in from the change of its key before it, and
// all of it under the version of the last. If the table is ahead of the first of the two, and not of the second, an older value would win. So they are written one after the other,
// and the guard looks at each. It is the same with a row and the delete after it that marks it (Options.SoftDelete): the mark would come with what the row was told to hold.

// layers splits changes in such a way that no change is merged with one before it. Those of one key are in the layers in their order, and most are in the first: a row that is whole
// makes those before it void, and so does one that has the columns of the one before it. nil: there is nothing to split.
func (tg *target) layers(changes []changelog.Change) [][]changelog.Change {
	if tg.version < 0 {
		return nil
	}
	split := false
	for i := range changes {
		if adds := changes[i].Kind.Adds(); adds && lacksColumns(tg, &changes[i]) || !adds && tg.soft {
			split = true
			break
		}
	}
	if !split {
		return nil
	}
	type top struct {
		layer   int
		columns string // that the last change of the layer has; "": all
		there   bool   // there is one
	}
	tops := make(map[string]*top, len(changes))
	var out [][]changelog.Change
	var key, columns []byte
	for i := range changes {
		c := &changes[i]
		key = changelog.AppendKey(key[:0], tg.table.Schema, c.Row)
		at := tops[string(key)]
		if at == nil {
			at = new(top)
			tops[string(key)] = at
		}
		if c.Kind.Adds() {
			columns = columns[:0]
			if lacksColumns(tg, c) {
				columns = append(tg.appendSent(columns, c), '.')
			}
			if len(columns) > 0 && at.there && at.columns != string(columns) {
				at.layer++
			}
			at.columns, at.there = string(columns), true
		} else if tg.soft && at.there {
			at.layer, at.there = at.layer+1, false
		}
		for len(out) <= at.layer {
			out = append(out, nil)
		}
		out[at.layer] = append(out[at.layer], *c)
	}
	return out
}

// layered reports whether changes are of more than one layer.
func (tg *target) layered(changes []changelog.Change) bool {
	now, _ := current(tg, changes)
	return len(tg.layers(now)) > 1
}

// appendSent appends the numbers of the columns that a change has.
func (tg *target) appendSent(dst []byte, c *changelog.Change) []byte {
	for n := range tg.columns {
		if col := &tg.columns[n]; col.origin == fromRow && !c.Row[col.source].IsUnchanged() {
			dst = strconv.AppendInt(append(dst, ','), int64(n), 10)
		}
	}
	return dst
}

// inLayers writes changes layer by layer, and reports whether there are any.
func (a *applier) inLayers(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) (superseded int, done bool, err error) {
	if tg.version < 0 {
		return 0, false, nil
	}
	now, superseded := current(tg, changes)
	layers := tg.layers(now)
	if len(layers) < 2 {
		return 0, false, nil
	}
	for _, l := range layers {
		n, err := a.batch(ctx, t, tg, l)
		if err != nil {
			return 0, true, err
		}
		superseded += n
	}
	return superseded, true, nil
}

// passed leaves out the changes that the table is ahead of, where others of the same key may be merged with them and they cannot be written in layers. Of the rows that are there it takes
// the locks, so that they stay as they are; of rows that somebody else is about to put there, and in mode Staged until the merge, nobody can say.
func (a *applier) passed(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) (left []changelog.Change, superseded int, err error) {
	now, superseded := current(tg, changes)
	if len(tg.layers(now)) < 2 {
		return changes, 0, nil
	}
	columns := append(append([]int(nil), tg.keys...), tg.version)
	version := len(columns) - 1
	st := tg.statement(columns, fmt.Sprintf("SELECT s.ord, t.%s > %s FROM %s JOIN %s AS t ON %s FOR UPDATE OF t", quote(tg.columns[tg.version].name), tg.typed(version, tg.version),
		numbered(tg.few(columns)), tg.name.SQL(), tg.sameKey(columns)))
	left = make([]changelog.Change, 0, len(now))
	for len(now) > 0 {
		n, err := a.fill(tg, st, now)
		if err != nil {
			return nil, 0, a.told(err)
		}
		r := t.Conn().PgConn().ExecParams(ctx, st.sql, a.params[:len(st.columns)], st.oids, binaryFormat(), nil).Read()
		if r.Err != nil {
			return nil, 0, r.Err
		}
		ahead := make(map[int]bool)
		for _, row := range r.Rows {
			if i, err := strconv.Atoi(string(row[0])); err == nil && string(row[1]) == "t" {
				ahead[i-1] = true
			}
		}
		for i := range now[:n] {
			if !ahead[i] {
				left = append(left, now[i])
			}
		}
		superseded, now = superseded+len(ahead), now[n:]
	}
	return left, superseded, nil
}
