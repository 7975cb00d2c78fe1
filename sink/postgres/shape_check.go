package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5/pgtype"
)

// This file compares the write shapes with a table, before the first row.

// takesAway reports whether rows of a table without a key are taken away by their content.
func (s *Sink) takesAway(t *changelog.Table) bool { return takesAway(t) && !s.o.IgnoreDeletes }

// removes reports whether a change of t may take a row out of its table.
func (s *Sink) removes(t *changelog.Table) bool {
	return !s.o.IgnoreDeletes && s.o.SoftDelete.Column == "" && (t.Mode.Contains(changelog.Delete) || t.Mode.Contains(changelog.UpdateBefore))
}

// checkTableShape finds shapes that the source table contradicts.
func (s *Sink) checkTableShape(t *changelog.Table, bad func(format string, a ...any)) {
	o := &s.o
	keyed := len(t.Schema.Key) > 0
	if keyed && o.AppendOnce {
		bad("Options.AppendOnce is for tables without a key, and table %q has one, under which a row cannot double: drop it", t.Name)
	}
	if s.takesAway(t) && o.AppendOnce {
		bad("Options.AppendOnce cannot be held to for table %q, whose topic takes rows away by their content (mode %s): after a rewind nobody could tell which of several equal rows is meant: "+
			"declare a PRIMARY KEY, or set Options.IgnoreDeletes", t.Name, t.Mode)
	}
	if !keyed {
		for _, other := range []struct {
			name string
			set  bool
		}{{"SoftDelete", o.SoftDelete.Column != ""}, {"SkipUnchanged", o.SkipUnchanged}, {"Version", o.Version != ""}} {
			if other.set {
				bad("Options.%s finds rows by their key, and table %q has none: declare a PRIMARY KEY, or drop it", other.name, t.Name)
			}
		}
		if o.SoftDelete.Column != "" || o.Version != "" {
			return
		}
	}
	for _, e := range s.extras(t) {
		if i := slices.IndexFunc(t.Schema.Columns, func(c changelog.Column) bool { return s.column(c.Name) == e.name }); i >= 0 {
			bad("Options.%s names column %s, which source column %q goes into: give it another name, or rename the source column in Options.Columns", e.setting, quote(e.name), t.Schema.Columns[i].Name)
		}
	}
	if from := o.SoftDelete.From; from != "" && t.Schema.Index(from) < 0 {
		bad("Options.SoftDelete.From is %q, which is no column of source table %q", from, t.Name)
	}
	if o.Version == "" {
		return
	}
	switch i := t.Schema.Index(o.Version); {
	case i < 0:
		bad("Options.Version is %q, which is no column of source table %q", o.Version, t.Name)
	case s.column(o.Version) == "":
		bad("Options.Columns leaves out %q, which is Options.Version and has to be in the table for the next change to be compared with it", o.Version)
	case slices.Contains(t.Schema.Key, i):
		bad("Options.Version is %q, which is part of the key: every version would be a row of its own", o.Version)
	case !ordersAlike(&t.Schema.Columns[i].Type):
		bad("Options.Version is %q of type %s: the versions have to be integers, DECIMALs, dates or timestamps, which the server orders as Flink does", o.Version, &t.Schema.Columns[i].Type)
	}
	if s.removes(t) {
		// With the row its version would be gone, and an older change of another bridge would put the row back.
		bad("Options.Version cannot guard the deletes of table %q (mode %s): a row that is gone has no version, so an older change would bring it back: set Options.SoftDelete, or Options.IgnoreDeletes", t.Name, t.Mode)
	}
}

// ordersAlike reports whether values of the type can be versions.
func ordersAlike(t *changelog.Type) bool {
	switch t.Root {
	case changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootBigInt, changelog.RootDecimal, changelog.RootDate, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		return true
	}
	return false
}

