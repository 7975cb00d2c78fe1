package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func (s *steered) check(more ...string) result {
	s.t.Helper()
	return command(s.t, append([]string{"check", "--bridge", "people", "--ddl", s.ddl, "--brokers", s.broker}, s.flags(more...)...)...)
}

// says compares lines of a check, by state, name and a part of the rest.
func (s *steered) says(got result, status int, want ...string) {
	s.t.Helper()
	if got.status != status {
		s.t.Errorf("status %d, want %d: %s", got.status, status, got.errs)
	}
	for _, w := range want {
		state, rest, _ := strings.Cut(w, " ")
		what, part, _ := strings.Cut(rest, " ")
		found := false
		for _, l := range lines(got.out) {
			found = found || strings.HasPrefix(l, fmt.Sprintf("%-6s %-10s ", state, what)) && strings.Contains(l, part)
		}
		if !found {
			s.t.Errorf("%q is missing in\n%s", w, got.out)
		}
	}
}

func (s *steered) relations() int64 {
	s.t.Helper()
	return s.one(s.t, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1", s.schema)
}

// Before the first start, beside a bridge that runs, and after: everything is fine, nothing is made, and nobody is disturbed.
func TestCheck_Fine(t *testing.T) {
	s := newSteered(t)
	s.ids(0, 20)
	got := s.check("--create-table")
	s.says(got, exitDone, "ok ddl table people: 2 columns, no key, mode [I]", "ok settings topic people, starting at", "ok brokers 1 at "+s.broker, `ok group "people" has no members`,
		"ok topic people: 1 partitions, 20 offsets", "ok server Postgres", "ok store makes them at its first start", "ok table --create-table", "ok bridge stored nothing yet", "ok positions 1 partitions begin at",
		" guarantee exactly once: rows and positions in one transaction")
	if n := s.relations(); n != 0 || got.errs != "" || strings.Contains(got.out, "wrong") || !strings.Contains(got.out, "nothing keeps it from being more") {
		t.Errorf("%d relations were made: %s%s", n, got.out, got.errs)
	}

	ctx, signal := context.WithCancelCause(t.Context())
	done := make(chan result, 1)
	go func() { done <- commandContext(ctx, s.run()...) }()
	s.until(t, "SELECT to_regclass('people') IS NOT NULL")
	s.until(t, "SELECT count(*) = 20 FROM people")
	s.says(s.check(), exitDone, `ok group "people" has 1 members`, "ok store format version 1", `ok table "people", and every column fits`, "ok bridge positions of 1 partitions", "ok positions 1 partitions are where they can be read on, 0 offsets")
	s.ids(20, 25)
	s.until(t, "SELECT count(*) = 25 FROM people")
	signal(errInterrupted)
	<-done
	if n := s.one(t, "SELECT last_generation FROM bridge"); n != 1 {
		t.Errorf("generation %d: the check took the partition", n)
	}
	s.ids(25, 28)
	s.says(s.check(), exitDone, "ok positions 3 offsets behind the end")
}

// What would stop a bridge is found with its cure, all of it at once, and the status says so.
func TestCheck_Wrong(t *testing.T) {
	s := newSteered(t)
	s.ids(0, 5)
	s.says(s.check(), exitFailed, "wrong table does not exist: set --create-table", "ok topic people", "skip positions")
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	s.exec(t, "CREATE TABLE other (id bigint, name text)")
	s.says(s.check("--into", "other"), exitFailed, "wrong bridge belongs to another bridge")
	s.exec(t, "CREATE TABLE narrow (id smallint)")
	got := s.check("--into", "narrow")
	s.says(got, exitFailed, `wrong table column "id"`, "ok topic people")
	if got.errs != "flinksink: check: one thing would stop the bridge\n" || !strings.Contains(got.out, `"name"`) {
		t.Errorf("%s%s", got.out, got.errs)
	}

	if got := s.positions("set", "--yes", "people:0:99"); got.status != exitDone {
		t.Fatal(got.errs)
	}
	s.says(s.check(), exitFailed, "wrong positions people/0@99: the log holds offsets 0 to 4")
	if got := s.positions("reset", "--yes"); got.status != exitDone {
		t.Fatal(got.errs)
	}
	s.says(s.check(), exitDone, "ok positions 1 partitions begin at")

	missing := write(t, "missing.sql", strings.Replace(people, "'topic' = 'people'", "'topic' = 'poeple'", 1))
	got = command(t, append([]string{"check", "--bridge", "b", "--ddl", missing, "--brokers", s.broker}, s.flags()...)...)
	s.says(got, exitFailed, `wrong topic "poeple" does not exist`, "ok table people", "skip positions")

	broken := write(t, "broken.sql", strings.Replace(people, "'json'", "'parquet'", 1))
	got = command(t, append([]string{"check", "--bridge", "b", "--ddl", broken, "--brokers", s.broker}, s.flags()...)...)
	s.says(got, exitFailed, "wrong ddl 'parquet'", "ok topic people", "skip table", "ok server Postgres")

	got = impatient(t, "check", "--bridge", "b", "--ddl", "absent.sql", "--to", "postgres://app@"+closedAddress(t)+"/shop")
	s.says(got, exitFailed, "wrong ddl absent.sql", "skip brokers", "wrong database no connection")
	if got.errs != "flinksink: check: 2 things would stop the bridge\n" {
		t.Errorf("%s", got.errs)
	}
	table := func(got result) bool { return strings.Contains(got.out, "ok     table") }
	got = patiently(t, table, append([]string{"check", "--bridge", "b", "--ddl", s.ddl, "--brokers", closedAddress(t)}, s.flags("--create-table")...)...)
	s.says(got, exitFailed, "wrong brokers no answer", "ok table people")
}

// A consumer group that another program uses would be joined in vain.
func TestCheck_GroupOfAnother(t *testing.T) {
	s := newSteered(t)
	s.ids(0, 1)
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.ConsumerGroup("people"), kgo.ConsumeTopics("people"), kgo.Balancers(kgo.RangeBalancer()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if f := cl.PollFetches(t.Context()); f.Err() != nil { // it is a member by now
		t.Fatal(f.Err())
	}
	s.says(s.check("--create-table"), exitFailed, "wrong group another balancing strategy (range")
}

// Passwords of either side are in no line.
func TestCheck_SecretsAreNotShown(t *testing.T) {
	const secret = "hunter2hunter2"
	ddl := write(t, "ddl.sql", `CREATE TABLE people (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'people', 'format' = 'json',
  'properties.bootstrap.servers' = '`+closedAddress(t)+`', 'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.mechanism' = 'PLAIN',
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="`+secret+`";')`)
	got := impatient(t, "check", "--bridge", "b", "--ddl", ddl, "--to", "postgres://app:"+secret+"@"+closedAddress(t)+"/shop")
	if got.status != exitFailed || strings.Contains(got.out+got.errs, secret) || !strings.Contains(got.out, "wrong  brokers") || !strings.Contains(got.out, "wrong  database") {
		t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
	}
}
