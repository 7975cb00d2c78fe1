package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
)

// checkFlags are those of flinksink check.
type checkFlags struct {
	table  tableFlags
	broker brokerFlags
	target targetFlags
	data   dataFlags
	pace   paceFlags
	bridge string

	unordered, missed bool
}

func (c *call) check() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "check --bridge NAME --ddl FILE --to URL",
		Short: "Find what would stop a bridge, without starting it",
		Long: `check looks at everything that run looks at before its first row, and at what would stop it soon after: the table's definition and
options, brokers, topic and consumer group, the targets (a database with its rights, flinksink's own tables and the table column by column;
a topic and its brokers' limits; a bucket; an index and its mapping), and whether the stored positions still exist. Its flags are among
those of run, and mean the same: give it those that run will have, as --interval and --lanes are compared with what servers allow
(timeouts of transactions, connections, prepared transactions). It writes nothing, makes nothing and takes no partition, so it can run
beside the bridge. Whether a bucket can hold positions needs scratch objects, and is found by run.

Each line says ok, note (worth knowing), wrong (with the cure) or skip (could not be looked at). The last lines state the guarantee that
the bridge gives, and what keeps it from being more; beside something wrong there is none. Exit status 1 when something would stop
the bridge.`,
		Example: `  flinksink check --bridge orders --ddl orders.sql --to postgres://app@db:5432/shop
  flinksink check --bridge orders --ddl orders.sql --to postgres://app@db/shop --into sales.orders --create-table \
    --brokers kafka:9093 --config security.protocol=SSL`,
		Args: noArgs,
	}
	cmd.Flags().StringVar(&f.bridge, "bridge", "", "durable `NAME` of the bridge (required)")
	cmd.MarkFlagRequired("bridge")
	f.table.add(cmd)
	f.broker.add(cmd)
	f.target.add(cmd)
	f.pace.add(cmd)
	f.data.add(cmd)
	cmd.Flags().BoolVar(&f.unordered, "unordered", false, "as of run: accept a CDC topic of several partitions whose records have no key as far as the table says")
	cmd.Flags().BoolVar(&f.missed, "allow-missed-deletes", false, "as of run: accept that deletes of a compacted topic may have been missed while the bridge was down")
	cmd.RunE = c.runE(func(cmd *cobra.Command) error { return c.doCheck(cmd, f) })
	return cmd
}

// checkup collects and prints what was found.
type checkup struct {
	c     *call
	w     io.Writer
	wrong []string // what of
	err   error    // of w

	whole func(text string) string // completes the commands that a text names
}

func (k *checkup) line(state, what, text string) {
	text = hide(k.c.renamed(strings.TrimPrefix(k.whole(text), "flinksink: ")), k.c.secrets)
	_, err := fmt.Fprintf(k.w, "%-6s %-10s %s\n", state, what, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 18)))
	k.err = errors.Join(k.err, err)
}

func (k *checkup) ok(what, format string, a ...any) { k.line("ok", what, fmt.Sprintf(format, a...)) }
func (k *checkup) note(what, format string, a ...any) {
	k.line("note", what, fmt.Sprintf(format, a...))
}
func (k *checkup) skip(what, format string, a ...any) {
	k.line("skip", what, fmt.Sprintf(format, a...))
}

// bad prints err, if there is one, and reports whether there was.
func (k *checkup) bad(what string, err error) bool {
	if err != nil {
		k.wrong = append(k.wrong, what)
		text := err.Error()
		if e, ok := err.(*sink.Error); ok && e.Err != nil {
			text = e.Err.Error() // what was being done, of which bridge, is said already
		}
		k.line("wrong", what, text)
	}
	return err != nil
}

// subject is what is checked, as far as it could be found out.
type subject struct {
	flags  *checkFlags
	onData bridge.DataPolicy
	cl     *client // nil: the brokers could not be reached
	table  *ddl.Table
	dec    changelog.Decoder
	in     *bridge.Input
	group  string
	topics map[string]topicState // nil: the brokers did not tell

	answered bool // the brokers did

	scattered, missed bool // what --unordered and --allow-missed-deletes accept is so
}

