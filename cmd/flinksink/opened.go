package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// opened are the targets of one command, connected.
type opened struct {
	targets []target
	outputs []bridge.Output
	store   sink.Store // for bridge.Options; nil: a sink decides, or offers a store
	keeper  *keeper    // of --store; nil: not named
}

// open builds all targets and the store, and connects to them.
func (c *call) open(ctx context.Context, ts []target, f *targetFlags, r *reading) (*opened, error) {
	o, err := c.build(ts, f, r)
	if err != nil {
		return nil, err
	}
	if err := c.connect(ctx, o, r); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// build makes the targets and the store, or says all that flags, files and the table show to be wrong. It reaches no server.
func (c *call) build(ts []target, f *targetFlags, r *reading) (*opened, error) {
	o := &opened{targets: ts}
	errs := []error{decideOnce(ts, f)}
	if f.keep.url != "" {
		var err error
		if o.keeper, err = c.buildStore(&f.keep, &f.kafka, &f.s3, r.lanes); err == nil {
			o.store = o.keeper
		}
		errs = append(errs, plain(err))
	}
	for _, t := range ts {
		errs = append(errs, plain(t.build(c, r)))
	}
	if f.keep.url == "" && deciding(ts) == nil {
		errs = append(errs, usage(errNoStore))
	}
	if err := errors.Join(errs...); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// plain is what an error says of settings without what was being done, which at a start is nothing but to look at them.
func plain(err error) error {
	var out []error
	for _, e := range apart(err) {
		if s, ok := e.(*sink.Error); ok && s.Err != nil && s.Class == sink.ErrConfig {
			e = &configError{err: s.Err}
		}
		out = append(out, e)
	}
	return errors.Join(out...)
}

// connect connects to the store and to all targets.
func (c *call) connect(ctx context.Context, o *opened, r *reading) (err error) {
	if o.keeper != nil {
		if err := o.keeper.reach(ctx); err != nil {
			return err
		}
	}
	for _, t := range o.targets {
		s, err := t.open(ctx, c, r)
		if err != nil {
			return err
		}
		name := bridge.DefaultSinkName
		if len(o.targets) > 1 {
			name = string(t.at().kind)
		}
		o.outputs = append(o.outputs, bridge.Output{Name: name, Sink: s})
	}
	if d := deciding(o.targets); o.store == nil && d.at().kind == atS3 { // others decide by themselves, or offer a store to the bridge
		o.store, err = d.keeper()
	}
	return err
}

// decideOnce refuses modes of which two would decide.
func decideOnce(ts []target, f *targetFlags) error {
	const mode = "in-transaction"
	var own []kind
	chosen := false // at least one, by --mode
	for _, t := range ts {
		is := t.own()
		switch t := t.(type) {
		case *tableTarget:
			chosen = chosen || t.mode == mode
			is = is && (t.mode == mode || len(own) == 0) // auto leaves it to a target before it
		case *topicTarget:
			chosen = chosen || t.mode == mode
		}
		if is {
			own = append(own, t.at().kind)
		}
	}
	others := map[kind]string{atPostgres: "postgres=prepared or postgres=staged", atKafka: "kafka=two-phase"}
	switch {
	case f.keep.url != "" && len(own) > 0:
		return config("--mode %s: the transaction of %s decides then, and --store names what is to decide instead: leave --store out, or choose --mode %s", mode, own[0].article(), others[own[0]])
	case len(own) > 1 && chosen:
		return config("--mode: %s and %s would both decide, each by a transaction of its own, and one can: choose --mode %s, or --mode %s", own[0].article(), own[1].article(), others[own[0]], others[own[1]])
	}
	return nil
}

var errNoStore = fmt.Errorf("--store is missing: an index holds no positions; name what does (%s)", spellings(storeKinds()...))

// deciding returns the target that decides where --store names none, as a bridge chooses it: the sink that is its own store, else the first that
// offers one, which Postgres and Kafka do; else the bucket, whose store is handed to the bridge. nil: none of them can.
func deciding(ts []target) target {
	for _, can := range []func(t target) bool{
		target.own,
		func(t target) bool { return t.at().kind == atPostgres || t.at().kind == atKafka },
		func(t target) bool { return t.at().kind == atS3 },
	} {
		if i := slices.IndexFunc(ts, can); i >= 0 {
			return ts[i]
		}
	}
	return nil
}

// decides returns the store whose answer counts, to be read.
func (o *opened) decides() (sink.Store, error) {
	if o.store != nil {
		return o.store, nil
	}
	if d := deciding(o.targets); d != nil {
		return d.keeper()
	}
	return nil, nil
}

// storeFlags name the store that decides, for commands that are shown.
func (o *opened) storeFlags(f *targetFlags) storeFlags {
	at := f.keep
	if d := deciding(o.targets); at.url == "" && d != nil {
		at.url = d.at().url
	}
	switch kindOf(at.url) {
	case atKafka:
		if b, err := (place{atKafka, at.url}).broker("--to"); err == nil && f.keep.url == "" { // the topic of a target is not that of positions
			at.url = "kafka://" + strings.Join(b.seeds, ",")
		}
		at.more = f.kafka.words()
	case atS3:
		at.more = f.s3.words()
	}
	return at
}

func (o *opened) close() {
	for _, t := range o.targets {
		t.close()
	}
	if o.keeper != nil {
		o.keeper.close()
	}
}

// into names for people what is written into.
func (o *opened) into(t *ddl.Table) string {
	var out []string
	for _, x := range o.targets {
		out = append(out, x.into(t))
	}
	return strings.Join(out, ", ")
}

// written says where rows are by now.
func (o *opened) written() string {
	if len(o.targets) == 1 && o.targets[0].at().kind == atPostgres {
		return "in the table"
	}
	return "written"
}

// fingerprint is what a bridge with default options stores of itself; a Postgres that decides adds its tables. See bridge.Options.Target.
func (o *opened) fingerprint(group string, in bridge.Input) string {
	topics := in.Pattern
	if topics == "" {
		topics = strings.Join(slices.Sorted(slices.Values(in.Topics)), ",")
	}
	var names []string
	for _, x := range o.outputs {
		names = append(names, fmt.Sprint(x.Sink))
	}
	slices.Sort(names)
	return fmt.Sprintf("group=%s topics=%s target=%s", group, topics, strings.Join(names, "; "))
}

// ready refuses the name of another bridge before anything is made for it: the store itself compares when the first partition comes. And it
// refuses to make anew what positions are stored for: what is below them would never come.
func (o *opened) ready(ctx context.Context, r *reading) error {
	st, err := o.decides()
	if err != nil || st == nil {
		return err
	}
	state, err := st.Read(ctx, r.bridge)
	if err != nil {
		return err
	}
	mine := o.fingerprint(groupOf(r.bridge, r.in), r.in)
	if state.Bridge != "" && state.Fingerprint != mine && !strings.HasPrefix(state.Fingerprint, mine+" into ") {
		return config("the name %q belongs to another bridge (%s), while this one is (%s): give this bridge a name of its own", r.bridge, state.Fingerprint, mine)
	}
	for i, t := range o.targets {
		if err := t.ready(ctx, r, o.outputs[i].Name, mine); err != nil {
			return err
		}
	}
	return nil
}

// sameStore refuses a bridge whose tables were written while another store decided. A Postgres that --store names may be another one than the tables', and is not
// compared.
func (o *opened) sameStore(ctx context.Context, bridge string) error {
	if o.keeper != nil && o.keeper.pg != nil {
		return nil
	}
	st, err := o.decides()
	if err != nil {
		return err
	}
	_, here := st.(*postgres.Store)
	for _, t := range o.targets {
		if t, ok := t.(*tableTarget); ok {
			if err := t.sameStore(ctx, bridge, here); err != nil {
				return err
			}
		}
	}
	return nil
}

// groupOf is the consumer group of a bridge.
func groupOf(name string, in bridge.Input) string {
	if in.Group != "" {
		return in.Group
	}
	return name
}
