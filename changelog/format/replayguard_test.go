package format_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
)

// replaySources write change i of a log.
var replaySources = map[string]struct {
	format string
	value  func(i int) string
}{
	"postgres": {"debezium-json", func(i int) string {
		// Transactions of three changes that ran at the same time as the one before: the positions of their changes do not grow, those of their commits do.
		txn, lsn := i/3, 1000+i/3*10+i%3*7-i%2*5
		return fmt.Sprintf(`{"after":{"id":%d,"v":"x"},"source":{"connector":"postgresql","name":"s","db":"d","ts_ms":%d,"sequence":"[\"%d\",\"%d\"]","lsn":%d},"transaction":{"id":"x","total_order":%d},"op":"c"}`,
			i, 1000+txn, txn*100, lsn, lsn, i%3+1)
	}},
	"mysql": {"debezium-json", func(i int) string {
		op := fmt.Sprintf(`"after":{"id":%d,"v":"x"},"op":"c"`, i)
		if i%2 == 0 { // the two halves of an update of the key have one place
			op = fmt.Sprintf(`"before":{"id":%d,"v":"x"},"op":"d"`, i)
		}
		n := i / 2
		return fmt.Sprintf(`{%s,"source":{"connector":"mysql","name":"s","server_id":1,"ts_ms":%d,"file":"bin.%06d","pos":%d,"row":%d}}`, op, 1000+n/4, 9+n/10, 4+n%10/2, n%2)
	}},
	"maxwell": {"maxwell-json", func(i int) string {
		last := fmt.Sprintf(`"xoffset":%d`, i%3)
		if i%3 == 2 {
			last = `"commit":true`
		}
		return fmt.Sprintf(`{"type":"insert","ts":%d,%s,"server_id":1,"position":"master.%06d:%d","data":{"id":%d,"v":"x"}}`, 1000+i/5, last, 9+i/30, 4+i%30/3, i)
	}},
	"ogg": {"ogg-json", func(i int) string {
		return fmt.Sprintf(`{"op_type":"I","op_ts":"2024-01-15 09:34:%02d.000000","pos":"%022d","after":{"id":%d,"v":"x"}}`, i/10%60, 1000000000000000000+int64(i)*7, i)
	}},
}

func guardTable(t testing.TB, name, key string) (*ddl.Table, changelog.Decoder) {
	t.Helper()
	tab := tableOf(t, "id INT, v STRING"+key, map[string]string{"connector": "kafka", "format": name})
	d, err := format.New(tab, formats, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tab, d
}

// topicWithReplays is a topic whose writer went back in its log some times. Each run reaches at least as far as those before it.
func topicWithReplays(rng *rand.Rand, n int, value func(i int) string) []changelog.Record {
	var topic []changelog.Record
	for at, end := 0, 0; end < n; at = rng.IntN(end + 1) {
		end = min(max(end, at)+rng.IntN(20), n)
		for ; at < end; at++ {
			topic = append(topic, changelog.Record{Offset: int64(len(topic)) * 2, Value: []byte(value(at))}) // every other offset is a marker
		}
	}
	return topic
}

// However often the source begins anew, and wherever a bridge does, a guard hands on every change of the log once.
func TestReplayGuard_EveryChangeOnce(t *testing.T) {
	for name, s := range replaySources {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(12) {
				rng := rand.New(rand.NewPCG(seed, 7))
				const n = 90
				topic := topicWithReplays(rng, n, s.value)
				tab, d := guardTable(t, s.format, "")
				history := func(p changelog.Partition, from, to int64, each func(*changelog.Record) error) error {
					for i := range topic {
						if o := topic[i].Offset; o >= from && o < to {
							if err := each(&topic[i]); err != nil {
								return err
							}
						}
					}
					return nil
				}
				newGuard := func() *format.ReplayGuard {
					g, err := format.NewReplayGuard(tab, d, &format.GuardOptions{History: history})
					if err != nil {
						t.Fatal(err)
					}
					return g
				}
				g, got := newGuard(), make([][]int, len(topic))
				for i := 0; i < len(topic); i++ {
					switch rng.IntN(30) {
					case 0:
						g = newGuard() // another process goes on here
					case 1:
						i = max(0, i-rng.IntN(10)) // a checkpoint failed, and what came after it is read again
					}
					b := changelog.NewBatch(d.Table())
					if err := g.Decode(b, &topic[i]); err != nil {
						t.Fatal(err)
					}
					got[i] = nil
					for _, c := range b.Changes {
						got[i] = append(got[i], int(c.Row[0].Int()))
					}
				}
				ids := slices.Concat(got...)
				want := make([]int, n)
				for i := range want {
					want[i] = i
				}
				if !slices.Equal(ids, want) {
					t.Fatalf("seed %d: %v", seed, ids)
				}
			}
		})
	}
}

