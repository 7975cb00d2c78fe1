package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// keyedOnly refuses tables without a key, in Lane or in Open.
type keyedOnly struct {
	sink.Sink
	late bool
}

func (k keyedOnly) Lane(ctx context.Context, l sink.Lane) (sink.Committer, error) {
	c, err := k.Sink.Lane(ctx, l)
	if len(l.Tables[0].Schema.Key) > 0 {
		return c, err
	}
	refused := &sink.Error{Op: "lane", Class: sink.ErrConfig, Err: errors.New("no key, no row")}
	if k.late {
		return refusesOpen{c, refused}, err
	}
	return nil, refused
}

type refusesOpen struct {
	sink.Committer
	err error
}

func (c refusesOpen) Open(context.Context, sink.Claim) error { return c.err }

// A sink for keyed tables alone is told so once, and the laws are run on a keyed table.
func TestKeyedOnly(t *testing.T) {
	for _, late := range []bool{false, true} {
		h := mistake{}.harness(false)
		connect := h.Connect
		h.Connect = func(ctx context.Context, table *changelog.Table) (Client, error) {
			c, err := connect(ctx, table)
			c.Sink = keyedOnly{c.Sink, late}
			return c, err
		}
		err := Check(t.Context(), h)
		if err == nil || !strings.Contains(err.Error(), "declare Harness.KeyedOnly") || !strings.HasSuffix(err.Error(), "no key, no row") {
			t.Errorf("undeclared: %v", err)
		}
		if v := new(Violation); errors.As(err, &v) {
			t.Errorf("undeclared, laws say it too: %v", v)
		}
		h.KeyedOnly = true
		if err := Check(t.Context(), h); err != nil {
			t.Errorf("declared: %v", err)
		}
		if h.skips(lawCalled(t, "L26")) == "" {
			t.Error("L26 is not skipped")
		}
		h.KeyedOnly, h.NoDeletes = false, true
		if err := Check(t.Context(), h); err == nil || !strings.Contains(err.Error(), "run on no other") || strings.Contains(err.Error(), "is broken") {
			t.Errorf("NoDeletes: %v", err)
		}
	}
}

// What the laws of AppendTable catch, most of them catch on KeyedTable too.
func TestKeyedOnlyCatches(t *testing.T) {
	// What shows in nothing but how often an equal row is there.
	number := []string{"a Commit that was given up is called done", "what is committed again doubles", "a Commit whose answer was lost doubles",
		"the second Commit doubles", "both successors commit", "Open commits what was decided again", "what begins alike is a replay"}
	for _, x := range wrongs {
		if l := lawCalled(t, x.law); l.Table != AppendTable || l.Needs&Keyless != 0 || slices.Contains(number, x.name) {
			continue
		}
		h := x.wrong.harness(x.inTx)
		h.KeyedOnly = true
		if err := lawCalled(t, x.law).check(t.Context(), h); !errors.As(err, new(*Violation)) {
			t.Errorf("%s does not see on a keyed table that %s: %v", x.law, x.name, err)
		}
	}
}

// refusesUnsent writes whole rows only.
type refusesUnsent struct{ *committer }

func (c refusesUnsent) Write(ctx context.Context, b *changelog.Batch) error {
	for _, ch := range b.Changes {
		if slices.ContainsFunc(ch.Row, changelog.Value.IsUnchanged) {
			c.broken = true
			return c.fail("write", sink.ErrRejected, fmt.Errorf("a column was not sent"))
		}
	}
	return c.committer.Write(ctx, b)
}

func TestWholeRows(t *testing.T) {
	whole := mistake{committer: func(_ *process, c sink.Committer) sink.Committer { return refusesUnsent{c.(*committer)} }}.harness(false)
	if err := lawCalled(t, "L58").check(t.Context(), whole); !errors.As(err, new(*Violation)) {
		t.Errorf("undeclared: %v", err)
	}
	whole.WholeRows = true
	if err := lawCalled(t, "L59").check(t.Context(), whole); err != nil || whole.skips(lawCalled(t, "L58")) == "" {
		t.Errorf("declared: %v", err)
	}
	other := mistake{}.harness(false)
	other.WholeRows = true
	if err := lawCalled(t, "L59").check(t.Context(), other); !errors.As(err, new(*Violation)) {
		t.Errorf("declared, and it keeps columns: %v", err)
	}
}
