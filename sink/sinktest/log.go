package sinktest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// Log builds the partitions of a topic in any encoding that there is an encoder for, with transactions, aborted records and holes, as a broker
// would number them. Records returns what a consumer reads, so that a decoder, a coordinator or a whole program can be tested without a broker;
// package kafkatopic puts the same into one.
//
//	log := sinktest.NewLog(encoder) // of changelog/format.NewEncoder, for the table's CREATE TABLE
//	log.Insert(0, 1, "a")
//	tx := log.Begin()
//	tx.Delete(0, 1, "a")
//	tx.Abort()
//	records, err := log.Records(0)
//
// The first mistake (a value that fits no column, a change that the encoding cannot carry) is kept, and returned by Records and Entries. A Log is
// not safe for use by several goroutines.
type Log struct {
	enc     changelog.Encoder
	entries []Entry
	ends    map[int32]int64
	txs     int
	open    map[int]map[int32]int64 // offset of the first record in each partition, of transactions that are open
	aborted map[int]bool
	err     error
}

// EntryKind says what an [Entry] is.
type EntryKind uint8

const (
	Message EntryKind = iota // a record
	Marker                   // the end of a transaction in one partition: it takes an offset, and no consumer sees it
	Hole                     // an offset that compaction has emptied
)

// Entry is one offset of a [Log], in the order in which they were written over all partitions.
type Entry struct {
	Kind        EntryKind
	Transaction int              // from 1; 0: written outside one
	Commit      bool             // of a Marker
	Record      changelog.Record // of a Marker or Hole only its partition and offset
}

// NewLog returns an empty log of the encoder's table.
func NewLog(enc changelog.Encoder) *Log {
	return &Log{enc: enc, ends: make(map[int32]int64), open: make(map[int]map[int32]int64), aborted: make(map[int]bool)}
}

// Insert, UpdateBefore, UpdateAfter and Delete append one change to a partition. values are those of the row's columns in order, as Go values:
// nil, bool, int, int64, float64, string, []byte, or a changelog.Value for everything else. Columns that are left out at the end are NULL.
func (l *Log) Insert(partition int32, values ...any) {
	l.change(0, partition, changelog.Insert, values)
}

// UpdateBefore appends -U; see Insert.
func (l *Log) UpdateBefore(partition int32, values ...any) {
	l.change(0, partition, changelog.UpdateBefore, values)
}

// UpdateAfter appends +U; see Insert.
func (l *Log) UpdateAfter(partition int32, values ...any) {
	l.change(0, partition, changelog.UpdateAfter, values)
}

// Delete appends -D; see Insert.
func (l *Log) Delete(partition int32, values ...any) {
	l.change(0, partition, changelog.Delete, values)
}

// Raw appends a record of any bytes: a tombstone, a message that cannot be decoded. nil is Kafka's null.
func (l *Log) Raw(partition int32, key, value []byte, headers ...changelog.Header) {
	l.append(0, partition, Entry{Record: changelog.Record{Key: slices.Clone(key), Value: slices.Clone(value), Headers: headers}})
}

// Compacted appends n offsets that hold nothing any more.
func (l *Log) Compacted(partition int32, n int) {
	for range n {
		l.append(0, partition, Entry{Kind: Hole})
	}
}

// Transaction is a producer's transaction on a [Log]. It may be open beside others and beside what is written outside.
type Transaction struct {
	l  *Log
	id int
}

// Begin begins a transaction. While it is open no consumer reads past its first record.
func (l *Log) Begin() *Transaction {
	l.txs++
	l.open[l.txs] = make(map[int32]int64)
	return &Transaction{l, l.txs}
}

// Insert is [Log.Insert] within the transaction, and so on.
func (t *Transaction) Insert(partition int32, values ...any) {
	t.l.change(t.id, partition, changelog.Insert, values)
}

// UpdateBefore is [Log.UpdateBefore] within the transaction.
func (t *Transaction) UpdateBefore(partition int32, values ...any) {
	t.l.change(t.id, partition, changelog.UpdateBefore, values)
}

// UpdateAfter is [Log.UpdateAfter] within the transaction.
func (t *Transaction) UpdateAfter(partition int32, values ...any) {
	t.l.change(t.id, partition, changelog.UpdateAfter, values)
}

