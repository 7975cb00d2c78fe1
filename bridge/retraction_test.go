package bridge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
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

// A row whose update is two messages is there at every checkpoint between them; without the option it is not.
func TestHold_UpdateInTwoMessages(t *testing.T) {
	t.Run("held", func(t *testing.T) {
		w := watch(t, newCluster(t, 2), newTarget(), nil)
		w.held()
		w.putSeen(0, "+I 1 b")
		w.sees("1 b", "2 x")
		for i := range 20 {
			w.putSeen(0, fmt.Sprintf("-D 1 %d", i))
			w.k.put(1, fmt.Sprintf("-U 2 %d, +U 2 %d", i, i))
			w.k.put(0, fmt.Sprintf("+I 1 %d", i))
		}
		w.sees("1 19", "2 19")
		w.neverLack(1, 2)
		w.end()
		if at := w.g.positions(t, "test"); at[0] != 43 || at[1] != 21 {
			t.Fatalf("positions %v", at)
		}
	})
	t.Run("never", func(t *testing.T) {
		w := watch(t, newCluster(t, 2), newTarget(), func(o *Options) { o.HoldRetractions = HoldNever })
		w.putSeen(0, "+I 1 a")
		w.sees("1 a")
		w.putSeen(0, "-D 1 a")
		w.sees()
	})
}

// What a join retracts for one update are several deletes in a row, with records of other kinds between: control records of a
// transaction, tombstones.
func TestHold_RunOfDeletes(t *testing.T) {
	w := watch(t, newCluster(t, 2), newTarget(), nil)
	w.putSeen(0, "+I 1 a", "+I 2 a")
	w.sees("1 a", "2 a")
	w.k.txn("t1", kgo.TryCommit, 0, "-D 1 a")
	w.putSeen(0, "none")
	w.k.txn("t2", kgo.TryAbort, 0, "+I 9 aborted")
	w.putSeen(0, "-U 2 a", "none")
	w.putSeen(1, "+I 3 x")
	w.sees("1 a", "2 a", "3 x")
	w.putSeen(0, "+I 1 b, +I 2 b")
	w.sees("1 b", "2 b", "3 x")
	w.neverLack(1, 2)
}

// A checkpoint never falls between two changes of one message, however small its share: also where every message is a load of its own.
func TestCheckpoint_WholeMessages(t *testing.T) {
	k := newCluster(t, 1)
	k.put(0, "+I 1 a, +I 2 a")
	for i := range 50 {
		k.put(0, fmt.Sprintf("-U 1 %d, +U 1 %d, -U 2 %d, +U 2 %d", i, i, i, i))
	}
	var sizes []int
	w := watch(t, k, newTarget(), func(o *Options) {
		o.ByteBudget, o.Bytes, o.UntilEnd = 8, 1, true
		o.Hooks.Written = func(_ string, n, _ int) { sizes = append(sizes, n) }
	})
	if err := w.wait(); err != nil {
		t.Fatal(err)
	}
	w.sees("1 49", "2 49")
	w.neverLack(1, 2)
	if len(sizes) != 51 || len(w.states) < 51 || slices.ContainsFunc(sizes[1:], func(n int) bool { return n != 4 }) {
		t.Fatalf("%d checkpoints of loads of %v changes", len(w.states), sizes)
	}
	for _, s := range w.states {
		if len(s) == 2 && s[0][2:] != s[1][2:] {
			t.Fatalf("half a message is visible: %q", s)
		}
	}
}

// One delete and no other message ever: it is applied, one interval later (P14).
func TestHold_NothingFollows(t *testing.T) {
	w := watch(t, newCluster(t, 2), newTarget(), func(o *Options) { o.Interval = 10 * time.Millisecond })
	w.putSeen(0, "+I 1 a")
	w.sees("1 a")
	w.putSeen(0, "-D 1 a")
	w.sees()
	until(t, "its position", func() bool { return w.g.positions(t, "test")[0] == 2 }, w.running)
}

func TestHold_UntilEndAppliesIt(t *testing.T) {
	k := newCluster(t, 2)
	k.put(0, "+I 1 a", "+I 2 a")
	k.txn("t1", kgo.TryCommit, 0, "-D 1 a")
	k.put(0, "none")
	k.put(1, "+I 3 a", "-D 3 a")
	w := watch(t, k, newTarget(), func(o *Options) { o.UntilEnd = true })
	if err := w.wait(); err != nil {
		t.Fatal(err)
	}
	w.sees("2 a")
	if at := w.g.positions(t, "test"); at[0] != 5 || at[1] != 2 {
		t.Fatalf("positions %v", at)
	}
}

