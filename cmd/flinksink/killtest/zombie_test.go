package killtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// membership is how the zombie and its heir are known to the consumer group and to Postgres.
type membership int

const (
	dynamic membership = iota // no instance ids: the heir waits for the zombie's session to time out
	static                    // the heir has the zombie's instance id, as a replacement has, or one of its own, as another replica has
	denied                    // dynamic; and the heir's role may not end the zombie's backend
)

// The timeouts of denied. The heir gives up waiting, and tries again, before the server ends the zombie's transaction. On a slow machine the first heirs may
// come later than that: then there are more rounds, with more time for them.
const (
	deniedLock = 500 * time.Millisecond
	deniedIdle = 8 * time.Second
)

// steps returns the numbers of the steps of a stripe: together the stripes have all.
func (e extent) steps(seed uint64, stripe int) (out []int) {
	all := rand.New(rand.NewPCG(seed, 200)).Perm(len(steps()))
	if e.whole {
		return all
	}
	for i, step := range all {
		if i%e.stripes == stripe {
			out = append(out, step)
		}
	}
	return out
}

// deniedSteps are some of those with an open transaction of the generation. "Write: half of the rows sent" is none of them: a server that
// waits for the rest of a message is not idle, and ignores its statement timeout too.
func deniedSteps() (out []int) {
	for i, s := range steps() {
		if slices.Contains([]string{"after Write", "after Prepare", "Save: COMMIT not sent"}, s.name) {
			out = append(out, i)
		}
	}
	return out
}

// zombies is what a subject goes through whose bridges are stopped and woken.
type zombies struct {
	*life
	how      membership
	idle     time.Duration // after which the server ends a zombie's transaction; denied
	rounds   int
	refused  int    // heirs that were not allowed to end the zombie's backend
	plain    string // connection string of a role that may not end backends; denied
	ends     map[string]int
	slowest  time.Duration // that an heir took until it had saved all partitions
	slowestS string        // the step of it
}

// zombieRounds has a bridge stop at each of the steps.
func zombieRounds(t *testing.T, w world, how membership, which []int, stripe int) {
	s := newSubject(t, &w, stripe%2 == 0, w.seed+uint64(stripe))
	z := &zombies{life: &life{t: t, w: &w, s: s, a: &account{}}, how: how, ends: map[string]int{}}
	if how == denied {
		z.idle = deniedIdle
		z.prepare()
	}
	for _, i := range which {
		z.round(i)
	}
	for how == denied && z.refused == 0 {
		if z.idle *= 2; z.idle > 2*patience {
			t.Fatal("nothing was denied to any heir: all of them came when the server had ended the zombie's transaction")
		}
		z.round(which[z.rounds%len(which)])
	}
	z.conclude(0)
	t.Logf("%d zombies: %v; the slowest heir took %s until it had saved all partitions, at step %q", z.rounds, z.ends, z.slowest.Round(time.Millisecond), z.slowestS)
}

// prepare makes the store and a role that may use it and nothing else.
func (z *zombies) prepare() {
	z.t.Helper()
	z.s.feed(100)
	p := z.start("")
	z.await("the store is made", z.owns(p, true), p)
	p.terminate(z.t)
	role := z.w.name
	z.t.Cleanup(func() {
		if _, err := z.s.pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			z.t.Error(err)
		}
	})
	_, err := z.s.pool.Exec(z.t.Context(), fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD 'killtest'; GRANT USAGE ON SCHEMA %[2]s, %[3]s TO %[1]s; "+
		"GRANT ALL ON ALL TABLES IN SCHEMA %[2]s, %[3]s TO %[1]s", role, z.s.schema, z.s.own))
	if err != nil {
		z.t.Fatal(err)
	}
	u, err := url.Parse(z.s.to)
	if err != nil {
		z.t.Fatal("the connection string is no URL") // its text may hold a password
	}
	u.User = url.UserPassword(role, "killtest")
	z.plain = u.String()
}

