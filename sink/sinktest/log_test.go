package sinktest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// lineEncoder is an encoding that shows what it was given, and cannot carry -U.
type lineEncoder struct{}

func (lineEncoder) Table() *changelog.Table { return Keyed() }

func (lineEncoder) Encode(r *changelog.Record, c *changelog.Change) error {
	if c.Kind == changelog.UpdateBefore {
		return errors.New("no -U here")
	}
	r.Key = fmt.Appendf(r.Key, "%d", c.Row[0].Int())
	r.Value = fmt.Appendf(r.Value, "%s %s", c.Kind, c.Row[1].Str())
	return nil
}

func TestLog_ReadsCommitted(t *testing.T) {
	l := NewLog(lineEncoder{})
	l.Insert(0, 1, "a")
	out, in := l.Begin(), l.Begin()
	out.Insert(0, 2, "aborted")
	in.Insert(0, 3, "committed")
	in.Insert(1, int64(4), "elsewhere")
	out.Abort()
	in.Commit()
	l.Compacted(0, 2)
	l.Delete(0, 1)
	l.Raw(0, []byte("k"), nil)
	hanging := l.Begin()
	hanging.Insert(0, 5, "hanging")
	l.UpdateAfter(0, 1, "behind")
	read := func() string {
		rs, err := l.Records(0)
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		for _, r := range rs {
			s = append(s, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value))
		}
		return strings.Join(s, ", ")
	}
	const before = "0 1=+I a, 2 3=+I committed, 7 1=-D , 8 k="
	if got := read(); got != before {
		t.Errorf("got %q, expected %q", got, before)
	}
	hanging.Commit()
	if got, want := read(), before+", 9 5=+I hanging, 10 1=+U behind"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
	if l.End(0) != 12 || l.End(1) != 2 || l.End(2) != 0 {
		t.Errorf("the ends are %d, %d, %d", l.End(0), l.End(1), l.End(2))
	}
}

func TestLog_KeepsTheFirstMistake(t *testing.T) {
	for want, spoil := range map[string]func(l *Log){
		"3 values":    func(l *Log) { l.Insert(0, 1, "a", "b") },
		"Go struct":   func(l *Log) { l.Insert(0, struct{}{}) },
		"no -U here":  func(l *Log) { l.UpdateBefore(0, 1, "a"); l.Insert(0, struct{}{}) },
		"ended twice": func(l *Log) { x := l.Begin(); x.Commit(); x.Abort() },
		"was ended":   func(l *Log) { x := l.Begin(); x.Commit(); x.Insert(0, 1) },
	} {
		l := NewLog(lineEncoder{})
		spoil(l)
		if _, err := l.Records(0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected %q", err, want)
		}
		if _, err := l.Entries(); err == nil {
			t.Error("Entries hides it")
		}
	}
}
