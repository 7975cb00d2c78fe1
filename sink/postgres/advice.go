package postgres

import (
	"context"
	"fmt"
	"strings"
)

// This file gives advice on tables that work as they are.

// advise says what would make writing into the targets cheaper, "" when nothing would.
func (s *Sink) advise(ctx context.Context, targets []*target) (string, error) {
	var out []string
	for _, tg := range targets {
		if !updates(tg.table) {
			continue
		}
		var most, rooms int
		err := s.pool.QueryRow(ctx, `SELECT coalesce(max(f), 100), count(*) FROM (
				SELECT coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions) WHERE option_name = 'fillfactor'), 100) AS f
				FROM pg_catalog.pg_class c WHERE c.relkind = 'r' AND (c.oid = to_regclass($1) OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(to_regclass($1))))) AS x`,
			tg.name.SQL()).Scan(&most, &rooms)
		if err != nil {
			return "", err
		}
		if rooms == 0 || most <= fillfactorWarns {
			continue
		}
		each := ""
		if rooms > 1 {
			each = ", of each partition"
		}
		out = append(out, fmt.Sprintf("the fillfactor of %s is %d%s: rows that are updated find no room in their page, so every index is written again: "+
			"ALTER TABLE %[1]s SET (fillfactor = %[4]d) for what is written from then on, or 50 where a checkpoint updates most of a page's rows", tg.name.SQL(), most, each, fillfactor))
	}
	return strings.Join(out, "; "), nil
}

// fillfactorWarns is the highest one that is not remarked on: at 90 a fifth of dense updates is HOT and most of the sparse ones; above it there
// is hardly ever room.
const fillfactorWarns = 90
