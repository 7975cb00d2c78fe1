package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Input is what a bridge reads.
type Input struct {
	// Topics that are read. Each must exist when the bridge starts.
	Topics []string
	// Pattern is a regular expression over whole topic names, in place of Topics. It is resolved when the bridge starts; a topic that is
	// made later is read from the next start on.
	Pattern string
	// Decoder turns their records into changes.
	Decoder changelog.Decoder
	// Start says where a partition is read from that nothing is stored for. Once a position is stored, it alone counts.
	Start Start
	// NullKeys says that the records have no key by which a row's changes are all in one partition. FromTable sets it for a table
	// that names no key format, or key.fields that are not of its PRIMARY KEY.
	NullKeys bool
	// Group is the consumer group that the table names, "" for none; see Options.Group.
	Group string
	// Client holds the client options that the table names: brokers, TLS, SASL.
	Client []kgo.Opt
	// Filter, Map and Promise are this table's, where a bridge reads several (NewMany); see the fields of Options. They are nil where Options has them.
	Filter  *Filter
	Map     *Mapping
	Promise changelog.Mode
}

// FromTable makes an Input of what a CREATE TABLE says, and d for its records. Every option that is contradictory or unknown is
// named in the error, which is a [sink.ErrConfig].
func FromTable(t *ddl.Table, d changelog.Decoder) (Input, error) {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	in := Input{Decoder: d, Group: GroupID(t), NullKeys: scattered(t)}
	var err error
	add(CheckOptions(t))
	in.Topics, in.Pattern, err = Topics(t)
	add(err)
	in.Start, err = StartOf(t)
	add(err)
	in.Client, err = ClientOptions(t)
	add(err)
	if len(errs) > 0 {
		return Input{}, errors.Join(errs...) // each is a *sink.Error that says where it comes from
	}
	return in, nil
}

// scattered reports a table whose records do not keep the changes of a row in one partition: they have no key, or one with columns that are not
// of the PRIMARY KEY, so that an update of such a column moves the row to another partition.
func scattered(t *ddl.Table) bool {
	if t.Options["key.format"] == "" {
		return true
	}
	if len(t.PrimaryKey) == 0 {
		return false
	}
	for _, f := range strings.Split(t.Options["key.fields"], ";") {
		if f = strings.TrimSpace(f); f != "" && !slices.Contains(t.PrimaryKey, f) {
			return true
		}
	}
	return false
}

// The defaults of [Options].
const (
	DefaultInterval = time.Second
	DefaultChanges  = 500_000
	DefaultWatch    = 5 * time.Second
	DefaultConnect  = 15 * time.Second
	DefaultOpenFor  = time.Minute
	DefaultSinkName = "sink"
)

