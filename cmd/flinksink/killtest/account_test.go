package killtest

import (
	"fmt"
	"slices"
	"strings"
)

// account says what happened to a subject.
type account struct {
	kills   map[string]int // by step
	order   []string
	starts  int
	behind  int            // deaths that left changes unread
	moved   map[string]int // deaths after which the positions had moved, by step
	changes int
	ended   bool
	final   difference // set when ended
}

func (a *account) kill(step string) {
	if a.kills == nil {
		a.kills, a.moved = map[string]int{}, map[string]int{}
	}
	if a.kills[step] == 0 {
		a.order = append(a.order, step)
	}
	a.kills[step]++
}

func (a *account) total() int { return sum(a.kills) }

func sum(m map[string]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}

// write prints the account, and what it is an account of.
func (a *account) write(s *subject) string {
	var b strings.Builder
	w := s.truth
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&b, "account of %s\n", s.topic)
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-34s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("changes", "%d: %d inserts (%d of them again after a delete), %d updates, %d deletes", w.written, w.inserts, w.returned, w.updates, w.deletes)
	line("records of aborted transactions", "%d", w.aborted)
	line("dead letters", "%d", len(w.letters))
	line("bridges started", "%d", a.starts)
	line("killed", "%d; %d deaths left changes unread, (%d) had moved the positions", a.total(), a.behind, sum(a.moved))
	for _, step := range a.order {
		line("  "+step, "%d (%d)", a.kills[step], a.moved[step])
	}
	if !a.ended {
		return b.String()
	}
	d := a.final
	line("rows", "expected %d, found %d, lost %d, wrong %d, doubled %d, resurrected %d, foreign %d", d.expected, d.found, len(d.lost), len(d.wrong), len(d.doubled), len(d.risen), len(d.foreign))
	return b.String()
}

// missed returns the steps at which no bridge died.
func (a *account) missed() (out []string) {
	for _, s := range steps() {
		if a.kills[s.name] == 0 {
			out = append(out, s.name)
		}
	}
	slices.Sort(out)
	return out
}
