package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// The suite is worth what it catches: here are implementations with one mistake each, and the law that must name it.
var wrongs = []struct {
	name  string
	law   string
	inTx  bool
	wrong mistake
}{
	{"rows are visible at Prepare", "L01", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return visibleEarly{c} }}},
	{"the batch is not copied", "L02", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return keepsBatch{c.(*committer)} }}},
	{"positions move without rows", "L02", true, mistake{store: func(p *process, s sink.Store) sink.Store { return positionsOnly{s, p} }}},
	{"Discard is ignored", "L03", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return ignoresDiscard{c} }}},
	{"Discard is ignored in a transaction", "L03", true, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return ignoresDiscard{c} }}},
	{"the second Abort fails", "L04", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return abortOnce{c, p} }}},
	{"a guarantee that is none", "L05", false, mistake{guarantee: &sink.Guarantee{}}},
	{"the second Commit is ErrLost", "L06", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return commitOnce{c, p} }}},
	{"the second Commit doubles", "L06", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return commitDoubles{c, p} }}},
	{"Commit needs the memory of its process", "L06", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return &forgetful{Committer: c} }}},
	{"what is not there was committed", "L07", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return absenceIsProof{c} }}},
	{"Abort is ignored", "L07", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return ignoresAbort{c} }}},
	{"positions move at Prepare", "L08", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return movesEarly{c, p} }}},
	{"Open aborts what was decided", "L09", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return abortsDecided{c} }}},
	{"Open commits what was decided again", "L09", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return commitDoubles{c, p} }}},
	{"claims are not transitive", "L10", false, mistake{store: func(p *process, s sink.Store) sink.Store { return shortClaims{s, p} }}},
	{"Settled is forgotten", "L10", true, mistake{store: func(p *process, s sink.Store) sink.Store { return neverSettles{s} }}},
	{"Close commits", "L11", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return &closeCommits{Committer: c} }}},
	{"Save checks no fence", "L12", false, mistake{store: func(p *process, s sink.Store) sink.Store { return noFence{s, p} }}},
	{"Save checks no fence in a transaction", "L12", true, mistake{store: func(p *process, s sink.Store) sink.Store { return noFence{s, p} }}},
	{"Abort drops whatever the bridge has prepared", "L13", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return abortsAll{c, p} }}},
	{"Open rolls back the neighbours' work", "L14", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return openSweepsAll{c, p} }}},
	{"what is left of a generation is saved", "L15", false, mistake{store: func(p *process, s sink.Store) sink.Store { return savesTheRest{s, p} }}},
	{"Open works once", "L16", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return &opensOnce{Committer: c} }}},
	{"the leader epoch is lost", "L17", false, mistake{store: func(p *process, s sink.Store) sink.Store { return offsetsOnly{s} }}},
	{"generation numbers are used again", "L17", false, mistake{store: func(p *process, s sink.Store) sink.Store { return reusesNumbers{s, p} }}},
	{"Save does not compare", "L18", false, mistake{store: func(p *process, s sink.Store) sink.Store { return noCompare{s, p} }}},
	{"Save does not compare in a transaction", "L18", true, mistake{store: func(p *process, s sink.Store) sink.Store { return noCompare{s, p} }}},
	{"Save compares partition by partition", "L18", false, mistake{store: func(p *process, s sink.Store) sink.Store { return savesInParts{s, p} }}},
	{"the same checkpoint again is refused", "L19", false, mistake{store: func(p *process, s sink.Store) sink.Store { return &savesOnce{Store: s} }}},
	{"End knows its own generation only", "L20", false, mistake{store: func(p *process, s sink.Store) sink.Store { return endForgets{s, p} }}},
	{"End fences others", "L21", false, mistake{store: func(p *process, s sink.Store) sink.Store { return endsAll{s, p} }}},
	{"End tells and does not end", "L21", true, mistake{store: func(p *process, s sink.Store) sink.Store { return endsNothing{s, p} }}},
	{"an empty checkpoint is not saved", "L22", false, mistake{store: func(p *process, s sink.Store) sink.Store { return skipsEmpty{s} }}},
	{"the fingerprint is not compared", "L23", false, mistake{store: func(p *process, s sink.Store) sink.Store { return anyBridge{s, p} }}},
	{"any group generation may acquire", "L24", false, mistake{store: func(p *process, s sink.Store) sink.Store { return anyGroup{s} }}},
	{"GroupRestarted is believed blindly", "L24", false, mistake{store: func(p *process, s sink.Store) sink.Store { return believesRestart{s, p} }}},
	{"deletes run after upserts", "L25", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return byKind{c, true} }}},
	{"deletes run before upserts", "L25", true, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return byKind{c, false} }}},
	{"equal rows are one row", "L26", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return equalIsOne{c} }}},
	{"Save is sent after its context ended and called transient", "L27", false, mistake{store: func(p *process, s sink.Store) sink.Store { return liesAboutContext{s} }}},
	{"an answer that was lost is called transient", "L28", true, mistake{store: func(p *process, s sink.Store) sink.Store { return lostIsTransient{s} }}},
	{"Open fences nobody", "L29", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return noSettling{c} }}},
	{"Abort of nothing fails", "L30", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return abortNeedsWork{c} }}},
	{"an empty checkpoint is not saved, at the start", "L30", true, mistake{store: func(p *process, s sink.Store) sink.Store { return skipsEmpty{s} }}},
	{"positions are forgotten", "L31", false, mistake{store: func(p *process, s sink.Store) sink.Store { return forgetsPositions{s} }}},
	{"Commit commits the session", "L32", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return commitsTheSession{c, p} }}},
	{"an ended generation is told to one successor", "L33", false, mistake{store: func(p *process, s sink.Store) sink.Store { return listsOnce{s, p} }}},
	{"both successors commit", "L33", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return commitDoubles{c, p} }}},
	{"what begins alike is a replay", "L34", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return dropsReplays{c, p} }}},
	{"the last batch is lost", "L34", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return &losesLastBatch{committer: c.(*committer)} }}},
	{"deletes are swallowed", "L35", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return filtered{c, noDeletes} }}},
	{"deletes are swallowed in a transaction", "L35", true, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return filtered{c, noDeletes} }}},
	{"a delete must hit", "L36", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return deleteMustHit{c.(*committer)} }}},
	{"a partition that moved begins anew", "L37", false, mistake{store: func(p *process, s sink.Store) sink.Store { return forgetsMoved{s, p} }}},
	{"the transaction ends with a context", "L38", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return &boundToContext{Committer: c} }}},
	{"a Commit that was given up is called done", "L39", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return lostCommitIsDone{c} }}},
	{"an error quotes the row", "L40", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return quotesRows{c} }}},
	{"errors have no cause", "L40", true, mistake{store: func(p *process, s sink.Store) sink.Store { return bareErrors{s} }}},
	{"a call after Close panics", "L41", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer {
		return &panicsClosed{Committer: c, rows: make(map[string]int)}
	}}},
	{"Close keeps a goroutine", "L42", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return leaks{c} }}},
	{"Open sweeps the place", "L43", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return sweepsPlace{c, p} }}},
	{"two sinks share names", "L44", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return oneNamespace{c, p} }}},
	{"rows appear in two steps", "L45", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return inTwoSteps{c.(*committer), p.looks} }}},
	{"Read hides what waits", "L46", false, mistake{store: func(p *process, s sink.Store) sink.Store { return hidesPending{s} }}},
	{"texts are cut off", "L47", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return altered{c, truncated} }}},
	{"trailing spaces are cut off", "L47", true, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return altered{c, trimmed} }}},
	{"the empty text is NULL", "L47", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return altered{c, emptyIsNull} }}},
	{"timestamps lose digits", "L48", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return altered{c, milliseconds} }}},
	{"integers go through a double", "L48", true, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return altered{c, throughDouble} }}},
	{"65,535 changes are enough", "L49", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return counts16{c} }}},
	{"what is over the budget is forgotten", "L50", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return &keepsBudget{committer: c.(*committer)} }}},
	{"dead letters are visible at once", "L51", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return postsAtOnce{c.(*committer)} }}},
	{"dead letters are text", "L51", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return textLetters{c.(*committer)} }}},
	{"Superseded is never reset", "L52", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return &countsAll{committer: c.(*committer)} }}},
	{"Spill keeps the batches", "L55", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return &writesLate{committer: c.(*committer)} }}},
	{"Abort drops what others have prepared", "L53", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return abortsAll{c, p} }}},
	{"a Commit whose answer was lost doubles", "L54", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return commitDoubles{c, p} }}},
	{"a Save whose answer was lost is forgotten", "L54", true, mistake{store: func(p *process, s sink.Store) sink.Store { return forgetsPositions{s} }}},
	{"a generation that was fenced may open", "L56", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return opensAnyway{c, p} }}},
	{"who has not opened yet is not fenced", "L56", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return sweepsOnly{c, p} }}},
	{"Open of an ended generation is called transient", "L56", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer {
		return fencedOpenIsTransient{fenceIsTransient{c}}
	}}},
	{"a late Commit doubles", "L57", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return commitDoubles{c, p} }}},
	{"the last Commit alone is remembered", "L57", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return remembersLast{c, p} }}},
	{"what was not sent is NULL", "L58", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return altered{c, unsentIsNull} }}},
	{"what was not sent is NULL in a transaction", "L58", true, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return altered{c, unsentIsNull} }}},
	{"what this checkpoint wrote is not looked at", "L58", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return unsentAtCommit{c.(*committer)} }}},
	{"half a row is inserted", "L59", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return unsentInserts{c.(*committer)} }}},
	{"a row that was deleted is looked up", "L59", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return unsentFromTable{c.(*committer)} }}},
	{"a hole is prepared", "L60", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return preparesHoles{c.(*committer)} }}},
	{"a fence is called transient", "L61", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return fenceIsTransient{c} }}},
	{"a fence is called transient in a transaction", "L61", true, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return fenceIsTransient{c} }}},
	{"a row is named by its message", "L62", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return filtered{c, firstOfMessage} }}},
	{"a row is named by its offset", "L62", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return filtered{c, onePartition} }}},
	{"proofs are not of a bridge", "L63", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return oneProof{c.(*committer), p} }}},
	{"two bridges share names", "L63", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return oneNamespace{c, p} }}},
	{"another change is refused", "L64", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return blamesFirst{c.(*committer)} }}},
	{"any receipt is read", "L65", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return anyVersion{c} }}},
	{"what a settled generation stages is left", "L66", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return stagesUnasked{c.(*committer), p} }}},
	{"what lies there is committed too", "L66", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return takesAllFiles{c.(*committer), p} }}},
	{"lone surrogates are replaced", "L47", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return altered{c, replacement} }}},
	{"65,535 parameters are enough", "L49", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return countsParameters{c} }}},
	{"what is committed again doubles", "L53", false, mistake{committer: func(p *process, c sink.Committer) sink.Committer { return commitDoubles{c, p} }}},
}

