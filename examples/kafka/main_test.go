package main

import (
	"strings"
	"testing"
)

// The program carries every change over, the delete as a null value.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"exactly once: records, positions and the group's offsets in one Kafka transaction",
		`key 1: value "1,ann,10.50", null: false`, `value "2,\"bob, the second\",99999999999999999.99"`, `key 1: value "", null: true`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %s:\n%s", want, out.String())
		}
	}
}
