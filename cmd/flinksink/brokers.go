package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
)

// client is a Kafka client that remembers why a broker could last not be reached.
type client struct {
	*kgo.Client
	mu  sync.Mutex
	err error
}

func newClient(opts []kgo.Opt) (cl *client, err error) {
	cl = &client{}
	if cl.Client, err = kgo.NewClient(append(slices.Clone(opts), kgo.WithHooks(cl))...); err != nil {
		return nil, config("Kafka client: %w", err)
	}
	return cl, nil
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (cl *client) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.err = err
}

func (cl *client) dialed() error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.err
}

// topicsOf returns the topics of in, which all exist.
func (c *call) topicsOf(ctx context.Context, cl *client, in bridge.Input) ([]string, error) {
	adm := kadm.NewClient(cl.Client)
	var details kadm.TopicDetails
	if err := c.ask(ctx, cl, func(ctx context.Context) (err error) {
		details, err = adm.ListTopics(ctx, in.Topics...) // none named: all
		return err
	}); err != nil {
		return nil, err
	}
	if in.Pattern != "" {
		re, err := regexp.Compile("^(?:" + in.Pattern + ")$")
		if err != nil {
			return nil, config("'topic-pattern': %w", err)
		}
		var topics []string
		for _, d := range details {
			if !d.IsInternal && d.Err == nil && re.MatchString(d.Topic) {
				topics = append(topics, d.Topic)
			}
		}
		if len(topics) == 0 {
			return nil, config("no topic at %s matches %q: create it, or correct 'topic-pattern'", cl.seeds(), in.Pattern)
		}
		slices.Sort(topics)
		return topics, nil
	}
	var errs []error
	for _, t := range in.Topics {
		switch d, ok := details[t]; {
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			errs = append(errs, fmt.Errorf("topic %q does not exist at %s: create it, or correct 'topic' or --brokers", t, cl.seeds()))
		case errors.Is(d.Err, kerr.TopicAuthorizationFailed):
			errs = append(errs, fmt.Errorf("topic %q: this user may not read it: allow DESCRIBE and READ", t))
		case d.Err != nil:
			errs = append(errs, fmt.Errorf("topic %q: %w", t, d.Err))
		}
	}
	if len(errs) > 0 {
		return nil, &configError{err: errors.Join(errs...)}
	}
	return in.Topics, nil
}

// ask calls f until it succeeds, for c.patience at most.
func (c *call) ask(ctx context.Context, cl *client, f func(context.Context) error) error {
	ask, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := f(ask)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var conf *configError
		if errors.As(err, &conf) {
			return err
		}
		var k *kerr.Error
		if errors.As(err, &k) && !k.Retriable {
			return config("the brokers at %s refuse: %w; check user, password and rights, TLS and SASL", cl.seeds(), err)
		}
		select {
		case <-time.After(wait):
		case <-ask.Done():
			if d := cl.dialed(); d != nil {
				err = d // the client itself tells only that time is over
			}
			return config("no answer from the brokers at %s within %s: %w; check --brokers or 'properties.bootstrap.servers', TLS and SASL", cl.seeds(), c.patience, err)
		}
	}
}

// seeds names the brokers that the client begins with.
func (cl *client) seeds() string {
	s, _ := cl.OptValue(kgo.SeedBrokers).([]string)
	return strings.Join(s, ", ")
}
