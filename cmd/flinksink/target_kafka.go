package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
)

// kafkaFlags say how topics are written, and how their brokers are reached.
type kafkaFlags struct {
	ddl, table  string
	config      []string
	properties  string
	letters     string
	prefix      string
	timeout     time.Duration
	downtime    time.Duration
	checkpoints string
}

func (f *kafkaFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.addTable(cmd)
	fs.StringVar(&f.letters, "kafka-dead-letters", "", "kafka: `TOPIC` for dead letters, which has to exist")
	fs.DurationVar(&f.timeout, "kafka-transaction-timeout", defaultTransactionTimeout, "kafka: `TIME` after which brokers give a transaction up: what is decided and not committed by then is lost")
	fs.DurationVar(&f.downtime, "kafka-max-downtime", defaultMaxDowntime, "kafka, mode two-phase: `TIME` that a restart or an outage of the bridge takes at worst, 0s for none; with --interval it has to be shorter than --kafka-transaction-timeout")
	f.addClient(cmd)
}

// addTable adds those that say what the topic is like.
func (f *kafkaFlags) addTable(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.ddl, "kafka-ddl", "", "kafka: `FILE` with the CREATE TABLE of the topic that is written, whose connector and formats say how (default: as the topic that is read)")
	fs.StringVar(&f.table, "kafka-table", "", "kafka: which `TABLE` of --kafka-ddl, or without it of --ddl")
}

// addClient adds those that a store has too.
func (f *kafkaFlags) addClient(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.config, "kafka-config", nil, "kafka: a client property, `KEY=VALUE`, for the brokers of --to or --store (default: those of the table, if its brokers are the same); may be repeated")
	fs.StringVar(&f.properties, "kafka-properties", "", "kafka: `FILE` with client properties, a KEY=VALUE a line, as Kafka's own tools take it in --command-config: the place for secrets")
	fs.StringVar(&f.prefix, "kafka-prefix", "", "kafka: `TEXT` that begins every transactional id (default flinksink)")
	fs.StringVar(&f.checkpoints, "kafka-checkpoints", "", "kafka: `TOPIC` that keeps positions (default flinksink-checkpoints)")
}

// words are the flags of a client that were given, without what may be secret in them.
func (f *kafkaFlags) words() (out []string) {
	for _, c := range f.config {
		if k, _, _ := strings.Cut(c, "="); !ddl.SecretName("properties." + k) {
			out = append(out, "--kafka-config", c)
		} else {
			out = append(out, "--kafka-config", k+"=...")
		}
	}
	if f.properties != "" {
		out = append(out, "--kafka-properties", f.properties)
	}
	if f.prefix != "" {
		out = append(out, "--kafka-prefix", f.prefix)
	}
	if f.checkpoints != "" {
		out = append(out, "--kafka-checkpoints", f.checkpoints)
	}
	return out
}

// clientTable is a table with nothing but the properties of a client for these brokers. Those of like are taken over if its brokers are the same
// ones, by their names: keys of one cluster are not shown to another.
func (f *kafkaFlags) clientTable(flag string, seeds []string, like *ddl.Table) (*ddl.Table, error) {
	t := &ddl.Table{Options: ddl.Options{}}
	if like != nil && sameSeeds(like.Options[bootstrap], seeds) {
		for k, v := range like.Options {
			if strings.HasPrefix(k, "properties.") {
				t.Options[k] = v
			}
		}
	}
	lines, err := f.lines()
	if err != nil {
		return nil, err
	}
	over := brokerFlags{brokers: strings.Join(seeds, ","), config: append(lines, f.config...)}
	if err := over.applyAs(flag, t); err != nil {
		return nil, err
	}
	return t, nil
}

// lines reads --kafka-properties.
func (f *kafkaFlags) lines() (out []string, err error) {
	if f.properties == "" {
		return nil, nil
	}
	text, err := (&call{}).readText("--kafka-properties", f.properties)
	if err != nil {
		return nil, err
	}
	for i, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l == "" || l[0] == '#' || l[0] == '!' {
			continue
		}
		if !strings.Contains(l, "=") {
			return nil, config("%s: line %d is no KEY=VALUE", named("--kafka-properties", f.properties), i+1) // it may be a secret
		}
		out = append(out, l)
	}
	return out, nil
}

func sameSeeds(list string, seeds []string) bool {
	theirs := strings.Split(list, ",")
	for i := range theirs {
		theirs[i] = strings.TrimSpace(theirs[i])
	}
	return slices.Equal(slices.Sorted(slices.Values(theirs)), slices.Sorted(slices.Values(seeds)))
}

// brokersAt connects to a cluster, or says within c.patience why it cannot.
func (c *call) brokersAt(ctx context.Context, flag string, t *ddl.Table, more ...kgo.Opt) (*client, error) {
	cl, err := c.clientAt(flag, t, more...)
	if err != nil {
		return nil, err
	}
	if _, err := c.clusterOf(ctx, cl); err != nil {
		cl.Close()
		return nil, err
	}
	return cl, nil
}

