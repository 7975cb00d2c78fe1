package protocol

import (
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A finding as text, as testdata/explore keeps them:
//
//	world two-phase, generations 2, budget {Crashes:0 Lost:1 ...}
//	mistake abort after an unclear Save
//	process 0: is assigned t/0 t/1
//	# > assign t/0 t/1
//	# acquire t/0 t/1
//	...
//	found: a change is lost ...
//
// Lines with "#" show what the machine was told and what it made of it; a replay does not read them.

// text prints a finding with what the machines did on the way.
func (x *space) text(f finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "world %s, generations %d, budget %+v\n", x.config.name, x.gens, x.budget)
	if x.wrong.name != "" {
		fmt.Fprintf(&b, "mistake %s\n", x.wrong.name)
	}
	lines := make([]string, len(f.trace))
	for i, a := range f.trace {
		lines[i] = a.String()
	}
	_, _, done := x.replay(lines)
	b.WriteString(done)
	fmt.Fprintf(&b, "found: %v\n", f)
	return b.String()
}

// replay follows the lines as far as they go, and returns the last state, how many lines could be followed, and the run as text.
func (x *space) replay(lines []string) (world, int, string) {
	var b, seen strings.Builder
	x.log = func(e Event, fx []Effect) {
		fmt.Fprintf(&seen, "# > %v\n", e)
		for _, f := range fx {
			fmt.Fprintf(&seen, "# %v\n", f)
		}
	}
	defer func() { x.log = nil }()
	w := x.first()
	x.canon(&w)
	for i, line := range lines {
		var next *world
		seen.Reset()
		x.expand(&w, func(t *world, a move) {
			if next == nil && a.String() == line {
				c := *t
				next = &c
				fmt.Fprintf(&b, "%s\n%s", line, seen.String())
			}
			seen.Reset()
		})
		if next == nil {
			return w, i, b.String()
		}
		x.canon(next)
		w = *next
	}
	return w, len(lines), b.String()
}

func configOf(name string) config {
	return configs[slices.IndexFunc(configs, func(c config) bool { return c.name == name })]
}

// TestExplore_Replay follows every kept trace: with its mistake it leads to what was found. Without the mistake it cannot be followed to the
// end, or leads to nothing bad.
func TestExplore_Replay(t *testing.T) {
	files, err := filepath.Glob("testdata/explore/*.txt")
	if err != nil || len(files) < len(mistakes) {
		t.Fatalf("%d traces for %d mistakes, %v", len(files), len(mistakes), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c config
			var wrong mistake
			var lines []string
			found := ""
			for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
				if rest, ok := strings.CutPrefix(line, "world "); ok {
					var name string
					var b budget
					if _, err := fmt.Sscanf(strings.ReplaceAll(rest, ",", ""), "%s generations %d budget {Crashes:%d Lost:%d Refused:%d Moves:%d Interrupts:%d Writes:%d}", &name, &c.gens,
						&b.Crashes, &b.Lost, &b.Refused, &b.Moves, &b.Interrupts, &b.Writes); err != nil {
						t.Fatalf("%q: %v", line, err)
					}
					gens := c.gens
					c = configOf(name)
					c.gens, c.budget = gens, b
				} else if rest, ok := strings.CutPrefix(line, "mistake "); ok {
					i := slices.IndexFunc(mistakes, func(m mistake) bool { return m.name == rest })
					if i < 0 {
						t.Fatalf("there is no mistake %q", rest)
					}
					wrong = mistakes[i]
				} else if rest, ok := strings.CutPrefix(line, "found: "); ok {
					found = rest
				} else if !strings.HasPrefix(line, "#") {
					lines = append(lines, line)
				}
			}
			if wrong.name != "" {
				x := newSpace(c, wrong)
				x.unchecked = true
				got, followed, _ := x.ends(lines)
				if followed < len(lines) || got != found {
					t.Errorf("with the mistake %d of %d lines can be followed, and what is found is %q", followed, len(lines), got)
				}
			}
			if got, followed, done := newSpace(c, mistake{}).ends(lines); got != "holds" {
				t.Errorf("without a mistake, after %d lines: %s\n%s", followed, got, done)
			}
		})
	}
}

// ends says what a replay ends with.
func (x *space) ends(lines []string) (found string, followed int, text string) {
	w, followed, text := x.replay(lines)
	x.rescued = map[uint64]uint8{}
	f := finding{bad: x.check(&w)}
	if f.bad == 0 {
		f.bad = x.rescue(&w, seedOfReplay)
	}
	if f.bad == badInvariant {
		f.note = x.problem
	}
	return f.String(), followed, text
}

var seedOfReplay = maphash.MakeSeed()
