package protocol

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mistake is a planted fault: of the machine, or of the servers and adapters around it. Each is the absence of one rule, and the world in which
// it must be found.
type mistake struct {
	name      string
	world     string
	gens      uint8
	budget    budget
	finds     []uint8 // one of these properties breaks
	invariant string  // of the machine, which the checker finds broken too; "" for a mistake around it

	// machine takes the step in the machine's place; extra is memory of its own.
	machine func(m *Machine, e Event, extra uint8) ([]Effect, uint8)
	wrongs
}

// wrongs are rules of servers and adapters that are not kept.
type wrongs struct {
	rollBackByPartition      bool
	sessionsNamedByPartition bool
	epochOfSession           bool
	anyGroupGeneration       bool
	claimsOnlyTheLast        bool
	settledAtAcquire         bool
	backendLives             bool
	endedMayBegin            bool
	saveChecksNoFence        bool
	saveDoesNotCompare       bool
	noSweep                  bool
	sweepsAll                bool
	noLoop                   bool
	fenceFirst               bool
	fenceBeforeCommit        bool
	fenceCallRetried         bool
	fencesOwnPartitions      bool
	insideMessage            bool
	failedDiscardKeeps       bool
	outerWrongs
}

var mistakes = []mistake{
	// Of the machine.
	{name: "commit before Save", world: "two-phase", gens: 1, finds: []uint8{badUndecided}, invariant: "I1", machine: commitBeforeSave},
	{name: "Save before Prepare", world: "two-phase", gens: 1, finds: []uint8{badLost}, invariant: "I2", machine: saveBeforePrepare},
	{name: "abort after an unclear Save", world: "two-phase", gens: 1, budget: budget{Lost: 1}, finds: []uint8{badLost}, invariant: "I4", machine: abortAfterUnclearSave},
	{name: "abort after a Save that was sent again and told fenced", world: "two-phase", gens: 2, budget: budget{Lost: 1, Moves: 1}, finds: []uint8{badLost}, invariant: "I4", machine: abortAfterFencedRetry},
	{name: "an unclear Save is taken for done", world: "two-phase", gens: 1, budget: budget{Lost: 1}, finds: []uint8{badUndecided}, invariant: "I4", machine: guessSaved},
	{name: "an unclear Prepare is taken for done", world: "two-phase", gens: 1, budget: budget{Lost: 1}, finds: []uint8{badLost}, invariant: "I2", machine: guessPrepared},
	{name: "numbers are used again", world: "two-phase", gens: 1, budget: budget{Lost: 1, Refused: 1}, finds: []uint8{badLost}, invariant: "I5", machine: reuseNumbers},
	{name: "pending of an older generation is forgotten", world: "two-phase", gens: 2, budget: budget{Moves: 1}, finds: []uint8{badLost, badStuck, badLeftover}, invariant: "", machine: olderForgotten},
	{name: "settled although a sink was not opened", world: "own-store", gens: 2, budget: budget{Moves: 1}, finds: []uint8{badLost, badStuck, badLeftover}, invariant: "I8", machine: oneSinkNotOpened},
	{name: "a failed Commit is forgotten", world: "two-phase", gens: 1, budget: budget{Refused: 1}, finds: []uint8{badLost}, invariant: "I10", machine: commitForgotten},
	{name: "abort after the decision", world: "two-phase", gens: 1, budget: budget{Refused: 1}, finds: []uint8{badLost}, invariant: "I3", machine: abortAfterDecision},
	{name: "the source is not sent back", world: "two-phase", gens: 2, budget: budget{Refused: 1}, finds: []uint8{badLost}, machine: noSeek},
	{name: "what was written is not discarded", world: "own-store", gens: 2, budget: budget{Refused: 1}, finds: []uint8{badDoubled, badUndecided}, invariant: "I12", machine: noDiscard},

	// Of what is around it: names, fences, stores.
	{name: "sessions are named by partition", world: "sessions", gens: 2, budget: budget{Moves: 1}, finds: []uint8{badLost, badMixed}, wrongs: wrongs{sessionsNamedByPartition: true}},
	{name: "roll back by partition", world: "two-phase", gens: 3, budget: budget{Moves: 1}, finds: []uint8{badLost}, wrongs: wrongs{rollBackByPartition: true}},
	{name: "fence before commit", world: "sessions", gens: 1, finds: []uint8{badLost}, wrongs: wrongs{fenceBeforeCommit: true}},
	{name: "fence first, and wait for the lock", world: "to-and-fro", gens: 1, finds: []uint8{badStuck}, wrongs: wrongs{fenceFirst: true, noLoop: true}},
	{name: "roll back once, then fence", world: "to-and-fro", gens: 2, budget: budget{Moves: 1}, finds: []uint8{badStuck}, wrongs: wrongs{noLoop: true}},
	{name: "settled generations are not swept", world: "sessions", gens: 2, budget: budget{Moves: 1}, finds: []uint8{badLeftover}, wrongs: wrongs{noSweep: true}},
	{name: "unsettled generations of other partitions are swept", world: "unfenced", gens: 2, budget: budget{Lost: 1}, finds: []uint8{badLost}, wrongs: wrongs{sweepsAll: true}},
	{name: "the old backend lives", world: "own-store", gens: 1, finds: []uint8{badStuck}, wrongs: wrongs{backendLives: true}},
	{name: "a transaction of an ended generation may begin", world: "own-store", gens: 2, budget: budget{Moves: 1}, finds: []uint8{badStuck}, wrongs: wrongs{endedMayBegin: true}},
	{name: "an unclear fence is sent again", world: "sessions", gens: 1, budget: budget{Lost: 1}, finds: []uint8{badLost}, wrongs: wrongs{fenceCallRetried: true}},
	{name: "Save does not compare", world: "two-phase", gens: 1, budget: budget{Lost: 1}, finds: []uint8{badBack}, machine: retrySave, wrongs: wrongs{saveDoesNotCompare: true}},
	{name: "Save checks no fence", world: "two-phase", gens: 2, budget: budget{Moves: 1}, finds: []uint8{badZombie}, wrongs: wrongs{saveChecksNoFence: true}},
	{name: "settled at Acquire", world: "two-phase", gens: 1, finds: []uint8{badLost, badLeftover, badStuck}, wrongs: wrongs{settledAtAcquire: true}},
	{name: "claims list only the last owners", world: "two-phase", gens: 2, budget: budget{Crashes: 1}, finds: []uint8{badLost, badLeftover, badStuck}, wrongs: wrongs{claimsOnlyTheLast: true}},
	{name: "an epoch names a session, not a transaction", world: "sessions", gens: 2, budget: budget{Moves: 1}, finds: []uint8{badUndecided, badMixed}, wrongs: wrongs{epochOfSession: true}},
	{name: "any group generation may acquire", world: "two-phase", gens: 2, budget: budget{Lost: 1, Moves: 1}, finds: []uint8{badOvertaken}, wrongs: wrongs{anyGroupGeneration: true}},
	{name: "a fence of the own partitions only", world: "two-phase", gens: 3, budget: budget{Lost: 1, Moves: 1, Interrupts: 1}, finds: []uint8{badLeftover}, wrongs: wrongs{fencesOwnPartitions: true}},
	{name: "a barrier inside a message", world: "own-store", gens: 1, finds: []uint8{badSplit}, wrongs: wrongs{insideMessage: true}},
	{name: "a Discard that failed keeps the batch", world: "two-phase", gens: 2, budget: budget{Lost: 1, Refused: 1}, finds: []uint8{badDoubled, badUndecided}, wrongs: wrongs{failedDiscardKeeps: true}},

	// Of an outer engine that decides, and of External before it.
	{name: "a replaced run decides", world: "outer", gens: 2, budget: budget{Moves: 1}, finds: []uint8{badBack, badLost, badDoubled, badZombie}, wrongs: wrongs{outerWrongs: outerWrongs{anyRunDecides: true}}},
	{name: "a replaced run gets a number", world: "outer", gens: 3, budget: budget{Moves: 1, Refused: 1}, finds: []uint8{badLost}, wrongs: wrongs{outerWrongs: outerWrongs{anyRunCounts: true}}},
	{name: "complete of a state that was not kept", world: "outer", gens: 1, finds: []uint8{badUndecided}, wrongs: wrongs{outerWrongs: outerWrongs{completesUnkept: true}}},
	{name: "abort of a state that was kept", world: "outer", gens: 1, finds: []uint8{badLost}, wrongs: wrongs{outerWrongs: outerWrongs{abortsKept: true}}},
	{name: "runs are numbered after the state they restore", world: "outer", gens: 3, budget: budget{Lost: 1, Crashes: 1, Moves: 1}, finds: []uint8{badLost, badUndecided, badStuck}, wrongs: wrongs{outerWrongs: outerWrongs{numberedAfterState: true}}},
	{name: "runs that died before a barrier are not fenced", world: "outer", gens: 3, budget: budget{Crashes: 2, Moves: 1}, finds: []uint8{badLeftover, badLost, badDoubled}, wrongs: wrongs{outerWrongs: outerWrongs{claimsTheStateOnly: true}}},
	{name: "an older state is restored", world: "outer", gens: 2, budget: budget{Crashes: 1}, finds: []uint8{badDoubled, badLost, badLeftover}, wrongs: wrongs{outerWrongs: outerWrongs{restoresOlder: true}}},
}

