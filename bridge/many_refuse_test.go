package bridge

import (
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestNewMany_Refuses(t *testing.T) {
	c := []kgo.Opt{kgo.SeedBrokers("here:1")}
	table := newRows().table
	texts := Input{Topics: []string{"texts"}, Decoder: texts{sinktest.Appended()}, Client: c}
	rows := Input{Topics: []string{"rows"}, Decoder: newRows(), Client: c}
	g := newTarget()
	out := []Output{{Name: "sink", Sink: g}}
	keep := &Filter{Keep: func(changelog.Row) bool { return true }}
	for name, x := range map[string]struct {
		ins  []Input
		outs []Output
		o    Options
		want string
	}{
		"nothing to read":     {nil, out, Options{}, "the bridge has no Input"},
		"nowhere to write":    {[]Input{texts}, nil, Options{}, "the bridge has no Output"},
		"no name":             {[]Input{texts}, []Output{{Sink: g}}, Options{}, "output 0 has no name"},
		"one name":            {[]Input{texts}, append(out, out...), Options{}, `two outputs are called "sink"`},
		"no sink":             {[]Input{texts}, append(out, Output{Name: "x"}), Options{}, `output "x" has no sink`},
		"one table":           {[]Input{texts, {Topics: []string{"x"}, Decoder: texts.Decoder}}, out, Options{}, "two inputs have a table called"},
		"one topic":           {[]Input{texts, {Topics: []string{"texts"}, Decoder: newRows()}}, out, Options{}, `topic "texts" is read by two inputs`},
		"two groups":          {[]Input{{Topics: []string{"texts"}, Decoder: texts.Decoder, Group: "a"}, {Topics: []string{"rows"}, Decoder: newRows(), Group: "b"}}, out, Options{}, "set Options.Group"},
		"two clusters":        {[]Input{texts, {Topics: []string{"rows"}, Decoder: newRows(), Client: []kgo.Opt{kgo.SeedBrokers("there:1")}}}, out, Options{}, "a bridge reads from one cluster"},
		"an unknown topic":    {[]Input{texts}, []Output{{Name: "x", Sink: g, Topics: []string{"rows"}}}, Options{}, `output "x" takes topic "rows", which no input reads`},
		"no topics":           {[]Input{texts}, []Output{{Name: "x", Sink: g, Topics: []string{}}}, Options{}, "Topics is empty"},
		"a filter of nothing": {[]Input{texts}, []Output{{Name: "x", Sink: g, Filters: map[string]*Filter{"rows": keep}}}, Options{}, `has a filter for table "rows", and no input has a table of this name`},
		"a filter of what is not taken": {[]Input{texts, rows}, []Output{{Name: "x", Sink: g, Topics: []string{"texts"}, Filters: map[string]*Filter{"rows": keep}}}, Options{},
			`has a filter for table "rows", and takes none of its topics`},
		"a filter without a function": {[]Input{rows}, []Output{{Name: "x", Sink: g, Filters: map[string]*Filter{"rows": {}}}}, Options{}, `Output.Filters["rows"].Keep is missing`},
		"a filter that is nil":        {[]Input{rows}, []Output{{Name: "x", Sink: g, Filters: map[string]*Filter{"rows": nil}}}, Options{}, "is nil: leave it out"},
		"one filter for two":          {[]Input{texts, rows}, out, Options{Filter: keep}, "set those of each Input"},
		"two filters":                 {[]Input{{Topics: []string{"rows"}, Decoder: newRows(), Filter: keep}}, out, Options{Filter: keep}, "set those of each Input"},
		"an input of nothing":         {[]Input{texts, {Decoder: newRows()}}, out, Options{}, "input 1: Input.Topics is empty"},
		"a filter that needs deletes": {[]Input{{Topics: []string{"rows"}, Client: c, Decoder: rows0{&changelog.Table{Name: "rows", Schema: table.Schema, Mode: changelog.Append | 1<<changelog.UpdateAfter}}}},
			[]Output{{Name: "x", Sink: g, Filters: map[string]*Filter{"rows": keep}}}, Options{}, "needs deletes"},
		"a negative number": {[]Input{texts}, out, Options{StopAfter: -1}, "Options.StopAfter is negative"},
	} {
		_, err := NewMany("test", x.ins, x.outs, &x.o)
		if !errors.Is(err, sink.ErrConfig) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
}

type rows0 struct{ table *changelog.Table }

func (d rows0) Table() *changelog.Table { return d.table }

func (d rows0) Decode(*changelog.Batch, *changelog.Record) error { return nil }

// The order in which inputs and outputs are listed is no part of what the bridge is, and the fingerprint of one input and one sink is as it always was.
func TestMany_Fingerprint(t *testing.T) {
	k := twoTopics(t, 1)
	g, own := newTarget(), sinktest.NewSink(sinktest.NewServer(), &sinktest.SinkOptions{InTransaction: true})
	print := func(ins []Input, outs []Output) string {
		b, err := NewMany("test", ins, outs, nil)
		if err != nil {
			t.Fatal(err)
		}
		return (&run{ins: b.ins, sinks: b.sinks, o: b.o}).fingerprint()
	}
	ins := k.inputs()
	a := print(ins, []Output{{Name: "g", Sink: g}, {Name: "o", Sink: own}})
	b := print([]Input{ins[1], ins[0]}, []Output{{Name: "o", Sink: own}, {Name: "g", Sink: g}})
	if a != b || a != "group=test topics=rows;texts target=*sinktest.Sink rows sinktest_append; memory" {
		t.Errorf("%q and %q", a, b)
	}
	if got := print(ins[:1], []Output{{Name: "o", Sink: own}}); got != "group=test topics=texts target=*sinktest.Sink sinktest_append" {
		t.Errorf("%q", got)
	}
}

// Before Run and while it runs, the guarantee is that of all sinks.
func TestMany_Guarantee(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	o := options(g)
	o.UntilEnd = true
	b, err := NewMany("test", []Input{k.input()}, []Output{{Name: "x", Sink: g}, {Name: "y", Sink: newTarget()}}, o)
	if err != nil {
		t.Fatal(err)
	}
	before := b.Guarantee().String()
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	if after := b.Guarantee().String(); after != before || !strings.Contains(after, "visible in x at commit, atomically, then in y at commit, atomically") {
		t.Errorf("before %q, after %q", before, after)
	}
}
