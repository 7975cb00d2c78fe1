package killtest

import (
	"fmt"
	"testing"
	"time"
)

// places is how many processes of one bridge there are at most. Every other one is a static member.
const places = 4

// churn has processes join, leave, crash and stall in one group.
func churn(t *testing.T, w world, length time.Duration) {
	l := &life{t: t, w: &w, s: newSubject(t, &w, true, w.seed), a: &account{}}
	ps := make([]*process, places)
	stalled := make([]bool, places)
	count := map[string]int{}
	moved, still := 0, 0
	var deck []string
	enough := func() bool {
		for _, what := range []string{"join", "leave", "crash", "stall", "wake"} {
			if count[what] < 2 {
				return false
			}
		}
		return moved >= 3
	}
	// On a slow machine little happens in length: then it takes longer.
	for end := time.Now().Add(length); time.Now().Before(end) || len(deck) > 0 || !enough(); {
		if len(deck) == 0 {
			deck = []string{"leave", "crash", "crash", "stall", "stall"}
			l.s.r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		i := l.s.r.IntN(places)
		p := ps[i]
		if p != nil && p.over() {
			t.Fatalf("a bridge ended by itself: %s", p.tail())
		}
		switch {
		case p == nil:
			instance := ""
			if i%2 == 1 {
				instance = fmt.Sprintf("place-%d", i)
			}
			ps[i] = l.start(instance, "--lanes", fmt.Sprint(1+i/2))
			count["join"]++
		case stalled[i]:
			if err := p.wake(); err != nil {
				t.Fatal(err)
			}
			stalled[i] = false
			count["wake"]++
		default:
			what := deck[0]
			select {
			case <-p.ready:
			case <-time.After(100 * time.Millisecond):
				if still++; still > looks {
					t.Fatalf("after %v no bridge begins any more: %s", count, p.tail())
				}
				continue // not before it runs: a signal would not find a bridge
			}
			deck = deck[1:]
			count[what]++
			switch what {
			case "leave":
				p.terminate(t)
				ps[i] = nil
			case "crash":
				p.kill()
				ps[i] = nil
			case "stall":
				if err := p.stop(); err != nil {
					t.Fatal(err)
				}
				stalled[i] = true
			}
		}
		for rest := time.Duration(100+l.s.r.IntN(700)) * time.Millisecond; rest > 0; rest -= 50 * time.Millisecond {
			if len(l.s.sizes) < 5 {
				l.s.feed(200)
			}
			time.Sleep(50 * time.Millisecond) // the time that the processes are left to themselves; nothing is waited for
		}
		n, _, err := l.s.look(t.Context(), false)
		if err != nil {
			for _, p := range ps {
				if p != nil {
					t.Log(p.tail())
				}
			}
			t.Fatalf("after %v: %v", count, err)
		}
		if still++; n > 0 {
			moved, still = moved+1, 0
		}
		if still > looks {
			for _, p := range ps {
				if p != nil {
					t.Log(p.tail())
				}
			}
			t.Fatalf("after %v nothing is saved any more", count)
		}
	}
	for i, p := range ps {
		if p == nil {
			continue
		}
		if stalled[i] {
			if err := p.wake(); err != nil {
				t.Fatal(err)
			}
		}
		l.until([]*process{p}, "the bridge runs", func() (bool, error) {
			select {
			case <-p.ready:
				return true, nil
			default:
				return false, nil
			}
		})
	}
	for _, p := range ps {
		if p != nil {
			p.terminate(t)
		}
	}
	l.conclude(0)
	t.Logf("%v; the positions moved %d times between two of them", count, moved)
}
