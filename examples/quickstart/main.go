// Command quickstart shows what flinksink is for, on a machine with nothing but Go:
//
//	go run ./examples/quickstart
//
// It brings up a Kafka broker (in this process), a real Postgres, and two topics that a Flink job wrote. Then it runs a bridge in a process of
// its own and kills that process, again and again, in the middle of its work. Then the same with the lines that one usually
// writes instead. In the end it compares every row with what Flink itself says the tables hold.
//
// The exit status is 1 when the bridge lost, doubled or resurrected a row, or did not finish. What becomes of the usual lines is told and
// does not count.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/internal/capture"
	"github.com/flinksink/flinksink/testbed/postgres"
)

// The Postgres schemas of the two programs' tables.
const (
	exact = "exact"
	usual = "usual"
)

// kills is how often each program is killed, unless it is finished before.
const kills = 20

// bytesPerCopy is about what the 500 rows of one copy take in a Postgres table.
const bytesPerCopy = 500 * 52

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if role := os.Getenv(roleEnv); role != "" {
		err = child(ctx, role)
	} else {
		err = demonstrate(ctx, os.Stdout)
	}
	stop()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// child is the process that is killed.
func child(ctx context.Context, role string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the parent is gone
	}()
	pool, err := pgxpool.New(ctx, os.Getenv(dsnEnv))
	if err != nil {
		return err
	}
	defer pool.Close()
	switch role {
	case exact:
		return runBridges(ctx, os.Getenv(brokerEnv), pool)
	case usual:
		return runUsual(ctx, os.Getenv(brokerEnv), pool)
	}
	return fmt.Errorf("no such role: %s", role)
}

func demonstrate(ctx context.Context, out io.Writer) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	say("flinksink quickstart: two topics that Flink wrote, into Postgres, through one kill -9 after another\n")

	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return err
	}
	defer broker.Close()
	w := &world{out: out, broker: broker.ListenAddrs()[0], records: map[string][]capture.Record{}}
	say("  broker    kfake, in this process, at %s", w.broker)

	server, err := postgres.Start(ctx, postgres.Options{Log: func(format string, args ...any) { say("  postgres  "+format, args...) }})
	if err != nil {
		return err
	}
	defer server.Stop()
	say("  postgres  %s", server.Origin())
	drop, err := w.makeDatabase(ctx, server.DSN())
	if err != nil {
		return err
	}
	defer drop()

	cl, err := kgo.NewClient(kgo.SeedBrokers(w.broker))
	if err != nil {
		return err
	}
	defer cl.Close()
	w.adm = kadm.NewClient(cl)
	aborted, err := w.load(ctx, say)
	if err != nil {
		return err
	}

	p := plan{kills: kills, seed: rand.Uint64(), total: progressTopic().copies * bytesPerCopy}
	var results []result
	say("\n1. A bridge (examples/quickstart/bridge.go). Each x is a kill -9 in the middle of its work:")
	r, err := w.perform(ctx, "flinksink", exact, nil, p)
	if err != nil {
		return err
	}
	results = append(results, r...)
	say("\n2. The usual lines (examples/quickstart/usual.go), killed in the same way:")
	r, err = w.perform(ctx, "usual lines", usual, w.usualFinished, p)
	switch {
	case err == nil:
		results = append(results, r...)
	case ctx.Err() != nil:
		return err
	default: // what they left unfinished is no loss, so there is nothing to compare
		say("   They did not come to their end, and are left out below. What the bridge did stands:\n   %v", err)
	}

	say("\nEvery row, compared with what Flink itself read from these topics:\n")
	printTable(out, results)
	explain(say, results, aborted)
	for _, r := range results {
		if r.program == "flinksink" && !r.right() {
			return errors.New("the bridge's table is wrong; please report this, with what is printed above")
		}
	}
	return nil
}

// perform runs one program through its kills and compares its tables.
func (w *world) perform(ctx context.Context, program, schema string, finished func(context.Context) (bool, error), p plan) ([]result, error) {
	if finished == nil { // the program ends by itself
		finished = func(context.Context) (bool, error) { return false, nil }
	}
	// Counting rows takes longer than writing some thousands of them. The size of the table's file is to be had at once, and grows
	// with rows whose transaction is still open, so that kills hit those too.
	grown := func(ctx context.Context) (bytes int, err error) {
		err = w.pool.QueryRow(ctx, "SELECT pg_relation_size($1::text::regclass)", schema+"."+progressTopic().table).Scan(&bytes)
		return bytes, err
	}
	began := time.Now()
	fmt.Fprint(w.out, "   ")
	n, err := w.crash(ctx, schema, grown, finished, p, func() { fmt.Fprint(w.out, "x ") })
	if err != nil {
		fmt.Fprintf(w.out, "stopped: killed %d times, started %d times, %.1f s\n", n, n+1, time.Since(began).Seconds())
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	fmt.Fprintf(w.out, "done: killed %d times, started %d times, %.1f s\n", n, n+1, time.Since(began).Seconds())
	if n < p.kills/4 { // a machine may be too busy for all of them
		fmt.Fprintf(w.out, "   That was finished after %d kills, which shows little; run it again.\n", n)
	}
	var results []result
	for _, t := range topics() {
		expected, err := t.expected()
		if err != nil {
			return nil, err
		}
		found, err := read(ctx, w.pool, schema, t)
		if err != nil {
			return nil, err
		}
		results = append(results, result{program: program, table: t.table, account: compare(expected, found)})
	}
	return results, nil
}
