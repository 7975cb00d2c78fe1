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

	"github.com/flinksink/flinksink/bench/internal/rows"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch role := os.Getenv(roleEnv); role {
	case "":
		err = measure(ctx, os.Args[1:], os.Stdout)
	case roleBroker:
		err = serveBroker(ctx)
	case roleS3:
		err = serveS3(ctx, os.Stdin, os.Stdout)
	case roleFlow:
		err = flowChild(ctx, os.Stdin, os.Stdout)
	case roleApart:
		err = apartChild(ctx, os.Stdin, os.Stdout)
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

// everything is the sections that run when nobody asks for others.
const everything = "decode,formats,coordinator,postgres,small,guarantee,modes,lanes,fillfactor,memory,kafka,latency,s3,flat"

// bench is one run of this program.
type bench struct {
	out     io.Writer
	rounds  int
	rows    int    // of each phase of the sections that write to Postgres
	records int    // of section memory
	into    string // of section flat: "kafka", "s3" or "" for both
	profile string // folder for profiles of the bridge, "" for none
	quick   bool
	fixed   bool // rounds is what was asked for
	shapes  []*rows.Shape
	phases  int // of section postgres
	goals   []goal

	started *servers // by servers
	filled  map[string]*phase
	tables  int // made so far
}

// servers starts them once.
func (b *bench) servers(ctx context.Context) (*servers, error) {
	if b.started != nil {
		return b.started, nil
	}
	var err error
	b.started, err = startServers(ctx)
	return b.started, err
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

// verdicts prints the figures that were set, and what became of them.
func (b *bench) verdicts() {
	if len(b.goals) == 0 {
		return
	}
	b.say("\nTHE FIGURES THAT WERE SET")
	w := b.table("", "wanted", "measured", "95 % interval of the median", "")
	for _, g := range b.goals {
		sign := "≥"
		if g.most {
			sign = "≤"
		}
		line(w, g.what, fmt.Sprintf("%s %s %s", sign, number(g.want), g.unit), g.measured.String(), g.interval(), g.verdict())
	}
	flush(w)
}

// interval is for people.
func (g goal) interval() string {
	low, high, ok := g.measured.interval()
	if !ok {
		return "too few rounds"
	}
	return number(low) + " .. " + number(high)
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
	flags.BoolVar(&b.quick, "quick", false, "fewer rounds over fewer rows")
	only := flags.String("only", everything, "sections to run; waits is one more")
	shapes := flags.String("shapes", "narrow,wide", "rows that the sections with Postgres and s3 write; section flat takes the first")
	flags.IntVar(&b.rounds, "rounds", 0, "rounds, each contender once in each (default 7, and 11 in section guarantee; with -quick 3)")
	flags.IntVar(&b.phases, "phases", 3, "of section postgres, the first of: new keys, updates, deletes")
	flags.IntVar(&b.rows, "rows", 0, "narrow rows of each phase of the sections with Postgres, of wide ones a third (default 300,000, with -quick 60,000)")
	flags.IntVar(&b.records, "records", 0, "records of sections memory and flat, the longest journey (default 3,000,000, with -quick 400,000)")
	flags.StringVar(&b.into, "into", "", "target that section flat is measured into: kafka or s3 (default both)")
	flags.StringVar(&b.profile, "profile", "", "existing folder for profiles: CPU in sections postgres (of the bridge) and s3, heap in section memory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.into != "" && b.into != "kafka" && b.into != "s3" {
		return errors.New("-into is kafka or s3")
	}
	b.fixed = b.rounds > 0
	rounds, n, records := 7, 300_000, 3_000_000
	if b.quick {
		rounds, n, records = 3, 60_000, 400_000
	}
	orDefault(&b.rounds, rounds)
	orDefault(&b.rows, n)
	orDefault(&b.records, records)
	if b.rounds < 1 || b.rows < 1 || b.phases < 1 || b.records < 1 || flags.NArg() > 0 {
		return errors.New("-rounds, -rows, -phases and -records are numbers above 0, and there are no arguments beside the flags: see -h")
	}
	for n := range strings.SplitSeq(*shapes, ",") {
		switch n {
		case "narrow":
			b.shapes = append(b.shapes, rows.Narrow())
		case "wide":
			b.shapes = append(b.shapes, rows.Wide())
		default:
			return fmt.Errorf("-shapes: there is no shape %q: they are narrow and wide", n)
		}
	}
	sections := map[string]func(context.Context) error{
		"decode": b.decode, "formats": b.formats, "coordinator": b.coordinator, "postgres": b.postgres, "small": b.small,
		"guarantee": b.guarantee, "kafka": b.kafkaToKafka, "latency": b.kafkaLatency, "s3": b.toS3, "flat": b.flat, "modes": b.modes, "lanes": b.lanes, "fillfactor": b.fillfactor, "waits": b.waits, "memory": b.memory}
	names := strings.Split(*only, ",")
	for _, n := range names {
		if sections[n] == nil {
			return fmt.Errorf("-only: there is no section %q", n)
		}
	}

	defer func() {
		if b.started != nil {
			b.started.stop()
		}
	}()
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
	b.verdicts()
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