// Nobody says when the next run begins: until then the row is as it was before its update.
func TestHold_GracefulStopLeavesIt(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	w := watch(t, k, g, nil)
	w.held()
	before := w.g.positions(t, "test")
	w.end()
	if at := w.g.positions(t, "test"); at[0] != before[0] {
		t.Fatalf("positions %v after the stop, %v before", at, before)
	}
	again := watch(t, k, g, func(o *Options) { o.UntilEnd = true })
	if err := again.wait(); err != nil {
		t.Fatal(err)
	}
	again.sees("2 x")
	if at := again.g.positions(t, "test"); at[0] != 2 || at[1] != 1 {
		t.Fatalf("positions %v", at)
	}
}

// Everything before a record that cannot be decoded is applied, what was held too.
func TestHold_BadRecordFollows(t *testing.T) {
	w := watch(t, newCluster(t, 2), newTarget(), nil)
	w.held()
	w.k.put(0, "bad")
	var de *changelog.DataError
	if err := w.wait(); !errors.As(err, &de) || de.Offset != 2 {
		t.Fatalf("ended with %v", err)
	}
	w.sees("2 x")
	if at := w.g.positions(t, "test"); at[0] != 2 {
		t.Fatalf("positions %v", at)
	}
}

// A partition is given back at the position before what is held of it, and its next owner reads that, holds it, and applies it.
func TestHold_Revoke(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	w1 := watch(t, k, g, nil)
	w1.held()
	w1.putSeen(1, "-D 2 x")
	w1.putSeen(0, "none") // the lane is past the delete of partition 1 when this is taken
	var mu sync.Mutex
	began := make(map[int32]int64)
	w2 := watch(t, k, g, func(o *Options) {
		o.Hooks.Acquired = func(c sink.Claim) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range c.Positions {
				began[p.Partition.Partition] = p.Offset
			}
		}
	})
	until(t, "a partition each", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(w1.b.Status().Partitions) == 1 && len(began) == 1
	}, w1.running, w2.running)
	for p, at := range began {
		if at != 1 {
			t.Fatalf("partition %d was given back at %d, behind what was held", p, at)
		}
	}
	k.put(0, "+I 1 b")
	k.put(1, "+I 2 y")
	until(t, "both updates", func() bool { return slices.Equal(g.rows(), []string{"1 b", "2 y"}) }, w1.running, w2.running)
	w1.end()
	w2.end()
	w1.neverLack(1, 2)
	for _, s := range w2.states {
		if len(s) != 2 {
			t.Fatalf("a row vanished: %q", w2.states)
		}
	}
	if got := g.rows(); !slices.Equal(got, []string{"1 b", "2 y"}) {
		t.Fatalf("rows %q", got)
	}
}

// A lane that is sent back reads what it held again: nothing is lost or doubled, and no row vanishes meanwhile.
func TestHold_Failures(t *testing.T) {
	k, g := newCluster(t, 3), newTarget()
	rng, failed := rand.New(rand.NewPCG(1, 2)), 0
	g.on(func(op string) error {
		if op == "acquire" {
			return nil
		}
		if rng.IntN(5) == 0 {
			failed++
			return &sink.Error{Op: op, Class: []error{sink.ErrTransient, sink.ErrUncertain}[failed%2], Err: errors.New("test")}
		}
		return nil
	})
	w := watch(t, k, g, func(o *Options) { o.backoff = func(int) time.Duration { return 0 } })
	for p := range int32(3) {
		k.put(p, fmt.Sprintf("+I %d start", p+1))
	}
	w.sees("1 start", "2 start", "3 start")
	for i := range 30 {
		for p := range int32(3) {
			k.put(p, fmt.Sprintf("-D %d %d", p+1, i))
		}
		for p := range int32(3) {
			k.put(p, fmt.Sprintf("+I %d %d", p+1, i))
		}
	}
	w.sees("1 29", "2 29", "3 29")
	w.neverLack(1, 2, 3)
	w.end()
	if failed < 5 {
		t.Fatalf("%d failures", failed)
	}
	if at := g.positions(t, "test"); at[0] != 61 || at[1] != 61 || at[2] != 61 {
		t.Fatalf("positions %v", at)
	}
}