func (c *call) doCheck(cmd *cobra.Command, f *checkFlags) error {
	var name error
	if f.bridge == "" {
		name = usage(errors.New("--bridge is empty: give the bridge a name"))
	}
	onData, data := f.data.policy()
	ts, wrong := c.targets(cmd, &f.target)
	if err := errors.Join(name, f.pace.check(), data, wrong); err != nil && isUsage(err) {
		return err
	}
	ctx := cmd.Context()
	k := &checkup{c: c, w: cmd.OutOrStdout(), whole: func(text string) string { return text }}
	s := subject{flags: f, onData: onData}
	defer s.close()
	t, err := c.load(&f.table, &f.broker)
	if isUsage(err) {
		return err
	}
	if !k.bad("ddl", err) {
		s.table = t
		k.definition(&s, f)
	}
	var to *opened // nil: what flags and table say of the targets cannot work
	var r *reading
	if !k.bad("target", wrong) {
		r, to = k.built(&s, f, ts)
	}
	if s.in == nil {
		k.skip("brokers", "where they are could not be read")
	} else {
		k.brokers(ctx, &s)
	}
	if to != nil {
		k.targets(ctx, &s, r, to)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch {
	case k.err != nil:
		return k.err
	case len(k.wrong) == 1:
		return errors.New("check: one thing would stop the bridge")
	case len(k.wrong) > 1:
		return fmt.Errorf("check: %d things would stop the bridge", len(k.wrong))
	}
	return nil
}

// definition looks at the table and its options, and reaches no server.
func (k *checkup) definition(s *subject, f *checkFlags) {
	t := s.table
	var err error
	dec, err := decoder(t, &f.table)
	if !k.bad("ddl", err) {
		s.dec = dec
		k.ok("ddl", "table %s: %d columns, %s, mode %s", t.Name(), len(dec.Table().Schema.Columns), key(dec.Table().Schema), dec.Table().Mode)
	}
	in, err := inputOf(&f.table, &f.broker, t, dec)
	if err == nil && dec != nil {
		err = judgeSettings(f.bridge, in, &f.pace)
	}
	if k.bad("settings", err) {
		return
	}
	s.in = &in
	if s.group = in.Group; s.group == "" {
		s.group = f.bridge
	}
	k.ok("settings", "connector %s, %s, starting at %s where nothing is stored", t.Options["connector"], source(in), in.Start.Mode)
	switch s.onData {
	case bridge.Halt:
		k.ok("settings", "a record that cannot be decoded or written stops the bridge (--on-data)")
	case bridge.DeadLetter:
		k.ok("settings", "records that cannot be decoded or written become dead letters, at most %d a checkpoint (--on-data, --data-budget)", f.data.budget)
	default:
		k.note("settings", "records that cannot be decoded or written are dropped and counted, at most %d a checkpoint, and kept nowhere (--on-data, --data-budget)", f.data.budget)
	}
	for _, note := range bridge.Ignored(t) {
		k.note("settings", "%s", note)
	}
}

func key(s *changelog.Schema) string {
	if len(s.Key) == 0 {
		return "no key"
	}
	var names []string
	for _, i := range s.Key {
		names = append(names, s.Columns[i].Name)
	}
	return "key (" + strings.Join(names, ", ") + ")"
}

// built makes the targets, and prints all that flags, files and the table show to be wrong with them, before a server is asked; nil where something is.
func (k *checkup) built(s *subject, f *checkFlags, ts []target) (*reading, *opened) {
	r := &reading{bridge: f.bridge, table: s.table, lanes: f.pace.lanes, interval: f.pace.interval, source: f.table.text, from: f.table.where(), named: f.table.name, writes: true}
	var err error
	if r.formats, err = f.table.formats(); k.bad("ddl", err) {
		return nil, nil
	}
	r.in.Decoder = s.dec
	if s.in != nil {
		r.in = *s.in
	}
	if s.table == nil && slices.ContainsFunc(ts, func(t target) bool { return t.at().kind == atKafka }) {
		k.skip(heading(ts), "what would be written is not known")
		return nil, nil
	}
	k.bad("letters", keepsLetters(ts, s.onData, &f.target))
	to, err := k.c.build(ts, &f.target, r)
	for _, err := range apart(err) {
		k.bad(heading(ts), err)
	}
	return r, to
}

// heading is what a line about the targets begins with.
func heading(ts []target) string {
	if len(ts) == 1 && ts[0].at().kind == atPostgres {
		return "database"
	}
	return "target"
}

// apart takes joined errors apart.
func apart(err error) (out []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		if _, ok := err.(*sink.Error); !ok { // whose text is one
			for _, e := range joined.Unwrap() {
				out = append(out, apart(e)...)
			}
			return out
		}
	}
	if err != nil {
		out = append(out, err)
	}
	return out
}

