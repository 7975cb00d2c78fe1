package elastic

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
)

// plan is what is known of one table before the first row.
type plan struct {
	table   *changelog.Table
	index   string  // with a naming the pattern that finds all of them
	naming  *naming // nil: there is one index
	keyless bool
	deletes bool     // the topic can hold them
	columns []column // that are written, in the table's order
	routing int      // column, -1: none

	// Found by Open, and where names come from rows by Write.
	known   map[string]*target // by name
	touched map[string]bool    // names that the current checkpoint wrote to, where they come from rows
}

// target is what a name stands for: an index, an alias of one, or a data stream.
type target struct {
	name   string
	uuids  map[string]bool
	marked bool // the mapping bears the bridge's mark; false: the client may not put it there
}

// path is the index in the path of a request; "": each item names its own.
func (p *plan) path() string {
	if p.naming != nil {
		return ""
	}
	return p.index
}

type column struct {
	number int
	name   []byte // the field's name as JSON, with its colon
	typ    *changelog.Type
}

// plan checks what can be checked without the server, all of it at once.
func (s *Sink) plan(t *changelog.Table) (*plan, error) {
	p := &plan{table: t, keyless: len(t.Schema.Key) == 0, routing: -1}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var err error
	if p.index, err = s.target(t); err != nil {
		errs = append(errs, err)
	} else if p.naming, err = p.named(s.index); err != nil {
		errs = append(errs, err)
	}
	p.deletes = t.Mode.Contains(changelog.Delete) || t.Mode.Contains(changelog.UpdateBefore)
	switch {
	case p.keyless && t.Mode != changelog.Append:
		bad("table %q has no PRIMARY KEY, so the document of a row that is updated or deleted cannot be found: declare one", t.Name)
	case s.o.DataStream && t.Mode != changelog.Append:
		bad("table %q has mode %s, and a data stream takes inserts only: leave Options.DataStream off", t.Name, t.Mode)
	case p.deletes && s.o.Deletes == Unset:
		bad("table %q can hold deletes: choose Options.Deletes. Tombstone keeps a small document in place of a deleted row, which readers leave out by the alias of Options.Alias, and never "+
			"goes backwards. Hard deletes the document, and since Elasticsearch forgets a deleted document's version after index.gc_deletes or a restart, a late change can bring it back until its delete is sent again, two minutes later", t.Name)
	}
	fields := make(map[string]string)
	for i := range t.Schema.Columns {
		c := &t.Schema.Columns[i]
		name := s.field(c.Name)
		if name == "" {
			continue
		}
		if why := badField(name); why != "" {
			bad("column %q of table %q %s", c.Name, t.Name, why)
			continue
		}
		if name == s.o.Meta {
			bad("column %q of table %q has the name of Options.Meta: rename one of them", c.Name, t.Name)
		}
		if other, ok := fields[name]; ok {
			bad("columns %q and %q of table %q both go to field %q", other, c.Name, t.Name, name)
		}
		fields[name] = c.Name
		if err := writable(&c.Type); err != nil {
			bad("column %q of table %q: %w", c.Name, t.Name, err)
		}
		p.columns = append(p.columns, column{number: i, name: append(appendString(nil, []byte(name)), ':'), typ: &c.Type})
	}
	for from := range s.o.Columns {
		if t.Schema.Index(from) < 0 && len(fields) > 0 {
			bad("Options.Columns names %q, which table %q does not have", from, t.Name)
		}
	}
	if r := s.o.Routing; r != "" {
		for _, k := range t.Schema.Key {
			if t.Schema.Columns[k].Name == r {
				p.routing = k
			}
		}
		if p.routing < 0 {
			bad("Options.Routing is %q, which is no column of the key of table %q: a routing that can change leaves the old document on its shard", r, t.Name)
		}
	}
	return p, errors.Join(errs...)
}

// writable says which types have no form in a document.
func writable(t *changelog.Type) error {
	switch t.Root {
	case changelog.RootArray, changelog.RootMultiset:
		return writable(t.Elem)
	case changelog.RootMap:
		switch t.Key.Root {
		case changelog.RootArray, changelog.RootMap, changelog.RootMultiset, changelog.RootRow:
			return fmt.Errorf("type %s has keys that no JSON member can be", t)
		}
		return errors.Join(writable(t.Key), writable(t.Elem))
	case changelog.RootRow:
		var errs []error
		for i := range t.Fields {
			errs = append(errs, writable(&t.Fields[i].Type))
		}
		return errors.Join(errs...)
	case changelog.RootInvalid, changelog.RootNull, changelog.RootRaw, changelog.RootVariant, changelog.RootStructured, changelog.RootBitmap, changelog.RootTimestampTZ:
		return fmt.Errorf("type %s has no form in a document", t)
	}
	return nil
}
