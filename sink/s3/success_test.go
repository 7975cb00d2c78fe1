package s3_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
)

// The lanes of a topic of two partitions, one each, over one store.
type twoLanes struct {
	t     *testing.T
	e     *env
	s     *s3.Sink
	store sink.Store
	table *changelog.Table
	lanes [2]sink.Committer
	claim [2]sink.Claim
	at    [2]int64
	cp    [2]sink.CheckpointID
}

var bothParts = []changelog.Partition{{Topic: "topic", Partition: 0}, {Topic: "topic", Partition: 1}}

func hourly() []s3.PartitionField {
	return []s3.PartitionField{{Column: "ts", Name: "day", Layout: "2006-01-02"}, {Column: "ts", Name: "hour", Layout: "15"}}
}

func newTwoLanes(t *testing.T, e *env) *twoLanes {
	l := &twoLanes{t: t, e: e, table: table(t, "events", "[I]", "", "id BIGINT", "ts TIMESTAMP(3)")}
	l.s = e.sink(&s3.Options{Manifest: true, EventTime: "ts", PartitionBy: hourly()})
	var err error
	if l.store, err = s3.NewStore(e.client(nil), e.bucket, "lake", s3.Settings{}); err != nil {
		t.Fatal(err)
	}
	for i := range l.lanes {
		l.begin(i)
	}
	return l
}

