package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// This file compares a target with the topic, and mends it.
//
// What is compared. The target is looked at as it is at one moment (sink.View), together with the positions up to which the bridge had written by
// then. The topic below these positions says which rows there should be: the last change of each key. What comes after them says nothing, so a
// bridge may run meanwhile. Where positions and rows are not of one moment (the store is another system), the target may hold later changes too; all
// of those are in the topic by then, since a bridge writes only what it has read, so the keys that have changes between the positions and the end
// of the topic are left out, and counted.
//
// How. The topic is read once for the last change of each key, of which its place alone is kept (some 80 bytes a key, whatever the row holds), and once
// more for the rows that are in these places, which the target compares as they come. Keys that do not fit into the memory that is allowed are dealt
// with in further passes, by ranges of their hash; a hash of 128 bits of which two keys would have to share one is taken for the key. What the target
// has beyond all these rows is extra.

// VerifyOptions are the settings of [Verify] and [Repair], beside those of the bridge. nil and the zero value are the defaults.
type VerifyOptions struct {
	// Memory bounds what is kept of keys, in bytes. With more keys the topic is read several times. Defaults to 256 MiB, some 3 million keys.
	Memory int
	// From says where the bridge began to read, where Input.Start is not the earliest offset: rows of what lies before are not expected.
	From []changelog.Position
	// Found is told of each difference, in no order; of Repair before it is mended. The rows in it are valid during the call. It holds values of rows.
	Found func(d sink.Difference)
	// Keys asks for Difference.Key.
	Keys bool
	// Progress is told now and then how far the topic is read.
	Progress func(p VerifyProgress)
	// Why is written into the audit of a Repair.
	Why string
}

// VerifyProgress says how far a comparison is.
type VerifyProgress struct {
	Pass    int    // from 1
	Step    string // what is being done
	Records int64  // messages read in this step
	Of      int64  // offsets to read in it, an upper bound of Records; 0: unknown
	Found   int64  // differences so far
}

// VerifyReport is the outcome of a comparison.
type VerifyReport struct {
	Positions  []changelog.Position // below which the topic was compared
	Exact      bool                 // the target is of the moment of these positions
	Keys       int64                // rows that the topic has
	Missing    int64                // of them, not in the target
	Stale      int64                // of them, different in the target
	Extra      int64                // rows of the target that the topic has not
	Moving     int64                // keys that were changing, and were left out
	Unwritable int64                // rows that the target cannot take: what it holds instead is not judged
	Unreadable int64                // messages that cannot be decoded: what they would have changed is not judged
	Passes     int
	NoExtra    string // why extra rows were not looked for; "": they were
	Mended     sink.Mended
	// First are the first differences by kind, at most 20 of each, as the positions of the changes that the rows are of. Of extra rows there are none.
	First map[sink.DifferenceKind][]changelog.Position
}

// Clean reports that no difference was found.
func (r *VerifyReport) Clean() bool { return r.Missing+r.Stale+r.Extra == 0 }

// firstPositions is how many positions a report keeps of each kind.
const firstPositions = 20

const (
	defaultVerifyMemory = 256 << 20
	keyBytes            = 80 // a key in the map of the last changes, and the place in the list of places
)

// Verify compares the target of a bridge with its topic: the last row of each key, up to the bridge's stored positions, with the rows that are there. It
// changes nothing, and the bridge may run meanwhile. name, in, to and o are what the bridge is made of. A bridge of several inputs or outputs is verified
// for each pair of them; then o names the sink (SinkName) and the store.
//
// What the table alone knows is not compared: columns that no source column goes into, and values that the source did not send with the last change of a row
// ([changelog.Value].IsUnchanged). A row whose last change was set aside or skipped (Options.OnData) differs.
//
// Extra rows can only be told where the topic still has all of its rows: see VerifyReport.NoExtra.
//
// The error is an ErrConfig where something cannot be compared, such as a table without a key, and else what a bridge would say.
func Verify(ctx context.Context, name string, in Input, to sink.Verifiable, o *Options, v *VerifyOptions) (VerifyReport, error) {
	return verify(ctx, name, in, to, o, v, false)
}

