package bridge

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestNew_ChecksEverythingAtOnce(t *testing.T) {
	g := newTarget()
	good := Input{Topics: []string{"a"}, Decoder: texts{sinktest.Appended()}}
	tests := []struct {
		name string
		in   Input
		to   sink.Sink
		o    *Options
		want []string
	}{
		{"", Input{}, nil, nil, []string{"needs a name", "Decoder is missing", "sink is missing", "Topics is empty"}},
		{"x", Input{Topics: []string{"a", "a"}, Pattern: "(", Decoder: good.Decoder}, g, nil, []string{"both set", "listed twice", "Pattern"}},
		{"x", good, g, &Options{Interval: -1, Lanes: -1, ByteBudget: 10, Bytes: -6, OnData: 3}, []string{"Options.Interval is negative", "Options.Lanes", "Options.Bytes is negative", "OnData"}},
		{"x", good, g, &Options{Client: []kgo.Opt{kgo.InstanceID("")}}, []string{"client options"}},
		{"x", Input{Topics: []string{"a", "b"}, Decoder: good.Decoder, Start: Start{Mode: StartOffsets}}, g, nil, []string{"names no partition"}},
	}
	for _, tt := range tests {
		_, err := New(tt.name, tt.in, tt.to, tt.o)
		if !errors.Is(err, sink.ErrConfig) {
			t.Fatalf("got %v", err)
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	}
	if _, err := New("x", good, g, nil); err != nil {
		t.Fatal(err)
	}
}

func configError(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, sink.ErrConfig) {
		t.Fatalf("got %v, want ErrConfig", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestStart_MissingTopic(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	in := k.input()
	in.Topics = []string{"texts", "absent", "gone"}
	b, err := New("test", in, g, options(g))
	if err != nil {
		t.Fatal(err)
	}
	configError(t, start(t, b).wait(), `topic "absent" does not exist`, `topic "gone" does not exist`, k.c.ListenAddrs()[0])
}

func TestStart_Pattern(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	in := k.input()
	in.Topics, in.Pattern = nil, "te.*s"
	o := options(g)
	o.UntilEnd = true
	b, err := New("test", in, g, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	g.wantValues(t, []string{"a"})
	in.Pattern = "ext"
	if b, err = New("test", in, g, options(g)); err != nil {
		t.Fatal(err)
	}
	configError(t, start(t, b).wait(), `no topic matches the pattern "ext"`)
}

func TestStart_BrokerAway(t *testing.T) {
	// Nobody listens where one end of a connection is, and as long as there is the connection nobody else can.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	held, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	addr := held.LocalAddr().String()
	// In virtual time it is tried before Connect is over, however slow the machine is.
	synctest.Test(t, func(t *testing.T) {
		g := newTarget()
		o := options(g)
		o.Connect = 200 * time.Millisecond
		b, err := New("test", Input{Topics: []string{"a"}, Decoder: texts{sinktest.Appended()}, Client: []kgo.Opt{kgo.SeedBrokers(addr)}}, g, o)
		if err != nil {
			t.Fatal(err)
		}
		configError(t, b.Run(t.Context()), addr, "bootstrap.servers", "refused")
	})
}

func TestStart_CtxEnds(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	ctx, cancel := context.WithCancel(t.Context())
	k.c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cancel()
		return nil, errors.New("no"), true
	})
	if err := k.bridge(g, options(g)).Run(ctx); err != nil {
		t.Fatalf("an end during the start: %v", err)
	}
}

func TestStart_Unauthorized(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.c.ControlKey(int16(kmsg.JoinGroup), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.c.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil, true
	})
	configError(t, start(t, k.bridge(g, options(g))).wait(), `consumer group "test"`, "READ")
}

func TestStart_ClientOptionsAgainstUs(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	for name, opt := range map[string]kgo.Opt{"ServerSideBalancer": kgo.ServerSideBalancer(), "BlockRebalanceOnPoll": kgo.BlockRebalanceOnPoll(),
		"Input.Pattern": kgo.ConsumeRegex(), "Input.Topics": kgo.ConsumeTopics("texts")} {
		configError(t, start(t, k.bridge(g, options(g, opt))).wait(), name)
	}
	o := options(g)
	o.Grace = time.Minute
	configError(t, start(t, k.bridge(g, o)).wait(), "Options.Grace", "RebalanceTimeout")
}

// A user who may see a topic and not read it learns so at the start.
func TestStart_MayNotRead(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	k.c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.c.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		for _, rt := range req.Topics {
			t := kmsg.NewFetchResponseTopic()
			t.Topic, t.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewFetchResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, kerr.TopicAuthorizationFailed.Code
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
	configError(t, start(t, k.bridge(g, options(g))).wait(), `topic "texts"`, "READ")
}

// A store that holds another bridge of this name says so before the first row.
func TestStart_OtherFingerprint(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, "a")
	k.read(g)
	o := options(g)
	o.Group = "other"
	configError(t, start(t, k.bridge(g, o)).wait(), "test")
	if v := g.values(); len(v) != 1 {
		t.Fatalf("rows %q", v)
	}
}

// A record that cannot be decoded halts the bridge, once everything before it is checkpointed, also in other partitions.
func TestData_Halts(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	k.put(0, append(numbered("a", 0, 10), "bad record")...)
	k.put(0, "after")
	var hooked []*changelog.DataError
	o := options(g)
	o.Interval = 1 << 40
	o.Hooks.DataError = func(e *changelog.DataError) { hooked = append(hooked, e) }
	for range 2 { // it comes again, and the good rows do not
		err := start(t, k.bridge(g, o)).wait()
		var de *changelog.DataError
		if !errors.Is(err, sink.ErrRejected) || !errors.As(err, &de) || de.Offset != 10 || de.Topic != "texts" || de.Field != "v" {
			t.Fatalf("got %v", err)
		}
		for _, w := range []string{"texts/0 offset 10", "field v", "positions skip", "texts:0:10"} {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
		if strings.Contains(err.Error(), "bad record") {
			t.Errorf("%q shows the record", err)
		}
		g.wantValues(t, numbered("a", 0, 10))
		if p := g.positions(t, "test"); p[0] != 10 {
			t.Fatalf("positions %v", p)
		}
	}
	if len(hooked) != 2 {
		t.Fatalf("the hook heard of %d", len(hooked))
	}
}

// A halt holds even if the checkpoint before it has to be done again.
func TestData_HaltsAfterRedo(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	k.put(0, append(numbered("a", 0, 10), "bad")...)
	k.put(1, numbered("b", 0, 10)...)
	var mu sync.Mutex
	left := 5
	g.on(func(op string) error {
		mu.Lock()
		defer mu.Unlock()
		if op != "prepare" || left == 0 {
			return nil
		}
		left--
		return &sink.Error{Op: op, Class: sink.ErrTransient, Err: errors.New("made up")}
	})
	o := options(g)
	o.backoff = func(int) time.Duration { return time.Millisecond }
	err := start(t, k.bridge(g, o)).wait()
	if !errors.Is(err, sink.ErrRejected) {
		t.Fatalf("got %v", err)
	}
	if p := g.positions(t, "test"); p[0] != 10 {
		t.Fatalf("positions %v", p)
	}
}

// A halt holds even if the checkpoint before it is cut short by an event of the group that does not concern the record's partition.
func TestData_HaltsAfterInterrupt(t *testing.T) {
	for cut := false; !cut; { // until the record is not the very first thing that the lane sees
		k, g := newCluster(t, 2), newTarget()
		k.put(0, numbered("b", 0, 10)...)
		k.put(1, "bad")
		o := options(g)
		o.Interval = time.Hour // so that the only checkpoint with rows is that of the halt
		b := k.bridge(g, o)
		written := false // of the lane's goroutine, as cut is
		g.on(func(op string) error {
			written = written || op == "write"
			if op == "prepare" && written && !cut {
				cut = true
				b.cur.lanes[0].interrupt(false)
			}
			return nil
		})
		err := start(t, b).wait()
		var de *changelog.DataError
		if !errors.Is(err, sink.ErrRejected) || !errors.As(err, &de) || de.Partition.Partition != 1 {
			t.Fatalf("got %v", err)
		}
	}
}

// A lane that fails for good ends the bridge with its error; the other lanes save what they have.
func TestLane_FailsForGood(t *testing.T) {
	k, g := newCluster(t, 2), newTarget()
	k.put(0, "a")
	o := options(g)
	o.Lanes = 2
	r := start(t, k.bridge(g, o))
	g.wantValues(t, []string{"a"}, r)
	g.on(func(op string) error {
		if op == "write" {
			return &sink.Error{Op: op, Class: sink.ErrRejected, Err: errors.New("made up")}
		}
		return nil
	})
	k.put(1, "b")
	if err := r.wait(); !errors.Is(err, sink.ErrRejected) {
		t.Fatalf("got %v", err)
	}
}

// A sink that does not come back does not keep a stop waiting beyond the grace, and the error says what that means.
func TestStop_GraceRunsOut(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	trying := make(chan struct{}, 1)
	o := options(g)
	o.Grace = 50 * time.Millisecond
	r := start(t, k.bridge(g, o))
	until(t, "a saved begin", func() bool { return len(g.positions(t, "test")) == 1 }, r)
	g.on(func(op string) error {
		if op == "prepare" {
			signal(trying)
			return away(op)
		}
		return nil
	})
	k.put(0, "a")
	wait(t, "a try", trying)
	r.stop()
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "without a last checkpoint") {
		t.Fatalf("got %v", err)
	}
}

// What all lanes have to say is said once.
func TestStop_LanesSayItOnce(t *testing.T) {
	k, g := newCluster(t, 3), newTarget()
	var trying sync.WaitGroup
	trying.Add(3)
	o := options(g)
	o.Lanes = 3
	o.Grace = 50 * time.Millisecond
	o.Hooks.Lane = func(int) sink.Hooks {
		once := sync.OnceFunc(trying.Done)
		return sink.Hooks{Written: func(string, int, int) { once() }}
	}
	r := start(t, k.bridge(g, o))
	until(t, "saved begins", func() bool { return len(g.positions(t, "test")) == 3 }, r)
	g.on(func(op string) error {
		if op == "prepare" {
			return away(op)
		}
		return nil
	})
	for p := range int32(3) {
		k.put(p, "a")
	}
	trying.Wait()
	r.stop()
	if err := r.wait(); err == nil || strings.Count(err.Error(), "without a last checkpoint") != 1 {
		t.Fatalf("got %v", err)
	}
}

// A decoder of the user's own that gives nonsense is found before a sink indexes its rows, and with the record's place.
func TestData_DecoderMistakes(t *testing.T) {
	for name, spoil := range map[string]func(c *changelog.Change){
		"no row":          func(c *changelog.Change) { c.Row = nil },
		"short row":       func(c *changelog.Change) { c.Row = c.Row[:0] },
		"unknown kind":    func(c *changelog.Change) { c.Kind = 77 },
		"other offset":    func(c *changelog.Change) { c.Offset++ },
		"other partition": func(c *changelog.Change) { c.Partition = changelog.Partition{} },
	} {
		k, g := newCluster(t, 1), newTarget()
		k.put(0, "a", "b", "bad", "c")
		in := k.input()
		in.Decoder = spoiling{in.Decoder, spoil}
		b, err := New("b", in, g, options(g))
		if err != nil {
			t.Fatal(err)
		}
		err = start(t, b).wait()
		var data *changelog.DataError
		if !errors.Is(err, sink.ErrRejected) || !errors.As(err, &data) || data.Offset != 2 || data.Topic != k.topic {
			t.Errorf("%s: got %v", name, err)
		}
		g.wantValues(t, []string{"a", "b"})
	}
}

// spoiling spoils what another decoder makes of the value "bad".
type spoiling struct {
	changelog.Decoder
	spoil func(c *changelog.Change)
}

func (s spoiling) Decode(b *changelog.Batch, r *changelog.Record) error {
	err := s.Decoder.Decode(b, r)
	if err == nil && string(r.Value) == "bad" {
		s.spoil(&b.Changes[b.Len()-1])
	}
	return err
}

func TestNew_Name(t *testing.T) {
	k, g := newCluster(t, 1), newTarget()
	for _, name := range []string{"", "a\x00b", "a\tb", " a", "a ", "\xff", strings.Repeat("n", 201)} {
		if _, err := New(name, k.input(), g, options(g)); !errors.Is(err, sink.ErrConfig) {
			t.Errorf("%q: got %v, want ErrConfig", name, err)
		}
	}
}
