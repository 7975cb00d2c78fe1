package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// topics are runs of messages; an x is refused by the sink, "bad" cannot be decoded.
var policyTopics = map[string][]string{
	"undecodable":                  {"+I 1 a", "bad", "+I 2 b"},
	"refused":                      {"+I 1 a", "+I 2 x", "+I 3 c"},
	"refused, and its key goes on": {"+I 1 a", "-U 1 a, +U 1 x", "+I 2 b", "-U 1 a, +U 1 c", "+I 3 x", "-D 3 x", "+I 3 c"},
	"first":                        {"+I 1 x", "+I 2 b"},
	"last":                         {"+I 1 a", "+I 2 b", "+I 3 x"},
	"alone":                        {"+I 1 x"},
	"undecodable first":            {"bad", "+I 2 b"},
	"undecodable last":             {"+I 2 b", "bad"},
	"undecodable alone":            {"bad"},
	"several":                      {"bad", "+I 1 a", "+I 2 x", "bad", "+I 3 c", "+I 4 x", "+I 5 x", "none", "+I 6 e", "+I 7 x"},
	"one of two":                   {"+I 1 a, +I 2 x", "+I 3 x, +I 4 d", "+I 5 e"},
	"both of two":                  {"+I 1 x, +I 2 x", "+I 3 c"},
	"update of two":                {"+I 1 a", "-U 1 a, +U 1 x", "-U 1 x, +U 1 b", "-U 1 b, +U 1 c, +I 9 x"},
	"between nothing":              {"none", "+I 1 x", "none", "none"},
	"many":                         slices.Concat(numberedRows(0, 300), []string{"+I 1000 x"}, numberedRows(300, 700), []string{"+I 1001 x", "bad"}, numberedRows(700, 800)),
}

func numberedRows(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("+I %d v%d", i, i))
	}
	return out
}

// Whatever the sink refuses and however it says so: everything else is applied, what is dropped is where the policy puts it, once, and the account
// is balanced.
func TestDataPolicy_DropsExactlyWhatIsBad(t *testing.T) {
	for name, messages := range policyTopics {
		for i, w := range ways {
			for _, policy := range []DataPolicy{DeadLetter, Skip} {
				for _, hold := range []HoldPolicy{HoldNever, HoldAlways} {
					if (policy == Skip || hold == HoldAlways) && i%3 > 0 || policy == Skip && hold == HoldAlways {
						continue // the ways differ in where they refuse, and not in what becomes of it
					}
					t.Run(fmt.Sprintf("%s/%s/%s/hold=%d", name, w, policy, hold), func(t *testing.T) {
						t.Parallel()
						k, g := newCluster(t, 1), newRefuser(w)
						k.put(0, messages...)
						want := expect(t, !w.names, messages)
						var told []string
						b := g.policyBridge(t, k, func(o *Options) {
							o.OnData, o.HoldRetractions = policy, hold
							o.Hooks.DataError = func(e *changelog.DataError) { told = append(told, fmt.Sprint(e.Offset)) }
						})
						if err := start(t, b).wait(); err != nil {
							t.Fatal(err)
						}
						if got := g.rows(); !slices.Equal(got, want.table()) {
							t.Errorf("rows\n got %q\nwant %q", got, want.table())
						}
						if p := g.positions(t, "test"); p[0] != want.messages {
							t.Errorf("positions %v, want %d", p, want.messages)
						}
						c := g.balanced(t, b)
						count, letters := c.Skipped, []string(nil)
						if policy == DeadLetter {
							count, letters = c.DeadLettered, want.letters
						}
						if c.Read != want.read || count != want.dropped || c.Applied != want.read-want.dropped || c.Records != want.messages {
							t.Errorf("counters %+v, want %d read and %d dropped of %d messages", c, want.read, want.dropped, want.messages)
						}
						if got := g.lettersOf(0); !slices.Equal(got, letters) {
							t.Errorf("letters\n got %q\nwant %q", got, letters)
						}
						var offsets []string
						for _, l := range want.letters {
							o, _, _ := strings.Cut(l, "/")
							offsets = append(offsets, o)
						}
						if !slices.Equal(told, offsets) {
							t.Errorf("the hook heard of %q, want %q", told, offsets)
						}
						for _, l := range b.cur.lanes {
							if l.refused.Load() != nil || len(l.searching()) > 0 || len(l.current.aside) != 0 {
								t.Errorf("left over: %v refused, %d searches, %d set aside", l.refused.Load(), len(l.searching()), len(l.current.aside))
							}
						}
					})
				}
			}
		}
	}
}

// Under Halt the bridge stops at the first bad message, with everything before it saved and nothing of it or after it, and says where it is.
func TestDataPolicy_Halt(t *testing.T) {
	for name, messages := range policyTopics {
		for _, w := range ways {
			t.Run(fmt.Sprintf("%s/%s", name, w), func(t *testing.T) {
				t.Parallel()
				k, g := newCluster(t, 1), newRefuser(w)
				k.put(0, messages...)
				want := expect(t, !w.names, messages)
				b := g.policyBridge(t, k, nil)
				err := start(t, b).wait()
				var de *changelog.DataError
				var e *sink.Error
				if !errors.Is(err, sink.ErrRejected) || !errors.As(err, &de) || !errors.As(err, &e) || de.Offset != want.badAt || e.Position == nil || e.Position.Offset != want.badAt {
					t.Fatalf("got %v, want a halt at %d", err, want.badAt)
				}
				for _, text := range []string{"everything before it is checkpointed", "positions skip", fmt.Sprintf("texts:0:%d", want.badAt), "--on-data"} {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q does not say %q", err, text)
					}
				}
				if refused := strings.Contains(want.letters[0], "rejected"); refused {
					what := []string{"made up constraint"}
					if w.names {
						what = []string{"change " + want.letters[0][strings.Index(want.letters[0], "/")+1:][:1], "field v", "too long by far"}
					}
					for _, text := range what {
						if !strings.Contains(err.Error(), text) {
							t.Errorf("%q does not say %q", err, text)
						}
					}
					if len(e.Rejected) != 1 || e.Rejected[0].Offset != want.badAt {
						t.Errorf("the error names %v", e.Rejected)
					}
				}
				if got := g.rows(); !slices.Equal(got, want.atFirst) {
					t.Errorf("rows\n got %q\nwant %q", got, want.atFirst)
				}
				if p := g.positions(t, "test"); p[0] != want.badAt {
					t.Errorf("positions %v, want %d", p, want.badAt)
				}
				g.balanced(t, b)
				if l := g.srv.DeadLetters(); len(l) != 0 {
					t.Errorf("letters %v", l)
				}
			})
		}
	}
}