// Repair is Verify and mends what it finds: missing and stale rows are written again from the topic, extra rows are deleted, each only if it is
// still as it was seen, in transactions of at most 1,000 rows, each with a row in the audit of the store. Each of them makes sure that the bridge is
// still where it was, and ends its generations, so the bridge has to be stopped, or to have nothing to read. If it went on, the rest is an ErrTransient:
// what was mended stays, and the next Repair finds what is left.
//
// A row that the target refuses may have waited for one that was mended after it, such as an extra row with its unique value. So where some were refused and
// others mended, all is compared and mended once more; of that the report has what was mended, and what is refused now.
func Repair(ctx context.Context, name string, in Input, to sink.Verifiable, o *Options, v *VerifyOptions) (VerifyReport, error) {
	r, err := verify(ctx, name, in, to, o, v, true)
	if m := r.Mended; err == nil && m.Refused > 0 && m.Written+m.Deleted > 0 {
		var more VerifyOptions
		if v != nil {
			more = *v
		}
		more.Found = nil // which was told of what is left
		var again VerifyReport
		if again, err = verify(ctx, name, in, to, o, &more, true); err == nil {
			m.Refused, m.Changed = 0, 0
		}
		r.Mended = m.Add(again.Mended)
	}
	return r, err
}

func verify(ctx context.Context, name string, in Input, to sink.Verifiable, o *Options, v *VerifyOptions, mend bool) (VerifyReport, error) {
	c := &comparison{mend: mend, report: VerifyReport{First: make(map[sink.DifferenceKind][]changelog.Position)}}
	if v != nil {
		c.v = *v
	}
	set(&c.v.Memory, defaultVerifyMemory)
	err := c.run(ctx, name, in, to, o)
	if err != nil {
		op := "verify"
		if mend {
			op = "repair"
		}
		var e *sink.Error
		if !errors.As(err, &e) {
			err = &sink.Error{Op: op, Bridge: name, Class: sink.ErrTransient, Err: err}
		}
	}
	return c.report, err
}

// comparison is one Verify or Repair.
type comparison struct {
	v      VerifyOptions
	mend   bool
	report VerifyReport

	r       *run
	in      Input
	view    sink.View
	rules   sink.ViewRules
	parts   []changelog.Partition // in the order of positions
	from    []int64               // where each is read from
	to      []int64               // where the positions are
	moving  map[hash]struct{}
	wrong   map[changelog.Position]struct{} // messages that cannot be decoded, so that none is counted twice
	next    uint64                          // where the keys of the next pass begin
	leaders map[string]topic
	now     VerifyProgress
	scratch []byte
}

func (c *comparison) config(format string, args ...any) error {
	op := "verify"
	if c.mend {
		op = "repair"
	}
	return &sink.Error{Op: op, Bridge: c.r.name, Class: sink.ErrConfig, Err: fmt.Errorf(format, args...)}
}

