package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// A checkpoint that would set aside more than the budget is cut before that, saved, and the lane halts with the setting's name.
func TestDataPolicy_Budget(t *testing.T) {
	messages := []string{"+I 1 a", "bad", "+I 2 x", "+I 3 c", "+I 4 x, +I 5 x", "bad", "+I 6 f", "bad", "+I 7 g"}
	for _, w := range ways {
		for _, policy := range []DataPolicy{DeadLetter, Skip} {
			for budget := 1; budget < 7; budget++ {
				if policy == Skip && budget != 3 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", w, policy, budget), func(t *testing.T) {
					t.Parallel()
					k, g := newCluster(t, 1), newRefuser(w)
					k.put(0, messages...)
					all := expect(t, !w.names, messages)
					b := g.policyBridge(t, k, func(o *Options) {
						o.OnData, o.DataBudget, o.Interval = policy, budget, time.Hour
					})
					err := start(t, b).wait()
					upTo := int64(len(messages))
					if budget < len(all.letters) {
						var data *changelog.DataError
						if !errors.Is(err, sink.ErrRejected) || !errors.As(err, &data) {
							t.Fatalf("got %v", err)
						}
						for _, text := range []string{"Options.DataBudget", "--data-budget", "wrong table definition", fmt.Sprintf("set aside %d already", budget)} {
							if !strings.Contains(err.Error(), text) {
								t.Errorf("%q does not say %q", err, text)
							}
						}
						// Of a message the budget takes all or nothing.
						fmt.Sscan(all.letters[budget], &upTo)
						if data.Offset != upTo {
							t.Errorf("halted at %d, want %d", data.Offset, upTo)
						}
					} else if err != nil {
						t.Fatal(err)
					}
					want := expect(t, !w.names, messages[:upTo])
					if got := g.rows(); !slices.Equal(got, want.table()) {
						t.Errorf("rows\n got %q\nwant %q", got, want.table())
					}
					if p := g.positions(t, "test"); p[0] != upTo {
						t.Errorf("positions %v, want %d", p, upTo)
					}
					if c := g.balanced(t, b); c.Read != want.read || c.DeadLettered+c.Skipped != want.dropped || c.Records != want.messages {
						t.Errorf("counters %+v, want %+v", c, want)
					}
					if policy == DeadLetter && !slices.Equal(g.lettersOf(0), want.letters) {
						t.Errorf("letters\n got %q\nwant %q", g.lettersOf(0), want.letters)
					}
				})
			}
		}
	}
}

// A table that takes nothing at all is not emptied into the dead letters, however the sink refuses.
func TestDataPolicy_BudgetOfATableThatTakesNothing(t *testing.T) {
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			k, g := newCluster(t, 1), newRefuser(w)
			for i := range 60 {
				k.put(0, fmt.Sprintf("+I %d x", i))
			}
			b := g.policyBridge(t, k, func(o *Options) { o.OnData, o.DataBudget, o.Interval = DeadLetter, 10, time.Hour })
			if err := start(t, b).wait(); !errors.Is(err, sink.ErrRejected) || !strings.Contains(err.Error(), "Options.DataBudget") {
				t.Fatalf("got %v", err)
			}
			if n := len(g.srv.DeadLetters()); n != 10 {
				t.Errorf("%d dead letters, the budget is 10", n)
			}
		})
	}
}

