package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/internal/capture"
)

func find(t *testing.T, name string) testCase {
	t.Helper()
	for _, c := range cases(t) {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no captured topic %s", name)
	return testCase{}
}

// A bridge of a name goes on where its last run ended, and applies nothing twice.
func TestRun_UntilEndAndOn(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	for _, name := range []string{"upsert_json_3_partitions", "txn_append_failover", "txn_open_transaction"} {
		for _, lanes := range []string{"1", "3"} {
			t.Run(name+" lanes "+lanes, func(t *testing.T) {
				c := find(t, name)
				if lanes == "1" {
					c.load(t, broker)
				}
				table := name + lanes
				run := func() result {
					return command(t, append([]string{"run", "--bridge", table, "--ddl", c.ddl, "--brokers", broker, "--until-end", "--lanes", lanes, "--into", table, "--create-table"}, s.flags()...)...)
				}
				visible := len(c.recs) - c.hidden()
				for i, want := range []int{visible, 0} {
					got := run()
					if got.status != exitDone || got.errs != "" {
						t.Fatalf("run %d: status %d: %s%s", i, got.status, got.out, got.errs)
					}
					head := fmt.Sprintf("bridge %q: topic %s into table %s\nguarantee: exactly once: ", table, name, table)
					if !strings.HasPrefix(got.out, head) || !strings.Contains(got.out, fmt.Sprintf("\nrecords      %d\n", want)) {
						t.Errorf("run %d: want %d records: %s", i, want, got.out)
					}
					for p := range c.partitions() {
						if !strings.Contains(got.out, fmt.Sprintf("%s/%d ", name, p)) {
							t.Errorf("run %d: no position of partition %d: %s", i, p, got.out)
						}
					}
				}
				switch name {
				case "upsert_json_3_partitions":
					s.holds(t, table, c.lines(t, "final.jsonl"))
				case "txn_append_failover":
					s.holds(t, table, c.lines(t, "read.jsonl"))
				default:
					if n := s.one(t, "SELECT count(*) FROM "+table); n != int64(visible) {
						t.Errorf("%d rows of %d visible records", n, visible)
					}
				}
			})
		}
	}
}

// A bridge of a name belongs to one topic and target: another table under the same name is refused before the first row.
func TestRun_NameOfAnotherBridge(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	a, b := find(t, "upsert_json_all"), find(t, "upsert_json_pk_order")
	a.load(t, broker)
	b.load(t, broker)
	run := func(c testCase) result {
		return command(t, append([]string{"run", "--bridge", "same", "--ddl", c.ddl, "--brokers", broker, "--until-end", "--into", c.name, "--create-table"}, s.flags()...)...)
	}
	if got := run(a); got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	got := run(b)
	if got.status != exitConfig || !strings.Contains(got.errs, `"same"`) {
		t.Errorf("status %d: %s", got.status, got.errs)
	}
	if n := s.one(t, "SELECT count(*) FROM pg_class WHERE oid = to_regclass($1)", b.name); n != 0 {
		t.Error("a table was made for a bridge that was refused")
	}
	// Nor is the table of the first made anew while positions are stored for it: what was read would never come again.
	s.exec(t, "DROP TABLE "+a.name)
	if got := run(a); got.status != exitConfig || !strings.Contains(got.errs, "no longer exists") {
		t.Errorf("status %d: %s", got.status, got.errs)
	}
}

// A signal ends a run in order: what was read is in the table, and the next run goes on.
func TestRun_Signal(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic("people"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := capture.Load(t.Context(), []string{broker}, "people", 1, nil); err != nil {
		t.Fatal(err)
	}
	produce := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprintf(`{"id":%d}`, i))).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	ddl := write(t, "ddl.sql", people)
	args := append([]string{"run", "--bridge", "people", "--ddl", ddl, "--brokers", broker, "--create-table", "--interval", "50ms"}, s.flags()...)
	for i := range 2 {
		produce(10*i, 10*i+10)
		ctx, signal := context.WithCancelCause(t.Context())
		done := make(chan result, 1)
		go func() { done <- commandContext(ctx, args...) }()
		s.until(t, fmt.Sprintf("SELECT count(*) = %d FROM people", 10*i+10))
		signal(errInterrupted)
		got := <-done
		if got.status != exitDone || !strings.Contains(got.errs, "stopping with a checkpoint") {
			t.Errorf("status %d: %s", got.status, got.errs)
		}
		if !strings.Contains(got.out, "account      stopped by a signal\nrecords      10\n") || !strings.Contains(got.out, fmt.Sprintf("positions    people/0 %d", 10*i+10)) {
			t.Errorf("account: %s", got.out)
		}
	}
	if n := s.one(t, "SELECT count(DISTINCT id) FROM people"); n != 20 || n != s.one(t, "SELECT count(*) FROM people") {
		t.Errorf("%d different rows", n)
	}
}

