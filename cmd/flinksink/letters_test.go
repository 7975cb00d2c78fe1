package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// Letters are listed without what was in the message, and with --json byte for byte.
func TestLetters(t *testing.T) {
	s := newSteered(t)
	letters := func(more ...string) result {
		return command(t, append([]string{"letters", "--store", s.to, "--store-schema", s.schema}, more...)...)
	}
	if got := letters(); got.status != exitDone || got.out != "no dead letters\n" {
		t.Fatalf("before anything is stored: %+v", got)
	}
	const bad = `{"id":"SECRET"}`
	s.produce(`{"id":1}`, bad, `{"id":2}`, `{"id":SECRET`)
	if got := command(t, s.run("--until-end", "--on-data", "dead-letter")...); got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	if n := s.one(t, "SELECT count(*) FROM people"); n != 2 {
		t.Fatalf("%d rows", n)
	}
	got := letters("--bridge", "people")
	all := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.status != exitDone || len(all) != 2 || !strings.Contains(all[0], `bridge "people"  people:0:3`) || !strings.Contains(all[1], "people:0:1") || !strings.Contains(all[1], `column "id"  data: `) {
		t.Fatalf("%+v", got)
	}
	if strings.Contains(got.out, "SECRET") {
		t.Errorf("a value is shown: %s", got.out)
	}
	if got := letters("--limit", "1"); strings.Count(got.out, "people:0:") != 1 || !strings.Contains(got.out, "the newest 1; there may be older ones") {
		t.Errorf("%+v", got)
	}
	var printed struct {
		Letters []struct {
			Topic     string
			Partition int32
			Offset    int64
			Index     *int32
			Class     string
			Key       []byte
			Value     []byte
			Changes   int
		}
	}
	got = letters("--json", "--bridge", "people")
	if err := json.Unmarshal([]byte(got.out), &printed); err != nil || len(printed.Letters) != 2 {
		t.Fatalf("%v: %+v", err, got)
	}
	if l := printed.Letters[1]; l.Topic != "people" || l.Offset != 1 || l.Index != nil || l.Class != "data" || l.Key != nil || string(l.Value) != bad || l.Changes != 1 {
		t.Errorf("%+v", l)
	}
	if got := letters("--bridge", "poeple"); got.status != exitConfig || !strings.Contains(got.errs, `knows no bridge "poeple"`) {
		t.Errorf("%+v", got)
	}
	if got := letters("--limit", "-1"); got.status != exitConfig {
		t.Errorf("%+v", got)
	}
}
