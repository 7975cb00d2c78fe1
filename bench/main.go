package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch role := os.Getenv(roleEnv); role {
	case "":
		err = measure(ctx, os.Args[1:], os.Stdout)
	case roleBroker:
		err = serveBroker(ctx)
	case roleMemory:
		err = memoryChild(ctx, os.Stdout)
	default:
		err = errors.New(roleEnv + " is set to a role that does not exist: unset it")
	}
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of this program.
type bench struct {
	out     io.Writer
	rounds  int
	rows    int    // of each phase of section postgres
	records int    // of section memory
	profile string // folder for profiles of the bridge, "" for none
	quick   bool
	goals   []goal
}

// goal is a figure that was set before anything was measured.
type goal struct {
	what     string
	unit     string
	want     float64
	most     bool // want is the most, not the least
	measured figure
}

// verdict is of the median. A median on the wrong side, of rounds that lie on both, shows nothing.
func (g goal) verdict() string {
	good := func(x float64) bool { return x == g.want || g.most == (x < g.want) }
	switch {
	case good(g.measured.median()):
		return "met"
	case slices.ContainsFunc(g.measured, good):
		return "not met, but within the spread"
	}
	return "missed"
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

func (b *bench) goal(what, unit string, want float64, measured ...float64) {
	b.goals = append(b.goals, goal{what: what, want: want, measured: measured, unit: unit})
}

func (b *bench) atMost(what, unit string, want float64, measured ...float64) {
	b.goals = append(b.goals, goal{what: what, want: want, measured: measured, most: true, unit: unit})
}

func measure(ctx context.Context, args []string, out io.Writer) error {
	b := &bench{out: out}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&b.quick, "quick", false, "fewer rounds over fewer rows, in less than a minute")
	only := flags.String("only", "decode,coordinator,postgres,memory", "sections to run")
	flags.IntVar(&b.rounds, "rounds", 0, "rounds, each contender once in each (default 7, with -quick 3)")
	flags.IntVar(&b.rows, "rows", 0, "rows of each phase of section postgres (default 150,000, with -quick 80,000)")
	flags.IntVar(&b.records, "records", 0, "records of section memory (default 3,000,000, with -quick 400,000)")
	flags.StringVar(&b.profile, "profile", "", "existing folder for profiles of the bridge: CPU in section postgres, heap in section memory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	rounds, rows, records := 7, 150_000, 3_000_000
	if b.quick {
		rounds, rows, records = 3, 80_000, 400_000
	}
	orDefault(&b.rounds, rounds)
	orDefault(&b.rows, rows)
	orDefault(&b.records, records)
	if b.rounds < 1 || b.rows < 1 || b.records < 1 || flags.NArg() > 0 {
		return errors.New("-rounds, -rows and -records are numbers above 0, and there are no arguments beside the flags: see -h")
	}
	sections := map[string]func(context.Context) error{
		"decode": b.decode, "coordinator": b.coordinator, "postgres": b.postgres, "memory": b.memory}
	names := strings.Split(*only, ",")
	for _, n := range names {
		if sections[n] == nil {
			return fmt.Errorf("-only: there is no section %q", n)
		}
	}

	began := time.Now()
	b.say("flinksink bench: %s", machine())
	b.say("load average %s at the start", loadAverage())
	b.say("Figures: median of %d rounds [lowest .. highest]; contenders take turns. Ratios are taken within a round; where others use the machine", b.rounds)
	b.say("too, only they say anything, and CPU time, which is disturbed less than the clock.")
	for _, n := range names {
		if err := sections[n](ctx); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	b.say("\nTHE FIGURES THAT WERE SET")
	w := b.table("", "wanted", "measured", "")
	for _, g := range b.goals {
		sign := "≥"
		if g.most {
			sign = "≤"
		}
		line(w, g.what, fmt.Sprintf("%s %s %s", sign, number(g.want), g.unit), g.measured.String(), g.verdict())
	}
	flush(w)
	b.say("\ntook %.0f s; load average %s at the end", time.Since(began).Seconds(), loadAverage())
	return nil
}

func orDefault(p *int, n int) {
	if *p == 0 {
		*p = n
	}
}

// table begins a table with a line of headings.
func (b *bench) table(columns ...string) *tabwriter.Writer {
	w := tabwriter.NewWriter(b.out, 0, 0, 3, ' ', 0)
	line(w, columns...)
	return w
}

func line(w io.Writer, columns ...string) { fmt.Fprintln(w, "  "+strings.Join(columns, "\t")) }

func flush(w *tabwriter.Writer) { _ = w.Flush() } // a terminal that is gone is nobody's loss
