//go:build race

package bridge

// raced: the race detector makes everything ten times slower.
const raced = true
