package elastic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// named is a lane whose index name is prefix + template.
func (s *server) named(t *testing.T, table *changelog.Table, template string, o elastic.Options) *lane {
	t.Helper()
	o.CreateIndex = true
	o.ControlIndex, o.DeadLetters = s.prefix+"-control", s.prefix+"-letters"
	es, err := elastic.New(s.client(nil), s.prefix+"-"+template, &o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := es.Lane(context.Background(), sink.Lane{Bridge: "b", Sink: "es", Tables: tablesOf(table)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return &lane{t: t, table: table, c: c, s: s, index: s.prefix + "-" + template, topic: topicA}
}

// in returns the documents of one index.
func (l *lane) in(name string) map[string]string {
	l.t.Helper()
	at := *l
	at.index = l.s.prefix + "-" + name
	return at.docs(everything)
}

func (l *lane) expectIn(name string, want map[string]string) {
	l.t.Helper()
	if got := l.in(name); fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Fatalf("documents of %s:\n%v\nexpected:\n%v", name, got, want)
	}
}

func retract(t *testing.T) *changelog.Table {
	return table(t, "r", changelog.Retract, 1, "id BIGINT NOT NULL", "v STRING", "at TIMESTAMP(3)")
}

func day(d int) changelog.Value {
	return changelog.TimestampValue(time.Date(2024, 2, d, 23, 59, 59, 0, time.UTC).Unix(), 0)
}

const old = changelog.UpdateBefore

// A row whose index name changes moves: it is deleted where it was, with a version, so that nothing brings it back there.
func TestNaming_Moves(t *testing.T) {
	for name, deletes := range map[string]elastic.Deletes{"tombstone": elastic.Tombstone, "hard": elastic.Hard} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *server) {
				l := s.named(t, retract(t), "r-{v}-{at|yyyy.MM.dd}", elastic.Options{Deletes: deletes})
				l.open(1, 0, false)
				l.must(l.checkpoint(at(0, ins, 1, "DE", day(1)), at(1, ins, 2, "DE", day(1))))
				l.expectIn("r-de-2024.02.01", map[string]string{"1": `{"at":"2024-02-01T23:59:59.000","id":1,"v":"DE"}`, "2": `{"at":"2024-02-01T23:59:59.000","id":2,"v":"DE"}`})
				moved := []changelog.Change{at(2, old, 1, "DE", day(1)), at(3, upd, 1, "FR", day(1)), at(4, old, 1, "FR", day(1)), at(5, upd, 1, "FR", day(2)), at(6, del, 2, "DE", day(1))}
				l.must(l.checkpoint(moved...))
				gone := map[string]string{"1": `{"flinksink_deleted":"T"}`, "2": `{"flinksink_deleted":"T"}`}
				passed := map[string]string{"1": `{"flinksink_deleted":"T"}`}
				if deletes == elastic.Hard {
					gone, passed = map[string]string{}, map[string]string{}
				}
				now := map[string]string{"1": `{"at":"2024-02-02T23:59:59.000","id":1,"v":"FR"}`}
				check := func() {
					t.Helper()
					l.expectIn("r-de-2024.02.01", gone)
					l.expectIn("r-fr-2024.02.01", passed)
					l.expectIn("r-fr-2024.02.02", now)
				}
				check()
				// All of it again, cut otherwise, by a lane that is behind.
				z := s.named(t, retract(t), "r-{v}-{at|yyyy.MM.dd}", elastic.Options{Deletes: deletes})
				z.open(2, 0, true)
				z.must(z.checkpoint(at(0, ins, 1, "DE", day(1)), at(1, ins, 2, "DE", day(1))))
				check()
				z.must(z.checkpoint(moved[:2]...))
				check()
				if n := z.c.(sink.Superseder).Superseded(); n != 2 { // the delete in the old index is no change of its own
					t.Fatalf("%d of 2 changes are superseded", n)
				}
				z.must(z.checkpoint(moved[2:]...))
				check()
			})
		})
	}
}

