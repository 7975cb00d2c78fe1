package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// logged is a logger whose lines a test can read.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logged) count(s string) int { return strings.Count(l.text(), s) }

// upserts decodes key "k" with a value into an upsert, without one into a delete.
type upserts struct{ table *changelog.Table }

func newUpserts() upserts {
	return upserts{&changelog.Table{Name: "rows", Mode: changelog.Upsert, Schema: &changelog.Schema{
		Columns: []changelog.Column{
			{Name: "id", Type: changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength, NotNull: true}},
			{Name: "v", Type: changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}}},
		Key: []int{0}}}}
}

func (d upserts) Table() *changelog.Table { return d.table }

func (d upserts) Decode(b *changelog.Batch, r *changelog.Record) error {
	b.Pin(len(r.Key) + len(r.Value))
	row := b.NewRow()
	c := changelog.Change{Partition: r.Partition, Offset: r.Offset, Kind: changelog.UpdateAfter, Row: row}
	row[0], row[1] = changelog.StringValue(string(r.Key)), changelog.StringValue(string(r.Value))
	if r.Value == nil {
		c.Kind, c.KeyOnly = changelog.Delete, true
	}
	b.Append(c)
	return nil
}

// upserted returns the visible rows as texts such as "k v".
func (g *target) upserted() (out []string) {
	for _, r := range g.srv.Table("rows") {
		out = append(out, r[0].Str()+" "+r[1].Str())
	}
	slices.Sort(out)
	return out
}

// aged is a store whose positions were saved longer ago.
type aged struct {
	sink.Store
	by     time.Duration
	silent bool // it does not tell when
}

func (s aged) Read(ctx context.Context, bridge string) (sink.State, error) {
	st, err := s.Store.Read(ctx, bridge)
	for i := range st.Positions {
		st.Positions[i].Saved = st.Positions[i].Saved.Add(-s.by)
		if s.silent {
			st.Positions[i].Saved = time.Time{}
		}
	}
	return st, err
}

// compacted is a cluster whose topic has these settings, with a row k=1 at offset 0 in the target of a bridge that has gone away.
func compacted(t *testing.T, config map[string]string) (*cluster, *target) {
	t.Helper()
	k, g := newCluster(t, 1), newTarget()
	k.topic = "upserts"
	settings := make(map[string]*string)
	for name, v := range config {
		settings[name] = &v
	}
	if _, err := k.adm.CreateTopic(t.Context(), 1, 1, settings, k.topic); err != nil {
		t.Fatal(err)
	}
	k.pairs(time.Now(), "k", "1")
	if err := k.upserts(g, func(o *Options) { o.UntilEnd = true }).wait(); err != nil {
		t.Fatal(err)
	}
	return k, g
}

// pairs produces keys and values; "-" is none. Each is a batch of its own.
func (k *cluster) pairs(at time.Time, kvs ...string) {
	k.t.Helper()
	for i := 0; i < len(kvs); i += 2 {
		r := &kgo.Record{Topic: k.topic, Key: []byte(kvs[i]), Value: []byte(kvs[i+1]), Timestamp: at}
		if kvs[i+1] == "-" {
			r.Value = nil
		}
		if err := k.cl.ProduceSync(k.t.Context(), r).FirstErr(); err != nil {
			k.t.Fatal(err)
		}
	}
}

func (k *cluster) upserts(g *target, change func(o *Options)) *running {
	k.t.Helper()
	o := options(g)
	change(o)
	b, err := New("test", Input{Topics: []string{k.topic}, Decoder: newUpserts(), Client: []kgo.Opt{kgo.SeedBrokers(k.addr)}}, g, o)
	if err != nil {
		k.t.Fatal(err)
	}
	return start(k.t, b)
}

const day = 24 * time.Hour