// Options are the settings of a [Bridge]. The zero of everything is a good default; nil options are the zero.
type Options struct {
	// Client holds the user's own client options (TLS, SASL, brokers, hooks), applied after Input.Client. What exactly once depends on
	// is set after them and cannot be changed: isolation level, balancer, offset reset, commits, group, topics and their callbacks.
	Client []kgo.Opt
	// Group is the consumer group. It hands out partitions and shows lag to monitors; positions do not come from it. Defaults to
	// Input.Group, else to the bridge's name. No other program may use it.
	Group string
	// InstanceID makes the process a static member of the group: after a crash, or a restart within the session timeout, it gets its
	// partitions back at once, without a rebalance. It must stay the same over restarts and be unique in the group: of two processes
	// with one id the older is thrown out and stops with an ErrFenced that names this setting. A static member does not leave the group at
	// a graceful stop, so a process that never comes back keeps its partitions idle until the session timeout (45 s). Because of these
	// two hazards there is no derived default: "" is an ordinary member, whose death is noticed after the session timeout only. A
	// bridge that is one process sets its own name here; a set of replicas sets the name of the replica.
	InstanceID string
	// Interval is the longest time between two checkpoints while there is something to save. Defaults to 1 s; where every sink prefers large
	// checkpoints (sink.Pacer, as sink/s3 does) to the shortest of their intervals.
	Interval time.Duration
	// Changes is the number of changes after which a lane makes a checkpoint. Defaults to 500,000; where every sink is a sink.Pacer to no bound.
	Changes int
	// Bytes is the size of written batches after which a lane makes a checkpoint. Defaults to half of ByteBudget; where every sink is a sink.Pacer to
	// no bound. It may be more than that half: then the lane goes on while the sinks can let go of what they have written (sink.Spiller, as
	// sink/postgres can), and else makes one at that half.
	Bytes int
	// ByteBudget is the memory of one lane. Half of it is for what the current checkpoint holds, a quarter for what was fetched and is
	// not yet written; when that is full, fetching pauses. The client's own fetch buffers (kgo.FetchMaxBytes for each broker)
	// come on top. Defaults to sink.DefaultByteBudget.
	ByteBudget int
	// Lanes is the number of lanes that partitions are spread over, each with committers of its own. Defaults to 1.
	Lanes int
	// UntilEnd stops the bridge, with a checkpoint, once everything below the last stable offsets that it found at its start is
	// saved. Partitions that other members of the group hold are waited for.
	UntilEnd bool
	// HoldRetractions keeps readers of the sink from seeing a row vanish while it is updated. Flink's writers of retract encodings
	// (debezium-json and its like) write an update as two messages, a delete of the old row and an insert of the new one. Deletes
	// at the end of what was read of a partition therefore wait until a message of that partition puts a row there, but for Interval at most; a
	// checkpoint that is due meanwhile is cut before them, between two messages. A delete that nothing follows is so applied up to one
	// Interval later. At most 1,000 deletes in a row are held, and a 32nd of ByteBudget a lane. Defaults to HoldByMode:
	// on for tables whose mode holds -U.
	HoldRetractions HoldPolicy
	// Unordered accepts a topic of more than one partition for a table in retract mode whose records have no key (Input.NullKeys).
	// Flink spreads such records over the partitions of its writers, so the delete and the insert of an update can be read in any order,
	// and a row can be lost for good. Set it if each row's changes are in one partition in spite of that: records that have a
	// key which the table does not declare, as those of Debezium itself have. Defaults to false: refused at start.
	Unordered bool
	// Promise is the mode that the plan of the job writes (changelog/explain reads it of EXPLAIN CHANGELOG_MODE). A record of another kind, such as a delete in a topic of a job
	// that makes none, is then a data error, with which OnData deals: at the first one it is clear that another job writes to the topic, or that
	// the job was changed. An upsert topic does not tell an insert from an update, so a promise of [I] finds deletes there only. It sees
	// records before Filter does. Defaults to 0: what the format can carry is taken.
	Promise changelog.Mode
	// Filter lets only rows through that pass, as WHERE does. With Map it sees the rows before they are mapped. Defaults to nil: every row.
	Filter *Filter
	// Map makes rows of another table, as SELECT does; the sink gets that table. Defaults to nil: rows as they are decoded.
	Map *Mapping
	// HaltWhenFenced stops the bridge with an ErrFenced when another process has taken partitions over: after this one was stopped or cut off for
	// longer than its session lasts, or when positions were moved by hand. Nothing of what the ended generation had not saved becomes
	// visible either way. Set it where something else decides how often a process may come back. Defaults to false: the process joins the
	// group again and takes what that gives it; Hooks.Fenced tells.
	HaltWhenFenced bool
	// AllowMissedDeletes accepts that deletes of a compacted topic were compacted away unread, because the bridge was down for longer
	// than the topic keeps them (delete.retention.ms): their rows then stay in the target. Defaults to false: the bridge halts with an
	// ErrLost that says what to do.
	AllowMissedDeletes bool
	// SinkName is the name under which the sink's committables are stored; renaming it orphans what is not yet committed. It is New's: with
	// NewMany each Output has a name. Defaults to "sink".
	SinkName string
	// Target names what the sink writes to, in the fingerprint that tells this bridge from another of the same name. Defaults to the
	// sink's String method, else to its type, with the decoder's table; of several sinks, to all of them.
	Target string
	// Store decides. Defaults to the sink itself, where it can be its own store; with several sinks to the one that is, which excludes any
	// other store, else to what the first of them offers.
	Store sink.Store
	// AlarmAfter is the number of failed Commits in a row after which Hooks.Alarm is called. Defaults to 5.
	AlarmAfter int
	// StopAfter is the number of failed Commits in a row after which the bridge stops, with the error of the last. The checkpoint is decided: the
	// other sinks have it, the store keeps the receipt, and the next start commits it before anything else. Defaults to 0: the bridge goes on
	// trying for as long as it takes, keeps its place in the group, and reads nothing meanwhile: at most one decided checkpoint of a lane waits.
	StopAfter int
	// Owner names this process to people who look at the store. Defaults to host name and process number.
	Owner string
	// Grace bounds how long the end of a checkpoint is waited for when partitions are revoked or the bridge stops. Defaults to a third
	// of the group's rebalance timeout (so 20 s), which is also the most: a member that takes longer is thrown out of the group. A bridge that
	// stops while its sink or store fails again and again gives up before that.
	Grace time.Duration
	// Connect bounds how long the brokers may take to answer at start before Run gives up. Defaults to 15 s.
	Connect time.Duration
	// Watch is how often offsets and topic ids are asked for, for Status and for what no fetch shows. Defaults to 5 s.
	Watch time.Duration
	// OpenFor is how long a last stable offset may stand still below the end of its partition before Hooks.OpenTransaction tells of
	// it. Defaults to 1 min.
	OpenFor time.Duration
	// OnData says what happens with a message that cannot be decoded, or of which the sink refuses a change: see [DataPolicy]. Defaults to
	// Halt.
	OnData DataPolicy
	// DataBudget bounds how many messages one checkpoint sets aside or skips under OnData; each refused change of a message counts. One
	// more halts the bridge, with everything before it checkpointed: so many at once are more likely a wrong table definition than bad
	// messages. A bridge that is started again begins a budget anew: a supervisor that restarts it each time it halts sets all of them
	// aside after all, a budget's worth a time, so alert on the halt. What is set aside takes memory of ByteBudget, and so does not grow
	// with this number. Defaults to 100.
	DataBudget int
	// Hooks observe; see there.
	Hooks Hooks
	// Logger hears of assignments, retries and errors that pass. Defaults to silence.
	Logger *slog.Logger

	backoff func(n int) time.Duration // of the coordinators; for tests

	deletedAfter time.Duration // for tests
	longPause    time.Duration // for tests
	joiningAfter time.Duration // for tests

	// commitHint sends group offsets in place of kgo's own commit, which waits for a lock while the member joins the group: virtual time stands
	// still meanwhile, and with it the join. For tests.
	commitHint func(ctx context.Context, r *run, to map[changelog.Partition]hinted) error
}