// What a row's old index cannot be told from is refused, each change by itself.
func TestNaming_Refused(t *testing.T) {
	s := standIn(t)
	l := s.named(t, retract(t), "r-{v}", tombstones)
	l.open(1, 0, false)
	keyOnly := at(3, del, 4, changelog.Value{}, changelog.Value{})
	keyOnly.KeyOnly = true
	for _, c := range []struct {
		change changelog.Change
		text   string
	}{
		{at(3, upd, 4, "x", day(1)), "what the row was before"},
		{keyOnly, "the key only"},
		{at(3, ins, 4, changelog.Value{}, day(1)), "is NULL"},
		{at(3, ins, 4, "", day(1)), "is empty"},
		{at(3, ins, 4, "a b", day(1)), "no name may have"},
		{at(3, ins, 4, "../x", day(1)), "no name may have"},
		{at(3, ins, 4, "x,y", day(1)), "no name may have"},
		{at(3, ins, 4, "*", day(1)), "no name may have"},
		{at(3, ins, 4, strings.Repeat("x", 255), day(1)), "too long"},
	} {
		err := l.checkpoint(at(2, ins, 3, "fine", day(1)), c.change)
		refusedAt(t, err, 3)
		is(t, err, sink.ErrRejected, c.text)
		l.must(l.c.Discard(t.Context()))
	}
}

func TestNaming_Settings(t *testing.T) {
	client := standIn(t).client(nil)
	upsert := orders(t)
	for _, c := range []struct {
		template string
		o        elastic.Options
		table    *changelog.Table
		text     string
	}{
		{"{v}", tombstones, upsert, "begins with a column"},
		{"o-{v", tombstones, upsert, "without a }"},
		{"o-v}", tombstones, upsert, "without a {"},
		{"o-{}", tombstones, upsert, "without a column"},
		{"O-{v}", tombstones, upsert, "upper case"},
		{"o-{v|yy}", tombstones, upsert, "made of yyyy"},
		{"o-{v|}", tombstones, upsert, "empty time format"},
		{"o-{id}", elastic.Options{DataStream: true}, upsert, "one data stream"},
		{"o-{nothing}", tombstones, upsert, `column "nothing", which table "orders" does not have`},
		{"o-{v}", tombstones, upsert, "does not tell what a row held before"},
		{"o-{id|yyyy}", tombstones, upsert, "time format for column"},
		{"o-{m}", tombstones, table(t, "m", changelog.Retract, 1, "id BIGINT NOT NULL", "m DOUBLE"), "a name is made of"},
	} {
		es, err := elastic.New(client, c.template, &c.o)
		if err == nil {
			_, err = es.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "es", Tables: tablesOf(c.table)})
		}
		is(t, err, sink.ErrConfig, c.text)
	}
}

// With columns of the key a row never moves, and deletes may tell the key only.
func TestNaming_Key(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		tab := table(t, "k", mode(t, "[I,UA,D]"), 2, "country STRING NOT NULL", "d DATE NOT NULL", "v STRING")
		o := tombstones
		o.Alias, o.Refresh = s.prefix+"-alive", true
		l := s.named(t, tab, "k-{d|yyyy-MM}-{country}", o)
		l.open(1, 0, false)
		d := changelog.DateValue(time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC).Unix() / 86400)
		gone := at(2, del, "b", d, changelog.Value{})
		gone.KeyOnly = true
		l.must(l.checkpoint(at(0, ins, "a", d, "x"), at(1, ins, "b", d, "x"), gone, at(3, ins, "c", d, "x")))
		if hits, err := s.search(o.Alias, everything); err != nil || !s.real && len(hits) != 1 || s.real && len(hits) != 2 {
			t.Fatal(hits, err)
		}
		// A hand edits, so that _mget and the write by sequence number name their index.
		id := ""
		for k := range l.in("k-2024-02-a") {
			id = k
		}
		for range 20 {
			s.must("POST", "/"+s.prefix+"-k-2024-02-a/_bulk", fmt.Sprintf(`{"index":{"_id":%q}}`+"\n"+`{"v":"by hand","flinksink":{"at":"orders/0/0/0"}}`+"\n", id))
		}
		l.must(l.checkpoint(at(4, upd, "a", d, "y")))
		l.expectIn("k-2024-02-a", map[string]string{id: `{"country":"a","d":"2024-02-29","v":"y"}`})
		es, err := elastic.New(s.client(nil), s.prefix+"-k-{d}-{country}", &tombstones)
		l.must(err)
		s.must("POST", "/"+s.prefix+"-k-2024-02-a/_bulk", `{"index":{"_id":"old","version":5,"version_type":"external"}}`+"\n"+`{"flinksink_deleted":"2020-01-01T00:00:00.000Z"}`+"\n")
		if n, err := es.Purge(t.Context(), tab, time.Hour); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	})
}