// targets connects to the targets, and looks at them, and at what is stored.
func (k *checkup) targets(ctx context.Context, s *subject, r *reading, to *opened) {
	defer to.close()
	f := s.flags
	r.apart = s.in == nil || !s.answered // where the brokers are is not known, or they do not answer: that is told already
	if k.bad(heading(to.targets), k.c.connect(ctx, to, r)) {
		return
	}
	k.whole = func(text string) string { return wholeCommands(text, f.bridge, to.storeFlags(&f.target)) }
	fingerprint := ""
	if s.in != nil {
		fingerprint = to.fingerprint(s.group, *s.in)
	}
	fine := true
	for i, t := range to.targets {
		lane := sink.Lane{Bridge: f.bridge, Sink: to.outputs[i].Name, Interval: f.pace.interval, Number: f.pace.lanes - 1}
		if s.dec != nil {
			lane.Tables = []*changelog.Table{s.dec.Table()}
		}
		fine = t.check(ctx, k, s, lane, fingerprint) && fine
	}
	if fine && s.topics != nil {
		k.stored(ctx, s, to, fingerprint)
	} else {
		k.skip("positions", "not compared before what is wrong above is put right")
	}
	k.guarantee(s, k.promise(s, to))
}

// stored looks at what the store holds of the bridge.
func (k *checkup) stored(ctx context.Context, s *subject, to *opened, fingerprint string) {
	st, err := to.decides()
	var state sink.State
	if err == nil {
		state, err = st.Read(ctx, s.flags.bridge)
	}
	if k.bad("positions", err) {
		return
	}
	if state.Bridge != "" && state.Fingerprint != fingerprint && !strings.HasPrefix(state.Fingerprint, fingerprint+" into ") {
		k.bad("bridge", fmt.Errorf("the name %q belongs to another bridge (%s), while this one is (%s): give this bridge a name of its own", state.Bridge, state.Fingerprint, fingerprint))
		return
	}
	var ws []witness
	for _, t := range to.targets {
		if w := witnessOf(t, s.flags.target.keep.schema); w != nil {
			ws = append(ws, w)
		}
	}
	state.Pending = slices.DeleteFunc(state.Pending, func(of sink.Committable) bool {
		done, _ := k.c.proven(ctx, ws, of) // a bridge that stops leaves receipts of what is done
		return done
	})
	k.ground(ctx, s, state)
}

// promise is the guarantee of all targets together.
func (k *checkup) promise(s *subject, to *opened) sink.Guarantee {
	if len(to.outputs) > 1 && s.in != nil {
		if b, err := bridge.NewMany(s.flags.bridge, []bridge.Input{*s.in}, to.outputs, &bridge.Options{Store: to.store}); err == nil {
			return b.Guarantee()
		}
	}
	return to.outputs[0].Sink.Guarantee()
}

// guarantee states what the bridge gives as it is set. Beside something that is wrong it gives nothing: it would not run, or not be right.
func (k *checkup) guarantee(s *subject, g sink.Guarantee) {
	if len(k.wrong) > 0 {
		slices.Sort(k.wrong)
		k.line("", "guarantee", fmt.Sprintf("none until what is wrong above is put right (%s)", strings.Join(slices.Compact(k.wrong), ", ")))
		return
	}
	k.line("", "guarantee", g.String())
	var why []string
	if g.Weakest != "" {
		why = append(why, g.Weakest)
		if g.Cure != "" {
			why[0] += ": " + g.Cure
		}
	}
	why = append(why, caveats(s.scattered, s.onData, s.missed)...)
	if why == nil {
		k.line("", "", "nothing keeps it from being more")
	} else {
		k.line("", "", "kept from being more by "+strings.Join(why, "; "))
	}
	if s.dec != nil && len(s.dec.Table().Schema.Key) == 0 {
		k.line("", "", "the table has no key: to set its position back, or to read the topic under another name, applies rows twice")
	}
}

// caveats lists what flags give up.
func caveats(scattered bool, onData bridge.DataPolicy, missed bool) (out []string) {
	if scattered {
		out = append(out, "--unordered: that each row's changes are in one partition is taken on trust")
	}
	if onData == bridge.Skip {
		out = append(out, "--on-data skip: records that cannot be decoded or written are left out for good")
	}
	if missed {
		out = append(out, "--allow-missed-deletes: rows whose deletes were missed stay")
	}
	return out
}

func (s *subject) close() {
	if s.cl != nil {
		s.cl.Close()
	}
}
