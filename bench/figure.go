package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// figure is what one contender measured, round by round.
type figure []float64

func (f figure) median() float64 {
	if len(f) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(f))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// String returns the median and the spread.
func (f figure) String() string {
	switch len(f) {
	case 0:
		return "-"
	case 1:
		return number(f[0])
	}
	return fmt.Sprintf("%s [%s .. %s]", number(f.median()), number(slices.Min(f)), number(slices.Max(f)))
}

// over divides round by round: what disturbed both contenders in a round cancels out.
func (f figure) over(g figure) figure {
	var q figure
	for i := range min(len(f), len(g)) {
		q = append(q, f[i]/g[i])
	}
	return q
}

// number prints three digits that count, and thousands apart.
func number(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return "-"
	case x == 0:
		return "0"
	case a < 0.001:
		return fmt.Sprintf("%.5f", x)
	case a < 10:
		return fmt.Sprintf("%.3g", x)
	case a < 100:
		return fmt.Sprintf("%.1f", x)
	}
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// contender does something n times over, in this process.
type contender struct {
	name string
	run  func() (n int, err error)
}

// result is what a contender measured: items a second by the clock and by the CPU, and allocations and bytes an item.
type result struct{ rate, cpu, allocs, bytes figure }

// onOneCore lets contenders take turns with GOMAXPROCS 1, so that the collector's work counts too.
func onOneCore(rounds int, cs []contender) ([]result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	out := make([]result, len(cs))
	for round := range rounds {
		for k := range cs {
			i := (round + k) % len(cs)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			cpu, known := cpuTime()
			began := time.Now()
			n, err := cs[i].run()
			d := time.Since(began)
			used, _ := cpuTime()
			used -= cpu
			if !known {
				used = d
			}
			runtime.ReadMemStats(&after)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", cs[i].name, err)
			}
			r := &out[i]
			r.rate = append(r.rate, float64(n)/d.Seconds())
			r.cpu = append(r.cpu, float64(n)/used.Seconds())
			r.allocs = append(r.allocs, float64(after.Mallocs-before.Mallocs)/float64(n))
			r.bytes = append(r.bytes, float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
		}
	}
	return out, nil
}

func machine() string {
	s := fmt.Sprintf("%s/%s, %s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU())
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for l := range strings.Lines(string(info)) {
			if name, ok := strings.CutPrefix(l, "model name"); ok {
				return s + " of " + strings.Trim(name, " \t\n:")
			}
		}
	}
	return s
}

// loadAverage is of the last 1, 5 and 15 minutes, where the system tells it.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(text)); err == nil && len(f) >= 3 {
		return strings.Join(f[:3], " ")
	}
	return "unknown"
}
