// Command testsummary reads what go test -json prints and tells it in a form to read: a line for each package with its time, all output
// of what failed, a line for each test that was skipped with its reason. It writes "PASSED FAILED SKIPPED" to the first line of FILE, counting
// tests that are no subtests, and after it what to show again at the very end: each failure with the end of its output. A package that does
// not compile, or ends early, is a failed test. Exit status 1 when anything failed.
//
// FILE.again lists "PACKAGE TEST" for each failure that one more run may call unsteady, which ./test explains (again.go).
//
//	go test -json ./... | testsummary FILE
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go test -json ./... | testsummary FILE")
		os.Exit(2)
	}
	s, err := summarise(os.Stdin, os.Stdout)
	if err == nil {
		err = os.WriteFile(os.Args[1], fmt.Appendf(nil, "%d %d %d\n%s", s.passed, s.failed, s.skipped, s.failures.Bytes()), 0o644)
	}
	if err == nil {
		err = os.WriteFile(os.Args[1]+".again", s.again(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	if err != nil || s.failed > 0 {
		os.Exit(1)
	}
}

// event is a line of go test -json (go doc test2json), or of the build before it.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
	Elapsed    float64
}

type name struct{ pkg, test string }

func (n name) top() bool { return n.test != "" && !strings.Contains(n.test, "/") }

type summary struct {
	passed, failed, skipped int
	failures                bytes.Buffer
	faults                  []failure
}

// fail remembers a failure: its name and the end of what it printed.
func (s *summary) fail(n name, lines []string) {
	fmt.Fprintf(&s.failures, "failed: %s %s\n", short(n.pkg), n.test)
	show(&s.failures, lines[max(0, len(lines)-failureLines):])
}

// shuffled remembers the order of a package's tests: go test -shuffle=SEED repeats it.
func (s *summary) shuffled(pkg string, lines []string) {
	for _, l := range lines {
		if strings.HasPrefix(l, "-test.shuffle ") {
			fmt.Fprintf(&s.failures, "failed: %s: %s\n", short(pkg), strings.TrimSpace(l))
		}
	}
}

// failureLines of a failed test are shown again at the end.
const failureLines = 40

func summarise(in io.Reader, out io.Writer) (s summary, err error) {
	output := map[name][]string{}
	failures := map[string]int{} // tests by package
	var skips []string
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var e event
		if json.Unmarshal(sc.Bytes(), &e) != nil { // not of go test; it is worth seeing
			fmt.Fprintf(out, "  %s\n", sc.Text())
			continue
		}
		n := name{e.Package, e.Test}
		switch e.Action {
		case "output":
			output[n] = append(output[n], e.Output)
		case "build-output":
			fmt.Fprintf(out, "  | %s", e.Output)
			fmt.Fprintf(&s.failures, "  | %s", e.Output)
		case "pass", "fail", "skip":
			if e.Test != "" {
				switch {
				case e.Action == "fail":
					if n.top() {
						s.failed++
						failures[e.Package]++
					}
					s.blame(n, output[n])
					show(out, output[n])
					s.fail(n, output[n])
				case n.top() && e.Action == "pass":
					s.passed++
				case n.top():
					s.skipped++
					skips = append(skips, fmt.Sprintf("%s %s: %s", short(e.Package), e.Test, reason(output[n])))
				}
				delete(output, n)
				continue
			}
			word := map[string]string{"pass": "ok", "fail": "FAIL", "skip": "no tests"}[e.Action]
			if e.Action == "fail" && failures[e.Package] == 0 { // no test is to blame: it did not compile, or ended early
				s.failed++
				s.blame(name{pkg: e.Package}, nil)
				for other, lines := range output {
					if other.pkg == e.Package {
						show(out, lines)
						s.fail(other, lines)
					}
				}
			}
			if e.Action == "fail" {
				s.shuffled(n.pkg, output[n])
			}
			if e.Action != "skip" {
				fmt.Fprintf(out, "  %-58s%-4s  %4.0fs\n", short(e.Package), word, e.Elapsed)
			}
			delete(output, n)
		}
	}
	slices.Sort(skips)
	for _, skip := range skips {
		fmt.Fprintf(out, "  skipped: %s\n", skip)
	}
	return s, sc.Err()
}

func short(pkg string) string {
	if s := strings.TrimPrefix(pkg, "github.com/flinksink/flinksink/"); s != "github.com/flinksink/flinksink" {
		return s
	}
	return "."
}

// show prints the output of a test without the lines that say only that it runs.
func show(out io.Writer, lines []string) {
	for _, l := range lines {
		if !strings.HasPrefix(l, "=== ") {
			fmt.Fprintf(out, "  | %s\n", strings.TrimRight(l, "\n"))
		}
	}
}

// reason is the last thing that a skipped test said.
func reason(lines []string) string {
	for _, l := range slices.Backward(lines) {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "---") && !strings.HasPrefix(l, "===") {
			return l
		}
	}
	return "no reason given"
}
