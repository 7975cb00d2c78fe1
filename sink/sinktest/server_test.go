package sinktest

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// memoryLane returns a lane that holds partition 0 of a table.
func memoryLane(t *testing.T, s *Server, tables ...*changelog.Table) (sink.Committer, sink.Claim) {
	t.Helper()
	c, err := NewSink(s, nil).Lane(t.Context(), sink.Lane{Bridge: Bridge, Sink: SinkName, Tables: tables})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := NewStore(s).Acquire(t.Context(), sink.AcquireRequest{Bridge: Bridge, Partitions: []changelog.Partition{{Topic: "t"}}, GroupGeneration: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Open(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return c, claim
}

func row(kind changelog.Kind, values ...changelog.Value) changelog.Change {
	return changelog.Change{Kind: kind, Row: values, Partition: changelog.Partition{Topic: "t"}, Offset: 17}
}

func put(t *testing.T, c sink.Committer, claim sink.Claim, id sink.CheckpointID, table *changelog.Table, changes ...changelog.Change) error {
	t.Helper()
	if err := c.Write(t.Context(), &changelog.Batch{Table: table, Changes: changes}); err != nil {
		return err
	}
	r, err := c.Prepare(t.Context(), sink.Cut{Generation: claim.Generation, Checkpoint: id})
	if err != nil {
		return err
	}
	return c.Commit(t.Context(), r)
}

func TestSink_UnchangedColumnKeepsItsValue(t *testing.T) {
	var (
		s      = NewServer()
		k      = Keyed()
		num    = changelog.IntValue
		text   = changelog.StringValue
		same   = changelog.UnchangedValue()
		c, own = memoryLane(t, s, k)
	)
	steps := []struct {
		changes []changelog.Change
		want    []Row
	}{
		{[]changelog.Change{row(changelog.Insert, num(1), text("a")), row(changelog.UpdateAfter, num(1), same)}, []Row{{1, "a"}}},
		{[]changelog.Change{row(changelog.UpdateAfter, num(1), same)}, []Row{{1, "a"}}},
		{[]changelog.Change{row(changelog.UpdateBefore, num(1), text("a")), row(changelog.UpdateAfter, num(1), same)}, []Row{{1, "a"}}},
		{[]changelog.Change{row(changelog.UpdateAfter, num(1), text("b")), row(changelog.UpdateAfter, num(1), same)}, []Row{{1, "b"}}},
	}
	for i, step := range steps {
		if err := put(t, c, own, sink.CheckpointID(i+1), k, step.changes...); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got := FixtureRows(s.Table(KeyedTable)); !reflect.DeepEqual(got, step.want) {
			t.Errorf("step %d: got %v, expected %v", i, got, step.want)
		}
	}
	err := put(t, c, own, 9, k, row(changelog.Delete, num(1), text("b")), row(changelog.UpdateAfter, num(1), same))
	var e *sink.Error
	if !errors.As(err, &e) || e.Class != sink.ErrRejected || e.Position == nil || e.Position.Offset != 17 {
		t.Errorf("unchanged after a delete: got %v, expected %v at offset 17", err, sink.ErrRejected)
	}
	if _, err := c.Prepare(t.Context(), sink.Cut{Generation: own.Generation, Checkpoint: 9}); err == nil {
		t.Error("Prepare succeeded after a Write that failed")
	}
}

func TestSink_RetractWithoutKeyIsMultiset(t *testing.T) {
	table := Appended()
	table.Mode = changelog.Retract
	s := NewServer()
	c, own := memoryLane(t, s, table)
	a, b := []changelog.Value{changelog.IntValue(1), changelog.StringValue("a")}, []changelog.Value{changelog.IntValue(1), {}}
	err := put(t, c, own, 1, table, row(changelog.Insert, a...), row(changelog.Insert, b...), row(changelog.Insert, a...),
		row(changelog.Insert, a...), row(changelog.Delete, a...), row(changelog.UpdateBefore, b...), row(changelog.Delete, b...))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := FixtureRows(s.Table(AppendTable)), []Row{{1, "a"}, {1, "a"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
}

func TestSink_RefusesWhatItCannotTake(t *testing.T) {
	s := NewServer()
	c, own := memoryLane(t, s, Appended())
	one, a := changelog.IntValue(1), changelog.StringValue("a")
	keyOnly := row(changelog.Delete, one, changelog.Value{})
	keyOnly.KeyOnly = true
	for what, ch := range map[string]changelog.Change{
		"cannot take -D": row(changelog.Delete, one, a),
		"a row of 1":     row(changelog.Insert, one),
	} {
		if err := put(t, c, own, 1, Appended(), ch); !errors.Is(err, sink.ErrRejected) || !strings.Contains(err.Error(), what) {
			t.Errorf("expected %q, got %v", what, err)
		}
	}
	if err := put(t, c, own, 1, Keyed(), keyOnly); !errors.Is(err, sink.ErrConfig) {
		t.Errorf("a table that is not the lane's: %v", err)
	}
	for what, l := range map[string]sink.Lane{
		"needs Bridge": {},
		"key column":   {Bridge: "b", Sink: "s", Tables: []*changelog.Table{{Name: "t", Schema: &changelog.Schema{Key: []int{1}}}}},
	} {
		if _, err := NewSink(s, nil).Lane(t.Context(), l); !errors.Is(err, sink.ErrConfig) || !strings.Contains(err.Error(), what) {
			t.Errorf("expected %q, got %v", what, err)
		}
	}
}

// A receipt that is not this sink's, or is of a later program, is refused and nothing is tried.
func TestSink_ReceiptIsRead(t *testing.T) {
	s := NewServer()
	c, own := memoryLane(t, s, Keyed())
	if err := c.Write(t.Context(), &changelog.Batch{Table: Keyed(), Changes: []changelog.Change{row(changelog.Insert, changelog.IntValue(1), changelog.Value{})}}); err != nil {
		t.Fatal(err)
	}
	r, err := c.Prepare(t.Context(), sink.Cut{Generation: own.Generation, Checkpoint: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func(r *sink.Committable){
		func(r *sink.Committable) { r.Version = 2 },
		func(r *sink.Committable) { r.Checkpoint = 2 },
		func(r *sink.Committable) { r.Data = []byte("{") },
		func(r *sink.Committable) { r.Data = []byte(`{"work":"1/1","more":1}`) },
	} {
		bad := r
		spoil(&bad)
		if err := c.Commit(t.Context(), bad); !errors.Is(err, sink.ErrConfig) {
			t.Errorf("Commit of %s version %d: %v", bad.Data, bad.Version, err)
		}
		if err := c.Abort(t.Context(), bad); !errors.Is(err, sink.ErrConfig) {
			t.Errorf("Abort of %s version %d: %v", bad.Data, bad.Version, err)
		}
	}
	if s.Staged() != 1 || len(s.Table(KeyedTable)) != 0 {
		t.Error("a bad receipt changed something")
	}
}

// What is dropped is not saved: no later Save of the checkpoint moves positions without its rows.
func TestOwnStore_SaveOfWhatWasDropped(t *testing.T) {
	ctx, s, topic := t.Context(), NewServer(), NewTopic(Keyed())
	topic.Put(0, Insert(1, "a"))
	c, err := NewSink(s, &SinkOptions{InTransaction: true}).Lane(ctx, sink.Lane{Bridge: Bridge, Sink: SinkName, Tables: []*changelog.Table{topic.Table}})
	if err != nil {
		t.Fatal(err)
	}
	d := NewDriver(c, c.(sink.Store), topic)
	for i, step := range []func() error{
		func() error { return d.Acquire(ctx, 0) },
		func() error { return d.Open(ctx) },
		func() error { return d.Write(ctx, -1) },
		func() error { return d.Prepare(ctx) },
		func() error { return d.Abort(ctx) },
	} {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if err := d.Save(ctx); !errors.Is(err, sink.ErrTransient) {
		t.Errorf("Save after Abort: %v", err)
	}
	if id, err := d.End(ctx); id != 0 || err != nil {
		t.Errorf("End = %d, %v", id, err)
	}
}

func TestValueBytes_EqualValuesAreEqual(t *testing.T) {
	pair := func(k, v int64) []changelog.Value {
		return []changelog.Value{changelog.IntValue(k), changelog.IntValue(v)}
	}
	nan := math.Float64frombits(0x7ff8000000000123)
	equal := [][2]changelog.Value{
		{changelog.DoubleValue(0), changelog.DoubleValue(math.Copysign(0, -1))},
		{changelog.DoubleValue(math.NaN()), changelog.DoubleValue(nan)},
		{changelog.FloatValue(0), changelog.FloatValue(float32(math.Copysign(0, -1)))},
		{changelog.MapValue(append(pair(1, 2), pair(3, 4)...)), changelog.MapValue(append(pair(3, 4), pair(1, 2)...))},
	}
	for _, e := range equal {
		if string(appendValue(nil, e[0])) != string(appendValue(nil, e[1])) {
			t.Errorf("two equal values of kind %d differ", e[0].Kind())
		}
	}
	different := []changelog.Value{{}, changelog.UnchangedValue(), changelog.BoolValue(true), changelog.BoolValue(false), changelog.IntValue(1),
		changelog.IntValue(-1), changelog.DoubleValue(1), changelog.FloatValue(1), changelog.StringValue(""), changelog.StringValue("a"),
		changelog.BytesValue(nil), changelog.BytesValue([]byte("a")), changelog.DecimalValue(0, 1, 2), changelog.DecimalValue(0, 1, 3),
		changelog.DecimalValue(1, 1, 2), changelog.DateValue(1), changelog.TimeValue(1), changelog.TimestampValue(1, 0),
		changelog.TimestampValue(1, 1), changelog.TimestampLTZValue(1, 0), changelog.ArrayValue(nil), changelog.ArrayValue(pair(1, 2)),
		changelog.MapValue(pair(1, 2)), changelog.RowValue(pair(1, 2)), changelog.RowValue(pair(2, 1)),
		changelog.ArrayValue([]changelog.Value{changelog.StringValue("a"), changelog.StringValue("bc")}),
		changelog.ArrayValue([]changelog.Value{changelog.StringValue("ab"), changelog.StringValue("c")})}
	seen := make(map[string]int)
	for i, v := range different {
		k := string(appendValue(nil, v))
		if j, ok := seen[k]; ok {
			t.Errorf("values %d and %d are taken for equal", i, j)
		}
		seen[k] = i
		if c := cloneValue(v); string(appendValue(nil, c)) != k {
			t.Errorf("the copy of value %d differs", i)
		}
	}
}

func TestTopic_Records(t *testing.T) {
	k := NewTopic(Keyed())
	k.Put(2, Insert(1, `a"`), UpdateBefore(1, `a"`), UpdateAfter(1, "b"), DeleteKey(1))
	var got []string
	for _, r := range k.Records(2) {
		value := "null"
		if r.Value != nil {
			value = string(r.Value)
		}
		got = append(got, changelog.Position{Partition: r.Partition, Offset: r.Offset}.String()+" "+string(r.Key)+" "+value)
	}
	want := []string{`sinktest_keyed/2@0 {"id":1} {"id":1,"v":"a\""}`, `sinktest_keyed/2@2 {"id":1} {"id":1,"v":"b"}`, `sinktest_keyed/2@3 {"id":1} null`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, expected %q", got, want)
	}
	a := NewTopic(Appended())
	a.Put(0, Insert(1, "a"))
	if r := a.Records(0)[0]; r.Key != nil || string(r.Value) != `{"id":1,"v":"a"}` {
		t.Errorf("got key %q value %q", r.Key, r.Value)
	}
}
