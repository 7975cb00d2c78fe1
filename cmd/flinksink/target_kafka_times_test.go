package main

import (
	"strings"
	"testing"
	"time"
)

// A transaction of Kafka is open for as long as a checkpoint takes to come: an interval that its timeout does not last for is refused before the first row, and
// check says the same. 0s of downtime is none.
func TestRun_IntervalBeyondKafkasTimeout(t *testing.T) {
	broker := newBroker(t)
	keyed(t, broker, 1)
	makeTopic(t, broker, "copy", 1)
	ddl := write(t, "ddl.sql", keyedDDL)
	for _, mode := range []string{"in-transaction", "two-phase"} {
		with := func(name string, more ...string) result {
			return command(t, append([]string{name, "--bridge", mode, "--ddl", ddl, "--brokers", broker, "--to", "kafka://" + broker + "/copy", "--mode", mode}, more...)...)
		}
		long := []string{"--interval", "10m", "--kafka-transaction-timeout", "10m"}
		got := with("run", append(long, "--until-end")...)
		if got.status != exitConfig || !strings.Contains(got.errs, "--kafka-transaction-timeout is 10m0s, --interval is 10m0s") {
			t.Errorf("%s: %+v", mode, got)
		}
		if got := with("check", long...); got.status != exitFailed || !strings.Contains(got.out, "wrong  target     --kafka-transaction-timeout is 10m0s, --interval is 10m0s") {
			t.Errorf("%s: check: %+v", mode, got)
		}
		if got := with("check", "--interval", "10m"); got.status != exitDone {
			t.Errorf("%s: check: %+v", mode, got)
		}
		got = with("run", "--until-end", "--interval", "10m", "--kafka-max-downtime", "-1s", "--kafka-transaction-timeout", "1ms")
		if got.status != exitConfig || !strings.Contains(got.errs, "--kafka-max-downtime is -1s: it is 0s, for none, or longer") || !strings.Contains(got.errs, "--kafka-transaction-timeout is 1ms: it has to be between") {
			t.Errorf("%s: both wrong: %+v", mode, got)
		}
		if got := with("run", "--until-end", "--interval", "10m", "--kafka-max-downtime", "0s", "--kafka-transaction-timeout", "601s"); got.status != exitDone {
			t.Errorf("%s: %+v", mode, got)
		}
	}
}

// All three times and the brokers' own are in one message, with what can be done.
func TestKafkaTimes(t *testing.T) {
	m := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	for _, c := range []struct {
		twoPhase                         bool
		timeout, downtime, interval, max time.Duration
		want                             string // "": fine
	}{
		{false, m(15), m(30), m(1), m(15), ""},
		{true, m(15), m(1), m(13), m(15), ""},
		{true, m(15), 0, m(14), 0, ""},
		{true, m(15), m(14), 0, 0, ""},
		{false, m(15), m(1), m(15), m(15), "--kafka-transaction-timeout is 15m0s, --interval is 15m0s, and transaction.max.timeout.ms of the brokers is 15m0s: the timeout has to be longer than 15m0s: a transaction is open for as long as a checkpoint takes to come, " +
			"and the broker would abort each before its end, again and again: lower --interval, or raise the brokers' setting and then the timeout"},
		{true, m(10), m(5), m(5), m(15), "--kafka-transaction-timeout is 10m0s, --interval is 5m0s and --kafka-max-downtime is 5m0s: the timeout has to be longer than 10m0s: a transaction is open for the interval, " +
			"and then waits for the downtime at worst until a process is there that commits it, so the broker would abort what is decided, and it would be lost: raise it (the brokers take it up to their transaction.max.timeout.ms), or lower --interval or --kafka-max-downtime"},
		{true, m(1), m(5), 0, 0, "--kafka-transaction-timeout is 1m0s, --kafka-max-downtime is 5m0s: the timeout has to be longer than 5m0s: "},
		{false, m(20), m(1), m(1), m(15), "--kafka-transaction-timeout is 20m0s, --interval is 1m0s, and transaction.max.timeout.ms of the brokers is 15m0s: lower the timeout to that, or raise the brokers' setting"},
		{true, m(30), m(10), m(10), m(15), "--kafka-transaction-timeout is 30m0s, --interval is 10m0s and --kafka-max-downtime is 10m0s, and transaction.max.timeout.ms of the brokers is 15m0s, while the timeout has to be longer than 20m0s: " +
			"raise the brokers' setting, or lower --interval or --kafka-max-downtime and the timeout"},
	} {
		f := &kafkaFlags{timeout: c.timeout, downtime: c.downtime}
		err := f.lasts(c.twoPhase, c.interval, c.max)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || !isConfig(err)):
			t.Errorf("%+v: %v", c, err)
		}
	}
}
