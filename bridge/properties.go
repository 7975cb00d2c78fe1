package bridge

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// propertyPrefix is what Flink takes off the options that it hands to its Kafka client.
const propertyPrefix = "properties."

// ClientOptions turns the 'properties.*' of a table, which configure Flink's Java client, into options of ours: brokers, TLS, SASL,
// fetch sizes, group timeouts, backoff. A limit that is out of the range the client takes is brought to the end of the range.
//
// Always set: read_committed (a table that says read_uncommitted is refused, since what it would read may be rolled back), and no
// reset of an offset that is gone, whatever 'properties.auto.offset.reset' says. 'properties.group.id' is no option; [GroupID]
// returns it. Properties of producers, and others that mean nothing here, are known and have no effect; [Ignored] lists them. An
// unknown property is refused by name.
//
// Files that properties name (PEM stores) are read here; the token endpoint of OAUTHBEARER is asked at each login.
// The error joins one [*sink.Error] of class [sink.ErrConfig] for each mistake. Values are never part of it.
func ClientOptions(t *ddl.Table) ([]kgo.Opt, error) {
	p := &properties{values: map[string]string{}}
	for _, key := range t.Options.Keys() {
		if name, ok := strings.CutPrefix(key, propertyPrefix); ok {
			p.values[name] = strings.TrimSpace(t.Options[key])
		}
	}
	known := knownProperties()
	for _, name := range sortedKeys(p.values) {
		k, ok := known[name]
		switch {
		case !ok:
			p.bad(name, "is no property of a Kafka client%s: correct it or take it out", nearest(name, known))
		case k.refused != "" && p.values[name] != "":
			p.bad(name, "%s", k.refused)
		case k.apply != nil:
			k.apply(p, name, p.values[name])
		}
	}
	if p.values["bootstrap.servers"] == "" && !slices.Contains(p.badNames, "bootstrap.servers") {
		p.bad("bootstrap.servers", "is missing: name the brokers, as 'host:9092,other:9092'")
	}
	p.backoff()
	p.security()
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	p.add(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	// What the client finds contradictory although each property is fine, such as a heartbeat interval above the session timeout.
	if err := kgo.ValidateOpts(p.opts...); err != nil {
		return nil, optionError("'properties.*': %w", err)
	}
	return p.opts, nil
}

// GroupID returns 'properties.group.id', the consumer group that the table names, or "".
func GroupID(t *ddl.Table) string { return strings.TrimSpace(t.Options[propertyPrefix+"group.id"]) }

// Ignored says which options of the table have no effect here and why, one line each, sorted. Options that only tell Flink how to
// write are left out.
func Ignored(t *ddl.Table) []string {
	known := knownProperties()
	var out []string
	for _, key := range t.Options.Keys() {
		if name, ok := strings.CutPrefix(key, propertyPrefix); ok {
			if why := known[name].ignored; why != "" && why != forProducers {
				out = append(out, fmt.Sprintf("option '%s' has no effect: %s", key, why))
			}
		}
	}
	return append(out, ignoredStart(t)...)
}

// properties collects what the properties of one table become.
type properties struct {
	values   map[string]string // without prefix
	opts     []kgo.Opt
	errs     []error
	badNames []string // of the properties in errs
}

func (p *properties) add(o ...kgo.Opt) { p.opts = append(p.opts, o...) }

// bad notes a mistake in one property; the text goes on after its name.
func (p *properties) bad(name, format string, args ...any) {
	p.badNames = append(p.badNames, name)
	p.errs = append(p.errs, optionError("option '%s%s' "+format, append([]any{propertyPrefix, name}, args...)...))
}

// optionError makes the error of one mistake in the options of a table.
func optionError(format string, args ...any) error {
	return &sink.Error{Op: "read table options", Class: sink.ErrConfig, Err: fmt.Errorf(format, args...)}
}

// property is what becomes of one property of the Java client.
type property struct {
	apply   func(p *properties, name, value string)
	ignored string // it has no effect, and why
	refused string // it cannot be honoured and must not be ignored: why, with the cure
}

// number returns the value of a property that is a whole number from least on.
func (p *properties) number(name, value string, least int64, most int64) (int64, bool) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		p.bad(name, "must be a whole number from %d to %d", least, most)
		return 0, false
	}
	return n, true
}

// size makes an option of a number of bytes, brought into [least, most].
func size(least, most int64, option func(int32) []kgo.Opt) property {
	return property{apply: func(p *properties, name, value string) {
		if n, ok := p.number(name, value, 0, math.MaxInt32); ok {
			p.add(option(int32(min(max(n, least), most)))...)
		}
	}}
}

