package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
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

// interval is one that holds the true median in at least 95 % of cases, whatever the distribution: of the sorted rounds the kth from either end, where k is the
// largest for which so few heads of a fair coin are rare enough. ok is false of fewer than six rounds.
func (f figure) interval() (low, high float64, ok bool) {
	n, k := len(f), 0
	term, sum := math.Pow(0.5, float64(n)), 0.0 // probability of exactly k heads, of fewer
	for ; k < n/2; k++ {
		if sum += term; 2*sum > 0.05 {
			break
		}
		term *= float64(n-k) / float64(k+1)
	}
	if k == 0 {
		return 0, 0, false
	}
	s := slices.Sorted(slices.Values(f))
	return s[k-1], s[n-k], true
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
