package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/internal/capture"
)

// Every captured topic through a broker into Postgres: a table of updates ends as Flink's own, an append table has each row once.
func TestReplay_TableEqualsFlink(t *testing.T) {
	s := newScratch(t)
	for i, c := range cases(t) {
		t.Run(c.name, func(t *testing.T) {
			table := fmt.Sprintf("t%d", i)
			c := c
			if at, why := c.stops(t); at != "" {
				got := command(t, append([]string{"replay", "--ddl", c.ddl, "--file", c.topic, "--into", table, "--create-table"}, s.flags()...)...)
				if got.status != exitFailed || !strings.Contains(got.errs, at) {
					t.Errorf("%s at %s: status %d: %s", why, at, got.status, got.errs)
				}
				return
			}
			c.withoutNUL(t, s)
			got := command(t, append([]string{"replay", "--ddl", c.ddl, "--file", c.topic, "--into", table, "--create-table"}, s.flags()...)...)
			if got.status != exitDone {
				t.Fatalf("status %d: %s%s", got.status, got.out, got.errs)
			}
			if got.errs != "" {
				t.Errorf("standard error: %s", got.errs)
			}
			if !strings.HasPrefix(got.out, `bridge "replay-`) || !strings.Contains(got.out, "\nguarantee: exactly once: ") {
				t.Errorf("no guarantee at the start: %s", got.out)
			}
			visible := len(c.recs) - c.hidden()
			if want := fmt.Sprintf("\nrecords      %d\n", visible); !strings.Contains(got.out, want) {
				t.Errorf("the account has other than %d records: %s", visible, got.out)
			}
			open := 0
			for i := range c.recs {
				if c.recs[i].Open {
					open++
				}
			}
			if says := strings.Contains(got.out, "behind an open transaction: they are read once it ends"); says != (open > 0) {
				t.Errorf("%d records behind an open transaction: %s", open, got.out)
			}
			final := c.lines(t, "final.jsonl")
			switch c.name {
			// METADATA columns tell a message's time, so Flink's delete equals no row of an older message; here the row is gone.
			case "maxwell_real", "ogg_real":
				final = []string{}
			case "debezium_real":
				final = slices.DeleteFunc(final, func(row string) bool { return !strings.Contains(row, `"id":"20"`) })
			}
			if final != nil {
				s.holdsScalars(t, table, final)
			} else if rows := c.lines(t, "read.jsonl"); rows != nil {
				s.holdsScalars(t, table, rows)
			} else if n := s.one(t, "SELECT count(*) FROM "+table); n != int64(visible) {
				t.Errorf("%d rows, %d visible records", n, visible)
			}
		})
	}
}

// stops returns the record at which a run of this topic stops, and why; "" where it reaches the end.
func (c *testCase) stops(t *testing.T) (at, why string) {
	t.Helper()
	if c.name == "canal_real" {
		return "canal_real/0@1", "no PRIMARY KEY, and Flink's -U in a message of several rows is not the old row"
	}
	nul := ""
	for _, l := range c.lines(t, "read.jsonl") {
		var row struct {
			Partition, Offset int
			Error             string
		}
		if err := json.Unmarshal([]byte(l), &row); err != nil {
			t.Fatal(err)
		}
		place := fmt.Sprintf("%s/%d@%d", c.name, row.Partition, row.Offset)
		switch {
		case row.Error != "" && nul != "":
			return nul, "a NUL character, before what Flink cannot read"
		case row.Error != "":
			return place, "what Flink cannot read"
		case nul == "" && strings.Contains(l, `\u0000`):
			nul = place
		}
	}
	return "", ""
}

