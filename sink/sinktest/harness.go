package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Names that the laws use. Whoever writes a [Harness] needs them to empty and to read what is under test.
const (
	Bridge      = "sinktest"        // the bridge of every law
	OtherBridge = "sinktest-other"  // a second one in the same place, in a few laws: whatever is kept by bridge must be told apart
	SinkName    = "target"          // the declared name of the sink under test
	KeyedTable  = "sinktest_keyed"  // (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)), mode [I,UB,UA,D]
	AppendTable = "sinktest_append" // (id BIGINT, v STRING) without a key, mode [I]
	TextTable   = "sinktest_text"   // (k STRING NOT NULL, v STRING, b BYTES, PRIMARY KEY (k)), mode [I,UA,D]
	TypeTable   = "sinktest_type"   // (id BIGINT NOT NULL, v of the type that is tested, PRIMARY KEY (id)), mode [I,UA,D]; made anew for each type
)

// Harness describes an implementation to [Check] and [Run]. Connect and Reset are required, and Rows unless only a store is under
// test. The zero of everything else asks for the strongest: exactly once, in two phases, tables with and without a key, every law.
//
// Fields that weaken (InTransaction to WholeRows) stand in the implementation's own test file, where its readers look. What is not
// weakened is claimed, and has to be tested: a Harness whose Skip leaves no law that tests a claim is refused.
type Harness struct {
	// Connect opens a NEW client on the same data at each call, as a process that starts does: a restart if the clients before
	// it were released, a zombie's rival if one of them lives on. t is the one table that the client will write, one of the
	// four tables above; all four come, one a law. Two clients must not share what dies with a process (a session, an open transaction); a shared pool is fine.
	Connect func(ctx context.Context, t *changelog.Table) (Client, error)

	// Reset makes the table t exist and be empty, with the columns that t has now, and the store know nothing of Bridge and
	// OtherBridge. (A sink that creates its tables may leave that to Connect: then t must not exist.) It is called before each law, after all
	// clients of the law before it were released, and in between by laws that play several times.
	Reset func(ctx context.Context, t *changelog.Table) error

	// Rows returns what a reader of the table t, KeyedTable or AppendTable, sees now, in any order, by another path than the sink's. No law
	// writes NULL into these two tables: a NULL that is read in v is a mistake, and may be returned as Row.V "" as [FixtureRows] does. It
	// is called from one goroutine at a time, at times while a committer works.
	Rows func(ctx context.Context, t *changelog.Table) ([]Row, error)

	// Values returns the same of TextTable and TypeTable, as values of the types of t's columns, NULL as the zero Value. nil: laws of keys,
	// texts, types and columns that were not sent are skipped.
	Values func(ctx context.Context, t *changelog.Table) ([]changelog.Row, error)

	// Letters returns the dead letters that readers see. Required of a committer that is a sink.DeadLetterKeeper.
	Letters func(ctx context.Context) ([]sink.DeadLetter, error)

	// Leftovers names what is left in the place under test beside tables and stored state, once everything is settled and closed:
	// sessions, open or prepared transactions, uploads, temporary objects. nil: only goroutines are looked at.
	Leftovers func(ctx context.Context) ([]string, error)

	// InTransaction declares that Prepare leaves the rows in an open transaction that Save commits with the positions: the
	// committer is its own store, receipts are empty, and what was prepared dies with its process. Laws of receipts are skipped.
	InTransaction bool

	// Convergent declares that rows may be seen before the decision and more than once, while the end state is right. Laws of
	// invisibility and of tables without a key are skipped. Sink.Guarantee must say the same.
	Convergent bool

	// NoDeletes declares that the sink only appends: it takes +I and no other kind. Laws of keys are skipped, all others are run
	// on AppendTable, with inserts alone.
	NoDeletes bool

	// NotAtomic declares that a reader may see a part of a checkpoint while it is committed. The sink is exactly once all the same, and says in
	// Guarantee.Visible how rows appear ("at commit, file by file").
	NotAtomic bool

	// Unfenced declares that Open does not stop the writers of ended generations: only the store's refusal of their Save protects from
	// them.
	Unfenced bool

	// KeyedOnly declares that the sink takes no table without a key, and refuses one as ErrConfig in Lane or Open. Laws that are run on
	// AppendTable are run on KeyedTable, where a row that is written twice looks like one: they see less.
	KeyedOnly bool

	// WholeRows declares that the sink writes whole rows only: a change with a column that its source did not send (Unchanged) is refused as
	// ErrRejected or ErrConfig, since the sink cannot keep what is there.
	WholeRows bool

	// Delay is how long after a commit a reader may still see what was there before. Each look at rows waits for it. Defaults to 0.
	Delay time.Duration

	// Skip holds laws that the implementation does not keep, by id, each with the reason, which is shown. An unknown id or an
	// empty reason is a failure.
	Skip map[string]string

	// Seed begins the laws that play at random. A violation shows it; the same seed gives the same calls. Defaults to 1.
	Seed uint64

	// Timeout bounds one law, so that a call that hangs fails with the law's name; those that play several times may take four of it. Defaults to
	// one minute.
	Timeout time.Duration

	looks int // for leftovers, of which none sees fewer; 0: 500
}

