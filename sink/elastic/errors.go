package elastic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

func configf(format string, args ...any) error {
	return &sink.Error{Class: sink.ErrConfig, Err: fmt.Errorf(format, args...)}
}

func transientf(format string, args ...any) error {
	return &sink.Error{Class: sink.ErrTransient, Err: fmt.Errorf(format, args...)}
}

// unclassed takes the class off err, for a text that names it once.
func unclassed(err error) error {
	var e *sink.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}

// classed gives err operation, sink and bridge, and keeps its class.
func (c *committer) classed(op string, err error) error {
	var e *sink.Error
	if errors.As(err, &e) {
		out := *e
		out.Op, out.Sink, out.Bridge = op, c.lane.Sink, c.lane.Bridge
		return &out
	}
	return c.fail(op, sink.ClassOf(err), err)
}

// worst joins errors into one with the class that weighs most: what ends the lane before what is done again, and a refusal, whose changes
// have to be named, last.
func worst(errs []error) error {
	var out *sink.Error
	weight := func(err error) int {
		switch sink.ClassOf(err) {
		case sink.ErrConfig:
			return 5
		case sink.ErrLost:
			return 4
		case sink.ErrFenced:
			return 3
		case sink.ErrUncertain:
			return 2
		case sink.ErrTransient:
			return 1
		}
		return 0
	}
	var rejected []sink.Rejection
	named := make(map[changelog.Position]bool)
	for _, err := range errs {
		if err == nil {
			continue
		}
		var e *sink.Error
		if !errors.As(err, &e) {
			e = &sink.Error{Class: sink.ClassOf(err), Err: err}
		}
		for _, r := range e.Rejected {
			at := changelog.Position{Partition: r.Partition, Offset: r.Offset}
			if !named[at] { // one a message
				named[at] = true
				rejected = append(rejected, r)
			}
		}
		if out == nil || weight(e) > weight(out) {
			cp := *e
			out = &cp
		}
	}
	if out == nil {
		return nil
	}
	out.Rejected = nil
	if out.Class == sink.ErrRejected {
		slices.SortStableFunc(rejected, func(a, b sink.Rejection) int { // pipes end in any order
			return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition.Partition, b.Partition.Partition), cmp.Compare(a.Offset, b.Offset))
		})
		out.Rejected = rejected
	}
	return out
}

// refusals gathers the changes that can never be written, one a message.
type refusals struct{ list []sink.Rejection }

func (r *refusals) add(c *changelog.Change, column string, why error) {
	if n := len(r.list); n > 0 && r.list[n-1].Partition == c.Partition && r.list[n-1].Offset == c.Offset {
		return
	}
	r.list = append(r.list, sink.Rejection{Partition: c.Partition, Offset: c.Offset, Index: c.Index, Column: column, Reason: why})
}

func (r *refusals) err() error {
	if len(r.list) == 0 {
		return nil
	}
	f := r.list[0]
	why := f.Reason
	if f.Column != "" {
		why = fmt.Errorf("column %q: %w", f.Column, why)
	}
	return &sink.Error{Class: sink.ErrRejected, Position: &changelog.Position{Partition: f.Partition, Offset: f.Offset, LeaderEpoch: -1}, Rejected: r.list, Err: why}
}
