package sink

import "strings"

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

// combine states what several sinks give together: the weakest of them, by name.
func combine(sinks []Declared) Guarantee {
	out := sinks[0].Sink.Guarantee()
	name := sinks[0].Name
	for _, d := range sinks[1:] {
		if g := d.Sink.Guarantee(); g.Level < out.Level {
			out, name = g, d.Name
		}
	}
	if out.Level != ExactlyOnce && out.Weakest == "" {
		out.Weakest = "sink " + name
	}
	return out
}
