package killtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// extent is how much TestSurvive does.
type extent struct {
	stripes int           // subjects among which the steps of zombies are divided
	whole   bool          // each of them goes through all steps
	outages int           // of Postgres
	cuts    int           // of connections to the broker
	churn   time.Duration // how long processes come and go
}

func extents() extent {
	if os.Getenv("FLINKSINK_LONG") != "" {
		return extent{stripes: 2, whole: true, outages: 20, cuts: 400, churn: time.Minute}
	}
	return extent{stripes: 4, outages: 10, cuts: 100, churn: 20 * time.Second}
}

// Bridges are stopped and woken, lose their database and their broker, come and go; the tables are what was produced.
func TestSurvive(t *testing.T) {
	w := world{to: server(t), seed: seed(t), session: time.Second, rebalance: 6 * time.Second}
	dir := t.TempDir()
	var err error
	if w.flinksink, err = build(t.Context(), dir, "cmd/flinksink"); err != nil {
		t.Fatal(err)
	}
	w.brokers = broker(t, dir)
	e := extents()

	// They wait most of the time, so that they all run at once, whatever go test's -parallel is.
	var all sync.WaitGroup
	defer all.Wait()
	run := func(name string, f func(*testing.T, world)) {
		w := w
		w.name = fmt.Sprintf("survive_%d_%s", os.Getpid(), name)
		all.Go(func() {
			t.Run(name, func(t *testing.T) {
				defer func() {
					if t.Failed() {
						t.Logf("FLINKSINK_SEED=%d repeats what was produced", w.seed)
					}
				}()
				f(t, w)
			})
		})
	}
	if canStop {
		for i := range e.stripes {
			run(fmt.Sprintf("zombie_dynamic_%d", i), func(t *testing.T, w world) { zombieRounds(t, w, dynamic, e.steps(w.seed, i), i) })
			run(fmt.Sprintf("zombie_static_%d", i), func(t *testing.T, w world) { zombieRounds(t, w, static, e.steps(w.seed, i), i) })
		}
		run("zombie_denied", func(t *testing.T, w world) { zombieRounds(t, w, denied, deniedSteps(), 0) })
		run("churn", func(t *testing.T, w world) { churn(t, w, e.churn) })
	}
	run("postgres_killed", func(t *testing.T, w world) { postgresKilled(t, w, e.outages) })
	run("broker_cut", func(t *testing.T, w world) { brokerCut(t, w, e.cuts) })
}
