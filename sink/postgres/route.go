package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// This file says which table a row goes into, where there are several. All of them are written in one transaction.

// destination is a table that rows of a source table go into.
type destination struct {
	s     *Sink // as if this were its only table
	table *changelog.Table
	topic string // that its rows come from; "": from any that has no destination of its own
}

// destinations lists where rows of the tables can go. What is wrong with it is found together with what is wrong with the tables.
func (s *Sink) destinations(tables []*changelog.Table) (out []destination, problems []error) {
	if len(tables) > 1 && s.into != (qualified{}) {
		return nil, []error{fmt.Errorf("one table is named to write into (%s), but the lane has %d source tables: name none, so that each goes into the table of its own name, "+
			"or say where each goes with Options.Into", s.into.SQL(), len(tables))}
	}
	if len(tables) > 1 && len(s.o.Topics) > 0 {
		return nil, []error{fmt.Errorf("Options.Topics sends the topics of one source table to tables of their own, but the lane has %d source tables: use Options.Into", len(tables))}
	}
	for _, t := range tables {
		for _, topic := range slices.Sorted(maps.Keys(s.o.Topics)) {
			name, err := parseName(s.o.Topics[topic])
			if err != nil {
				problems = append(problems, fmt.Errorf("Options.Topics[%s]: %w", topic, err))
				continue
			}
			out = append(out, destination{s.at(name, t), t, topic})
		}
		name := s.into
		switch {
		case s.o.Into != nil:
			to := s.o.Into(t)
			if to == "" {
				break
			}
			var err error
			if name, err = parseName(to); err != nil {
				problems = append(problems, fmt.Errorf("Options.Into of source table %q: %w", t.Name, err))
				continue
			}
		case s.into == qualified{} && len(s.o.Topics) > 0:
			continue // rows of any other topic have no place
		}
		out = append(out, destination{s.at(name, t), t, ""})
	}
	return out, problems
}

// at is the sink as if it wrote the rows of t into one table and no others.
func (s *Sink) at(into qualified, t *changelog.Table) *Sink {
	one := *s
	one.into = into
	one.o.Into, one.o.Topics = nil, nil
	one.o.Columns = s.columnsOf(t)
	one.o.Cast = nil
	for _, entry := range s.o.Cast {
		if i := columnNamed(t, entry); i >= 0 {
			one.o.Cast = append(one.o.Cast, t.Schema.Columns[i].Name)
		}
	}
	return &one
}

// columnsOf are the renames for one table: those of its name go before those for all.
func (s *Sink) columnsOf(t *changelog.Table) map[string]string {
	out := make(map[string]string, len(s.o.Columns))
	for i := range t.Schema.Columns {
		source := t.Schema.Columns[i].Name
		if to, ok := s.o.Columns[t.Name+"."+source]; ok {
			out[source] = to
		} else if to, ok := s.o.Columns[source]; ok {
			out[source] = to
		}
	}
	return out
}

// columnNamed returns the index of the column of t that an entry of Options.Columns or Cast is about, -1: none.
func columnNamed(t *changelog.Table, entry string) int {
	if i := t.Schema.Index(entry); i >= 0 {
		return i
	}
	column, ok := strings.CutPrefix(entry, t.Name+".")
	if !ok {
		return -1
	}
	return t.Schema.Index(column)
}

// checkCasts finds entries of Options.Cast that are no texts.
func (s *Sink) checkCasts(tables []*changelog.Table) (problems []error) {
	for _, entry := range s.o.Cast {
		found := false
		for _, t := range tables {
			i := columnNamed(t, entry)
			if i < 0 {
				continue
			}
			found = true
			if typ := &t.Schema.Columns[i].Type; typ.Root != changelog.RootChar && typ.Root != changelog.RootVarchar {
				problems = append(problems, fmt.Errorf("Options.Cast names %q, which is %s of table %q: only texts are cast, other types go by their values", entry, typ, t.Name))
			}
		}
		if !found {
			problems = append(problems, fmt.Errorf("Options.Cast names %q, which is no column of the source table", entry))
		}
	}
	return problems
}

// route sets the changes of a batch apart by the tables that they go into, in their order. Mostly there is one table.
func (c *committer) route(b *changelog.Batch) (out []taken, err error) {
	var mine []*target
	for _, tg := range c.targets {
		if tg.table == b.Table || tg.table.Name == b.Table.Name {
			mine = append(mine, tg)
		}
	}
	switch {
	case len(mine) == 0:
		return nil, configf("table %q is not one of the lane's", b.Table.Name)
	case len(mine) == 1 && mine[0].topic == "":
		return []taken{{target: mine[0], batch: b}}, nil
	}
	index := make(map[string]int)
	for i := range b.Changes {
		change := &b.Changes[i]
		n, ok := index[change.Topic]
		if !ok {
			at := slices.IndexFunc(mine, func(tg *target) bool { return tg.topic == change.Topic })
			if at < 0 {
				at = slices.IndexFunc(mine, func(tg *target) bool { return tg.topic == "" })
			}
			if at < 0 {
				return nil, configf("rows of topic %q go nowhere: name a table for it in Options.Topics, or one for all others in New", change.Topic)
			}
			n = slices.IndexFunc(out, func(t taken) bool { return t.target == mine[at] })
			if n < 0 {
				n = len(out)
				out = append(out, taken{target: mine[at], batch: &changelog.Batch{Table: b.Table}})
			}
			index[change.Topic] = n
		}
		// The rows stay where b has them, which lives as long as this does.
		out[n].batch.Changes = append(out[n].batch.Changes, *change)
	}
	return out, nil
}

// checkRoutes finds what is wrong with them before there is a lane.
func (o *Options) checkRoutes(into string, bad func(error)) {
	if o.Into != nil && into != "" {
		bad(errors.New("New names a table to write into, and Options.Into is set: let one of them say it"))
	}
	for _, topic := range slices.Sorted(maps.Keys(o.Topics)) {
		if _, err := parseName(o.Topics[topic]); err != nil {
			bad(fmt.Errorf("Options.Topics[%s]: %w", topic, err))
		}
	}
}
