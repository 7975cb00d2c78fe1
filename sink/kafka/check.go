package kafka

import (
	"cmp"
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
	t, err := s.c.exists(ctx, s.topic, true)
	if err != nil {
		return limits{}, fmt.Errorf("topic %q: %w", s.topic, err)
	}
	if s.o.ProofTopic != "" {
		if _, err := s.c.exists(ctx, s.o.ProofTopic, true); err != nil {
			return limits{}, fmt.Errorf("Options.ProofTopic %q: %w", s.o.ProofTopic, err)
		}
	}
	l := limits{partitions: len(t.leaders), batch: defaultMaxBatch}
	var config map[string]string
	if err := s.c.hears(ctx, s.c.news, func() (err error) { // another broker may be asked
		config, err = s.c.configs(ctx, kmsg.ConfigResourceTypeTopic, s.topic, "max.message.bytes")
		return err
	}); err != nil {
		return limits{}, err
	}
	if n, err := strconv.Atoi(config["max.message.bytes"]); err == nil && n > 0 {
		l.batch = n
	}
	return l, nil
}

// news is how long brokers are given to hear of a topic that was just made.
const news = 10 * time.Second

// exists returns what the brokers know of a topic, with fresh asked anew. One that is missing for longer than news is missing, and
// that is an ErrConfig: see [classOf].
func (c *cluster) exists(ctx context.Context, topic string, fresh bool) (*topicInfo, error) {
	return c.existsWithin(ctx, topic, fresh, c.news)
}

// existsWithin is exists for as long as most.
func (c *cluster) existsWithin(ctx context.Context, topic string, fresh bool, most time.Duration) (t *topicInfo, err error) {
	err = c.hears(ctx, most, func() error {
		t, err = c.topic(ctx, topic, fresh)
		return err
	})
	return t, err
}

// hears asks again for as long as most while the broker that answers does not know a topic or its leaders. The controller tells a topic's maker that it is
// there before all brokers have heard of it, so that answer alone does not say that it is missing. No request says what the
// controller knows but one to make the topic, which not everybody may send, so time decides in the end. Where ctx ends at a known time half of what is left is
// waited, for an error that names the topic, and not the time.
func (c *cluster) hears(ctx context.Context, most time.Duration, ask func() error) error {
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)/2)
	}
	p := newPause(most)
	for {
		err := ask()
		if err == nil || !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.LeaderNotAvailable) {
			return err
		}
		if !p.wait(ctx) {
			return cmp.Or(ctx.Err(), err)
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