// clientAt makes the client of a cluster that the URL of a flag names. It reaches no broker.
func (c *call) clientAt(flag string, t *ddl.Table, more ...kgo.Opt) (*client, error) {
	c.secretsOf(t)
	opts, err := bridge.ClientOptions(t)
	if err != nil {
		return nil, ofURL(flag, err)
	}
	cl, err := newClient(append(append(opts, kgo.ClientID("flinksink")), more...))
	if err != nil {
		return nil, err
	}
	cl.of = targetOf(flag, t)
	return cl, nil
}

// ofURL says what is wrong with the client of a URL in the words of its flags: it was made of no table that anybody wrote.
func ofURL(flag string, err error) error {
	text := err.Error()
	for _, of := range []string{"flinksink: ", "read table options: ", "configuration: "} {
		text = strings.TrimPrefix(text, of)
	}
	if !strings.Contains(text, bootstrap) {
		flag = "--kafka-config, --kafka-properties"
	}
	text = strings.NewReplacer("option '"+bootstrap+"'", "it", "option 'properties.", "property '", "'properties.", "'").Replace(text)
	return &configError{err: &worded{flag + ": " + text, err}}
}

// clusterOf returns the id of a client's cluster, or says within c.patience why its brokers do not tell.
func (c *call) clusterOf(ctx context.Context, cl *client) (id string, err error) {
	err = c.ask(ctx, cl, func(ctx context.Context) error {
		meta, err := kadm.NewClient(cl.Client).BrokerMetadata(ctx)
		id = meta.Cluster
		return err
	})
	if err != nil && ctx.Err() == nil && (cl.of.flag == "--to" || cl.of.flag == "--store") {
		err = fmt.Errorf("%s: %w", cl.of.flag, err)
	}
	return id, err
}

// topicTarget is a topic.
type topicTarget struct {
	place
	f      *targetFlags
	mode   string // "": in-transaction
	broker broker

	target  *ddl.Table
	cl      *client
	options kafka.Options
	sink    *kafka.Sink
}

func (t *topicTarget) at() place { return t.place }

func (t *topicTarget) into(*ddl.Table) string { return "topic " + t.broker.topic }

func (t *topicTarget) own() bool { return t.mode != "two-phase" }

// table is the target as Flink's SQL would declare it.
func (t *topicTarget) table(c *call, r *reading) (*ddl.Table, error) {
	f := &t.f.kafka
	text, name, where := r.source, f.table, r.from
	if f.ddl != "" {
		var err error
		if text, err = c.readText("--kafka-ddl", f.ddl); err != nil {
			return nil, err
		}
		where = named("--kafka-ddl", f.ddl)
	}
	own := f.ddl != "" || f.table != ""
	if !own {
		name = r.named
	}
	out, err := findTable(where, text, name, "--kafka-table")
	if err != nil {
		return nil, err
	}
	if !own {
		out.Options = maps.Clone(r.table.Options) // with what the flags say
	} else if topic := out.Options["topic"]; topic != "" && t.broker.topic != "" && topic != t.broker.topic {
		return nil, config("%s: table %s is of topic %q, and --to names topic %q: correct one of them", where, out.Name(), topic, t.broker.topic)
	}
	if out.Options == nil {
		out.Options = ddl.Options{}
	}
	delete(out.Options, "topic-pattern")
	if t.broker.topic != "" || !own {
		out.Options["topic"] = t.broker.topic
	}
	return out, nil
}

// values implements target.
func (t *topicTarget) values() error { return t.f.kafka.times() }

// build implements target.
func (t *topicTarget) build(c *call, r *reading) error {
	f := &t.f.kafka
	var errs []error
	bad := func(err error) { errs = append(errs, err) }
	bad(f.lasts(!t.own(), r.interval, 0))
	for _, topic := range r.in.Topics {
		if topic == t.broker.topic && sameSeeds(r.table.Options[bootstrap], t.broker.seeds) {
			bad(config("--to names topic %q, which is the one that is read: the bridge would read what it writes", topic))
		}
	}
	var err error
	if t.target, err = t.table(c, r); err != nil {
		return errors.Join(append(errs, err)...)
	}
	c.secretsOf(t.target)
	props, err := f.clientTable("--kafka-config", t.broker.seeds, t.target)
	if err == nil {
		t.cl, err = c.clientAt("--to", props)
	}
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	// Options.Member stays empty: a lane keeps its partitions through rebalances, while the group's generation goes on and this process has not heard of it yet;
	// the broker would refuse such a checkpoint. What keeps others out are the ids of generations (see "sink/kafka sends its own requests" in docs/design.md).
	t.options = kafka.Options{Prefix: f.prefix, TransactionTimeout: f.timeout, DeadLetterTopic: f.letters, Topic: f.checkpoints, MaxDowntime: f.away()}
	if errors.Join(errs...) == nil { // the sink would say again what is wrong with the times
		bad(t.make(r))
	}
	return errors.Join(errs...)
}

