package otelbridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

func newMeter() (metric.Meter, *sdk.ManualReader) {
	r := sdk.NewManualReader()
	return sdk.NewMeterProvider(sdk.WithReader(r)).Meter("flinksink"), r
}

// collect returns each series as "name{attributes}" and its value: sums and gauges as numbers, of a histogram the count.
func collect(t *testing.T, r *sdk.ManualReader) (series map[string]float64, units map[string]string) {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	series, units = map[string]float64{}, map[string]string{}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			kind := ""
			put := func(set attribute.Set, v float64) {
				if got, _ := set.Value(systemKey); got.AsString() != "kafka" {
					t.Errorf("%s: messaging.system is %q", m.Name, got.AsString())
				}
				rest, _ := set.Filter(func(kv attribute.KeyValue) bool {
					return !slices.Contains([]attribute.Key{systemKey, bridgeKey, groupKey}, kv.Key)
				})
				series[m.Name+"{"+rest.Encoded(attribute.DefaultEncoder())+"}"] = v
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				kind = "counter"
				if !d.IsMonotonic {
					t.Errorf("%s is no counter", m.Name)
				}
				for _, p := range d.DataPoints {
					put(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				kind = "gauge"
				for _, p := range d.DataPoints {
					put(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				kind = "gauge"
				for _, p := range d.DataPoints {
					put(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				kind = "histogram"
				for _, p := range d.DataPoints {
					put(p.Attributes, float64(p.Count))
				}
			default:
				t.Fatalf("%s is a %T", m.Name, m.Data)
			}
			units[m.Name] = kind + " " + m.Unit
		}
	}
	return series, units
}

func want(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	if !maps.Equal(got, want) {
		for _, k := range slices.Sorted(maps.Keys(got)) {
			t.Logf("got %s %v", k, got[k])
		}
		for k, v := range want {
			if g, ok := got[k]; !ok || g != v {
				t.Errorf("%s is %v (%t), want %v", k, g, ok, v)
			}
		}
		for k := range got {
			if _, ok := want[k]; !ok {
				t.Errorf("%s is reported, which is not wanted", k)
			}
		}
	}
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func status() bridge.Status {
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	return bridge.Status{Bridge: "orders", Group: "group", Running: true, Started: before(time.Hour), LastCheckpoint: before(2 * time.Second), Checkpoints: 7, Retries: 3,
		Counters: sink.Counters{Records: 11, Read: 10, Applied: 4, Superseded: 3, DeadLettered: 2, Skipped: 1},
		Lanes: []bridge.LaneStatus{{Lane: 0, Buffered: 100}, {Lane: 1, FailingSince: before(9 * time.Second), Uncommitted: errors.New("stuck"),
			Sinks: []bridge.SinkStatus{{Sink: "rows"}, {Sink: "files", Pending: 1, Since: before(9 * time.Second)}}}},
		Partitions: []bridge.PartitionStatus{
			{Partition: changelog.Partition{Topic: "t"}, Saved: 5, LastStableOffset: 8, HighWatermark: 9, StandsSince: before(time.Minute)},
			{Partition: changelog.Partition{Topic: "t", Partition: 1}, Saved: -1, LastStableOffset: -1, HighWatermark: -1}}}
}

func TestObserve(t *testing.T) {
	m, r := newMeter()
	s := status()
	reg, err := observe(m, func() time.Time { return now }, func() bridge.Status { return s })
	if err != nil {
		t.Fatal(err)
	}
	const a, b = "messaging.destination.name=t,messaging.destination.partition.id=0", "messaging.destination.name=t,messaging.destination.partition.id=1"
	running := map[string]float64{
		"flinksink.bridge.running{}": 1, "flinksink.messages{}": 11, "flinksink.checkpoints{}": 7, "flinksink.retries{}": 3, "flinksink.checkpoint.age{}": 2,
		"flinksink.changes{flinksink.change.outcome=applied}": 4, "flinksink.changes{flinksink.change.outcome=superseded}": 3,
		"flinksink.changes{flinksink.change.outcome=dead_lettered}": 2, "flinksink.changes{flinksink.change.outcome=skipped}": 1,
		"flinksink.lane.failing{flinksink.lane=0}": 0, "flinksink.lane.failing{flinksink.lane=1}": 9,
		"flinksink.lane.uncommitted{flinksink.lane=0}": 0, "flinksink.lane.uncommitted{flinksink.lane=1}": 1,
		"flinksink.sink.pending{flinksink.lane=1,flinksink.sink=rows}": 0, "flinksink.sink.pending{flinksink.lane=1,flinksink.sink=files}": 9,
		"flinksink.lane.buffered{flinksink.lane=0}": 100, "flinksink.lane.buffered{flinksink.lane=1}": 0,
		"flinksink.partition.position{" + a + "}": 5, "flinksink.partition.lag{" + a + "}": 4, "flinksink.partition.waiting{" + a + "}": 1,
		"flinksink.partition.standing{" + a + "}": 60, "flinksink.partition.standing{" + b + "}": 0,
	}
	got, _ := collect(t, r)
	want(t, got, running)
	got, _ = collect(t, r) // a second look adds nothing
	want(t, got, running)

	// It stops: what it held is no longer its to report, what it counted is.
	s.Running = false
	stopped := map[string]float64{"flinksink.bridge.running{}": 0}
	for k, v := range running {
		if strings.HasPrefix(k, "flinksink.messages") || strings.HasPrefix(k, "flinksink.changes") || strings.HasPrefix(k, "flinksink.checkpoints") || strings.HasPrefix(k, "flinksink.retries") {
			stopped[k] = v
		}
	}
	got, _ = collect(t, r)
	want(t, got, stopped)

	// The next Run counts from nothing, and the counters go on.
	s = bridge.Status{Bridge: "orders", Group: "group", Running: true, Started: now.Add(-time.Second)}
	got, _ = collect(t, r)
	if got["flinksink.messages{}"] != 11 || got["flinksink.checkpoint.age{}"] != 1 {
		t.Errorf("a new Run: %v", got)
	}
	s.Counters.Records, s.Checkpoints = 5, 1
	got, _ = collect(t, r)
	if got["flinksink.messages{}"] != 16 || got["flinksink.checkpoints{}"] != 8 || got["flinksink.retries{}"] != 3 {
		t.Errorf("a new Run, later: %v", got)
	}

	if err := reg.Unregister(); err != nil {
		t.Fatal(err)
	}
	s.Counters.Records = 500
	if got, _ := collect(t, r); got["flinksink.messages{}"] == 511 {
		t.Error("reported after Unregister")
	}
}

func TestHooks(t *testing.T) {
	m, r := newMeter()
	var called []string
	call := func(s string) { called = append(called, s) }
	next := bridge.Hooks{
		Assigned:  func([]changelog.Partition) { call("assigned") },
		Revoked:   func(_ []changelog.Partition, lost bool) { call(fmt.Sprintf("revoked %t", lost)) },
		DataError: func(*changelog.DataError) { call("data") },
		Started:   func(sink.Guarantee) { call("started") },
	}
	next.Saved = func(sink.Report) { call("saved") }
	next.Committed = func(sink.Report) { call("committed") }
	next.Aborted = func(sink.Cut, error) { call("aborted") }
	next.Alarm = func(error, int) { call("alarm") }
	next.Fenced = func(error) { call("fenced") }
	next.Written = func(string, int, int) { call("written") }
	h, err := Hooks(m, "orders", next)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := Hooks(m, "orders", bridge.Hooks{}) // the same instruments, and nobody behind them
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []bridge.Hooks{h, silent} {
		rep := sink.Report{Prepare: time.Second, Save: time.Millisecond}
		h.Saved(rep)
		rep.Commit = time.Second
		h.Committed(rep)
		h.Saved(sink.Report{Prepare: time.Second}) // End gave the answer
		h.Aborted(sink.Cut{}, nil)
		h.Aborted(sink.Cut{}, fmt.Errorf("wrapped: %w", &sink.Error{Class: sink.ErrTransient}))
		h.Alarm(errors.New("no class"), 5)
		h.Fenced(&sink.Error{Class: sink.ErrFenced})
		h.Written("orders", 10, 1000)
		h.Written("orders", 5, 500)
		h.Assigned(nil)
		h.Revoked(nil, false)
		h.Revoked(nil, true)
		h.DataError(&changelog.DataError{})
	}
	h.Started(sink.Guarantee{})
	got, _ := collect(t, r)
	want(t, got, map[string]float64{
		"flinksink.checkpoint.duration{flinksink.checkpoint.step=prepare}": 4, "flinksink.checkpoint.duration{flinksink.checkpoint.step=save}": 2,
		"flinksink.checkpoint.duration{flinksink.checkpoint.step=commit}": 2,
		"flinksink.checkpoint.aborted{error.type=_OTHER}":                 2, "flinksink.checkpoint.aborted{error.type=transient}": 2,
		"flinksink.alarms{error.type=uncertain}": 2, "flinksink.fenced{}": 2, "flinksink.data_errors{}": 2,
		"flinksink.written{flinksink.table=orders}": 30, "flinksink.written.size{flinksink.table=orders}": 3000,
		"flinksink.rebalances{flinksink.rebalance.kind=assigned}": 2, "flinksink.rebalances{flinksink.rebalance.kind=revoked}": 2,
		"flinksink.rebalances{flinksink.rebalance.kind=lost}": 2,
	})
	if s := strings.Join(called, ","); s != "saved,committed,saved,aborted,aborted,alarm,fenced,written,written,assigned,revoked false,revoked true,data,started" {
		t.Errorf("the hooks behind were called: %s", s)
	}
}

// The documentation's tables and the instruments are the same, in name, kind and unit.
func TestDocumented(t *testing.T) {
	m, r := newMeter()
	if _, err := observe(m, func() time.Time { return now }, status); err != nil {
		t.Fatal(err)
	}
	h, err := Hooks(m, "orders", bridge.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	h.Saved(sink.Report{Prepare: 1})
	h.Aborted(sink.Cut{}, nil)
	h.Alarm(nil, 1)
	h.Fenced(nil)
	h.Written("t", 1, 1)
	h.Assigned(nil)
	h.DataError(nil)
	_, units := collect(t, r)

	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, f := range regexp.MustCompile(`(?m)^//\t(flinksink\.\S+) +(counter|gauge|histogram) +(\S+) `).FindAllStringSubmatch(string(text), -1) {
		documented[f[1]] = f[2] + " " + f[3]
	}
	if !maps.Equal(units, documented) {
		t.Errorf("instruments %v\ndocumented  %v", units, documented)
	}
	if len(units) < 20 {
		t.Errorf("%d instruments: the test has seen too little", len(units))
	}
	for _, k := range []attribute.Key{systemKey, groupKey, topicKey, partitionKey, errorKey, bridgeKey, laneKey, outcomeKey, stepKey, kindKey, tableKey} {
		if !strings.Contains(string(text), "//\t"+string(k)+" ") {
			t.Errorf("the attribute %s is not documented", k)
		}
	}
}

func TestErrors(t *testing.T) {
	m, _ := newMeter()
	if _, err := Observe(m, nil); err == nil {
		t.Error("a nil bridge is taken")
	}
	if _, err := Hooks(broken{}, "b", bridge.Hooks{}); err == nil || strings.Count(err.Error(), "broken") < 2 {
		t.Errorf("a meter's errors: %v", err)
	}
	if _, err := Observe(broken{}); err == nil {
		t.Error("a meter's errors are not told")
	}
}

// broken is a meter that refuses.
type broken struct{ noop.Meter }

func (broken) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, errors.New("broken")
}

func (broken) Int64ObservableGauge(string, ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return noop.Int64ObservableGauge{}, errors.New("broken")
}