func TestWrongImplementationsAreCaught(t *testing.T) {
	caught := make(map[string]bool)
	for _, x := range wrongs {
		t.Run(x.law+" "+x.name, func(t *testing.T) {
			var v *Violation
			if err := lawCalled(t, x.law).check(t.Context(), x.wrong.harness(x.inTx)); !errors.As(err, &v) {
				t.Errorf("the law did not see it: %v", err)
			}
			caught[x.law] = true
		})
	}
	// A law that no mistake ever broke proves nothing.
	for _, l := range Laws() {
		if !caught[l.ID] {
			t.Errorf("no wrong implementation breaks %s: %s", l.ID, l.Sentence)
		}
	}
}

func lawCalled(t *testing.T, id string) Law {
	t.Helper()
	laws := Laws()
	i := slices.IndexFunc(laws, func(l Law) bool { return l.ID == id })
	if i < 0 {
		t.Fatalf("there is no law %s", id)
	}
	return laws[i]
}

// Every violation must tell its law, what was seen and the calls before it.
func TestViolationText(t *testing.T) {
	err := lawCalled(t, "L01").check(t.Context(), wrongs[0].wrong.harness(false))
	var v *Violation
	if !errors.As(err, &v) {
		t.Fatalf("no violation in %v", err)
	}
	const want = `sinktest: L01 is broken: Nothing that was written or prepared is visible before its checkpoint is decided.
  seen: after Prepare, readers see 2 rows [{1 z} {3 c}]; expected are 2 rows [{1 a} {2 b}]
  after:
    A: Acquire [0] = generation 1 from [], ended []
    A: Open generation 1
    A: Write +I(1 "a") +I(2 "b") up to [0@2]
    A: Prepare checkpoint 1 = receipt of 26 bytes
    A: Save checkpoint 1 of generation 1, [0@0] to [0@2], settled []
    A: Commit checkpoint 1 of generation 1
    readers see 2 rows
    A: Write +U(1 "z") -D(2 "b") +I(3 "c") up to [0@5]
    readers see 2 rows
    A: Prepare checkpoint 2 = receipt of 26 bytes
    readers see 2 rows`
	if v.Error() != want {
		t.Errorf("got:\n%s\nwant:\n%s", v, want)
	}
}