func commitBeforeSave(m *Machine, e Event, extra uint8) ([]Effect, uint8) {
	const committingEarly, saved = 1, 2
	save := func() []Effect {
		m.pending, m.phase = nil, saving
		return []Effect{Save{m.gen, m.cp, m.from, m.to, m.receipts, m.settle}}
	}
	if extra == committingEarly {
		if m.sink++; m.sink < len(m.pending) {
			return m.commit(), extra
		}
		return save(), saved
	}
	fx := m.Step(e)
	if _, ok := lastOf(fx).(Save); ok && len(m.receipts) > 0 {
		m.pending, m.phase, m.sink = m.receipts, committing, 0
		return m.commit(), committingEarly
	}
	return fx, 0
}

func saveBeforePrepare(m *Machine, e Event, extra uint8) ([]Effect, uint8) {
	const savedEarly, preparingLate = 1, 2
	if _, ok := e.(Saved); ok && extra == savedEarly {
		m.phase, m.sink, m.receipts = preparing, 0, nil
		return m.prepare(), preparingLate
	}
	fx := m.Step(e)
	if f, ok := lastOf(fx).(Prepare); ok && f.Sink == 0 && extra == 0 {
		m.phase = saving
		m.receipts = nil
		for s := range m.cfg.Sinks {
			m.receipts = append(m.receipts, Receipt{s, m.gen, m.cp})
		}
		return []Effect{Save{f.Generation, f.Checkpoint, f.From, f.To, m.receipts, m.settle}}, savedEarly
	}
	if _, ok := lastOf(fx).(Save); ok && extra == preparingLate {
		return m.Step(Saved{}), 0
	}
	if extra == preparingLate && m.phase == preparing {
		return fx, extra
	}
	return fx, 0
}

