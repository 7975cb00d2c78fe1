package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/testbed/postgres"
)

// The test binary is also the processes that the program starts: it runs itself.
func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(roleEnv) {
	case roleBroker:
		err = serveBroker(context.Background())
	case roleS3:
		err = serveS3(context.Background(), os.Stdin, os.Stdout)
	case roleFlow:
		err = flowChild(context.Background(), os.Stdin, os.Stdout)
	case roleApart:
		err = apartChild(context.Background(), os.Stdin, os.Stdout)
	case roleMemory:
		err = memoryChild(context.Background(), os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

func TestFigure(t *testing.T) {
	for _, c := range []struct {
		f      figure
		median float64
		text   string
	}{
		{figure{3, 1, 2}, 2, "2 [1 .. 3]"},
		{figure{4, 1, 2, 3}, 2.5, "2.5 [1 .. 4]"},
		{figure{1234567, 99.96, 1000}, 1000, "1,000 [100.0 .. 1,234,567]"},
		{figure{0.0001, 0, -1234.4}, 0, "0 [-1,234 .. 0.00010]"},
	} {
		if got := c.f.median(); got != c.median {
			t.Errorf("%v: median %v", c.f, got)
		}
		if got := c.f.String(); got != c.text {
			t.Errorf("%v: %q, want %q", []float64(c.f), got, c.text)
		}
	}
	if got := (figure{1, 9}).over(figure{2, 3}); !slices.Equal(got, figure{0.5, 3}) {
		t.Errorf("ratios %v", got)
	}
	if got := (figure{}).String(); got != "-" {
		t.Errorf("no rounds: %q", got)
	}
}

// The interval is that of the tables of the sign test: of 11 rounds all but the highest and the lowest, of fewer than 6 none.
func TestFigure_Interval(t *testing.T) {
	for _, c := range []struct {
		n, low, high int
	}{{0, 0, 0}, {1, 0, 0}, {5, 0, 0}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {11, 2, 10}, {12, 3, 10}, {20, 6, 15}} {
		var f figure
		for i := range c.n {
			f = append(f, float64(c.n-i))
		}
		low, high, ok := f.interval()
		if ok != (c.low > 0) || low != float64(c.low) || high != float64(c.high) {
			t.Errorf("%d rounds: %v to %v, %v; want %d to %d", c.n, low, high, ok, c.low, c.high)
		}
	}
}

func TestGoal(t *testing.T) {
	for _, c := range []struct {
		g    goal
		want string
	}{
		{goal{want: 1, measured: figure{1}}, "met"},
		{goal{want: 1, measured: figure{0.8, 1.2, 1.1}}, "met"},
		{goal{want: 1, measured: figure{0.8, 0.9, 1.1}}, "not met, but within the spread"},
		{goal{want: 1, measured: figure{0.8, 0.9, 0.99}}, "missed"},
		{goal{want: 1, most: true, measured: figure{0.8}}, "met"},
		{goal{want: 1, most: true, measured: figure{1.1, 1.2}}, "missed"},
	} {
		if got := c.g.verdict(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.g, got, c.want)
		}
	}
}

func TestSharesOf(t *testing.T) {
	if got := sharesOf([]look{{working, false}, {starved, false}}); got != [states]float64{} {
		t.Errorf("the table was never met: %v", got)
	}
	got := sharesOf([]look{{between, false}, {working, true}, {working, true}, {outside, false}, {between, true}, {working, false}})
	if got != [states]float64{working: 50, between: 25, outside: 25} {
		t.Errorf("%v", got)
	}
}

// Contenders that decode different things would be no contenders.
func TestOrders(t *testing.T) {
	o, err := newOrders(100)
	if err != nil {
		t.Fatal(err)
	}
	if o.bytes < 190 || o.bytes > 210 {
		t.Errorf("records of %d bytes", o.bytes)
	}
	b, structs, maps := changelog.NewBatch(o.decoder.Table()), make([]order, 100), make([]map[string]any, 100)
	if err := errors.Join(o.typed(b), o.structs(structs), o.maps(maps)); err != nil {
		t.Fatal(err)
	}
	columns := o.decoder.Table().Schema.Columns
	for i, c := range b.Changes {
		text := func(n int) string { return string(changelog.AppendText(nil, &columns[n].Type, c.Row[n])) }
		s := structs[i]
		if c.Row[0].Int() != s.ID || text(1) != s.Customer || text(2) != s.Item || c.Row[3].Int() != int64(s.Quantity) ||
			text(4) != s.Price.String() || c.Row[5].Double() != s.Weight || text(6) != s.Ordered || text(7) != s.Note {
			t.Fatalf("%s\nrow %v\nstruct %+v", o.texts[i], c.Row, s)
		}
		if len(maps[i]) != len(columns) || maps[i]["note"] != s.Note {
			t.Fatalf("map %v", maps[i])
		}
	}
}

// The whole program, over a few rows: each contender leaves the table as it must be, or the program fails.
func TestMeasure(t *testing.T) {
	sections := "decode,coordinator,kafka,s3,flat"
	if os.Getenv(postgres.Env) != "" {
		sections += ",postgres,small,guarantee,modes,lanes,fillfactor,waits,memory"
	} else {
		t.Logf("without a Postgres: set %s, or run ./test", postgres.Env)
	}
	var out strings.Builder
	err := measure(t.Context(), []string{"-quick", "-rounds", "1", "-rows", "1501", "-records", "3001", "-only", sections}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"load average", "into typed rows", "a checkpoint after every batch"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestMeasure_Mistakes(t *testing.T) {
	for _, args := range [][]string{{"-only", "decode,typo"}, {"-rounds", "-1"}, {"what"}, {"-rows", "0x"}, {"-shapes", "round"}} {
		if err := measure(t.Context(), args, new(strings.Builder)); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	o, err := newOrders(decodeBatch)
	if err != nil {
		b.Fatal(err)
	}
	batch, structs, maps := changelog.NewBatch(o.decoder.Table()), make([]order, decodeBatch), make([]map[string]any, decodeBatch)
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"flinksink", func() error { return o.typed(batch) }},
		{"encoding-json-struct", func() error { return o.structs(structs) }},
		{"encoding-json-map", func() error { return o.maps(maps) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(decodeBatch*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkCoordinator(b *testing.B) {
	s, err := newSteady(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.co.Close(context.Background()) })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.write(b.Context(), 1, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/coordinatorBatch, "ns/change")
}
