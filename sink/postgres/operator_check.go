package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// Finding is one thing that [Sink.Check] looked at.
type Finding struct {
	What  string // "server", "store", "table", "bridge"
	Found string // what is so, in a few words
	Err   error  // why a bridge would not start, with the cure; nil when nothing stops it
}

// Check looks at all that [Sink.Lane] and Acquire look at before the first row, and makes, locks and changes nothing. fingerprint is
// that of the bridge, as in [sink.AcquireRequest]; "" leaves it out. Findings come in an order in which each builds on those before it:
// the first that could not be looked at is the last.
func (s *Sink) Check(ctx context.Context, l sink.Lane, fingerprint string) []Finding {
	var out []Finding
	add := func(what, found string, err error) bool {
		if err != nil {
			c := committer{s: s, lane: l}
			err = c.fail("check", undone(err), err)
		}
		out = append(out, Finding{what, found, err})
		return err == nil
	}
	on, version, err := s.on(ctx, l)
	found := fmt.Sprintf("Postgres %d.%d", version/10000, version%10000)
	if err == nil && s.o.Mode == Auto {
		found += ", for mode " + on.chosen.last()
	}
	if !add("server", found, err) {
		return out
	}
	s = on
	if s.o.Mode == Prepared {
		if err := s.mayPrepare(ctx, l.Number+1); err != nil && !add("server", "", err) {
			return out
		}
	}
	made, found, err := s.checkStore(ctx)
	storeFine := add("store", found, err)
	targets, found, err := s.checkTargets(ctx, l.Tables)
	if add("table", found, err) && storeFine {
		found, err = s.checkBridge(ctx, made, l.Bridge, fingerprint, targets)
		add("bridge", found, err)
	}
	return out
}