// compareShape adds the columns that the sink fills by itself to tg, and returns the rights that they need and what is wrong with them. needs are those
// beside the source's columns.
func (s *Sink) compareShape(tg *target, found *pgTable, bad func(format string, a ...any)) (needs []string) {
	o, t := &s.o, tg.table
	keyed := len(t.Schema.Key) > 0
	tg.soft, tg.ignores, tg.skips, tg.once = keyed && o.SoftDelete.Column != "", o.IgnoreDeletes, keyed && o.SkipUnchanged, o.AppendOnce
	tg.mark, tg.version, tg.deletes = -1, -1, found.mayDelete
	if o.Version != "" {
		for i := range tg.columns {
			col := &tg.columns[i]
			if t.Schema.Columns[col.source].Name != o.Version {
				continue
			}
			src := &t.Schema.Columns[col.source].Type
			if col.bind.elem == pgtype.TextOID || o.TruncateNanos && src.Precision > 6 && src.Root != changelog.RootDecimal {
				bad("column %s of type %s cannot hold Options.Version: versions of type %s have to be compared as such, with all of their digits", quote(col.name), col.shown, src)
			}
			col.version, tg.version = true, i
		}
	}
	at := found.name.SQL()
	for _, e := range s.extras(t) {
		col := found.column(e.name)
		if col == nil {
			bad("column %s of Options.%s is missing: run ALTER TABLE %s ADD COLUMN %s %s", quote(e.name), e.setting, at, quote(e.name), e.create)
			continue
		}
		if problem := col.unwritable(); problem != "" {
			bad("column %s of Options.%s %s", quote(e.name), e.setting, strings.TrimSuffix(problem, ": leave its source column out with an empty name in Options.Columns"))
			continue
		}
		add := column{source: -1, origin: e.origin, name: e.name, shown: col.typ.shown, typ: col.typ.name, notNull: col.notNull, width: len(t.Schema.Columns)}
		var err error
		if e.origin == fromMark {
			err = s.fitMark(t, col, &add)
			tg.mark = len(tg.columns)
		} else {
			add.bind, err = fit(&e.typ, &col.typ, rule{})
		}
		if err != nil {
			bad("column %s of Options.%s: %w", quote(e.name), e.setting, err)
			continue
		}
		tg.clock = tg.clock || e.origin == fromTime || add.clock
		needs = append(needs, col.lacks(keyed, false)...)
		tg.columns = append(tg.columns, add)
	}
	s.compareSwap(tg, found, bad)
	if tg.swap != nil {
		if !found.mayDelete {
			needs = append(needs, "DELETE")
		}
		for _, i := range tg.swap.group {
			needs = append(needs, found.column(tg.columns[i].name).lacks(true, true)...)
		}
	}
	if o.AppendOnce {
		if found.rules {
			bad("it has rules, with which the server refuses the ON CONFLICT of Options.AppendOnce: use triggers instead")
		}
		if problem := found.uniqueOver(o.Audit.position(), "the position of a change (Options.AppendOnce)"); problem != "" {
			bad("%s", problem)
		}
		if !slices.ContainsFunc(found.columns, func(c pgColumn) bool { return c.maySelect }) {
			needs = append(needs, "SELECT")
		}
	}
	return needs
}

var errMarkNotNull = errors.New("is NOT NULL, and a row that is not deleted has NULL there: run ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL, or give Options.SoftDelete.Live a text")

// fitMark finds what the column holds in rows that live, and in those that do not.
func (s *Sink) fitMark(t *changelog.Table, to *pgColumn, col *column) (err error) {
	sd := s.o.SoftDelete
	typ := typeText
	switch {
	case sd.From != "":
		i := t.Schema.Index(sd.From)
		col.source, typ = i, t.Schema.Columns[i].Type
	case sd.Deleted == "":
		if to.typ.oid != pgtype.BoolOID {
			return fmt.Errorf("type %s cannot hold true and false: make the column boolean, or say what a deleted row holds in Options.SoftDelete.Deleted (postgres.Now in a timestamptz)", to.typ.shown)
		}
		typ, col.deleted, col.live = typeBoolean, changelog.BoolValue(true), changelog.BoolValue(false)
	case sd.Deleted == Now:
		typ, col.clock = typeTime, true
	default:
		col.deleted = changelog.StringValue(sd.Deleted)
		if sd.Live != "" {
			col.live = changelog.StringValue(sd.Live)
		}
		switch to.typ.oid {
		case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
			typ = typeBigInt
			if to.typ.oid == pgtype.Int4OID {
				typ = typeInt
			} else if to.typ.oid == pgtype.Int2OID {
				typ = changelog.Type{Root: changelog.RootSmallInt}
			}
			if col.deleted, err = integer(sd.Deleted); err != nil {
				return fmt.Errorf("Options.SoftDelete.Deleted: %w", err)
			}
			if sd.Live != "" {
				if col.live, err = integer(sd.Live); err != nil {
					return fmt.Errorf("Options.SoftDelete.Live: %w", err)
				}
			}
		}
		switch to.typ.oid {
		case pgtype.JSONOID, pgtype.JSONBOID, pgtype.XMLOID:
			return fmt.Errorf("type %s cannot hold a mark: make the column boolean, timestamptz, text, an enum or an integer", to.typ.shown)
		}
	}
	if col.notNull && col.live.IsNull() {
		return errMarkNotNull
	}
	if col.bind, err = fit(&typ, &to.typ, rule{truncate: s.o.TruncateNanos}); err != nil {
		return err
	}
	for _, v := range []changelog.Value{col.live, col.deleted} {
		if v.IsNull() {
			continue
		}
		if _, err := col.put(nil, v); err != nil {
			return fmt.Errorf("a value of Options.SoftDelete does not fit type %s: %w", to.typ.shown, err)
		}
	}
	return nil
}

func integer(s string) (changelog.Value, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return changelog.Value{}, errors.New("the column holds integers, and this is none")
	}
	return changelog.IntValue(n), nil
}
