//go:build !race

package flinkjson

const raceEnabled = false