// So many deletes that they cannot be an update are not held together; nor are more bytes than there is room for.
func TestHold_Bounded(t *testing.T) {
	const n = 3000
	for name, change := range map[string]func(o *Options){
		"messages": nil,
		"bytes":    func(o *Options) { o.ByteBudget, o.Bytes = 64<<10*tailShare, 64<<10 },
	} {
		t.Run(name, func(t *testing.T) {
			k := newCluster(t, 2)
			w := watch(t, k, newTarget(), change)
			var in, out []string
			for i := range n {
				in = append(in, fmt.Sprintf("+I %d a", i+10))
				out = append(out, fmt.Sprintf("-D %d a", i+10))
			}
			w.putSeen(0, in...)
			until(t, "all rows", func() bool { return len(w.g.rows()) == n }, w.running)
			w.putSeen(0, out...)
			w.putSeen(1, "+I 1 x")
			until(t, "the other partition", func() bool { return slices.Contains(w.g.rows(), "1 x") }, w.running)
			if left := len(w.g.rows()) - 1; left < 1 || left > tailRecords {
				t.Fatalf("%d deletes are held", left)
			}
			w.putSeen(0, "+I 2 x")
			w.sees("1 x", "2 x")
		})
	}
}

// What has not waited for an interval when another message of its tail has stays behind.
func TestRelease_WhatIsDue(t *testing.T) {
	p := &partition{Partition: changelog.Partition{Topic: "t"}, bound: -1}
	l := newLane(&run{ins: []Input{{Decoder: newRows()}}, o: Options{Interval: time.Hour, ByteBudget: 1 << 20}}, 0)
	load := func(from int64, values ...string) *load {
		ld := l.newLoad(0)
		d := decoder{l: l, ld: ld}
		s := ld.span(&chunk{part: p})
		for i, v := range values {
			r := &kgo.Record{Topic: "t", Offset: from + int64(i), Value: []byte(v), LeaderEpoch: int32(from)}
			n := ld.batch.Len()
			if err := d.record(r); err != nil {
				t.Fatal(err)
			}
			s.follow(r, ld.batch, n)
			s.to, s.records = r.Offset+1, s.records+1
		}
		if err := l.holdBack(ld); err != nil {
			t.Fatal(err)
		}
		return ld
	}
	if ld := load(5, "+I 1 a", "-D 1 a"); ld.batch.Len() != 1 || ld.spans[0].to != 6 || ld.spans[0].records != 1 {
		t.Fatalf("%d changes, %+v", ld.batch.Len(), ld.spans)
	}
	if ld := load(9, "-D 2 a", "none"); ld.batch.Len() != 0 || len(ld.spans) != 0 {
		t.Fatalf("%d changes, %+v", ld.batch.Len(), ld.spans)
	}
	if ld, err := l.release(false, 0); ld != nil || err != nil {
		t.Fatalf("released %+v, %v, before their time", ld, err)
	}
	x := l.tails[p.Partition]
	x.records[0].at = x.records[0].at.Add(-time.Hour)
	ld, err := l.release(false, 0)
	if err != nil || ld.batch.Len() != 1 || ld.batch.Changes[0].Offset != 6 || ld.spans[0].to != 9 || ld.spans[0].leader != 9 || ld.spans[0].records != 1 {
		t.Fatalf("released %+v, %v", ld, err)
	}
	// The rest goes in front of what puts a row there.
	ld = load(11, "+I 2 b", "-D 3 a")
	if ld.batch.Len() != 2 || ld.batch.Changes[0].Offset != 9 || ld.batch.Changes[1].Offset != 11 || ld.spans[0].to != 12 || ld.spans[0].records != 3 {
		t.Fatalf("%+v, %+v", ld.batch.Changes, ld.spans)
	}
	if ld, err = l.release(true, 0); err != nil || ld.batch.Len() != 1 || ld.spans[0].to != 13 || len(l.tails) != 0 || l.tailBytes != 0 {
		t.Fatalf("released %+v, %v; %d bytes left", ld, err, l.tailBytes)
	}
}

// A delete directly before a record that cannot be decoded is written, whether it came in this load or in the one before.
func TestHoldBack_BadRecord(t *testing.T) {
	p := &partition{Partition: changelog.Partition{Topic: "t"}, bound: -1}
	for _, earlier := range []bool{false, true} {
		l := newLane(&run{ins: []Input{{Decoder: newRows()}}, o: Options{Interval: time.Hour, ByteBudget: 1 << 20}}, 0)
		r := &kgo.Record{Topic: "t", Offset: 3, Value: []byte("-D 1 a")}
		ld := l.newLoad(0)
		ld.bad = &bad{part: p, pos: changelog.Position{Partition: p.Partition, Offset: 4}}
		if earlier {
			l.keep(nil, &span{part: p, tail: []record{r}, to: 4, records: 1})
		} else {
			s := ld.span(&chunk{part: p})
			d := decoder{l: l, ld: ld}
			if err := d.record(r); err != nil {
				t.Fatal(err)
			}
			s.follow(r, ld.batch, 0)
			s.to, s.records = 4, 1
		}
		if err := l.holdBack(ld); err != nil {
			t.Fatal(err)
		}
		if ld.batch.Len() != 1 || len(ld.spans) != 1 || ld.spans[0].to != 4 || ld.spans[0].records != 1 || len(l.tails) != 0 || l.tailBytes != 0 {
			t.Fatalf("earlier %v: %d changes, spans %+v, %d bytes held", earlier, ld.batch.Len(), ld.spans, l.tailBytes)
		}
	}
}