func (c *comparison) run(ctx context.Context, name string, in Input, to sink.Verifiable, o *Options) error {
	ins, err := prepared(name, []Input{in}, o)
	if err != nil {
		return err
	}
	d := o.withDefaults(name, ins, nil)
	c.in = ins[0]
	c.r = &run{name: name, ins: ins, o: d, log: d.Logger, dialed: new(dialed)}
	switch {
	case name == "":
		return c.config("a bridge has to be named: its positions say how far the target is")
	case to == nil:
		return c.config("no sink is given")
	case c.in.Decoder == nil || c.in.Decoder.Table() == nil || c.in.Decoder.Table().Schema == nil:
		return c.config("Input.Decoder is missing, or has no table")
	case len(c.in.Decoder.Table().Schema.Key) == 0:
		return c.config("table %q has no key, so no row can be looked for: compare the number of rows, or load the topic into another table", c.in.Decoder.Table().Name)
	case c.v.Memory < 1<<20:
		return c.config("VerifyOptions.Memory is %d: it has to be 1 MiB or more", c.v.Memory)
	case c.in.Start.Mode != StartEarliest && len(c.v.From) == 0:
		return c.config("Input.Start is %s, so rows from before that are not expected, and nobody knows which those are: name the positions at which the bridge began in VerifyOptions.From", c.in.Start.Mode)
	}
	cl, err := kgo.NewClient(append(slices.Concat([]kgo.Opt{kgo.ClientID("flinksink")}, c.in.Client, d.Client), kgo.WithHooks(c.r.dialed))...)
	if err != nil {
		return c.config("%w", err)
	}
	defer cl.Close()
	c.r.cl, c.r.adm = cl, kadm.NewClient(cl)
	c.r.f = &fetcher{r: c.r, cl: cl, adm: c.r.adm}
	topics, err := c.r.connect(ctx)
	if err != nil {
		return err
	}
	req := sink.ViewRequest{Bridge: name, Sink: d.SinkName, Table: c.in.Decoder.Table(), Keys: c.v.Keys, Why: c.v.Why}
	if d.Store != nil {
		if err := c.stored(ctx, &req, to); err != nil {
			return err
		}
	}
	if c.view, err = to.View(ctx, req); err != nil {
		return err
	}
	defer c.view.Close(context.WithoutCancel(ctx))
	c.rules = c.view.Rules()
	if err := c.bounds(ctx, topics); err != nil {
		return err
	}
	if !c.report.Exact {
		if err := c.leaveOut(ctx); err != nil {
			return err
		}
	}
	for width := ^uint64(0); ; {
		c.report.Passes++
		last, err := c.pass(ctx, &width)
		if err != nil || last {
			return err
		}
	}
}

// writesTo returns the targets of a bridge that are of the kind of name, the first word, where name is none of them; else "". See targetOf.
func writesTo(fingerprint, name string) string {
	_, targets, _ := strings.Cut(fingerprint, " target=")
	targets, _, _ = strings.Cut(targets, ` into "`) // what the Postgres store adds
	kind, _, _ := strings.Cut(name, " ")
	var others []string
	for target := range strings.SplitSeq(targets, "; ") {
		switch {
		case target == name:
			return ""
		case strings.HasPrefix(target, kind+" "):
			others = append(others, target)
		}
	}
	return strings.Join(others, " and ")
}

// stored asks the store where the bridge is.
func (c *comparison) stored(ctx context.Context, req *sink.ViewRequest, to sink.Verifiable) error {
	st, err := c.r.o.Store.Read(ctx, c.r.name)
	if err != nil {
		return err
	}
	if len(st.Positions) == 0 {
		return c.config("the store has no positions of bridge %q: correct the name, or Options.Store", c.r.name)
	}
	if s, ok := to.(fmt.Stringer); ok {
		if other := writesTo(st.Fingerprint, s.String()); other != "" {
			return c.config("the bridge writes to %s, and not to %s, whose rows would be taken for differences: name what it writes to, or the bridge that writes there", other, s)
		}
	}
	req.Incarnation = st.Incarnation
	for _, p := range st.Positions {
		req.Positions = append(req.Positions, p.Position)
	}
	for _, p := range st.Pending {
		if p.Sink == req.Sink {
			req.Pending = append(req.Pending, p)
		}
	}
	return nil
}

