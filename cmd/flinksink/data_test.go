package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/internal/capture"
)

const strictDDL = `CREATE TABLE strict (
  id BIGINT, name STRING, amount DECIMAL(20, 2), tag STRING, parent BIGINT, later BIGINT, must STRING, PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = '%[1]s', 'properties.bootstrap.servers' = 'x', 'key.format' = 'json', 'value.format' = 'json')`

// strictTable refuses what Flink's table allows; the last constraint not before COMMIT, where Postgres does not say which row it was.
const strictTable = `
CREATE TABLE parents (id bigint PRIMARY KEY);
INSERT INTO parents VALUES (1);
CREATE TABLE strict (id bigint PRIMARY KEY, name varchar(5) CHECK (name <> 'never'), amount numeric(20, 2), small numeric(5, 2) GENERATED ALWAYS AS (amount) STORED, tag text UNIQUE,
  parent bigint REFERENCES parents, later bigint REFERENCES parents DEFERRABLE INITIALLY DEFERRED, must text NOT NULL)`

// strictMessages are the topic; what is refused of it has a reason.
var strictMessages = []struct {
	value  string // of the fields but the id, "" a delete
	id     int
	class  string // "": it is applied
	column string // "?" where Postgres need not say
}{
	{`"name":"one","tag":"t","parent":1,"later":1,"must":"m"`, 1, "", ""},
	{`"name":"a\u0000b","must":"m"`, 2, "rejected", "name"},
	{`"name":"two","must":"m"`, 20, "", ""},
	{`"amount":123456.00,"must":"m"`, 3, "rejected", "?"},
	{`"name":"toolong","must":"m"`, 4, "rejected", "?"},
	{`"name":"never","must":"m"`, 5, "rejected", "?"},
	{`"tag":"t","must":"m"`, 6, "rejected", "?"},
	{`"parent":7,"must":"m"`, 7, "rejected", "?"},
	{`"later":8,"must":"m"`, 8, "rejected", "?"},
	{`"name":"nine"`, 9, "rejected", "must"},
	{`"name":`, 10, "data", "?"},
	{`"name":"ten","amount":1.50,"must":"m"`, 10, "", ""},
	{`"name":"gone","must":"m"`, 12, "", ""},
	{``, 12, "", ""},
	{`"name":"last","must":"m"`, 11, "", ""},
}

