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
	behind  int // deaths that left changes unread
	moved   int // deaths after which the positions had moved
	changes int
	final   difference
}

func (a *account) kill(step string) {
	if a.kills == nil {
		a.kills = map[string]int{}
	}
	if a.kills[step] == 0 {
		a.order = append(a.order, step)
	}
	a.kills[step]++
}

func (a *account) total() (n int) {
	for _, k := range a.kills {
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
	line("bridges started", "%d", a.starts)
	line("killed", "%d; %d deaths left changes unread, %d had moved the positions", a.total(), a.behind, a.moved)
	for _, step := range a.order {
		line("  "+step, "%d", a.kills[step])
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