// A bridge that was away for longer than tombstones live says so, whatever the topic looks like now (P91).
func TestMissedDeletes(t *testing.T) {
	compact := map[string]string{"cleanup.policy": "compact"} // tombstones live for a day
	old := func(k *cluster) { k.pairs(time.Now().Add(-3*day), "k", "-", "z", "9") }
	for _, c := range []struct {
		name   string
		config map[string]string
		since  func(k *cluster) // what happened while the bridge was away
		change func(o *Options) // of its next start
		store  aged             // what its store says then
		lost   []string         // the words of its ErrLost; nil: it goes on
		warns  []string         // of its log
		quiet  string           // what its log must not hold
		rows   []string         // after it went on
		extra  func(k *cluster) // of the brokers
	}{
		{name: "away for longer", config: compact, since: old, store: aged{by: 2 * day},
			lost: []string{"upserts/0@1", "keeps deletes for 24h0m0s", "48h0m", "flinksink positions reset", "Options.AllowMissedDeletes", "flinksink positions set upserts:0:1"}},
		{name: "also where the policy names two", config: map[string]string{"cleanup.policy": "delete, compact"}, since: old, store: aged{by: 2 * day}, lost: []string{"compacted"}},
		{name: "accepted", config: compact, since: old, store: aged{by: 2 * day}, change: func(o *Options) { o.AllowMissedDeletes = true },
			warns: []string{"may have been compacted away"}, rows: []string{"z 9"}},
		{name: "back in time", config: compact, since: old, store: aged{by: 20 * time.Hour}, rows: []string{"z 9"}, quiet: "compact"},
		{name: "tombstones live for a day after a lag of two", config: map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "172800000"},
			since: old, store: aged{by: 2 * day}, rows: []string{"z 9"}, quiet: "compact"},
		{name: "shorter than the default", config: map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "60000"}, since: old, store: aged{by: time.Hour}, lost: []string{"keeps deletes for 1m0s"}},
		{name: "not compacted", config: map[string]string{"cleanup.policy": "delete"}, since: old, store: aged{by: 20 * day}, rows: []string{"z 9"}, quiet: "compact"},
		{name: "nothing was written since", config: compact, since: func(*cluster) {}, store: aged{by: 20 * day}, rows: []string{"k 1"}, quiet: "compact"},
		{name: "idle before it went away", config: compact, since: func(k *cluster) { k.pairs(time.Now().Add(-time.Hour), "k", "-", "z", "9") },
			store: aged{by: 20 * day}, rows: []string{"z 9"}, quiet: "compact"},
		{name: "idle, and then a transaction that was aborted", config: compact, since: func(k *cluster) { k.txn("t", kgo.TryAbort, 0, "gone") },
			store: aged{by: 20 * day}, rows: []string{"k 1"}, quiet: "compact"},
		{name: "idle, and then one that is open", config: compact, since: func(k *cluster) { k.begin("t", 0, "later") },
			store: aged{by: 20 * day}, rows: []string{"k 1"}, quiet: "compact"},
		{name: "the first record after it is compacted away", config: map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "3600000"}, store: aged{by: 2 * time.Hour},
			since: func(k *cluster) {
				k.pairs(time.Now(), "x", "1", "x", "2", "y", "1")
				k.c.Compact()
			}, lost: []string{"upserts/0@1", "2h0m"}},
		{name: "no time in the store, old record", config: compact, since: old, store: aged{silent: true}, lost: []string{"72h0m"}},
		{name: "no time in the store, new record", config: compact, since: func(k *cluster) { k.pairs(time.Now(), "z", "9") }, store: aged{silent: true},
			rows: []string{"k 1", "z 9"}, quiet: "not known"},
		{name: "may not ask", config: compact, since: old, store: aged{by: 2 * day}, rows: []string{"z 9"}, warns: []string{"DESCRIBE_CONFIGS"},
			extra: func(k *cluster) { k.refuseConfigs() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, g := compacted(t, c.config)
			c.since(k)
			if c.extra != nil {
				c.extra(k)
			}
			var log logged
			r := k.upserts(g, func(o *Options) {
				o.UntilEnd = true
				o.Logger = log.logger()
				s := c.store
				s.Store = o.Store
				o.Store = s
				if c.change != nil {
					c.change(o)
				}
			})
			err := r.wait()
			if c.lost != nil {
				lostError(t, err, c.lost...)
				if got := g.positions(t, "test")[0]; got != 1 {
					t.Fatalf("the position moved to %d", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := g.upserted(); !slices.Equal(got, c.rows) {
				t.Fatalf("rows %q, want %q", got, c.rows)
			}
			for _, w := range c.warns {
				if log.count(w) != 1 {
					t.Errorf("the log says %q %d times:\n%s", w, log.count(w), log.buf.String())
				}
			}
			if c.quiet != "" && log.count(c.quiet) > 0 {
				t.Errorf("the log says %q:\n%s", c.quiet, log.buf.String())
			}
		})
	}
}

// refuseConfigs has the brokers deny what a topic's settings are.
func (k *cluster) refuseConfigs() {
	k.c.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.c.KeepControl()
		req := kreq.(*kmsg.DescribeConfigsRequest)
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range req.Resources {
			x := kmsg.NewDescribeConfigsResponseResource()
			x.ErrorCode, x.ResourceType, x.ResourceName = kerr.TopicAuthorizationFailed.Code, r.ResourceType, r.ResourceName
			resp.Resources = append(resp.Resources, x)
		}
		return resp, nil, true
	})
}

