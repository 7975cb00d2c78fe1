package bridge

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// This file is what a bridge of several tables and several sinks adds to one of a single table and a single sink.

// Output is one of the sinks of a bridge, and what it is given. What no output takes is read, counted as skipped, and passed over.
type Output struct {
	// Name is stored with what the sink has prepared and not yet committed; renaming it orphans that. Required, one for each output.
	Name string
	Sink sink.Sink
	// Topics are those whose changes the sink is given. Defaults to nil: all that the bridge reads.
	Topics []string
	// Filters choose rows, by the name of their table: the sink holds those that pass, and no others, with all that [Filter] says, so that a
	// row which stops to pass is deleted there. A table that has none is given whole. Unlike those of an Input, they count nothing as skipped that another
	// output takes. Defaults to none.
	Filters map[string]*Filter
	// Eager leaves a sink that shows rows before they are decided (Elasticsearch) in its place, where it works while the others do. By default it
	// is placed last, and is given a checkpoint when all others have prepared it; see [sink.Declared].
	Eager bool
}

// NewMany makes a bridge of several tables and several sinks. Everything that it reads between two checkpoints reaches all sinks by one
// decision: each of them prepares its part, in the order of to, then the store decides, then each makes its part visible. The store is that of
// Options.Store, else the one sink that is its own store, else the first that offers one. A sink that shows rows early comes last, see Output.Eager.
//
// Each Input has topics and a table of its own, and the tables have different names. A sink is given the tables whose topics it takes; what a
// checkpoint holds of all of them is one transaction where the sink has transactions (postgres.Options.Into says which table goes where). Options.Filter, Map
// and Promise are those of a single Input; with several, each Input has its own. The brokers are one cluster: the client options of the first
// input that has any are used, and the others have to name the same brokers.
//
// A sink that is added to a bridge later, or a table, begins with what is read from then on, so the store takes such a bridge for another one (an
// ErrConfig when it starts). Give the new sink a bridge of its own, or let a bridge of another name fill all of them from the start.
func NewMany(name string, from []Input, to []Output, o *Options) (*Bridge, error) {
	ins, err := prepared(name, from, o)
	if err == nil {
		err = oneGroup(name, ins, o)
	}
	if err != nil {
		return nil, err
	}
	d := o.withDefaults(name, ins, to)
	if err := check(name, ins, to, d); err != nil {
		return nil, err
	}
	to = slices.Clone(to)
	sinks, err := declare(ins, to)
	if err != nil {
		return nil, &sink.Error{Op: "new", Bridge: name, Class: sink.ErrConfig, Err: err}
	}
	return &Bridge{name: name, ins: ins, sinks: sinks, o: d}, nil
}

// prepared returns the inputs with decoders that do what options say of each.
func prepared(name string, from []Input, o *Options) ([]Input, error) {
	ins := slices.Clone(from)
	for i := range ins {
		in := &ins[i]
		own := Options{Filter: in.Filter, Map: in.Map, Promise: in.Promise}
		if o != nil {
			if (o.Filter != nil || o.Map != nil || o.Promise != 0) && (len(ins) > 1 || in.Filter != nil || in.Map != nil || in.Promise != 0) {
				return nil, &sink.Error{Op: "new", Bridge: name, Class: sink.ErrConfig, Err: errors.New(
					"Options.Filter, Map and Promise are for a bridge of one Input that has none itself: set those of each Input")}
			}
			if len(ins) == 1 && in.Filter == nil && in.Map == nil && in.Promise == 0 {
				own = Options{Filter: o.Filter, Map: o.Map, Promise: o.Promise}
			}
		}
		var err error
		if *in, err = promised(name, *in, &own); err != nil {
			return nil, err
		}
		if *in, err = transformed(name, *in, &own); err != nil {
			return nil, err
		}
	}
	return ins, nil
}

// oneGroup refuses inputs that name two consumer groups, unless the options choose one.
func oneGroup(name string, ins []Input, o *Options) error {
	group := ""
	for i := range ins {
		switch g := ins[i].Group; {
		case g == "" || o != nil && o.Group != "":
		case group == "":
			group = g
		case g != group:
			return &sink.Error{Op: "new", Bridge: name, Class: sink.ErrConfig, Err: fmt.Errorf(
				"the tables name two consumer groups, %q and %q ('properties.group.id'): set Options.Group", group, g)}
		}
	}
	return nil
}

