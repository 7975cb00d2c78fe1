package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 123456: "123,456", 1234567: "1,234,567", -1: "-1", -1000: "-1,000", -999: "-999"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func part(n int32, saved, stable, high int64) bridge.PartitionStatus {
	return bridge.PartitionStatus{Partition: changelog.Partition{Topic: "t", Partition: n}, Saved: saved, LastStableOffset: stable, HighWatermark: high}
}

func TestMeter(t *testing.T) {
	start := time.Unix(1000, 0)
	m := &meter{looks: []look{{at: start}}}
	shows := func(after time.Duration, s bridge.Status, want string) {
		t.Helper()
		if got := m.at(s, start.Add(after)); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	shows(time.Second, bridge.Status{}, "0 rows, 0 rows/s, lag unknown, no checkpoint yet")
	shows(2*time.Second, bridge.Status{Partitions: []bridge.PartitionStatus{part(0, -1, -1, -1)}}, "0 rows, 0 rows/s, lag unknown, no checkpoint yet")
	s := bridge.Status{Counters: sink.Counters{Applied: 3000}, Partitions: []bridge.PartitionStatus{part(0, 1000, 4000, 4000), part(1, 10, 10, 10)},
		LastCheckpoint: start.Add(3500 * time.Millisecond), Last: sink.Report{Generation: 3, Checkpoint: 12}}
	shows(4*time.Second, s, "3,000 rows, 750 rows/s, lag 3,000, checkpoint 3.12 500ms ago")
	s.Counters.Applied = 3100
	s.Partitions[0] = part(0, 4000, 4000, 4040)
	s.Retries = 2
	shows(5*time.Second, s, "3,100 rows, 620 rows/s, lag 40, checkpoint 3.12 1.5s ago, 40 offsets wait behind an open transaction, 2 retries")
	// Five seconds later only what came since counts.
	shows(9*time.Second, s, "3,100 rows, 20 rows/s, lag 40, checkpoint 3.12 5.5s ago, 40 offsets wait behind an open transaction, 2 retries")
}

func TestAccount(t *testing.T) {
	var b bytes.Buffer
	s := bridge.Status{
		Counters:    sink.Counters{Records: 12, Read: 11, Applied: 7, Superseded: 2, DeadLettered: 1, Skipped: 1},
		Checkpoints: 3,
		Last:        sink.Report{Generation: 5, Checkpoint: 2},
		Partitions:  []bridge.PartitionStatus{part(0, 10, 10, 10), part(1, 4, 10, 10), part(2, 4, 4, 9), part(3, 2, 4, 9), part(4, -1, -1, -1), part(5, 3, -1, -1)},
		Retries:     1,
	}
	if err := writeAccount(&b, s, 2*time.Second, "stopped by a signal"); err != nil {
		t.Fatal(err)
	}
	golden(t, "account.txt", b.String())
	if err := writeAccount(broken{}, s, 0, ""); err == nil {
		t.Error("an account that cannot be written is no error")
	}
	b.Reset()
	if err := writeAccount(&b, bridge.Status{}, 0, "stopped"); err != nil {
		t.Fatal(err)
	}
	golden(t, "account-empty.txt", b.String())
}

// On a terminal one line is rewritten and always taken away before anything else is printed.
func TestProgress_Terminal(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, []string{"hunter2"})
	p.width = func() int { return 20 }
	p.draw("twelve chars")
	p.draw("short")
	fmt.Fprintf(p, "a warning with hunter2\n")
	p.draw("a line that is longer than the terminal is wide")
	p.start(func() string { return "" })
	p.end()
	want := "twelve chars" + "\r            \r" + "short" + "\r     \r" + "a warning with ******\n" +
		"a line that is long" + "\r                   \r"
	if b.String() != want {
		t.Errorf("%q\nwant\n%q", b.String(), want)
	}
}

func TestProgress_NoTerminal(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, nil)
	p.draw(strings.Repeat("x", 200))
	p.draw("two")
	p.end() // never started: nothing to end
	if want := strings.Repeat("x", 200) + "\ntwo\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}
