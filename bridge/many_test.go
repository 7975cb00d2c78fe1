package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// twoTopics is a broker with "texts", of a table without a key, and "rows", of a keyed one in retract mode.
func twoTopics(t *testing.T, partitions int32) *cluster {
	t.Helper()
	k := newCluster(t, partitions)
	if _, err := k.adm.CreateTopic(t.Context(), partitions, 1, nil, "rows"); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *cluster) putTo(topic string, p int32, values ...string) {
	k.t.Helper()
	was := k.topic
	k.topic = topic
	k.put(p, values...)
	k.topic = was
}

func (k *cluster) inputs() []Input {
	r := k.input()
	r.Topics, r.Decoder = []string{"rows"}, newRows()
	return []Input{k.input(), r}
}

// many starts a bridge of both topics.
func (k *cluster) many(to []Output, o *Options, change func(ins []Input)) *running {
	k.t.Helper()
	ins := k.inputs()
	if change != nil {
		change(ins)
	}
	b, err := NewMany("test", ins, to, o)
	if err != nil {
		k.t.Fatal(err)
	}
	return start(k.t, b)
}

// table returns the rows of a table as texts, sorted.
func (g *target) table(name string) []string {
	var out []string
	for _, r := range g.srv.Table(name) {
		out = append(out, fmt.Sprintf("%d %s", r[0].Int(), strings.Clone(r[1].Str())))
	}
	slices.Sort(out)
	return out
}

