package capture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Load makes topic with so many partitions on the brokers and writes recs into it, each at its own offset, with its own timestamp,
// headers, and fate (committed, aborted, behind an open transaction). A topic of that name that exists must be empty and have as
// many partitions. A transaction that is left open stays so for the broker's default maximum of 15 minutes; then the broker aborts it.
//
// Every offset is compared as the broker reports it, and in the end the topic is read back as a read_committed consumer reads it. Load
// returns an error at the first difference from the capture, saying both; what was written until then stays in the topic.
func Load(ctx context.Context, brokers []string, topic string, partitions int, recs []Record) error {
	parts, err := split(partitions, recs)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if err := makeTopic(ctx, adm, topic, partitions); err != nil {
		return err
	}
	for p := range parts {
		l := &loader{brokers: brokers, adm: adm, cl: cl, topic: topic, partition: int32(p), run: rand.Uint64(), writers: map[fate]*writer{}}
		err := l.load(ctx, parts[p])
		l.close()
		if err != nil {
			return fmt.Errorf("capture: %s/%d: %w", topic, p, err)
		}
	}
	return verify(ctx, brokers, topic, parts)
}

// split sorts records by partition and checks that they can be planned.
func split(partitions int, recs []Record) ([][]Record, error) {
	if partitions < 1 {
		return nil, fmt.Errorf("capture: %d partitions: at least 1 is needed", partitions)
	}
	if partitions > MaxPartitions {
		return nil, fmt.Errorf("capture: %d partitions: at most %d are possible", partitions, MaxPartitions)
	}
	parts := make([][]Record, partitions)
	for _, r := range recs {
		p := int(r.Partition.Partition)
		if p < 0 || p >= partitions {
			return nil, fmt.Errorf("capture: a record of partition %d, and %d partitions asked for", p, partitions)
		}
		if n := len(parts[p]); n > 0 && parts[p][n-1].Offset >= r.Offset {
			return nil, fmt.Errorf("capture: partition %d: offset %d comes after offset %d", p, r.Offset, parts[p][n-1].Offset)
		}
		parts[p] = append(parts[p], r)
	}
	return parts, nil
}

func makeTopic(ctx context.Context, adm *kadm.Client, topic string, partitions int) error {
	// Captured timestamps are old, or, by this machine's clock, in the future: the broker must neither delete nor refuse the records.
	configs := map[string]*string{"retention.ms": kadm.StringPtr("-1"), "message.timestamp.after.max.ms": kadm.StringPtr("9223372036854775807")}
	_, err := adm.CreateTopic(ctx, int32(partitions), -1, configs, topic)
	if errors.Is(err, kerr.InvalidConfig) { // a broker before 3.6 has no such setting, and no such check either
		delete(configs, "message.timestamp.after.max.ms")
		_, err = adm.CreateTopic(ctx, int32(partitions), -1, configs, topic)
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("capture: making topic %s: %w", topic, err)
	}
	existed := err != nil
	ends, err := waitFor(ctx, func() (kadm.ListedOffsets, bool, error) {
		ends, err := adm.ListEndOffsets(ctx, topic)
		if err != nil {
			return nil, false, err
		}
		// A topic that was just made is not known everywhere at once.
		return ends, ends.Error() == nil && (existed || len(ends[topic]) == partitions), nil
	})
	if err != nil {
		return fmt.Errorf("capture: looking at topic %s: %w", topic, err)
	}
	if n := len(ends[topic]); n != partitions {
		return fmt.Errorf("capture: topic %s exists with %d partitions, the capture needs %d; delete it or use another name", topic, n, partitions)
	}
	for p, o := range ends[topic] {
		if o.Offset != 0 {
			return fmt.Errorf("capture: topic %s exists and is not empty (partition %d ends at %d); delete it or use another name", topic, p, o.Offset)
		}
	}
	return nil
}

// loader writes one partition. Each fate has a client of its own, because a client has one transaction at a time.
type loader struct {
	brokers   []string
	adm       *kadm.Client
	cl        *kgo.Client
	topic     string
	partition int32
	run       uint64 // part of the transactional ids: another load must not fence this one's open transaction
	writers   map[fate]*writer
}

type writer struct {
	*kgo.Client
	begun bool // a transaction is going
}

func (l *loader) close() {
	for _, w := range l.writers {
		w.Close() // ends no transaction: what is left open must stay so
	}
}

func (l *loader) load(ctx context.Context, recs []Record) error {
	for _, s := range plan(recs) {
		var err error
		switch {
		case s.end && s.do == nothing:
			err = l.emptyTransaction(ctx)
		case s.end:
			err = l.endTransaction(ctx, s.do)
		default:
			err = l.produce(ctx, s)
		}
		if err == nil && s.end {
			err = l.awaitMarker(ctx, s.at)
		}
		if err != nil {
			return fmt.Errorf("at offset %s: %w", s, err)
		}
	}
	return nil
}