// Without a guard, and with a key, the last record of a key is its newest: what the comment of ReplayGuard says of upserts.
func TestReplays_UpsertsConverge(t *testing.T) {
	const n, keys = 90, 7
	value := func(i int) string {
		id := fmt.Sprintf(`{"id":%d,"v":"%d"}`, i%keys, i)
		switch {
		case i < keys:
			return `{"after":` + id + `,"op":"r"}`
		case i%5 == 0:
			return `{"before":` + id + `,"op":"d"}`
		}
		return `{"after":` + id + `,"op":"c"}`
	}
	fold := func(topic []changelog.Record) map[int64]string {
		_, d := guardTable(t, "debezium-json", ", PRIMARY KEY (id) NOT ENFORCED")
		b := changelog.NewBatch(d.Table())
		for i := range topic {
			if err := d.Decode(b, &topic[i]); err != nil {
				t.Fatal(err)
			}
		}
		rows := map[int64]string{}
		for _, c := range b.Changes {
			if delete(rows, c.Row[0].Int()); c.Kind.Adds() {
				rows[c.Row[0].Int()] = c.Row[1].Str()
			}
		}
		return rows
	}
	var once []changelog.Record
	for i := range n {
		once = append(once, changelog.Record{Offset: int64(i), Value: []byte(value(i))})
	}
	want := fmt.Sprint(fold(once))
	for seed := range uint64(60) {
		if got := fmt.Sprint(fold(topicWithReplays(rand.New(rand.NewPCG(seed, 3)), n, value))); got != want {
			t.Fatalf("seed %d: %s, want %s", seed, got, want)
		}
	}
}

func TestReplayGuard_Rules(t *testing.T) {
	row := func(rest string) string { return `{"after":{"id":1,"v":"x"},"op":"c",` + rest + `}` }
	pg := func(commit, lsn, ts int) string {
		return row(fmt.Sprintf(`"source":{"connector":"postgresql","name":"s","db":"d","ts_ms":%d,"sequence":"[\"%d\",\"%d\"]"}`, ts, commit, lsn))
	}
	for name, c := range map[string]struct {
		in   []string
		want string // changes of each message, or a part of its error
	}{
		"rows of one COPY have one place":        {[]string{pg(1, 5, 1), pg(1, 5, 1), pg(1, 4, 1)}, "1|1|0"},
		"a log that was begun anew":              {[]string{pg(9, 99, 1), pg(1, 5, 2), pg(1, 4, 2), pg(1, 6, 2)}, "1|1|0|1"},
		"snapshot records pass":                  {[]string{pg(9, 99, 1), `{"after":{"id":1,"v":"x"},"op":"r","source":{}}`, row(`"source":{"snapshot":"incremental"}`), row(`"source":{"snapshot":true}`)}, "1|1|1|1"},
		"several sources":                        {[]string{pg(9, 99, 1), strings.Replace(pg(1, 5, 1), `"s"`, `"other"`, 1), pg(9, 98, 1)}, "1|1|0"},
		"the schema in the message":              {[]string{`{"schema":{},"payload":` + pg(9, 99, 1) + `}`}, "schema-include"},
		"no place":                               {[]string{row(`"source":{"connector":"postgresql","lsn":5}`), row(`"source":{"sequence":"[1]"}`), row(`"ts_ms":1`)}, "no place|no place|no place"},
		"what the decoder refuses is told by it": {[]string{`{"op":"x"}`, `[`, pg(1, 5, 1)}, "none of c, r, u and d|ends inside|1"},
	} {
		t.Run(name, func(t *testing.T) {
			tab, d := guardTable(t, "debezium-json", "")
			g, err := format.NewReplayGuard(tab, d, nil)
			if err != nil {
				t.Fatal(err)
			}
			wants := strings.Split(c.want, "|")
			var got []string
			for i, in := range c.in {
				b := changelog.NewBatch(d.Table())
				err := g.Decode(b, &changelog.Record{Offset: int64(i), Value: []byte(in)})
				var de *changelog.DataError
				switch {
				case errors.As(err, &de):
					if de.Offset != int64(i) || b.Len() != 0 {
						t.Errorf("%d changes, %v", b.Len(), err)
					}
					got = append(got, err.Error())
				case err != nil:
					t.Fatal(err)
				default:
					got = append(got, fmt.Sprint(b.Len()))
				}
			}
			for i := range wants {
				if !strings.Contains(got[i], wants[i]) {
					t.Errorf("message %d: got %q, want %q", i, got[i], wants[i])
				}
			}
		})
	}
}