// Delete is [Log.Delete] within the transaction.
func (t *Transaction) Delete(partition int32, values ...any) {
	t.l.change(t.id, partition, changelog.Delete, values)
}

// Commit makes the transaction's records visible.
func (t *Transaction) Commit() { t.end(true) }

// Abort ends the transaction; nobody who reads committed records sees anything of it.
func (t *Transaction) Abort() { t.end(false) }

func (t *Transaction) end(commit bool) {
	parts, ok := t.l.open[t.id]
	if !ok {
		t.l.fail(errors.New("a transaction was ended twice"))
		return
	}
	delete(t.l.open, t.id)
	t.l.aborted[t.id] = !commit
	numbers := make([]int32, 0, len(parts))
	for p := range parts {
		numbers = append(numbers, p)
	}
	slices.Sort(numbers)
	for _, p := range numbers {
		t.l.append(t.id, p, Entry{Kind: Marker, Commit: commit})
	}
}

func (l *Log) change(tx int, partition int32, kind changelog.Kind, values []any) {
	schema := l.enc.Table().Schema
	row := make(changelog.Row, len(schema.Columns))
	if len(values) > len(row) {
		l.fail(fmt.Errorf("%d values for the %d columns of table %q", len(values), len(row), l.enc.Table().Name))
		return
	}
	for i, v := range values {
		var ok bool
		if row[i], ok = valueOf(v); !ok {
			l.fail(fmt.Errorf("column %q: a Go %T is no value; use a changelog.Value", schema.Columns[i].Name, v))
			return
		}
	}
	c := changelog.Change{Partition: l.partition(partition), Offset: l.ends[partition], Kind: kind, Row: row}
	var r changelog.Record
	if err := l.enc.Encode(&r, &c); err != nil {
		l.fail(err)
		return
	}
	l.append(tx, partition, Entry{Record: r})
}

func valueOf(v any) (changelog.Value, bool) {
	switch v := v.(type) {
	case nil:
		return changelog.Value{}, true
	case changelog.Value:
		return v, true
	case bool:
		return changelog.BoolValue(v), true
	case int:
		return changelog.IntValue(int64(v)), true
	case int64:
		return changelog.IntValue(v), true
	case float64:
		return changelog.DoubleValue(v), true
	case string:
		return changelog.StringValue(v), true
	case []byte:
		return changelog.BytesValue(v), true
	}
	return changelog.Value{}, false
}

func (l *Log) append(tx int, partition int32, e Entry) {
	offset := l.ends[partition]
	l.ends[partition]++
	e.Transaction = tx
	e.Record.Partition, e.Record.Offset, e.Record.LeaderEpoch, e.Record.TimestampType = l.partition(partition), offset, -1, changelog.CreateTime
	if parts, ok := l.open[tx]; ok {
		if _, ok := parts[partition]; !ok {
			parts[partition] = offset
		}
	} else if tx > 0 && e.Kind == Message {
		l.fail(errors.New("a change in a transaction that was ended"))
		return
	}
	l.entries = append(l.entries, e)
}

func (l *Log) partition(p int32) changelog.Partition {
	return changelog.Partition{Topic: l.enc.Table().Name, Partition: p}
}

func (l *Log) fail(err error) {
	if l.err == nil {
		l.err = fmt.Errorf("sinktest: Log: %w", err)
	}
}

// End returns the offset after the last one of a partition, markers and holes included.
func (l *Log) End(partition int32) int64 { return l.ends[partition] }

// Records returns the messages of a partition that a consumer reads in isolation read_committed: those of no transaction and of committed ones,
// up to the first message of one that is open. Their topic is the table's name.
func (l *Log) Records(partition int32) ([]changelog.Record, error) {
	stable := l.ends[partition]
	for _, parts := range l.open {
		if first, ok := parts[partition]; ok {
			stable = min(stable, first)
		}
	}
	var rs []changelog.Record
	for _, e := range l.entries {
		if e.Kind == Message && e.Record.Partition.Partition == partition && e.Record.Offset < stable && !l.aborted[e.Transaction] {
			rs = append(rs, e.Record)
		}
	}
	return rs, l.err
}

// Entries returns everything that was appended, in order, for whoever writes it to a broker.
func (l *Log) Entries() ([]Entry, error) { return slices.Clone(l.entries), l.err }
