package sinktest

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// tableNamed returns one of the four tables by its name; TypeTable, of a text.
func tableNamed(name string) *changelog.Table {
	switch name {
	case TextTable:
		return &changelog.Table{Name: name, Mode: changelog.Upsert, Schema: &changelog.Schema{Key: []int{0}, Columns: []changelog.Column{
			{Name: "k", Type: changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength, NotNull: true}},
			{Name: "v", Type: changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}},
			{Name: "b", Type: changelog.Type{Root: changelog.RootVarbinary, Length: changelog.MaxLength}},
		}}}
	case TypeTable:
		return typeTable(changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength})
	}
	columns := []changelog.Column{
		{Name: "id", Type: changelog.Type{Root: changelog.RootBigInt}},
		{Name: "v", Type: changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}},
	}
	if name == AppendTable {
		return &changelog.Table{Name: name, Mode: changelog.Append, Schema: &changelog.Schema{Columns: columns}}
	}
	columns[0].Type.NotNull = true
	return &changelog.Table{Name: name, Mode: changelog.Retract, Schema: &changelog.Schema{Columns: columns, Key: []int{0}}}
}

// typeTable is TypeTable for one type.
func typeTable(t changelog.Type) *changelog.Table {
	return &changelog.Table{Name: TypeTable, Mode: changelog.Upsert, Schema: &changelog.Schema{Key: []int{0}, Columns: []changelog.Column{
		{Name: "id", Type: changelog.Type{Root: changelog.RootBigInt, NotNull: true}}, {Name: "v", Type: t}}}}
}

// Keyed returns the table (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)) that takes every kind of change.
func Keyed() *changelog.Table { return tableNamed(KeyedTable) }

// Appended returns the table (id BIGINT, v STRING) without a key, that takes inserts.
func Appended() *changelog.Table { return tableNamed(AppendTable) }

// Event is one change of a row, one message of a [Topic].
type Event struct {
	Kind    changelog.Kind
	ID      int64
	V       string
	KeyOnly bool // a delete that does not know V

	rest []Event // the other changes of its message
}

// Insert is +I.
func Insert(id int64, v string) Event { return Event{Kind: changelog.Insert, ID: id, V: v} }

// UpdateBefore is -U.
func UpdateBefore(id int64, v string) Event {
	return Event{Kind: changelog.UpdateBefore, ID: id, V: v}
}

// UpdateAfter is +U.
func UpdateAfter(id int64, v string) Event { return Event{Kind: changelog.UpdateAfter, ID: id, V: v} }

// Delete is -D of a whole row.
func Delete(id int64, v string) Event { return Event{Kind: changelog.Delete, ID: id, V: v} }

// DeleteKey is -D that knows the key only, as a tombstone of an upsert topic does.
func DeleteKey(id int64) Event { return Event{Kind: changelog.Delete, ID: id, KeyOnly: true} }

// Topic is a log of changes of one of the two tables, in memory: what is read twice is the same twice, and the table that it
// must become is known. A row's changes belong into one partition. It is not safe for use by several goroutines.
type Topic struct {
	Table *changelog.Table
	ID    changelog.TopicID // of every position
	parts map[int32][]Event

	name        string // "": that of the table
	insertsOnly bool   // for a sink that takes nothing else: Put makes inserts of updates, and leaves the rest out
}

// NewTopic returns an empty topic with the name of t, which is Keyed or Appended.
func NewTopic(t *changelog.Table) *Topic {
	return &Topic{Table: t, ID: changelog.TopicID{15: 1}, parts: make(map[int32][]Event)}
}

// Put appends one message for each event to a partition.
func (t *Topic) Put(partition int32, events ...Event) {
	for _, e := range events {
		if t.insertsOnly {
			if !e.Kind.Adds() {
				continue
			}
			e.Kind = changelog.Insert
		}
		t.parts[partition] = append(t.parts[partition], e)
	}
}

// putOne appends one message of several changes to a partition, as an envelope with many rows is. Records has no such message.
func (t *Topic) putOne(partition int32, events ...Event) {
	e := events[0]
	e.rest = events[1:]
	t.parts[partition] = append(t.parts[partition], e)
}

// changes are the changes of a message.
func (e Event) changes() []Event { return append([]Event{e}, e.rest...) }

