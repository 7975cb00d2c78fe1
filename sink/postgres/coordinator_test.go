package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// rewinder is a source that remembers where it was sent.
type rewinder struct{ at int64 }

func (r *rewinder) Begin(_ context.Context, ps []changelog.Partition) (out []changelog.Position, err error) {
	for _, p := range ps {
		out = append(out, changelog.Position{Partition: p, LeaderEpoch: -1})
	}
	return out, nil
}

func (r *rewinder) Seek(_ context.Context, to []changelog.Position) error {
	r.at = to[0].Offset
	return nil
}

func (r *rewinder) Pause(...changelog.Partition)  {}
func (r *rewinder) Resume(...changelog.Partition) {}

// A coordinator over the sink, with a policy that sets aside what the server refuses: the checkpoint is done again without those messages, they
// are kept beside the rows, and every change that was read is accounted for, in the store too.
func TestCoordinator_SetsAsideWhatTheServerRefuses(t *testing.T) {
	e := newEnv(t)
	e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, v text CHECK (v <> 'bad'))")
	tb := e.anyTable()
	s, err := postgres.New(e.pool(nil), "", e.options())
	if err != nil {
		t.Fatal(err)
	}
	refused := map[int64]sink.Rejection{}
	rounds := 0
	src := &rewinder{}
	c, err := sink.NewCoordinator(t.Context(), sink.Options{
		Bridge: "bridge", Sinks: []sink.Declared{{Name: "target", Sink: s}}, Source: src, Tables: []*changelog.Table{tb},
		Backoff: func(int) time.Duration { return time.Millisecond },
		Rejected: func(err *sink.Error) bool {
			rounds++
			for _, r := range err.Rejected {
				refused[r.Offset] = r
			}
			return len(err.Rejected) > 0
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if !c.KeepsDeadLetters() {
		t.Error("the sink does not keep dead letters")
	}
	if _, err := c.Assign(t.Context(), []changelog.Partition{part0}); err != nil {
		t.Fatal(err)
	}
	// Key 1: good, then bad. Key 2: good, then good. Key 3: bad. Key 4: bad, bad, good.
	topic := []struct {
		k int64
		v string
	}{{1, "good"}, {2, "old"}, {1, "bad"}, {3, "bad"}, {2, "new"}, {4, "bad"}, {4, "bad"}, {4, "good"}, {5, "last"}, {5, "bad"}}
	for src.at = 0; src.at < int64(len(topic)); {
		b := changelog.NewBatch(tb)
		p := sink.Progress{}
		from := src.at
		for ; src.at < min(from+5, int64(len(topic))); src.at++ {
			p.Records++
			row := changelog.Row{num(topic[src.at].k), str(topic[src.at].v)}
			if r, ok := refused[src.at]; ok {
				p.Letters = append(p.Letters, sink.DeadLetter{Partition: part0, Offset: src.at, Index: r.Index, Class: "rejected", Error: r.Reason.Error(), Value: []byte(topic[src.at].v), Changes: 1})
				continue
			}
			b.Append(changelog.Change{Partition: part0, Offset: src.at, Kind: changelog.UpdateAfter, Row: row})
		}
		p.To = []changelog.Position{{Partition: part0, Offset: src.at, LeaderEpoch: -1}}
		if err := c.Write(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
	}
	report, err := c.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(e.all("SELECT * FROM kv")), "[(1,good) (2,new) (4,good) (5,last)]"; got != want {
		t.Errorf("the table is %s, expected %s", got, want)
	}
	// Those of key 4 came before a good one in the same batch, so they never were the server's to refuse.
	if got, want := e.one("SELECT string_agg(message_offset::text || convert_from(value, 'UTF8'), ' ' ORDER BY number) FROM "+e.own+".dead_letter"), "2bad 3bad 9bad"; got != want {
		t.Errorf("set aside: %s, expected %s", got, want)
	}
	if want := (sink.Counters{Records: 10, Read: 10, Applied: 4, Superseded: 3, DeadLettered: 3}); report.Counters != want {
		t.Errorf("%+v, expected %+v", report.Counters, want)
	}
	if got := e.one("SELECT format('%s %s %s %s', read, applied, superseded, dead_lettered) FROM " + e.own + ".position"); got != "10 4 3 3" {
		t.Errorf("stored: %s", got)
	}
	if rounds != 2 {
		t.Errorf("%d rounds for two batches", rounds)
	}
}