// A law of many cases tells the changes of the case that failed, and not the calls of those before it.
func TestViolationTextOfOneCase(t *testing.T) {
	var err error
	for _, x := range wrongs {
		if x.name == "deletes run before upserts" {
			err = lawCalled(t, "L25").check(t.Context(), x.wrong.harness(x.inTx))
		}
	}
	var v *Violation
	if !errors.As(err, &v) {
		t.Fatalf("L25 is kept: %v", err)
	}
	const want = `sinktest: L25 is broken: The last change of a key wins, across kinds and batches, in one checkpoint as in many.
  seen: after insert, then delete (in one batch), readers see 3 rows [{1 old} {2 old} {3 new}]; expected are 2 rows [{1 old} {2 old}]
  after:
    A: Acquire [0] = generation 1 from [], ended []
    A: Open generation 1
    (4 runs of changes, after each of which readers saw the right rows)
    insert, then delete, in one batch:
    A: Write -D(3) -D(4) +I(1 "old") +I(2 "old") up to [0@28]
    A: Prepare checkpoint 9 = receipt of 0 bytes
    A: Save checkpoint 9 of generation 1, [0@24] to [0@28], settled []
    A: Write +I(3 "new") -D(3 "new") up to [0@30]
    A: Prepare checkpoint 10 = receipt of 0 bytes
    A: Save checkpoint 10 of generation 1, [0@28] to [0@30], settled []
    readers see 3 rows`
	if v.Error() != want {
		t.Errorf("got:\n%s\nwant:\n%s", v, want)
	}
}

