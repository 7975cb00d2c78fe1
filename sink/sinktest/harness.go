package sinktest

import (
	"context"
	"errors"
	"fmt"
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
	SinkName    = "target"          // the declared name of the sink under test
	KeyedTable  = "sinktest_keyed"  // (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)), mode [I,UB,UA,D]
	AppendTable = "sinktest_append" // (id BIGINT, v STRING) without a key, mode [I]
)

// Harness describes an implementation to [Check] and [Run]. Connect and Reset are required, and Rows unless only a store is under
// test. The zero of everything else asks for the strongest: exactly once, in two phases, every law.
type Harness struct {
	// Connect opens a NEW client on the same data at each call, as a process that starts does: a restart if the clients before
	// it were released, a zombie's rival if one of them lives on. t is the one table that the client will write, KeyedTable or
	// AppendTable. Two clients must not share what dies with a process (a session, an open transaction); a shared pool is fine.
	Connect func(ctx context.Context, t *changelog.Table) (Client, error)

	// Reset makes the table t exist and be empty, and the store know nothing of Bridge. It is called before each law, after all
	// clients of the law before it were released.
	Reset func(ctx context.Context, t *changelog.Table) error

	// Rows returns what a reader of the table t sees now, in any order, by another path than the sink's.
	Rows func(ctx context.Context, t *changelog.Table) ([]Row, error)

	// InTransaction declares that Prepare leaves the rows in an open transaction that Save commits with the positions: the
	// committer is its own store, receipts are empty, and what was prepared dies with its process. Laws of receipts are skipped.
	InTransaction bool

	// Convergent declares that rows may be seen before the decision and more than once, while the end state is right. Laws of
	// invisibility and of tables without a key are skipped. Sink.Guarantee must say the same.
	Convergent bool

	// Skip holds laws that the implementation does not keep, by id, each with the reason, which is shown. An unknown id or an
	// empty reason is a failure.
	Skip map[string]string

	// Timeout bounds one law, so that a call that hangs fails with the law's name. Defaults to one minute.
	Timeout time.Duration
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

// Row is one row of either table.
type Row struct {
	ID int64
	V  string
}

// Check runs every law against h and returns the violations, joined; each is a [*Violation], or says what is wrong with h.
func Check(ctx context.Context, h Harness) error {
	if err := h.validate(); err != nil {
		return err
	}
	var errs []error
	for _, l := range Laws() {
		if why := h.skips(l); why != "" {
			continue
		}
		errs = append(errs, l.check(ctx, h))
	}
	return errors.Join(errs...)
}

// Run runs every law against h as a subtest named by its id. A law that is skipped says why.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if err := h.validate(); err != nil {
		t.Fatal(err)
	}
	for _, l := range Laws() {
		t.Run(l.ID, func(t *testing.T) {
			if why := h.skips(l); why != "" {
				t.Skipf("%s %q: %s", l.ID, l.Sentence, why)
			}
			if err := l.check(t.Context(), h); err != nil {
				t.Error(err)
			}
		})
	}
}

// Violation is a law that was broken.
type Violation struct {
	Law     Law
	Seen    string   // what was seen instead
	History []string // the calls that led to it, with their answers, and the changes that were written
}

// Error shows the law, what was seen, and the calls that led to it.
func (v *Violation) Error() string {
	return fmt.Sprintf("sinktest: %s is broken: %s\n  seen: %s\n  after:\n    %s",
		v.Law.ID, v.Law.Sentence, v.Seen, strings.Join(v.History, "\n    "))
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
	return errors.Join(errs...)
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
	}
	return ""
}

func (h Harness) timeout() time.Duration {
	if h.Timeout > 0 {
		return h.Timeout
	}
	return time.Minute
}
