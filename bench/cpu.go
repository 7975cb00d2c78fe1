package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flinksink/flinksink/bench/internal/turns"
)

// cpuTime is what this process has used of all cores so far.
func cpuTime() (time.Duration, bool) { return turns.CPUTime() }

// clockTick is what Linux counts the CPU time of other processes in (USER_HZ, the same on every architecture that Go runs on).
const clockTick = 10 * time.Millisecond

// serverCPU is what the Postgres processes that serve our database have used so far, where they run on this machine and the system tells.
// The pool keeps its connections, so the difference of two readings is what was used in between.
func serverCPU(ctx context.Context, pool *pgxpool.Pool) (sum time.Duration, known bool) {
	rows, err := pool.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'")
	if err != nil {
		return 0, false
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if rows.Scan(&pid) != nil {
			return 0, false
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		// The second field is the command in brackets and may hold anything.
		i := bytes.LastIndexByte(text, ')')
		if err != nil || i < 0 || !bytes.Contains(text[:i], []byte("postgres")) {
			return 0, false // another machine's process numbers
		}
		f := strings.Fields(string(text[i+1:]))
		if len(f) < 13 {
			return 0, false
		}
		for _, ticks := range f[11:13] { // user, system
			n, err := strconv.ParseInt(ticks, 10, 64)
			if err != nil {
				return 0, false
			}
			sum += time.Duration(n) * clockTick
		}
	}
	return sum, rows.Err() == nil && sum > 0
}

// residentMemory is the resident memory of this process, now and at its highest, in bytes; 0 where the system does not tell.
func residentMemory() (now, highest int64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for l := range strings.Lines(string(text)) {
		f := strings.Fields(l)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		switch {
		case err != nil:
		case f[0] == "VmRSS:":
			now = n << 10
		case f[0] == "VmHWM:":
			highest = n << 10
		}
	}
	return now, highest
}