// The budget counts what a held run sets aside when it is written, before what released it.
func TestDataPolicy_BudgetOfAHeldRetraction(t *testing.T) {
	k, g := newCluster(t, 2), newRefuser(ways[0])
	b := g.policyBridge(t, k, func(o *Options) {
		o.OnData, o.HoldRetractions, o.UntilEnd, o.Interval, o.Changes, o.DataBudget = DeadLetter, HoldAlways, false, time.Hour, 1, 2
	})
	w := &watched{running: start(t, b), k: k, g: g.target}
	w.putSeen(0, "+I 1 a")
	w.sees("1 a")
	w.putSeen(0, "-D 1 a", "bad", "bad")
	w.putSeen(1, "+I 2 y")
	w.sees("1 a", "2 y")
	w.k.put(0, "none", "bad", "+I 1 b")
	err := w.wait()
	var data *changelog.DataError
	if !errors.As(err, &data) || data.Offset != 5 || !strings.Contains(err.Error(), "set aside 2 already") {
		t.Fatalf("got %v", err)
	}
	if got := g.lettersOf(0); !slices.Equal(got, []string{"2/-1 data 1", "3/-1 data 1"}) {
		t.Errorf("letters %q", got)
	}
	if p := g.positions(t, "test"); p[0] != 5 {
		t.Errorf("positions %v", p)
	}
	if c := g.balanced(t, b); c.Records != 6 || c.Applied != 3 || c.DeadLettered != 2 {
		t.Errorf("counters %+v", c)
	}
}

// The log is bounded however many messages are skipped, and shows no row value.
func TestDataPolicy_LogIsBounded(t *testing.T) {
	k, g := newCluster(t, 1), newRefuser(ways[0])
	k.put(0, slices.Repeat([]string{"bad", "+I 7 xsecret"}, 500)...)
	var log strings.Builder
	b := g.policyBridge(t, k, func(o *Options) {
		o.OnData, o.DataBudget, o.Interval = Skip, 2000, time.Hour
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	began := time.Now()
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	periods := int(time.Since(began)/logEvery) + 2
	if c := g.balanced(t, b); c.Skipped != 1000 {
		t.Errorf("counters %+v", c)
	}
	if n := strings.Count(log.String(), "skipped a message"); n < 1 || n > periods*logAtMost {
		t.Errorf("%d lines in %d periods", n, periods)
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log shows a row: %s", log.String())
	}
}

// What is set aside takes of the lane's memory like what is written: a checkpoint is made before it takes too much, however large DataBudget is.
func TestDataPolicy_LettersAreWithinTheByteBudget(t *testing.T) {
	k, g := newCluster(t, 1), newRefuser(way{})
	const messages, size, budget = 400, 10_000, 1 << 20
	for range messages / 100 {
		k.put(0, slices.Repeat([]string{"bad" + strings.Repeat("-", size)}, 100)...)
	}
	most := int64(0)
	o := options(g.target)
	o.OnData, o.UntilEnd, o.Interval, o.DataBudget, o.ByteBudget = DeadLetter, true, time.Hour, 1<<30, budget
	o.Store = refusingStore{o.Store, g}
	o.Hooks.Saved = func(r sink.Report) { most = max(most, r.Counters.DeadLettered) }
	b, err := New("test", k.input(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	if n := len(g.srv.DeadLetters()); n != messages {
		t.Fatalf("%d letters", n)
	}
	// Half of the budget, and what a load has on top of it.
	if most*size > budget*3/4 {
		t.Errorf("a checkpoint held %d letters of %d bytes", most, size)
	}
}

// Of many messages that are set aside at once only some are logged one by one, and the log says how many were not.
func TestDataPolicy_LogCountsWhatItLeavesOut(t *testing.T) {
	k, g := newCluster(t, 1), newRefuser(ways[0])
	const messages = 40
	for range messages {
		k.put(0, "bad")
	}
	k.put(0, "+I 1 a")
	var log logged
	b := g.policyBridge(t, k, func(o *Options) { o.OnData, o.Interval, o.Logger = Skip, time.Hour, log.logger() })
	if err := start(t, b).wait(); err != nil {
		t.Fatal(err)
	}
	told := log.count("flinksink: skipped a message")
	// In a process that stood still meanwhile the next line counts them instead.
	for _, m := range regexp.MustCompile(`and (\d+) more in this checkpoint|notLoggedBefore=(\d+)`).FindAllStringSubmatch(log.text(), -1) {
		n, err := strconv.Atoi(m[1] + m[2])
		if err != nil {
			t.Fatal(err)
		}
		told += n
	}
	if told != messages || log.count("skipped a message") == messages {
		t.Errorf("the log tells of %d of %d messages:\n%s", told, messages, log.text())
	}
}
