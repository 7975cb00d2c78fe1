package main

import (
	"strings"
	"testing"
)

func TestSummarise(t *testing.T) {
	const in = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: fine\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: set X\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC/sub","Output":"    c_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestC/sub"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"-test.shuffle 7\n"}
{"Action":"fail","Package":"p","Elapsed":2}
{"Action":"skip","Package":"q"}
{"Action":"output","Package":"r","Test":"TestD","Output":"panic: no\n"}
{"Action":"fail","Package":"r","Elapsed":1}
{"ImportPath":"s","Action":"build-output","Output":"s.go:1: syntax error\n"}
{"Action":"fail","Package":"s"}
`
	var out strings.Builder
	s, err := summarise(strings.NewReader(in), &out)
	if s.passed != 1 || s.failed != 3 || s.skipped != 1 || err != nil {
		t.Errorf("%d passed, %d failed, %d skipped, %v", s.passed, s.failed, s.skipped, err)
	}
	const again = `failed: p TestC/sub
  |     c_test.go:1: wrong
failed: p TestC
failed: p: -test.shuffle 7
failed: r TestD
  | panic: no
  | s.go:1: syntax error
`
	if got := s.failures.String(); got != again {
		t.Errorf("to show again at the end:\n%s\nwant\n%s", got, again)
	}
	for _, want := range []string{"c_test.go:1: wrong", "panic: no", "syntax error", "skipped: p TestB: b_test.go:1: set X"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	for _, not := range []string{"a_test.go:1: fine", "=== RUN", "q  "} {
		if strings.Contains(out.String(), not) {
			t.Errorf("%q is in\n%s", not, out.String())
		}
	}
}
