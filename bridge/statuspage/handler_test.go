package statuspage

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

var update = flag.Bool("update", false, "rewrite testdata")

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// hostile is text that must not get through a page unescaped.
const hostile = `<script>alert("1")</script>'&{{.}}`

// full is a status with something in every field, and hostile text wherever text comes from outside.
func full() bridge.Status {
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	away := &sink.Error{Op: "save", Bridge: hostile, Class: sink.ErrTransient, Err: errors.New(hostile)}
	return bridge.Status{
		Bridge: "orders" + hostile, Group: "group" + hostile, Running: true, Generation: 7, Started: before(26 * time.Hour), Asked: before(2 * time.Second),
		Interval: time.Second, Watch: 5 * time.Second, Retries: 3, Buffered: 3 << 20, Checkpoints: 91_234,
		Counters: sink.Counters{Records: 12_345_678, Read: 12_345_670, Applied: 12_000_000, Superseded: 345_600, DeadLettered: 60, Skipped: 10},
		Last: sink.Report{Generation: 12, Checkpoint: 345, Prepare: 84 * time.Millisecond, Save: 3200 * time.Microsecond,
			Counters: sink.Counters{Records: 20_000, Read: 20_000, Applied: 19_000, Superseded: 1000}},
		LastCheckpoint: before(1200 * time.Millisecond),
		Lanes: []bridge.LaneStatus{
			{Lane: 0, Generation: 12, Checkpoint: 345, Decided: before(1200 * time.Millisecond), Buffered: 1 << 20},
			{Lane: 1, Generation: 13, Checkpoint: 77, Decided: before(40 * time.Second), Buffered: 2 << 20, Retries: 3, LastError: away,
				LastErrorAt: before(2 * time.Second), FailingSince: before(41 * time.Second), Uncommitted: away,
				Sinks: []bridge.SinkStatus{
					{Sink: "rows", Prepared: bridge.SinkCheckpoint{Generation: 13, Checkpoint: 77, At: before(41 * time.Second)}, Given: 1200, Passed: 30},
					{Sink: "files" + hostile, Decided: bridge.SinkCheckpoint{Generation: 13, Checkpoint: 77, At: before(40 * time.Second)},
						Committed: bridge.SinkCheckpoint{Generation: 13, Checkpoint: 76, At: before(42 * time.Second)}, Pending: 1, Since: before(40 * time.Second), Err: away}}}},
		Partitions: []bridge.PartitionStatus{
			{Partition: changelog.Partition{Topic: "orders", Partition: 0}, Read: 5_020_000, Saved: 5_000_000, LastStableOffset: 9_999_990, HighWatermark: 9_999_990},
			{Partition: changelog.Partition{Topic: "orders", Partition: 1}, Lane: 1, Read: 4_000_000, Saved: 4_000_000, LastStableOffset: 4_000_000, HighWatermark: 4_000_321},
			{Partition: changelog.Partition{Topic: "orders", Partition: 2}, Lane: 1, Read: 70, Saved: 60, LastStableOffset: 90, HighWatermark: 90, Paused: true,
				StandsSince: before(40 * time.Second), Trouble: hostile}},
		Open: []bridge.OpenTransaction{{Partition: changelog.Partition{Topic: "orders", Partition: 1}, LastStableOffset: 4_000_000, HighWatermark: 4_000_321,
			For: 12 * time.Minute, TransactionalID: "flink-" + hostile, ProducerID: 4711}},
		Left: []changelog.Partition{{Topic: "orders", Partition: 2}},
		Pace: bridge.Pace{Over: time.Minute, Saved: 84_000, Arrived: 1200},
	}
}

func of(statuses ...bridge.Status) func() Report {
	return func() Report {
		r := Report{At: now, Healthy: true, Bridges: []Bridge{}}
		for _, s := range statuses {
			b := describe(now, s, sink.Guarantee{Level: sink.Convergent, How: "how" + hostile, Visible: "early", Zombie: "refused", Weakest: "weak", Cure: "cure"})
			r.Healthy = r.Healthy && b.Healthy
			r.Bridges = append(r.Bridges, b)
		}
		return r
	}
}

