package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/flinksink/flinksink/sink/kafka"
)

// This file compares the times of a Kafka target: what its transactions have to outlast, how long they last, and what the brokers allow. The sink compares them
// too, one after the other and by the names that they have in Go; here all that is wrong is said at once.

// Those of kafka.Options.
const (
	defaultTransactionTimeout = 15 * time.Minute
	defaultMaxDowntime        = time.Minute
)

// away is the flag as the sink takes it.
func (f *kafkaFlags) away() time.Duration {
	if f.downtime == 0 {
		return kafka.NoDowntime
	}
	return f.downtime
}

// times refuses what can be no time.
func (f *kafkaFlags) times() error {
	var errs []error
	if f.timeout < time.Second || f.timeout.Milliseconds() > 1<<31-1 {
		errs = append(errs, usage(fmt.Errorf("--kafka-transaction-timeout is %v: it has to be between 1s and 24 days", f.timeout)))
	}
	if f.downtime < 0 {
		errs = append(errs, usage(fmt.Errorf("--kafka-max-downtime is %v: it is 0s, for none, or longer", f.downtime)))
	}
	return errors.Join(errs...)
}

// lasts compares the transaction timeout with what it has to outlast and with most, what the brokers take; 0: they do not tell. An interval of 0 is not known.
func (f *kafkaFlags) lasts(twoPhase bool, interval, most time.Duration) error {
	var given, shorter []string
	need := time.Duration(0)
	add := func(flag string, d time.Duration) {
		if d > 0 {
			need += d
			given, shorter = append(given, fmt.Sprintf("%s is %v", flag, d)), append(shorter, flag)
		}
	}
	add("--interval", interval)
	why := "a transaction is open for as long as a checkpoint takes to come, and the broker would abort each before its end, again and again"
	if twoPhase {
		add("--kafka-max-downtime", f.downtime)
		why = "a transaction is open for the interval, and then waits for the downtime at worst until a process is there that commits it, so the broker would abort what is decided, and it would be lost"
	}
	lower := "lower " + strings.Join(shorter, " or ")
	brokers := fmt.Sprintf("transaction.max.timeout.ms of the brokers is %v", most)
	state := fmt.Sprintf("--kafka-transaction-timeout is %v", f.timeout)
	if len(given) > 0 {
		state += ", " + strings.Join(given, " and ")
	}
	switch known := most > 0; {
	case f.timeout <= need && known && need >= most:
		return config("%s, and %s: the timeout has to be longer than %v: %s: %s, or raise the brokers' setting and then the timeout", state, brokers, need, why, lower)
	case f.timeout <= need:
		return config("%s: the timeout has to be longer than %v: %s: raise it (the brokers take it up to their transaction.max.timeout.ms), or %s", state, need, why, lower)
	case known && f.timeout > most && need < most:
		return config("%s, and %s: lower the timeout to that, or raise the brokers' setting", state, brokers)
	case known && f.timeout > most:
		return config("%s, and %s, while the timeout has to be longer than %v: raise the brokers' setting, or %s and the timeout", state, brokers, need, lower)
	}
	return nil
}

// mostTimeout is transaction.max.timeout.ms of the brokers, 0 where the user may not ask for it: the brokers tell when the first transaction begins.
func mostTimeout(ctx context.Context, cl *client) time.Duration {
	adm := kadm.NewClient(cl.Client)
	brokers, err := adm.ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		return 0
	}
	configs, err := adm.DescribeBrokerConfigs(ctx, brokers[0].NodeID)
	if err != nil {
		return 0
	}
	for _, c := range configs {
		for _, kv := range c.Configs {
			if kv.Key == "transaction.max.timeout.ms" {
				n, err := strconv.ParseInt(kv.MaybeValue(), 10, 64)
				if err == nil && n > 0 && n <= 1<<31-1 {
					return time.Duration(n) * time.Millisecond
				}
			}
		}
	}
	return 0
}
