package bridge

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// rows decodes messages such as "-U 1 a, +U 1 b" into the changes of a keyed table; "none" holds no change.
type rows struct{ table *changelog.Table }

func newRows() rows {
	return rows{&changelog.Table{Name: "rows", Mode: changelog.Retract, Schema: &changelog.Schema{
		Columns: []changelog.Column{
			{Name: "id", Type: changelog.Type{Root: changelog.RootBigInt, NotNull: true}},
			{Name: "v", Type: changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}}},
		Key: []int{0}}}}
}

func (d rows) Table() *changelog.Table { return d.table }

func (d rows) Decode(b *changelog.Batch, r *changelog.Record) error {
	switch string(r.Value) {
	case "none":
		return nil
	case "bad":
		return &changelog.DataError{Partition: r.Partition, Offset: r.Offset, Reason: "is bad"}
	}
	b.Pin(len(r.Value))
	for i, one := range strings.Split(string(r.Value), ", ") {
		f := strings.Fields(one)
		kind, err := changelog.ParseKind(f[0])
		if err != nil {
			return err
		}
		var id int64
		if _, err := fmt.Sscan(f[1], &id); err != nil {
			return err
		}
		row := b.NewRow()
		row[0], row[1] = changelog.IntValue(id), changelog.StringValue(f[2])
		b.Append(changelog.Change{Partition: r.Partition, Offset: r.Offset, Index: int32(i), Kind: kind, Row: row})
	}
	return nil
}

// watched is a bridge over rows, with what its readers saw after each checkpoint.
type watched struct {
	*running
	k *cluster
	g *target

	mu     sync.Mutex
	states [][]string
}

// watch starts a bridge whose interval never comes, and that makes a checkpoint after every load.
func watch(t *testing.T, k *cluster, g *target, change func(o *Options)) *watched {
	t.Helper()
	w := &watched{k: k, g: g}
	o := options(g)
	o.Interval = time.Hour
	o.Changes = 1
	o.Hooks.Committed = func(sink.Report) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.states = append(w.states, g.rows())
	}
	if change != nil {
		change(o)
	}
	b, err := New("test", Input{Topics: []string{k.topic}, Decoder: newRows(), Client: []kgo.Opt{kgo.SeedBrokers(k.addr)}}, g, o)
	if err != nil {
		t.Fatal(err)
	}
	w.running = start(t, b)
	t.Cleanup(func() {
		w.stop()
		<-w.done
		for _, l := range b.cur.lanes {
			sum := 0
			for _, x := range l.tails {
				sum += x.bytes
			}
			if sum != l.tailBytes || len(l.tails) == 0 && l.tailBytes != 0 {
				t.Errorf("lane %d counts %d bytes of tails, and holds %d in %d", l.n, l.tailBytes, sum, len(l.tails))
			}
		}
	})
	return w
}

// rows returns the visible rows as texts such as "1 a".
func (g *target) rows() []string {
	out := []string{}
	for _, r := range g.srv.Table("rows") {
		out = append(out, fmt.Sprintf("%d %s", r[0].Int(), r[1].Str()))
	}
	slices.Sort(out)
	return out
}

func (w *watched) sees(want ...string) {
	w.t.Helper()
	until(w.t, fmt.Sprintf("rows %q", want), func() bool { return slices.Equal(w.g.rows(), want) }, w.running)
}

// putSeen puts messages into a partition and waits until all that was put there before is on its way to the lane, in this order.
func (w *watched) putSeen(p int32, values ...string) {
	w.t.Helper()
	w.k.put(p, values...)
	ends, err := w.k.adm.ListEndOffsets(w.t.Context(), w.k.topic)
	if err != nil {
		w.t.Fatal(err)
	}
	end, _ := ends.Lookup(w.k.topic, p)
	until(w.t, "the message to be fetched", func() bool {
		if len(w.b.Status().Partitions) == 0 {
			return false
		}
		f := w.b.cur.f
		f.mu.Lock()
		defer f.mu.Unlock()
		part := f.parts[changelog.Partition{Topic: w.k.topic, Partition: p}]
		return part != nil && part.next >= end.Offset
	}, w.running)
}

// never demands that each state holds a row of each of these ids, from the first on that did.
func (w *watched) neverLack(ids ...int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		there := false
		for _, s := range w.states {
			has := slices.ContainsFunc(s, func(r string) bool { return strings.HasPrefix(r, fmt.Sprint(id, " ")) })
			if there && !has {
				w.t.Fatalf("row %d was not there in between: %q", id, w.states)
			}
			there = there || has
		}
		if !there {
			w.t.Fatalf("row %d was never there", id)
		}
	}
}

// held brings a row of partition 0 into the table, has its delete held, and proves that the lane is past it: partition 1 goes on.
func (w *watched) held() {
	w.t.Helper()
	w.putSeen(0, "+I 1 a")
	w.sees("1 a")
	w.putSeen(0, "-D 1 a")
	w.putSeen(1, "+I 2 x")
	w.sees("1 a", "2 x")
	if at := w.g.positions(w.t, "test"); at[0] != 1 || at[1] != 1 {
		w.t.Fatalf("positions %v: that of partition 0 must be before what is held", at)
	}
}
