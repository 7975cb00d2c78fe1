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
	p := newPause(2 * time.Second)
	for {
		t, err := c.topic(ctx, topic, true)
		if err == nil || !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.LeaderNotAvailable) || !p.wait(ctx) {
			return t, err
		}
	}
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
