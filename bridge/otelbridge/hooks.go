package otelbridge

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Hooks returns hooks for [bridge.Options] that record the metrics which the package's documentation lists, for the bridge of this name, and
// then call those of next. The error is the meter's: an instrument of that name and another kind, say.
func Hooks(m metric.Meter, name string, next bridge.Hooks) (bridge.Hooks, error) {
	i := instruments{m: m}
	duration := i.histogram("flinksink.checkpoint.duration", "s", "How long a step of a checkpoint took.")
	aborted := i.counter("flinksink.checkpoint.aborted", "{checkpoint}", "Checkpoints that were not decided and discarded.")
	alarms := i.counter("flinksink.alarms", "{alarm}", "Alarms of a decided checkpoint that cannot be committed.")
	fenced := i.counter("flinksink.fenced", "{fence}", "Lanes that found another generation owning their partitions.")
	dataErrors := i.counter("flinksink.data_errors", "{record}", "Records that cannot be decoded, or of which the sink refuses a change.")
	rebalances := i.counter("flinksink.rebalances", "{rebalance}", "How often the consumer group gave or took partitions.")
	written := i.counter("flinksink.written", "{change}", "Changes that every sink took, those of aborted checkpoints included.")
	size := i.counter("flinksink.written.size", "By", "Size in memory of the changes that every sink took.")
	if len(i.errs) > 0 {
		return bridge.Hooks{}, errors.Join(i.errs...)
	}

	ctx := context.Background() // hooks have none, and an instrument's is for traces only
	base := []attribute.KeyValue{system, bridgeKey.String(name)}
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(more, base...)...))
	}
	plain := with()
	prepare, save, commit := with(stepKey.String("prepare")), with(stepKey.String("save")), with(stepKey.String("commit"))
	assigned, revoked, lost := with(kindKey.String("assigned")), with(kindKey.String("revoked")), with(kindKey.String("lost"))
	took := func(d time.Duration, step metric.MeasurementOption) {
		if d > 0 { // a step that was not timed: the answer to a Save came by way of End
			duration.Record(ctx, d.Seconds(), step)
		}
	}

	h := next
	h.Saved = func(r sink.Report) {
		took(r.Prepare, prepare)
		took(r.Save, save)
		if next.Saved != nil {
			next.Saved(r)
		}
	}
	h.Committed = func(r sink.Report) {
		took(r.Commit, commit)
		if next.Committed != nil {
			next.Committed(r)
		}
	}
	h.Aborted = func(c sink.Cut, err error) {
		aborted.Add(ctx, 1, with(errorType(err)))
		if next.Aborted != nil {
			next.Aborted(c, err)
		}
	}
	h.Alarm = func(err error, n int) {
		alarms.Add(ctx, 1, with(errorType(err)))
		if next.Alarm != nil {
			next.Alarm(err, n)
		}
	}
	h.Fenced = func(err error) {
		fenced.Add(ctx, 1, plain)
		if next.Fenced != nil {
			next.Fenced(err)
		}
	}
	h.Written = func(t string, n, b int) {
		to := with(tableKey.String(t))
		written.Add(ctx, int64(n), to)
		size.Add(ctx, int64(b), to)
		if next.Written != nil {
			next.Written(t, n, b)
		}
	}
	h.Assigned = func(p []changelog.Partition) {
		rebalances.Add(ctx, 1, assigned)
		if next.Assigned != nil {
			next.Assigned(p)
		}
	}
	h.Revoked = func(p []changelog.Partition, gone bool) {
		how := revoked
		if gone {
			how = lost
		}
		rebalances.Add(ctx, 1, how)
		if next.Revoked != nil {
			next.Revoked(p, gone)
		}
	}
	h.DataError = func(err *changelog.DataError) {
		dataErrors.Add(ctx, 1, plain)
		if next.DataError != nil {
			next.DataError(err)
		}
	}
	return h, nil
}

// The attributes that the package's documentation lists.
const (
	systemKey    = attribute.Key("messaging.system")
	groupKey     = attribute.Key("messaging.consumer.group.name")
	topicKey     = attribute.Key("messaging.destination.name")
	partitionKey = attribute.Key("messaging.destination.partition.id")
	errorKey     = attribute.Key("error.type")
	bridgeKey    = attribute.Key("flinksink.bridge")
	laneKey      = attribute.Key("flinksink.lane")
	sinkKey      = attribute.Key("flinksink.sink")
	outcomeKey   = attribute.Key("flinksink.change.outcome")
	stepKey      = attribute.Key("flinksink.checkpoint.step")
	kindKey      = attribute.Key("flinksink.rebalance.kind")
	tableKey     = attribute.Key("flinksink.table")
)

var system = systemKey.String("kafka")

func errorType(err error) attribute.KeyValue {
	if err == nil {
		return errorKey.String("_OTHER") // what the conventions say for an error without a name
	}
	return errorKey.String(sink.ClassOf(err).Error())
}

// instruments makes instruments and gathers what goes wrong.
type instruments struct {
	m    metric.Meter
	all  []metric.Observable
	errs []error
}

func (i *instruments) note(err error) {
	if err != nil {
		i.errs = append(i.errs, err)
	}
}

func (i *instruments) counter(name, unit, what string) metric.Int64Counter {
	c, err := i.m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	i.note(err)
	return c
}

func (i *instruments) histogram(name, unit, what string) metric.Float64Histogram {
	h, err := i.m.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60))
	i.note(err)
	return h
}

func (i *instruments) observedCounter(name, unit, what string) metric.Int64ObservableCounter {
	c, err := i.m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	i.note(err)
	i.all = append(i.all, c)
	return c
}

func (i *instruments) gauge(name, unit, what string) metric.Int64ObservableGauge {
	g, err := i.m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	i.note(err)
	i.all = append(i.all, g)
	return g
}

func (i *instruments) seconds(name, what string) metric.Float64ObservableGauge {
	g, err := i.m.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(what))
	i.note(err)
	i.all = append(i.all, g)
	return g
}