// reads reports whether the input reads the topic.
func (in *Input) reads(topic string) bool {
	if in.Pattern == "" {
		return slices.Contains(in.Topics, topic)
	}
	re, err := regexp.Compile("^(?:" + in.Pattern + ")$")
	return err == nil && re.MatchString(topic)
}

// checkMany reports what is wrong with inputs and outputs together.
func checkMany(ins []Input, outs []Output, bad func(format string, args ...any)) {
	tables, topics := make(map[string]bool), make(map[string]bool)
	for i := range ins {
		in := &ins[i]
		if in.Decoder != nil && in.Decoder.Table() != nil {
			if t := in.Decoder.Table().Name; tables[t] {
				bad("two inputs have a table called %q: sinks tell tables by their names, so name one differently (Mapping.Name), or read both topics by one Input if they are one table", t)
			} else {
				tables[t] = true
			}
		}
		for _, t := range in.Topics {
			if topics[t] {
				bad("topic %q is read by two inputs: a record has one table", t)
			}
			topics[t] = true
		}
	}
	if len(ins) > 1 {
		checkBrokers(ins, bad)
	}
	names := make(map[string]bool)
	for i := range outs {
		out := &outs[i]
		switch {
		case out.Sink == nil && len(outs) == 1:
			bad("the sink is missing")
		case out.Sink == nil:
			bad("output %q has no sink", out.Name)
		}
		switch {
		case out.Name == "":
			bad("output %d has no name: what it has prepared is stored under it", i)
		case names[out.Name]:
			bad("two outputs are called %q: give each a name of its own", out.Name)
		}
		names[out.Name] = true
		if out.Topics != nil && len(out.Topics) == 0 {
			bad("output %q: Topics is empty: leave it nil for all topics, or leave the output out", out.Name)
		}
		for _, t := range out.Topics {
			if !slices.ContainsFunc(ins, func(in Input) bool { return in.reads(t) }) {
				bad("output %q takes topic %q, which no input reads", out.Name, t)
			}
		}
		for _, t := range slices.Sorted(maps.Keys(out.Filters)) {
			switch {
			case !tables[t]:
				bad("output %q has a filter for table %q, and no input has a table of this name", out.Name, t)
			case out.Filters[t] == nil:
				bad("output %q: the filter for table %q is nil: leave it out", out.Name, t)
			}
		}
	}
}

// checkBrokers reports inputs of two clusters, as far as the addresses tell.
func checkBrokers(ins []Input, bad func(format string, args ...any)) {
	var first []string
	for i := range ins {
		if len(ins[i].Client) == 0 || slices.Contains(ins[i].Client, nil) {
			continue
		}
		cl, err := kgo.NewClient(ins[i].Client...)
		if err != nil {
			bad("client options: %w", err)
			continue
		}
		seeds, _ := cl.OptValue(kgo.SeedBrokers).([]string)
		cl.Close()
		seeds = slices.Sorted(slices.Values(seeds))
		switch {
		case first == nil:
			first = seeds
		case !slices.Equal(first, seeds):
			bad("the inputs name brokers %v and %v: a bridge reads from one cluster; name the same addresses for each table, or make two bridges", first, seeds)
			return
		}
	}
}

// clientOf returns the client options of the inputs.
func clientOf(ins []Input) []kgo.Opt {
	for i := range ins {
		if len(ins[i].Client) > 0 {
			return ins[i].Client
		}
	}
	return nil
}

