package main

import (
	"cmp"
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
	"github.com/flinksink/flinksink/changelog/ddl"
)

// client is a Kafka client that remembers why a broker could last not be reached.
type client struct {
	*kgo.Client
	of  origin
	mu  sync.Mutex
	err error
}

// origin is where the addresses of brokers come from.
type origin struct {
	flag    string // that names them: --to, --store, --brokers or --ddl
	address string // what to look at where they do not answer
	client  string // what sets the client up
	as      string // the properties of the client: brokers that do not answer it do not answer another one with the same; "": not known
}

// sourceOf is the origin of the brokers that a table is read from.
func sourceOf(f *tableFlags, b *brokerFlags, t *ddl.Table) origin {
	o := origin{flag: "--brokers", address: "--brokers", client: "'properties.*' of the table, or --config", as: propertiesOf(t)}
	if b.brokers == "" {
		o.flag, o.address = "--ddl", "'"+bootstrap+"' in "+f.where()+" (or name others by --brokers)"
	}
	return o
}

// targetOf is the origin of brokers that a URL names.
func targetOf(flag string, t *ddl.Table) origin {
	return origin{flag, "host and port in " + flag, "--kafka-config, --kafka-properties", propertiesOf(t)}
}

// check is what to look at where no broker answers.
func (o origin) check() string {
	return cmp.Or(o.address, "the address") + ", " + o.security()
}

// security is what to look at where one refuses.
func (o origin) security() string {
	if o.client == "" {
		return "TLS and SASL"
	}
	return "TLS and SASL (" + o.client + ")"
}

// propertiesOf is what two clients have in common that are set up alike, but for the addresses.
func propertiesOf(t *ddl.Table) string {
	var b strings.Builder
	for _, k := range t.Options.Keys() {
		if strings.HasPrefix(k, "properties.") && k != bootstrap {
			fmt.Fprintf(&b, "%q=%q ", k, strings.TrimSpace(t.Options[k]))
		}
	}
	return b.String()
}

// sourceClient makes a client of the brokers that are read from.
func (c *call) sourceClient(in bridge.Input, more ...kgo.Opt) (*client, error) {
	cl, err := newClient(append(slices.Clone(in.Client), more...))
	if err == nil {
		cl.of = c.source
	}
	return cl, err
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
			correct := "'topic' or " + cmp.Or(cl.of.flag, "--brokers")
			if cl.of.flag == "--to" || cl.of.flag == "--store" { // its URL names both
				correct = cl.of.flag
			}
			errs = append(errs, fmt.Errorf("topic %q does not exist at %s: create it, or correct %s", t, cl.seeds(), correct))
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

// ask calls f until it succeeds, for c.patience at most. Brokers that did not answer are not asked again.
func (c *call) ask(ctx context.Context, cl *client, f func(context.Context) error) error {
	for _, s := range c.silent {
		if s.is(cl) {
			return config("no answer from the brokers at %s, which were asked for %s already; check %s", cl.seeds(), s.of.flag, cl.of.check())
		}
	}
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
			return config("the brokers at %s refuse: %w; check user, password and rights, %s", cl.seeds(), err, cl.of.security())
		}
		select {
		case <-time.After(wait):
		case <-ask.Done():
			d := cl.dialed()
			if d != nil {
				err = d // the client itself tells only that time is over
			}
			var no *net.OpError
			c.silent = append(c.silent, silence{cl.sorted(), cl.of, errors.As(d, &no) && no.Op == "dial"})
			return config("no answer from the brokers at %s within %s: %w; check %s", cl.seeds(), c.patience, err, cl.of.check())
		}
	}
}

// silence is that brokers did not answer in time.
type silence struct {
	seeds  string
	of     origin
	nobody bool // no connection came about, whatever the client would have said
}

// is reports whether a client would ask the same brokers in the same way.
func (s silence) is(cl *client) bool {
	return cl.of.flag != "" && s.of.flag != "" && s.seeds == cl.sorted() && (s.nobody || s.of.as == cl.of.as)
}

func (cl *client) sorted() string {
	s, _ := cl.OptValue(kgo.SeedBrokers).([]string)
	return strings.Join(slices.Sorted(slices.Values(s)), ",")
}

// seeds names the brokers that the client begins with.
func (cl *client) seeds() string {
	s, _ := cl.OptValue(kgo.SeedBrokers).([]string)
	return strings.Join(s, ", ")
}