// A refusal comes before the generation begins: the next start is refused as well, and not fooled by what the first one saved.
func TestMissedDeletes_Twice(t *testing.T) {
	k, g := compacted(t, map[string]string{"cleanup.policy": "compact"})
	k.pairs(time.Now().Add(-3*day), "k", "-")
	for range 3 {
		r := k.upserts(g, func(o *Options) { o.Store = aged{Store: o.Store, by: 2 * day} })
		lostError(t, r.wait(), "keeps deletes for")
	}
	st, err := sinktest.NewStore(g.srv).Read(t.Context(), "test")
	if err != nil || len(st.Positions) != 1 || st.Positions[0].Generation != 1 {
		t.Fatalf("%+v, %v: the position is not that of the first generation", st.Positions, err)
	}
}

// A bridge that runs and cannot save for longer than tombstones live has missed them as well.
func TestMissedDeletes_WhileStanding(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		k, g := compacted(t, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "1"})
		var log logged
		r := k.upserts(g, func(o *Options) {
			o.AllowMissedDeletes = accepted
			o.Grace = 50 * time.Millisecond
			o.Logger = log.logger()
			o.backoff = func(int) time.Duration { return time.Millisecond }
		})
		until(t, "a start", func() bool { return len(r.b.Status().Partitions) == 1 && r.b.Status().Partitions[0].Saved == 1 }, r)
		g.on(func(op string) error {
			if op == "prepare" {
				return &sink.Error{Op: op, Class: sink.ErrTransient, Err: errors.New("away")}
			}
			return nil
		})
		k.pairs(time.Now(), "k", "-")
		if !accepted {
			lostError(t, r.wait(), "upserts/0@1", "keeps deletes for 1ms")
			continue
		}
		until(t, "the word", func() bool { return log.count("may be compacted away before they are read") == 1 }, r)
		g.on(nil)
		until(t, "the delete", func() bool { return len(g.upserted()) == 0 }, r)
		r.end()
	}
}

// A bridge whose position moves, and that lags behind all the same, is found by the ends of before that it has not reached.
func TestMissedDeletes_Marks(t *testing.T) {
	at := func(look int) time.Time { return time.Unix(int64(look), 0) }
	oldest := func(arrive, save, lag int64, looks int) time.Duration {
		p := &partition{saved: 0, last: lag}
		most := time.Duration(0)
		for i := range looks {
			p.look(at(i))
			if len(p.marks) > 0 {
				most = max(most, at(i).Sub(p.marks[0].at))
			}
			if len(p.marks) > mostMarks || !slices.IsSortedFunc(p.marks, func(a, b mark) int { return a.at.Compare(b.at) }) {
				t.Fatalf("marks %v", p.marks)
			}
			p.last += arrive
			p.saved = min(p.saved+save, p.last)
		}
		return most
	}
	for _, c := range []struct {
		name               string
		arrive, save, lag  int64
		looks, least, most int // seconds of the oldest mark
	}{
		{"all is saved", 10, 20, 0, 1000, 0, 1},
		{"it lags by what arrives in a minute", 10, 10, 600, 5000, 58, 63},
		{"it falls behind", 10, 9, 0, 10000, 900, 1010},
		{"it stands", 10, 0, 0, 1000, 998, 999},
		{"nothing more arrives, and it stands", 0, 0, 5, 1000, 999, 999},
		{"it catches up", 10, 20, 10000, 3000, 450, 505},
	} {
		if got := int(oldest(c.arrive, c.save, c.lag, c.looks).Seconds()); got < c.least || got > c.most {
			t.Errorf("%s: the oldest mark was %d s old, expected are %d to %d", c.name, got, c.least, c.most)
		}
	}
	p := &partition{saved: 3, last: 5}
	p.look(at(0))
	if p.holds = holdEnd; len(p.marks) != 1 {
		t.Errorf("marks %v", p.marks)
	}
	if p.look(at(1)); len(p.marks) != 0 { // read as far as asked
		t.Errorf("marks %v", p.marks)
	}
}

