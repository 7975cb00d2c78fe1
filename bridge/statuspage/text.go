package statuspage

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
)

// functions are what the page calls. A nil pointer is shown as a dash.
func functions() template.FuncMap {
	return template.FuncMap{
		"count":    count,
		"offset":   offset,
		"bytes":    size,
		"seconds":  func(s float64) string { return duration(time.Duration(s * float64(time.Second))) },
		"short":    short,
		"rate":     rate,
		"ago":      ago,
		"cut":      cut,
		"fault":    fault,
		"utc":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"light":    light,
		"headline": headline,
		"deref": func(f *float64) float64 {
			if f == nil {
				return 0
			}
			return *f
		},
	}
}

// light is how a bridge is coloured: bad when it is not healthy, warn when it is and yet something fails.
func light(b Bridge) string {
	switch {
	case !b.Healthy:
		return "bad"
	case failing(b):
		return "warn"
	}
	return "good"
}

func headline(b Bridge) string {
	switch {
	case b.State == StateNew:
		return "not started"
	case b.State != StateRunning:
		return b.State
	case !b.Healthy:
		return "running, in trouble"
	case failing(b):
		return "running, something fails and is tried again"
	}
	return "running"
}

func failing(b Bridge) bool {
	return slices.ContainsFunc(b.Lanes, func(l Lane) bool { return l.FailingSince != nil }) ||
		slices.ContainsFunc(b.Partitions, func(p Partition) bool { return p.Trouble != "" })
}

// dash stands for what is not known.
const dash = "–"

// cut names a checkpoint of a sink.
func cut(c *SinkCheckpoint) string {
	if c == nil {
		return dash
	}
	return fmt.Sprintf("%d.%d", c.Generation, c.Checkpoint)
}

// fault is an error with its class, which as a rule its text names.
func fault(e *Error) string {
	if strings.Contains(e.Text, ": "+e.Class+": ") {
		return e.Text
	}
	return e.Class + ": " + e.Text
}

// count groups the digits of n by thousands, with narrow spaces.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(c)
	}
	return sign + b.String()
}

func offset(n *int64) string {
	if n == nil {
		return dash
	}
	return count(*n)
}

func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func rate(f float64) string {
	if f < 10 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return count(int64(f))
}

// ago says how long before now t is.
func ago(now time.Time, t *time.Time) string {
	if t == nil {
		return dash
	}
	return duration(now.Sub(*t)) + " ago"
}

// duration has the two largest units, as people say them.
func duration(d time.Duration) string {
	if d < time.Second {
		return "less than 1 s"
	}
	s := int64(d / time.Second)
	for _, u := range []struct {
		of         int64
		name, part string
		parts      int64
	}{{86400, "d", "h", 3600}, {3600, "h", "min", 60}, {60, "min", "s", 1}} {
		if s >= u.of {
			if rest := s % u.of / u.parts; rest > 0 {
				return fmt.Sprintf("%d %s %d %s", s/u.of, u.name, rest, u.part)
			}
			return fmt.Sprintf("%d %s", s/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d s", s)
}

// short is a span that is mostly far below a second.
func short(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", s)
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f ms", s*1000)
}