// round: a bridge is stopped at a step, an heir takes over and saves, the bridge is woken. Each sees the positions that the oracle is
// compared at: before, while both live, and when both have ended.
func (z *zombies) round(number int) {
	z.t.Helper()
	step := steps()[number]
	n := 1 + z.s.r.IntN(step.most)
	c := childConfig{To: z.s.to, Step: number, N: n, Stop: true}
	instance, replaced := "", false
	switch z.how {
	case static:
		c.Instance, instance = first, second
		if replaced = z.rounds%2 == 0; replaced {
			instance = first
		}
	case denied:
		c.IdleTimeout = z.idle
	}
	z.rounds++
	what := fmt.Sprintf("step %q, occurrence %d", step.name, n)
	z.s.feed(600)
	zombie := z.s.child(z.t, c)
	z.a.starts++
	z.await(what, func() (bool, error) { return strings.Contains(zombie.out.String(), lastWords(step)), nil }, zombie)
	if err := zombie.stop(); err != nil {
		z.t.Fatal(err)
	}
	z.compare("the zombie is stopped at "+what, zombie)
	z.s.feed(300)

	began := time.Now()
	var heir *process
	if z.how == denied {
		heir = z.s.child(z.t, childConfig{To: z.plain, Step: -1, LockTimeout: deniedLock})
	} else {
		heir = z.start(instance)
	}
	z.await("the heir has saved all partitions, with a zombie at "+what, z.owns(heir, true), heir)
	if took := time.Since(began); took > z.slowest {
		z.slowest, z.slowestS = took, step.name
	}
	if zombie.over() {
		z.t.Fatalf("the zombie ended although it was stopped: %s", zombie.tail())
	}
	if strings.Contains(heir.out.String(), "pg_signal_backend") {
		z.refused++
	}
	z.compare("the heir has taken over from a zombie at "+what, heir)

	held := strings.Contains(zombie.out.String(), "flinksink: acquired")
	if err := zombie.wake(); err != nil {
		z.t.Fatal(err)
	}
	if replaced {
		// Of two processes with one instance id, one is thrown out.
		z.await("one ends, woken at "+what, zombie.waking(func() (bool, error) { return zombie.over() || heir.over(), nil }))
	} else {
		z.await("the zombie has partitions again, woken at "+what, zombie.waking(z.owns(zombie, false)), zombie, heir)
	}
	if held && !zombie.over() {
		// It has what it has now in a new generation; the old one ended in ErrFenced, whether it was in the middle of a checkpoint or idle.
		// One that was stopped while it joined had no generation, and there is nothing to tell it.
		z.await("the zombie was told that it is fenced, woken at "+what, zombie.waking(func() (bool, error) {
			return zombie.over() || strings.Contains(zombie.out.String(), fencedWords), nil
		}))
	}
	z.compare("the zombie was woken at "+what, zombie)
	z.ends[z.outcome(zombie, heir, replaced)]++
	for _, p := range []*process{zombie, heir} {
		if !p.over() {
			p.terminate(z.t)
		}
	}
	z.compare("zombie and heir have ended, "+what, zombie)
}

// waking wakes the process again whenever holds is asked: it says that it is at its step, and then stops itself. When the test has stopped and
// woken it between the two, it stops after that.
func (p *process) waking(holds func() (bool, error)) func() (bool, error) {
	return func() (bool, error) {
		_ = p.wake() // it may be over
		return holds()
	}
}

// outcome says what became of a zombie and its heir, and makes sure that whoever ended says why.
func (z *zombies) outcome(zombie, heir *process, replaced bool) string {
	z.t.Helper()
	const thrown = "fenced: another process joined group"
	for _, p := range []*process{zombie, heir} {
		if p.over() && (p.raced() || p.killed() || p.cmd.ProcessState.Success() || !strings.Contains(p.out.String(), thrown) || !replaced) {
			z.t.Fatalf("a bridge ended for another reason than its instance id: %s", p.tail())
		}
	}
	switch {
	case zombie.over() && heir.over():
		z.t.Fatalf("both were thrown out: %s\n%s", zombie.tail(), heir.tail())
	case zombie.over():
		return "ended, fenced by its replacement's instance id"
	case heir.over():
		return "threw its replacement out and went on"
	}
	return "joined again"
}

// owns reports that p owns partitions: with all, every one of them, and that it has saved each since.
func (z *zombies) owns(p *process, all bool) func() (bool, error) {
	return func() (bool, error) {
		owners, err := z.s.owners(z.t.Context(), all)
		n := owners[p.cmd.Process.Pid]
		return n == partitions || n > 0 && !all, err
	}
}

// await waits until a condition holds, while ps live, and keeps the writers busy.
func (z *zombies) await(what string, holds func() (bool, error), ps ...*process) {
	z.t.Helper()
	polls := 0
	z.until(ps, what, func() (bool, error) {
		if polls++; polls%8 == 0 && len(z.s.sizes) < 10 {
			z.s.feed(200)
		}
		return holds()
	})
}

// compare compares Postgres with the oracle.
func (l *life) compare(when string, p *process) {
	l.t.Helper()
	if _, _, err := l.s.look(l.t.Context(), false); err != nil {
		l.t.Fatalf("%s: %v\n%s", when, err, p.tail())
	}
}
