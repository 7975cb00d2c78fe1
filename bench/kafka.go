package main

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"strings"
	"time"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaCopy is what the contenders of section kafka write from and to.
type kafkaCopy struct {
	s       *servers
	shape   *rows.Shape
	n       int
	from    string
	changes int // of a transaction
	serial  int
	want    prints
}

// kafkaWriter copies the topic into another one, and returns how long it took from its first record to the end of its last transaction.
type kafkaWriter func(ctx context.Context, k *kafkaCopy, to string) (time.Duration, error)

// kafkaToKafka is the bridge beside a copy that hands the bytes on, in transactions of two sizes.
func (b *bench) kafkaToKafka(ctx context.Context) error {
	s, stop, err := b.brokerOnly(ctx)
	if err != nil {
		return err
	}
	defer stop()
	b.head(s, "KAFKA: Kafka to Kafka, JSON to JSON, one lane, no compression")
	b.say("  the bare copy is kgo's GroupTransactSession with the same transactions, and neither decodes nor encodes; the bridge always decodes, and encodes")
	b.say("  keys only where values are handed on (the default for tables that are encoded alike), or values too (Options.EncodeAnew)")
	shape := rows.Narrow()
	k := &kafkaCopy{s: s, shape: shape, n: b.rows}
	if k.from, err = s.fill(ctx, "kafka_from", k.n, func(i int) (key, value []byte) {
		id := rows.Shuffled(i, k.n)
		return rows.Key(id), shape.Value(shape.Row(id, 0))
	}); err != nil {
		return err
	}
	if k.want.bytes, err = k.fingerprint(ctx, k.from, k.n, asBytes); err != nil {
		return err
	}
	if k.want.rows, err = k.fingerprint(ctx, k.from, k.n, k.asRow); err != nil {
		return err
	}
	for _, size := range []int{checkpointRows, 5 * checkpointRows} {
		k.changes = size
		if err := b.copyInTurns(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) copyInTurns(ctx context.Context, k *kafkaCopy) error {
	const bare, two, in, twoAnew, inAnew = 0, 1, 2, 3, 4
	contenders := []struct {
		name string
		do   kafkaWriter
	}{bare: {"bare transactional copy, GroupTransactSession", bareCopy},
		two:     {"flinksink bridge, TwoPhase, values handed on", bridgeCopy(kafka.TwoPhase, false)},
		in:      {"flinksink bridge, InTransaction, values handed on", bridgeCopy(kafka.InTransaction, false)},
		twoAnew: {"flinksink bridge, TwoPhase, values encoded anew", bridgeCopy(kafka.TwoPhase, true)},
		inAnew:  {"flinksink bridge, InTransaction, values encoded anew", bridgeCopy(kafka.InTransaction, true)}}
	rates, cpus := make([]figure, len(contenders)), make([]figure, len(contenders))
	for round := range b.paired() {
		for j := range contenders {
			i := (round + j) % len(contenders)
			k.serial++
			to := fmt.Sprintf("kafka_to_%d", k.serial)
			to, err := k.s.fill(ctx, to, 0, nil)
			if err != nil {
				return err
			}
			runtime.GC()
			stop, err := b.profiled(fmt.Sprintf("kafka-%d-%d.pprof", k.changes, i+1))
			if err != nil {
				return err
			}
			before, known := cpuTime()
			took, err := contenders[i].do(ctx, k, to)
			stop()
			if err != nil {
				return fmt.Errorf("%s: %w", contenders[i].name, err)
			}
			if now, ok := cpuTime(); ok && known {
				cpus[i] = append(cpus[i], float64((now-before).Microseconds())/float64(k.n))
			}
			rates[i] = append(rates[i], float64(k.n)/took.Seconds())
			same, err := k.copied(ctx, to)
			if err != nil {
				return fmt.Errorf("%s: %w", contenders[i].name, err)
			}
			if !same {
				return fmt.Errorf("%s: the copy holds other rows than the topic it was made of", contenders[i].name)
			}
			if _, err := k.s.adm.DeleteTopics(ctx, to); err != nil {
				return err
			}
			k.s.topics = k.s.topics[:len(k.s.topics)-1]
		}
	}
	w := b.table(fmt.Sprintf("%d rows, transactions of %d", k.n, k.changes), "rows/s", "of the bare copy", "CPU µs a row")
	for i, c := range contenders {
		line(w, c.name, rates[i].String(), rates[i].over(rates[bare]).String(), number(cpus[i].median()))
	}
	flush(w)
	b.say("  load average %s", loadAverage())
	name := fmt.Sprintf("kafka, transactions of %d: ", k.changes)
	b.goal(name+"InTransaction, rows that pass unchanged, of the bare copy", "", 0.9, rates[in].over(rates[bare])...)
	b.goal(name+"InTransaction, decoded and encoded, of the bare copy", "", 0.6, rates[inAnew].over(rates[bare])...)
	b.goal(name+"TwoPhase, of InTransaction", "", 0.85, rates[two].over(rates[in])...)
	b.goal(name+"TwoPhase, of InTransaction, both decoded and encoded", "", 0.85, rates[twoAnew].over(rates[inAnew])...)
	return nil
}

// bareCopy is what one writes with package kgo: poll, produce the same bytes, end the transaction.
func bareCopy(ctx context.Context, k *kafkaCopy, to string) (time.Duration, error) {
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(strings.Split(k.s.broker, ",")...), kgo.TransactionalID(to), kgo.ConsumerGroup(to), kgo.ConsumeTopics(k.from),
		kgo.DefaultProduceTopic(to), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.FetchMaxBytes(4<<20), kgo.FetchMaxPartitionBytes(1<<20), // as a bridge fetches
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return 0, err
	}
	defer session.Close()
	var began time.Time
	for n := 0; n < k.n; {
		if err := session.Begin(); err != nil {
			return 0, err
		}
		failed := make(chan error, 1)
		for in := 0; in < k.changes && n+in < k.n; {
			fetches := session.PollRecords(ctx, k.changes-in)
			if err := fetches.Err(); err != nil {
				return 0, err
			}
			if began.IsZero() && !fetches.Empty() {
				began = time.Now()
			}
			fetches.EachRecord(func(r *kgo.Record) {
				in++
				session.Produce(ctx, &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}, func(_ *kgo.Record, err error) {
					if err != nil {
						select {
						case failed <- err:
						default:
						}
					}
				})
			})
			if in >= k.changes || n+in >= k.n {
				n += in
				break
			}
		}
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil {
			return 0, err
		}
		select {
		case err := <-failed:
			return 0, err
		default:
		}
		if !committed {
			return 0, errors.New("the bare copy's transaction was aborted: this measures nothing")
		}
	}
	return time.Since(began), nil
}

