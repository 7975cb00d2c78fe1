package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

// This file compares the files of a bridge with its topic.
//
// Files are read by their manifests, so of committed checkpoints alone. A manifest says which offsets its checkpoint covers; the changes of these
// offsets, written as the sink writes them, have to be the rows of its files, in whatever order. What is kept of a checkpoint is a count and a sum of
// hashes, so memory does not grow with rows, and a difference is found by its checkpoint. Files that were merged are compared with all offsets together
// that no manifest covers any more. What is decided and not yet committed, and what was set aside as a dead letter, is left out.
//
// A bridge may have been given another format or compression between two runs, so each file is read by what its name says it is, and the changes of its
// offsets are written in the same format to be compared with it. Merged files of several formats are one lot each: which offsets are of which, the
// manifests tell that they replaced.

// lot is what is compared as one: the rows of a checkpoint, or of all that were merged.
type lot struct {
	name       string
	format     string // of its files; "": it has none
	unlike     string // why its rows cannot be compared; "": they can
	from, to   []s3sink.Offset
	want, have rowSum
	bad        error // of a file that is not what its manifest says
	gone       bool  // the topic does not have its offsets any more
}

// stretch is a part of a partition that one lot covers.
type stretch struct {
	from, to int64
	lot      *lot // nil: it is decided and not committed
}

// lake is one comparison.
type lake struct {
	c      *call
	f      *verifyFlags
	r      *reading
	dec    changelog.Decoder
	target *filesTarget
	rows   bool // they are compared; else they are only counted
	forms  forms

	lots      []*lot
	merged    map[string]*lot // by format
	first     *lot            // of merged; nil: there are none
	covered   map[changelog.Partition][]stretch
	limits    map[changelog.Partition]int64 // positions
	seen      map[[2]int64]bool             // manifests, by generation and checkpoint
	letters   map[changelog.Position]bool   // messages that were set aside whole
	refused   map[letterAt]int              // changes that were
	files     int64
	overlaps  []string
	unread    int64
	unwritten int64
	pending   int64
	uncovered *lot
}

type letterAt struct {
	p     changelog.Partition
	at    int64
	index int32
}

// verifyFiles is verify of a folder.
func (c *call) verifyFiles(cmd *cobra.Command, f *verifyFlags, r *reading, d changelog.Decoder, t *filesTarget, o *opened, mends bool) error {
	ctx := cmd.Context()
	if mends {
		return config("files that are committed are never changed, so nothing can be mended there: read the topic into another prefix, by a bridge of another name, and point readers to it")
	}
	if f.showKeys {
		return usage(fmt.Errorf("--show-keys: files are compared by checkpoint, not by key"))
	}
	if r.in.Start.Mode != bridge.StartEarliest && len(f.from) == 0 {
		return config("the table begins at %s, so rows from before that are not expected, and nobody knows which those are: name the positions at which the bridge began by --from", r.in.Start.Mode)
	}
	l := &lake{c: c, f: f, r: r, dec: d, target: t, rows: t.options.Kind != s3sink.Upsert, forms: newForms(f.target.s3.format, t, d.Table()),
		covered: make(map[changelog.Partition][]stretch), limits: make(map[changelog.Partition]int64), seen: make(map[[2]int64]bool), letters: make(map[changelog.Position]bool), refused: make(map[letterAt]int),
		merged: make(map[string]*lot), uncovered: &lot{name: "offsets of no checkpoint"}}
	p := newProgress(cmd.ErrOrStderr(), c.secrets)
	p.start(func() string { return "comparing files with the topic" })
	began := time.Now()
	err := l.compare(ctx, o.store)
	p.end()
	if interrupted(ctx) {
		return fmt.Errorf("%w before all files were compared", errInterrupted)
	}
	if err != nil {
		return err
	}
	if len(l.lots) == 0 && l.files == 0 && (l.uncovered.want.n > 0 || l.pending > 0) {
		return (&lakeFlags{bridge: f.bridge, sink: f.sink}).noManifest(ctx, t.client, t.folder)
	}
	return l.write(cmd.OutOrStdout(), time.Since(began))
}

func (l *lake) compare(ctx context.Context, st sink.Store) error {
	state, err := st.Read(ctx, l.f.bridge)
	if err != nil {
		return err
	}
	if len(state.Positions) == 0 {
		return config("the store has no positions of bridge %q: correct --bridge, or --store", l.f.bridge)
	}
	for _, p := range state.Positions {
		l.limits[p.Position.Partition] = p.Offset
	}
	rd, err := s3sink.NewReader(l.target.client, l.target.folder.bucket, l.target.folder.prefix, &s3sink.ReaderOptions{Bridge: l.f.bridge, Sink: l.f.sink})
	if err != nil {
		return err
	}
	if err := l.readLetters(ctx, rd); err != nil {
		return err
	}
	if err := l.readFiles(ctx, rd); err != nil {
		return err
	}
	if err := l.tellMerged(ctx); err != nil {
		return err
	}
	for _, w := range state.Pending {
		if w.Sink != l.f.sink {
			continue
		}
		if done, err := l.committed(ctx, w); err != nil || done {
			if err != nil {
				return err
			}
			continue
		}
		for i := range w.From {
			l.cover(w.From[i].Partition, stretch{w.From[i].Offset, w.To[i].Offset, nil})
			l.pending += w.To[i].Offset - w.From[i].Offset
		}
	}
	l.sort()
	return l.readTopic(ctx)
}