// until waits until a query is true.
func (s *scratch) until(t *testing.T, query string) {
	t.Helper()
	// Counted in looks, for a minute at least: where each takes long, what is waited for does too.
	const looks = 3000
	tick := time.NewTicker(time.Minute / looks)
	defer tick.Stop()
	for n := 1; ; n++ {
		var yes bool
		err := s.conn.QueryRow(t.Context(), query).Scan(&yes)
		if err == nil && yes {
			return
		}
		if n == looks {
			t.Fatalf("%s: not so after %d looks (%v)", query, n, err)
		}
		<-tick.C
	}
}

// With --until-end a signal before the end is not success.
func TestRun_SignalBeforeTheEnd(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	c := find(t, "upsert_json_all")
	c.load(t, broker)
	s.exec(t, "CREATE TABLE held (cust text PRIMARY KEY, n bigint, total numeric(20,2), last_item text)")
	// Another session holds the table: the checkpoint cannot be done before the signal.
	other, err := pgx.Connect(t.Context(), s.to)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	ctx, signal := context.WithCancelCause(t.Context())
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE held IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan result, 1)
	go func() {
		done <- commandContext(ctx, append([]string{"run", "--bridge", "held", "--ddl", c.ddl, "--brokers", broker, "--into", "held", "--until-end"}, s.flags()...)...)
	}()
	s.until(t, "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'held'::regclass AND NOT granted")
	signal(errInterrupted)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-done
	switch got.status {
	case exitDone: // the last checkpoint was still done, and reached the end
		s.holds(t, "held", c.lines(t, "final.jsonl"))
	case exitFailed:
		if !strings.Contains(got.errs, "stopped by a signal before the end was reached") {
			t.Errorf("%s%s", got.out, got.errs)
		}
	default:
		t.Errorf("status %d: %s", got.status, got.errs)
	}
	if !strings.Contains(got.out, "account      stopped by a signal\n") {
		t.Errorf("account: %s", got.out)
	}
}

// forget deletes a topic, and the group of the bridge that has its name.
func forget(t *testing.T, kafka, topic string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka))
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.DeleteTopic(context.Background(), topic); err != nil {
		t.Error(err)
	}
	for n := 1; ; n++ { // a member that has left may not be gone yet
		_, err := adm.DeleteGroup(context.Background(), topic)
		if err == nil {
			return
		}
		if !errors.Is(err, kerr.NonEmptyGroup) || n == 600 {
			t.Error(err)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// The same on a real broker.
func TestRun_RealKafka(t *testing.T) {
	kafka := os.Getenv("FLINKSINK_KAFKA")
	if kafka == "" {
		t.Skip("FLINKSINK_KAFKA is not set: set it to the address of a Kafka broker to run this test, or use ./test, which starts one")
	}
	s := newScratch(t)
	for _, name := range []string{"txn_upsert_failover", "txn_append_failover", "upsert_json_3_partitions"} {
		t.Run(name, func(t *testing.T) {
			c := find(t, name)
			topic := s.schema + "_" + name
			if err := capture.Load(t.Context(), []string{kafka}, topic, c.partitions(), c.recs); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { forget(t, kafka, topic) })
			text, err := os.ReadFile(c.ddl)
			if err != nil {
				t.Fatal(err)
			}
			ddl := write(t, "ddl.sql", strings.ReplaceAll(string(text), "'"+name+"'", "'"+topic+"'"))
			read := command(t, "read", "--ddl", ddl, "--brokers", kafka)
			if read.status != exitDone {
				t.Fatalf("read: status %d: %s", read.status, read.errs)
			}
			same(t, c.lines(t, "read.jsonl"), lines(read.out))
			got := command(t, append([]string{"run", "--bridge", topic, "--ddl", ddl, "--brokers", kafka, "--until-end", "--into", name, "--create-table"}, s.flags()...)...)
			if got.status != exitDone {
				t.Fatalf("run: status %d: %s%s", got.status, got.out, got.errs)
			}
			if final := c.lines(t, "final.jsonl"); final != nil {
				s.holds(t, name, final)
			} else {
				s.holds(t, name, c.lines(t, "read.jsonl"))
			}
		})
	}
}
