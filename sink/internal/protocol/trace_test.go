package protocol

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

var rewrite = flag.Bool("rewrite", false, "write what the machine does into testdata/*.txt; explain the difference in the commit")

// Each file of testdata is one run: lines that begin with ">" are events, the lines after them the effects they lead to, "#" is
// prose. The first line that is neither sets up the machine: "lane with N sinks".
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
	var w *watcher
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
			m = New(Settings{Sinks: sinks, Attempts: 3, AlarmAfter: 2})
			w = &watcher{sinks: sinks}
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "> "):
			e, err := parseEvent(line[2:])
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
			}
		}
	}
	return out.String()
}

func parseEvent(s string) (Event, error) {
	word, rest, _ := strings.Cut(s, " ")
	switch {
	case word == "assign":
		ps, err := parsePartitions(rest)
		return Assign{ps}, err
	case word == "revoke":
		ps, err := parsePartitions(rest)
		return Revoke{ps}, err
	case word == "lose":
		ps, err := parsePartitions(rest)
		return Lose{ps}, err
	case strings.HasPrefix(s, "advance to "):
		ps, err := parsePositions(s[len("advance to "):])
		return Advance{ps}, err
	case strings.HasPrefix(s, "begun at "):
		ps, err := parsePositions(s[len("begun at "):])
		return Begun{ps}, err
	case strings.HasPrefix(s, "write to sink "):
		var e WriteFailed
		head, read, _ := strings.Cut(s, ", read ")
		var class string
		if _, err := fmt.Sscanf(head, "write to sink %d failed: %s", &e.Sink, &class); err != nil {
			return nil, err
		}
		var err error
		if e.Class, err = parseClass(class); err != nil {
			return nil, err
		}
		e.Read, err = parsePartitions(read)
		return e, err
	case strings.HasPrefix(s, "acquired generation "):
		head, list, _ := strings.Cut(s, ", ended ")
		var e Acquired
		num, at, _ := strings.Cut(head[len("acquired generation "):], " at ")
		var err error
		if e.Generation, err = strconv.ParseInt(num, 10, 64); err != nil {
			return nil, err
		}
		if e.Positions, err = parsePositions(at); err != nil {
			return nil, err
		}
		list = strings.ReplaceAll(list, " decided)", ")")
		for _, g := range strings.Fields(list) {
			var x Ended
			if strings.Contains(g, "(") {
				_, err = fmt.Sscanf(g, "%d(%d)", &x.Generation, &x.Decided)
			} else {
				x.Generation, err = strconv.ParseInt(g, 10, 64)
			}
			if err != nil {
				return nil, err
			}
			e.Ended = append(e.Ended, x)
		}
		return e, nil
	case strings.HasPrefix(s, "opened sink "):
		n, err := strconv.Atoi(s[len("opened sink "):])
		return Opened{n}, err
	case strings.HasPrefix(s, "prepared sink "):
		num, empty := strings.CutSuffix(s[len("prepared sink "):], ", nothing to commit")
		n, err := strconv.Atoi(num)
		return Prepared{n, empty}, err
	case strings.HasPrefix(s, "ended, last saved "):
		n, err := strconv.ParseInt(s[len("ended, last saved "):], 10, 64)
		return AllEnded{n}, err
	case strings.HasPrefix(s, "failed: "):
		c, err := parseClass(s[len("failed: "):])
		return Failed{c}, err
	case strings.HasPrefix(s, "recover, read "):
		ps, err := parsePartitions(s[len("recover, read "):])
		return Recover{ps}, err
	}
	for _, e := range []Event{Barrier{}, Recover{}, Interrupt{}, Sought{}, Saved{}, Committed{}, Discarded{}, Aborted{}, Confirmed{true}, Confirmed{}, Waited{}} {
		if fmt.Sprint(e) == s {
			return e, nil
		}
	}
	return nil, fmt.Errorf("%q is no event", s)
}

func parseClass(s string) (Class, error) {
	for i, n := range classNames {
		if n == s {
			return Class(i), nil
		}
	}
	return 0, fmt.Errorf("%q is no class", s)
}

func parsePartitions(s string) (out []changelog.Partition, err error) {
	if s == "nothing" || s == "" {
		return nil, nil
	}
	for _, f := range strings.Fields(s) {
		topic, num, ok := strings.Cut(f, "/")
		n, err := strconv.ParseInt(num, 10, 32)
		if !ok || err != nil {
			return nil, fmt.Errorf("%q is no partition", f)
		}
		out = append(out, changelog.Partition{Topic: topic, Partition: int32(n)})
	}
	return out, nil
}

func parsePositions(s string) (out []changelog.Position, err error) {
	if s == "nothing" || s == "" {
		return nil, nil
	}
	for _, f := range strings.Fields(s) {
		part, num, ok := strings.Cut(f, "@")
		ps, err := parsePartitions(part)
		if err != nil || !ok {
			return nil, fmt.Errorf("%q is no position", f)
		}
		o, err := strconv.ParseInt(num, 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, changelog.Position{Partition: ps[0], Offset: o})
	}
	return out, nil
}
