package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Swap replaces the rows of a group as a whole, in one transaction: a day, a customer, a window that is written anew each time. No reader sees
// a part of the new rows, or new ones beside old ones. The zero value is off.
//
// What makes a group whole? Not the end of a checkpoint, which falls anywhere: a group that is cut in two would lose its first half to its second.
// Nor does a changelog say so. So the source has to: the rows of one writing of a group, a run, come one after the other in one partition, and a run
// ends with the first row of another group or of another Run, or with its Last row. Until then its rows wait in a table of the sink's own, in the
// transactions of their checkpoints, whatever becomes of the process; the end of the run moves them into the target, in the transaction that
// takes all other rows of the group away. Where the cuts fall makes no difference to what readers see. In mode Staged both is of the transactions of their merges. A column that
// Options.Evolve adds is added to the waiting table too, where rows that wait have NULL in it.
//
// So without Last the newest run of each partition waits for the next one. All rows of a group have to be in one partition: the topic has one
// partition, or its records are keyed by the columns of Group alone. A position that is set by hand has to be the beginning of a run. A row that
// is set aside (a dead letter) is not in its group. Deletes mean nothing here, since what is not in a run goes with it: a table that may have
// some needs Options.IgnoreDeletes. With a key, the last row of a key in a run counts.
//
// The rows are checked for themselves when they come, and for what only the whole group can break (a unique index, a foreign key) at its end, where no
// single change is to blame: that is an ErrConfig, which ends the lane.
type Swap struct {
	Group []string // columns of the source table that name a group
	Run   string   // a column of the source that has another value in each run of a group; "": two runs of one group have another group between them
	Last  string   // a BOOLEAN column of the source that is true in the last row of a run; "": only the next run tells that one has ended
}

// swap is where the rows of a group wait until it is whole.
type swap struct {
	into    qualified
	written int   // how many of the target's columns are its own; those after it are of the waiting table
	group   []int // of the target's columns
	keys    []int // of the target's columns
	run     []int // columns of the schema that tell runs apart
	last    int   // column of the schema, -1: none
	spread  bool  // records are keyed by more than the group, so they are in several partitions where there are several

	schema *changelog.Schema
	open   map[changelog.Partition]string // the run that waits, "" where none does
	of     *transaction                   // that open is of
}

// The waiting table has the target's columns, and these: which change of which bridge it was, which are its key, and of which run.
const (
	waitBridge    = "flinksink_swap_bridge"
	waitTopic     = "flinksink_swap_topic"
	waitPartition = "flinksink_swap_partition"
	waitOffset    = "flinksink_swap_offset"
	waitIndex     = "flinksink_swap_index"
	waitRun       = "flinksink_swap_run"
)

// waiting names the table for a target, in the schema of the sink's own.
func (s *Sink) waiting(target qualified) qualified {
	sum := sha256.Sum256([]byte(target.schema + "\x00" + target.table))
	return qualified{schema: s.o.Schema, table: "swap_" + hex.EncodeToString(sum[:12])}
}

