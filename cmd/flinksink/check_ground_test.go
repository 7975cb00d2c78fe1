package main

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topic makes a topic with settings.
func (s *steered) topic(name string, partitions int32, settings map[string]string) {
	s.t.Helper()
	configs := make(map[string]*string)
	for k, v := range settings {
		configs[k] = &v
	}
	if _, err := kadm.NewClient(s.cl).CreateTopic(s.t.Context(), partitions, 1, configs, name); err != nil {
		s.t.Fatal(err)
	}
}

// A table whose changes have no order across partitions is refused as run refuses it, and beside it stands no guarantee.
func TestCheck_NoOrder(t *testing.T) {
	s := newSteered(t)
	s.topic("cdc", 3, nil)
	s.ddl = write(t, "cdc.sql", `CREATE TABLE people (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'kafka', 'topic' = 'cdc',
  'properties.bootstrap.servers' = 'localhost:1', 'format' = 'debezium-json')`)
	got := s.check("--create-table")
	s.says(got, exitFailed, `wrong topic "cdc" has 3 partitions`, "wrong topic set --unordered", " guarantee none until what is wrong above is put right (topic)")
	if strings.Contains(got.out, "exactly once") {
		t.Errorf("a guarantee beside what is wrong:\n%s", got.out)
	}
	if got := command(t, s.run("--until-end")...); got.status != exitConfig || !strings.Contains(got.errs, "has 3 partitions") {
		t.Errorf("run: status %d: %s", got.status, got.errs)
	}
	got = s.check("--create-table", "--unordered")
	s.says(got, exitDone, "note topic --unordered takes it on trust", " guarantee exactly once")
	if !strings.Contains(got.out, "kept from being more by --unordered: that each row's changes are in one partition is taken on trust") {
		t.Errorf("the guarantee is not qualified:\n%s", got.out)
	}
}

func TestCheck_DataPolicy(t *testing.T) {
	s := newSteered(t)
	s.says(s.check("--create-table"), exitDone, "ok settings stops the bridge (--on-data)")
	s.says(s.check("--create-table", "--on-data", "dead-letter"), exitDone, "ok settings become dead letters, at most 100 a checkpoint", " guarantee exactly once")
	got := s.check("--create-table", "--on-data", "skip")
	s.says(got, exitDone, "note settings dropped and counted")
	if !strings.Contains(got.out, "kept from being more by --on-data skip") {
		t.Errorf("the guarantee is not qualified:\n%s", got.out)
	}
	if got := s.check("--on-data", "ignore"); got.status != exitConfig {
		t.Errorf("status %d: %s", got.status, got.errs)
	}
}

// A position that is older than a compacted topic keeps deletes is found by check as by run, and accepted by the same flag.
func TestCheck_MissedDeletes(t *testing.T) {
	s := newSteered(t)
	s.topic("upserts", 1, map[string]string{"cleanup.policy": "compact"})
	s.ddl = write(t, "upserts.sql", `CREATE TABLE people (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'upserts',
  'properties.bootstrap.servers' = 'localhost:1', 'key.format' = 'json', 'value.format' = 'json')`)
	put := func(at time.Time, key, value string) {
		r := &kgo.Record{Topic: "upserts", Key: []byte(key), Timestamp: at}
		if value != "" {
			r.Value = []byte(value)
		}
		if err := s.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put(time.Now(), `{"id":1}`, `{"id":1,"name":"a"}`)
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatal(got.errs)
	}
	s.says(s.check(), exitDone, "note topic upserts is compacted", "ok positions of upserts/0, was saved at")
	s.exec(t, "UPDATE position SET saved = now() - interval '3 days'")
	s.says(s.check(), exitDone, "ok positions was saved at") // nothing was written since
	put(time.Now().Add(-48*time.Hour), `{"id":1}`, "")
	got := s.check()
	s.says(got, exitFailed, "wrong positions keeps deletes for 24h0m0s", "wrong positions set --allow-missed-deletes", " guarantee none until")
	got = command(t, s.run("--until-end")...)
	if got.status != exitFailed || !strings.Contains(got.errs, "keeps deletes for 24h0m0s") || !strings.Contains(got.errs, "--allow-missed-deletes") {
		t.Errorf("run: status %d: %s", got.status, got.errs)
	}
	if !strings.Contains(got.out, "upserts/0 not begun: what is stored for it stands\n") {
		t.Errorf("the account of a bridge that halted before it acquired anything:\n%s", got.out)
	}
	_, rest, _ := strings.Cut(got.errs, "or once by flinksink ")
	if c := command(t, strings.Fields(strings.ReplaceAll(rest, "'", ""))...); c.status != exitDone || !strings.Contains(c.out, "moved upserts/0 from 1 to 1") {
		t.Errorf("the cure of\n%s\nstatus %d: %s%s", got.errs, c.status, c.out, c.errs)
	}
	s.exec(t, "UPDATE position SET saved = now() - interval '3 days'")
	s.says(s.check("--allow-missed-deletes"), exitDone, "note positions --allow-missed-deletes accepts", " guarantee exactly once")
	got = command(t, s.run("--until-end", "--allow-missed-deletes")...)
	if got.status != exitDone || !strings.Contains(got.errs, "may have been compacted away") || !strings.Contains(got.out, "\nbut for --allow-missed-deletes: rows whose deletes were missed stay\n") {
		t.Errorf("run: status %d: %s%s", got.status, got.out, got.errs)
	}
	if n := s.one(t, "SELECT count(*) FROM people"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// A store that was restored from an older state, its table with it: check and run say so, and the table becomes right again.
func TestCheck_StoreWentBack(t *testing.T) {
	s := newSteered(t)
	s.ids(0, 5)
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatal(got.errs)
	}
	backup := []string{"people", "bridge", "generation", "position"}
	for _, table := range backup {
		s.exec(t, "CREATE TABLE old_"+table+" AS TABLE "+table)
	}
	s.ids(5, 10)
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatal(got.errs)
	}
	for _, table := range backup {
		s.exec(t, "DELETE FROM "+table)
		s.exec(t, "INSERT INTO "+table+" SELECT * FROM old_"+table)
	}
	s.says(s.check(), exitDone, "note positions people/0: the store went back: checkpoint", " guarantee exactly once")
	got := command(t, s.run("--until-end")...)
	if got.status != exitDone || strings.Count(got.errs, "the store went back") != 1 {
		t.Errorf("run: status %d: %s", got.status, got.errs)
	}
	for id, n := range s.counts() {
		if n != 1 {
			t.Errorf("id %d is there %d times", id, n)
		}
	}
	if n := s.one(t, "SELECT count(*) FROM people"); n != 10 {
		t.Errorf("%d rows", n)
	}
	if got := command(t, s.run("--until-end")...); got.status != exitDone || got.errs != "" {
		t.Errorf("it is still said afterwards: status %d: %s", got.status, got.errs)
	}
}

