package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A busy bridge whose position is moved again and again, at any moment of its checkpoints: every offset is applied as often as the
// moves that the audit tells of say, and never once more or less.
func TestPositionsSet_WhileABridgeIsBusy(t *testing.T) {
	const moves = 8
	s := newSteered(t)
	ctx, signal := context.WithCancelCause(t.Context())
	done := make(chan result, 1)
	s.ids(0, 1)
	go func() { done <- commandContext(ctx, s.run("--interval", "5ms")...) }()
	s.until(t, "SELECT to_regclass('people') IS NOT NULL AND EXISTS (SELECT FROM pg_tables WHERE schemaname = '"+s.schema+"' AND tablename = 'position')")
	s.until(t, "SELECT count(*) > 0 FROM people")
	// A bridge notices a move when it next writes, so records come until the last move is done.
	enough, produced := make(chan struct{}), make(chan int, 1)
	go func() {
		for id := 1; ; id++ {
			if err := s.cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf(`{"id":%d}`, id))).FirstErr(); err != nil {
				t.Error(err)
			}
			select {
			case <-enough:
				produced <- id + 1
				return
			default:
			}
		}
	}()
	for i := range moves {
		s.until(t, fmt.Sprintf("SELECT coalesce(max(next_offset), 0) > %d FROM position", 10*i+10))
		if got := s.positions("set", "--yes", fmt.Sprintf("people:0:%d", 10*i)); got.status != exitDone {
			t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
		}
		if i == moves/2 { // one that is refused disturbs nobody
			if got := s.positions("set", "--was", "people:0:1000000", "people:0:0"); got.status != exitConfig || !strings.Contains(got.errs, "was expected") {
				t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
			}
		}
	}
	close(enough)
	total := <-produced
	s.ids(total, total+1)
	s.until(t, fmt.Sprintf("SELECT max(next_offset) = %d FROM position", total+1))
	signal(errInterrupted)
	if got := <-done; got.status != exitDone {
		t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
	}
	want := make(map[int64]int64)
	for id := range int64(total + 1) {
		want[id] = 1
	}
	rows, err := s.conn.Query(t.Context(), "SELECT before_offset, after_offset FROM audit")
	if err != nil {
		t.Fatal(err)
	}
	var before, after int64
	n := 0
	for rows.Next() {
		if err := rows.Scan(&before, &after); err != nil {
			t.Fatal(err)
		}
		n++
		for id := after; id < before; id++ {
			want[id]++
		}
	}
	if n != moves {
		t.Errorf("%d moves in the audit", n)
	}
	got := s.counts()
	for id, w := range want {
		if got[id] != w {
			t.Errorf("id %d: %d times, want %d", id, got[id], w)
		}
	}
}
