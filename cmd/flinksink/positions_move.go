package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
)

// moveFlags are those of the commands that move positions.
type moveFlags struct {
	positionFlags
	reason string
	was    []string
	yes    bool
}

func (f *moveFlags) add(cmd *cobra.Command) {
	f.positionFlags.add(cmd, "`NAME` of the bridge (required)")
	cmd.MarkFlagRequired("bridge")
	cmd.Flags().StringVar(&f.reason, "reason", "", "`TEXT` for the audit: why")
}

func (c *call) positionsSet() *cobra.Command {
	f := &moveFlags{}
	acceptLost := false
	cmd := &cobra.Command{
		Use:   "set --store URL --bridge NAME TOPIC:PARTITION:OFFSET...",
		Short: "Set what a bridge reads next",
		Long: `set makes OFFSET what the bridge reads next of a partition. All that are named are moved, or none.

Back: what lies between is applied again. A table with a key is right once the bridge has caught up; one without has rows twice.
Forward: what lies between is never applied. A bridge finds an offset that the partition does not hold when it goes there, and stops.
The id of the topic is forgotten: OFFSET is one of the topic as it is when the bridge goes there, also if it was made anew.

So that a mistyped command does nothing, every position needs a --was that tells where it is now, or all of them --yes. A bridge
that runs moves its positions all the time: there only --yes can work. Without either, set shows what it would do.

In a store that is not Postgres nothing is written into an audit, and a bridge that runs takes a position that went back for a store that
lost something, and stops: stop it first.

--accept-lost is the way on after a bridge said that what it had decided is lost: the receipts are let go in the same deed. Set the
positions back to where the lost offsets begin, or their rows stay missing; sinks beside the one that lost them get the rows again. What
waits in Postgres is let go by flinksink settle --accept-lost, which proves that it is lost.`,
		Example: `  flinksink positions set --store postgres://app@db/shop --bridge orders orders:0:500
  flinksink positions set --store postgres://app@db/shop --bridge orders --was orders:0:1017 orders:0:500 --reason "total was wrong"
  flinksink positions set --store postgres://app@db/shop --bridge orders --yes orders:0:500 orders:1:480`,
		Args: takesPositions(1, 0),
	}
	f.add(cmd)
	cmd.Flags().StringArrayVar(&f.was, "was", nil, "move only if the stored position is this `TOPIC:PARTITION:OFFSET`; may be repeated")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "move whatever is stored now")
	cmd.Flags().BoolVar(&acceptLost, "accept-lost", false, "let go what was decided for these partitions and is lost")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		moves, certain, err := parseMoves(args, f.was)
		if err != nil {
			return usage(err)
		}
		c.begun = true
		return c.move(cmd, f, certain || f.yes, "repeat the command with --yes, or with the --was of each line above",
			func(s *sink.State) []postgres.Moved {
				var plan []postgres.Moved
				for _, m := range moves {
					plan = append(plan, postgres.Moved{Partition: m.To.Partition, Before: storedPosition(s, m.To.Partition), After: &m.To})
				}
				return plan
			},
			func(ctx context.Context, k *keeper) (postgres.Steered, error) {
				m := k.mover()
				if acceptLost { // a deed of checkpoints, which Postgres knows as every store does
					m = byGeneration{k: k, acceptLost: true}
				}
				return m.SetPositions(ctx, f.bridge, moves, f.reason)
			})
	}
	return cmd
}

