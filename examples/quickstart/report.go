package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// account is what became of a table, row by row.
type account struct {
	expected, found            int
	lost, doubled, resurrected int
}

// right reports whether every row is there, once, and nothing else.
func (a account) right() bool { return a.lost == 0 && a.doubled == 0 && a.resurrected == 0 }

// compare counts rows. lost: expected, and not there so often. doubled: expected, and there more often. resurrected: there, and not
// expected at all, as are a row that was deleted, an old version of a row, or a row of a transaction that was rolled back.
func compare(expected, found map[row]int) (a account) {
	for r, want := range expected {
		a.expected += want
		a.lost += max(0, want-found[r])
		a.doubled += max(0, found[r]-want)
	}
	for r, n := range found {
		a.found += n
		if expected[r] == 0 {
			a.resurrected += n
		}
	}
	return a
}

// read is the table's rows as text.
func read(ctx context.Context, pool *pgxpool.Pool, schema string, t topic) (map[row]int, error) {
	columns := make([]string, len(t.columns))
	for i, c := range t.columns {
		columns[i] = "coalesce(" + pgx.Identifier{c}.Sanitize() + "::text, 'NULL')"
	}
	found := map[row]int{}
	rows, err := pool.Query(ctx, "SELECT ARRAY["+strings.Join(columns, ", ")+"] FROM "+pgx.Identifier{schema, t.table}.Sanitize())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var values []string
		if err := rows.Scan(&values); err != nil {
			return nil, err
		}
		found[makeRow(values)]++
	}
	return found, rows.Err()
}

// result is a line of the closing table.
type result struct {
	program, table string
	account
}

func printTable(w io.Writer, results []result) {
	fmt.Fprintf(w, "  %-16s %-8s %9s %9s %9s %9s %12s\n", "", "table", "expected", "found", "lost", "doubled", "resurrected")
	last := ""
	for _, r := range results {
		name := r.program
		if name == last {
			name = ""
		}
		last = r.program
		fmt.Fprintf(w, "  %-16s %-8s %9d %9d %9d %9d %12d\n", name, r.table, r.expected, r.found, r.lost, r.doubled, r.resurrected)
	}
}

// explain says in words what the table says in numbers.
func explain(say func(string, ...any), results []result, aborted int) {
	say("\n  lost         expected and not there")
	say("  doubled      there more than once")
	say("  resurrected  deleted, outdated or rolled back, and there\n")
	for _, r := range results {
		if r.program == "flinksink" || r.right() {
			continue
		}
		say("  What went wrong with %s in the usual lines:", r.table)
		wrong := r.lost + r.doubled + r.resurrected
		if r.table == progressTopic().table && wrong >= aborted {
			say("  %6d rows are of transactions that Flink aborted and wrote again.", aborted)
			say("         A Kafka client reads those too unless it is told not to.")
			wrong -= aborted
		}
		if wrong > 0 {
			say("  %6d rows were in Postgres, and their offsets not yet in Kafka, when the process", wrong)
			say("         was killed. The next one wrote them again.")
		}
	}
	say("\n  With a key, ON CONFLICT hides such replays in the end; while a restarted process")
	say("  catches up, its readers may see rows go back in time.")
	say("  The bridge keeps its positions in the transaction that holds the rows: there is no")
	say("  moment between the two, and nothing to write again.")
}