func (l *twoLanes) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *twoLanes) begin(i int) {
	var err error
	l.lanes[i], err = l.s.Lane(l.t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: []*changelog.Table{l.table}})
	l.must(err)
	l.t.Cleanup(func() { l.lanes[i].Close(context.Background()) })
	l.claim[i], err = l.store.Acquire(l.t.Context(), sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", Owner: "test", Partitions: bothParts[i : i+1], GroupGeneration: -1})
	l.must(err)
	l.cp[i] = 0
	l.must(l.lanes[i].Open(l.t.Context(), l.claim[i]))
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// save writes a row a time into a checkpoint, and saves it.
func (l *twoLanes) save(i int, times ...time.Duration) sink.Committable {
	l.t.Helper()
	b := changelog.NewBatch(l.table)
	from := l.at[i]
	for _, d := range times {
		at := noon.Add(d)
		b.Append(changelog.Change{Partition: bothParts[i], Offset: l.at[i], Kind: changelog.Insert, Row: changelog.Row{num(l.at[i]), changelog.TimestampValue(at.Unix(), 0)}})
		l.at[i]++
	}
	l.must(l.lanes[i].Write(l.t.Context(), b))
	l.cp[i]++
	pos := func(offset int64) []changelog.Position {
		return []changelog.Position{{Partition: bothParts[i], Offset: offset, LeaderEpoch: -1}}
	}
	d, err := l.lanes[i].Prepare(l.t.Context(), sink.Cut{Generation: l.claim[i].Generation, Checkpoint: l.cp[i], From: pos(from), To: pos(l.at[i])})
	l.must(err)
	l.must(l.store.Save(l.t.Context(), l.claim[i].Generation, sink.Checkpoint{ID: l.cp[i], From: pos(from), To: pos(l.at[i]), Committables: []sink.Committable{d}}))
	return d
}

func (l *twoLanes) put(i int, times ...time.Duration) {
	l.t.Helper()
	l.must(l.lanes[i].Commit(l.t.Context(), l.save(i, times...)))
}

func (l *twoLanes) mark(o s3.SuccessOptions) s3.SuccessResult {
	l.t.Helper()
	o.Bridge, o.Sink, o.Table, o.PartitionBy, o.Every = "bridge", "lake", "events", hourly(), time.Hour
	if o.Partitions == nil {
		o.Partitions = bothParts
	}
	r, err := s3.Success(l.t.Context(), l.e.api, l.e.bucket, "lake", o)
	l.must(err)
	return r
}

func folder(hour int) string { return fmt.Sprintf("lake/events/day=2026-01-02/hour=%02d", hour) }

func TestSuccess(t *testing.T)        { successes(t, newFake(t)) }
func TestSuccess_Server(t *testing.T) { successes(t, newReal(t)) }

// A folder is marked when all partitions have passed its end, and not before; rows that come after that are named, and are there.
func successes(t *testing.T, e *env) {
	l := newTwoLanes(t, e)
	l.put(0, -time.Hour, 0, 90*time.Minute) // 11, 12, 13 h
	r := l.mark(s3.SuccessOptions{})
	if len(r.Closed) != 0 || !r.Watermark.IsZero() || !slices.Equal(r.Waiting, bothParts[1:]) {
		t.Errorf("a partition without rows: %+v", r)
	}
	l.put(1, time.Minute)
	if r = l.mark(s3.SuccessOptions{Lateness: 2 * time.Minute}); len(r.Closed) != 0 || !r.Watermark.Equal(noon.Add(-time.Minute)) {
		t.Errorf("within the lateness: %+v", r)
	}
	if r = l.mark(s3.SuccessOptions{}); !slices.Equal(r.Closed, []string{folder(11)}) || len(r.Late) != 0 {
		t.Errorf("after both passed noon: %+v", r)
	}
	if r = l.mark(s3.SuccessOptions{}); len(r.Closed) != 0 || len(r.Late) != 0 {
		t.Errorf("again: %+v", r)
	}
	l.put(1, -time.Minute) // late
	if r = l.mark(s3.SuccessOptions{}); !slices.Equal(r.Late, []string{folder(11)}) || len(r.Closed) != 0 {
		t.Errorf("a late row: %+v", r)
	}
	if n := len(e.keys(folder(11) + "/")); n != 3 {
		t.Errorf("%d objects where two files and a mark are", n)
	}
	if r = l.mark(s3.SuccessOptions{Partitions: bothParts[:1]}); !slices.Equal(r.Closed, []string{folder(12)}) {
		t.Errorf("without the idle partition: %+v", r)
	}
	e.mayRead(t)
}

// mayRead: marks do not disturb a reader by manifest.
func (e *env) mayRead(t *testing.T) {
	t.Helper()
	if ids, err := e.seen(nil); err != nil || len(ids) != 5 {
		t.Errorf("readers see %v, %v", ids, err)
	}
}

// Rows that are decided and not yet visible hold their folder back: their lane's later times are in no manifest before theirs.
func TestSuccess_DecidedAndNotVisible(t *testing.T) {
	l := newTwoLanes(t, newFake(t))
	l.put(1, 5*time.Hour)
	l.put(0, -2*time.Hour)
	l.save(0, -time.Hour) // its lane dies before Commit
	if r := l.mark(s3.SuccessOptions{}); len(r.Closed) != 0 {
		t.Errorf("before its Commit: %+v", r)
	}
	l.begin(0)
	l.put(0, 5*time.Hour)
	r := l.mark(s3.SuccessOptions{})
	if want := []string{folder(10), folder(11)}; !slices.Equal(r.Closed, want) || len(r.Late) != 0 {
		t.Errorf("%+v", r)
	}
	// A time in the future counts as now; so this does not close what is still to come.
	l.put(0, 100_000*time.Hour)
	l.put(1, 100_000*time.Hour)
	if r = l.mark(s3.SuccessOptions{}); r.Watermark.After(time.Now()) || slices.ContainsFunc(r.Closed, func(s string) bool { return !strings.Contains(s, "day=2026-01-02") }) {
		t.Errorf("%+v", r)
	}
}

func TestSuccess_Mistakes(t *testing.T) {
	e := newFake(t)
	_, err := s3.Success(t.Context(), e.api, e.bucket, "lake", s3.SuccessOptions{})
	is(t, err, sink.ErrConfig, "Bridge", "Partitions", "Layout", "Every")
	_, err = s3.New(e.api, e.bucket, "lake", &s3.Options{EventTime: "ts"})
	is(t, err, sink.ErrConfig, "Manifest")
	s := e.sink(&s3.Options{EventTime: "v", Manifest: true})
	_, err = s.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: []*changelog.Table{events(t)}})
	is(t, err, sink.ErrConfig, "EventTime", "TIMESTAMP")
}