func wantRows(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// Two topics of two tables are written in one transaction, with the positions of both: at no moment does a reader see one without the other.
func TestMany_TwoTables(t *testing.T) {
	for _, lanes := range []int{1, 2} {
		k := twoTopics(t, 2)
		g := newTarget()
		var want []string
		for i := range 3000 {
			v := fmt.Sprintf("t%05d", i)
			want = append(want, v)
			k.cl.Produce(t.Context(), k.record(int32(i%2), v), nil)
		}
		for i := range 300 { // every row is updated, and every third deleted
			r := fmt.Sprintf("+I %d a", i)
			u := fmt.Sprintf("-U %d a, +U %d b", i, i)
			for _, v := range []string{r, u} {
				rec := k.record(int32(i%2), v)
				rec.Topic = "rows"
				k.cl.Produce(t.Context(), rec, nil)
			}
			if i%3 == 0 {
				rec := k.record(int32(i%2), fmt.Sprintf("-D %d b", i))
				rec.Topic = "rows"
				k.cl.Produce(t.Context(), rec, nil)
			}
		}
		if err := k.cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := options(g)
		o.Store = nil
		o.UntilEnd, o.Lanes, o.Changes = true, lanes, 100
		var sum sink.Counters
		r := k.many([]Output{{Name: "tx", Sink: sinktest.NewSink(g.srv, &sinktest.SinkOptions{InTransaction: true})}}, o, nil)
		if err := r.wait(); err != nil {
			t.Fatal(err)
		}
		sum = r.b.Status().Counters
		if got := g.values(); !slices.Equal(got, want) {
			t.Errorf("%d texts: %q", len(got), clip(got))
		}
		if n := len(g.srv.Table("rows")); n != 200 {
			t.Errorf("%d rows, want 200", n)
		}
		if !sum.Balanced() || sum.Read != 3000+300+600+100 || sum.Records != 3000+600+100 {
			t.Errorf("counted %+v", sum)
		}
		st, err := sinktest.NewStore(g.srv).Read(t.Context(), "test")
		if err != nil || len(st.Positions) != 4 || !strings.Contains(st.Fingerprint, "topics=rows;texts") {
			t.Errorf("stored %+v, %v", st, err)
		}
	}
}

// A topic of which a record comes now and then is not kept waiting by one that is busy.
func TestMany_QuietBesideBusy(t *testing.T) {
	k := twoTopics(t, 1)
	g := newTarget()
	r := k.many([]Output{{Name: "sink", Sink: g}}, options(g), nil)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				k.cl.Produce(t.Context(), &kgo.Record{Topic: "texts", Value: fmt.Appendf(nil, "t%06d", i)}, nil)
				if i%100 == 0 {
					_ = k.cl.Flush(t.Context())
				}
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for i := range 5 {
		k.putTo("rows", 0, fmt.Sprintf("+I %d a", i))
		until(t, "the quiet topic's row", func() bool { return len(g.srv.Table("rows")) == i+1 }, r)
	}
}

// Held deletes of two topics are released for themselves, each into a batch of its own table.
func TestMany_HeldRetractions(t *testing.T) {
	for _, end := range []bool{false, true} {
		k := twoTopics(t, 1)
		if _, err := k.adm.CreateTopic(t.Context(), 1, 1, nil, "more"); err != nil {
			t.Fatal(err)
		}
		g := newTarget()
		for _, topic := range []string{"rows", "more"} {
			k.putTo(topic, 0, "+I 1 a", "+I 2 b", "-D 1 a")
		}
		o := options(g)
		o.UntilEnd = end
		ins := k.inputs()
		more := newRows()
		more.table = &changelog.Table{Name: "more", Mode: changelog.Retract, Schema: more.table.Schema}
		ins = append(ins, Input{Topics: []string{"more"}, Decoder: more, Client: ins[0].Client})
		b, err := NewMany("test", ins, []Output{{Name: "sink", Sink: g}}, o)
		if err != nil {
			t.Fatal(err)
		}
		r := start(t, b)
		until(t, "both deletes", func() bool { return len(g.srv.Table("rows")) == 1 && len(g.srv.Table("more")) == 1 }, r)
		if end {
			if err := r.wait(); err != nil {
				t.Fatal(err)
			}
		}
		wantRows(t, "rows", g.table("rows"), "2 b")
		wantRows(t, "more", g.table("more"), "2 b")
	}
}

// Each sink is given its topics; what none takes is counted as skipped, and its positions move all the same.
func TestMany_Topics(t *testing.T) {
	k := twoTopics(t, 1)
	g, h := newTarget(), newTarget()
	k.put(0, "x", "y")
	k.putTo("rows", 0, "+I 1 a", "-U 1 a, +U 1 b")
	o := options(g)
	o.UntilEnd = true
	r := k.many([]Output{{Name: "g", Sink: g, Topics: []string{"rows"}}, {Name: "h", Sink: h, Topics: []string{"rows"}}}, o, nil)
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*target{g, h} {
		wantRows(t, "rows", x.table("rows"), "1 b")
		wantRows(t, "texts", x.values())
	}
	s := r.b.Status()
	if n := s.Counters; !n.Balanced() || n.Read != 5 || n.Applied != 3 || n.Skipped != 2 {
		t.Errorf("counted %+v", n)
	}
	if s.Lag() != 0 {
		t.Errorf("lag %d", s.Lag())
	}
}

// A topic of a table that is read from two, and a sink that takes one of them.
func TestMany_TopicsOfOneTable(t *testing.T) {
	k := twoTopics(t, 1)
	if _, err := k.adm.CreateTopic(t.Context(), 1, 1, nil, "texts-eu"); err != nil {
		t.Fatal(err)
	}
	g, h := newTarget(), newTarget()
	k.put(0, "us")
	k.putTo("texts-eu", 0, "eu")
	o := options(g)
	o.UntilEnd = true
	in := k.input()
	in.Topics, in.Pattern = nil, "texts.*"
	b, err := NewMany("test", []Input{in}, []Output{{Name: "all", Sink: g}, {Name: "eu", Sink: h, Topics: []string{"texts-eu"}}}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "all", g.values(), "eu", "us")
	wantRows(t, "eu", h.values(), "eu")
}

// Each sink holds the rows that pass its filter: a row that moves from one to the other is deleted where it was.
func TestMany_Filters(t *testing.T) {
	k := twoTopics(t, 1)
	g, h := newTarget(), newTarget()
	starts := func(with string) map[string]*Filter {
		return map[string]*Filter{"rows": {Keep: func(row changelog.Row) bool { return strings.HasPrefix(row[1].Str(), with) }}}
	}
	k.putTo("rows", 0, "+I 1 a1", "+I 2 b1", "+I 3 c1", "-U 1 a1, +U 1 b2", "-U 2 b1, +U 2 b3", "-U 3 c1, +U 3 a3", "-D 2 b3", "+I 2 a4")
	o := options(g)
	o.UntilEnd = true
	r := k.many([]Output{{Name: "a", Sink: g, Topics: []string{"rows"}, Filters: starts("a")}, {Name: "b", Sink: h, Topics: []string{"rows"}, Filters: starts("b")}}, o, nil)
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "a", g.table("rows"), "2 a4", "3 a3")
	wantRows(t, "b", h.table("rows"), "1 b2")
	if n := r.b.Status().Counters; !n.Balanced() || n.Read != 11 {
		t.Errorf("counted %+v", n)
	}
}

