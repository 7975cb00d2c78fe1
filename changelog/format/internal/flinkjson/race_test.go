//go:build race

package flinkjson

// raceEnabled: with the race detector a sync.Pool drops some of what it is given, so that allocations say nothing.
const raceEnabled = true