// compareSwap adds the columns of the waiting table to tg, and says what is wrong.
func (s *Sink) compareSwap(tg *target, found *pgTable, bad func(format string, a ...any)) {
	o, t := s.o.Swap, tg.table
	if len(o.Group) == 0 {
		return
	}
	sw := &swap{into: s.waiting(found.name), written: len(tg.columns), last: -1, schema: t.Schema}
	if t.Mode.Contains(changelog.Delete) && !s.o.IgnoreDeletes || t.Mode.Contains(changelog.UpdateBefore) && !s.o.IgnoreDeletes {
		bad("Options.Swap replaces groups as a whole, and the topic can hold deletes (mode %s), which mean nothing there: set Options.IgnoreDeletes, or drop Swap, since such a changelog takes its rows away by itself", t.Mode)
	}
	index := func(setting, name string) int {
		i := t.Schema.Index(name)
		if i < 0 {
			bad("Options.Swap.%s names %q, which is no column of source table %q", setting, name, t.Name)
		}
		return i
	}
	for _, name := range o.Group {
		i := index("Group", name)
		if i < 0 {
			continue
		}
		n := slices.IndexFunc(tg.columns, func(c column) bool { return c.origin == fromRow && c.source == i })
		if n < 0 {
			bad("Options.Swap.Group names %q, which does not go into the table: the rows of the group could not be found", name)
			continue
		}
		if problem := found.column(tg.columns[n].name).unequal(); problem != "" {
			bad("column %s of Options.Swap.Group %s", quote(tg.columns[n].name), problem)
		}
		sw.group, sw.run = append(sw.group, n), append(sw.run, i)
	}
	sw.spread = slices.ContainsFunc(t.Schema.Key, func(k int) bool { return !slices.Contains(sw.run, k) })
	if o.Run != "" {
		sw.run = append(sw.run, index("Run", o.Run))
	}
	if o.Last != "" {
		if sw.last = index("Last", o.Last); sw.last >= 0 && t.Schema.Columns[sw.last].Type.Root != changelog.RootBoolean {
			bad("Options.Swap.Last names %q of type %s: it has to be a BOOLEAN", o.Last, &t.Schema.Columns[sw.last].Type)
		}
	}
	bytes := changelog.Type{Root: changelog.RootVarbinary, Length: changelog.MaxLength}
	for _, c := range []struct {
		name   string
		origin origin
		typ    changelog.Type
		to     pgType
	}{
		{waitBridge, fromBridge, typeText, pgType{oid: pgtype.TextOID, shown: "text"}}, {waitTopic, fromTopic, typeText, pgType{oid: pgtype.TextOID, shown: "text"}},
		{waitPartition, fromPartition, typeInt, pgType{oid: pgtype.Int4OID, shown: "integer"}}, {waitOffset, fromOffset, typeBigInt, pgType{oid: pgtype.Int8OID, shown: "bigint"}},
		{waitIndex, fromIndex, typeInt, pgType{oid: pgtype.Int4OID, shown: "integer"}}, {waitRun, fromRun, bytes, pgType{oid: pgtype.ByteaOID, shown: "bytea"}},
	} {
		bind, err := fit(&c.typ, &c.to, rule{})
		if err != nil {
			bad("column %s: %w", c.name, err)
		}
		tg.columns = append(tg.columns, column{source: -1, origin: c.origin, name: c.name, notNull: true, shown: c.to.shown, typ: "pg_catalog." + c.to.shown, bind: bind, swap: sw})
	}
	tg.swap = sw
}

// prepareSwap makes rows go into the waiting table.
func (tg *target) prepareSwap(all []int) {
	tg.swap.keys, tg.keys = tg.keys, nil
	tg.insert = tg.statement(all, tg.insertSQL(all, tg.unnest(all, ""))+fmt.Sprintf(" ON CONFLICT (%s) DO NOTHING", strings.Join([]string{waitBridge, waitTopic, waitPartition, waitOffset, waitIndex}, ", ")))
	tg.insert.copy = tg.copySQL(false)
	tg.remove = statement{ignores: true}
}

// ensureSwap makes the waiting table, and makes it anew where the target's columns are others by now and no row waits.
func (s *Sink) ensureSwap(ctx context.Context, tg *target) error {
	if tg.swap == nil {
		return nil
	}
	into := tg.swap.into.SQL()
	t, err := s.beginStore(ctx, fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lockKey("swap", into)))
	if err != nil {
		return err
	}
	made, err := tg.makeWaiting(ctx, t, into)
	if err == nil && made {
		return t.commit(ctx)
	}
	t.rollback(ctx)
	if state(err) == "42501" {
		return s.denied(err, tg.waitingDDL(into)+";\n"+s.store.grants(s.role()))
	}
	return err
}