// mistake wraps the clients of the memory sink.
type mistake struct {
	committer func(p *process, c sink.Committer) sink.Committer
	store     func(p *process, s sink.Store) sink.Store
	guarantee *sink.Guarantee
}

// process is what a mistake may reach: the server, and what mistakes keep there.
type process struct {
	srv   *Server
	inner *committer // of an InTransaction sink
	notes map[workName]any
	looks *atomic.Int64 // of readers, that have ended
}

func (m mistake) harness(inTx bool) Harness {
	var srv *Server
	var notes map[workName]any
	looks := new(atomic.Int64)
	h := Harness{
		InTransaction: inTx, looks: 3,
		Reset: func(context.Context, *changelog.Table) error {
			srv, notes = NewServer(), make(map[workName]any)
			return nil
		},
		Connect: func(context.Context, *changelog.Table) (Client, error) {
			p := &process{srv: srv, notes: notes, looks: looks}
			c := Client{Sink: wrongSink{NewSink(srv, &SinkOptions{InTransaction: inTx}), m, p}}
			if !inTx {
				c.Store = NewStore(srv)
				if m.store != nil {
					c.Store = m.store(p, c.Store)
				}
			}
			return c, nil
		},
		Rows: func(_ context.Context, t *changelog.Table) ([]Row, error) {
			defer looks.Add(1)
			return FixtureRows(srv.Table(t.Name)), nil
		},
		Values:  func(_ context.Context, t *changelog.Table) ([]changelog.Row, error) { return srv.Table(t.Name), nil },
		Letters: func(context.Context) ([]sink.DeadLetter, error) { return srv.DeadLetters(), nil },
		Leftovers: func(context.Context) ([]string, error) {
			if n := srv.Staged(); n > 0 {
				return []string{fmt.Sprintf("%d pieces of prepared work", n)}, nil
			}
			return nil, nil
		},
	}
	return h
}

type wrongSink struct {
	*Sink
	m mistake
	p *process
}

func (k wrongSink) Guarantee() sink.Guarantee {
	g := k.Sink.Guarantee()
	if k.m.guarantee != nil {
		g = *k.m.guarantee
	}
	return g
}

func (k wrongSink) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := k.Sink.Lane(ctx, l)
	if err != nil {
		return nil, err
	}
	own, inTx := c.(*ownStore)
	if inTx {
		k.p.inner = own.committer
		c = struct{ sink.Committer }{own}
	}
	if k.m.committer != nil {
		c = k.m.committer(k.p, c)
	}
	if !inTx {
		return c, nil
	}
	var s sink.Store = own
	if k.m.store != nil {
		s = k.m.store(k.p, s)
	}
	return &wrongOwn{Committer: c, Store: s}, nil
}

type wrongOwn struct {
	sink.Committer
	sink.Store
}

func (o *wrongOwn) Close(ctx context.Context) error { return o.Committer.Close(ctx) }