func (c *call) positionsReset() *cobra.Command {
	f := &moveFlags{}
	cmd := &cobra.Command{
		Use:   "reset --store URL --bridge NAME --yes [TOPIC:PARTITION...]",
		Short: "Forget positions, so that the table's start setting counts again",
		Long: `reset forgets the stored positions of partitions, of all when none is named, as if they had never been read: the bridge begins where
the table's 'scan.startup.mode' says, which is the first offset there is unless it says otherwise. To begin anywhere else, use set.

What is in the target stays and is applied again: a table with a key is right once the bridge has caught up, but for rows whose
deletes the topic no longer holds; empty it first if there may be such. A table without a key has rows twice unless it is emptied.`,
		Example: `  flinksink positions reset --store postgres://app@db/shop --bridge orders --yes
  flinksink positions reset --store postgres://app@db/shop --bridge orders --yes --reason "topic made anew" orders:0 orders:1`,
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do it; without, it is shown what would be done")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var parts []changelog.Partition
		for _, a := range args {
			p, err := parsePartition(a)
			if err != nil {
				return usage(err)
			}
			parts = append(parts, p)
		}
		c.begun = true
		return c.move(cmd, f, f.yes, "repeat the command with --yes",
			func(s *sink.State) []postgres.Moved {
				var plan []postgres.Moved
				for _, p := range parts {
					plan = append(plan, postgres.Moved{Partition: p, Before: storedPosition(s, p)})
				}
				if parts == nil {
					for i := range s.Positions {
						plan = append(plan, postgres.Moved{Partition: s.Positions[i].Position.Partition, Before: &s.Positions[i].Position})
					}
				}
				return plan
			},
			func(ctx context.Context, k *keeper) (postgres.Steered, error) {
				return k.mover().Reset(ctx, f.bridge, parts, f.reason)
			})
	}
	return cmd
}

