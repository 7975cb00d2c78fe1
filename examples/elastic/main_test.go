package main

import (
	"strings"
	"testing"
)

// The program that users copy does what it says.
func TestDemo(t *testing.T) {
	t.Setenv("ELASTIC_URL", "")
	var out strings.Builder
	if err := demo(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, `"customer":"ann"`) || !strings.Contains(got, `"total":12.50`) || strings.Contains(got, "bob") || strings.Contains(got, "flinksink_deleted") {
		t.Fatal(got)
	}
}