// A bridge that finds nothing where its position is says which command puts that right, and the command does. So does check.
func TestRun_LostNamesTheCommand(t *testing.T) {
	s := newSteered(t)
	s.ids(0, 5)
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatal(got.errs)
	}
	if got := s.positions("set", "--yes", "people:0:99"); got.status != exitDone {
		t.Fatal(got.errs)
	}
	got := command(t, s.run("--until-end")...)
	if got.status != exitFailed || !strings.Contains(got.errs, "set by hand to where nothing is yet") || strings.Contains(got.errs, "gone") {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	_, rest, _ := strings.Cut(got.errs, "flinksink positions set ")
	words, _, _ := strings.Cut(rest, ", or")
	if !strings.HasSuffix(words, " --bridge people --yes people:0:5") {
		t.Fatalf("the command is %q of %s", words, got.errs)
	}
	args := append([]string{"positions", "set"}, strings.Fields(strings.ReplaceAll(words, "'", ""))...)
	s.says(s.check(), exitFailed, "wrong positions by flinksink positions set "+words)
	if got := command(t, args...); got.status != exitDone {
		t.Fatalf("%q: status %d: %s", args, got.status, got.errs)
	}
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
}

func TestCheck_OpenTransaction(t *testing.T) {
	s := newSteered(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.DefaultProduceTopic("people"), kgo.TransactionalID("stuck"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord(`{"id":1}`)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.says(s.check("--create-table"), exitDone, "note topic 1 offsets wait behind an open transaction", `note topic people/0: the last stable offset is 0 of 1: have the producer with the transactional id "stuck" commit or abort`)
	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}

// A topic that was made anew: run and check name the same command, which is one for all its partitions.
func TestRun_TopicMadeAnew(t *testing.T) {
	s := newSteered(t)
	s.topic("anew", 2, nil)
	s.ddl = write(t, "anew.sql", strings.Replace(people, "'topic' = 'people'", "'topic' = 'anew'", 1))
	put := func(partition int32, value string) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "anew", Partition: partition, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put(0, `{"id":1}`)
	put(1, `{"id":2}`)
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatal(got.errs)
	}
	if _, err := kadm.NewClient(s.cl).DeleteTopics(t.Context(), "anew"); err != nil {
		t.Fatal(err)
	}
	s.topic("anew", 2, nil)
	put(0, `{"id":3}`)
	put(1, `{"id":4}`)
	halted := command(t, s.run("--until-end")...)
	_, rest, _ := strings.Cut(halted.errs, "by flinksink ")
	words, _, ok := strings.Cut(rest, " (of all")
	if halted.status != exitFailed || !ok || !strings.HasSuffix(words, " --bridge people --yes") {
		t.Fatalf("status %d: the command is %q of %s", halted.status, words, halted.errs)
	}
	s.says(s.check(), exitFailed, "wrong positions by flinksink "+words)
	if got := command(t, strings.Fields(strings.ReplaceAll(words, "'", ""))...); got.status != exitDone || strings.Count(got.out, "moved anew/") != 2 {
		t.Fatalf("status %d: %s%s", got.status, got.out, got.errs)
	}
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	if n := s.one(t, "SELECT count(*) FROM people"); n != 4 {
		t.Errorf("%d rows", n)
	}
}

// check compares --lanes with what run needs for them: connections, prepared transactions, partitions.
func TestCheck_Lanes(t *testing.T) {
	s := newSteered(t)
	s.ids(0, 1)
	s.says(s.check("--create-table", "--lanes", "2"), exitDone, "note lanes 2 lanes share 1 partitions: 1 of them have nothing to do", "ok lanes 2 lanes and their store use 3 connections at once")
	s.says(s.check("--create-table", "--lanes", "5000"), exitDone, "note lanes 5000 lanes and their store use 5001 connections at once, and the server has ")
	s.says(s.check("--create-table", "--lanes", "5000", "--mode", "prepared"), exitFailed, "wrong server max_prepared_transactions")
	tight := *s
	tight.scratch = &scratch{to: s.to + "&pool_max_conns=2", schema: s.schema, conn: s.conn}
	tight.says(tight.check("--create-table", "--lanes", "2"), exitFailed, "wrong database --to: pool_max_conns=2 is too small for --lanes 2")
}