// What a filter looks at never changes: nobody is given deletes of rows that were never his, and what nobody takes is skipped.
func TestMany_FixedFilters(t *testing.T) {
	k := twoTopics(t, 1)
	g, h := newTarget(), newTarget()
	below := func(n, m int64) map[string]*Filter {
		return map[string]*Filter{"rows": {Reads: []string{"id"}, Keep: func(row changelog.Row) bool { return row[0].Int() >= n && row[0].Int() < m }}}
	}
	k.putTo("rows", 0, "+I 1 a", "+I 11 b", "+I 21 c", "-U 1 a, +U 1 d", "-D 21 c", "-D 11 b")
	o := options(g)
	o.UntilEnd = true
	r := k.many([]Output{{Name: "a", Sink: g, Filters: below(0, 10), Topics: []string{"rows"}}, {Name: "b", Sink: h, Filters: below(10, 20), Topics: []string{"rows"}}}, o, nil)
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "a", g.table("rows"), "1 d")
	wantRows(t, "b", h.table("rows"))
	if n := r.b.Status().Counters; !n.Balanced() || n.Read != 7 || n.Applied != 5 || n.Skipped != 2 {
		t.Errorf("counted %+v", n)
	}
	var given []int64
	for _, s := range r.b.Status().Lanes[0].Sinks {
		given = append(given, s.Given)
	}
	if !slices.Equal(given, []int64{3, 2}) {
		t.Errorf("given %v", given)
	}
}

// Each input has its own filter and mapping; what its filter drops is skipped.
func TestMany_TransformsOfInputs(t *testing.T) {
	k := twoTopics(t, 1)
	g := newTarget()
	k.put(0, "keep", "drop")
	k.putTo("rows", 0, "+I 1 a", "+I 2 b")
	o := options(g)
	o.UntilEnd = true
	r := k.many([]Output{{Name: "sink", Sink: g}}, o, func(ins []Input) {
		ins[0].Filter = &Filter{Keep: func(row changelog.Row) bool { return row[1].Str() == "keep" }}
		ins[1].Map = &Mapping{Name: "mapped", Schema: newRows().table.Schema, From: map[string]string{"id": "id"}}
	})
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "texts", g.values(), "keep")
	wantRows(t, "mapped", g.table("mapped"), "1 a", "2 b")
	if n := r.b.Status().Counters; !n.Balanced() || n.Read != 4 || n.Skipped != 1 {
		t.Errorf("counted %+v", n)
	}
}

// Behind the filter of an input, an output may have its own: what the first drops is skipped, what no output takes is too.
func TestMany_FilterBehindFilter(t *testing.T) {
	k := twoTopics(t, 1)
	g, h := newTarget(), newTarget()
	k.put(0, "a1", "b1", "c1", "a2", "d")
	o := options(g)
	o.UntilEnd = true
	in := k.input()
	in.Filter = &Filter{Keep: func(row changelog.Row) bool { return row[1].Str() != "a2" }}
	starts := func(with string) map[string]*Filter {
		return map[string]*Filter{sinktest.AppendTable: {Keep: func(row changelog.Row) bool { return strings.HasPrefix(row[1].Str(), with) }}}
	}
	b, err := NewMany("test", []Input{in}, []Output{{Name: "a", Sink: g, Filters: starts("a")}, {Name: "b", Sink: h, Filters: starts("b")}}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "a", g.values(), "a1")
	wantRows(t, "b", h.values(), "b1")
	if n := b.Status().Counters; !n.Balanced() || n.Read != 5 || n.Applied != 2 || n.Skipped != 3 {
		t.Errorf("counted %+v", n)
	}
}

// A message of one topic that cannot be decoded is set aside, or halts the bridge, with everything of the other topic saved.
func TestMany_BadData(t *testing.T) {
	for _, policy := range []DataPolicy{Halt, Skip} {
		k := twoTopics(t, 1)
		g := newTarget()
		k.put(0, "x", "y")
		k.putTo("rows", 0, "+I 1 a", "bad", "+I 2 b")
		o := options(g)
		o.UntilEnd, o.OnData = true, policy
		r := k.many([]Output{{Name: "sink", Sink: g}}, o, nil)
		err := r.wait()
		var de *changelog.DataError
		switch policy {
		case Halt:
			if !errors.As(err, &de) || de.Topic != "rows" || de.Offset != 1 {
				t.Errorf("got %v", err)
			}
			wantRows(t, "rows", g.table("rows"), "1 a")
		case Skip:
			if err != nil {
				t.Error(err)
			}
			wantRows(t, "rows", g.table("rows"), "1 a", "2 b")
			wantRows(t, "texts", g.values(), "x", "y")
			if n := r.b.Status().Counters; !n.Balanced() || n.Skipped != 1 {
				t.Errorf("counted %+v", n)
			}
		}
	}
}

