package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"text/template"
)

func TestSpread(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		f    []float64
		want string
	}{{nil, "-"}, {[]float64{nan}, "-"}, {[]float64{2}, "2.0"}, {[]float64{3, nan, 1}, "2.0 [1.0 .. 3.0]"}, {[]float64{3, 9, 1}, "3.0 [1.0 .. 9.0]"}} {
		if got := spread(c.f, "%.1f"); got != c.want {
			t.Errorf("%v: %q, want %q", c.f, got, c.want)
		}
	}
	// A round that one of two did not finish says nothing of their ratio.
	if got := spread(over([]float64{4, 8, 6}, []float64{2, nan, 2}), "%.1f"); got != "2.5 [2.0 .. 3.0]" {
		t.Errorf("ratios %q", got)
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-only", "flink,typo"}, {"-rows", "99"}, {"-rounds", "0"}, {"-bento-batch", "17000"}, {"-limit", "0s"}, {"what"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	o, err := parse([]string{"-only", "flink"})
	if err != nil || !slices.Equal(o.only, []string{"flink"}) {
		t.Errorf("%+v, %v", o, err)
	}
}

// Every contender has a name that -only knows, and what is wanted is wanted of one that there is.
func TestContenders(t *testing.T) {
	var got []string
	for _, p := range all(new(servers), options{batch: 7}) {
		got = append(got, p.name)
		if (p.start == nil) == (p.direct == nil) || p.jobs < 1 || p.jobs > 2 {
			t.Errorf("%+v", p)
		}
		if w := wants[p.name]; p.jobs < 2 && w[1] > 0 {
			t.Errorf("%s does not do what is wanted of it", p.name)
		}
	}
	if !slices.Equal(got, names()) {
		t.Errorf("%v, and -only knows %v", got, names())
	}
	for n := range wants {
		if !slices.Contains(got, n) {
			t.Errorf("%s is no contender", n)
		}
	}
}

// Some keys change several times, or no contender would have to find a batch's last change of a key.
func TestRandom(t *testing.T) {
	const n = 10_000
	seen := map[int64]int{}
	for i := range n {
		id := random(i, n)
		if id < 0 || id >= n {
			t.Fatalf("number %d of %d", id, n)
		}
		seen[id]++
	}
	// Drawn at random, 1/e of the numbers are not met: 6,321 are.
	if len(seen) < 6200 || len(seen) > 6450 {
		t.Errorf("%d different numbers of %d draws", len(seen), n)
	}
}

func TestFlinkJob(t *testing.T) {
	tm, err := template.ParseFiles(jobText)
	if err != nil {
		t.Fatal(err)
	}
	tm.Option("missingkey=error")
	var sql strings.Builder
	if err := tm.Execute(&sql, map[string]string{"Columns": shape.Flink(), "Topic": "t", "Broker": "b", "Group": "g", "Table": "x",
		"Host": "h:1", "Database": "d", "User": "u", "Password": "p"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"id BIGINT, cust STRING, qty BIGINT, price DOUBLE, PRIMARY KEY (id) NOT ENFORCED", "jdbc:postgresql://h:1/d?", "'sink.buffer-flush.max-rows' = '10000'"} {
		if !strings.Contains(sql.String(), want) {
			t.Errorf("no %s in\n%s", want, sql.String())
		}
	}
	m := jobID.FindStringSubmatch("[INFO] SQL update statement has been successfully submitted to the cluster:\nJob ID: 0123456789abcdef0123456789abcdef\n")
	if m == nil || m[1] != "0123456789abcdef0123456789abcdef" {
		t.Errorf("job %q", m)
	}
}
