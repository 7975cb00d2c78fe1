package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/flinksink/flinksink/bench/internal/turns"
)

func main() {
	rounds := flag.Int("rounds", 7, "rounds, each contender once in each")
	each := flag.Duration("for", 100*time.Millisecond, "how long a contender runs in a round")
	only := flag.String("only", "", "groups to measure, separated by commas; all where it is empty")
	flag.Parse()
	if err := run(*rounds, *each, *only); err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

// messages is how many different ones a contender goes through: more than the branch predictor learns by heart.
const messages = 20_000

func run(rounds int, each time.Duration, only string) error {
	var out []turns.Group
	for _, name := range groups() {
		if only != "" && !containsName(only, name) {
			continue
		}
		g, err := newGroup(name, messages)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := g.check(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		g.rows = nil // they are not needed any more, and the collector would look at them
		measured, err := g.measure(rounds, each)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, measured)
	}
	if len(out) == 0 {
		return errors.New("-only names no group; they are " + strings.Join(groups(), ", "))
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func containsName(list, name string) bool {
	for _, n := range strings.Split(list, ",") {
		if n == name {
			return true
		}
	}
	return false
}

// check compares what each contender makes of the messages with the rows that they were made of.
func (g *group) check() error {
	if err := g.ours.check(g.rows); err != nil {
		return fmt.Errorf("flinksink: %w", err)
	}
	for _, r := range g.rivals {
		got := make([]order, 0, len(g.rows))
		if err := r.decode(g.ours.messages, &got); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		if len(got) != len(g.rows) {
			return fmt.Errorf("%s: %d rows of %d", r.name, len(got), len(g.rows))
		}
		for i := range got {
			if got[i] != g.rows[i] {
				return fmt.Errorf("%s: message %s\nis read as %+v\nand is      %+v", r.name, g.ours.messages[i/g.ours.changes], got[i], g.rows[i])
			}
		}
	}
	return nil
}

func (g *group) measure(rounds int, each time.Duration) (turns.Group, error) {
	o := g.ours
	entries := []turns.Entry{{Name: "flinksink", Role: turns.Decode}}
	cs := []turns.Contender{{Name: "flinksink", Run: turns.For(each, len(o.messages), o.decode)}}
	if o.encoder != nil {
		entries = append(entries, turns.Entry{Name: "flinksink, written again", Role: turns.Encode})
		cs = append(cs, turns.Contender{Name: "flinksink, written again", Run: turns.For(each, len(o.rows), o.encode)})
	}
	for _, r := range g.rivals {
		entries = append(entries, turns.Entry{Name: r.name, Role: turns.Rival, Apart: r.apart})
		cs = append(cs, turns.Contender{Name: r.name, Run: turns.For(each, len(o.messages), func() error {
			got := make([]order, 0, o.changes*len(o.messages)) // who takes rows of ours may keep them too: a batch's memory is not used again
			return r.decode(o.messages, &got)
		})})
	}
	rs, err := turns.OnOneCore(rounds, cs)
	if err != nil {
		return turns.Group{}, err
	}
	for i := range entries {
		entries[i].Result = rs[i]
	}
	size := 0
	for _, m := range o.messages {
		size += len(m)
	}
	return turns.Group{Name: g.name, Bytes: size / len(o.messages), Want: g.want, Allocs: g.allocs, Entries: entries}, nil
}
