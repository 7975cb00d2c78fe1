package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/bench/internal/turns"
)

// Contenders that make different things of a message would be no contenders.
func TestContendersAgree(t *testing.T) {
	for _, name := range groups() {
		g, err := newGroup(name, 500)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := g.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What compares them must be able to fail.
func TestCheck_Catches(t *testing.T) {
	g, err := newGroup("json", 3)
	if err != nil {
		t.Fatal(err)
	}
	wrong := slices.Clone(g.rows)
	wrong[2].Price.lo++
	if err := g.ours.check(wrong); err == nil {
		t.Error("a wrong row of ours is not seen")
	}
	g.rivals = []rival{{name: "wrong", decode: func(_ [][]byte, into *[]order) error {
		*into = append(*into, wrong...)
		return nil
	}}}
	if err := g.check(); err == nil {
		t.Error("a wrong row of a rival is not seen")
	}
}

// A rival that let text pass that is not UTF-8 would do less than we do.
func TestRivalsLookAtText(t *testing.T) {
	for _, name := range groups() {
		g, err := newGroup(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.LastIndex(g.ours.messages[0], []byte("door"))
		g.ours.messages[0][at] = 0xFF
		if err := g.ours.decode(); err == nil {
			t.Errorf("%s: ours takes it", name)
		}
		for _, r := range g.rivals {
			var got []order
			if err := r.decode(g.ours.messages, &got); err == nil && !strings.Contains(got[len(got)-1].Note, "\uFFFD") {
				t.Errorf("%s: %s takes it", name, r.name)
			}
		}
	}
}

func TestMeasure(t *testing.T) {
	g, err := newGroup("csv", 20)
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.measure(2, time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	roles := map[turns.Role]int{}
	for _, e := range m.Entries {
		roles[e.Role]++
		if len(e.CPU) != 2 || e.CPU[0] <= 0 || e.Name == "" {
			t.Errorf("%+v", e)
		}
	}
	if roles[turns.Decode] != 1 || roles[turns.Encode] != 1 || roles[turns.Rival] == 0 || m.Bytes < 100 {
		t.Errorf("%+v", m)
	}
}

func BenchmarkDecode(b *testing.B) {
	benchmark(b, func(o *ours) (int, error) { return len(o.messages), o.decode() })
}

func BenchmarkEncode(b *testing.B) {
	benchmark(b, func(o *ours) (int, error) { return len(o.rows), o.encode() })
}

// benchmark measures ours alone, for profiles.
func benchmark(b *testing.B, f func(*ours) (n int, err error)) {
	for _, name := range groups() {
		b.Run(name, func(b *testing.B) {
			g, err := newGroup(name, messages)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			rows := 0
			for b.Loop() {
				n, err := f(g.ours)
				if err != nil {
					b.Fatal(err)
				}
				rows += n
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(rows, 1)), "ns/row")
		})
	}
}