// What was held of an ended epoch is not written: it is read again.
func TestHold_EndedEpoch(t *testing.T) {
	p := &partition{Partition: changelog.Partition{Topic: "t"}, bound: -1}
	l := newLane(&run{ins: []Input{{Decoder: newRows()}}, o: Options{Interval: time.Hour, ByteBudget: 1 << 20}}, 0)
	l.tails[p.Partition] = &tail{span: span{part: p}, records: []kept{{record: &kgo.Record{Value: []byte("-D 1 a")}}}, bytes: 7}
	l.tailBytes = 7
	p.epoch.Add(1)
	if ld, err := l.release(true, 0); ld != nil || err != nil || len(l.tails) != 0 || l.tailBytes != 0 {
		t.Fatalf("released %+v, %v; %d bytes left", ld, err, l.tailBytes)
	}
}

func TestHoldPolicy(t *testing.T) {
	for _, c := range []struct {
		p    HoldPolicy
		m    changelog.Mode
		want bool
	}{
		{HoldByMode, changelog.Append, false}, {HoldByMode, changelog.Upsert, false}, {HoldByMode, changelog.Retract, true},
		{HoldAlways, changelog.Upsert, true}, {HoldNever, changelog.Retract, false},
	} {
		if got := c.p.on(c.m); got != c.want {
			t.Errorf("%d in mode %s: %v", c.p, c.m, got)
		}
	}
	k, g := newCluster(t, 1), newTarget()
	o := options(g)
	o.HoldRetractions = 9
	_, err := New("test", k.input(), g, o)
	configError(t, err, "Options.HoldRetractions", "HoldNever")
}

// Records without a key, or with another one than the table's, are spread over partitions: a delete and an insert of one row then have no
// order (P03).
func TestStart_NoOrderOfRows(t *testing.T) {
	run := func(partitions int32, d changelog.Decoder, nullKeys, accepted bool) error {
		k, g := newCluster(t, partitions), newTarget()
		o := options(g)
		o.UntilEnd, o.Unordered = true, accepted
		b, err := New("test", Input{Topics: []string{k.topic}, Decoder: d, NullKeys: nullKeys, Client: []kgo.Opt{kgo.SeedBrokers(k.addr)}}, g, o)
		if err != nil {
			t.Fatal(err)
		}
		return start(t, b).wait()
	}
	configError(t, run(2, newRows(), true, false), `topic "texts" has 2 partitions`, "table rows", "key.format", "Options.Unordered")
	upsert := newRows()
	upsert.table.Mode = changelog.Upsert
	for _, err := range []error{run(2, newRows(), true, true), run(2, newRows(), false, false), run(1, newRows(), true, false), run(2, upsert, true, false)} {
		if err != nil {
			t.Error(err)
		}
	}
	for with, want := range map[string]bool{
		`'connector' = 'kafka', 'format' = 'json'`:                                             true,
		`'connector' = 'kafka', 'format' = 'json', 'key.format' = 'json', 'key.fields' = 'id'`: false,
		`'connector' = 'kafka', 'format' = 'json', 'key.format' = 'json', 'key.fields' = 'v'`:  false, // rows without a PRIMARY KEY are equal in all columns
	} {
		in, err := FromTable(table(t, with+`, 'topic' = 'texts', 'properties.bootstrap.servers' = 'a:1'`), newRows())
		if err != nil || in.NullKeys != want {
			t.Errorf("%s: null keys %v, %v", with, in.NullKeys, err)
		}
	}
	// An update of customer moves the row to another partition.
	for fields, want := range map[string]bool{"id": false, "customer": true, "id;customer": true} {
		parsed, err := ddl.Find(`CREATE TABLE x (id BIGINT, customer STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'kafka', 'topic' = 'texts',
			'properties.bootstrap.servers' = 'a:1', 'value.format' = 'debezium-json', 'key.format' = 'json', 'key.fields' = '`+fields+`')`, "x")
		if err != nil {
			t.Fatal(err)
		}
		in, err := FromTable(parsed, newRows())
		if err != nil || in.NullKeys != want {
			t.Errorf("key.fields %s: null keys %v, %v", fields, in.NullKeys, err)
		}
	}
}
