// Package turns lets contenders take turns in one process. The benchmarks of this module and those of bench/rivals, which is a module of its
// own, measure by it alike.
package turns

import (
	"fmt"
	"runtime"
	"time"
)

// Contender does something n times over, in this process.
type Contender struct {
	Name string
	Run  func() (n int, err error)
}

// Result is what a contender measured, round by round: items a second by the clock and by the CPU, and allocations and bytes an item.
type Result struct{ Rate, CPU, Allocs, Bytes []float64 }

// OnOneCore lets contenders take turns with GOMAXPROCS 1, so that the collector's work counts too. Each runs once a round, and the one that
// begins a round is another one each time.
func OnOneCore(rounds int, cs []Contender) ([]Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	out := make([]Result, len(cs))
	for round := range rounds {
		for k := range cs {
			i := (round + k) % len(cs)
			if err := out[i].run(cs[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", cs[i].Name, err)
			}
		}
	}
	return out, nil
}

func (r *Result) run(c Contender) error {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, known := CPUTime()
	began := time.Now()
	n, err := c.Run()
	d := time.Since(began)
	used, _ := CPUTime()
	used -= cpu
	if !known {
		used = d
	}
	runtime.ReadMemStats(&after)
	if err != nil {
		return err
	}
	r.Rate = append(r.Rate, float64(n)/d.Seconds())
	r.CPU = append(r.CPU, float64(n)/used.Seconds())
	r.Allocs = append(r.Allocs, float64(after.Mallocs-before.Mallocs)/float64(n))
	r.Bytes = append(r.Bytes, float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
	return nil
}

// For repeats f, which does its thing n times over, until d has passed.
func For(d time.Duration, n int, f func() error) func() (int, error) {
	return func() (int, error) {
		done := 0
		for began := time.Now(); ; {
			if err := f(); err != nil {
				return 0, err
			}
			if done += n; time.Since(began) >= d {
				return done, nil
			}
		}
	}
}