// locked runs f on the server as a call would.
func (p *process) locked(f func(b *bridgeState, st *sinkState)) {
	p.srv.mu.Lock()
	defer p.srv.mu.Unlock()
	if b := p.srv.store[Bridge]; b != nil {
		f(b, p.srv.sink(sinkName{Bridge, SinkName}))
	}
}

func name(c sink.Committable) workName { return workName{c.Generation, c.Checkpoint} }

func lost(op string) error {
	return &sink.Error{Op: op, Class: sink.ErrLost, Err: fmt.Errorf("gone")}
}

// A convergent sink keeps the laws that are left to it, and must not be taken for more.
func TestConvergent(t *testing.T) {
	m := mistake{
		committer: func(_ *process, c sink.Committer) sink.Committer { return visibleEarly{c} },
		guarantee: &sink.Guarantee{Level: sink.Convergent, How: "early", Visible: "early", Zombie: "overwritten", Weakest: "the sink", Cure: "two phases"},
	}
	h := m.harness(false)
	for _, id := range []string{"L01", "L05"} {
		var v *Violation
		if err := lawCalled(t, id).check(t.Context(), h); !errors.As(err, &v) {
			t.Errorf("taken for exactly once, it keeps %s: %v", id, err)
		}
	}
	h.Convergent = true
	if err := Check(t.Context(), h); err != nil {
		t.Error(err)
	}
}

func TestHarnessIsChecked(t *testing.T) {
	good := mistake{}.harness(false)
	for name, spoil := range map[string]func(h *Harness){
		"Connect is missing":   func(h *Harness) { h.Connect = nil },
		"Reset is missing":     func(h *Harness) { h.Reset = nil },
		"Rows is missing":      func(h *Harness) { h.Rows = nil },
		"cannot be Convergent": func(h *Harness) { h.Convergent, h.InTransaction = true, true },
		"its own store":        func(h *Harness) { h.InTransaction = true },
		"claims deletes": func(h *Harness) {
			h.Skip = map[string]string{"L25": "x", "L35": "x", "L36": "x", "L58": "x", "L59": "x", "L64": "x"}
		},
		"declare NotAtomic": func(h *Harness) { h.Skip = map[string]string{"L45": "x"} },
		"claims fencing": func(h *Harness) {
			h.Skip = map[string]string{"L13": "x", "L29": "x", "L32": "x", "L56": "x", "L61": "x"}
		},
		"declare KeyedOnly":      func(h *Harness) { h.Skip = map[string]string{"L26": "x", "L62": "x"} },
		"declare WholeRows":      func(h *Harness) { h.Skip = map[string]string{"L58": "x"} },
		"cannot be KeyedOnly":    func(h *Harness) { h.KeyedOnly, h.NoDeletes = true, true },
		"Harness.Letters is not": func(h *Harness) { h.Letters = nil },
		`"L99", which does not`:  func(h *Harness) { h.Skip = map[string]string{"L99": "why"} },
		"no reason for L01":      func(h *Harness) { h.Skip = map[string]string{"L01": " "} },
		"Harness.Reset: no disk": func(h *Harness) {
			h.Reset = func(context.Context, *changelog.Table) error { return errors.New("no disk") }
		},
		"neither a Sink nor a": func(h *Harness) {
			h.Connect = func(context.Context, *changelog.Table) (Client, error) { return Client{}, nil }
		},
	} {
		h := good
		spoil(&h)
		if err := Check(t.Context(), h); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("expected %q, got %v", name, err)
		}
	}
	good.Skip = map[string]string{"L01": " shown to whoever runs it "}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	if why := good.skips(lawCalled(t, "L01")); why != "shown to whoever runs it" {
		t.Errorf("skipped because of %q", why)
	}
}

// Every client that a law opened is released when the law is over, also one that was violated.
func TestClientsAreReleased(t *testing.T) {
	for _, m := range []mistake{{}, wrongs[0].wrong} {
		h := m.harness(false)
		open, connect, reset := 0, h.Connect, h.Reset
		h.Reset = func(ctx context.Context, table *changelog.Table) error {
			if open != 0 {
				t.Errorf("%d clients were open at Reset", open)
			}
			return reset(ctx, table)
		}
		h.Connect = func(ctx context.Context, table *changelog.Table) (Client, error) {
			c, err := connect(ctx, table)
			open++
			c.Release = sync.OnceFunc(func() { open-- })
			return c, err
		}
		for _, l := range Laws()[:20] {
			_ = l.check(t.Context(), h)
		}
		if open != 0 {
			t.Errorf("%d clients were open at the end", open)
		}
	}
}
