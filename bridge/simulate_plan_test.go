package bridge

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// A plan is all that a seed decides of a simulation, before it runs: the world, what is written to the topic, and what goes wrong when. It is
// data, so a fault can be left out and everything else stays as it is.
type simPlan struct {
	seed                       uint64
	keyed, inTx, static, hints bool
	second                     bool // a second sink
	lanes, parts, slots        int
	writes                     []simWrite
	faults                     []simFault
	delivers                   []time.Duration // when late calls of processes that live arrive
}

func (p simPlan) String() string {
	return fmt.Sprintf("keyed %v, in transaction %v, a second sink %v, static members %v, hints %v; %d lanes, %d partitions, %d processes; %d writes",
		p.keyed, p.inTx, p.second, p.static, p.hints, p.lanes, p.parts, p.slots, len(p.writes))
}

// simWrite is some messages to one partition, in a transaction or not.
type simWrite struct {
	at     time.Duration
	part   int32
	values []string
	txn    bool
	abort  bool
}

type simKind uint8

const (
	simKill   simKind = iota // a process is gone; calls that it had sent may arrive late
	simPause                 // it stands still, and goes on
	simCut                   // its connections to the brokers end
	simAway                  // it does not reach the brokers for a while
	simSlow                  // each of its messages takes long
	simLose                  // an answer of a broker is lost
	simCall                  // a call of its sink or store fails
	simKick                  // the group throws it out
	simLeave                 // it is stopped in order, and comes back
	simJoin                  // one more process
	simOutage                // sink and store are away
	simFail                  // they fail over
	simAnew                  // the topic is deleted and made anew
)

var simKinds = [...]string{"a process is killed", "a process is stopped and goes on", "connections are cut", "the brokers are not reached", "messages are slow",
	"an answer of a broker is lost", "a call fails", "the group throws a member out", "a process leaves and comes back", "a process joins", "sink and store are away",
	"the store fails over", "the topic is made anew"}

type simFault struct {
	number int
	at     time.Duration
	kind   simKind
	slot   int
	long   time.Duration   // how long it lasts, or until the process is back
	late   []time.Duration // of a process that is killed: when its next calls arrive
	life   int             // simCall: of the slot's processes, the nth
	call   sinktest.Fault
	dies   bool // with that call, and is back after long
}

func (f simFault) String() string {
	s := fmt.Sprintf("%2d: at %v %s", f.number, f.at, simKinds[f.kind])
	switch f.kind {
	case simCall:
		s = fmt.Sprintf("%2d: process %d.%d: %v", f.number, f.slot, f.life, f.call)
		if f.dies {
			s += fmt.Sprintf(", with which it is killed for %v", f.long)
		}
	case simOutage, simFail, simAnew:
	default:
		s += fmt.Sprintf(", process %d", f.slot)
	}
	if f.long > 0 && f.kind != simCall {
		s += fmt.Sprintf(", for %v", f.long)
	}
	if len(f.late) > 0 {
		s += fmt.Sprintf(", its next calls arrive after %v", f.late)
	}
	return s
}

const (
	simWritten = 10 * time.Second // until then messages are written
	simFaulty  = 14 * time.Second // until then something goes wrong
	simEnd     = 3 * time.Minute  // by then everything must be done
)