func (c *call) positionsSkip() *cobra.Command {
	f := &moveFlags{}
	cmd := &cobra.Command{
		Use:   "skip --store URL --bridge NAME TOPIC:PARTITION:OFFSET",
		Short: "Go past one message, the one that a bridge stopped at",
		Long: `skip moves a bridge past exactly one message: the one at OFFSET, and only if that is what the bridge would read next. It is for the
offset that a bridge names when it stops at a message that cannot be read; the bridge goes on with the next one when it is started
again. The changes of the message are never applied. Repeated, it does nothing but say that it is done already.`,
		Example: `  flinksink positions skip --store postgres://app@db/shop --bridge orders orders:3:1017
  flinksink positions skip --store postgres://app@db/shop --bridge orders --reason "test message of the 3rd" orders:3:1017`,
		Args: takesPositions(1, 1),
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := parsePosition(args[0])
		if err != nil {
			return usage(err)
		}
		c.begun = true
		return c.move(cmd, f, true, "", nil, func(ctx context.Context, k *keeper) (postgres.Steered, error) {
			did, err := k.mover().Skip(ctx, f.bridge, at.Partition, at.Offset, f.reason)
			if sink.ClassOf(err) != sink.ErrConfig || k.pg == nil { // others keep no record of what was skipped
				return did, err
			}
			before, aerr := skipped(ctx, k.pg, f.bridge, at)
			if aerr != nil || before == nil {
				return did, err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s:%d:%d was skipped already, at %s: nothing was changed\n", at.Topic, at.Partition.Partition, at.Offset, stamp(before.At))
			return did, cmp.Or(err, errSkipped)
		})
	}
	return cmd
}

// errSkipped says that there is nothing left to do.
var errSkipped = errors.New("skipped already")

// skipped returns the skip of a message that the position is still past, nil if there was none.
func skipped(ctx context.Context, st *postgres.Store, bridge string, at changelog.Position) (*postgres.Audit, error) {
	state, err := st.Read(ctx, bridge)
	if err != nil {
		return nil, err
	}
	if p := storedPosition(&state, at.Partition); p == nil || p.Offset <= at.Offset {
		return nil, nil
	}
	moves, err := st.Audit(ctx, bridge, skipsRemembered)
	for i := range moves {
		if m := &moves[i]; m.What == "skip" && m.Partition == at.Partition && m.Before != nil && m.Before.Offset == at.Offset {
			return m, nil
		}
	}
	return nil, err
}

// skipsRemembered is how many moves by hand are looked through for a skip that is repeated.
const skipsRemembered = 1000

// move does it when it is certain, and else shows plan, which becomes nothing until the command is repeated as again says.
func (c *call) move(cmd *cobra.Command, f *moveFlags, certain bool, again string, plan func(*sink.State) []postgres.Moved,
	do func(context.Context, *keeper) (postgres.Steered, error)) error {
	return c.with(cmd, &f.positionFlags, func(st *keeper) error {
		out := cmd.OutOrStdout()
		if certain {
			did, err := do(cmd.Context(), st)
			if errors.Is(err, errSkipped) {
				return nil
			}
			if err != nil {
				return err
			}
			return writeMoved(out, did)
		}
		all, err := readBridges(cmd, st, f.bridge)
		if err != nil {
			return err
		}
		s := &all[0]
		for _, m := range plan(&s.State) {
			line := fmt.Sprintf("would move %s", describe(m))
			if m.Before != nil && m.After != nil {
				line += fmt.Sprintf("  (--was %s:%d:%d)", m.Partition.Topic, m.Partition.Partition, m.Before.Offset)
			}
			if g := s.holder(m.Partition); g != nil {
				line += fmt.Sprintf("; generation %d of %s, which holds it, would be ended", g.ID, g.Owner)
			}
			if _, err := fmt.Fprintln(out, line); err != nil {
				return err
			}
		}
		return config("nothing was changed: %s", again)
	})
}

func storedPosition(s *sink.State, p changelog.Partition) *changelog.Position {
	for i := range s.Positions {
		if s.Positions[i].Position.Partition == p {
			return &s.Positions[i].Position
		}
	}
	return nil
}

func writeMoved(w io.Writer, did postgres.Steered) error {
	var b strings.Builder
	for _, m := range did.Moved {
		fmt.Fprintf(&b, "moved %s\n", describe(m))
	}
	for _, g := range did.Ended {
		fmt.Fprintf(&b, "ended generation %d of %s: if that process still runs, it goes on from here at its next write\n", g.ID, g.Owner)
	}
	if len(did.Moved) == 0 {
		b.WriteString("there is no position to move\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// describe says where a move goes, and what that means.
func describe(m postgres.Moved) string {
	text := fmt.Sprintf("%s from %s to %s", m.Partition, offset(m.Before), offset(m.After))
	switch {
	case m.After == nil:
		return text + ": the start setting counts"
	case m.Before == nil:
	case m.After.Offset < m.Before.Offset:
		text += fmt.Sprintf(": %d offsets are applied again", m.Before.Offset-m.After.Offset)
	case m.After.Offset > m.Before.Offset:
		text += fmt.Sprintf(": %d offsets are left out", m.After.Offset-m.Before.Offset)
	}
	return text
}

// parseMoves pairs positions with those that are expected. certain reports that each has one.
func parseMoves(to, was []string) (moves []postgres.Move, certain bool, err error) {
	expected := make(map[changelog.Partition]int64)
	for _, w := range was {
		p, err := parsePosition(w)
		if err != nil {
			return nil, false, fmt.Errorf("--was: %w", err)
		}
		if _, twice := expected[p.Partition]; twice {
			return nil, false, fmt.Errorf("--was names %s twice", p.Partition)
		}
		expected[p.Partition] = p.Offset
	}
	certain = true
	for _, a := range to {
		p, err := parsePosition(a)
		if err != nil {
			return nil, false, err
		}
		from, ok := expected[p.Partition]
		if !ok {
			from, certain = postgres.AnyOffset, false
		}
		delete(expected, p.Partition)
		moves = append(moves, postgres.Move{From: from, To: p})
	}
	for p := range expected {
		return nil, false, fmt.Errorf("--was names %s, which is not moved", p)
	}
	return moves, certain, nil
}

var errPosition = errors.New("a position is written TOPIC:PARTITION:OFFSET, e.g. orders:3:1017")

// parsePosition reads TOPIC:PARTITION:OFFSET. A topic's name holds no colon.
func parsePosition(s string) (changelog.Position, error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return changelog.Position{}, fmt.Errorf("%q: %w", s, errPosition)
	}
	p, err := parsePartition(s[:i])
	if err != nil {
		return changelog.Position{}, fmt.Errorf("%q: %w", s, errPosition)
	}
	n, ok := digits(s[i+1:], math.MaxInt64)
	if !ok {
		return changelog.Position{}, fmt.Errorf("%q: %w", s, errPosition)
	}
	return changelog.Position{Partition: p, Offset: n, LeaderEpoch: -1}, nil
}

// parsePartition reads TOPIC:PARTITION.
func parsePartition(s string) (changelog.Partition, error) {
	topic, number, ok := strings.Cut(s, ":")
	n, isNumber := digits(number, math.MaxInt32)
	if !ok || topic == "" || !isNumber {
		return changelog.Partition{}, fmt.Errorf("%q: a partition is written TOPIC:PARTITION, e.g. orders:3", s)
	}
	return changelog.Partition{Topic: topic, Partition: int32(n)}, nil
}

// digits reads a number without a sign.
func digits(s string, most int64) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && n <= most && s[0] != '+' && s[0] != '-'
}
