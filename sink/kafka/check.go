package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file asks the server, when a lane opens, whether it can do what the settings promise.

// limits is what the target's topic allows.
type limits struct {
	partitions int
	batch      int // bytes
}

// checkTarget looks at the topic that is written to. What the client may not read is not checked.
func (s *Sink) checkTarget(ctx context.Context) (limits, error) {
	t, err := s.c.exists(ctx, s.topic)
	if err != nil {
		return limits{}, fmt.Errorf("topic %q: %w", s.topic, err)
	}
	if s.o.ProofTopic != "" {
		if _, err := s.c.exists(ctx, s.o.ProofTopic); err != nil {
			return limits{}, fmt.Errorf("Options.ProofTopic %q: %w", s.o.ProofTopic, err)
		}
	}
	l := limits{partitions: len(t.leaders), batch: defaultMaxBatch}
	config, err := s.c.configs(ctx, kmsg.ConfigResourceTypeTopic, s.topic, "max.message.bytes")
	if err != nil {
		return limits{}, err
	}
	if n, err := strconv.Atoi(config["max.message.bytes"]); err == nil && n > 0 {
		l.batch = n
	}
	return l, nil
}

// exists waits a moment for a topic: brokers hear of a new one one after the other.
func (c *cluster) exists(ctx context.Context, topic string) (*topicInfo, error) {
	return c.existsWithin(ctx, topic, 2*time.Second)
}

// existsWithin is exists for a moment as long as most.
func (c *cluster) existsWithin(ctx context.Context, topic string, most time.Duration) (*topicInfo, error) {
	p := newPause(most)
	for {
		t, err := c.topic(ctx, topic, true)
		if err == nil || !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.LeaderNotAvailable) || !p.wait(ctx) {
			return t, err
		}
	}
}

// lasts compares the timeout of transactions with what they have to outlast: the time between two checkpoints, for which a transaction is filled, and of
// TwoPhase the time after that in which no process may be there to commit what was decided. Nobody could be told of it later in time: the broker
// aborts a decided checkpoint when the bridge is down. An interval of 0 is not known.
func (s *Sink) lasts(interval time.Duration) error {
	timeout, away := s.o.TransactionTimeout, s.o.MaxDowntime
	const cure = "raise Options.TransactionTimeout (with transaction.max.timeout.ms of the brokers, where that is less), or make checkpoints more often, by the bridge's Options.Interval"
	switch {
	case s.own && timeout <= interval:
		return fmt.Errorf("Options.TransactionTimeout is %v and the bridge's Options.Interval is %v: the broker would abort each checkpoint before its end, again and again: %s", timeout, interval, cure)
	case s.own || timeout > interval+away:
		return nil
	case interval == 0:
		return fmt.Errorf("Options.TransactionTimeout is %v and Options.MaxDowntime is %v: the timeout has to be longer, or what was decided is lost when the bridge is away for that long: raise the one or lower the other",
			timeout, away)
	}
	return fmt.Errorf("Options.TransactionTimeout is %v, the bridge's Options.Interval is %v and Options.MaxDowntime is %v: a transaction is open for the interval, and then waits for that long at worst until a process is there that commits it, "+
		"so the broker would abort what is decided, and it would be lost: %s, or lower Options.MaxDowntime to what a restart takes", timeout, interval, away, cure)
}

// checkTimeout compares the transaction timeout with the broker's own maximum, so that both are in one error before the first record.
func (c *cluster) checkTimeout(ctx context.Context, timeout time.Duration) error {
	config, err := c.configs(ctx, kmsg.ConfigResourceTypeBroker, "", "transaction.max.timeout.ms")
	if err != nil {
		return err
	}
	most, err := strconv.ParseInt(config["transaction.max.timeout.ms"], 10, 64)
	if err != nil || timeout.Milliseconds() <= most {
		return nil // not readable: InitProducerID tells
	}
	return refuse(sink.ErrConfig, "Options.TransactionTimeout is %v and transaction.max.timeout.ms of the broker is %v: lower the one or raise the other",
		timeout, time.Duration(most)*time.Millisecond)
}

// configs reads settings of a topic or of a broker. What the client may not read is missing in the answer, and no error.
func (c *cluster) configs(ctx context.Context, of kmsg.ConfigResourceType, name string, keys ...string) (map[string]string, error) {
	if of == kmsg.ConfigResourceTypeBroker && name == "" {
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c.cl)
		if err != nil {
			return nil, err
		}
		if len(resp.Brokers) == 0 {
			return nil, nil
		}
		name = strconv.Itoa(int(resp.Brokers[0].NodeID))
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = of, name, keys
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for _, r := range resp.Resources {
		switch err := kerr.ErrorForCode(r.ErrorCode); {
		case err == nil:
		case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
			continue
		default:
			return nil, fmt.Errorf("the configuration of %q: %w", name, err)
		}
		for _, v := range r.Configs {
			if v.Value != nil {
				out[v.Name] = *v.Value
			}
		}
	}
	return out, nil
}