// Hooks are called by a bridge, each optional. With more than one lane they are called from several goroutines at once; a hook that
// blocks blocks its lane, or the group's rebalance.
type Hooks struct {
	// Hooks of the coordinators. What a lane does between Assigned and Acquired is its own affair.
	sink.Hooks
	// Lane makes more hooks for one lane's coordinator, by its number from 0, where it matters which lane calls: each is called after the one
	// above. Lane itself is called once a lane in each Run.
	Lane func(n int) sink.Hooks
	// Started tells the guarantee of source, store and sink, before the first row.
	Started func(g sink.Guarantee)
	// Assigned and Revoked tell what the group gave and took. lost says that somebody else may own the partitions already.
	Assigned func(p []changelog.Partition)
	Revoked  func(p []changelog.Partition, lost bool)
	// DataError tells of a record that cannot be decoded, or of which the sink refused a change: once the checkpoint that sets it aside or
	// skips it is decided, and for the one at which the bridge halts once everything before it is.
	DataError func(err *changelog.DataError)
	// WentBack tells of a store that lost checkpoints which were decided, once for each partition and place that it fell back to.
	WentBack func(w WentBack)
	// OpenTransaction tells of a last stable offset that does not move, once for each such offset.
	OpenTransaction func(t OpenTransaction)
}

