package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// This file looks at a checkpoint's transaction once all of its rows are written: whether what is deferred to its end holds, and whether the tables are what they
// were. Prepare is the place to do it, since whoever is to blame can be told there only, while the batches are alive. But it takes an answer of the server, and
// where nothing is likely to be found, Save can ask with the positions and COMMIT in one message. What it finds then is found in the checkpoint's next try, in Prepare.

// leavesLook reports whether Save is to look at the end of the transaction.
func (c *committer) leavesLook() bool {
	if c.tx == nil || c.s.o.Mode != InTransaction || c.careful || len(c.late) > 0 || c.s.o.InCheckpoint != nil {
		return false
	}
	for _, tg := range known(c.targets) {
		if tg.shape == (shape{}) { // Prepare learns it
			return false
		}
	}
	return true
}

// beCareful makes out whether anything can be deferred: constraints that may be, and what user triggers do. Once a look of Save found something, Prepare looks, as
// long as there is this committer.
func (c *committer) beCareful(ctx context.Context) error {
	if c.careful || c.s.o.Mode != InTransaction {
		return nil
	}
	err := c.s.pool.QueryRow(ctx, `WITH RECURSIVE part (oid) AS (
			SELECT to_regclass(name)::oid FROM unnest($1::text[]) AS name UNION SELECT i.inhrelid FROM part JOIN pg_catalog.pg_inherits i ON i.inhparent = part.oid)
		SELECT EXISTS (SELECT FROM part JOIN pg_catalog.pg_trigger g ON g.tgrelid = part.oid WHERE g.tgdeferrable OR NOT g.tgisinternal)`, c.names()).Scan(&c.careful)
	if state(err) != "" {
		c.careful, err = true, nil // another product, whose catalogue has not all of it
	}
	return err
}

// names are those of the lane's tables, as SQL.
func (c *committer) names() []string {
	names := make([]string, len(c.targets))
	for i, tg := range c.targets {
		names[i] = tg.name.SQL()
	}
	return names
}

// planOnce has the statements after it planned once for a connection: to plan the look at the tables and the fence anew for each checkpoint takes the server longer than
// to run them. Statements over rows come before it, since they want a plan for the number of rows that they have.
const planOnce = "SELECT set_config('plan_cache_mode', 'force_generic_plan', true) WHERE current_setting('plan_cache_mode', true) IS NOT NULL"

// look adds to b, which holds planOnce, what tells whether the transaction may end.
func (c *committer) look(b *pgx.Batch) {
	b.Queue("SET CONSTRAINTS ALL IMMEDIATE")
	lookAt(b, shapedTables(known(c.targets)))
}

// lookAt adds to b what fails with refusedState where a table is another one than it was.
func lookAt(b *pgx.Batch, tables []shapedTable) {
	if len(tables) == 0 {
		return
	}
	rows, rules := make([]string, len(tables)), make([]string, len(tables))
	for i, t := range tables {
		rows[i], rules[i] = t.Rows, t.Rules
	}
	b.Queue("SELECT "+unless("bool_and(found.rows = was.rows AND found.rules = was.rules)")+" FROM ("+shapeSQL+") AS found (n, rows, rules) JOIN unnest($4::text[], $5::text[]) WITH ORDINALITY AS was (rows, rules, n) USING (n)",
		append(shapesQuery(tables), rows, rules)...)
}

// looked tells what the look of Save found. The transaction is over: nothing of it is committed, unless err says that nobody knows.
func (c *committer) looked(ctx context.Context, failed int, err error) error {
	if errors.Is(err, sink.ErrUncertain) {
		return err
	}
	const constraints = 1
	if failed > constraints && state(err) == refusedState {
		if altered := c.alteredSince(ctx); altered != nil {
			return lift(altered)
		}
		return &sink.Error{Class: sink.ErrTransient, Err: errAltered}
	}
	err = c.why(ctx, err)
	c.careful = c.careful || failed == constraints && !victim(err)
	if failed != constraints || classify(err) != sink.ErrRejected {
		return lift(err)
	}
	return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf("a constraint that is checked at the end of a transaction is broken, by rows that its next try will name: %w", tell(err))}
}