// declare makes what the coordinators need of outputs, and lets the inputs' decoders report rows that a filter cannot judge.
func declare(ins []Input, outs []Output) ([]sink.Declared, error) {
	var errs []error
	sinks := make([]sink.Declared, len(outs))
	judges := make([][]*share, len(ins))
	for i := range outs {
		out := &outs[i]
		d := sink.Declared{Name: out.Name, Sink: out.Sink, Eager: out.Eager}
		shares := make(map[*changelog.Table]*share)
		all := true
		for n := range ins {
			in := &ins[n]
			if out.Topics != nil && !slices.ContainsFunc(out.Topics, in.reads) {
				all = false
				continue
			}
			t := in.Decoder.Table()
			d.Tables = append(d.Tables, t)
			s := &share{}
			if out.Topics != nil && (in.Pattern != "" || slices.ContainsFunc(in.Topics, func(t string) bool { return !slices.Contains(out.Topics, t) })) {
				s.topics = make(map[string]bool, len(out.Topics))
				for _, t := range out.Topics {
					s.topics[t] = true
				}
			}
			if f := out.Filters[t.Name]; f != nil {
				s.filter = &transform{from: in.Decoder, table: t, name: fmt.Sprintf("Output.Filters[%q]", t.Name)}
				if err := s.filter.filter(f); err != nil {
					errs = append(errs, fmt.Errorf("output %q: %w", out.Name, err))
				} else if s.filter.table != t {
					errs = append(errs, fmt.Errorf("output %q: the filter of table %s needs deletes, and its mode %s has none: nobody could take a row away that stops to pass", out.Name, t.Name, t.Mode))
				}
				judges[n] = append(judges[n], s)
			}
			if s.topics != nil || s.filter != nil {
				shares[t] = s
			}
		}
		for _, t := range slices.Sorted(maps.Keys(out.Filters)) {
			if !slices.ContainsFunc(d.Tables, func(x *changelog.Table) bool { return x.Name == t }) {
				errs = append(errs, fmt.Errorf("output %q has a filter for table %q, and takes none of its topics", out.Name, t))
			}
		}
		if all {
			d.Tables = nil
		}
		if len(shares) > 0 {
			d.Share = func(b *changelog.Batch, i int) sink.Share {
				if s := shares[b.Table]; s != nil {
					return s.of(b, i)
				}
				return sink.ShareAll
			}
		}
		sinks[i] = d
	}
	for n, js := range judges {
		if js != nil {
			ins[n].Decoder = &judged{ins[n].Decoder, js}
		}
	}
	return sinks, errors.Join(errs...)
}

// share says what one output is given of one table.
type share struct {
	topics map[string]bool // nil: every topic
	filter *transform      // nil: every row
}

// of decides about a change that judge had nothing against.
func (s *share) of(b *changelog.Batch, i int) sink.Share {
	c := &b.Changes[i]
	if s.topics != nil && !s.topics[c.Topic] {
		return sink.ShareNone
	}
	f := s.filter
	switch {
	case f == nil:
		return sink.ShareAll
	case f.deletes && !c.Kind.Adds():
		// The row that it takes away may have passed at some time. Where all versions of a row pass or none does, and the delete has what the filter
		// looks at, it can be asked.
		known := f.settled && (!c.KeyOnly || f.inKey) && firstUnchanged(c.Row, f.reads) < 0
		if known && !f.keep(c.Row) {
			return sink.ShareNone
		}
		return sink.ShareAll
	case f.keep(c.Row):
		return sink.ShareAll
	case f.deletes && !f.settled:
		return sink.ShareDelete
	}
	return sink.ShareNone
}

// judged is a decoder that reports rows which an output's filter cannot judge, so that the data policy deals with their messages before any
// sink is given one.
type judged struct {
	changelog.Decoder
	by []*share
}

// Decode implements [changelog.Decoder].
func (j *judged) Decode(b *changelog.Batch, r *changelog.Record) error {
	n := b.Len()
	err := j.Decoder.Decode(b, r)
	if _, ours := j.Decoder.(*transform); err == nil && !ours { // which has looked, and may have marked changes since
		err = wellFormed(len(j.Table().Schema.Columns), b.Changes[n:])
	}
	for i := n; err == nil && i < b.Len(); i++ {
		c := &b.Changes[i]
		for _, s := range j.by {
			if err == nil && !skipped(c) && (s.topics == nil || s.topics[r.Topic]) {
				err = s.filter.judge(c, b.Changes[n:i])
			}
		}
	}
	if err != nil {
		b.Truncate(n)
	}
	return err
}

// marks reports whether the decoder leaves changes in the batch that are to be dropped when it is written; see skip.
func marks(d changelog.Decoder) bool {
	if j, ok := d.(*judged); ok {
		d = j.Decoder
	}
	t, ok := d.(*transform)
	return ok && t.keep != nil && !t.deletes
}

// input returns the number of the input that reads a topic.
func (r *run) input(topic string) int { return r.byTopic[topic] }

// tables returns the tables that the bridge writes.
func (r *run) tables() []*changelog.Table {
	ts := make([]*changelog.Table, len(r.ins))
	for i := range r.ins {
		ts[i] = r.ins[i].Decoder.Table()
	}
	return ts
}

// deletes reports whether the table of a topic can lose rows.
func (r *run) deletes(topic string) bool {
	m := r.ins[r.input(topic)].Decoder.Table().Mode
	return m.Contains(changelog.Delete) || m.Contains(changelog.UpdateBefore)
}
