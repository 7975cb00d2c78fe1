package all

import (
	"slices"
	"testing"
)

func TestFormats_NamesAreUniqueAndSorted(t *testing.T) {
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Name())
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%v", names)
	}
	if fs := Formats(); &fs[0] == &Formats()[0] {
		t.Error("two calls share a slice")
	}
}