func (tg *target) waitingDDL(into string) string {
	return fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED INCLUDING IDENTITY,\n  %s text, %s text, %s integer, %s bigint, %s integer, %s bytea NOT NULL,\n  PRIMARY KEY (%[3]s, %[4]s, %[5]s, %[6]s, %[7]s))",
		into, tg.name.SQL(), waitBridge, waitTopic, waitPartition, waitOffset, waitIndex, waitRun)
}

func (tg *target) makeWaiting(ctx context.Context, t *transaction, into string) (made bool, err error) {
	var exists, same bool
	err = t.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL, NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = to_regclass($2) AND a.attnum > 0 AND NOT a.attisdropped
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute b WHERE b.attrelid = to_regclass($1) AND NOT b.attisdropped AND b.attname = a.attname AND b.atttypid = a.atttypid
			AND b.atttypmod = a.atttypmod AND b.attnotnull = a.attnotnull))`, into, tg.name.SQL()).Scan(&exists, &same)
	if err != nil || exists && same {
		return false, err
	}
	if exists {
		var waits bool
		if err := t.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+into+")").Scan(&waits); err != nil {
			return false, err
		}
		if waits {
			return false, configf("rows of groups that are not whole yet wait in table %s, and table %s has other columns by now: alter the waiting table in the same way, or empty it and set the position back to the beginning of a group",
				into, tg.name.SQL())
		}
		if _, err := t.Exec(ctx, "DROP TABLE "+into); err != nil {
			return false, err
		}
	}
	_, err = t.Exec(ctx, tg.waitingDDL(into))
	return true, err
}

// swapping writes changes of a table whose groups are replaced as a whole.
func (a *applier) swapping(ctx context.Context, t *transaction, tg *target, changes []changelog.Change) (superseded int, err error) {
	sw := tg.swap
	defer func() {
		if err != nil {
			sw.of = nil // the caller may go back to a savepoint
		}
	}()
	if sw.of != t {
		sw.open, sw.of = make(map[changelog.Partition]string), t
	}
	a.void = 0
	begin := 0
	flush := func(to int) error {
		w := work{tg.insert, adding(changes[begin:to])}
		a.void += to - begin - len(w.changes)
		begin = to
		done, err := a.copyNew(ctx, t, tg, w)
		if err == nil && !done {
			err = a.run(ctx, t, tg, w.st, w.changes)
		}
		if errors.Is(err, errUnfit) {
			return rejected(a.unfit(tg, changes))
		}
		return err
	}
	var run []byte
	for i := range changes {
		c := &changes[i]
		if !c.Kind.Adds() {
			continue
		}
		if sw.spread && c.Partition.Partition > 0 {
			return 0, configf("Options.Swap: the topic has several partitions, and its records are keyed by more than the columns of Swap.Group, so the rows of a group are in several partitions, "+
				"which have no order between them (%s@%d): write the topic with one partition, or keyed by the group", c.Partition, c.Offset)
		}
		was, known := sw.open[c.Partition]
		if !known {
			if was, err = a.waits(ctx, t, tg, c); err != nil {
				return 0, err
			}
		}
		run = changelog.AppendKeyColumns(run[:0], sw.schema, sw.run, c.Row)
		if was != "" && was != string(run) {
			if err = flush(i); err == nil {
				err = a.swapIn(ctx, t, tg, c.Partition)
			}
			if err != nil {
				return 0, err
			}
		}
		for p, other := range sw.open {
			if other == string(run) && p != c.Partition {
				return 0, configf("Options.Swap: rows of one group come from two partitions, %s and %s, which have no order between them: write the topic with one partition, or keyed by the columns of Swap.Group", p, c.Partition)
			}
		}
		sw.open[c.Partition] = string(run)
		if sw.last >= 0 && c.Row[sw.last].Kind() == changelog.KindBool && c.Row[sw.last].Bool() {
			if err = flush(i + 1); err == nil {
				err = a.swapIn(ctx, t, tg, c.Partition)
			}
			if err != nil {
				return 0, err
			}
			sw.open[c.Partition] = ""
		}
	}
	err = flush(len(changes))
	return a.void, err
}

// waits returns the run of a partition that waits in the table. What waits there from c on was read before the position was set back, and is
// about to be read again.
func (a *applier) waits(ctx context.Context, t *transaction, tg *target, c *changelog.Change) (run string, err error) {
	into := tg.swap.into.SQL()
	where := fmt.Sprintf(" FROM %s WHERE %s = $1 AND %s = $2 AND %s = $3", into, waitBridge, waitTopic, waitPartition)
	if err := a.merged(ctx, t); err != nil {
		return "", err
	}
	if err := a.carryOut(ctx, t, tg, "DELETE"+where+" AND "+waitOffset+" >= $4", c.Partition, c.Offset); err != nil {
		return "", err
	}
	var b []byte
	err = t.QueryRow(ctx, "SELECT "+waitRun+where+fmt.Sprintf(" AND %s < $4 ORDER BY %[1]s DESC, %s DESC LIMIT 1", waitOffset, waitIndex), a.stamp.bridge, c.Topic, c.Partition.Partition, c.Offset).Scan(&b)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return string(b), err
}

// swapIn puts what waits of a partition, which is one run, in place of the rows of its group.
func (a *applier) swapIn(ctx context.Context, t *transaction, tg *target, p changelog.Partition) error {
	sw := tg.swap
	into := sw.into.SQL()
	where := fmt.Sprintf(" WHERE w.%s = $1 AND w.%s = $2 AND w.%s = $3", waitBridge, waitTopic, waitPartition)
	var group, same, columns, keys, set []string
	for _, i := range sw.group {
		col := &tg.columns[i]
		name := quote(col.name)
		group = append(group, name)
		equal := "t.%s IS NOT DISTINCT FROM g.%[1]s"
		if col.notNull {
			equal = "t.%s = g.%[1]s" // which an index helps
		}
		same = append(same, fmt.Sprintf(equal, name))
	}
	for i := range tg.columns[:sw.written] {
		name := quote(tg.columns[i].name)
		columns = append(columns, name)
		if slices.Contains(sw.keys, i) {
			keys = append(keys, name)
		} else {
			set = append(set, name+" = EXCLUDED."+name)
		}
	}
	list := strings.Join(columns, ", ")
	put := fmt.Sprintf("INSERT INTO %[1]s (%[2]s) SELECT %[2]s FROM %[3]s AS w%[4]s ORDER BY %[5]s, %[6]s", tg.name.SQL(), list, into, where, waitOffset, waitIndex)
	if len(keys) > 0 {
		key := strings.Join(keys, ", ")
		put = fmt.Sprintf("INSERT INTO %[1]s (%[2]s) SELECT DISTINCT ON (%[3]s) %[2]s FROM %[4]s AS w%[5]s ORDER BY %[3]s, %[6]s DESC, %[7]s DESC ON CONFLICT (%[3]s) DO ",
			tg.name.SQL(), list, key, into, where, waitOffset, waitIndex)
		if len(set) > 0 { // the row was in another group
			put += "UPDATE SET " + strings.Join(set, ", ")
		} else {
			put += "NOTHING"
		}
	}
	for _, sql := range []string{
		fmt.Sprintf("DELETE FROM %s AS t USING (SELECT %s FROM %s AS w%s LIMIT 1) AS g WHERE %s", tg.name.SQL(), strings.Join(group, ", "), into, where, strings.Join(same, " AND ")),
		put,
		"DELETE FROM " + into + " AS w" + where,
	} {
		if err := a.carryOut(ctx, t, tg, sql, p); err != nil {
			if classify(err) == sink.ErrRejected {
				return configf("Options.Swap: the rows of a group were accepted one by one, and are refused together by what the table demands (%w): correct the rows or the table", tell(err))
			}
			return err
		}
	}
	return nil
}
