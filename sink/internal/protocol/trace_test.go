package protocol

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the machine does into testdata/*.txt; explain the difference in the commit")

// Each file of testdata is one run: lines that begin with ">" are events, the lines after them the effects they lead to, "#" is
// prose. The first line that is neither sets up the machine: "lane with N sinks", or "lane with
// N sinks in a group" where a consumer group assigns the partitions.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d traces found, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(text))
			if *rewrite {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("the machine does not do what %s says; it does:\n%s", f, got)
			}
		})
	}
}

// replay runs the events of a trace and returns the trace with the effects that came out.
func replay(t *testing.T, text string) string {
	var out strings.Builder
	var m *Machine
	var w *checker
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "#") || line == "":
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "lane with "):
			f := strings.Fields(line)
			sinks, err := strconv.Atoi(f[2])
			if err != nil {
				t.Fatalf("line %d: %v", n+1, err)
			}
			cfg := Settings{Sinks: sinks, Attempts: 3, AlarmAfter: 2, Group: strings.HasSuffix(line, " in a group"), Outer: strings.HasSuffix(line, " under an outer engine")}
			if strings.HasSuffix(line, " that stops after 3 tries") {
				cfg.StopAfter = 3
			}
			m, w = New(cfg), newChecker(cfg)
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "> "):
			e, err := ParseEvent(line[2:])
			if err != nil {
				t.Fatalf("line %d: %v", n+1, err)
			}
			if back := fmt.Sprint(e); back != line[2:] {
				t.Fatalf("line %d: %q parses to %q", n+1, line[2:], back)
			}
			out.WriteString(line + "\n")
			fx := m.Step(e)
			if err := w.step(e, fx); err != nil {
				t.Fatalf("line %d: %v", n+1, err)
			}
			for _, f := range fx {
				fmt.Fprintf(&out, "%v\n", f)
				if back, err := ParseEffect(fmt.Sprint(f)); err != nil || fmt.Sprint(back) != fmt.Sprint(f) {
					t.Fatalf("line %d: %q does not parse back: %v", n+1, fmt.Sprint(f), err)
				}
			}
		}
	}
	return out.String()
}
