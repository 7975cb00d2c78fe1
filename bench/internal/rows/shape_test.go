package rows

import (
	"slices"
	"testing"
)

// What is written is what is read, and both shapes are what they are said to be.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		s              *Shape
		columns, bytes int // with the key
	}{{Narrow(), 4, 120}, {Wide(), 20, 430}} {
		if len(c.s.Columns) != c.columns || len(c.s.Names()) != c.columns || c.s.Columns[0] != (Column{"id", Int}) {
			t.Errorf("%s: columns %v", c.s.Name, c.s.Columns)
		}
		bytes := 0
		const n = 100
		for id := range int64(n) {
			row := c.s.Row(id*7919, 3)
			value, key := c.s.Value(row), Key(id)
			bytes += len(value) + len(key)
			got, err := c.s.Parse(value)
			if err != nil || !slices.Equal(got, row) {
				t.Fatalf("%s: %v, want %v (%v)", value, got, row, err)
			}
			if got, err := ParseKey(key); err != nil || got != id {
				t.Fatalf("%s: %d (%v)", key, got, err)
			}
			if next := c.s.Row(id*7919, 4); slices.Equal(next, row) {
				t.Fatalf("two versions are equal: %v", row)
			}
		}
		if b := bytes / n; b < c.bytes-20 || b > c.bytes+20 {
			t.Errorf("%s: records of %d bytes, want about %d", c.s.Name, b, c.bytes)
		}
	}
}

// Each key is updated once, or the contenders would not write the same number of rows.
func TestShuffled(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 1000, 80_000} {
		seen := make([]bool, n)
		for i := range n {
			k := Shuffled(i, n)
			if k < 0 || k >= int64(n) || seen[k] {
				t.Fatalf("of %d numbers, %d comes twice or is none of them", n, k)
			}
			seen[k] = true
		}
	}
}
