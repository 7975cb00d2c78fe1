package bridge

import (
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What has not waited for an interval when another message of its tail has stays behind.
func TestRelease_WhatIsDue(t *testing.T) {
	p := &partition{Partition: changelog.Partition{Topic: "t"}, bound: -1}
	l := newLane(&run{ins: []Input{{Decoder: newRows()}}, o: Options{Interval: time.Hour, ByteBudget: 1 << 20}}, 0)
	load := func(from int64, values ...string) *load {
		ld := l.newLoad(0)
		d := decoder{l: l, ld: ld}
		s := ld.span(&chunk{part: p})
		for i, v := range values {
			r := &kgo.Record{Topic: "t", Offset: from + int64(i), Value: []byte(v), LeaderEpoch: int32(from)}
			n := ld.batch.Len()
			if err := d.record(r); err != nil {
				t.Fatal(err)
			}
			s.follow(r, ld.batch, n)
			s.to, s.records = r.Offset+1, s.records+1
		}
		if err := l.holdBack(ld); err != nil {
			t.Fatal(err)
		}
		return ld
	}
	if ld := load(5, "+I 1 a", "-D 1 a"); ld.batch.Len() != 1 || ld.spans[0].to != 6 || ld.spans[0].records != 1 {
		t.Fatalf("%d changes, %+v", ld.batch.Len(), ld.spans)
	}
	if ld := load(9, "-D 2 a", "none"); ld.batch.Len() != 0 || len(ld.spans) != 0 {
		t.Fatalf("%d changes, %+v", ld.batch.Len(), ld.spans)
	}
	if ld, err := l.release(false, 0); ld != nil || err != nil {
		t.Fatalf("released %+v, %v, before their time", ld, err)
	}
	x := l.tails[p.Partition]
	x.records[0].at = x.records[0].at.Add(-time.Hour)
	ld, err := l.release(false, 0)
	if err != nil || ld.batch.Len() != 1 || ld.batch.Changes[0].Offset != 6 || ld.spans[0].to != 9 || ld.spans[0].leader != 9 || ld.spans[0].records != 1 {
		t.Fatalf("released %+v, %v", ld, err)
	}
	// The rest goes in front of what puts a row there.
	ld = load(11, "+I 2 b", "-D 3 a")
	if ld.batch.Len() != 2 || ld.batch.Changes[0].Offset != 9 || ld.batch.Changes[1].Offset != 11 || ld.spans[0].to != 12 || ld.spans[0].records != 3 {
		t.Fatalf("%+v, %+v", ld.batch.Changes, ld.spans)
	}
	if ld, err = l.release(true, 0); err != nil || ld.batch.Len() != 1 || ld.spans[0].to != 13 || len(l.tails) != 0 || l.tailBytes != 0 {
		t.Fatalf("released %+v, %v; %d bytes left", ld, err, l.tailBytes)
	}
}

// A delete directly before a record that cannot be decoded is written, whether it came in this load or in the one before.
func TestHoldBack_BadRecord(t *testing.T) {
	p := &partition{Partition: changelog.Partition{Topic: "t"}, bound: -1}
	for _, earlier := range []bool{false, true} {
		l := newLane(&run{ins: []Input{{Decoder: newRows()}}, o: Options{Interval: time.Hour, ByteBudget: 1 << 20}}, 0)
		r := &kgo.Record{Topic: "t", Offset: 3, Value: []byte("-D 1 a")}
		ld := l.newLoad(0)
		ld.bad = &bad{part: p, pos: changelog.Position{Partition: p.Partition, Offset: 4}}
		if earlier {
			l.keep(nil, &span{part: p, tail: []record{r}, to: 4, records: 1})
		} else {
			s := ld.span(&chunk{part: p})
			d := decoder{l: l, ld: ld}
			if err := d.record(r); err != nil {
				t.Fatal(err)
			}
			s.follow(r, ld.batch, 0)
			s.to, s.records = 4, 1
		}
		if err := l.holdBack(ld); err != nil {
			t.Fatal(err)
		}
		if ld.batch.Len() != 1 || len(ld.spans) != 1 || ld.spans[0].to != 4 || ld.spans[0].records != 1 || len(l.tails) != 0 || l.tailBytes != 0 {
			t.Fatalf("earlier %v: %d changes, spans %+v, %d bytes held", earlier, ld.batch.Len(), ld.spans, l.tailBytes)
		}
	}
}

// What was held of an ended epoch is not written: it is read again.
func TestHold_EndedEpoch(t *testing.T) {
	p := &partition{Partition: changelog.Partition{Topic: "t"}, bound: -1}
	l := newLane(&run{ins: []Input{{Decoder: newRows()}}, o: Options{Interval: time.Hour, ByteBudget: 1 << 20}}, 0)
	l.tails[p.Partition] = &tail{span: span{part: p}, records: []kept{{record: &kgo.Record{Value: []byte("-D 1 a")}}}, bytes: 7}
	l.tailBytes = 7
	p.epoch.Add(1)
	if ld, err := l.release(true, 0); ld != nil || err != nil || len(l.tails) != 0 || l.tailBytes != 0 {
		t.Fatalf("released %+v, %v; %d bytes left", ld, err, l.tailBytes)
	}
}

func TestHoldPolicy(t *testing.T) {
	for _, c := range []struct {
		p    HoldPolicy
		m    changelog.Mode
		want bool
	}{
		{HoldByMode, changelog.Append, false}, {HoldByMode, changelog.Upsert, false}, {HoldByMode, changelog.Retract, true},
		{HoldAlways, changelog.Upsert, true}, {HoldNever, changelog.Retract, false},
	} {
		if got := c.p.on(c.m); got != c.want {
			t.Errorf("%d in mode %s: %v", c.p, c.m, got)
		}
	}
	k, g := newCluster(t, 1), newTarget()
	o := options(g)
	o.HoldRetractions = 9
	_, err := New("test", k.input(), g, o)
	configError(t, err, "Options.HoldRetractions", "HoldNever")
}

// Records without a key, or with another one than the table's, are spread over partitions: a delete and an insert of one row then have no
// order (P03).
func TestStart_NoOrderOfRows(t *testing.T) {
	run := func(partitions int32, d changelog.Decoder, nullKeys, accepted bool) error {
		k, g := newCluster(t, partitions), newTarget()
		o := options(g)
		o.UntilEnd, o.Unordered = true, accepted
		b, err := New("test", Input{Topics: []string{k.topic}, Decoder: d, NullKeys: nullKeys, Client: []kgo.Opt{kgo.SeedBrokers(k.addr)}}, g, o)
		if err != nil {
			t.Fatal(err)
		}
		return start(t, b).wait()
	}
	configError(t, run(2, newRows(), true, false), `topic "texts" has 2 partitions`, "table rows", "key.format", "Options.Unordered")
	upsert := newRows()
	upsert.table.Mode = changelog.Upsert
	for _, err := range []error{run(2, newRows(), true, true), run(2, newRows(), false, false), run(1, newRows(), true, false), run(2, upsert, true, false)} {
		if err != nil {
			t.Error(err)
		}
	}
	for with, want := range map[string]bool{
		`'connector' = 'kafka', 'format' = 'json'`:                                             true,
		`'connector' = 'kafka', 'format' = 'json', 'key.format' = 'json', 'key.fields' = 'id'`: false,
		`'connector' = 'kafka', 'format' = 'json', 'key.format' = 'json', 'key.fields' = 'v'`:  false, // rows without a PRIMARY KEY are equal in all columns
	} {
		in, err := FromTable(table(t, with+`, 'topic' = 'texts', 'properties.bootstrap.servers' = 'a:1'`), newRows())
		if err != nil || in.NullKeys != want {
			t.Errorf("%s: null keys %v, %v", with, in.NullKeys, err)
		}
	}
	// An update of customer moves the row to another partition.
	for fields, want := range map[string]bool{"id": false, "customer": true, "id;customer": true} {
		parsed, err := ddl.Find(`CREATE TABLE x (id BIGINT, customer STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'kafka', 'topic' = 'texts',
			'properties.bootstrap.servers' = 'a:1', 'value.format' = 'debezium-json', 'key.format' = 'json', 'key.fields' = '`+fields+`')`, "x")
		if err != nil {
			t.Fatal(err)
		}
		in, err := FromTable(parsed, newRows())
		if err != nil || in.NullKeys != want {
			t.Errorf("key.fields %s: null keys %v, %v", fields, in.NullKeys, err)
		}
	}
}