func ask(t *testing.T, h http.Handler, method, path, accept string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	resp := w.Result()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestHandler_Paths(t *testing.T) {
	good := full()
	good.Lanes = good.Lanes[:1]
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct {
		method, path, accept string
		of                   bridge.Status
		status               int
		kind, body           string
	}{
		{"GET", "/", browser, full(), 200, "text/html", "orders"},
		{"GET", "/?refresh=off", "", full(), 200, "text/html", "follow"},
		{"GET", "/", "", full(), 200, "text/html", "<!doctype html>"},
		{"GET", "/", "*/*", full(), 200, "text/html", "<!doctype html>"},
		{"GET", "/", "application/json", full(), 200, "application/json", `"bridges"`},
		{"GET", "/", "text/html;q=0.5, application/json", full(), 200, "application/json", `"bridges"`},
		{"GET", "/", "text/html, application/json;q=0.5", full(), 200, "text/html", "<!doctype html>"},
		{"GET", "/", "application/json;q=x, ;;", full(), 200, "text/html", "<!doctype html>"},
		{"GET", "/status.json", browser, full(), 200, "application/json", `"bridges"`},
		{"GET", "/healthz", "", good, 200, "text/plain", "ok\n"},
		{"GET", "/healthz", "", full(), 503, "text/plain", "lane 1 cannot commit a checkpoint that is decided"},
		{"GET", "/healthz", "", bridge.Status{Bridge: "b", Started: now, Err: errors.New("why\nand why")}, 503, "text/plain", "bridge \"b\": the bridge halted: why; and why\n"},
		{"HEAD", "/", "", full(), 200, "text/html", ""},
		{"HEAD", "/healthz", "", full(), 503, "text/plain", ""},
		{"GET", "/other", "", full(), 404, "text/plain", "/status.json"},
		{"GET", "/../healthz", "", full(), 404, "text/plain", "/status.json"},
		{"POST", "/", "", full(), 405, "text/plain", "nothing can be changed"},
		{"PUT", "/status.json", "", full(), 405, "text/plain", "nothing can be changed"},
		{"DELETE", "/healthz", "", full(), 405, "text/plain", "nothing can be changed"},
	} {
		resp, body := ask(t, newHandler(of(c.of)), c.method, c.path, c.accept)
		if resp.StatusCode != c.status || !strings.HasPrefix(resp.Header.Get("Content-Type"), c.kind) || !strings.Contains(body, c.body) {
			t.Errorf("%s %s (%s): %d %s %q, want %d %s %q", c.method, c.path, c.accept, resp.StatusCode, resp.Header.Get("Content-Type"), body, c.status, c.kind, c.body)
		}
		if c.method == "HEAD" && body != "" {
			t.Errorf("%s %s has a body", c.method, c.path)
		}
		if resp.StatusCode == 405 && resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow is %q", c.method, resp.Header.Get("Allow"))
		}
		if resp.Header.Get("Cache-Control") != "no-store" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s %s: headers %v", c.method, c.path, resp.Header)
		}
	}
}

func TestPage_Escapes(t *testing.T) {
	_, body := ask(t, newHandler(of(full())), "GET", "/", "")
	for _, bad := range []string{"<script", `alert("`, "<no value>", "ZgotmplZ", "%!"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page holds %s", bad)
		}
	}
	if n := strings.Count(body, "&lt;script&gt;"); n < 8 {
		t.Errorf("the hostile text stands %d times on the page: the test has seen too little", n)
	}
	// Every element is closed: a page that is cut or nested wrongly hides what follows.
	d := xml.NewDecoder(strings.NewReader(body))
	d.Entity = xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// What a person looks for is on the page, in each state.
func TestPage_Says(t *testing.T) {
	idle := full()
	idle.Lanes, idle.Open, idle.Retries = idle.Lanes[:1], nil, 0
	idle.Partitions = []bridge.PartitionStatus{{Partition: changelog.Partition{Topic: "orders"}, Read: 9, Saved: 9, LastStableOffset: 9, HighWatermark: 9}}
	fresh := bridge.Status{Bridge: "b", Group: "b", Generation: -1}
	halted := idle
	halted.Running, halted.Ended, halted.Err = false, now.Add(-time.Hour), &sink.Error{Op: "decode", Class: sink.ErrRejected, Err: errors.New("bad record")}
	slow := full()
	slow.Pace.Arrived = slow.Pace.Saved
	failing := full()
	failing.Lanes[1].Uncommitted = nil
	for _, c := range []struct {
		name string
		s    bridge.Status
		want []string
	}{
		{"full", full(), []string{"TROUBLE", "running, in trouble", "5 000 341", "≈ 1 min", "84 000", "1 200/s arrive", "321", "1 s ago",
			"orders/1", "waits behind an open transaction", "has stood since", "producer 4711", "for 12 min", "12.345", "12 345 670", "balanced", "convergent", "Weakest link: weak. Cure: cure.",
			"Lane 1 has failed since", "cannot be committed", "Ends once these are saved", "generation 7", "84 ms", "3.2 ms"}},
		{"idle", idle, []string{"ok", "running", "all that can be read is saved"}},
		{"fresh", fresh, []string{"not started", "None is held by this process"}},
		{"halted", halted, []string{"halted", "the bridge halted: flinksink: decode: rejected: bad record", "Ended 1 h ago", "it does not run"}},
		{"failing", failing, []string{"running, something fails and is tried again", "Lane 1 has failed since", "ok –"}},
		{"slow", slow, []string{"not catching up at this pace"}},
	} {
		_, body := ask(t, newHandler(of(c.s)), "GET", "/", "")
		body = strings.ReplaceAll(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, ""), "\u202f", " ")
		for _, w := range c.want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: the page does not say %q", c.name, w)
			}
		}
		if t.Failed() {
			t.Log(body)
		}
	}
	if _, body := ask(t, newHandler(of(idle, halted)), "GET", "/", ""); !strings.Contains(body, `href="#b1"`) {
		t.Error("of two bridges the second cannot be jumped to")
	}
	if _, body := ask(t, Handler(nil), "GET", "/", ""); !strings.Contains(body, "No bridge") {
		t.Error("a page without bridges does not say so")
	}
}