// withoutNUL leaves out the records whose rows hold a NUL character, which Flink has and Postgres cannot store. That the run stops there, with
// the row's place and column and everything before it in the table, is checked.
func (c *testCase) withoutNUL(t *testing.T, s *scratch) {
	t.Helper()
	rows := c.lines(t, "read.jsonl")
	var topic strings.Builder
	bad, before := "", 0
	for i, l := range c.lines(t, "topic.jsonl") {
		if c.hidden() == 0 && i < len(rows) && strings.Contains(rows[i], `\u0000`) {
			if bad == "" {
				bad, before = fmt.Sprintf("%s/%d@%d", c.name, c.recs[i].Partition.Partition, c.recs[i].Offset), i
			}
			continue
		}
		topic.WriteString(l + "\n")
	}
	if bad == "" {
		return
	}
	got := command(t, append([]string{"replay", "--ddl", c.ddl, "--file", c.topic, "--into", "nul_" + c.name, "--create-table"}, s.flags()...)...)
	if got.status != exitFailed || !strings.Contains(got.errs, bad) || !strings.Contains(got.errs, "NUL") {
		t.Errorf("a NUL character at %s: status %d: %s", bad, got.status, got.errs)
	}
	if n := s.one(t, "SELECT count(*) FROM nul_"+c.name); n != int64(before) {
		t.Errorf("%d rows, and %d are before the one that is refused", n, before)
	}
	c.topic = write(t, "topic.jsonl", topic.String())
	c.left = func(row string) bool { return !strings.Contains(row, `\u0000`) }
	var err error
	if c.recs, err = capture.ReadFile(c.topic); err != nil {
		t.Fatal(err)
	}
}

// holdsScalars is holds for rows that may have nested columns: those are compared by presence, as Postgres has its own form of them.
func (s *scratch) holdsScalars(t *testing.T, table string, flink []string) {
	t.Helper()
	nested := map[string]bool{}
	rows := make([]map[string]any, len(flink))
	for i, l := range flink {
		var change struct {
			Row map[string]any `json:"row"`
		}
		if err := json.Unmarshal([]byte(l), &change); err != nil {
			t.Fatal(err)
		}
		rows[i] = change.Row
		for k, v := range change.Row {
			switch v.(type) {
			case []any, map[string]any:
				nested[k] = true
			}
		}
	}
	if len(nested) == 0 {
		s.holds(t, table, flink)
		return
	}
	// A view without the nested columns, and whether each is there.
	var cols []string
	for _, c := range s.columns(t, table) {
		name := `"` + strings.ReplaceAll(c.name, `"`, `""`) + `"`
		if nested[c.name] {
			cols = append(cols, name+" IS NOT NULL AS "+name)
		} else {
			cols = append(cols, name)
		}
	}
	s.exec(t, "CREATE VIEW "+table+"_scalars AS SELECT "+strings.Join(cols, ", ")+" FROM "+table)
	flat := make([]string, len(rows))
	for i, r := range rows {
		for k := range nested {
			r[k] = fmt.Sprint(r[k] != nil)
		}
		b, err := json.Marshal(map[string]any{"row": r})
		if err != nil {
			t.Fatal(err)
		}
		flat[i] = string(b)
	}
	s.holds(t, table+"_scalars", flat)
}

// A replay is a bridge of a new name: it applies everything again.
func TestReplay_Again(t *testing.T) {
	s := newScratch(t)
	var appended, upserted testCase
	for _, c := range cases(t) {
		switch c.name {
		case "txn_append_failover":
			appended = c
		case "txn_upsert_failover":
			upserted = c
		}
	}
	for range 2 {
		for _, c := range []testCase{appended, upserted} {
			if got := command(t, append([]string{"replay", "--ddl", c.ddl, "--file", c.topic, "--into", c.name, "--create-table"}, s.flags()...)...); got.status != exitDone {
				t.Fatalf("status %d: %s", got.status, got.errs)
			}
		}
	}
	rows := appended.lines(t, "read.jsonl")
	s.holds(t, appended.name, append(rows, rows...))
	s.holds(t, upserted.name, upserted.lines(t, "final.jsonl"))
}

func TestReplay_BadRecord(t *testing.T) {
	s := newScratch(t)
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":0,"timestamp":1,"key":null,"value":"eyJpZCI6MX0="}
{"partition":0,"offset":1,"timestamp":1,"key":null,"value":"e1NFQ1JFVA=="}
{"partition":0,"offset":2,"timestamp":1,"key":null,"value":"eyJpZCI6Mn0="}
`)
	got := command(t, append([]string{"replay", "--ddl", write(t, "ddl.sql", people), "--file", topic, "--create-table"}, s.flags()...)...)
	if got.status != exitFailed || !strings.Contains(got.errs, "people/0") || strings.Contains(got.out+got.errs, "SECRET") {
		t.Errorf("status %d: %s", got.status, got.errs)
	}
	if !strings.Contains(got.out, "stopped by the error below") || !strings.Contains(got.out, "people/0 1 of 3: 2 to be read") {
		t.Errorf("account: %s", got.out)
	}
	if n := s.one(t, "SELECT count(*) FROM people"); n != 1 {
		t.Errorf("%d rows: everything before the bad record is one", n)
	}
}
