package kafka

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Options are the settings of a [Sink] and of a [Store]. nil and the zero value are the defaults.
type Options struct {
	// Prefix begins every transactional id: a user that may WRITE ids with this prefix may run bridges. Ids of two bridges differ whatever it
	// is; two bridges of one name on one cluster, with stores that know nothing of each other, need two prefixes. All processes of a bridge
	// need the same, always: they fence each other by these names. Defaults to "flinksink".
	Prefix string

	// TransactionTimeout is the transaction.timeout.ms of every transaction. What was decided and is not committed within it, because the bridge
	// was away, is aborted by the broker, and lost ([sink.ErrLost]); so TwoPhase refuses one that is not longer than the bridge's interval between two checkpoints
	// and MaxDowntime together (an ErrConfig before anything is read), and InTransaction one that is not longer than the interval. What nobody decided holds readers back for as long, if nobody opens the bridge again. The brokers' transaction.max.timeout.ms
	// bounds it. Defaults to 15 minutes, which is their default too.
	TransactionTimeout time.Duration

	// MaxDowntime is how long no process may be there, at worst, to commit what TwoPhase has decided: the longest restart or outage of the bridge. A member of a
	// group that dies without a word is replaced after the group's session timeout, 45 s by default. Defaults to a minute; NoDowntime is none.
	MaxDowntime time.Duration

	// EncodeAnew encodes every value, also where source and target are encoded alike. Otherwise such values are handed on as they came, see
	// [Sink.HandsOn]: they say the same, but are spelt as the source's writer spelt them. Defaults to false.
	EncodeAnew bool

	// Compression of what is written. Defaults to none, as in Flink's sink.
	Compression []kgo.CompressionCodec

	// Partitioner chooses partitions. Defaults to what Java's producer does, and so Flink's sink: murmur2 over the bytes of the key, so that a key keeps
	// its partition whichever of them writes it. Records without a key stick to one partition for a batch.
	Partitioner kgo.Partitioner

	// MaxRecordBytes is the size of a record from which on it is an ErrRejected. Defaults to the topic's max.message.bytes, or
	// 1 MB where the client may not read the topic's configuration.
	MaxRecordBytes int

	// DeadLetterTopic is the topic that keeps the messages that are set aside ([sink.DeadLetterKeeper]), in the transactions of their checkpoints; [ParseDeadLetter] reads
	// its records. It has to exist. Defaults to none: the sink keeps no dead letters.
	DeadLetterTopic string

	// ProofTopic is a topic that gets one small record in each transaction of TwoPhase, so that what became of it can be read there when the target's own log no longer
	// tells: a target whose retention or compaction is quick, or whose records somebody deletes. It has to exist, and to keep records for longer than
	// a decided checkpoint can wait (days). Nobody reads it but Commit. Defaults to none: the target's log and the coordinator tell.
	ProofTopic string

	// Topic is where the store keeps what it knows, in its one partition: see [Store]. It is made if it is missing and the client may. Of TwoPhase it counts if no
	// other store is named. Defaults to "flinksink-checkpoints".
	Topic string

	// Group is the consumer group whose committed offsets are moved in the transaction of each checkpoint, on the cluster of the store; the
	// topics that are read have to be there too. "" moves none: then the topics that are read may be on another cluster.
	Group string

	// Member returns the member id and the generation of the bridge's member of Group, as kgo.Client.GroupMetadata does. If it is set, the group's coordinator
	// refuses the checkpoint of a member that it has expelled (KIP-447) at once. Without it such a member may save until a successor acquires its partitions, and the successor goes on
	// from there: the fence by transactional ids leaves no gap, so it is not needed. Its price is that a rebalance refuses the checkpoint of a member that
	// keeps its partitions and has not heard of the new generation yet; the lane then acquires anew and reads again. Defaults to nil.
	Member func() (memberID string, generation int32)
}

// NoDowntime as Options.MaxDowntime says that what is decided is always committed at once, or that nobody minds its loss.
const NoDowntime time.Duration = -1

const (
	defaultPrefix  = "flinksink"
	defaultTimeout = 15 * time.Minute
	defaultAway    = time.Minute
	defaultTopic   = "flinksink-checkpoints"
	maxPrefix      = 100
	// What a batch may hold where the topic's own limit cannot be read: the default of the brokers, 1 MiB and some.
	defaultMaxBatch = 1_000_000
)