// make makes the sink of the options, and judges whether it takes the table. No broker is asked.
func (t *topicTarget) make(r *reading) (err error) {
	build := kafka.InTransaction
	if !t.own() {
		build = kafka.TwoPhase
	}
	if t.sink, err = build(t.cl.Client, t.target, r.formats, &t.options); err != nil || !r.writes || r.in.Decoder == nil {
		return err
	}
	_, err = t.sink.Lane(context.Background(), sink.Lane{Bridge: r.bridge, Sink: "kafka", Tables: []*changelog.Table{r.in.Decoder.Table()}, Interval: r.interval})
	return err
}

// open implements target.
func (t *topicTarget) open(ctx context.Context, c *call, r *reading) (sink.Sink, error) {
	id, err := c.clusterOf(ctx, t.cl)
	if err != nil {
		return nil, err
	}
	if err := t.there(ctx, c); err != nil {
		return nil, err
	}
	if err := t.f.kafka.lasts(!t.own(), r.interval, mostTimeout(ctx, t.cl)); err != nil {
		return nil, err
	}
	if same, err := t.sameCluster(ctx, c, r, id); err != nil {
		return nil, err
	} else if same {
		t.options.Group = groupOf(r.bridge, r.in) // its offsets move with the transaction
	}
	return t.sink, t.make(r)
}

// there refuses a topic that does not exist, which a producer would wait for. What else may be wrong with it the sink finds.
func (t *topicTarget) there(ctx context.Context, c *call) error {
	topic := t.target.Options["topic"]
	return c.ask(ctx, t.cl, func(ctx context.Context) error {
		found, err := kadm.NewClient(t.cl.Client).ListTopics(ctx, topic)
		if err == nil && errors.Is(found[topic].Err, kerr.UnknownTopicOrPartition) {
			return config("--to: topic %q does not exist at %s: create it, or correct --to", topic, t.cl.seeds())
		}
		return err
	})
}

// sameCluster reports whether the topics that are read are on the cluster that is written to.
func (t *topicTarget) sameCluster(ctx context.Context, c *call, r *reading, id string) (bool, error) {
	if r.apart {
		return false, nil
	}
	cl, err := c.sourceClient(r.in)
	if err != nil {
		return false, err
	}
	defer cl.Close()
	theirs, err := c.clusterOf(ctx, cl)
	return id != "" && id == theirs, err
}

func (t *topicTarget) keeper() (sink.Store, error) {
	st, err := kafka.NewStore(t.cl.Client, &t.options)
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (t *topicTarget) ready(context.Context, *reading, string, string) error {
	if t.f.create && len(t.f.to) == 1 {
		return config("--create-table makes tables and indexes; make the topic with Kafka's own tools, as its partitions and its retention are for you to choose")
	}
	return nil
}

// check implements target.
func (t *topicTarget) check(ctx context.Context, k *checkup, s *subject, l sink.Lane, _ string) bool {
	if s.dec == nil {
		k.skip("topic", "what would be written into %s is not known", t.broker.topic)
		return false
	}
	if k.bad("target", t.sink.Check(ctx, l)) {
		return false
	}
	k.ok("target", "topic %s: it is there, takes the table's columns, and the transaction timeout is within the brokers' limit", t.broker.topic)
	if handed, text := handedOn(t.sink, s.dec.Table()); handed {
		k.ok("target", "%s", text)
	} else {
		k.note("target", "%s", text)
	}
	k.note("target", "its readers have to be read_committed ('properties.isolation.level' = 'read_committed' in Flink): whether they are, no broker can tell")
	return true
}

// handedOn says for people whether the values of messages go into a topic as they came, and if not, why.
func handedOn(s *kafka.Sink, source *changelog.Table) (bool, string) {
	yes, why := s.HandsOn(source)
	if yes {
		return true, "values are handed on as they came, where a message holds nothing but its rows: source and target are encoded alike"
	}
	return false, "values are decoded and encoded anew, not handed on as they came: " + why
}

func (t *topicTarget) close() {
	if t.cl != nil {
		t.cl.Close()
	}
}

// keepsLetters is an error where dead letters are wanted, Kafka is the only target, and no topic is named for them: every other target has a place of its own.
func keepsLetters(ts []target, onData bridge.DataPolicy, f *targetFlags) error {
	if onData == bridge.DeadLetter && f.kafka.letters == "" && len(f.to) == 1 && ts[0].at().kind == atKafka {
		return config("there is nothing to keep dead letters in: name a topic by --kafka-dead-letters, which has to exist, or choose another --on-data")
	}
	return nil
}
