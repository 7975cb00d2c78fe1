package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/internal/capture"
)

// newBroker returns the address of a broker in this process.
func newBroker(t *testing.T) string {
	t.Helper()
	b, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b.ListenAddrs()[0]
}

// load writes a captured topic into a broker under the name that its table has.
func (c testCase) load(t *testing.T, broker string) {
	t.Helper()
	if err := capture.Load(t.Context(), []string{broker}, c.name, c.partitions(), c.recs); err != nil {
		t.Fatal(err)
	}
}

// The lines from brokers are those from the file: the same records, in the same order, the same ones left out.
func TestRead_BrokersEqualFile(t *testing.T) {
	broker := newBroker(t)
	for _, c := range cases(t) {
		t.Run(c.name, func(t *testing.T) {
			c.load(t, broker)
			for _, flags := range [][]string{nil, {"--uncommitted"}} {
				file := command(t, append([]string{"read", "--ddl", c.ddl, "--file", c.topic}, flags...)...)
				got := command(t, append([]string{"read", "--ddl", c.ddl, "--brokers", broker}, flags...)...)
				if got.status != file.status || got.errs != file.errs { // some captured records are bad ones, which Flink refused too
					t.Fatalf("%v: status %d: %s", flags, got.status, got.errs)
				}
				same(t, lines(file.out), lines(got.out))
			}
		})
	}
}

// A read from brokers that a signal ends prints whole lines and says so.
func TestRead_Interrupted(t *testing.T) {
	broker := newBroker(t)
	var c testCase
	for _, x := range cases(t) {
		if x.name == "txn_append_failover" {
			c = x
		}
	}
	c.load(t, broker)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	for _, from := range [][]string{{"--brokers", broker}, {"--file", c.topic}} {
		got := commandContext(ctx, append([]string{"read", "--ddl", c.ddl}, from...)...)
		if got.status != exitFailed || got.out != "" || got.errs != "flinksink: read: stopped by a signal: the output is whole lines, but not the whole topic\n" {
			t.Errorf("%v: status %d, %q, %q", from, got.status, got.out, got.errs)
		}
	}
}

