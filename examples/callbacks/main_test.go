package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink"
)

func TestShow(t *testing.T) {
	var out strings.Builder
	if err := show(t.Context(), &out, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	const want = `run 1 restores checkpoint 0 and reads from offset 0
the process died after decision 1; readers see 0 rows
run 2 restores checkpoint 1 and reads from offset 2
the process died before decision 2; readers see 2 rows
run 3 restores checkpoint 1 and reads from offset 2
run 3 completed checkpoint 2, up to offset 4
run 3 completed checkpoint 3, up to offset 6
0 ann
1 bob
2 cid
3 dan
4 eve
5 fay
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// What sink.External asks of an engine.
func TestEngine_FencesOldRuns(t *testing.T) {
	e := &engine{path: t.TempDir() + "/engine.json"}
	one, err := e.begin()
	if err != nil {
		t.Fatal(err)
	}
	first, err := e.next(one.Run)(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	two, err := e.begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.next(one.Run)(context.Background()); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("a replaced run was given a number: %v", err)
	}
	if err := e.decide(one.Run, 1, []byte("x")); !errors.Is(err, errReplaced) {
		t.Errorf("a replaced run decided: %v", err)
	}
	second, err := e.next(two.Run)(context.Background())
	if err != nil || second <= first {
		t.Errorf("number %d after %d, %v", second, first, err)
	}
}
