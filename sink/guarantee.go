package sink

import (
	"strconv"
	"strings"
)

// Level is how strong a guarantee is.
type Level uint8

const (
	AtLeastOnce Level = iota // rows may be doubled
	Convergent               // seen early and perhaps more than once, but the end state is right
	ExactlyOnce              // every change takes effect once, and none before its checkpoint is decided; Guarantee.Visible says whether all at once
)

// String returns the words of the guarantee table.
func (l Level) String() string {
	switch l {
	case AtLeastOnce:
		return "at least once"
	case Convergent:
		return "convergent"
	case ExactlyOnce:
		return "exactly once"
	}
	return "unknown"
}

// Guarantee states what a sink, or a whole combination of source, store and sinks, gives. The table in the root package's
// documentation lists those of our own sinks; sinktest holds them to it.
type Guarantee struct {
	Level   Level
	How     string // "rows and positions in one transaction"
	Visible string // "at commit, atomically", or "at commit, file by file": then a reader may see a part of a checkpoint while it is committed
	Zombie  string // "fenced by generation row"
	Weakest string // what keeps the level from being higher; "" when nothing does
	Cure    string // what would raise it
}

// String returns one sentence.
func (g Guarantee) String() string {
	var b strings.Builder
	b.WriteString(g.Level.String())
	if g.How != "" {
		b.WriteString(": " + g.How)
	}
	if g.Visible != "" {
		b.WriteString("; visible " + g.Visible)
	}
	if g.Zombie != "" {
		b.WriteString("; zombies " + g.Zombie)
	}
	if g.Weakest != "" {
		b.WriteString("; weakest link: " + g.Weakest)
		if g.Cure != "" {
			b.WriteString("; cure: " + g.Cure)
		}
	}
	return b.String()
}

// Combine states what several sinks under one decision give together, in declared order: its level is that of the weakest, which Weakest names, and
// Visible says what a reader of each sink may see when. Of a single sink it is the sink's own guarantee.
//
// The sinks become visible one after the other, so a reader of two of them may find a checkpoint in one and not yet in the other; after a crash
// between them, until the next owner has settled it. No atomic step over two systems is claimed: what is guaranteed is that a decided checkpoint
// reaches all of them, and one that is not decided none of those that wait for the decision.
func Combine(sinks ...Declared) Guarantee {
	if len(sinks) == 0 {
		return Guarantee{}
	}
	sinks, before := placed(sinks)
	if len(sinks) == 1 {
		out := sinks[0].Sink.Guarantee()
		if out.Level != ExactlyOnce && out.Weakest == "" {
			out.Weakest = "sink " + sinks[0].Name
		}
		return out
	}
	var out Guarantee
	var how, visible, zombie []string
	for i, d := range sinks {
		g := d.Sink.Guarantee()
		if i == 0 || g.Level < out.Level {
			out.Level = g.Level
			out.Weakest, out.Cure = "", ""
			if g.Level != ExactlyOnce || g.Weakest != "" {
				out.Weakest, out.Cure = strings.TrimSuffix("sink "+d.Name+": "+g.Weakest, ": "), g.Cure
			}
		}
		see := g.Visible
		switch {
		case i >= before:
			see += " (placed last: once the others have prepared, and before any of them shows it)"
		case d.early():
			see += " (what the others then refuse or fail to prepare has been seen)"
		}
		how = append(how, d.Name+": "+g.How)
		visible = append(visible, "in "+d.Name+" "+see)
		zombie = append(zombie, d.Name+" "+g.Zombie)
	}
	out.How = "one decision for " + strconv.Itoa(len(sinks)) + " sinks (" + strings.Join(how, "; ") + ")"
	out.Visible = strings.Join(visible, ", then ")
	out.Zombie = strings.Join(zombie, ", ")
	return out
}