func (l *loader) produce(ctx context.Context, s step) error {
	w, ok := l.writers[s.do]
	if !ok {
		opts := []kgo.Opt{kgo.SeedBrokers(l.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0)}
		if s.do != plain {
			opts = append(opts, kgo.TransactionalID(l.id(s.do)), kgo.TransactionTimeout(15*time.Minute))
		}
		c, err := kgo.NewClient(opts...)
		if err != nil {
			return err
		}
		w = &writer{Client: c}
		l.writers[s.do] = w
	}
	if s.do != plain && !w.begun {
		if err := w.BeginTransaction(); err != nil {
			return err
		}
		w.begun = true
	}
	out := make([]*kgo.Record, len(s.recs))
	for i := range s.recs {
		r := &s.recs[i]
		out[i] = &kgo.Record{Topic: l.topic, Partition: l.partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			out[i].Headers = append(out[i].Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	// Batches of the size that a job writes, and not as large as the client can make them: consumers fetch whole batches.
	for chunk := range slices.Chunk(out, 100) {
		if err := w.ProduceSync(ctx, chunk...).FirstErr(); err != nil {
			return err
		}
	}
	for i, r := range out {
		if r.Offset != s.recs[i].Offset {
			return fmt.Errorf("the broker put a record at offset %d, the capture has it at %d", r.Offset, s.recs[i].Offset)
		}
	}
	return nil
}

// endTransaction ends the transaction of a fate; plan ends only what it began.
//
// A client that has just met its topic (kgo 1.22.3) may hand out the answers of its first records before it has stored the topic's
// partitions, under a lock that it still holds. EndTransaction, which takes no lock, then finds no partition, takes the transaction for one
// without records, and aborts it where it was to commit, without an error. AbortBufferedRecords takes that lock, and has nothing
// to abort here, since every record was answered.
func (l *loader) endTransaction(ctx context.Context, f fate) error {
	w := l.writers[f]
	w.begun = false
	if err := w.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	return w.EndTransaction(ctx, kgo.TransactionEndTry(f == commit))
}

func (l *loader) id(f fate) string {
	return fmt.Sprintf("capture-%s-%d-%s-%016x", l.topic, l.partition, f, l.run)
}

// emptyTransaction puts one marker and nothing else: the partition is added to a transaction that ends without a record.
func (l *loader) emptyTransaction(ctx context.Context) error {
	id := l.id(nothing)
	initReq := kmsg.NewPtrInitProducerIDRequest()
	initReq.TransactionalID = &id
	initReq.TransactionTimeoutMillis = 60_000
	initReq.ProducerID, initReq.ProducerEpoch = -1, -1
	p, err := retried(ctx, func() (*kmsg.InitProducerIDResponse, int16, error) {
		r, err := initReq.RequestWith(ctx, l.cl)
		if err != nil {
			return nil, 0, err
		}
		return r, r.ErrorCode, nil
	})
	if err != nil {
		return err
	}

	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = id, p.ProducerID, p.ProducerEpoch
	t := kmsg.NewAddPartitionsToTxnRequestTopic()
	t.Topic, t.Partitions = l.topic, []int32{l.partition}
	add.Topics = append(add.Topics, t)
	_, err = retried(ctx, func() (*kmsg.AddPartitionsToTxnResponse, int16, error) {
		r, err := add.RequestWith(ctx, l.cl)
		if err != nil {
			return nil, 0, err
		}
		if r.ErrorCode != 0 || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return r, r.ErrorCode, nil
		}
		return r, r.Topics[0].Partitions[0].ErrorCode, nil
	})
	if err != nil {
		return err
	}

	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = id, p.ProducerID, p.ProducerEpoch, true
	_, err = retried(ctx, func() (*kmsg.EndTxnResponse, int16, error) {
		r, err := end.RequestWith(ctx, l.cl)
		if err != nil {
			return nil, 0, err
		}
		return r, r.ErrorCode, nil
	})
	return err
}

// awaitMarker waits until the marker is in the log, at offset at: a broker answers the end of a transaction before it has written the
// markers, and the next record must not overtake this one.
func (l *loader) awaitMarker(ctx context.Context, at int64) error {
	end, err := waitFor(ctx, func() (int64, bool, error) {
		ends, err := l.adm.ListEndOffsets(ctx, l.topic)
		if err != nil {
			return 0, false, err
		}
		o, _ := ends.Lookup(l.topic, l.partition)
		return o.Offset, o.Err == nil && o.Offset > at, nil
	})
	if err != nil {
		return err
	}
	if end != at+1 {
		return fmt.Errorf("the marker belongs at offset %d, and the log ends at %d", at, end)
	}
	return nil
}