func newSimPlan(seed uint64) simPlan {
	r := rand.New(rand.NewPCG(seed, 11))
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))).Round(time.Millisecond) }
	chance := func(p float64) bool { return r.Float64() < p }
	p := simPlan{seed: seed, keyed: chance(0.5), inTx: chance(0.5), static: chance(0.25), hints: chance(0.7), lanes: 1 + r.IntN(2), parts: 1 + r.IntN(4), slots: 1 + r.IntN(3)}

	rows := map[int64]string{} // of a keyed table
	bad, txns := chance(0.3), chance(0.4)
	n := 0
	for range 30 + r.IntN(40) {
		w := simWrite{at: upTo(simWritten), part: r.Int32N(int32(p.parts)), txn: txns && chance(0.3)}
		w.abort = w.txn && chance(0.3)
		p.writes = append(p.writes, w)
	}
	slices.SortStableFunc(p.writes, func(a, b simWrite) int { return int(a.at - b.at) })
	for i := range p.writes {
		w := &p.writes[i]
		before := maps.Clone(rows)
		for range 1 + r.IntN(6) {
			n++
			id := int64(w.part)*100 + r.Int64N(6)
			old, there := rows[id]
			v := fmt.Sprintf("v%d", n)
			switch {
			case bad && chance(0.03):
				v = "bad"
			case !p.keyed:
			case !there:
				v, rows[id] = fmt.Sprintf("+ %d %s", id, v), v
			case chance(0.4): // as Flink's debezium writer has an update: two messages
				w.values = append(w.values, fmt.Sprintf("- %d %s", id, old))
				v, rows[id] = fmt.Sprintf("+ %d %s", id, v), v
			case chance(0.5):
				v, rows[id] = fmt.Sprintf("^ %d %s %s", id, old, v), v
			default:
				v = fmt.Sprintf("- %d %s", id, old)
				delete(rows, id)
			}
			w.values = append(w.values, v)
		}
		if w.abort {
			rows = before
		}
	}

	late := func(n int) (out []time.Duration) {
		for range n {
			out = append(out, upTo(12*time.Second))
		}
		return out
	}
	calls := []string{"lane", "acquire", "open", "write", "prepare", "save", "save", "save", "commit", "commit", "abort", "discard", "end", "read"}
	weights := []simKind{simKill, simKill, simPause, simPause, simPause, simCut, simAway, simSlow, simLose, simLose, simCall, simCall, simCall, simCall, simCall, simCall, simCall, simCall, simCall, simCall,
		simKick, simLeave, simLeave, simJoin, simOutage, simFail}
	for i := range 3 + r.IntN(14) {
		f := simFault{number: i, at: upTo(simFaulty), kind: weights[r.IntN(len(weights))], slot: r.IntN(p.slots)}
		if i == 0 && chance(0.06) {
			f.kind = simAnew
		}
		switch f.kind {
		case simPause:
			f.long = 100*time.Millisecond + upTo(8*time.Second)
		case simKill:
			f.long, f.late = upTo(3*time.Second), late(r.IntN(6))
		case simSlow:
			f.long = upTo(6 * time.Second)
		case simAway, simOutage, simLeave, simFail:
			f.long = upTo(4 * time.Second)
		case simAnew:
			f.long = upTo(2 * time.Second)
		case simCall:
			if f.life, f.dies = r.IntN(3), chance(0.5); f.dies {
				f.long, f.late = upTo(3*time.Second), late(r.IntN(3))
			}
			f.call = sinktest.Fault{Call: calls[r.IntN(len(calls))], At: 1 + r.IntN(12), When: []sinktest.When{sinktest.Before, sinktest.After, sinktest.After, sinktest.Late, sinktest.Delay}[r.IntN(5)]}
			if c := f.call.Call; c == "lane" || c == "end" || c == "abort" || c == "discard" || c == "open" {
				f.call.At = 1 + r.IntN(2)
			}
			switch c := f.call.Call; {
			case f.call.When == sinktest.Delay:
				f.call.For = 50*time.Millisecond + upTo(4*time.Second)
			case f.call.When == sinktest.Late && c != "acquire" && c != "save" && c != "commit" && c != "end": // of others the process uses what they would
				f.call.When = sinktest.Before
			}
		}
		p.faults = append(p.faults, f)
	}
	for range 8 {
		p.delivers = append(p.delivers, upTo(simFaulty+4*time.Second))
	}
	slices.Sort(p.delivers)
	return p
}

func (p simPlan) table() *changelog.Table {
	if p.keyed {
		return sinktest.Keyed()
	}
	return sinktest.Appended()
}

// simDecoder reads what a plan writes: "+ id v" and "- id v", "^ id old new" is a -U and a +U, and of a table without a key any text is a row.
type simDecoder struct{ table *changelog.Table }

func (d simDecoder) Table() *changelog.Table { return d.table }

func (d simDecoder) Decode(b *changelog.Batch, r *changelog.Record) error {
	if len(d.table.Schema.Key) == 0 || string(r.Value) == "bad" {
		return texts(d).Decode(b, r)
	}
	b.Pin(len(r.Value))
	for i, e := range simEvents(string(r.Value)) {
		row := b.NewRow()
		row[0], row[1] = changelog.IntValue(e.ID), changelog.StringValue(e.V)
		b.Append(changelog.Change{Partition: r.Partition, Offset: r.Offset, Index: int32(i), Kind: e.Kind, Row: row})
	}
	return nil
}

func simEvents(value string) []sinktest.Event {
	var id int64
	f := strings.Fields(value)
	fmt.Sscan(f[1], &id)
	switch f[0] {
	case "+":
		return []sinktest.Event{sinktest.Insert(id, f[2])}
	case "-":
		return []sinktest.Event{sinktest.Delete(id, f[2])}
	}
	return []sinktest.Event{sinktest.UpdateBefore(id, f[2]), sinktest.UpdateAfter(id, f[3])}
}