// An index of many that is deleted while the lane writes, made by hand, or somebody else's.
func TestNaming_Indexes(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		l := s.named(t, retract(t), "r-{v}", tombstones)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, 1, "a", day(1)), at(1, ins, 2, "b", day(1))))
		// Deleted and not written to any more: nothing to say. Written to again: its rows are lost.
		s.must("DELETE", "/"+s.prefix+"-r-a", "")
		l.must(l.checkpoint(at(2, ins, 3, "b", day(1))))
		is(t, l.checkpoint(at(3, ins, 4, "a", day(1))), sink.ErrLost, "-r-a was deleted")
		// The next process finds what the server made by itself.
		l.open(2, 0, true)
		is(t, l.checkpoint(at(3, ins, 4, "a", day(1))), sink.ErrLost, "Delete it to go on without the rows that it had")
		s.must("DELETE", "/"+s.prefix+"-r-a", "")
		l.open(3, 0, true)
		l.must(l.checkpoint(at(3, ins, 4, "a", day(1))))
		l.expectIn("r-a", map[string]string{"4": `{"at":"2024-02-01T23:59:59.000","id":4,"v":"a"}`})
		// Empty and made by hand is fine, one that does not fit is named at once, and at the next Open.
		s.must("PUT", "/"+s.prefix+"-r-c", "")
		s.must("PUT", "/"+s.prefix+"-r-d", `{"mappings":{"dynamic":"strict","properties":{"id":{"type":"long"}}}}`)
		l.must(l.checkpoint(at(4, ins, 5, "c", day(1))))
		is(t, l.checkpoint(at(5, ins, 6, "d", day(1))), sink.ErrConfig, "-r-d does not fit")
	})
}

// Rows that move about, in batches cut at random, replayed at random: each row is in its last index and in no other.
func TestNaming_Converges(t *testing.T) {
	s := standIn(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	places := []string{"a", "b", "c"}
	where := make(map[int]string)
	var topic [][]changelog.Change // a batch never ends within one
	for n := int64(0); n < 3000; n += 2 {
		id, to := rng.IntN(40), places[rng.IntN(3)]
		from, is := where[id]
		switch {
		case !is:
			topic = append(topic, []changelog.Change{at(n, ins, id, to, day(1))})
			where[id] = to
		case rng.IntN(4) == 0:
			topic = append(topic, []changelog.Change{at(n, del, id, from, day(1))})
			delete(where, id)
		default:
			topic = append(topic, []changelog.Change{at(n, old, id, from, day(1)), at(n+1, upd, id, to, day(1))})
			where[id] = to
		}
	}
	saved, gen := 0, sink.GenerationID(1)
	l := s.named(t, retract(t), "r-{v}", tombstones)
	l.open(gen, 0, false)
	for at := 0; at < len(topic) || saved < len(topic); {
		n := min(1+rng.IntN(60), len(topic)-at)
		var batch []changelog.Change
		for _, c := range topic[at : at+n] {
			batch = append(batch, c...)
		}
		l.must(l.write(batch...))
		at += n
		switch rng.IntN(5) {
		case 0, 1:
			l.must(l.prepare())
			saved = at
		case 2:
			l.must(l.c.Discard(t.Context()))
			gen++
			l.open(gen, 0, saved > 0)
			at = max(0, saved-rng.IntN(30))
		}
		if at == len(topic) {
			l.must(l.prepare())
			saved = at
		}
	}
	got := make(map[int]string)
	for _, p := range places {
		for id, doc := range l.in("r-" + p) {
			var d struct {
				ID int
				V  *string
			}
			l.must(json.Unmarshal([]byte(doc), &d))
			if d.V == nil {
				continue
			}
			if got[d.ID] != "" {
				t.Fatalf("row %s is in %s and in %s", id, got[d.ID], p)
			}
			got[d.ID] = p
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(where) {
		t.Fatalf("rows are in\n%v\nexpected\n%v", got, where)
	}
}
