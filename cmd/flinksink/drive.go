package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink"
)

// paceOf is the interval that the sinks prefer, 0: the bridge's own.
func paceOf(outs []bridge.Output) time.Duration {
	var sinks []sink.Sink
	for _, o := range outs {
		sinks = append(sinks, o.Sink)
	}
	return sink.PaceOf(sinks...)
}

// drive runs a bridge: the guarantee first, progress meanwhile, the account at the end, whatever ended it. past, if not nil, may add to
// an error what gets past it.
func (c *call) drive(cmd *cobra.Command, r *reading, to *opened, o bridge.Options, past func(error, bridge.Status) error) error {
	in := r.in
	ctx := cmd.Context()
	out := cmd.OutOrStdout()
	p := newProgress(cmd.ErrOrStderr(), c.secrets)
	var b *bridge.Bridge
	began := time.Time{} // zero: not one row could have been read
	o.Connect, o.Store = c.patience, to.store
	o.Logger = slog.New(slog.NewTextHandler(p, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c.logger = o.Logger
	o.Hooks.Started = func(g sink.Guarantee) {
		began = time.Now()
		fmt.Fprintf(out, "bridge %q: %s into %s\nguarantee: %s\n", r.bridge, source(in), to.into(r.table), flags.Replace(g.String()))
		if pace := paceOf(to.outputs); o.Interval == 0 && pace > 0 {
			fmt.Fprintf(out, "checkpoints: every %s, so that files are large; rows are seen, and counted below, then (--interval)\n", pace)
		}
		scattered := o.Unordered && in.CheckOrder("", 2) != nil // perhaps of one partition: then the flag gives nothing up, and does no harm
		for _, c := range caveats(scattered, o.OnData, o.AllowMissedDeletes) {
			fmt.Fprintf(out, "but for %s\n", c)
		}
		m := &meter{status: func() bridge.Status { return b.Status() }, looks: []look{{at: began}}}
		p.start(m.line)
	}
	b, err := bridge.NewMany(r.bridge, []bridge.Input{in}, to.outputs, &o)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		io.WriteString(p, "flinksink: stopping with a checkpoint; a second signal ends at once\n")
	})
	err = b.Run(ctx)
	stop()
	p.end()
	if began.IsZero() {
		return err
	}
	status := b.Status()
	if o.UntilEnd && err == nil {
		lookAgain(context.WithoutCancel(ctx), in, &status)
	}
	halted := err
	if interrupted(ctx) && (err == nil || errors.Is(err, errInterrupted)) {
		halted, err = errInterrupted, nil
		if o.UntilEnd && len(status.Left) > 0 {
			err = fmt.Errorf("%w before the end was reached: what the account lists is saved, and the next run of this bridge goes on from there", errInterrupted)
		}
	}
	if werr := writeAccount(out, status, time.Since(began), ending(halted, o.UntilEnd, to.written())); werr != nil && err == nil {
		err = werr
	}
	if past != nil && err != nil {
		err = past(err, status)
	}
	return err
}

// source names what a bridge reads.
func source(in bridge.Input) string {
	switch {
	case in.Pattern != "":
		return "topics like " + in.Pattern
	case len(in.Topics) == 1:
		return "topic " + in.Topics[0]
	}
	return "topics " + strings.Join(in.Topics, ", ")
}

// ending says in a few words why a bridge ended.
func ending(err error, untilEnd bool, written string) string {
	switch {
	case errors.Is(err, errInterrupted):
		return "stopped by a signal"
	case err != nil:
		return "stopped by the error below"
	case untilEnd:
		return "everything up to the last stable offsets at the start is " + written
	}
	return "stopped"
}

// meter makes the line of progress out of looks at a bridge. Rows count when their checkpoint is decided, so in steps; the rate is that
// of the last window.
type meter struct {
	status func() bridge.Status
	looks  []look // oldest first
}

type look struct {
	at   time.Time
	rows int64
}

const window = 5 * time.Second

// line returns what progress shows, in ASCII.
func (m *meter) line() string { return m.at(m.status(), time.Now()) }

func (m *meter) at(s bridge.Status, now time.Time) string {
	for len(m.looks) > 1 && now.Sub(m.looks[1].at) >= window {
		m.looks = m.looks[1:]
	}
	rate := int64(0)
	if d := now.Sub(m.looks[0].at).Seconds(); d > 0 {
		rate = int64(float64(s.Counters.Applied-m.looks[0].rows) / d)
	}
	m.looks = append(m.looks, look{now, s.Counters.Applied})
	lag := "unknown"
	if n := s.Lag(); n >= 0 && len(s.Partitions) > 0 {
		lag = thousands(n)
	}
	line := fmt.Sprintf("%s rows, %s rows/s, lag %s, ", thousands(s.Counters.Applied), thousands(rate), lag)
	if s.LastCheckpoint.IsZero() {
		line += "no checkpoint yet"
	} else {
		line += fmt.Sprintf("checkpoint %d.%d %s ago", s.Last.Generation, s.Last.Checkpoint, now.Sub(s.LastCheckpoint).Round(100*time.Millisecond))
	}
	if n := waiting(s); n > 0 {
		line += fmt.Sprintf(", %s offsets wait behind an open transaction", thousands(n))
	}
	if s.Retries > 0 {
		line += fmt.Sprintf(", %d retries", s.Retries)
	}
	return line
}

func waiting(s bridge.Status) (n int64) {
	for _, p := range s.Waiting() {
		n += p.Waiting()
	}
	return n
}
