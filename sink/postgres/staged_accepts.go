package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"
)

// accepts reports whether there is nothing about a statement that the server could refuse, so that it need not be tried out. It is careful: what it
// does not know it takes for something.
func (s *stage) accepts(ctx context.Context, tg *target, st statement) (bool, error) {
	if tg.swap != nil || st.takes || st.missing != "" || st.counts || st.then != "" || st.ignores {
		return false, nil // rows that are looked at as they come, or a refusal, or a count, that depends on the rows that are there
	}
	if st.sql != tg.upsert.sql && st.sql != tg.insert.sql && st.sql != tg.remove.sql {
		return false, nil
	}
	plain, known := s.plain[tg]
	if !known {
		var err error
		if plain, err = tg.isPlain(ctx, s.t); err != nil {
			return false, err
		}
		s.plain[tg] = plain
	}
	return plain, nil
}

// exactTypes are those whose values are checked before they are sent: the server accepts all that column.put does.
var exactTypes = [...]uint32{pgtype.BoolOID, pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID,
	pgtype.TextOID, pgtype.ByteaOID, pgtype.DateOID, pgtype.TimeOID, pgtype.TimestampOID, pgtype.TimestamptzOID, pgtype.UUIDOID}

// isPlain reports whether the table takes every row whose values fit its columns: it has no columns beside those that are written, all of
// exact types; no constraint but NOT NULL and the key; no trigger, rule or policy, no partitions and no children; and its indexes are over
// columns of fixed width, as an entry that is too wide is refused.
func (tg *target) isPlain(ctx context.Context, t *transaction) (plain bool, err error) {
	exact := make(map[uint32]bool, len(exactTypes))
	var oids []uint32
	for _, oid := range exactTypes {
		exact[oid] = true
		oids = append(oids, oid)
	}
	names := make([]string, len(tg.columns))
	for i := range tg.columns {
		col := &tg.columns[i]
		names[i] = col.name
		if col.bind.cast != "" || !exact[col.bind.elem] {
			return false, nil
		}
	}
	err = t.QueryRow(ctx, `SELECT coalesce((SELECT c.relkind = 'r' AND c.relpersistence = 'p' AND NOT c.relispartition AND NOT c.relhassubclass AND NOT c.relhasrules AND NOT c.relrowsecurity
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid)
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE (k.conrelid = c.oid OR k.confrelid = c.oid) AND k.contype NOT IN ('p', 'u', 'n'))
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			AND (a.attname <> ALL ($2::text[]) OR a.atttypid <> ALL ($3::oid[]) OR a.attgenerated <> ''))
		AND (SELECT count(*) FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid AND x.indisunique) = $4
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid AND (x.indexprs IS NOT NULL OR x.indpred IS NOT NULL OR x.indisexclusion
			OR EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = x.indexrelid AND a.attlen < 0)))
		FROM pg_catalog.pg_class c WHERE c.oid = to_regclass($1)), false)`, tg.name.SQL(), names, oids, min(len(tg.keys), 1)).Scan(&plain)
	return plain, err
}
