package ledger

import (
	"testing"

	"github.com/flinksink/flinksink/sink"
)

// Settled generations are forgotten one day, newest last.
func TestSettle_IsBounded(t *testing.T) {
	b := &bridge{Generations: map[sink.GenerationID]*generation{}}
	for id := sink.GenerationID(1); id <= remembered+5; id++ {
		b.Generations[id] = &generation{Ended: true}
		b.settle(id)
	}
	if _, ok := b.Settled[5]; ok || len(b.Settled) != remembered || len(b.Generations) != 0 {
		t.Errorf("%d settled and %d other generations are remembered", len(b.Settled), len(b.Generations))
	}
	if _, ok := b.Settled[remembered+5]; !ok {
		t.Error("the newest is forgotten")
	}
}
