// Command multi writes one topic into three places by one decision: a Postgres table, files in a bucket, and a search index. It needs nothing but Go:
//
//	go run ./examples/multi
//
// It brings up a broker and stand-ins for S3 and Elasticsearch in this process, and a real Postgres; FLINKSINK_S3 and FLINKSINK_ELASTIC name real servers to use
// in place of the stand-ins. Then it runs the bridge (bridge.go) in
// processes of its own and kills each of them with SIGKILL at another step of a checkpoint: after each sink has prepared its part, before and after
// the decision, between two commits, and in the middle of requests. After each kill it shows what readers of the three places see. In the
// end all three must hold exactly what the topic says; the exit status is 1 if they do not.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if os.Getenv(brokerEnv) != "" {
		err = child(ctx)
	} else {
		err = demonstrate(ctx, os.Stdout)
	}
	stop()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "multi:", err)
		os.Exit(1)
	}
}

// demonstrate kills a bridge at every step, lets the last one finish, and compares.
func demonstrate(ctx context.Context, out io.Writer) error {
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	w, err := newWorld(ctx, say)
	if err != nil {
		return err
	}
	defer w.close()
	say("\nOne topic into Postgres, a bucket and a search index. Each line is a process that was killed at that step, and what readers see then:\n")
	say("  %-44s%10s%10s%10s%10s", "killed", "topic", "postgres", "lake", "search")
	for _, d := range deaths() {
		if err := w.produce(ctx, 40); err != nil {
			return err
		}
		if err := w.die(ctx, d); err != nil {
			return fmt.Errorf("killed %s: %w", d, err)
		}
		seen, err := w.see(ctx)
		if err != nil {
			return err
		}
		say("  %-44s%10d%10d%10d%10d", d, len(w.rows), len(seen.postgres), len(seen.lake), len(seen.search))
		// A reader of Postgres may be behind one of the lake by nothing: the files of a checkpoint become visible after its rows.
		if seen.files > seen.saved {
			return fmt.Errorf("killed %s: the lake shows offsets up to %d of which Postgres has decided %d", d, seen.files, seen.saved)
		}
	}
	if err := w.finish(ctx); err != nil {
		return err
	}
	seen, err := w.see(ctx)
	if err != nil {
		return err
	}
	say("  %-44s%10d%10d%10d%10d\n", "not at all: it read to the end", len(w.rows), len(seen.postgres), len(seen.lake), len(seen.search))
	if err := w.compare(seen); err != nil {
		return err
	}
	say("All three hold the %d rows that the topic's %d messages come to, and none other.", len(w.rows), w.messages)
	return nil
}
