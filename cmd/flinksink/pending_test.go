package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A bridge in mode prepared, what it would leave behind if it died before its decision, and how that is settled.
func TestPendingAndSettle(t *testing.T) {
	s := newSteered(t)
	with := func(name string, more ...string) result {
		return command(t, append([]string{name, "--store", s.to, "--store-schema", s.schema, "--bridge", "people"}, more...)...)
	}
	s.produce(`{"id":1}`, `{"id":2}`)
	if got := command(t, s.run("--until-end", "--mode", "prepares")...); got.status != exitConfig || !strings.Contains(got.errs, "--mode") {
		t.Fatalf("an unknown mode: %+v", got)
	}
	got := command(t, s.run("--until-end", "--mode", "prepared")...)
	if got.status != exitDone || !strings.Contains(got.out, "COMMIT PREPARED") {
		t.Fatalf("%+v", got)
	}
	if n := s.one(t, "SELECT count(*) FROM people"); n != 2 {
		t.Fatalf("%d rows", n)
	}
	if got := with("pending"); got.status != exitDone || !strings.HasSuffix(got.out, "nothing is in doubt\n") || strings.Contains(got.out, "receipt") {
		t.Errorf("pending after an orderly stop: %+v", got)
	}
	if got := with("pending", "--all"); !strings.Contains(got.out, "receipt") || !strings.Contains(got.out, "settled: it is committed") || !strings.HasSuffix(got.out, "nothing is in doubt\n") {
		t.Errorf("pending --all: %+v", got)
	}
	if got := with("settle", "--yes"); got.status != exitDone || strings.Contains(got.out, "receipt") || !strings.HasSuffix(got.out, "nothing is in doubt\n") {
		t.Errorf("settle after an orderly stop: %+v", got)
	}
	// Its last generation prepares once more, and ends without a decision.
	conn, err := pgx.Connect(t.Context(), s.to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var oid string
	var gen int64
	if err := conn.QueryRow(t.Context(), "SELECT oid::text FROM pg_database WHERE datname = current_database()").Scan(&oid); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), "UPDATE "+s.schema+".generation SET ended = true WHERE bridge = 'people' AND id = (SELECT max(id) FROM "+s.schema+".generation) RETURNING id").Scan(&gen); err != nil {
		t.Fatal(err)
	}
	var sinkName string
	if err := conn.QueryRow(t.Context(), "SELECT sink FROM "+s.schema+".fence LIMIT 1").Scan(&sinkName); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{"flinksink", oid, s.schema, "people", sinkName}, "\x00")))
	gid := fmt.Sprintf("flinksink/people/%s/%d/900", hex.EncodeToString(sum[:16]), gen)
	if _, err := conn.Exec(t.Context(), "BEGIN; PREPARE TRANSACTION '"+gid+"'", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	defer conn.Exec(context.Background(), "ROLLBACK PREPARED '"+gid+"'", pgx.QueryExecModeSimpleProtocol)
	here := func() int64 {
		var n int64
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_xacts WHERE gid = $1", gid).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	got = with("pending")
	if got.status != exitDone || !strings.Contains(got.out, "roll back: its generation has ended without deciding it") || !strings.Contains(got.out, gid) {
		t.Errorf("pending: %+v", got)
	}
	var printed struct {
		Pending []struct {
			Checkpoint             int64
			What, Name, Plan, Role string
		}
	}
	if err := json.Unmarshal([]byte(with("pending", "--json").out), &printed); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range printed.Pending {
		found = found || p.Name == gid && p.Plan == "roll back" && p.Checkpoint == 900 && p.What == "prepared transaction" && p.Role != ""
	}
	if !found {
		t.Errorf("--json: %+v", printed)
	}
	if got := with("settle"); got.status != exitDone || !strings.Contains(got.out, "nothing was changed: --yes does it") || here() != 1 {
		t.Errorf("settle without --yes: %+v", got)
	}
	if got := with("settle", "--yes", "--reason", "a test"); got.status != exitDone || !strings.Contains(got.out, "done") || here() != 0 {
		t.Errorf("settle: %+v", got)
	}
	if n := s.one(t, "SELECT count(*) FROM "+s.schema+".audit WHERE what = 'roll back' AND reason LIKE 'a test (%'"); n != 1 {
		t.Errorf("%d rows in the audit", n)
	}
	if got := with("pending", "--bridge", "poeple"); got.status != exitConfig {
		t.Errorf("a misspelt bridge: %+v", got)
	}
	// The bridge goes on, in another mode.
	s.produce(`{"id":3}`)
	if got := command(t, s.run("--until-end", "--mode", "staged")...); got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	if n := s.one(t, "SELECT count(*) FROM people"); n != 3 {
		t.Errorf("%d rows", n)
	}
}