// bounds compares the positions with the topic.
func (c *comparison) bounds(ctx context.Context, topics map[string]int) error {
	positions, exact := c.view.Cut()
	c.report.Exact = exact
	c.report.NoExtra = c.rules.NoExtra
	var others []string
	for _, p := range positions {
		if n, ok := topics[p.Topic]; ok && int(p.Partition.Partition) < n {
			c.report.Positions = append(c.report.Positions, p)
			c.parts = append(c.parts, p.Partition)
		} else if !slices.Contains(others, p.Topic) {
			others = append(others, p.Topic)
		}
	}
	if len(c.parts) == 0 {
		return c.config("bridge %q has positions of topics %s only, none of them of this table: correct the name of the bridge, or 'topic'", c.r.name, strings.Join(others, ", "))
	}
	var names []string
	for n := range topics {
		names = append(names, n)
	}
	var starts, ends kadm.ListedOffsets
	var ids map[string]changelog.TopicID
	err := c.asking(ctx, func(ctx context.Context) (err error) {
		if starts, err = listed(c.r.adm.ListStartOffsets(ctx, names...))(c.parts); err != nil {
			return err
		}
		if ends, err = listed(c.r.adm.ListCommittedOffsets(ctx, names...))(c.parts); err != nil {
			return err
		}
		ids, err = c.r.f.topicIDs(ctx, names)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range c.report.Positions {
		start, _ := starts.Lookup(p.Topic, p.Partition.Partition)
		end, _ := ends.Lookup(p.Topic, p.Partition.Partition)
		if id := ids[p.Topic]; p.TopicID != (changelog.TopicID{}) && id != (changelog.TopicID{}) && p.TopicID != id {
			return c.r.lost("verify", p, recreated(p, id))
		}
		if p.Offset > end.Offset {
			return c.r.lost("verify", p, outOfRange(p, start.Offset, end.Offset))
		}
		from, began := start.Offset, int64(0)
		for _, f := range c.v.From {
			if f.Partition == p.Partition {
				from, began = max(from, f.Offset), f.Offset
			}
		}
		if start.Offset > began && c.report.NoExtra == "" {
			c.report.NoExtra = fmt.Sprintf("%s begins at offset %d: the topic does not have all rows any more", p.Partition, start.Offset)
		}
		c.from, c.to = append(c.from, from), append(c.to, p.Offset)
	}
	return nil
}

// asking asks brokers until they answer, for as long as Options.Connect says.
func (c *comparison) asking(ctx context.Context, f func(ctx context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, c.r.o.Connect)
	defer cancel()
	err := retry(bounded, func() error { return f(bounded) })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// found counts differences, tells of them, and mends them.
func (c *comparison) found(ctx context.Context, ds []sink.Difference) error {
	mendable := ds[:0:0]
	for i := range ds {
		d := &ds[i]
		switch d.Kind {
		case sink.Missing:
			c.report.Missing++
		case sink.Stale:
			c.report.Stale++
		case sink.Extra:
			c.report.Extra++
		default:
			c.report.Unwritable++
		}
		if first := c.report.First[d.Kind]; d.Kind != sink.Extra && len(first) < firstPositions {
			c.report.First[d.Kind] = append(first, changelog.Position{Partition: d.Change.Partition, Offset: d.Change.Offset, LeaderEpoch: -1})
		}
		if c.v.Keys && d.Kind != sink.Extra {
			d.Key = keyText(c.in.Decoder.Table().Schema, d.Change.Row)
		}
		if c.v.Found != nil {
			c.v.Found(*d)
		}
		if d.Kind != sink.Unwritable {
			mendable = append(mendable, *d)
		}
	}
	c.now.Found = c.report.Missing + c.report.Stale + c.report.Extra
	if !c.mend {
		return nil
	}
	for part := range slices.Chunk(mendable, mendRows) {
		m, err := c.view.Mend(ctx, part)
		c.report.Mended = c.report.Mended.Add(m)
		if err != nil {
			return err
		}
	}
	return nil
}

// mendRows is how many rows one transaction mends.
const mendRows = 1000

// keyText prints the key of a row in the manner of a row of SQL.
func keyText(s *changelog.Schema, row changelog.Row) string {
	b := []byte{'('}
	for i, k := range s.Key {
		if i > 0 {
			b = append(b, ',')
		}
		b = changelog.AppendText(b, &s.Columns[k].Type, row[k])
	}
	return string(append(b, ')'))
}