// Client is one process's way to the implementation under test.
type Client struct {
	// Sink is the sink under test. nil: a store alone is under test, and the suite's own memory sink takes part.
	Sink sink.Sink
	// Store is the store under test. nil: the lane's committer if it is a sink.Store, else the suite's own memory store.
	Store sink.Store
	// Release ends the client as the end of its process does: connections drop, nothing is flushed or decided, Close is not called by
	// it. The laws call it for a crash, and for every client when a law is over; twice must be harmless. nil: nothing to do.
	Release func()
}

// Row is one row of KeyedTable or AppendTable.
type Row struct {
	ID int64
	V  string // "" for NULL too, which no law writes
}

// Check runs every law against h and returns the violations, joined; each is a [*Violation], or says what is wrong with h.
func Check(ctx context.Context, h Harness) error {
	if err := h.validate(); err != nil {
		return err
	}
	var errs []error
	h, err := h.keyless(ctx)
	if err != nil {
		errs = append(errs, err)
		if h.NoDeletes {
			return err
		}
	}
	for _, l := range Laws() {
		if why := h.skips(l); why != "" {
			continue
		}
		if err := l.check(ctx, h); !errors.As(err, new(*notApplicable)) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Run runs every law against h as a subtest named by its id. A law that is skipped says why.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if err := h.validate(); err != nil {
		t.Fatal(err)
	}
	h, err := h.keyless(t.Context())
	if err != nil {
		t.Error(err)
		if h.NoDeletes {
			return
		}
	}
	for _, l := range Laws() {
		t.Run(l.ID, func(t *testing.T) {
			if why := h.skips(l); why != "" {
				t.Skipf("%s %q: %s", l.ID, l.Sentence, why)
			}
			err := l.check(t.Context(), h)
			if why := new(notApplicable); errors.As(err, &why) {
				t.Skipf("%s %q: %s", l.ID, l.Sentence, why.reason)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// notApplicable is what a law says that found out by itself that there is nothing to test.
type notApplicable struct{ reason string }

func (n *notApplicable) Error() string { return n.reason }

// Violation is a law that was broken.
type Violation struct {
	Law     Law
	Seen    string   // what was seen instead
	History []string // the calls that led to it, with their answers, and the changes that were written
	Seed    uint64   // of a law that plays at random; 0: none
}

// Error shows the law, what was seen, the seed, and the calls that led to it.
func (v *Violation) Error() string {
	seed := ""
	if v.Seed != 0 {
		seed = fmt.Sprintf("\n  seed: %d (Harness.Seed)", v.Seed)
	}
	return fmt.Sprintf("sinktest: %s is broken: %s\n  seen: %s%s\n  after:\n    %s",
		v.Law.ID, v.Law.Sentence, v.Seen, seed, strings.Join(v.History, "\n    "))
}

func (h Harness) validate() error {
	var errs []error
	if h.Connect == nil {
		errs = append(errs, errors.New("sinktest: Harness.Connect is missing"))
	}
	if h.Reset == nil {
		errs = append(errs, errors.New("sinktest: Harness.Reset is missing"))
	}
	if h.InTransaction && h.Convergent {
		errs = append(errs, errors.New("sinktest: a Harness that is InTransaction cannot be Convergent"))
	}
	if h.KeyedOnly && h.NoDeletes {
		errs = append(errs, errors.New("sinktest: a Harness that is NoDeletes is run on a table without a key, and cannot be KeyedOnly"))
	}
	known := make(map[string]bool)
	for _, l := range Laws() {
		known[l.ID] = true
	}
	ids := make([]string, 0, len(h.Skip))
	for id := range h.Skip {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	for _, id := range ids {
		if !known[id] {
			errs = append(errs, fmt.Errorf("sinktest: Harness.Skip names the law %q, which does not exist", id))
		}
		if strings.TrimSpace(h.Skip[id]) == "" {
			errs = append(errs, fmt.Errorf("sinktest: Harness.Skip gives no reason for %s", id))
		}
	}
	for _, c := range h.claims() {
		if !slices.ContainsFunc(Laws(), func(l Law) bool { return l.Needs&c.need != 0 && h.skips(l) == "" }) {
			errs = append(errs, fmt.Errorf("sinktest: the Harness claims %s, and Skip leaves no law that tests it: declare %s, or skip less", c.what, c.weaker))
		}
	}
	return errors.Join(errs...)
}

type claim struct {
	need         Need
	what, weaker string
}

// claims returns what h does not weaken.
func (h Harness) claims() []claim {
	var cs []claim
	for _, c := range []struct {
		weak bool
		claim
	}{
		{h.InTransaction || h.Convergent, claim{TwoPhase, "receipts", "InTransaction"}},
		{h.Convergent, claim{Exact, "exactly once", "Convergent"}},
		{h.NoDeletes, claim{Deletes, "deletes", "NoDeletes"}},
		{h.NotAtomic || h.Convergent, claim{Atomic, "atomic visibility", "NotAtomic"}},
		{h.Unfenced || h.Convergent, claim{Fenced, "fencing", "Unfenced"}},
		{h.KeyedOnly || h.Convergent, claim{Keyless, "tables without a key", "KeyedOnly"}},
		{h.WholeRows || h.NoDeletes || h.Values == nil, claim{Unsent, "columns that stay what they were", "WholeRows"}},
	} {
		if !c.weak {
			cs = append(cs, c.claim)
		}
	}
	return cs
}

// skips returns why l does not apply to h, or "".
func (h Harness) skips(l Law) string {
	switch why := strings.TrimSpace(h.Skip[l.ID]); {
	case why != "":
		return why
	case l.Needs&TwoPhase != 0 && h.InTransaction:
		return "needs receipts, and an InTransaction sink's Save makes the rows visible"
	case l.Needs&Exact != 0 && h.Convergent:
		return "needs exactly once, and the sink is declared convergent"
	case l.Needs&Deletes != 0 && h.NoDeletes:
		return "needs deletes, and the sink is declared to take none"
	case l.Needs&Atomic != 0 && (h.NotAtomic || h.Convergent):
		return "needs checkpoints that appear at once, and the sink is declared not to make them"
	case l.Needs&Fenced != 0 && h.Unfenced:
		return "needs a fence, and the sink is declared to have none"
	case l.Needs&Keyless != 0 && h.KeyedOnly:
		return "needs a table without a key, and the sink is declared to take none"
	case l.Needs&Unsent != 0 && h.WholeRows:
		return "needs columns that stay what they were, and the sink is declared to write whole rows"
	case l.Needs&ReadValues != 0 && h.Values == nil:
		return "needs Harness.Values, which is not there"
	}
	return ""
}

func (h Harness) timeout() time.Duration {
	if h.Timeout > 0 {
		return h.Timeout
	}
	return time.Minute
}
