package postgres

import "context"

// readElem reads the type of an array's elements where that is a domain, which may be over any other type: a composite one, or an array too, so that arrays of arrays
// of any lengths have a type. Values are read as the type under the domain, with the modifier of the innermost domain that has one, as those of columns are; mod is
// that of the array.
func readElem(ctx context.Context, q querier, oid uint32, mod int32) (*pgType, error) {
	t := &pgType{mod: mod}
	var kind, extra string
	var elem *uint32
	err := q.QueryRow(ctx, `WITH RECURSIVE base AS (
			SELECT $1::oid AS typ, $2::integer AS mod, false AS refuses
			UNION ALL
			SELECT t.typbasetype, CASE WHEN t.typtypmod >= 0 THEN t.typtypmod ELSE b.mod END, b.refuses OR t.typnotnull
			FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typ WHERE t.typtype = 'd')
		SELECT t.oid, format('%I.%I', n.nspname, own.typname), format_type(own.oid, $2::integer), b.mod, b.refuses, t.typtype::text, t.typrelid, (SELECT e.oid FROM pg_catalog.pg_type e WHERE e.oid = t.typelem AND e.typarray = t.oid),
			coalesce((SELECT x.extname::text FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension x ON d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.refobjid = x.oid
				WHERE d.classid = 'pg_catalog.pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e' AND x.extname = t.typname), '')
		FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typ AND t.typtype <> 'd' JOIN pg_catalog.pg_type own ON own.oid = $1::oid JOIN pg_catalog.pg_namespace n ON n.oid = own.typnamespace`, oid, mod).
		Scan(&t.oid, &t.name, &t.shown, &t.mod, &t.refuses, &kind, &t.relation, &elem, &extra)
	if err != nil {
		return nil, err
	}
	t.kind, t.citext, t.hstore = kind[0], extra == "citext", extra == "hstore"
	if elem != nil {
		if t.elem, err = readElem(ctx, q, *elem, t.mod); err != nil {
			return nil, err
		}
	}
	if t.kind == 'c' {
		t.fields, err = readColumns(ctx, q, t.relation)
	}
	return t, err
}
