package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/capture"
)

// steered is a bridge called people, from a topic into a table without a key: a row that is applied twice is there twice.
type steered struct {
	*scratch
	t      *testing.T
	broker string
	ddl    string
	cl     *kgo.Client
}

func newSteered(t *testing.T) *steered {
	t.Helper()
	s := &steered{scratch: newScratch(t), t: t, broker: newBroker(t), ddl: write(t, "ddl.sql", people)}
	if err := capture.Load(t.Context(), []string{s.broker}, "people", 1, nil); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.cl, err = kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.DefaultProduceTopic("people")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cl.Close)
	return s
}

func (s *steered) produce(values ...string) {
	s.t.Helper()
	for _, v := range values {
		if err := s.cl.ProduceSync(s.t.Context(), kgo.StringRecord(v)).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *steered) ids(from, to int) {
	s.t.Helper()
	for i := from; i < to; i++ {
		s.produce(fmt.Sprintf(`{"id":%d}`, i))
	}
}

func (s *steered) run(more ...string) []string {
	return append([]string{"run", "--bridge", "people", "--ddl", s.ddl, "--brokers", s.broker, "--create-table", "--interval", "50ms"}, s.flags(more...)...)
}

func (s *steered) positions(what string, more ...string) result {
	s.t.Helper()
	args := []string{"positions", what, "--store", s.to, "--store-schema", s.schema}
	if what != "show" {
		args = append(args, "--bridge", "people")
	}
	return command(s.t, append(args, more...)...)
}

// counts returns how often each id is in the table.
func (s *steered) counts() map[int64]int64 {
	s.t.Helper()
	rows, err := s.conn.Query(s.t.Context(), "SELECT id, count(*) FROM people GROUP BY id")
	if err != nil {
		s.t.Fatal(err)
	}
	out := make(map[int64]int64)
	var id, n int64
	for rows.Next() {
		if err := rows.Scan(&id, &n); err != nil {
			s.t.Fatal(err)
		}
		out[id] = n
	}
	return out
}

// While a bridge runs its position is set back: it is not restarted, applies again what was asked for, once, and nothing else.
func TestPositionsSet_WhileABridgeRuns(t *testing.T) {
	s := newSteered(t)
	s.ids(0, 20)
	ctx, signal := context.WithCancelCause(t.Context())
	done := make(chan result, 1)
	go func() { done <- commandContext(ctx, s.run()...) }()
	s.until(t, "SELECT count(*) = 20 FROM people")

	got := s.positions("set", "--yes", "--reason", "again", "people:0:15")
	if got.status != exitDone || !strings.Contains(got.out, "moved people/0 from 20 to 15: 5 offsets are applied again\nended generation 1 of ") {
		t.Fatalf("status %d: %s%s", got.status, got.out, got.errs)
	}
	s.ids(20, 30)
	s.until(t, "SELECT count(*) >= 35 FROM people")
	signal(errInterrupted)
	if got := <-done; got.status != exitDone || !strings.Contains(got.out, "people/0 30, its end") {
		t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
	}
	for id, n := range s.counts() {
		want := int64(1)
		if id >= 15 && id < 20 {
			want = 2
		}
		if n != want {
			t.Errorf("id %d: %d times, want %d", id, n, want)
		}
	}
	if n := s.one(t, "SELECT count(*) FROM audit WHERE bridge = 'people' AND what = 'set' AND before_offset = 20 AND after_offset = 15 AND reason = 'again' AND who LIKE '%@%' AND ended = '{1}'"); n != 1 {
		t.Errorf("%d rows in the audit", n)
	}
}

// suggested returns the arguments of the command that an error names.
func suggested(t *testing.T, text string) []string {
	t.Helper()
	_, line, ok := strings.Cut(text, "to skip this record: flinksink ")
	if !ok {
		t.Fatalf("no command in %s", text)
	}
	line, _, _ = strings.Cut(line, "\n")
	var words []string
	for i, part := range strings.Split(line, "'") { // every odd part was quoted
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// A bridge that stops at a bad record names the command that gets past it; after that command the bridge completes, without the record.
func TestPositionsSkip_PastABadRecord(t *testing.T) {
	for _, before := range []int{0, 3} {
		t.Run(fmt.Sprint(before, " before"), func(t *testing.T) {
			s := newSteered(t)
			s.ids(0, before)
			s.produce("{not json")
			s.ids(before, before+4)
			halted := command(t, s.run("--until-end")...)
			bad := fmt.Sprintf("people:0:%d", before)
			if halted.status != exitFailed || !strings.Contains(halted.errs, fmt.Sprintf("people/0@%d", before)) || !strings.Contains(halted.errs, " "+bad+"\n") {
				t.Fatalf("status %d: %s%s", halted.status, halted.out, halted.errs)
			}
			// The wrong offsets are refused, and nothing moves.
			for _, wrong := range []string{fmt.Sprintf("people:0:%d", before+1), "people:1:0", "poeple:0:0"} {
				if got := s.positions("skip", wrong); got.status != exitConfig || got.out != "" {
					t.Errorf("%s: status %d: %s%s", wrong, got.status, got.out, got.errs)
				}
			}
			if got := command(t, s.run("--until-end")...); got.status != exitFailed {
				t.Errorf("status %d: %s", got.status, got.out)
			}
			skip := command(t, suggested(t, halted.errs)...)
			if skip.status != exitDone || !strings.Contains(skip.out, "1 offsets are left out") {
				t.Fatalf("status %d: %s%s", skip.status, skip.out, skip.errs)
			}
			if again := command(t, suggested(t, halted.errs)...); again.status != exitDone || again.errs != "" ||
				!strings.HasPrefix(again.out, fmt.Sprintf("people:0:%d was skipped already, at ", before)) || strings.Count(again.out, "\n") != 1 {
				t.Errorf("skipped twice: status %d: %s%s", again.status, again.out, again.errs)
			}
			if got := command(t, s.run("--until-end")...); got.status != exitDone {
				t.Fatalf("status %d: %s%s", got.status, got.out, got.errs)
			}
			counts := s.counts()
			if len(counts) != before+4 {
				t.Errorf("%v", counts)
			}
			for id, n := range counts {
				if n != 1 {
					t.Errorf("id %d: %d times", id, n)
				}
			}
		})
	}
}

// A bad record that follows the end of a transaction: its offset is not the stored position, and the command that is named says so.
func TestPositionsSkip_BehindATransaction(t *testing.T) {
	s := newSteered(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker), kgo.DefaultProduceTopic("people"), kgo.TransactionalID("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, v := range []string{`{"id":1}`, "{not json", `{"id":2}`} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	halted := command(t, s.run("--until-end")...)
	if halted.status != exitFailed || !strings.Contains(halted.errs, "people/0@2") {
		t.Fatalf("status %d: %s%s", halted.status, halted.out, halted.errs)
	}
	if got := command(t, suggested(t, halted.errs)...); got.status != exitDone {
		t.Fatalf("status %d: %s%s\n%s", got.status, got.out, got.errs, halted.errs)
	}
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatalf("status %d: %s%s", got.status, got.out, got.errs)
	}
	if counts := s.counts(); len(counts) != 2 || counts[1] != 1 || counts[2] != 1 {
		t.Errorf("%v", counts)
	}
}

// Without --yes or --was a move is only shown; with a --was that is out of date it is refused.
func TestPositions_MistakesDoNothing(t *testing.T) {
	s := newSteered(t)
	s.ids(0, 6)
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatalf("status %d: %s%s", got.status, got.out, got.errs)
	}
	state := func() string { return s.positions("show", "--json").out }
	before := state()
	for _, c := range []struct {
		args      []string
		out, errs string
	}{
		{[]string{"set", "people:0:2"}, "would move people/0 from 6 to 2: 4 offsets are applied again  (--was people:0:6)", "nothing was changed: repeat the command with --yes, or with the --was"},
		{[]string{"set", "people:0:9"}, "3 offsets are left out", "nothing was changed"},
		{[]string{"set", "--was", "people:0:5", "people:0:2"}, "", "people/0 is 6, and 5 was expected"},
		{[]string{"set", "--was", "people:1:5", "people:0:2"}, "", "--was names people/1, which is not moved"},
		{[]string{"set", "--yes", "people:1:2"}, "", "people/1 is no partition that the bridge has held: it has held people/0"},
		{[]string{"set", "--yes", "people:0:-2"}, "", "TOPIC:PARTITION:OFFSET"},
		{[]string{"set", "--yes", "people:0"}, "", "TOPIC:PARTITION:OFFSET"},
		{[]string{"set", "--yes", "people:0:1", "people:0:2"}, "", "named twice"},
		{[]string{"set"}, "", "TOPIC:PARTITION:OFFSET, e.g. orders:3:1017, and none is given"},
		{[]string{"reset"}, "would move people/0 from 6 to none", "--yes"},
		{[]string{"reset", "people:x"}, "", "TOPIC:PARTITION"},
		{[]string{"reset", "--yes", "people:7"}, "", "people/7"},
		{[]string{"skip", "people:0:5"}, "", "people/0 is 6, and 5 was expected"},
		{[]string{"skip", "people:0:99999999999999999999"}, "", "TOPIC:PARTITION:OFFSET"},
		{[]string{"skip"}, "", "TOPIC:PARTITION:OFFSET, e.g. orders:3:1017, and none is given"},
		{[]string{"skip", "--bridge", "poeple", "people:0:6"}, "", `no bridge "poeple": it knows ["people"]`},
		{[]string{"show", "--store-schema", "flniksink"}, "", `--store-schema: there is no schema "flniksink" in this database`},
		{[]string{"show", "--bridge", "poeple"}, "", `no bridge "poeple": it knows "people"`},
	} {
		got := s.positions(c.args[0], c.args[1:]...)
		if got.status != exitConfig || !strings.Contains(got.out, c.out) || c.out == "" && got.out != "" || !strings.Contains(got.errs, c.errs) {
			t.Errorf("%v: status %d\n%s%s", c.args, got.status, got.out, got.errs)
		}
	}
	if after := state(); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
	// And with the right ones it is done.
	if got := s.positions("set", "--was", "people:0:6", "people:0:4"); got.status != exitDone {
		t.Errorf("status %d: %s", got.status, got.errs)
	}
	if got := s.positions("reset", "--yes"); got.status != exitDone || !strings.Contains(got.out, "moved people/0 from 4 to none") {
		t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
	}
	s.exec(t, "TRUNCATE people")
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatalf("status %d: %s%s", got.status, got.out, got.errs)
	}
	if counts := s.counts(); len(counts) != 6 || s.one(t, "SELECT count(*) FROM people") != 6 {
		t.Errorf("%v", counts)
	}
}

func TestPositionsShow(t *testing.T) {
	s := newSteered(t)
	if got := s.positions("show"); got.status != exitDone || got.out != "no bridge has its positions here\n" {
		t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
	}
	if got := s.positions("show", "--json"); got.status != exitDone || strings.Join(strings.Fields(got.out), "") != `{"bridges":[]}` {
		t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
	}
	s.ids(0, 6)
	if got := command(t, s.run("--until-end")...); got.status != exitDone {
		t.Fatalf("status %d: %s%s", got.status, got.out, got.errs)
	}
	if got := s.positions("set", "--yes", "--reason", "because\nit is\x1b[2J so", "people:0:4"); got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	got := s.positions("show")
	if got.status != exitDone {
		t.Fatalf("status %d: %s", got.status, got.errs)
	}
	for _, want := range []string{`bridge "people": group=people topics=people`, "people/0   4         nobody  by hand", "pending: nothing waits", "set people/0 from 6 to 4 by ", `: because it is`} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is missing in\n%s", want, got.out)
		}
	}
	if strings.Contains(got.out, "\x1b") {
		t.Errorf("a sign that steers a terminal is printed: %q", got.out)
	}
	var all struct{ Bridges []jsonBridge }
	if err := json.Unmarshal([]byte(s.positions("show", "--json", "--bridge", "people").out), &all); err != nil || len(all.Bridges) != 1 {
		t.Fatalf("%v, %+v", err, all)
	}
	b := all.Bridges[0]
	if b.Bridge != "people" || b.Incarnation != 1 || len(b.Partitions) != 1 || *b.Partitions[0].Offset != 4 || b.Partitions[0].Generation != 0 || len(b.Moves) != 1 || *b.Moves[0].Before != 6 {
		t.Errorf("%+v", b)
	}
}