// millis makes an option of a duration, brought into [least, most]. from is the least value that the Java client takes.
func millis(from int64, least, most time.Duration, option func(time.Duration) []kgo.Opt) property {
	return property{apply: func(p *properties, name, value string) {
		if n, ok := p.number(name, value, from, math.MaxInt64/int64(time.Millisecond)); ok {
			d := time.Duration(n) * time.Millisecond
			if n < 0 { // -1: no limit
				d = most
			}
			p.add(option(min(max(d, least), most))...)
		}
	}}
}

// boolean calls f with the value of a property that is true or false.
func boolean(f func(p *properties, name string, value bool)) property {
	return property{apply: func(p *properties, name, value string) {
		switch strings.ToLower(value) {
		case "true":
			f(p, name, true)
		case "false":
			f(p, name, false)
		default:
			p.bad(name, "must be true or false")
		}
	}}
}

// brokers reads bootstrap.servers as the Java client does: host:port, with an optional protocol before it, separated by commas.
func brokers(p *properties, name, value string) {
	var seeds []string
	for _, s := range strings.Split(value, ",") {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		if _, after, ok := strings.Cut(s, "://"); ok {
			s = after
		}
		host, port, err := net.SplitHostPort(s)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || strings.ContainsAny(host, "@/ ") || perr != nil || n == 0 {
			p.bad(name, "must list brokers as host:port with commas between them; broker %d of the list is none", len(seeds)+1)
			return
		}
		seeds = append(seeds, net.JoinHostPort(host, port))
	}
	if len(seeds) > 0 {
		p.add(kgo.SeedBrokers(seeds...))
	} else {
		p.bad(name, "is empty: name the brokers, as 'host:9092,other:9092'")
	}
}

// assignors reads partition.assignment.strategy.
func assignors(p *properties, name, value string) {
	var balancers []kgo.GroupBalancer
	for _, class := range strings.Split(value, ",") {
		switch className(class) {
		case "":
		case "RangeAssignor":
			balancers = append(balancers, kgo.RangeBalancer())
		case "RoundRobinAssignor":
			balancers = append(balancers, kgo.RoundRobinBalancer())
		case "StickyAssignor":
			balancers = append(balancers, kgo.StickyBalancer())
		case "CooperativeStickyAssignor":
			balancers = append(balancers, kgo.CooperativeStickyBalancer())
		default:
			p.bad(name, "lists a class that is not one of Kafka's own: use RangeAssignor, RoundRobinAssignor, StickyAssignor or CooperativeStickyAssignor")
			return
		}
	}
	if len(balancers) > 0 {
		p.add(kgo.Balancers(balancers...))
	}
}

// className returns the last part of a Java class name: Flink's own jars shade the packages of Kafka.
func className(class string) string {
	class = strings.TrimSpace(class)
	return class[strings.LastIndexAny(class, ".$")+1:]
}

// backoff combines retry.backoff.ms and retry.backoff.max.ms: doubling, with a fifth of chance in either direction, as the Java client.
func (p *properties) backoff() {
	first, last := 100*time.Millisecond, time.Second
	given := false
	read := func(name string, d *time.Duration) {
		value, ok := p.values[name]
		if !ok {
			return
		}
		if n, ok := p.number(name, value, 0, math.MaxInt32); ok {
			given = true
			*d = max(time.Duration(n)*time.Millisecond, time.Millisecond)
		}
	}
	read("retry.backoff.ms", &first)
	read("retry.backoff.max.ms", &last)
	if !given {
		return
	}
	last = max(first, last)
	p.add(kgo.RetryBackoffFn(func(try int) time.Duration {
		d := first
		for ; try > 1 && d < last; try-- {
			d *= 2
		}
		return time.Duration(float64(min(d, last)) * (0.8 + 0.4*rand.Float64()))
	}))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// nearest returns " (did you mean 'x'?)" for the known name that is least different, if one is near enough.
func nearest[V any](name string, known map[string]V) string {
	best, least := "", max(2, len(name)/4)+1
	for _, k := range sortedKeys(known) {
		if d := distance(strings.ToLower(name), k, least); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean '%s'?)", best)
}

// distance returns how many letters must be put in, taken out or changed to make b of a, or limit when it is not less.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := corner
			if a[i] != b[j] {
				d = 1 + min(corner, row[j], row[j+1])
			}
			corner, row[j+1] = row[j+1], d
		}
	}
	return min(row[len(b)], limit)
}
