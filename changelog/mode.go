package changelog

import (
	"fmt"
	"strings"
)

// Mode is the set of kinds that a stream may hold, Flink's ChangelogMode.
type Mode uint8

// The three modes that Flink's planner names.
const (
	Append  = Mode(1 << Insert)
	Upsert  = Append | Mode(1<<UpdateAfter) | Mode(1<<Delete)
	Retract = Upsert | Mode(1<<UpdateBefore)
)

// Contains reports whether changes of kind k may occur.
func (m Mode) Contains(k Kind) bool { return m&(1<<k) != 0 }

// String returns the form of Flink's plans: "[I]", "[I,UA,D]", "[I,UB,UA,D]".
func (m Mode) String() string {
	var s []string
	for k := Insert; k <= Delete; k++ {
		if m.Contains(k) {
			s = append(s, k.PlanLetters())
		}
	}
	return "[" + strings.Join(s, ",") + "]"
}

// ParseMode reads what String prints and what Flink's plans print, spaces between the letters allowed. PD, a delete that knows only
// its key, counts as D.
func ParseMode(s string) (Mode, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(s), "[")
	if ok {
		body, ok = strings.CutSuffix(body, "]")
	}
	if !ok {
		return 0, fmt.Errorf("changelog: %q is no changelog mode: expected a form such as [I,UA,D]", s)
	}
	var m Mode
	if strings.TrimSpace(body) == "" {
		return 0, nil
	}
	for _, part := range strings.Split(body, ",") {
		part = strings.TrimSpace(part)
		found := false
		for k := Insert; k <= Delete; k++ {
			if part == k.PlanLetters() || k == Delete && part == "PD" {
				m |= 1 << k
				found = true
			}
		}
		if !found {
			return 0, fmt.Errorf("changelog: %q in changelog mode %q: expected I, UB, UA or D", part, s)
		}
	}
	return m, nil
}
