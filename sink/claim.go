package sink

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// This file reads claims and cuts.

// of returns the claim with the committables of one sink only.
func (c Claim) of(sink string) Claim {
	ended := c.Ended
	c.Ended = nil
	for _, e := range ended {
		mine := EndedGeneration{ID: e.ID}
		for _, d := range e.Decided {
			if d.Sink == sink {
				mine.Decided = append(mine.Decided, d)
			}
		}
		c.Ended = append(c.Ended, mine)
	}
	return c
}

// savedIn reports whether positions show that the cut was saved. A checkpoint is saved for all its partitions or for none, so one that moved
// suffices: some may have gone to other owners since.
func (c Cut) savedIn(positions []changelog.Position) bool {
	for i, to := range c.To {
		if to.Offset == c.From[i].Offset {
			continue
		}
		for _, p := range positions {
			if p.Partition == to.Partition {
				return p.Offset == to.Offset
			}
		}
	}
	return false
}

// orphans reports decided work of a sink that is not declared here: nobody would ever commit it.
func (c *Coordinator) orphans(claim Claim) error {
	for _, e := range claim.Ended {
		for _, d := range e.Decided {
			if !slices.ContainsFunc(c.o.Sinks, func(s Declared) bool { return s.Name == d.Sink }) {
				return &Error{Op: "acquire", Sink: d.Sink, Class: ErrConfig, Err: fmt.Errorf(
					"checkpoint %d.%d is decided and waits to be committed by a sink of this name, which is not declared now: declare it until that is done", e.ID, d.Checkpoint)}
			}
		}
	}
	return nil
}

// covers reports a partition that ps does not place.
func covers(ps []changelog.Position, want []changelog.Partition) error {
	have := make(map[changelog.Partition]bool, len(ps))
	for _, p := range ps {
		have[p.Partition] = true
	}
	for _, w := range want {
		if !have[w] {
			return &Error{Op: "begin", Class: ErrConfig, Err: errors.New("the source does not say where " + w.String() + " begins")}
		}
	}
	return nil
}
