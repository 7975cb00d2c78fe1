package elastic_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// of puts a change into a partition.
func of(partition int32, c changelog.Change) changelog.Change {
	c.Partition.Partition = partition
	return c
}

// own opens the lane for some partitions.
func (l *lane) own(gen sink.GenerationID, partitions ...int32) *lane {
	l.t.Helper()
	claim := sink.Claim{Generation: sink.Generation{Bridge: "b", ID: gen}}
	for _, n := range partitions {
		p := changelog.Partition{Topic: "orders", Partition: n}
		claim.Generation.Partitions = append(claim.Generation.Partitions, p)
		if gen > 1 {
			claim.Positions = append(claim.Positions, changelog.Position{Partition: p, Offset: 1, TopicID: l.topic})
		}
	}
	l.must(l.c.Open(context.Background(), claim))
	l.gen, l.next = gen, 1
	return l
}

// Partitions are handed over while their first owner has a checkpoint half written, and it goes on afterwards: the index is what the topic says, whoever's
// requests come first.
func TestHandover_MidFlight(t *testing.T) {
	for name, deletes := range map[string]elastic.Deletes{"tombstone": elastic.Tombstone, "hard": elastic.Hard} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *server) {
				o := elastic.Options{Deletes: deletes, BulkActions: 10}
				lane := func() *lane { return s.lane(orders(t), o, nil) }
				const keys, rounds = 40, 6
				changes := func(partition int32, from, to int) (all []changelog.Change) {
					for i := from * keys; i < to*keys; i++ {
						id := i % keys
						c := of(partition, at(int64(i), upd, 2*id+int(partition), fmt.Sprint("v", i)))
						if (i/keys+id)%3 == 0 {
							c.Kind = del
						}
						all = append(all, c)
					}
					return all
				}
				a := lane().own(1, 0, 1)
				a.must(a.checkpoint(append(changes(0, 0, 2), changes(1, 0, 2)...)...))
				// Of rounds 2 and 3 all of one partition and a part of the other are on their way, and nothing is saved.
				a.must(a.write(append(changes(0, 2, 4), changes(1, 2, 3)...)...))
				b, c := lane().own(2, 0), lane().own(3, 1)
				b.must(b.checkpoint(changes(0, 2, 3)...))
				c.must(c.checkpoint(changes(1, 2, rounds)...))
				if err := a.prepare(); err != nil && sink.ClassOf(err) != sink.ErrFenced { // it may still send, and may not save
					t.Fatal(err)
				}
				b.must(b.checkpoint(changes(0, 3, rounds)...))
				want := make(map[string]string)
				for id := range 2 * keys {
					last := (rounds-1)*keys + id/2
					switch {
					case (last/keys+id/2)%3 != 0:
						want[fmt.Sprint(id)] = fmt.Sprintf(`{"id":%d,"v":"v%d"}`, id, last)
					case deletes == elastic.Tombstone:
						want[fmt.Sprint(id)] = `{"flinksink_deleted":"T"}`
					}
				}
				b.expect(want)
			})
		})
	}
}

// Somebody rewinds on purpose, or the topic is made anew: the incarnation rises, what is read again from smaller offsets wins over all that is there, deletes
// too, and what an owner of before still sends does not.
func TestRewind(t *testing.T) {
	for name, now := range map[string]changelog.TopicID{"on purpose": topicA, "topic made anew": topicB} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *server) {
				a := s.lane(orders(t), tombstones, nil).open(1, 0, false)
				a.must(a.checkpoint(at(100, ins, 1, "old"), at(101, ins, 2, "old"), at(102, ins, 3, "old"), at(103, ins, 5, "old"), at(104, del, 5, "old")))
				b := s.lane(orders(t), tombstones, nil)
				b.topic = now
				b.open(2, 1, true)
				b.must(b.checkpoint(at(0, ins, 1, "new"), at(1, ins, 2, "new"), at(2, del, 2, "new"), at(3, ins, 5, "new")))
				late := a.checkpoint(at(105, upd, 1, "late"), at(106, upd, 2, "late"), at(107, del, 5, "late"))
				if now == topicA {
					a.must(late) // all of it superseded
				} else {
					is(t, late, sink.ErrConfig, "another topic orders")
				}
				b.expect(map[string]string{"1": `{"id":1,"v":"new"}`, "2": `{"flinksink_deleted":"T"}`, "3": `{"id":3,"v":"old"}`, "5": `{"id":5,"v":"new"}`})
				b.must(b.checkpoint(at(4, upd, 1, "newest"), at(5, ins, 2, "newest")))
				b.expect(map[string]string{"1": `{"id":1,"v":"newest"}`, "2": `{"id":2,"v":"newest"}`, "3": `{"id":3,"v":"old"}`, "5": `{"id":5,"v":"new"}`})
			})
		})
	}
}