// An unbalanced account must be seen.
func TestPage_Unbalanced(t *testing.T) {
	s := full()
	s.Counters.Applied--
	if _, body := ask(t, newHandler(of(s)), "GET", "/", ""); !strings.Contains(body, "does not balance") {
		t.Error("the page hides that the accounts do not balance")
	}
}

// The field names are a promise: the list may only grow.
func TestReport_FieldNames(t *testing.T) {
	var names []string
	fields("", reflect.TypeFor[Report](), &names)
	got := strings.Join(names, "\n") + "\n"
	const file = "testdata/fields.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the fields of status.json have changed. They may be added to, with -update, and never renamed:\n%s", got)
	}
}

func fields(prefix string, of reflect.Type, names *[]string) {
	for i := range of.NumField() {
		f := of.Field(i)
		typ := f.Type
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		name := prefix + f.Tag.Get("json")
		switch {
		case f.Anonymous:
			fields(prefix, typ, names)
		case typ.Kind() == reflect.Struct && typ != reflect.TypeFor[time.Time]():
			fields(name+".", typ, names)
		default:
			*names = append(*names, name+" "+typ.String())
		}
	}
}

// A Go program reads back what it was told, and lists are never null.
func TestReport_RoundTrip(t *testing.T) {
	for _, s := range []bridge.Status{full(), {Bridge: "new", Generation: -1}} {
		want := of(s)()
		_, body := ask(t, newHandler(of(s)), "GET", "/status.json", "")
		var got Report
		d := json.NewDecoder(strings.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		for _, list := range []string{"bridges", "lanes", "partitions", "open_transactions", "until_end_waits_for"} {
			if strings.Contains(body, `"`+list+`": null`) {
				t.Errorf("%s is null", list)
			}
		}
	}
}

func TestText(t *testing.T) {
	got := []string{count(0), count(999), count(-1000), count(1234567), offset(nil), size(1023), size(1024), size(64 << 20), rate(0.25), rate(12345.6),
		duration(-time.Second), duration(time.Second), duration(61 * time.Second), duration(2 * time.Hour), duration(25*time.Hour + time.Minute),
		duration(49*time.Hour + 59*time.Minute), short(0.0005), short(0.25), short(3.14), ago(now, nil)}
	want := []string{"0", "999", "-1 000", "1 234 567", "–", "1023 B", "1.0 KiB", "64.0 MiB", "0.2", "12 345",
		"less than 1 s", "1 s", "1 min 1 s", "2 h", "1 d 1 h", "2 d 1 h", "0.5 ms", "250 ms", "3.1 s", "–"}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], "\u202f", " ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// While a lane fails, the sink that it fails at is marked; once it works the failure stays with the lane alone.
func TestPage_FailingSink(t *testing.T) {
	away := &sink.Error{Op: "open", Sink: "search", Bridge: "orders", Class: sink.ErrTransient, Err: errors.New("status 429")}
	s := bridge.Status{Bridge: "orders", Running: true, Started: now, Asked: now, Lanes: []bridge.LaneStatus{{LastError: away, LastErrorAt: now, FailingSince: now,
		Sinks: []bridge.SinkStatus{{Sink: "rows"}, {Sink: "search"}}}}}
	marked := regexp.MustCompile(`<tr class="warn"><th>0</th><td class="text name">(\w+)</td>.*\n<td class="text note">(.*)</td>`)
	_, body := ask(t, newHandler(of(s)), "GET", "/", "")
	found := marked.FindAllStringSubmatch(body, -1)
	if len(found) != 1 || found[0][1] != "search" || strings.Count(found[0][2], "transient") != 1 || !strings.Contains(found[0][2], "status 429") {
		t.Errorf("marked are %q in\n%s", found, body)
	}
	s.Lanes[0].FailingSince = time.Time{}
	if _, body = ask(t, newHandler(of(s)), "GET", "/", ""); marked.MatchString(body) || !strings.Contains(body, "status 429") {
		t.Errorf("a lane that has recovered:\n%s", body)
	}
}
