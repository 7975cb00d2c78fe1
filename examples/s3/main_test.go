package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	w, err := newWorld(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for range 2 { // the second time there is nothing left to do
		if err := run(t.Context(), w.broker, w.client); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := w.show(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), "\n1000 rows in all\n") || !strings.Contains(out.String(), "raw/visits/day=2026-11-29/") {
			t.Errorf("it shows\n%s", &out)
		}
	}
}