type kafkaSink func(*kgo.Client, *ddl.Table, []changelog.Format, *kafka.Options) (*kafka.Sink, error)

// bridge is the bridge's two ends.
func (k *kafkaCopy) bridge(cl *kgo.Client, to string, as kafkaSink) (bridge.Input, *kafka.Sink, error) {
	return k.encoding(cl, to, as, false)
}

// encoding is bridge. anew has values encoded anew.
func (k *kafkaCopy) encoding(cl *kgo.Client, to string, as kafkaSink, anew bool) (bridge.Input, *kafka.Sink, error) {
	in, err := inputOf(k.shape, k.s.broker, k.from)
	if err != nil {
		return in, nil, err
	}
	into, err := ddl.Find(fmt.Sprintf(`CREATE TABLE copies (%s) WITH ('connector' = 'upsert-kafka', 'topic' = '%s', 'properties.bootstrap.servers' = '%s',
		'key.format' = 'json', 'value.format' = 'json')`, k.shape.Flink(), to, k.s.broker), "copies")
	if err != nil {
		return in, nil, err
	}
	out, err := as(cl, into, []changelog.Format{json.Format{}}, &kafka.Options{Prefix: to, Topic: k.s.prefix + "_checkpoints", Group: to, EncodeAnew: anew})
	return in, out, err
}

func bridgeCopy(as kafkaSink, anew bool) kafkaWriter {
	return func(ctx context.Context, k *kafkaCopy, to string) (time.Duration, error) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(k.s.broker, ",")...))
		if err != nil {
			return 0, err
		}
		defer cl.Close()
		in, out, err := k.encoding(cl, to, as, anew)
		if err != nil {
			return 0, err
		}
		j, err := travel(ctx, to, in, out, bridge.Options{Changes: k.changes, Interval: 10 * time.Minute}, nil) // a transaction lasts 15
		if err == nil && j.applied != int64(k.n) {
			err = errors.New("the bridge did not apply what the topic holds")
		}
		return j.took, err
	}
}

// markersTake is how long markers are waited for.
const markersTake = 10 * time.Second

var fingerprintSeed = maphash.MakeSeed()

// prints are the fingerprints of what is copied.
type prints struct{ bytes, rows uint64 }

// copied reports whether a topic holds what was to be copied. Rows are parsed only where the bytes are others, since that takes longer than any copy.
func (k *kafkaCopy) copied(ctx context.Context, topic string) (bool, error) {
	got, err := k.fingerprint(ctx, topic, k.n, asBytes)
	if err != nil || got == k.want.bytes {
		return err == nil, err
	}
	got, err = k.fingerprint(ctx, topic, k.n, k.asRow)
	return got == k.want.rows, err
}

func asBytes(value []byte) (string, error) { return string(value), nil }

// asRow is a row whatever the spelling of its JSON.
func (k *kafkaCopy) asRow(value []byte) (string, error) {
	row, err := k.shape.Parse(value)
	return fmt.Sprint(row), err
}

// fingerprint is that of the records which a read_committed reader finds, whatever their order.
func (k *kafkaCopy) fingerprint(ctx context.Context, topic string, n int, as func(value []byte) (string, error)) (sum uint64, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(k.s.broker, ",")...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	held := int64(0)
	// The broker answers the end of a transaction before all its markers are written, and until then the last stable offset is below it.
	for deadline := time.Now().Add(markersTake); ; {
		ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
		if err != nil {
			return 0, err
		}
		held = 0
		ends.Each(func(o kadm.ListedOffset) { held += o.Offset })
		if held >= int64(n) || time.Now().After(deadline) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if held < int64(n) { // ends of transactions take offsets too
		return 0, fmt.Errorf("topic %s holds %d records at most, and must hold %d", topic, held, n)
	}
	for n > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		for _, r := range fetches.Records() {
			value, err := as(r.Value)
			if err != nil {
				return 0, err
			}
			sum += maphash.String(fingerprintSeed, string(r.Key)+" "+value)
			n--
		}
	}
	if n < 0 {
		return 0, fmt.Errorf("topic %s holds more records than it must", topic)
	}
	return sum, nil
}
