package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// This file names the shapes in which changes are written, beyond the plain ones that the source table's key and mode decide.

// SoftDelete says that a row which the changelog deletes stays in the table, and how it is marked. The zero value deletes rows.
//
// A mark leaves all other columns of the row as they are, but for those of Options.Audit and Version. A row that is put there again
// loses it. What is marked stays marked as it is: a second delete changes nothing. A row that is inserted and deleted within one batch is
// there and marked, as it would be if the two had come in two. A delete of a row that is not in the table leaves nothing, since there is
// nothing to mark, and columns that are NOT NULL could not be filled; with Options.Version it leaves a marked row, which has to be there
// to keep older ones away.
//
// A marked row keeps the values of its other columns. Where one of them is unique, make that an index over the rows that live:
// CREATE UNIQUE INDEX ... WHERE NOT deleted.
type SoftDelete struct {
	// Column of the Postgres table that holds the mark; no source column goes there. Readers tell rows that are deleted by it. "": rows
	// are deleted.
	Column string

	// Deleted is what Column holds in a deleted row: "" is true, for a column of type boolean, [Now] is when the transaction began that
	// wrote the mark, for a timestamptz, and anything else is a text, for a column that takes texts or integers.
	Deleted string

	// Live is what Column holds in every other row: false in a boolean, NULL in a timestamptz, else this text, or NULL where it is "".
	Live string

	// From names a column of the source table whose value in the change that deletes the row goes into Column, in place of Deleted: its
	// time, as a METADATA column has it also where the delete knows its key only. NULL in every other row. A delete in which it is NULL is
	// refused (ErrRejected), since it would mark nothing.
	From string
}

// Now stands in [SoftDelete].Deleted for the time at which the transaction began that deletes the row.
const Now = "now()"

// AuditColumns names columns of the Postgres table that tell where each row comes from: the change that wrote it last. "" leaves one out, and the
// zero value all. A soft delete is a change like any other here. No source column goes into one of them, and what is in one is not compared
// by Options.SkipUnchanged, so a row that was not written again names the change that did write it.
type AuditColumns struct {
	Bridge     string // the bridge's name: text
	Generation string // number of the generation: bigint
	Checkpoint string // number of the checkpoint within the generation: bigint
	Topic      string // text
	Partition  string // integer
	Offset     string // of the message: bigint
	Index      string // of the change within its message, from 0: integer
	Time       string // when the transaction began that wrote the row, by the server's clock: timestamptz
}

// auditField is one of AuditColumns with what it holds.
type auditField struct {
	setting string // name of the field
	column  string
	origin  origin
	typ     changelog.Type
}

var (
	typeText    = changelog.Type{Root: changelog.RootVarchar, Length: 1<<31 - 1}
	typeInt     = changelog.Type{Root: changelog.RootInt, NotNull: true}
	typeBigInt  = changelog.Type{Root: changelog.RootBigInt, NotNull: true}
	typeBoolean = changelog.Type{Root: changelog.RootBoolean}
	typeTime    = changelog.Type{Root: changelog.RootTimestampLTZ, Precision: 6}
)

// fields lists the columns that are named.
func (a AuditColumns) fields() []auditField {
	all := []auditField{
		{"Bridge", a.Bridge, fromBridge, typeText}, {"Generation", a.Generation, fromGeneration, typeBigInt}, {"Checkpoint", a.Checkpoint, fromCheckpoint, typeBigInt},
		{"Topic", a.Topic, fromTopic, typeText}, {"Partition", a.Partition, fromPartition, typeInt}, {"Offset", a.Offset, fromOffset, typeBigInt},
		{"Index", a.Index, fromIndex, typeInt}, {"Time", a.Time, fromTime, typeTime},
	}
	return slices.DeleteFunc(all, func(f auditField) bool { return f.column == "" })
}

// position is the four columns that name a change, in the order of their unique index.
func (a AuditColumns) position() []string { return []string{a.Topic, a.Partition, a.Offset, a.Index} }

// ordered fills in the columns that Options.AppendOnce cannot do without.
func (a AuditColumns) ordered() AuditColumns {
	for _, f := range []struct {
		name      *string
		byDefault string
	}{{&a.Topic, "flinksink_topic"}, {&a.Partition, "flinksink_partition"}, {&a.Offset, "flinksink_offset"}, {&a.Index, "flinksink_index"}} {
		if *f.name == "" {
			*f.name = f.byDefault
		}
	}
	return a
}

