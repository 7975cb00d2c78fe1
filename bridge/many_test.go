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
