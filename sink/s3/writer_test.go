package s3_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// table makes a source table of columns such as "id BIGINT NOT NULL".
func table(t testing.TB, name, mode, key string, columns ...string) *changelog.Table {
	t.Helper()
	tb := &changelog.Table{Name: name, Schema: &changelog.Schema{}}
	var err error
	if tb.Mode, err = changelog.ParseMode(mode); err != nil {
		t.Fatal(err)
	}
	for _, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		parsed, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tb.Schema.Columns = append(tb.Schema.Columns, changelog.Column{Name: name, Type: parsed})
	}
	for _, k := range strings.Fields(key) {
		tb.Schema.Key = append(tb.Schema.Key, tb.Schema.Index(k))
	}
	return tb
}

func events(t testing.TB) *changelog.Table {
	return table(t, "events", "[I]", "", "id BIGINT", "v STRING")
}

var part0 = changelog.Partition{Topic: "topic", Partition: 0}

// writer is a lane driven by hand over one partition, with the store that the sink's bucket is.
type writer struct {
	t     testing.TB
	ctx   context.Context
	s     *s3.Sink
	c     sink.Committer
	store sink.Store
	table *changelog.Table
	claim sink.Claim
	at    int64 // next offset to write
	from  int64 // of the current checkpoint
	cp    sink.CheckpointID
}

func (e *env) sink(o *s3.Options, change ...func(*awss3.Options)) *s3.Sink {
	e.t.Helper()
	s, err := s3.New(e.client(nil, change...), e.bucket, "lake", o)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// writer starts a lane and acquires the partition.
func (e *env) writer(s *s3.Sink, t *changelog.Table) *writer {
	e.t.Helper()
	c, err := s.Lane(e.t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: []*changelog.Table{t}})
	if err != nil {
		e.t.Fatal(err)
	}
	store, err := s3.NewStore(e.client(nil), e.bucket, "lake", s3.Settings{})
	if err != nil {
		e.t.Fatal(err)
	}
	w := &writer{t: e.t, ctx: e.t.Context(), s: s, c: c, store: store, table: t}
	e.t.Cleanup(func() { c.Close(context.Background()) })
	if err := w.acquire(); err != nil {
		e.t.Fatal(err)
	}
	return w
}

func (w *writer) acquire() error {
	claim, err := w.store.Acquire(w.ctx, sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", Owner: "test", Partitions: []changelog.Partition{part0}, GroupGeneration: -1})
	if err != nil {
		return err
	}
	w.claim, w.cp, w.from = claim, 0, 0
	if len(claim.Positions) > 0 {
		w.from = claim.Positions[0].Offset
	}
	w.at = w.from
	return w.c.Open(w.ctx, claim)
}

// change makes a change at the next offset.
func (w *writer) change(kind changelog.Kind, row ...changelog.Value) changelog.Change {
	c := changelog.Change{Partition: part0, Offset: w.at, Kind: kind, Row: row}
	w.at++
	return c
}

func (w *writer) write(changes ...changelog.Change) error {
	b := changelog.NewBatch(w.table)
	for _, c := range changes {
		b.Append(c)
	}
	return w.c.Write(w.ctx, b)
}

// rows writes n rows of events.
func (w *writer) rows(n int) error {
	var cs []changelog.Change
	for range n {
		cs = append(cs, w.change(changelog.Insert, num(w.at), str(fmt.Sprint("row ", w.at))))
	}
	return w.write(cs...)
}

func at(offset int64) []changelog.Position {
	return []changelog.Position{{Partition: part0, Offset: offset, LeaderEpoch: -1}}
}

func (w *writer) prepare() (sink.Committable, error) {
	return w.c.Prepare(w.ctx, sink.Cut{Generation: w.claim.Generation, Checkpoint: w.cp + 1, From: at(w.from), To: at(w.at)})
}

func (w *writer) save(d sink.Committable) error {
	cp := sink.Checkpoint{ID: w.cp + 1, From: at(w.from), To: at(w.at)}
	if !d.Empty() {
		cp.Committables = []sink.Committable{d}
	}
	for _, e := range w.claim.Ended {
		cp.Settled = append(cp.Settled, e.ID)
	}
	if err := w.store.Save(w.ctx, w.claim.Generation, cp); err != nil {
		return err
	}
	w.cp, w.from = cp.ID, w.at
	return nil
}

// finish prepares, saves and commits, and must succeed.
func (w *writer) finish() sink.Committable {
	w.t.Helper()
	d, err := w.prepare()
	if err == nil {
		err = w.save(d)
	}
	if err == nil && !d.Empty() {
		err = w.c.Commit(w.ctx, d)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// put writes n rows as one checkpoint, and must succeed.
func (w *writer) put(n int) sink.Committable {
	w.t.Helper()
	w.must(w.rows(n))
	return w.finish()
}

func (w *writer) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// ids returns the ids in all visible files, sorted.
func (e *env) ids() (ids []int64) {
	for _, k := range e.dataKeys() {
		for _, l := range lines(unpacked(k, e.get(k))) {
			var id int64
			if _, err := fmt.Sscanf(string(l), `{"id":%d`, &id); err != nil {
				e.t.Errorf("%s: %q", k, l)
			}
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// holds fails unless exactly the rows 0 to n-1 are visible, each once.
func (e *env) holds(n int64, when string) {
	e.t.Helper()
	ids := e.ids()
	ok := int64(len(ids)) == n
	for i, id := range ids {
		ok = ok && id == int64(i)
	}
	if !ok {
		e.t.Errorf("%s: rows %v are visible, expected 0 to %d", when, ids, n-1)
	}
}

func is(t testing.TB, err, class error, parts ...string) {
	t.Helper()
	if sink.ClassOf(err) != class {
		t.Errorf("got %v, expected class %v", err, class)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error does not say %q: %v", p, err)
		}
	}
}

// on makes an Intercept that spoils the nth request of an operation, and tells whether it did.
func (e *env) on(op string, n int, f s3test.Fault) (fired func() bool) {
	var count, hit int
	e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
		if r.Op != op {
			return nil
		}
		if count++; count != n {
			return nil
		}
		hit++
		return &f
	}
	return func() bool { return hit > 0 }
}

func num(n int64) changelog.Value  { return changelog.IntValue(n) }
func str(s string) changelog.Value { return changelog.StringValue(s) }

// lower makes files of several parts, copies of several parts, and receipts that are objects, of some bytes each; where the server holds parts to S3's least size, files are of one.
func lower(s *s3.Sink, e *env) *s3.Sink {
	if e.tiny {
		return s.Lower(30, 0, 40, 20, 200)
	}
	return s.Lower(0, 0, 0, 0, 200)
}

// clean fails if uploads or staged objects are left.
func (e *env) clean(when string) {
	e.t.Helper()
	if u := e.uploads(); len(u) != 0 {
		e.t.Errorf("%s: uploads are left: %v", when, u)
	}
	if k := e.keys("lake/_staging/"); len(k) != 0 {
		e.t.Errorf("%s: staged objects are left: %v", when, k)
	}
}
