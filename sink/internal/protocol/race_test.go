//go:build race

package protocol

// raced: the race detector makes an exploration ten times slower and finds nothing in its one goroutine.
const raced = true