// withDefaults returns a copy of o with its zeros replaced, but for those that need a client.
func (o *Options) withDefaults(name string, ins []Input, outs []Output) Options {
	var d Options
	if o != nil {
		d = *o
	}
	for i := range ins {
		if d.Group == "" {
			d.Group = ins[i].Group
		}
	}
	if d.Group == "" {
		d.Group = name
	}
	set(&d.ByteBudget, sink.DefaultByteBudget)
	if pace := paceOf(outs); pace > 0 {
		set(&d.Interval, pace)
		set(&d.Changes, math.MaxInt)
		set(&d.Bytes, math.MaxInt)
	}
	set(&d.Interval, DefaultInterval)
	set(&d.Changes, DefaultChanges)
	set(&d.Bytes, d.ByteBudget/2)
	set(&d.Lanes, 1)
	set(&d.SinkName, DefaultSinkName)
	set(&d.Connect, DefaultConnect)
	set(&d.Watch, DefaultWatch)
	set(&d.OpenFor, DefaultOpenFor)
	set(&d.DataBudget, DefaultDataBudget)
	set(&d.deletedAfter, defaultDeletedAfter)
	set(&d.longPause, defaultLongPause)
	set(&d.joiningAfter, defaultJoiningAfter)
	if d.Target == "" {
		d.Target = targetOf(ins, outs)
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// paceOf is the interval of sinks that all prefer large checkpoints, 0 of others.
func paceOf(outs []Output) time.Duration {
	sinks := make([]sink.Sink, len(outs))
	for i := range outs {
		sinks[i] = outs[i].Sink
	}
	return sink.PaceOf(sinks...)
}

// targetOf names what the sinks write to. The order in which they are listed is no part of it.
func targetOf(ins []Input, outs []Output) string {
	var tables []string
	for i := range ins {
		if ins[i].Decoder == nil {
			return ""
		}
		if t := ins[i].Decoder.Table(); t != nil {
			tables = append(tables, " "+t.Name)
		}
	}
	slices.Sort(tables)
	var names []string
	for i := range outs {
		if outs[i].Sink == nil {
			return ""
		}
		name := fmt.Sprintf("%T", outs[i].Sink) + strings.Join(tables, "")
		if s, ok := outs[i].Sink.(fmt.Stringer); ok {
			name = s.String()
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, "; ")
}

// maxName bounds a bridge's name, which is a key in every store and a part of other names.
const maxName = 200

func set[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// check reports every contradiction in the settings at once.
func check(name string, ins []Input, outs []Output, o Options) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case name == "":
		bad("a bridge needs a name: everything it stores is keyed by it")
	case len(name) > maxName:
		bad("the bridge's name has %d bytes: %d are allowed", len(name), maxName)
	case !utf8.ValidString(name) || strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl):
		bad("the bridge's name %q has control characters, outer blanks or bytes that are no UTF-8: people have to type it", name)
	}
	if len(ins) == 0 {
		bad("the bridge has no Input: say what to read")
	}
	if len(outs) == 0 {
		bad("the bridge has no Output: say where to write")
	}
	for i := range ins {
		in := ins[i]
		which := ""
		if len(ins) > 1 {
			which = fmt.Sprintf("input %d: ", i)
		}
		in.check(func(format string, args ...any) { bad(which+format, args...) })
	}
	if slices.Contains(o.Client, nil) {
		bad("a client option is nil: leave it out")
	}
	checkMany(ins, outs, bad)
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Interval", int64(o.Interval)}, {"Changes", int64(o.Changes)}, {"Bytes", int64(o.Bytes)}, {"ByteBudget", int64(o.ByteBudget)},
		{"Lanes", int64(o.Lanes)}, {"Grace", int64(o.Grace)}, {"Connect", int64(o.Connect)}, {"Watch", int64(o.Watch)},
		{"OpenFor", int64(o.OpenFor)}, {"DataBudget", int64(o.DataBudget)}, {"AlarmAfter", int64(o.AlarmAfter)}, {"StopAfter", int64(o.StopAfter)},
	} {
		if n.value < 0 {
			bad("Options.%s is negative: leave it zero for its default", n.name)
		}
	}
	if o.HoldRetractions > HoldNever {
		bad("Options.HoldRetractions: %d is unknown, choose HoldByMode, HoldAlways or HoldNever", o.HoldRetractions)
	}
	if o.OnData > Skip {
		bad("Options.OnData: %d is unknown, choose Halt, DeadLetter or Skip", o.OnData)
	}
	if len(errs) > 0 {
		// The client's own complaints would be about what is missing above.
	} else if err := kgo.ValidateOpts(clientOptions(clientOf(ins), o, nil)...); err != nil {
		bad("client options: %w", err)
	}
	if len(errs) == 0 {
		return nil
	}
	return &sink.Error{Op: "new", Bridge: name, Class: sink.ErrConfig, Err: errors.Join(errs...)}
}

// check reports what is wrong with one input.
func (in *Input) check(bad func(format string, args ...any)) {
	switch {
	case in.Decoder == nil:
		bad("Input.Decoder is missing: pass the decoder of the table's format")
	case in.Decoder.Table() == nil || in.Decoder.Table().Schema == nil:
		bad("Input.Decoder has no table or no schema: its Table method must return both")
	}
	if slices.Contains(in.Client, nil) {
		bad("a client option is nil: leave it out")
	}
	switch {
	case len(in.Topics) == 0 && in.Pattern == "":
		bad("Input.Topics is empty: name the topics to read")
	case len(in.Topics) > 0 && in.Pattern != "":
		bad("Input.Topics and Input.Pattern are both set: choose one")
	}
	for i, t := range in.Topics {
		if t == "" || slices.Contains(in.Topics[:i], t) {
			bad("Input.Topics: %q is empty or listed twice", t)
		}
	}
	if _, err := regexp.Compile(in.Pattern); err != nil {
		bad("Input.Pattern: %w", err)
	}
	if in.Start.Mode == StartOffsets && len(in.Topics) > 1 {
		bad("Input.Start lists offsets by partition, which names no partition when %d topics are read: read one topic, or start otherwise", len(in.Topics))
	}
}