// No command about positions shows a password, whatever goes wrong.
func TestPositions_SecretsAreNotShown(t *testing.T) {
	const secret = "hunter2hunter2"
	away := "postgres://app:" + secret + "@" + closedAddress(t) + "/shop?password=" + secret
	for _, to := range []string{away, "postgres://app:" + secret + "/x@host/shop", "mysql://app:" + secret + "@host"} {
		for _, args := range [][]string{{"show"}, {"set", "--bridge", "b", "t:0:1"}, {"reset", "--bridge", "b"}, {"skip", "--bridge", "b", "t:0:1"}} {
			got := impatient(t, append([]string{"positions", args[0], "--store", to}, args[1:]...)...)
			if got.status != exitConfig || got.out != "" || strings.Contains(got.errs, secret) || !strings.Contains(got.errs, "--store") {
				t.Errorf("%v: status %d: %s%s", args, got.status, got.out, got.errs)
			}
		}
	}
	for to, want := range map[string]string{
		"postgres://app:" + secret + "@db:5432/shop":                                  "postgres://app@db:5432/shop",
		"postgres://app@db/shop?sslmode=disable":                                      "postgres://app@db/shop?sslmode=disable",
		"postgres://app@db/shop?sslpassword=" + secret + "&pass%77ord=" + secret:      "postgres://app@db/shop",
		"postgres://app:" + secret + "/x@db/shop":                                     "postgres://...",
		"postgres://app:" + url.QueryEscape(secret+"/?#@") + "@db/shop?sslmode=allow": "postgres://app@db/shop?sslmode=allow",
	} {
		if got := publicURL(to); got != want {
			t.Errorf("%s: %s, want %s", to, got, want)
		}
	}
}

func TestShellQuotes(t *testing.T) {
	for w, want := range map[string]string{"": "''", "a:0:1": "a:0:1", "a b": "'a b'", "postgres://a@b/c?x=y&z": "'postgres://a@b/c?x=y&z'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "ü": "'ü'"} {
		if got := shell(w); got != want {
			t.Errorf("%q: %s, want %s", w, got, want)
		}
	}
}

func TestParsePosition(t *testing.T) {
	for in, want := range map[string]string{"a:0:0": "a/0@0", "a.b-c_d:12:9223372036854775807": "a.b-c_d/12@9223372036854775807"} {
		if p, err := parsePosition(in); err != nil || p.String() != want || p.LeaderEpoch != -1 || p.TopicID != (changelog.TopicID{}) {
			t.Errorf("%s: %v, %v", in, p, err)
		}
	}
	for _, in := range []string{"", "a", "a:1", ":1:2", "a::2", "a:1:", "a:1:+2", "a:-1:2", "a:1:-2", "a:1:9223372036854775808", "a:2147483648:1", "a:b:1:2", "a:1: 2"} {
		if p, err := parsePosition(in); err == nil {
			t.Errorf("%q is read as %v", in, p)
		}
	}
}