// Partition names partition p of the topic.
func (t *Topic) Partition(p int32) changelog.Partition {
	return changelog.Partition{Topic: cmp.Or(t.name, t.Table.Name), Partition: p}
}

// Position returns the position before the message at offset.
func (t *Topic) Position(p int32, offset int64) changelog.Position {
	return changelog.Position{Partition: t.Partition(p), Offset: offset, TopicID: t.ID}
}

// End returns the position after the last message.
func (t *Topic) End(p int32) changelog.Position { return t.Position(p, int64(len(t.parts[p]))) }

// Read returns the changes of up to most messages of each partition from these positions on (most below 0: all there are), and
// the positions after them. Strings point into the batch's own arena, so that [Spoil] can show who still reads them.
func (t *Topic) Read(from []changelog.Position, most int) (*changelog.Batch, []changelog.Position) {
	b := changelog.NewBatch(t.Table)
	to := slices.Clone(from)
	for i := range to {
		events := t.parts[to[i].Partition.Partition]
		events = events[min(to[i].Offset, int64(len(events))):]
		if most >= 0 && len(events) > most {
			events = events[:most]
		}
		for _, message := range events {
			for n, e := range message.changes() {
				row := b.NewRow()
				row[0] = changelog.IntValue(e.ID)
				if !e.KeyOnly {
					v := b.NewBytes(len(e.V))
					copy(v, e.V)
					row[1] = changelog.StringBytesValue(v)
				}
				b.Append(changelog.Change{Partition: to[i].Partition, Offset: to[i].Offset, Index: int32(n), Kind: e.Kind, KeyOnly: e.KeyOnly, Row: row})
			}
			to[i].Offset++
		}
	}
	return b, to
}

// Spoil overwrites the memory of a batch that Read made and resets it, as the next use of a batch does.
func Spoil(b *changelog.Batch) {
	for _, c := range b.Changes {
		for i, v := range c.Row {
			for j := range v.Bytes() {
				v.Bytes()[j] = '#'
			}
			c.Row[i] = changelog.IntValue(-1)
		}
	}
	b.Reset()
}

// Rows returns what the table must hold after everything before these positions, sorted.
func (t *Topic) Rows(to ...changelog.Position) []Row {
	var rows []Row
	byKey := make(map[int64]string)
	for _, p := range to {
		events := t.parts[p.Partition.Partition]
		for _, message := range events[:min(p.Offset, int64(len(events)))] {
			for _, e := range message.changes() {
				switch {
				case len(t.Table.Schema.Key) == 0:
					rows = append(rows, Row{e.ID, e.V})
				case e.Kind.Adds():
					byKey[e.ID] = e.V
				default:
					delete(byKey, e.ID)
				}
			}
		}
	}
	for id, v := range byKey {
		rows = append(rows, Row{id, v})
	}
	sortRows(rows)
	return rows
}

// Records returns a partition as the messages of an upsert-kafka topic (for Keyed) or of a kafka topic without key (for Appended) in
// Flink's json format. An upsert topic holds no -U: its offset is missing, as after log compaction.
func (t *Topic) Records(p int32) []changelog.Record {
	var rs []changelog.Record
	for i, e := range t.parts[p] {
		if e.Kind == changelog.UpdateBefore {
			continue
		}
		r := changelog.Record{Partition: t.Partition(p), Offset: int64(i), LeaderEpoch: -1, TimestampType: changelog.CreateTime}
		if len(t.Table.Schema.Key) > 0 {
			r.Key = marshal(struct {
				ID int64 `json:"id"`
			}{e.ID})
		}
		if e.Kind.Adds() {
			r.Value = marshal(struct {
				ID int64  `json:"id"`
				V  string `json:"v"`
			}{e.ID, e.V})
		}
		rs = append(rs, r)
	}
	return rs
}

// marshal encodes a struct of numbers and strings, which cannot fail.
func marshal(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

func compareRows(a, b Row) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.V, b.V)) }

func sortRows(rows []Row) {
	slices.SortFunc(rows, compareRows)
}

// FixtureRows turns rows of the two tables, as [Server.Table] returns them, into what [Harness.Rows] returns.
func FixtureRows(rows []changelog.Row) []Row {
	var out []Row
	for _, r := range rows {
		out = append(out, Row{r[0].Int(), r[1].Str()})
	}
	return out
}