func lastOf(fx []Effect) Effect {
	if len(fx) == 0 {
		return nil
	}
	return fx[len(fx)-1]
}

func failedUnclear(m *Machine, e Event, p phase) bool {
	f, ok := e.(Failed)
	return ok && f.Class == Uncertain && m.phase == p
}

func abortAfterUnclearSave(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	if failedUnclear(m, e, saving) {
		return m.undecided(Uncertain, m.receipts), 0
	}
	return m.Step(e), 0
}

// retrySave sends a Save again whose answer is unclear.
func retrySave(m *Machine, e Event, extra uint8) ([]Effect, uint8) {
	if failedUnclear(m, e, saving) && extra == 0 {
		return []Effect{Save{m.gen, m.cp, m.from, m.to, m.receipts, m.settle}}, 1
	}
	return m.Step(e), 0
}

func abortAfterFencedRetry(m *Machine, e Event, extra uint8) ([]Effect, uint8) {
	if f, ok := e.(Failed); ok && f.Class == Fenced && m.phase == saving && extra == 1 {
		return m.undecided(Transient, m.receipts), 0
	}
	return retrySave(m, e, extra)
}

func guessSaved(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	if failedUnclear(m, e, saving) {
		return m.Step(Saved{}), 0
	}
	return m.Step(e), 0
}

