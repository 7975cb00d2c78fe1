package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A test of time fails for one of two reasons: the code is wrong, or the machine did not let happen what the test waits for. Running it again tells
// them apart only if the failure itself says nothing about data: rows that were lost once were lost, however often they are not. So a run may be repeated for tests of packages that
// run processes and servers against time, and never when what failed speaks of rows, of a law, of a race, of memory or of a panic.

// timed are the packages whose tests wait for other processes.
var timed = []string{"bridge", "cmd/flinksink", "cmd/flinksink/killtest", "sink/elastic", "sink/kafka", "sink/postgres", "sink/s3", "testbed/postgres"}

// never matches what a failure says that no further run excuses.
var never = regexp.MustCompile(`DATA RACE|data race|panic:|fatal error:|test timed out|sinktest: L\d|` +
	`at the positions|at the end: |went back|move forward|never produced|there twice|dead letters, and|(?i:\b(lost|doubled?|resurrected|missing|wrong|stale) (a |the )?(row|rows|change|changes|document|documents|message|messages)\b)`)

// mostAgain failures at once are no bad luck.
const mostAgain = 2

// failure is a failed top-level test.
type failure struct {
	name
	final bool // no further run excuses it
}

// blame notes the failure of a test or of a part of it. The parts of a test are told before it.
func (s *summary) blame(n name, lines []string) {
	top := n
	top.test, _, _ = strings.Cut(n.test, "/")
	final := n.test == "" || !slices.Contains(timed, short(n.pkg)) || slices.ContainsFunc(lines, never.MatchString)
	for i, f := range s.faults {
		if f.name == top {
			s.faults[i].final = f.final || final
			return
		}
	}
	s.faults = append(s.faults, failure{top, final})
}

// again is a line "PACKAGE TEST" for each failure, if all of them may be run again.
func (s *summary) again() []byte {
	var b bytes.Buffer
	if len(s.faults) > mostAgain {
		return nil
	}
	for _, f := range s.faults {
		if f.final {
			return nil
		}
		fmt.Fprintf(&b, "%s %s\n", f.pkg, f.test)
	}
	return b.Bytes()
}