// The status says of each sink what it prepared, what is decided and committed, and for how long something waits.
func TestMany_Status(t *testing.T) {
	k, g, h := newCluster(t, 1), newTarget(), &stuck{target: newTarget()}
	k.put(0, "a")
	h.fail.Store(true)
	o := options(g)
	o.backoff = func(int) time.Duration { return time.Millisecond }
	o.AlarmAfter = 3
	b, err := NewMany("test", []Input{k.input()}, []Output{{Name: "good", Sink: g}, {Name: "stuck", Sink: h}}, o)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	until(t, "an alarm", func() bool { s := b.Status(); return len(s.Lanes) == 1 && s.Lanes[0].Uncommitted != nil }, r)
	s := b.Status().Lanes[0].Sinks
	if len(s) != 2 || s[0].Sink != "good" || s[1].Sink != "stuck" {
		t.Fatalf("%+v", s)
	}
	good, bad := s[0], s[1]
	if good.Decided.Checkpoint == 0 || good.Decided.Checkpoint != good.Committed.Checkpoint || good.Pending != 0 || good.Waiting() != 0 || good.Err != nil || good.Given != 1 {
		t.Errorf("good: %+v", good)
	}
	if bad.Prepared.Checkpoint != good.Prepared.Checkpoint || bad.Decided.Checkpoint != good.Decided.Checkpoint || bad.Committed.Checkpoint == bad.Decided.Checkpoint ||
		bad.Pending != 1 || bad.Since.IsZero() || bad.Waiting() <= 0 || bad.Err == nil || !strings.Contains(bad.Err.Error(), "stuck") {
		t.Errorf("stuck: %+v", bad)
	}
	g.wantValues(t, []string{"a"}, r)
	h.fail.Store(false)
	h.wantValues(t, []string{"a"}, r)
	until(t, "the commit", func() bool {
		s := b.Status().Lanes[0].Sinks[1]
		return s.Pending == 0 && s.Since.IsZero() && s.Err == nil && s.Committed.Checkpoint == s.Decided.Checkpoint
	}, r)
	r.end()
}

// StopAfter ends the bridge with what is decided left in the store. The next run shows it as pending, settles it, and reads on.
func TestMany_StopAfter(t *testing.T) {
	k, g, h := newCluster(t, 1), newTarget(), &stuck{target: newTarget()}
	k.put(0, "a")
	h.fail.Store(true)
	o := options(g)
	o.backoff = func(int) time.Duration { return time.Millisecond }
	o.StopAfter = 3
	var alarms []int
	o.AlarmAfter = 2
	o.Hooks.Alarm = func(_ error, n int) { alarms = append(alarms, n) }
	to := []Output{{Name: "good", Sink: g}, {Name: "stuck", Sink: h}}
	b, err := NewMany("test", []Input{k.input()}, to, o)
	if err != nil {
		t.Fatal(err)
	}
	err = start(t, b).wait()
	if err == nil || !strings.Contains(err.Error(), "given up after 3 tries (StopAfter)") {
		t.Fatalf("got %v", err)
	}
	if !slices.Equal(alarms, []int{2, 3}) {
		t.Errorf("alarms %v", alarms)
	}
	g.wantValues(t, []string{"a"})
	if got := h.values(); len(got) > 0 {
		t.Errorf("the stuck sink shows %q", got)
	}
	k.put(0, "b")
	h.fail.Store(false)
	var first []string
	o.Hooks.Step = func(s sink.SinkStep) {
		if s.Sink == "stuck" && s.Kind == sink.SinkOpened {
			first = h.values()
		}
	}
	if b, err = NewMany("test", []Input{k.input()}, to, o); err != nil {
		t.Fatal(err)
	}
	r := start(t, b)
	h.wantValues(t, []string{"a", "b"}, r)
	g.wantValues(t, []string{"a", "b"}, r)
	r.end()
	wantRows(t, "when it was opened, the stuck sink", first, "a")
}

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

func (d rows0) Table() *changelog.Table                          { return d.table }
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
