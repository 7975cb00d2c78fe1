package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/flinksink/flinksink/internal/capture"
)

// The test binary is also the child that is killed.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if err := child(ctx, role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestDemonstrate(t *testing.T) {
	if os.Getenv("FLINKSINK_POSTGRES") == "" {
		t.Skip("needs a Postgres: set FLINKSINK_POSTGRES to its connection string, or run ./test")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := demonstrate(ctx, logWriter{t}); err != nil {
		t.Fatal(err)
	}
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

var _ io.Writer = logWriter{}

// The judge must see what is wrong.
func TestCompare(t *testing.T) {
	expected := map[row]int{"a": 1, "b": 1, "twice": 2}
	for _, c := range []struct {
		name  string
		found map[row]int
		want  account
	}{
		{"right", map[row]int{"a": 1, "b": 1, "twice": 2}, account{expected: 4, found: 4}},
		{"nothing", nil, account{expected: 4, lost: 4}},
		{"lost one of two", map[row]int{"a": 1, "b": 1, "twice": 1}, account{expected: 4, found: 3, lost: 1}},
		{"doubled", map[row]int{"a": 3, "b": 1, "twice": 2}, account{expected: 4, found: 6, doubled: 2}},
		{"deleted and there", map[row]int{"a": 1, "b": 1, "twice": 2, "gone": 1}, account{expected: 4, found: 5, resurrected: 1}},
		{"an old version", map[row]int{"a-old": 1, "b": 1, "twice": 2}, account{expected: 4, found: 4, lost: 1, resurrected: 1}},
	} {
		got := compare(expected, c.found)
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
		if got.right() != (c.name == "right") {
			t.Errorf("%s: right() is %v", c.name, got.right())
		}
	}
}

// A copy is the capture again, further on, and with rows of its own.
func TestRecords(t *testing.T) {
	for _, tp := range topics() {
		tp.copies = 3
		recs, err := tp.records()
		if err != nil {
			t.Fatal(err)
		}
		n := len(recs) / 3
		for i, r := range recs[:n] {
			for k := 1; k < 3; k++ {
				c := recs[k*n+i]
				if c.Partition != r.Partition || c.Aborted != r.Aborted || c.Timestamp != r.Timestamp || (c.Key == nil) != (r.Key == nil) || (c.Value == nil) != (r.Value == nil) {
					t.Fatalf("%s: copy %d of record %d is another one", tp.name, k, i)
				}
				if string(c.Key) == string(r.Key) && string(c.Value) == string(r.Value) {
					t.Fatalf("%s: copy %d of record %d is of the same row", tp.name, k, i)
				}
			}
		}
		last := map[int32]capture.Record{}
		for _, r := range recs {
			if l, ok := last[r.Partition.Partition]; ok && r.Offset <= l.Offset {
				t.Fatalf("%s: offset %d follows %d", tp.name, r.Offset, l.Offset)
			}
			last[r.Partition.Partition] = r
		}
		rows, err := tp.expected()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"counts": 3 * 35, "events": 3 * 500}[tp.table]
		if len(rows) != want {
			t.Errorf("%s: %d different rows expected, want %d", tp.table, len(rows), want)
		}
	}
}