// checkShape finds settings that contradict one another, whatever the table is.
func (o *Options) checkShape(bad func(error)) {
	sd := o.SoftDelete
	if sd.Column == "" && sd != (SoftDelete{}) {
		bad(errors.New("Options.SoftDelete has no Column: name the column of the Postgres table that marks deleted rows"))
	}
	if sd.From != "" && (sd.Deleted != "" || sd.Live != "") {
		bad(errors.New("Options.SoftDelete has both From and a value: leave Deleted and Live empty, or From"))
	}
	if sd.Live != "" && (sd.Deleted == "" || sd.Deleted == Now) {
		bad(errors.New("Options.SoftDelete.Live stands without a text in Deleted: a boolean is false in a row that lives, and a time is NULL; leave it empty, or give Deleted too"))
	}
	if sd.Live != "" && sd.Live == sd.Deleted {
		bad(errors.New("Options.SoftDelete.Live and Deleted are the same: nobody could tell rows apart by it"))
	}
	if o.IgnoreDeletes && sd.Column != "" {
		bad(errors.New("Options.IgnoreDeletes and Options.SoftDelete contradict each other: the one leaves deleted rows alone, the other marks them; drop one"))
	}
	if len(o.Swap.Group) == 0 && (o.Swap.Run != "" || o.Swap.Last != "") {
		bad(errors.New("Options.Swap has no Group: name the columns whose values name a group"))
	}
	if len(o.Swap.Group) > 0 {
		for _, other := range []struct {
			name string
			set  bool
		}{{"AppendOnce", o.AppendOnce}, {"SoftDelete", sd.Column != ""}, {"SkipUnchanged", o.SkipUnchanged}, {"Version", o.Version != ""}} {
			if other.set {
				bad(fmt.Errorf("Options.Swap replaces rows without looking at them, and Options.%s looks at them: drop one", other.name))
			}
		}
	}
	if o.AppendOnce {
		for _, other := range []struct {
			name string
			set  bool
		}{{"SoftDelete", sd.Column != ""}, {"SkipUnchanged", o.SkipUnchanged}, {"Version", o.Version != ""}} {
			if other.set {
				bad(fmt.Errorf("Options.AppendOnce is for tables without a key, and Options.%s for tables with one: drop one", other.name))
			}
		}
		o.Audit = o.Audit.ordered()
	}
	used := make(map[string]string)
	column := func(setting, name string) {
		if name == "" {
			return
		}
		if err := checkIdent("Options."+setting, name); err != nil {
			bad(err)
		}
		if other, twice := used[name]; twice {
			bad(fmt.Errorf("Options.%s and Options.%s both name column %s: give each its own", other, setting, quote(name)))
		}
		used[name] = setting
	}
	column("SoftDelete.Column", sd.Column)
	for _, f := range o.Audit.fields() {
		column("Audit."+f.setting, f.column)
	}
}

// extra is a column that the sink fills by itself.
type extra struct {
	setting string // "Audit.Offset"
	name    string
	origin  origin
	typ     changelog.Type // that its values have
	create  string         // its type in CREATE TABLE, and what follows it
}

// extras lists the columns of t that no source column goes into.
func (s *Sink) extras(t *changelog.Table) (out []extra) {
	if sd := s.o.SoftDelete; sd.Column != "" {
		e := extra{setting: "SoftDelete.Column", name: sd.Column, origin: fromMark}
		switch {
		case sd.From != "":
			if i := t.Schema.Index(sd.From); i >= 0 {
				e.typ = t.Schema.Columns[i].Type
				e.create, _ = sqlType(&e.typ, rule{truncate: s.o.TruncateNanos})
			}
		case sd.Deleted == "":
			e.typ, e.create = typeBoolean, "boolean NOT NULL DEFAULT false"
		case sd.Deleted == Now:
			e.typ, e.create = typeTime, "timestamp(6) with time zone"
		default:
			e.typ, e.create = typeText, "text"
			if sd.Live != "" {
				e.create += " NOT NULL DEFAULT '" + strings.ReplaceAll(sd.Live, "'", "''") + "'"
			}
		}
		out = append(out, e)
	}
	for _, f := range s.o.Audit.fields() {
		create, _ := sqlType(&f.typ, rule{})
		if s.o.AppendOnce && slices.Contains(s.o.Audit.position(), f.column) {
			create += " NOT NULL"
		}
		out = append(out, extra{"Audit." + f.setting, f.column, f.origin, f.typ, create})
	}
	return out
}
