package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
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
		err = run(ctx, os.Args[1:])
	case roleOurs:
		err = bridgeMain(ctx)
	case roleLoop:
		err = loopMain(ctx)
	default:
		err = errors.New(roleEnv + " is set to a role that does not exist: unset it")
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// wants is what is asked of flinksink beside a peer, for inserts and for updates with deletes; 0: nothing.
var wants = map[string][2]float64{
	"copy":         {0.8, 0},
	"flink":        {4, 3},
	"bento-insert": {8, 0},
	"bento-array":  {8, 5},
}

type options struct {
	rows, rounds, batch int
	fillfactor          int
	limit               time.Duration
	only                []string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.IntVar(&o.rows, "rows", 1_000_000, "rows with new keys; there are half as many updates, and a tenth of those deletes")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, each contender once in each")
	flags.IntVar(&o.batch, "bento-batch", 1000, "rows of a batch of Bento, at most 16,000")
	flags.IntVar(&o.fillfactor, "fillfactor", 100, "of the table, 10 to 100; 70 is what flinksink makes tables that are updated with")
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "the longest run of a contender")
	only := flags.String("only", strings.Join(names(), ","), "contenders")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.only = strings.Split(*only, ",")
	for _, n := range o.only {
		if !slices.Contains(names(), n) {
			return o, fmt.Errorf("-only: there is no contender %q: they are %s", n, strings.Join(names(), ", "))
		}
	}
	if o.rows < 100 || o.rounds < 1 || o.batch < 1 || o.batch > 16_000 || o.fillfactor < 10 || o.fillfactor > 100 || o.limit <= 0 || flags.NArg() > 0 {
		return o, errors.New("-rows is at least 100, -rounds at least 1, -bento-batch 1 to 16,000, -fillfactor 10 to 100, -limit above 0, and there are no arguments beside the flags: see -h")
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	fmt.Printf("flinksink beside its peers: %s/%s, %d cores; load average %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load())
	s, err := startServers(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	s.fillfactor = o.fillfactor
	fmt.Printf("  broker: %s\n  %s\n  fillfactor of the tables: %d\n", s.broker, s.about, s.fillfactor)
	var peers []peer
	for _, p := range all(s, o) {
		if !slices.Contains(o.only, p.name) {
			continue
		}
		if p.get != nil {
			if err := p.get(ctx); err != nil {
				fmt.Printf("  %s is LEFT OUT: %v\n", p.name, err)
				continue
			}
		}
		peers = append(peers, p)
	}
	if len(peers) == 0 {
		return errors.New("no contender is left")
	}
	defer s.stopFlink()
	jobs, err := s.fill(ctx, o.rows)
	if err != nil {
		return err
	}
	if err := s.warm(ctx, jobs[0]); err != nil {
		return err
	}
	rates := make([]map[string][]float64, len(jobs))
	cpu := make([]map[string][]float64, len(jobs))
	server := make([]map[string][]float64, len(jobs))
	notes := map[string]string{}
	for n, j := range jobs {
		rates[n], cpu[n], server[n] = map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
		for round := range o.rounds {
			for k := range peers {
				p := peers[(round+k)%len(peers)]
				if n >= p.jobs {
					continue
				}
				r, err := s.race(ctx, p, j, o.limit)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				key := fmt.Sprint(p.name, n)
				if err != nil {
					notes[key] = err.Error()
					fmt.Printf("    %s, %s: %v\n", j.name, p.name, err)
					rates[n][p.name] = append(rates[n][p.name], math.NaN())
					continue
				}
				fmt.Printf("    %s, %s: %.2f s after %.1f s of start-up; load average %s\n", j.name, p.name, r.took.Seconds(), r.start.Seconds(), load())
				rates[n][p.name] = append(rates[n][p.name], float64(j.records)/r.took.Seconds())
				for _, c := range []struct {
					used time.Duration
					of   map[string][]float64
				}{{r.cpu, cpu[n]}, {r.server, server[n]}} {
					if c.used > 0 {
						c.of[p.name] = append(c.of[p.name], float64(c.used.Microseconds())/float64(j.records))
					}
				}
			}
		}
	}
	for n, j := range jobs {
		fmt.Printf("\n%s: %d records\n", strings.ToUpper(j.name), j.records)
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
		fmt.Fprintln(w, "  \trecords/s\tof COPY\tflinksink ÷ it\twanted\tCPU µs a record\tPostgres's for it\t")
		for _, p := range peers {
			if n >= p.jobs {
				continue
			}
			want := "-"
			if x := wants[p.name][n]; x > 0 {
				want = fmt.Sprintf("≥ %g", x)
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.label, spread(rates[n][p.name], "%.0f"), spread(over(rates[n][p.name], rates[n]["copy"]), "%.2f"),
				spread(over(rates[n]["flinksink"], rates[n][p.name]), "%.2f"), want, spread(cpu[n][p.name], "%.1f"), spread(server[n][p.name], "%.1f"), notes[fmt.Sprint(p.name, n)])
		}
		_ = w.Flush()
	}
	fmt.Printf("\nmedian [lowest .. highest] of %d rounds, ratios within a round; CPU is the contender's own, and that of its sessions with Postgres; load average %s\n", o.rounds, load())
	return nil
}

// over divides round by round; a round that one of them did not finish is left out.
func over(f, g []float64) (q []float64) {
	for i := range min(len(f), len(g)) {
		q = append(q, f[i]/g[i])
	}
	return q
}

// spread is the median with the lowest and the highest.
func spread(f []float64, format string) string {
	s := slices.DeleteFunc(slices.Sorted(slices.Values(f)), math.IsNaN)
	switch len(s) {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf(format, s[0])
	}
	return fmt.Sprintf(format+" ["+format+" .. "+format+"]", (s[(len(s)-1)/2]+s[len(s)/2])/2, s[0], s[len(s)-1])
}

// load is the load average of the last minute, where the system tells it.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); len(f) > 0 {
		return f[0]
	}
	return "unknown"
}
