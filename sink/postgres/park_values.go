package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// This file says to which values a unique column is moved: see parking.

// way returns what column i, whose values are parameter n+1, is moved to; "" where it has to stay.
func (p *parking) way(tg *target, n, i int, ix distinct) string {
	col := &tg.columns[i]
	if col.origin != fromRow || col.version || slices.Contains(p.referenced, col.name) || !slices.Contains(ix.Keyed, col.name) {
		return ""
	}
	at := slices.IndexFunc(p.columns, func(c pgColumn) bool { return c.name == col.name })
	switch {
	case at < 0:
		return ""
	case !p.columns[at].notNull && !ix.Nulls:
		return "NULL"
	}
	to := unused(tg, n, col, &p.columns[at].typ)
	if to == "" {
		return ""
	}
	return "(" + to + ")::" + col.typ
}

// insteadOfNull is what the column at a place of columns, which may be NULL, is moved to under Options.SkipUnchanged. A row that is to become NULL and changes in nothing else would
// be after the move what it becomes, so the statement that writes it, and with it which change that was, would pass it over. Such a row gets a value that no row has, if the
// type has one: if not, it stays as it was moved, which parking.left takes for a row that was not written, and all of it is refused.
func (p *parking) insteadOfNull(tg *target, columns []int, place int, moved func(n int) bool) string {
	col := &tg.columns[columns[place]]
	at := slices.IndexFunc(p.columns, func(c pgColumn) bool { return c.name == col.name })
	if at < 0 {
		return "NULL"
	}
	to := unused(tg, place, col, &p.columns[at].typ)
	if to == "" {
		return "NULL"
	}
	same := []string{tg.typed(place, columns[place]) + " IS NULL"}
	for n, i := range columns {
		if c := &tg.columns[i]; !c.key && !moved(n) && (c.origin == fromRow || c.origin == fromMark) {
			same = append(same, fmt.Sprintf("NOT ROW(t.%s)::record *<> ROW(%s)::record", quote(c.name), tg.typed(n, i)))
		}
	}
	return fmt.Sprintf("CASE WHEN %s THEN (%s)::%s END", strings.Join(same, " AND "), to, col.typ)
}

// unused returns a value that no row has: of what can be counted, one beyond all rows of the table and of the statement, as far beyond as chance has it, since other
// statements of the checkpoint have rows too; of texts and bytes, a random UUID; of ranges, the empty one. Nothing depends on its being unused but that the server takes it: if a row has it
// after all, or a check wants another one, the move is refused and undone. "": the type has too few values, or none that is beyond others.
func unused(tg *target, n int, col *column, typ *pgType) string {
	random := "replace(gen_random_uuid()::text, '-', '')" // 32 letters
	beyond := func(random, step string) string {
		return fmt.Sprintf("(SELECT greatest((SELECT max(x.%s) FROM %s AS x), (SELECT max(y.c%s) FROM unnest($%d) AS y(c))) + %s) + %s", quote(col.name), tg.name.SQL(), col.bind.cast, n+1, random, step)
	}
	number := func(limit string) string {
		most := "(" + limit + " - cardinality($1))::numeric"
		return fmt.Sprintf("(SELECT b + trunc(random()::numeric * greatest(%s - b, 0)) FROM (SELECT trunc(greatest((SELECT max(x.%s) FROM %s AS x), (SELECT max(y.c%s) FROM unnest($%d) AS y(c)))::numeric) AS b) AS m) + s.ord",
			most, quote(col.name), tg.name.SQL(), col.bind.cast, n+1)
	}
	switch typ.oid {
	case pgtype.UUIDOID:
		return "gen_random_uuid()"
	case pgtype.ByteaOID:
		return "uuid_send(gen_random_uuid())"
	case pgtype.TextOID:
		return random
	case pgtype.VarcharOID, pgtype.BPCharOID:
		const enough = 16 // letters, by which two hardly ever meet
		switch length := int(typ.mod) - 4; {
		case typ.mod < 0 && typ.oid == pgtype.VarcharOID:
			return random
		case length >= enough:
			return fmt.Sprintf("left(%s, %d)", random, length)
		}
		return ""
	case pgtype.Int2OID:
		return number("32767")
	case pgtype.Int4OID:
		return number("2147483647")
	case pgtype.Int8OID:
		return number("9223372036854775807")
	case pgtype.NumericOID:
		if typ.mod < 4 {
			return number("b + 1e15")
		}
		precision, scale := (typ.mod-4)>>16&0xffff, (typ.mod-4)&0x7ff
		if scale > precision {
			return ""
		}
		return number(fmt.Sprintf("1e%d - 1", precision-scale))
	case pgtype.DateOID:
		return beyond("trunc(random() * 100000)::integer", "s.ord::integer")
	case pgtype.TimestampOID, pgtype.TimestamptzOID:
		return beyond("trunc(random() * 1e9) * interval '1 second'", "s.ord * interval '1 second'")
	}
	switch {
	case typ.citext:
		return random
	case typ.kind == 'r': // no range overlaps it, as exclusion constraints mostly ask
		return "'empty'"
	}
	return ""
}
