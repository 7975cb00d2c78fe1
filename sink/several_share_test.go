package sink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// parted is a lane of two sinks of which each is given a part.
func parted(t *testing.T, share0, share1 func(b *changelog.Batch, i int) sink.Share) (*several, sink.Counters) {
	w := newSeveral(t, []kept{staged(), index()}, false)
	w.o.Sinks = []sink.Declared{{Share: share0}, {Share: share1}}
	if err, _ := w.life(t.Context(), sinktest.Faulty()); err != nil {
		t.Fatal(err)
	}
	var n sink.Counters
	for _, r := range w.reports {
		n = n.Add(r.Counters)
	}
	if !n.Balanced() {
		t.Errorf("%+v is not balanced", n)
	}
	return w, n
}

// Each sink holds its rows; what no sink takes is counted as skipped.
func TestSeveral_Share(t *testing.T) {
	only := func(id int64) func(b *changelog.Batch, i int) sink.Share {
		return func(b *changelog.Batch, i int) sink.Share {
			if b.Changes[i].Row[0].Int() == id {
				return sink.ShareAll
			}
			return sink.ShareNone
		}
	}
	w, n := parted(t, only(1), only(2))
	if got := fmt.Sprint(w.sinks[0].rows(), w.sinks[1].rows()); got != "[{1 c}] [{2 e}]" {
		t.Errorf("the sinks hold %s", got)
	}
	if n.Read != 8 || n.Applied != 6 || n.Skipped != 2 { // +I and -D of row 3
		t.Errorf("counted %+v", n)
	}

	// Rows of which the text says where they belong: a row that leaves a sink is deleted there.
	vowel := func(want bool) func(b *changelog.Batch, i int) sink.Share {
		return func(b *changelog.Batch, i int) sink.Share {
			c := b.Changes[i]
			if !c.Kind.Adds() || strings.ContainsAny(c.Row[1].Str(), "ae") == want {
				return sink.ShareAll
			}
			return sink.ShareDelete
		}
	}
	w, n = parted(t, vowel(true), vowel(false))
	if got := fmt.Sprint(w.sinks[0].rows(), w.sinks[1].rows()); got != "[{2 e}] [{1 c}]" {
		t.Errorf("the sinks hold %s", got)
	}
	if n.Applied != 8 || n.Skipped != 0 {
		t.Errorf("counted %+v", n)
	}
}

// voids is a sink whose committer says that it passed over so many changes of each checkpoint.
type voids struct {
	sink.Sink
	n int64
}

func (v voids) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := v.Sink.Lane(ctx, l)
	return voidsLane{c, v.n}, err
}

type voidsLane struct {
	sink.Committer
	n int64
}

func (v voidsLane) Superseded() int64 { return v.n }

// A change counts as superseded where no sink wrote it by itself; where sinks are given parts, what they passed over is not taken out.
func TestSeveral_Superseded(t *testing.T) {
	all := func(*changelog.Batch, int) sink.Share { return sink.ShareAll }
	for name, c := range map[string]struct {
		voids []int64
		share func(*changelog.Batch, int) sink.Share
		want  int64
	}{
		"the smallest number":   {[]int64{2, 1}, nil, 1},
		"one that passes none":  {[]int64{2, 0}, nil, 0},
		"one is given a part":   {[]int64{2, 1}, all, 0},
		"a single one, a part":  {[]int64{2}, all, 2},
		"a single one, the lot": {[]int64{2}, nil, 2},
	} {
		srv := sinktest.NewServer()
		table := sinktest.Appended()
		var got sink.Counters
		passed := map[string]int64{}
		o := sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: sinktest.NewStore(srv),
			Hooks: sink.Hooks{Saved: func(r sink.Report) { got = r.Counters }, Step: func(s sink.SinkStep) {
				if s.Kind == sink.SinkPrepared && s.Given > 0 {
					passed[s.Sink] = s.Superseded
				}
			}}}
		for i, n := range c.voids {
			o.Sinks = append(o.Sinks, sink.Declared{Name: fmt.Sprint(i), Sink: voids{sinktest.NewSink(srv, nil), n}})
		}
		o.Sinks[0].Share = c.share
		co, err := sink.NewCoordinator(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := co.Assign(t.Context(), []changelog.Partition{zero}); err != nil {
			t.Fatal(err)
		}
		b, p := batchOf(table, 0, 5)
		if err := co.Write(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
		if _, err := co.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !got.Balanced() || got.Read != 5 || got.Superseded != c.want || got.Applied != 5-c.want {
			t.Errorf("%s: %+v", name, got)
		}
		for i, n := range c.voids {
			if passed[fmt.Sprint(i)] != n {
				t.Errorf("%s: the steps tell %v", name, passed)
			}
		}
	}
}

// The guarantee of several sinks is that of the weakest, names it, and says of each sink what a reader may see when.
func TestCombine(t *testing.T) {
	rows, files := staged().sink(new(bool)), ownStore().sink(new(bool))
	for name, c := range map[string]struct {
		sinks []sink.Declared
		level sink.Level
		want  []string
		not   string
	}{
		"one": {[]sink.Declared{{Name: "rows", Sink: rows}}, sink.ExactlyOnce, []string{"at commit, atomically"}, "one decision"},
		"two": {[]sink.Declared{{Name: "rows", Sink: rows}, {Name: "files", Sink: files}}, sink.ExactlyOnce,
			[]string{"exactly once: one decision for 2 sinks", "visible in rows at commit, atomically, then in files at commit, atomically"}, "weakest"},
		"an early one": {[]sink.Declared{{Name: "search", Sink: newEarly()}, {Name: "rows", Sink: rows}}, sink.Convergent,
			[]string{"convergent: one decision for 2 sinks", "in rows at commit, atomically, then in search early; converges (placed last: once the others have prepared, and before any of them shows it)",
				"weakest link: sink search: it has no transactions; cure: read elsewhere", "search refused where stale"}, ""},
		"an eager one": {[]sink.Declared{{Name: "search", Sink: newEarly(), Eager: true}, {Name: "rows", Sink: rows}}, sink.Convergent,
			[]string{"in search early; converges (what the others then refuse or fail to prepare has been seen), then in rows at commit"}, "placed last"},
		"none": {nil, 0, nil, "decision"},
	} {
		g := sink.Combine(c.sinks...)
		for _, want := range c.want {
			if !strings.Contains(g.String(), want) {
				t.Errorf("%s: %q does not say %q", name, g, want)
			}
		}
		if g.Level != c.level || c.not != "" && strings.Contains(g.String(), c.not) {
			t.Errorf("%s: %s", name, g)
		}
	}
}

func TestSeveral_RefusesWhatCannotWork(t *testing.T) {
	srv := sinktest.NewServer()
	two := sinktest.NewSink(srv, nil)
	table := sinktest.Appended()
	for name, d := range map[string]sink.Declared{
		"no table":       {Name: "s", Sink: two, Tables: []*changelog.Table{}},
		"a strange one":  {Name: "s", Sink: two, Tables: []*changelog.Table{sinktest.Keyed()}},
		"nothing at all": {},
	} {
		o := sink.Options{Bridge: "b", Source: &seekable{}, Tables: []*changelog.Table{table}, Store: sinktest.NewStore(srv), Sinks: []sink.Declared{d}}
		if _, err := sink.NewCoordinator(t.Context(), o); !errors.Is(err, sink.ErrConfig) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