// What is written after the start is not read: the command ends.
func TestRead_EndsAtTheEndItFound(t *testing.T) {
	broker := newBroker(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("people"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	produce := func(value string) error {
		return cl.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr()
	}
	adm := capture.Load(t.Context(), []string{broker}, "people", 1, nil)
	if adm != nil {
		t.Fatal(adm)
	}
	if err := produce(`{"id":1}`); err != nil {
		t.Fatal(err)
	}
	ddl := write(t, "ddl.sql", people)
	// The first line is the signal to write on; the reader has looked for the end by then.
	out := &onWrite{do: func() {
		if err := produce(`{"id":2}`); err != nil {
			t.Error(err)
		}
	}}
	var errs strings.Builder
	if status := execute(t.Context(), []string{"read", "--ddl", ddl, "--brokers", broker}, nil, out, &errs); status != exitDone {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	if n := len(lines(out.String())); n != 1 {
		t.Errorf("%d lines: %s", n, out.String())
	}
}

type onWrite struct {
	strings.Builder
	do func()
}

func (w *onWrite) Write(b []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return w.Builder.Write(b)
}

// The writer's failure is the command's.
func TestRead_OutputFails(t *testing.T) {
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":0,"timestamp":1,"key":null,"value":"eyJpZCI6MX0="}`)
	var errs strings.Builder
	status := execute(t.Context(), []string{"read", "--ddl", write(t, "ddl.sql", people), "--file", topic}, nil, broken{}, &errs)
	if status != exitFailed || !strings.Contains(errs.String(), "disk full") {
		t.Errorf("status %d: %s", status, errs.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// Brokers that are away are told within the patience, by every command that needs them, with the address.
func TestBrokersAway(t *testing.T) {
	ddl := write(t, "ddl.sql", people)
	for _, c := range []struct{ name, brokers string }{
		{"refused", closedAddress(t)},
		{"silent", silentAddress(t)},
	} {
		t.Run("read "+c.name, func(t *testing.T) {
			dialled := func(got result) bool { return c.name == "silent" || strings.Contains(got.errs, "refused") }
			got := patiently(t, dialled, "read", "--ddl", ddl, "--brokers", c.brokers)
			if got.status != exitConfig || got.out != "" || !strings.Contains(got.errs, "no answer from the brokers at "+c.brokers) || !strings.Contains(got.errs, "--brokers") {
				t.Errorf("status %d: %s", got.status, got.errs)
			}
			if c.name == "refused" && !strings.Contains(got.errs, "refused") {
				t.Errorf("the reason is missing: %s", got.errs)
			}
		})
		t.Run("run "+c.name, func(t *testing.T) {
			s := newScratch(t)
			connected := func(got result) bool { return strings.Contains(got.errs, "from the brokers") } // to Postgres, which comes first
			got := patiently(t, connected, append([]string{"run", "--bridge", "b", "--ddl", ddl, "--brokers", c.brokers}, s.flags("--create-table")...)...)
			if got.status != exitConfig || got.out != "" || !strings.Contains(got.errs, "no answer from the brokers at "+c.brokers) || !strings.Contains(got.errs, "--brokers") {
				t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
			}
		})
	}
}

// impatient runs a command that gives servers two seconds. None of them may be needed.
func impatient(t *testing.T, args ...string) result {
	t.Helper()
	return patiently(t, func(result) bool { return true }, args...)
}

// patiently does so where one of several servers is away, and gives them longer until those that are there were reached, as enough says: on a busy
// machine two seconds may not do.
func patiently(t *testing.T, enough func(result) bool, args ...string) (got result) {
	t.Helper()
	for patience := 2 * time.Second; patience < time.Minute; patience *= 4 {
		var out, errs strings.Builder
		c := &call{patience: patience}
		status := c.execute(t.Context(), args, strings.NewReader(""), &out, &errs)
		if got = (result{status, out.String(), errs.String()}); enough(got) {
			break
		}
	}
	return got
}

// A topic that is not there is told, with its name, the brokers and the cure.
func TestTopicMissing(t *testing.T) {
	broker := newBroker(t)
	ddl := write(t, "ddl.sql", people)
	want := `topic "people" does not exist at ` + broker
	got := command(t, "read", "--ddl", ddl, "--brokers", broker)
	if got.status != exitConfig || !strings.Contains(got.errs, want) || !strings.Contains(got.errs, "create it") {
		t.Errorf("read: status %d: %s", got.status, got.errs)
	}
	if os.Getenv("FLINKSINK_POSTGRES") == "" {
		return
	}
	s := newScratch(t)
	got = command(t, append([]string{"run", "--bridge", "b", "--ddl", ddl, "--brokers", broker}, s.flags("--create-table")...)...)
	if got.status != exitConfig || got.out != "" || !strings.Contains(got.errs, want) || !strings.Contains(got.errs, "create it") {
		t.Errorf("run: status %d: %s%s", got.status, got.out, got.errs)
	}
}

// Client properties come from the table, and --config goes before them.
func TestConfigFlag(t *testing.T) {
	const password = "kafka-secret"
	b, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "people"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "app", password))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	jaas := func(password string) string {
		return `org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="` + password + `";`
	}
	ddl := write(t, "ddl.sql", strings.Replace(people, "'format'", "'properties.sasl.jaas.config' = '"+jaas("not-it")+"', 'format'", 1))
	read := func(enough func(result) bool, more ...string) result {
		return patiently(t, enough, append([]string{"read", "--ddl", ddl, "--brokers", b.ListenAddrs()[0], "--config", "security.protocol=SASL_PLAINTEXT", "--config", "properties.sasl.mechanism=PLAIN"}, more...)...)
	}
	done, any := func(got result) bool { return got.status == exitDone }, func(result) bool { return true }
	if got := read(done, "--config", "sasl.jaas.config="+jaas(password)); got.status != exitDone {
		t.Errorf("status %d: %s", got.status, got.errs)
	}
	got := read(any)
	if got.status != exitConfig || !strings.Contains(got.errs, "SASL") || strings.Contains(got.errs, "not-it") {
		t.Errorf("wrong password: status %d: %s", got.status, got.errs)
	}
	got = read(any, "--config", "no.such.property=1")
	if got.status != exitConfig || !strings.Contains(got.errs, "no.such.property") {
		t.Errorf("unknown property: status %d: %s", got.status, got.errs)
	}
}
