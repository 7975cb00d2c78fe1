package bridge

import (
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

func TestPromise_Kinds(t *testing.T) {
	const (
		i, ub, ua, d = changelog.Mode(1 << changelog.Insert), changelog.Mode(1 << changelog.UpdateBefore), changelog.Mode(1 << changelog.UpdateAfter), changelog.Mode(1 << changelog.Delete)
	)
	for _, c := range []struct {
		promise changelog.Mode
		allowed string // of "+I -U +U -D"
	}{
		{changelog.Append, "+I"},
		{i | ua, "+I +U"},
		{ua | d, "+I +U -D"}, // an upsert source that is written on as it is
		{changelog.Upsert, "+I +U -D"},
		{i | ub | ua, "+I -U +U -D"}, // an update is written as a delete and an insert
		{changelog.Retract, "+I -U +U -D"},
		{i | d, "+I -D"},
	} {
		for k := changelog.Insert; k <= changelog.Delete; k++ {
			table := docs(changelog.Retract, 0)
			change := changelog.Change{Kind: k, Row: doc(1, "live", 1, "x")}
			in, err := promised("test", Input{Decoder: messages{table, map[int64][]changelog.Change{7: {change, change}}}}, &Options{Promise: c.promise})
			if err != nil {
				t.Fatal(err)
			}
			b := changelog.NewBatch(table)
			b.Append(changelog.Change{Row: change.Row})
			err = in.Decoder.Decode(b, &changelog.Record{Partition: changelog.Partition{Topic: "t", Partition: 3}, Offset: 7})
			var de *changelog.DataError
			switch allowed := strings.Contains(c.allowed, k.String()); {
			case allowed && (err != nil || b.Len() != 3):
				t.Errorf("%s, %s: %v, %d changes", c.promise, k, err, b.Len())
			case !allowed && (!errors.As(err, &de) || de.Offset != 7 || de.Topic != "t" || !strings.Contains(err.Error(), "a "+k.String()+", and by its plan (Options.Promise) the job writes [") || b.Len() != 1):
				t.Errorf("%s, %s: %v, %d changes", c.promise, k, err, b.Len())
			}
		}
	}
}

func TestPromise_Refused(t *testing.T) {
	for _, c := range []struct {
		promise, table changelog.Mode
		want           string
	}{
		{changelog.Retract, changelog.Append, "Options.Promise is [I,UB,UA,D], and the topic of table docs can hold inserts only"},
		{1 << changelog.Delete, changelog.Retract, "puts no row anywhere"},
		{1 << 6, changelog.Retract, "64 is no mode"},
		{changelog.Append, changelog.Upsert, ""},
	} {
		in, err := promised("test", Input{Decoder: messages{table: docs(c.table, 0)}}, &Options{Promise: c.promise})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || sink.ClassOf(err) != sink.ErrConfig) {
			t.Errorf("%s of %s: %v", c.promise, c.table, err)
		}
		if _, ok := in.Decoder.(*promise); ok != (err == nil) {
			t.Errorf("%s of %s: decoder %T", c.promise, c.table, in.Decoder)
		}
	}
}

// The first record that breaks the promise halts the bridge with everything before it saved, or goes the way of the data policy; with a filter behind it.
func TestRun_PromiseIsBroken(t *testing.T) {
	for _, policy := range []DataPolicy{Halt, Skip} {
		k := newCluster(t, 1)
		k.put(0, "+a", "+b", "-a", "+c", "-drop")
		g := newTarget()
		o := options(g)
		o.UntilEnd, o.OnData = true, policy
		o.Promise = changelog.Append | 1<<changelog.UpdateAfter
		o.Filter = &Filter{Keep: func(r changelog.Row) bool { return r[1].Str() != "drop" }}
		in := k.input()
		table := *sinktest.Appended()
		table.Mode = changelog.Retract
		in.Decoder = signed{texts{&table}}
		b, err := New("test", in, g, o)
		if err != nil {
			t.Fatal(err)
		}
		err = b.Run(t.Context())
		var de *changelog.DataError
		n := b.Status().Counters
		switch {
		case policy == Halt && (!errors.As(err, &de) || de.Offset != 2 || !strings.Contains(err.Error(), "a -D, and by its plan (Options.Promise) the job writes [I,UA]") || g.positions(t, "test")[0] != 2):
			t.Errorf("halt: %v, positions %v", err, g.positions(t, "test"))
		case policy == Skip && (err != nil || g.positions(t, "test")[0] != 5 || n.Skipped != 2 || n.Applied != 3 || !n.Balanced()):
			t.Errorf("skip: %v, %+v", err, n)
		}
	}
}