// An append-only table has no deletes to miss.
func TestMissedDeletes_AppendOnly(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	compact := "compact"
	if _, err := k.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &compact}}, k.topic); err != nil {
		t.Fatal(err)
	}
	k.put(0, "a")
	k.read(g)
	k.put(0, "b")
	o := options(g)
	o.UntilEnd = true
	o.Store = aged{Store: o.Store, by: 20 * day}
	if err := start(t, k.bridge(g, o)).wait(); err != nil {
		t.Fatal(err)
	}
	g.wantValues(t, []string{"a", "b"})
}

// The same with the log cleaner of a real broker: the tombstone is gone, and no offset error shows it.
func TestJava_MissedDeletes(t *testing.T) {
	k, _ := java(t, 1)
	g := newTarget()
	var configs []kadm.AlterConfig
	for name, v := range map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "1", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.001"} {
		configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &v})
	}
	if _, err := k.adm.AlterTopicConfigs(t.Context(), configs, k.topic); err != nil {
		t.Fatal(err)
	}
	k.pairs(time.Now(), "k", "1")
	if err := k.upserts(g, func(o *Options) { o.UntilEnd = true }).wait(); err != nil {
		t.Fatal(err)
	}
	if got := g.upserted(); !slices.Equal(got, []string{"k 1"}) {
		t.Fatalf("rows %q", got)
	}
	k.pairs(time.Now(), "k", "-")
	// New segments, until the cleaner has taken row and tombstone away. It looks for work every 15 s (log.cleaner.backoff.ms), takes the logs of a broker one
	// after the other, and has to pass a tombstone twice.
	over, stop := expiresAfter(5 * patience)
	defer stop()
	for n := 0; k.holds("k"); n++ {
		k.pairs(time.Now(), fmt.Sprintf("z%d", n%3), "9")
		select {
		case <-over:
			t.Fatal("waiting for the log cleaner")
		case <-time.After(100 * time.Millisecond): // else the log is longer each time than the look into it takes
		}
	}
	err := k.upserts(g, func(o *Options) {}).wait()
	lostError(t, err, "is compacted", "positions reset")
	if errors.Is(err, sink.ErrConfig) {
		t.Fatal(err)
	}
	// What the text says helps: a store and a target that know nothing, and the row is not there.
	fresh := newTarget()
	if err := k.upserts(fresh, func(o *Options) { o.UntilEnd = true }).wait(); err != nil {
		t.Fatal(err)
	}
	for _, row := range fresh.upserted() {
		if strings.HasPrefix(row, "k ") {
			t.Fatalf("rows %q", fresh.upserted())
		}
	}
}

// holds reports whether the topic still has a record with a key.
func (k *cluster) holds(key string) bool {
	k.t.Helper()
	end, err := k.adm.ListEndOffsets(k.t.Context(), k.topic)
	if err != nil {
		k.t.Fatal(err)
	}
	last, _ := end.Lookup(k.topic, 0)
	cl := k.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.topic: {0: kgo.NewOffset().AtStart()}}), kgo.FetchMaxWait(100*time.Millisecond))
	defer cl.Close()
	for at, found := int64(0), false; ; {
		fs := cl.PollFetches(k.t.Context())
		if err := fs.Err(); err != nil {
			k.t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			at, found = r.Offset+1, found || string(r.Key) == key
		})
		if at >= last.Offset {
			return found
		}
	}
}

func TestCompactionOf(t *testing.T) {
	for _, c := range []struct {
		policy, keeps, lag string
		want               compaction
	}{
		{"compact", "86400000", "0", compaction{true, day, day}},
		{"delete", "86400000", "0", compaction{false, day, day}},
		{"compact,delete", "1", "2", compaction{true, 3 * time.Millisecond, time.Millisecond}},
		{"", "", "", compaction{}},
		{"uncompact", "x", "-1", compaction{}},
		{"compact", "9223372036854775807", "9223372036854775807", compaction{true, 2 * (1<<63 - 1) / 4 / time.Millisecond * time.Millisecond, (1<<63 - 1) / 4}},
	} {
		got := compactionOf(map[string]string{"cleanup.policy": c.policy, "delete.retention.ms": c.keeps, "min.compaction.lag.ms": c.lag})
		if got.compacted != c.want.compacted || (got.keeps-c.want.keeps).Abs() > time.Second && got.keeps > 0 || got.keeps < 0 || (got.after-c.want.after).Abs() > time.Second {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
}
