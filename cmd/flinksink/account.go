package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
)

// writeAccount prints what a run did: every change that was read is accounted for, every partition has its position.
func writeAccount(w io.Writer, s bridge.Status, took time.Duration, ending string) error {
	var b strings.Builder
	n := s.Counters
	line := func(what, format string, a ...any) { fmt.Fprintf(&b, "%-12s %s\n", what, fmt.Sprintf(format, a...)) }
	line("account", "%s", ending)
	line("records", "%d", n.Records)
	line("changes", "%d read: %d applied, %d superseded, %d skipped, %d dead-lettered", n.Read, n.Applied, n.Superseded, n.Skipped, n.DeadLettered)
	if s.Checkpoints == 0 {
		line("checkpoints", "none")
	} else {
		line("checkpoints", "%d, the last %d.%d", s.Checkpoints, s.Last.Generation, s.Last.Checkpoint)
	}
	what := "positions"
	for _, p := range s.Partitions {
		line(what, "%s", position(p))
		what = ""
	}
	if len(s.Partitions) == 0 {
		line(what, "none: no partition was assigned")
	}
	if n := waiting(s); n > 0 {
		line("waiting", "%d offsets behind an open transaction: they are read once it ends", n)
	}
	if s.Retries > 0 {
		line("retries", "%d", s.Retries)
	}
	rate := ""
	if took > 0 && n.Applied > 0 {
		rate = fmt.Sprintf(", %.0f rows/s", float64(n.Applied)/took.Seconds())
	}
	line("time", "%s%s", took.Round(time.Millisecond), rate)
	_, err := io.WriteString(w, b.String())
	return err
}

// position says where a partition is, and what of it is still to come.
func position(p bridge.PartitionStatus) string {
	text := p.Partition.String()
	if p.Saved < 0 {
		return text + " not begun: what is stored for it stands" // nothing is known of the store before a lane has acquired the partition
	}
	text += fmt.Sprintf(" %d", p.Saved)
	if p.HighWatermark < 0 {
		return text
	}
	var rest []string
	// What lies below the last stable offset can be read; only what lies behind it waits.
	if behind := p.Lag() - p.Waiting(); behind > 0 {
		rest = append(rest, fmt.Sprintf("%d to be read", behind))
	}
	if n := p.Waiting(); n > 0 {
		rest = append(rest, fmt.Sprintf("%d behind an open transaction", n))
	}
	if rest == nil {
		return text + ", its end"
	}
	return text + fmt.Sprintf(" of %d: ", p.HighWatermark) + strings.Join(rest, ", ")
}

// lookAgain asks the brokers once more where the partitions end: a partition without a readable record was never fetched from, and a
// bridge that ends at once has no time to look. What cannot be asked stays as it was.
func lookAgain(ctx context.Context, in bridge.Input, s *bridge.Status) {
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	cl, err := kgo.NewClient(slices.Clone(in.Client)...)
	if err != nil {
		return
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	seen := map[string]bool{}
	var topics []string
	for _, p := range s.Partitions {
		if !seen[p.Topic] {
			seen[p.Topic] = true
			topics = append(topics, p.Topic)
		}
	}
	if len(topics) == 0 {
		return
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return
	}
	stable, err := adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		end, ok := ends.Lookup(p.Topic, p.Partition.Partition)
		last, ok2 := stable.Lookup(p.Topic, p.Partition.Partition)
		if ok && ok2 && end.Err == nil && last.Err == nil {
			p.HighWatermark, p.LastStableOffset = end.Offset, last.Offset
		}
	}
}