func guessPrepared(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	if failedUnclear(m, e, preparing) {
		return m.Step(Prepared{Sink: m.sink}), 0
	}
	return m.Step(e), 0
}

// reuseNumbers opens again, under the same generation and checkpoint, where the machine acquires anew.
func reuseNumbers(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	if _, ok := e.(Waited); ok && m.phase == acquireWait && m.cp > 0 {
		m.cp--
		m.phase, m.sink, m.receipts, m.settle = opening, 0, nil, nil
		return m.open(), 0
	}
	return m.Step(e), 0
}

func olderForgotten(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	fx := m.Step(e)
	if f, ok := lastOf(fx).(Open); ok && len(f.Ended) > 1 {
		f.Ended = f.Ended[len(f.Ended)-1:]
		fx[len(fx)-1] = f
	}
	return fx, 0
}

func oneSinkNotOpened(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	fx := m.Step(e)
	if f, ok := lastOf(fx).(Open); ok && f.Sink == 1 {
		fx = append(fx[:len(fx)-1], m.Step(Opened{1})...)
	}
	return fx, 0
}

func commitForgotten(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	if f, ok := e.(Failed); ok && m.phase == committing && f.Class != Fenced {
		e = Committed{}
	}
	return m.Step(e), 0
}

func abortAfterDecision(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	if f, ok := e.(Failed); ok && m.phase == committing && f.Class != Fenced {
		return m.cleanUp(m.pending, thenAcquire, f.Class), 0
	}
	return m.Step(e), 0
}

func noSeek(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	fx := m.Step(e)
	if _, ok := lastOf(fx).(Seek); ok {
		fx = append(fx[:len(fx)-1], m.Step(Sought{})...)
	}
	return fx, 0
}

func noDiscard(m *Machine, e Event, _ uint8) ([]Effect, uint8) {
	fx := m.Step(e)
	for {
		if _, ok := lastOf(fx).(Discard); !ok {
			return fx, 0
		}
		fx = append(fx[:len(fx)-1], m.Step(Discarded{})...)
	}
}

var rewriteFindings = flag.Bool("rewrite-findings", false, "write the shortest way to each planted mistake into testdata/explore")

func (m mistake) space() *space {
	c := configOf(m.world)
	c.gens, c.budget = m.gens, m.budget
	return newSpace(c, m)
}

// TestExplore_FindsMistakes: a mistake that passes is a hole in the exploration. The machine's own are looked for twice: by what they do to the
// world alone, and by the checker.
func TestExplore_FindsMistakes(t *testing.T) {
	for _, m := range mistakes {
		t.Run(strings.ReplaceAll(strings.ReplaceAll(m.name, ",", ""), " ", "_"), func(t *testing.T) {
			x := m.space()
			x.unchecked = true
			f := x.explore()
			t.Logf("%v, after %d states and %.2f s, %d moves", f, f.states, f.took.Seconds(), len(f.trace))
			if f.bad == 0 {
				t.Fatal("it passes")
			}
			if !strings.Contains(string(m.finds), string([]byte{f.bad})) {
				t.Errorf("found something else than expected:\n%s", x.text(f))
			}
			if *rewriteFindings {
				file := filepath.Join("testdata/explore", strings.ReplaceAll(strings.ReplaceAll(m.name, ",", ""), " ", "_")+".txt")
				if err := os.WriteFile(file, []byte(x.text(f)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if m.invariant != "" {
				x := m.space()
				if f := x.explore(); f.bad != badInvariant || !strings.HasPrefix(f.note, m.invariant+":") {
					t.Errorf("the checker does not find %s broken, but: %v", m.invariant, f)
				}
			}
		})
	}
}
