package main

import (
	"fmt"
	"strings"
	"testing"
)

// Only what says nothing about data, and happens to a test of time, is run again.
func TestAgain(t *testing.T) {
	const own = "github.com/flinksink/flinksink/"
	fails := func(pkg, test, output string) string {
		return fmt.Sprintf(`{"Action":"output","Package":"%[1]s","Test":"%[2]s/part","Output":"%[3]s\n"}
{"Action":"fail","Package":"%[1]s","Test":"%[2]s/part"}
{"Action":"fail","Package":"%[1]s","Test":"%[2]s"}
{"Action":"fail","Package":"%[1]s"}
`, own+pkg, test, output)
	}
	waits := fails("bridge", "TestA", "    a_test.go:1: it does not come to pass that the bridge saves")
	for name, c := range map[string]struct{ in, want string }{
		"nothing failed":    {`{"Action":"pass","Package":"p","Test":"TestA"}`, ""},
		"a wait":            {waits, own + "bridge TestA\n"},
		"two waits":         {waits + fails("sink/kafka", "TestB", "no answer"), own + "bridge TestA\n" + own + "sink/kafka TestB\n"},
		"three at once":     {waits + fails("sink/kafka", "TestB", "no") + fails("sink/s3", "TestC", "no"), ""},
		"no test of time":   {fails("changelog", "TestA", "no"), ""},
		"one of two":        {waits + fails("sink", "TestB", "no"), ""},
		"a race":            {fails("bridge", "TestA", "WARNING: DATA RACE"), ""},
		"a law":             {fails("sink/postgres", "TestLaws", "    sinktest: L12: the row is there"), ""},
		"rows":              {fails("cmd/flinksink/killtest", "TestKill", "    at the positions map[0:7]: 1 row"), ""},
		"a lost row":        {fails("sink/s3", "TestA", "2 lost rows"), ""},
		"a package":         {`{"Action":"output","Package":"` + own + `bridge","Test":"TestA","Output":"panic: no\n"}` + "\n" + `{"Action":"fail","Package":"` + own + `bridge"}`, ""},
		"it does not build": {`{"ImportPath":"s","Action":"build-output","Output":"s.go:1: syntax error\n"}` + "\n" + `{"Action":"fail","Package":"s"}`, ""},
	} {
		s, err := summarise(strings.NewReader(c.in), &strings.Builder{})
		if got := string(s.again()); got != c.want || err != nil {
			t.Errorf("%s: to run again: %q, want %q; %v", name, got, c.want, err)
		}
	}
}