// Rows that one COPY put into one page have one place in Postgres's log. Letters are rows of it, "<" is a change from before it.
func TestReplayGuard_SharedPlaces(t *testing.T) {
	for _, c := range []struct {
		in, want string // want: what passed
		noCopy   bool
	}{
		{"<abc", "<abc", false},
		{"<a<ab<abc", "<abc", false},       // whose run was cut short twice
		{"<ab<ab<ab", "<ab", false},        // the newest change is not doubled
		{"<aa", "<aa", false},              // equal rows of one COPY
		{"<a<aa", "<aa", false},            // whose second row came late
		{"<a<aab", "<aab", false},          //
		{"<abab", "<abab", false},          // a replay from exactly there, or four rows: it cannot be told
		{"<abab<ab", "<ababab", false},     // after which nothing is known of the place
		{"<abab<abcc", "<abababcc", false}, //
		{"<aaa<a<aaaa", "<aaaaaaaa", false},
		{"<abab<ab", "<a", true},
	} {
		tab, d := guardTable(t, "debezium-json", "")
		g, err := format.NewReplayGuard(tab, d, &format.GuardOptions{NoCopy: c.noCopy})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i, r := range c.in {
			lsn := 5
			if r == '<' {
				lsn = 4
			}
			value := fmt.Sprintf(`{"after":{"id":1,"v":"%c"},"op":"c","ts_ms":%d,"source":{"connector":"postgresql","name":"s","db":"d","ts_ms":1,"sequence":"[\"1\",\"%d\"]"}}`, r, i, lsn)
			b := changelog.NewBatch(d.Table())
			if err := g.Decode(b, &changelog.Record{Offset: int64(i), Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
			if b.Len() > 0 {
				got += string(r)
			}
		}
		if got != c.want {
			t.Errorf("%s, NoCopy %v: %s passed, want %s", c.in, c.noCopy, got, c.want)
		}
	}
}

// However a log with places of several rows is sent again, no row is lost, and if every run begins before the rows of the place that the one before
// it reached, and they differ, none is doubled.
func TestReplayGuard_SharedPlacesLoseNothing(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 11))
		equal, early := seed%2 == 0, seed%4 < 2
		type row struct{ place, id int }
		log := []row{{0, 0}}
		for place := 1; len(log) < 40; place++ {
			for i := range 1 + rng.IntN(4) {
				if equal {
					i = rng.IntN(2)
				}
				log = append(log, row{place, place*10 + i})
			}
		}
		var topic []row
		for at, end := 0, 0; end < len(log); {
			if end = max(end, at) + rng.IntN(6); end > len(log) {
				end = len(log)
			}
			topic = append(topic, log[min(at, end):end]...)
			at = rng.IntN(end + 1)
			if end == 1 {
				at = 1 // there is nothing before the first place
			}
			for far := log[max(end, 1)-1].place; early && at > 0 && at < end && log[at].place >= far; {
				at--
			}
		}
		tab, d := guardTable(t, "debezium-json", "")
		g, err := format.NewReplayGuard(tab, d, nil)
		if err != nil {
			t.Fatal(err)
		}
		passed, want := map[int]int{}, map[int]int{}
		for _, r := range log {
			want[r.id]++
		}
		for i, r := range topic {
			value := fmt.Sprintf(`{"after":{"id":%d,"v":"x"},"op":"c","source":{"connector":"postgresql","name":"s","db":"d","ts_ms":1,"sequence":"[\"1\",\"%d\"]"}}`, r.id, r.place)
			b := changelog.NewBatch(d.Table())
			if err := g.Decode(b, &changelog.Record{Offset: int64(i), Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
			if b.Len() > 0 {
				passed[r.id]++
			}
		}
		for id, n := range want {
			if passed[id] < n || passed[id] > n && early && !equal {
				t.Fatalf("seed %d: row %d passed %d times, the log has it %d times\n%v\n%v", seed, id, passed[id], n, log, topic)
			}
		}
	}
}

func TestReplayGuard_History(t *testing.T) {
	tab, d := guardTable(t, "debezium-json", "")
	away := true
	asked := ""
	g, err := format.NewReplayGuard(tab, d, &format.GuardOptions{Lookback: 100, History: func(p changelog.Partition, from, to int64, _ func(*changelog.Record) error) error {
		asked += fmt.Sprintf("%s %d-%d ", p, from, to)
		if away {
			return errors.New("no broker")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := changelog.Record{Partition: changelog.Partition{Topic: "t", Partition: 2}, Offset: 500, Value: []byte(replaySources["mysql"].value(1))}
	b := changelog.NewBatch(d.Table())
	var out *changelog.UnavailableError
	if err := g.Decode(b, &r); !errors.As(err, &out) || out.Offset != 500 || b.Len() != 0 {
		t.Errorf("%v, %d changes", err, b.Len())
	}
	away = false
	for _, offset := range []int64{500, 501, 510, 600, 550} {
		r.Offset = offset
		if err := g.Decode(b, &r); err != nil {
			t.Fatal(err)
		}
	}
	if want := "t/2 400-500 t/2 400-500 t/2 511-600 t/2 450-550 "; asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
	if g.Replayed() == 0 || g.Table() != d.Table() {
		t.Errorf("%d replayed", g.Replayed())
	}
}

func TestNewReplayGuard_Refuses(t *testing.T) {
	for _, name := range []string{"json", "canal-json"} {
		tab, d := guardTable(t, name, "")
		if _, err := format.NewReplayGuard(tab, d, nil); err == nil || !strings.Contains(err.Error(), "messages of '"+name+"'") {
			t.Errorf("%s: %v", name, err)
		}
	}
	tab, d := guardTable(t, "ogg-json", "")
	if _, err := format.NewReplayGuard(tab, d, &format.GuardOptions{Lookback: -1}); err == nil {
		t.Error("a negative Lookback")
	}
	if _, err := format.NewReplayGuard(nil, d, nil); err == nil {
		t.Error("no table")
	}
}