// committed reports whether what the store lists as decided is committed: the store hears of that with the checkpoint after it, and a manifest is there
// when it is done, also one whose files have been merged since.
func (l *lake) committed(ctx context.Context, w sink.Committable) (bool, error) {
	if l.seen[[2]int64{int64(w.Generation), int64(w.Checkpoint)}] {
		return true, nil
	}
	rd, err := s3sink.NewReader(l.target.client, l.target.folder.bucket, l.target.folder.prefix,
		&s3sink.ReaderOptions{Bridge: l.f.bridge, Sink: l.f.sink, Original: true, AfterGeneration: w.Generation, AfterCheckpoint: w.Checkpoint - 1})
	if err != nil {
		return false, err
	}
	for m, err := range rd.Manifests(ctx) { // the first is of this checkpoint, or later
		return err == nil && m.Generation == w.Generation && m.Checkpoint == w.Checkpoint, err
	}
	return false, nil
}

func (l *lake) readLetters(ctx context.Context, rd *s3sink.Reader) error {
	for x, err := range rd.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		p := changelog.Partition{Topic: x.Topic, Partition: x.Partition}
		if x.Index < 0 {
			l.letters[changelog.Position{Partition: p, Offset: x.Offset}] = true
		} else {
			l.refused[letterAt{p, x.Offset, x.Index}] = x.Changes
		}
	}
	return nil
}

// cover notes which lot has a part of a partition.
func (l *lake) cover(p changelog.Partition, s stretch) {
	if s.from < s.to {
		l.covered[p] = append(l.covered[p], s)
	}
}

// sort makes the stretches of each partition follow one another, and finds what two checkpoints claim.
func (l *lake) sort() {
	for p, s := range l.covered {
		slices.SortFunc(s, func(a, b stretch) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
		for i := 1; i < len(s); i++ {
			if a, b := s[i-1], s[i]; b.from < a.to && a.lot != nil && b.lot != nil {
				l.overlaps = append(l.overlaps, fmt.Sprintf("%s: offsets %d to %d are in %s and in %s", p, b.from, min(a.to, b.to)-1, a.lot.name, b.lot.name))
			}
		}
	}
	slices.Sort(l.overlaps)
}

// lotOf returns where an offset's rows are expected; nil: they are not compared.
func (l *lake) lotOf(p changelog.Partition, offset int64) *lot {
	s := l.covered[p]
	i, _ := slices.BinarySearchFunc(s, offset, func(a stretch, o int64) int {
		if a.to <= o {
			return -1
		}
		return 1
	})
	switch {
	case i < len(s) && s[i].from <= offset:
		return s[i].lot
	case len(l.merged) == 1: // where there are several, their manifests cover them
		return l.first
	}
	return l.uncovered
}

// readTopic adds the rows that there should be.
func (l *lake) readTopic(ctx context.Context) error {
	cl, err := newClient(append(slices.Clone(l.r.in.Client), kgo.ClientID("flinksink-verify"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(500*time.Millisecond)))
	if err != nil {
		return err
	}
	defer cl.Close()
	spans, err := l.c.spansOf(ctx, cl, l.r.in, false)
	if err != nil {
		return err
	}
	e := &expected{l: l, b: changelog.NewBatch(l.dec.Table())}
	for _, s := range spans {
		limit, ok := l.limits[s.Partition]
		if !ok {
			continue
		}
		if s.end < limit {
			return fmt.Errorf("verify: %s ends at offset %d and the bridge has read up to %d: the topic was cut off or made anew", s.Partition, s.end, limit)
		}
		s.end = limit
		began := int64(0)
		for _, text := range l.f.from {
			if p, err := parsePosition(text); err == nil && p.Partition == s.Partition {
				began = p.Offset
			}
		}
		if s.start > began {
			l.forget(s.Partition, s.start)
		}
		s.start = max(s.start, began)
		if err := readSpan(ctx, cl, s, e.record); err != nil {
			return err
		}
	}
	return e.flush()
}

// forget leaves out the checkpoints whose offsets the topic does not have any more.
func (l *lake) forget(p changelog.Partition, start int64) {
	for _, s := range l.covered[p] {
		if s.lot != nil && s.from < start {
			s.lot.gone = true
		}
	}
	for _, x := range l.merged {
		x.gone = true
	}
}