func loadStrict(t *testing.T, broker, topic string) {
	t.Helper()
	if err := capture.Load(t.Context(), []string{broker}, topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, m := range strictMessages {
		r := kgo.KeySliceRecord(fmt.Appendf(nil, `{"id":%d}`, m.id), nil)
		if m.value != "" {
			r.Value = fmt.Appendf(nil, `{"id":%d,%s}`, m.id, m.value)
		}
		r.Headers = []kgo.RecordHeader{{Key: "trace", Value: []byte("42")}}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *scratch) texts(t *testing.T, query string) []string {
	t.Helper()
	rows, err := s.conn.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// What Postgres refuses goes where the policy says, whichever way Postgres says so; the rest is applied, and the account is balanced in what is
// printed and in what is stored.
func TestRun_OnData(t *testing.T) {
	broker := newBroker(t)
	bad := 0
	for _, m := range strictMessages {
		if m.class != "" {
			bad++
		}
	}
	for _, policy := range []string{"dead-letter", "skip"} {
		t.Run(policy, func(t *testing.T) {
			s := newScratch(t)
			s.exec(t, strictTable)
			loadStrict(t, broker, "strict_"+policy)
			ddl := write(t, "ddl.sql", fmt.Sprintf(strictDDL, "strict_"+policy))
			args := append([]string{"run", "--bridge", "strict", "--ddl", ddl, "--brokers", broker, "--until-end", "--into", "strict", "--on-data", policy}, s.flags()...)
			got := command(t, args...)
			if got.status != exitDone {
				t.Fatalf("status %d: %s%s", got.status, got.out, got.errs)
			}
			if rows := s.texts(t, "SELECT id || ' ' || name FROM strict ORDER BY id"); !slices.Equal(rows, []string{"1 one", "10 ten", "11 last", "20 two"}) {
				t.Errorf("rows %q", rows)
			}
			letters, skipped := bad, 0
			if policy == "skip" {
				letters, skipped = 0, bad
			}
			if want := fmt.Sprintf("%d skipped, %d dead-lettered", skipped, letters); !strings.Contains(got.out, want) || !strings.Contains(got.out, fmt.Sprintf("changes      %d read: ", len(strictMessages))) {
				t.Errorf("the account does not say %q: %s", want, got.out)
			}
			if n := s.one(t, "SELECT count(*) FROM position WHERE read <> applied + superseded + dead_lettered + skipped OR next_offset <> $1", len(strictMessages)); n != 0 {
				t.Errorf("%d positions are not balanced, or not at the end", n)
			}
			s.strictLetters(t, policy == "dead-letter")
			shown := command(t, "positions", "show", "--store", s.to, "--store-schema", s.schema, "--json")
			var any map[string]any
			if shown.status != exitDone || json.Unmarshal([]byte(shown.out), &any) != nil {
				t.Errorf("positions show: %d %s", shown.status, shown.errs)
			}
			if secret := "a\x00b"; strings.Contains(got.errs+got.out, secret) || strings.Contains(got.errs, "toolong") {
				t.Errorf("a row is shown: %s", got.errs)
			}
		})
	}
}

// An update in one message is refused or applied as one: the row stays as it was, and the next update of its key applies as usual.
func TestRun_OnDataOfAnUpdate(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	if err := capture.Load(t.Context(), []string{broker}, "people", 1, nil); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic("people"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	s.exec(t, "CREATE TABLE people (id bigint PRIMARY KEY, name text CHECK (name <> 'never'))")
	ddl := write(t, "ddl.sql", `CREATE TABLE people (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
		WITH ('connector' = 'kafka', 'topic' = 'people', 'properties.bootstrap.servers' = 'x', 'scan.startup.mode' = 'earliest-offset', 'format' = 'debezium-json')`)
	row := func(name string) string {
		if name == "" {
			return "null"
		}
		return fmt.Sprintf(`{"id":1,"name":%q}`, name)
	}
	// Each step is a checkpoint of its own: in one, the refused update would be superseded by the next.
	for i, step := range []struct{ op, before, after, rows, account string }{
		{"c", "", "a", "1 a", "1 read: 1 applied, 0 superseded, 0 skipped, 0 dead-lettered"},
		{"u", "a", "never", "1 a", "2 read: 0 applied, 0 superseded, 0 skipped, 2 dead-lettered"},
		{"u", "never", "c", "1 c", "2 read: "},
		{"d", "c", "", "", "1 read: 1 applied, 0 superseded, 0 skipped, 0 dead-lettered"},
	} {
		r := kgo.StringRecord(fmt.Sprintf(`{"before":%s,"after":%s,"op":%q}`, row(step.before), row(step.after), step.op))
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		got := command(t, append([]string{"run", "--bridge", "people", "--ddl", ddl, "--brokers", broker, "--until-end", "--on-data", "dead-letter"}, s.flags()...)...)
		if got.status != exitDone || !strings.Contains(got.out, step.account) {
			t.Fatalf("step %d: status %d: %s%s", i, got.status, got.out, got.errs)
		}
		if rows := strings.Join(s.texts(t, "SELECT id || ' ' || name FROM people"), ","); rows != step.rows {
			t.Errorf("step %d: rows %q, want %q", i, rows, step.rows)
		}
	}
	if got := s.texts(t, "SELECT message_offset || ' ' || change_index || ' ' || changes FROM dead_letter"); !slices.Equal(got, []string{"1 1 2"}) {
		t.Errorf("letters %q, want one of both halves of the update", got)
	}
}

// Of a key's changes in one batch only the last is written. The others are superseded, in the account, in what is stored and in what
// positions show prints, and everything adds up.
func TestRun_AccountsForSuperseded(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	if err := capture.Load(t.Context(), []string{broker}, "counts", 1, nil); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic("counts"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const messages = 500
	var rs []*kgo.Record
	for i := range messages {
		rs = append(rs, kgo.KeySliceRecord(fmt.Appendf(nil, `{"id":%d}`, i%5), fmt.Appendf(nil, `{"id":%d,"n":%d}`, i%5, i)))
	}
	if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ddl := write(t, "ddl.sql", `CREATE TABLE counts (id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)
		WITH ('connector' = 'upsert-kafka', 'topic' = 'counts', 'properties.bootstrap.servers' = 'x', 'key.format' = 'json', 'value.format' = 'json')`)
	got := command(t, append([]string{"run", "--bridge", "counts", "--ddl", ddl, "--brokers", broker, "--until-end", "--create-table", "--interval", "1h"}, s.flags()...)...)
	if got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	_, line, _ := strings.Cut(got.out, "\nchanges ")
	var read, applied, superseded, skipped, dead int64
	if _, err := fmt.Sscanf(strings.TrimSpace(line), "%d read: %d applied, %d superseded, %d skipped, %d dead-lettered", &read, &applied, &superseded, &skipped, &dead); err != nil {
		t.Fatalf("%v: %s", err, got.out)
	}
	if read != messages || superseded == 0 || applied < 5 || read != applied+superseded+skipped+dead {
		t.Errorf("account %s", got.out)
	}
	if n := s.one(t, "SELECT count(*) FROM position WHERE read = $1 AND superseded = $2 AND applied = $3", read, superseded, applied); n != 1 {
		t.Error("what is stored is not what was printed")
	}
	shown := command(t, "positions", "show", "--store", s.to, "--store-schema", s.schema, "--json")
	if !strings.Contains(strings.ReplaceAll(shown.out, " ", ""), fmt.Sprintf(`"superseded":%d`, superseded)) {
		t.Errorf("positions show: %s%s", shown.out, shown.errs)
	}
}

// strictLetters compares the dead letters with the topic.
func (s *scratch) strictLetters(t *testing.T, kept bool) {
	t.Helper()
	got := s.texts(t, `SELECT message_offset || ' ' || class || ' ' || column_name || ' ' || changes || ' ' || coalesce(convert_from(value, 'UTF8'), 'null') || ' ' ||
		convert_from(key, 'UTF8') || ' ' || convert_from(header_keys[1], 'UTF8') || '=' || convert_from(header_values[1], 'UTF8') FROM dead_letter ORDER BY message_offset`)
	if !kept {
		if len(got) > 0 {
			t.Errorf("letters %q", got)
		}
		return
	}
	var want int
	for i, m := range strictMessages {
		if m.class == "" {
			continue
		}
		if want == len(got) {
			t.Fatalf("no letter for message %d; letters\n%s", i, strings.Join(got, "\n"))
		}
		f := strings.SplitN(got[want], " ", 4)
		rest := fmt.Sprintf(`1 {"id":%d,%s} {"id":%d} trace=42`, m.id, m.value, m.id)
		if f[0] != fmt.Sprint(i) || f[1] != m.class || f[3] != rest || m.column != "?" && f[2] != m.column {
			t.Errorf("letter %q, want message %d, class %s, column %s, %s", got[want], i, m.class, m.column, rest)
		}
		want++
	}
	if want != len(got) {
		t.Errorf("%d letters, want %d:\n%s", len(got), want, strings.Join(got, "\n"))
	}
}

// Under halt each bad message stops the run with everything before it saved, and names a command that gets past exactly it.
func TestRun_HaltNamesTheWayPast(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	s.exec(t, strictTable)
	loadStrict(t, broker, "strict")
	ddl := write(t, "ddl.sql", fmt.Sprintf(strictDDL, "strict"))
	args := append([]string{"run", "--bridge", "strict", "--ddl", ddl, "--brokers", broker, "--until-end", "--into", "strict"}, s.flags()...)
	for i, m := range strictMessages {
		if m.class == "" {
			continue
		}
		got := command(t, args...)
		if got.status != exitFailed || !strings.Contains(got.errs, fmt.Sprintf("strict:0:%d", i)) || !strings.Contains(got.errs, "everything before it is checkpointed") {
			t.Fatalf("message %d: status %d: %s", i, got.status, got.errs)
		}
		if n := s.one(t, "SELECT next_offset FROM position"); n != int64(i) {
			t.Fatalf("position %d, want %d", n, i)
		}
		_, line, ok := strings.Cut(got.errs, "to skip this record: flinksink ")
		if !ok {
			t.Fatalf("no command: %s", got.errs)
		}
		line, _, _ = strings.Cut(line, "\n")
		words := strings.Fields(line)
		for i := range words {
			words[i] = strings.Trim(words[i], "'")
		}
		if got := command(t, words...); got.status != exitDone {
			t.Fatalf("%s: status %d: %s", line, got.status, got.errs)
		}
	}
	if got := command(t, args...); got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	if rows := s.texts(t, "SELECT id || ' ' || name FROM strict ORDER BY id"); !slices.Equal(rows, []string{"1 one", "10 ten", "11 last", "20 two"}) {
		t.Errorf("rows %q", rows)
	}
}

// The budget stops a run whose table definition does not fit the topic, with what came before it saved.
func TestRun_DataBudget(t *testing.T) {
	s := newScratch(t)
	broker := newBroker(t)
	s.exec(t, strictTable)
	loadStrict(t, broker, "strict")
	ddl := write(t, "ddl.sql", fmt.Sprintf(strictDDL, "strict"))
	got := command(t, append([]string{"run", "--bridge", "strict", "--ddl", ddl, "--brokers", broker, "--until-end", "--into", "strict", "--on-data", "dead-letter",
		"--data-budget", "3", "--interval", "1h"}, s.flags()...)...)
	if got.status != exitFailed || !strings.Contains(got.errs, "--data-budget") {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	if n, letters := s.one(t, "SELECT next_offset FROM position"), s.one(t, "SELECT count(*) FROM dead_letter"); n != 5 || letters != 3 {
		t.Errorf("position %d, %d letters", n, letters)
	}
}

func TestRun_OnDataFlags(t *testing.T) {
	for _, flags := range [][]string{{"--on-data", "ignore"}, {"--data-budget", "0"}, {"--data-budget", "-1"}} {
		got := command(t, append([]string{"run", "--bridge", "b", "--ddl", "x.sql", "--to", "postgres://x/y"}, flags...)...)
		if got.status != exitConfig || !strings.Contains(got.errs, flags[0]) {
			t.Errorf("%v: status %d: %s", flags, got.status, got.errs)
		}
	}
}