// checkStore looks at the sink's own tables, or whether they could be made.
func (s *Sink) checkStore(ctx context.Context) (made bool, found string, err error) {
	schema := quote(s.o.Schema)
	if made, err = s.storeVersion(ctx, s.pool); err != nil {
		return false, "", err
	}
	if made {
		tables := []string{s.store.bridge, s.store.generation, s.store.position, s.store.committable}
		if s.o.Mode != InTransaction {
			there, err := s.checkReceipts(ctx)
			if err != nil {
				return true, "", err
			}
			tables = append(tables, there...)
		}
		var lacks []string
		rows, err := s.pool.Query(ctx, `SELECT t || ' ' || p FROM unnest($1::text[]) t, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p
			WHERE to_regclass(t) IS NULL OR NOT has_table_privilege(t, p)`, tables)
		if err == nil {
			lacks, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err == nil && len(lacks) > 0 {
			err = s.denied(fmt.Errorf("missing: %s", strings.Join(lacks, ", ")), s.store.grants(s.role()))
		}
		if err != nil {
			return true, "", err
		}
		letters, denied, err := s.checkLetters(ctx)
		if denied != nil { // no reason not to start: only a bridge that sets messages aside needs it
			letters = "dead letters cannot be kept: " + denied.Error()
		}
		return true, fmt.Sprintf("schema %s, format version %d; %s", schema, Format, letters), err
	}
	var exists, mayMake bool
	var foreign *string
	err = s.pool.QueryRow(ctx, `SELECT n.oid IS NOT NULL,
		CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE') ELSE has_schema_privilege(n.oid, 'CREATE') END,
		(SELECT min(c.relname) FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relname IN ('bridge', 'generation', 'position', 'committable', 'audit', 'dead_letter'))
		FROM (SELECT) one LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1`, s.o.Schema).Scan(&exists, &mayMake, &foreign)
	switch {
	case err != nil:
		return false, "", err
	case foreign != nil:
		return false, "", s.foreign(fmt.Errorf("there is %s and no table format", quote(*foreign)))
	case !mayMake:
		return false, "", s.denied(errors.New("the right to create is missing"), s.store.script(s.role(), exists))
	}
	return false, fmt.Sprintf("schema %s has no tables of flinksink yet: the bridge makes them at its first start", schema), nil
}

// checkReceipts names the tables of the modes that leave receipts where they are there, or says that they could not be made.
func (s *Sink) checkReceipts(ctx context.Context) (there []string, err error) {
	exists, err := s.hasTable(ctx, s.pool, "staging")
	if err != nil || exists {
		return []string{s.store.fence, s.store.staging}, err
	}
	var mayMake bool
	if err := s.pool.QueryRow(ctx, "SELECT has_schema_privilege($1, 'CREATE')", s.o.Schema).Scan(&mayMake); err != nil {
		return nil, err
	}
	if !mayMake {
		return nil, s.denied(errors.New("the right to create is missing"), s.receiptsDDL()+";\n"+s.store.grants(s.role()))
	}
	return nil, nil
}

// CheckDeadLetters reports why a bridge that sets messages aside could not keep them, with the cure, and changes nothing. What Check finds
// beside it is not looked at again.
func (s *Sink) CheckDeadLetters(ctx context.Context) error {
	made, err := s.storeVersion(ctx, s.pool)
	if err != nil || !made {
		return err // the first start makes all tables, or says why it may not
	}
	_, denied, err := s.checkLetters(ctx)
	return errors.Join(denied, err)
}

// checkLetters says whether dead letters could be kept.
func (s *Sink) checkLetters(ctx context.Context) (found string, denied, err error) {
	var exists, mayWrite, mayMake bool
	err = s.pool.QueryRow(ctx, `SELECT t IS NOT NULL, coalesce(has_table_privilege(t, 'INSERT'), false), has_schema_privilege($2, 'CREATE') FROM to_regclass($1) t`,
		s.store.letter, s.o.Schema).Scan(&exists, &mayWrite, &mayMake)
	switch {
	case err != nil:
		return "", nil, err
	case exists && mayWrite:
		return "dead letters can be kept", nil, nil
	case exists:
		return "", s.mayNotWriteLetters(), nil
	case mayMake:
		return "the next start makes the table of dead letters", nil, nil
	}
	return "", configf("role %s may not make the table of dead letters: let an administrator run\n%s", quote(s.role()), s.letterScript()), nil
}

// checkTargets looks at the target tables. targets is nil where one is still to be made.
func (s *Sink) checkTargets(ctx context.Context, tables []*changelog.Table) (targets []*target, found string, err error) {
	if s.o.CreateTable {
		to, _ := s.destinations(tables) // check reports what is wrong with them
		for _, d := range to {
			missing, err := d.s.toBeMade(ctx, d.table)
			if err != nil {
				return nil, "", err
			}
			if missing {
				return nil, fmt.Sprintf("%s does not exist yet: the bridge makes it (Options.CreateTable)", d.s.name(d.table).SQL()), nil
			}
		}
	}
	if targets, err = s.check(ctx, tables); err != nil {
		return nil, "", err
	}
	advice, err := s.advise(ctx, targets)
	if err != nil {
		return nil, "", err
	}
	found = targetNames(targets) + ", and every column fits"
	if advice != "" {
		found += "; advice: " + advice
	}
	return targets, found, nil
}

// toBeMade reports whether a table is missing, and says why it could not be made.
func (s *Sink) toBeMade(ctx context.Context, t *changelog.Table) (bool, error) {
	if err := s.checkNames(t); err != nil {
		return false, &sink.Error{Class: sink.ErrConfig, Err: err}
	}
	name := s.name(t)
	var exists bool
	var schema *string
	var mayMake *bool
	err := s.pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL, n.nspname, has_schema_privilege(n.oid, 'CREATE')
		FROM (SELECT) one LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = coalesce(nullif($2, ''), current_schema())`, name.SQL(), name.schema).
		Scan(&exists, &schema, &mayMake)
	switch {
	case err != nil || exists:
		return false, err
	case schema == nil:
		return false, configf("table %s does not exist, and cannot be made: there is no such schema, or the search_path names none: create the schema, or name another", name.SQL())
	case mayMake == nil || !*mayMake:
		return false, configf("table %s does not exist, and role %s may not make it in schema %s: let somebody who may run\n%s", name.SQL(), quote(s.role()), quote(*schema), s.SQL(t))
	}
	isKey := keyColumns(t.Schema)
	for i := range t.Schema.Columns {
		col := &t.Schema.Columns[i]
		if s.column(col.Name) == "" {
			continue
		}
		if _, ok := sqlType(&col.Type, rule{key: isKey[i], truncate: s.o.TruncateNanos}); !ok {
			return false, configf("column %s of type %s cannot be written to Postgres: leave it out in Options.Columns", quote(col.Name), col.Type.String())
		}
	}
	return true, nil
}

// checkBridge compares the fingerprint with the stored one, as Acquire does.
func (s *Sink) checkBridge(ctx context.Context, made bool, bridge, of string, targets []*target) (found string, err error) {
	fresh := fmt.Sprintf("%q has stored nothing yet", bridge)
	if !made {
		return fresh, nil
	}
	state, err := s.read(ctx, bridge)
	switch {
	case err != nil:
		return "", err
	case state.Bridge == "":
		return fresh, nil
	case of == "":
	case targets == nil && len(state.Positions) > 0:
		return "", configf("%q has stored positions, and they are of a table that no longer exists, or of another one: restore it, or give this bridge a name of its own", bridge)
	case targets != nil && state.Fingerprint != fingerprint(of, targets):
		return "", configf("the name %q belongs to another bridge (%s), while this one is (%s): give this bridge a name of its own", bridge, state.Fingerprint, fingerprint(of, targets))
	}
	return fmt.Sprintf("%q has positions of %d partitions", bridge, len(state.Positions)), nil
}
