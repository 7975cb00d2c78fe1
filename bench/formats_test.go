package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/bench/internal/turns"
)

// Libraries that are here for their speed alone come near no user of the main module: they are required by bench/rivals and by nothing else.
func TestRivalsStayOut(t *testing.T) {
	modules := func(file string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range regexp.MustCompile(`(?m)^(?:\t|require )(\S+) v\S+`).FindAllSubmatch(text, -1) {
			out = append(out, string(m[1]))
		}
		return out
	}
	ours, theirs := modules(filepath.Join("..", "go.mod")), modules(filepath.Join("rivals", "go.mod"))
	if len(ours) < 10 || !slices.Contains(ours, "github.com/twmb/avro") {
		t.Fatalf("the main module requires %v", ours)
	}
	for _, m := range []string{
		"github.com/bytedance/sonic", "github.com/go-json-experiment/json", "github.com/goccy/go-json", "github.com/hamba/avro/v2", "github.com/valyala/fastjson",
	} {
		if !slices.Contains(theirs, m) {
			t.Errorf("bench/rivals does not require %s: take it off this list", m)
		}
		if slices.Contains(ours, m) {
			t.Errorf("go.mod requires %s, which is for bench/rivals alone", m)
		}
	}
}

func TestFormat(t *testing.T) {
	var out strings.Builder
	b := &bench{out: &out}
	b.format(&turns.Group{Name: "json", Bytes: 200, Want: 1.5e6, Allocs: 1, Entries: []turns.Entry{
		{Name: "flinksink", Role: turns.Decode, Result: turns.Result{CPU: []float64{2e6, 3e6}, Rate: []float64{1, 1}, Allocs: []float64{0.5, 2}, Bytes: []float64{9, 9}}},
		{Name: "flinksink, written again", Role: turns.Encode, Result: turns.Result{CPU: []float64{1e6, 1e6}}},
		{Name: "slow", Role: turns.Rival, Result: turns.Result{CPU: []float64{1e6, 1e6}}},
		{Name: "quick", Role: turns.Rival, Result: turns.Result{CPU: []float64{4e6, 2e6}}},
		{Name: "another thing", Role: turns.Rival, Apart: true, Result: turns.Result{CPU: []float64{9e6, 9e6}}},
	}})
	for _, want := range []string{"json, messages of 200 bytes", "quick", "another thing", "2,500,000 [2,000,000 .. 3,000,000]"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for i, want := range []struct {
		what, verdict string
		median        float64
	}{
		{"json: decode, rows of one core", "met", 2.5e6},
		{"json: decode, allocations a row", "not met, but within the spread", 1.25},
		{"json: time of the encoder ÷ that of the decoder", "missed", 2.5},
		{"json: decode, speed ÷ that of quick", "met", 1},
	} {
		if g := b.goals[i]; g.what != want.what || g.verdict() != want.verdict || g.measured.median() != want.median {
			t.Errorf("%+v, %s, want %+v", g, g.verdict(), want)
		}
	}
	if len(b.goals) != 4 {
		t.Errorf("%d figures", len(b.goals))
	}
}

// The module is looked at where its libraries are, which only ./bench/run fetches.
func TestRivals(t *testing.T) {
	if os.Getenv("FLINKSINK_LONG") == "" {
		t.Skip("set FLINKSINK_LONG=1, as ./test full does, to run the tests of bench/rivals")
	}
	if _, err := command(t.Context(), "rivals", "go", "list", "-deps", "."); err != nil {
		t.Skipf("the libraries of bench/rivals are not here; ./bench/run -only formats fetches them: %v", err)
	}
	for _, args := range [][]string{{"vet", "."}, {"test", "."}} {
		if out, err := command(t.Context(), "rivals", "go", args...); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