func (o *Options) complete() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	var errs []error
	if out.Prefix == "" {
		out.Prefix = defaultPrefix
	}
	if len(out.Prefix) > maxPrefix || strings.ContainsAny(out.Prefix, "\x00\n\r") {
		errs = append(errs, fmt.Errorf("Options.Prefix has %d bytes: it has to be a name of at most %d", len(out.Prefix), maxPrefix))
	}
	if out.TransactionTimeout == 0 {
		out.TransactionTimeout = defaultTimeout
	}
	if out.TransactionTimeout < time.Second || out.TransactionTimeout.Milliseconds() > 1<<31-1 {
		errs = append(errs, fmt.Errorf("Options.TransactionTimeout is %v: it has to be between 1 s and 24 days", out.TransactionTimeout))
	}
	switch {
	case out.MaxDowntime == NoDowntime:
		out.MaxDowntime = 0
	case out.MaxDowntime < 0:
		errs = append(errs, fmt.Errorf("Options.MaxDowntime is %v: it is a time, or NoDowntime", out.MaxDowntime))
	case out.MaxDowntime == 0:
		out.MaxDowntime = defaultAway
	}
	if out.MaxRecordBytes < 0 {
		errs = append(errs, fmt.Errorf("Options.MaxRecordBytes is %d", out.MaxRecordBytes))
	}
	if out.Partitioner == nil {
		out.Partitioner = kgo.StickyKeyPartitioner(nil)
	}
	if out.Topic == "" {
		out.Topic = defaultTopic
	}
	return out, errors.Join(errs...)
}

// Sink writes the changes of one table into one topic. It is safe for use by several goroutines.
type Sink struct {
	c          *cluster
	o          Options
	encoder    *format.Encoder
	topic      string
	upsert     bool
	own        bool // InTransaction
	compressor kgo.Compressor
	store      *Store // its own, or that it offers
}

var _ sink.Sink = (*Sink)(nil)

// TwoPhase returns a sink that leaves the transaction of each checkpoint open until the checkpoint is decided, by whatever store: Prepare
// flushes, Commit ends the transaction, from any process, as long as its timeout has not passed.
//
// into is the target, as Flink's SQL would declare it: its connector, formats and options say what a change becomes (see
// [format.NewEncoder]), 'topic' where to. Columns are matched with the source's by their names. formats are those that into may name. cl is any client of the
// target's cluster that is not transactional; it is closed by the caller, after the lanes.
//
// All mistakes are reported together, as one ErrConfig. The broker is first asked by Open.
func TwoPhase(cl *kgo.Client, into *ddl.Table, formats []changelog.Format, o *Options) (*Sink, error) {
	return newSink(cl, into, formats, o, false)
}

// InTransaction returns a sink that is its own store: the changes of a checkpoint, its positions and the offsets of Options.Group are one Kafka
// transaction. The parameters are those of [TwoPhase].
func InTransaction(cl *kgo.Client, into *ddl.Table, formats []changelog.Format, o *Options) (*Sink, error) {
	return newSink(cl, into, formats, o, true)
}

func newSink(cl *kgo.Client, into *ddl.Table, formats []changelog.Format, o *Options, own bool) (*Sink, error) {
	s := &Sink{own: own}
	var errs []error
	var err error
	if s.o, err = o.complete(); err != nil {
		errs = append(errs, err)
	}
	if cl == nil {
		errs = append(errs, errors.New("the client is nil: make one with kgo.NewClient"))
	}
	if into == nil {
		errs = append(errs, errors.New("the target is nil: paste its CREATE TABLE and read it with ddl.Find"))
	} else {
		if s.encoder, err = format.NewEncoder(into, formats, nil); err != nil {
			errs = append(errs, err)
		}
		s.topic, s.upsert = into.Options["topic"], into.Options["connector"] == "upsert-kafka"
		if s.topic == "" {
			errs = append(errs, errors.New("the target names no 'topic'"))
		}
	}
	if s.compressor, err = kgo.DefaultCompressor(s.o.Compression...); err != nil {
		errs = append(errs, fmt.Errorf("Options.Compression: %w", err))
	}
	if len(errs) > 0 {
		return nil, &sink.Error{Op: "new", Class: sink.ErrConfig, Err: errors.Join(errs...)}
	}
	if err := s.lasts(0); err != nil {
		return nil, &sink.Error{Op: "new", Class: sink.ErrConfig, Err: err}
	}
	s.c = newCluster(cl)
	s.store = newStore(s.c, s.o)
	return s, nil
}

// String names the target, as part of a bridge's fingerprint.
func (s *Sink) String() string { return "kafka topic " + s.topic }

// Guarantee implements [sink.Sink].
func (s *Sink) Guarantee() sink.Guarantee {
	const visible = "to read_committed readers at commit, partition by partition (a reader that is not read_committed sees everything, also what is aborted)"
	if s.own {
		how := "records and positions in one Kafka transaction"
		if s.o.Group != "" {
			how = "records, positions and the group's offsets in one Kafka transaction"
		}
		return sink.Guarantee{Level: sink.ExactlyOnce, How: how, Visible: visible, Zombie: "fenced by a transactional id for each generation"}
	}
	return sink.Guarantee{Level: sink.ExactlyOnce,
		How:     fmt.Sprintf("a flushed Kafka transaction, ended once the checkpoint is decided, within %v; whether it was is read from the log", s.o.TransactionTimeout),
		Visible: visible, Zombie: "fenced by a transactional id for each generation"}
}
