package changelog_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flinksink/flinksink/changelog"
)

// netSchema is t(k INT, v STRING, w STRING, PRIMARY KEY (k)).
func netSchema(t testing.TB) *changelog.Schema {
	s := schemaOf(t, "INT", "STRING", "STRING")
	s.Key = []int{0}
	return s
}

// changesOf reads a run such as "+U(1,a,_) -D(2)": - is NULL, _ is Unchanged, a row of its key alone is KeyOnly. "@3" in front of
// changes puts those after it into partition 3.
func changesOf(t testing.TB, run string) (changes []changelog.Change) {
	t.Helper()
	var p changelog.Partition
	for _, word := range strings.Fields(run) {
		if _, err := fmt.Sscanf(word, "@%d", &p.Partition); err == nil {
			continue
		}
		kind, err := changelog.ParseKind(word[:2])
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Split(strings.Trim(word[2:], "()"), ",")
		var k int64
		if _, err := fmt.Sscan(fields[0], &k); err != nil {
			t.Fatal(err)
		}
		c := changelog.Change{Partition: p, Offset: int64(len(changes)), Kind: kind, KeyOnly: len(fields) == 1, Row: make(changelog.Row, 3)}
		c.Row[0] = changelog.IntValue(k)
		for i, f := range fields[1:] {
			switch f {
			case "-":
			case "_":
				c.Row[i+1] = changelog.UnchangedValue()
			default:
				c.Row[i+1] = changelog.StringValue(f)
			}
		}
		changes = append(changes, c)
	}
	return changes
}

func changeText(c changelog.Change) string {
	if c.KeyOnly {
		return fmt.Sprintf("%s(%d)", c.Kind, c.Row[0].Int())
	}
	fields := []string{fmt.Sprint(c.Row[0].Int())}
	for _, v := range c.Row[1:] {
		switch {
		case v.IsNull():
			fields = append(fields, "-")
		case v.IsUnchanged():
			fields = append(fields, "_")
		default:
			fields = append(fields, v.Str())
		}
	}
	return fmt.Sprintf("%s(%s)", c.Kind, strings.Join(fields, ","))
}

func changesText(changes []changelog.Change) string {
	var s []string
	for _, c := range changes {
		s = append(s, changeText(c))
	}
	return strings.Join(s, " ")
}

func TestNet(t *testing.T) {
	s := netSchema(t)
	var n changelog.Net
	for _, tt := range []struct{ name, run, deletes, upserts string }{
		{"nothing", "", "", ""},
		{"P01 the last change wins across kinds", "+U(1,a,x) -D(1) +U(1,b,x)", "", "+U(1,b,x)"},
		{"P01 and so does a delete", "+U(1,c,x) -D(1)", "-D(1)", ""},
		{"P02 a -U whose +U has the same key is dropped", "-U(1,a,x) +U(1,b,x)", "", "+U(1,b,x)"},
		{"P02 with another key it deletes the old one", "-U(1,a,x) +U(2,a,x)", "-U(1,a,x)", "+U(2,a,x)"},
		{"P06 a key change as delete and insert", "-D(1,a,x) +I(2,a,x)", "-D(1,a,x)", "+I(2,a,x)"},
		{"P06 a cut before the insert", "-D(1,a,x)", "-D(1,a,x)", ""},
		{"P05 a delete that knows its key only", "+I(7,a,x) -D(7)", "-D(7)", ""},
		{"P08 a late snapshot row is an upsert", "-D(1) +I(2,b,x) +I(1,a,x)", "", "+I(1,a,x) +I(2,b,x)"},
		{"P09 Unchanged keeps the older value", "+U(1,X,1) +U(1,_,2)", "", "+U(1,X,2)"},
		{"P09 alone it stays", "+U(1,_,2)", "", "+U(1,_,2)"},
		{"P09 over several changes", "+U(1,X,_) +U(1,_,2) +U(1,_,_) +U(2,Y,Y) +U(1,_,_)", "", "+U(1,X,2) +U(2,Y,Y)"},
		{"P09 NULL is a value", "+U(1,-,1) +U(1,_,2)", "", "+U(1,-,2)"},
		{"P09 the -U of the same update is known", "-U(1,X,1) +U(1,_,2)", "", "+U(1,X,2)"},
		{"P09 the row before the -U is known", "+I(1,X,1) -U(1,_,1) +U(1,_,2)", "", "+U(1,X,2)"},
		{"P09 also behind a -U of its key alone", "+I(1,X,1) -U(1) +U(1,_,2)", "", "+U(1,X,2)"},
		{"P09 the columns of a key-only -U mean nothing", "-U(1) +U(1,_,2)", "", "+U(1,_,2)"},
		{"Unchanged after a delete is unknown", "+I(1,X,1) -D(1) +U(1,_,2)", "", "+U(1,_,2)"},
		{"Unchanged after a -U that was no pair is unknown", "+I(1,X,1) -U(1,X,1) +I(2,Y,Y) +U(1,_,2)", "", "+U(1,_,2) +I(2,Y,Y)"},
		{"nor is it known to an insert", "-U(1,X,1) +I(1,_,2)", "", "+I(1,_,2)"},
		{"a moved row brings its values", "+I(1,X,1) -U(1,_,1) +U(2,_,2)", "-U(1,_,1)", "+U(2,X,2)"},
		{"and does not meet those of a row that was there", "+I(2,Z,Z) -U(1,_,1) +U(2,_,2)", "-U(1,_,1)", "+U(2,_,2)"},
		{"a row that moves away and another one in its place", "-U(1,a,x) +U(2,a,x) -U(3,c,x) +U(1,_,x)", "-U(3,c,x)", "+U(1,c,x) +U(2,a,x)"},
		{"a swap", "-U(1,a,x) +U(9,a,x) -U(2,b,x) +U(1,b,x) -U(9,a,x) +U(2,a,x)", "-U(9,a,x)", "+U(1,b,x) +U(2,a,x)"},
		{"a pair with another partition's change between", "@1 +I(1,X,1) -U(1,_,1) @2 +I(5,e,e) @1 +U(1,_,2)", "", "+U(1,X,2) +I(5,e,e)"},
		{"a +U of another partition is no pair", "@1 -U(1,X,1) @2 +U(1,_,2)", "", "+U(1,_,2)"},
		{"P34 sorted by key", "+I(3,a,x) -D(9) +I(-1,b,x) +I(2,c,x) -D(4) +I(256,d,x)", "-D(4) -D(9)", "+I(-1,b,x) +I(2,c,x) +I(3,a,x) +I(256,d,x)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := changesOf(t, tt.run)
			before := changesText(run)
			n.Compute(s, run)
			if got := changesText(n.Deletes); got != tt.deletes {
				t.Errorf("deletes %s, want %s", got, tt.deletes)
			}
			if got := changesText(n.Upserts); got != tt.upserts {
				t.Errorf("upserts %s, want %s", got, tt.upserts)
			}
			if n.Superseded != len(run)-len(n.Deletes)-len(n.Upserts) {
				t.Errorf("%d superseded of %d", n.Superseded, len(run))
			}
			if after := changesText(run); after != before {
				t.Errorf("the run was changed to %s", after)
			}
		})
	}
}

// The survivor is the last change, with its coordinates.
func TestNet_Coordinates(t *testing.T) {
	var n changelog.Net
	n.Compute(netSchema(t), changesOf(t, "@3 +I(1,a,x) +U(1,_,y) +I(2,a,x) -D(2)"))
	if c := n.Upserts[0]; c.Offset != 1 || c.Partition.Partition != 3 {
		t.Errorf("upsert is of %s offset %d", c.Partition, c.Offset)
	}
	if c := n.Deletes[0]; c.Offset != 3 || c.Partition.Partition != 3 {
		t.Errorf("delete is of %s offset %d", c.Partition, c.Offset)
	}
}

// apply is what a table does with one change after another; unknown columns keep what the table has, and a row that moves takes
// its columns along. It is the meaning of a run, written down without a word about keys in bytes, groups or order.
type table map[int64]changelog.Row

func (tab table) apply(changes []changelog.Change) {
	var moved changelog.Row // the row that the change before, a -U, took away
	for _, c := range changes {
		k := c.Row[0].Int()
		if !c.Kind.Adds() {
			old := tab[k]
			delete(tab, k)
			moved = nil
			if c.Kind == changelog.UpdateBefore {
				moved = slices.Clone(c.Row)
				for i := range moved {
					if i > 0 && (c.KeyOnly || moved[i].IsUnchanged()) {
						moved[i] = changelog.UnchangedValue()
						if old != nil {
							moved[i] = old[i]
						}
					}
				}
			}
			continue
		}
		base := tab[k]
		if moved != nil && c.Kind == changelog.UpdateAfter {
			base = moved
		}
		moved = nil
		row := slices.Clone(c.Row)
		for i := range row {
			if row[i].IsUnchanged() && base != nil {
				row[i] = base[i]
			}
		}
		tab[k] = row
	}
}

func (tab table) text() map[int64]string {
	m := make(map[int64]string)
	for k, row := range tab {
		m[k] = changesText([]changelog.Change{{Row: row}})
	}
	return m
}

// checkNet compares with the dumb table. The run goes onto an empty table: what is in it before a run is not known to Net, so
// Unchanged stays Unchanged on both sides exactly where nothing told the value.
func checkNet(t interface{ Fatalf(string, ...any) }, s *changelog.Schema, n *changelog.Net, runs ...[]changelog.Change) {
	n.Compute(s, runs...)
	run := slices.Concat(runs...)
	want := table{}
	want.apply(run)
	got := table{}
	seen := make(map[int64]bool)
	for _, c := range n.Upserts {
		got[c.Row[0].Int()] = c.Row
		seen[c.Row[0].Int()] = true
	}
	touched := make(map[int64]bool)
	for _, c := range run {
		touched[c.Row[0].Int()] = true
	}
	for _, c := range n.Deletes {
		k := c.Row[0].Int()
		if seen[k] {
			t.Fatalf("%s: key %d is in both sets or twice", changesText(run), k)
		}
		seen[k] = true
		if c.Kind.Adds() {
			t.Fatalf("%s: %s is no delete", changesText(run), changeText(c))
		}
	}
	if len(seen) != len(touched) || len(n.Upserts)+len(n.Deletes) != len(touched) {
		t.Fatalf("%s: %d keys in, %d deletes and %d upserts out", changesText(run), len(touched), len(n.Deletes), len(n.Upserts))
	}
	if diff := cmp.Diff(want.text(), got.text()); diff != "" {
		t.Fatalf("%s:\n%s", changesText(run), diff)
	}
	if n.Superseded+len(n.Deletes)+len(n.Upserts) != len(run) {
		t.Fatalf("%s: counts do not add up", changesText(run))
	}
	for _, set := range [][]changelog.Change{n.Deletes, n.Upserts} {
		if !slices.IsSortedFunc(set, func(a, b changelog.Change) int {
			return bytes.Compare(changelog.AppendKey(nil, s, a.Row), changelog.AppendKey(nil, s, b.Row))
		}) {
			t.Fatalf("%s: not sorted: %s", changesText(run), changesText(set))
		}
	}
}

// Every run of up to five changes of two keys: all kinds, values known, Unchanged and of the key alone.
func TestNet_EverySmallRun(t *testing.T) {
	s := netSchema(t)
	var alphabet []changelog.Change
	for _, k := range []string{"1", "2"} {
		alphabet = append(alphabet, changesOf(t, "+I("+k+",?,?) +U("+k+",?,_) -U("+k+",?,_) -U("+k+") -D("+k+",?,?) -D("+k+")")...)
	}
	depth := 5
	if testing.Short() {
		depth = 4
	}
	var n changelog.Net
	run := make([]changelog.Change, 0, depth)
	names := []string{"a", "b", "c", "d", "e"}
	runs := 0
	var extend func()
	extend = func() {
		checkNet(t, s, &n, run)
		runs++
		if len(run) == depth {
			return
		}
		for _, c := range alphabet {
			// Each change brings a value of its own, so that the wrong one shows.
			c.Row = slices.Clone(c.Row)
			for i := range c.Row {
				if c.Row[i].Str() == "?" {
					c.Row[i] = changelog.StringValue(names[len(run)])
				}
			}
			run = append(run, c)
			extend()
			run = run[:len(run)-1]
		}
	}
	extend()
	if want := 1 + 12 + 144 + 1728 + 20736; runs < want {
		t.Errorf("only %d runs", runs)
	}
}

func TestNet_AgreesWithMap(t *testing.T) {
	s := netSchema(t)
	var n changelog.Net
	value := rapid.SampledFrom([]changelog.Value{{}, changelog.UnchangedValue(), changelog.UnchangedValue(), changelog.StringValue("a"), changelog.StringValue("b"), changelog.StringValue("")})
	change := rapid.Custom(func(t *rapid.T) changelog.Change {
		c := changelog.Change{Kind: changelog.Kind(rapid.IntRange(0, 3).Draw(t, "kind"))}
		c.Row = changelog.Row{changelog.IntValue(rapid.Int64Range(-3, 300).Draw(t, "key")), value.Draw(t, "v"), value.Draw(t, "w")}
		if !c.Kind.Adds() && rapid.Bool().Draw(t, "key only") {
			c.KeyOnly = true
			c.Row = changelog.Row{c.Row[0], {}, {}}
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		run := rapid.SliceOfN(change, 0, 200).Draw(t, "run")
		cut := rapid.IntRange(0, len(run)).Draw(t, "cut")
		checkNet(t, s, &n, run[:cut], run[cut:])
	})
}

// However a run is cut into checkpoints, the table ends the same.
func TestNet_CutsDoNotMatter(t *testing.T) {
	s := netSchema(t)
	var n changelog.Net
	rapid.Check(t, func(t *rapid.T) {
		var run []changelog.Change
		for i := range rapid.IntRange(0, 30).Draw(t, "length") {
			kind := changelog.Kind(rapid.IntRange(0, 3).Draw(t, "kind"))
			run = append(run, changelog.Change{Kind: kind, Row: changelog.Row{changelog.IntValue(rapid.Int64Range(0, 4).Draw(t, "key")), changelog.IntValue(int64(i)), {}}})
		}
		want := table{}
		want.apply(run)
		got := table{}
		for rest := run; len(rest) > 0; {
			cut := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			n.Compute(s, rest[:cut])
			for _, c := range n.Deletes {
				delete(got, c.Row[0].Int())
			}
			got.apply(n.Upserts)
			rest = rest[cut:]
		}
		if len(got) != len(want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		for k, row := range want {
			if got[k][1].Int() != row[1].Int() {
				t.Fatalf("key %d holds %d, want %d", k, got[k][1].Int(), row[1].Int())
			}
		}
	})
}

func TestNet_CompositeTypedKey(t *testing.T) {
	s := schemaOf(t, "DECIMAL(10, 2)", "STRING", "INT")
	s.Key = []int{1, 0}
	row := func(unscaled uint64, scale int, k string, v int64) changelog.Row {
		return changelog.Row{changelog.DecimalValue(0, unscaled, scale), changelog.StringValue(k), changelog.IntValue(v)}
	}
	var n changelog.Net
	n.Compute(s, []changelog.Change{
		{Kind: changelog.Insert, Row: row(15, 1, "b", 1)},
		{Kind: changelog.Insert, Row: row(150, 2, "b", 2)}, // the same key
		{Kind: changelog.Insert, Row: row(9, 0, "a", 3)},
		{Kind: changelog.Insert, Row: row(1, 0, "b", 4)},
	})
	var got []int64
	for _, c := range n.Upserts {
		got = append(got, c.Row[2].Int())
	}
	if want := []int64{3, 4, 2}; !slices.Equal(got, want) || n.Superseded != 1 {
		t.Errorf("rows %v, superseded %d, want %v, 1", got, n.Superseded, want)
	}
}

func TestNet_Multiset(t *testing.T) {
	s := netSchema(t)
	s.Key = nil
	s.Columns = append(s.Columns, changelog.Column{Name: "offset", Type: parseType(t, "BIGINT"), Metadata: "offset"})
	var n changelog.Net
	for _, tt := range []struct{ name, run, deletes, upserts string }{
		{"equal rows stay as often as they came", "+I(1,a,x) +I(1,a,x)", "", "+I(1,a,x) +I(1,a,x)"},
		{"a delete takes one away", "+I(1,a,x) +I(1,a,x) -D(1,a,x)", "", "+I(1,a,x)"},
		{"each delete takes one", "+I(1,a,x) +I(1,a,x) -D(1,a,x) -U(1,a,x)", "", ""},
		{"a delete without its row is left to the table", "-D(1,a,x) -U(1,a,x)", "-D(1,a,x) -U(1,a,x)", ""},
		{"a later insert is not what a delete meant", "-D(1,a,x) +I(1,a,x)", "-D(1,a,x)", "+I(1,a,x)"},
		{"updates", "+I(1,a,x) -U(1,a,x) +U(1,b,x) -U(1,b,x) +U(1,c,x)", "", "+U(1,c,x)"},
		{"another row is another row", "+I(1,a,x) -D(1,a,-)", "-D(1,a,-)", "+I(1,a,x)"},
		{"inserts keep their order, deletes are sorted", "+I(3,a,x) -D(9,a,x) +I(1,a,x) -D(2,a,x) +I(2,b,x)", "-D(2,a,x) -D(9,a,x)", "+I(3,a,x) +I(1,a,x) +I(2,b,x)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := changesOf(t, tt.run)
			for i := range run {
				run[i].Row = append(run[i].Row, changelog.IntValue(int64(i))) // metadata tells no rows apart
			}
			n.Compute(s, run)
			cut := func(changes []changelog.Change) string {
				for i := range changes {
					changes[i].Row = changes[i].Row[:3]
				}
				return changesText(changes)
			}
			if d, u := cut(n.Deletes), cut(n.Upserts); d != tt.deletes || u != tt.upserts {
				t.Errorf("deletes %s, upserts %s\nwant    %s,         %s", d, u, tt.deletes, tt.upserts)
			}
			if n.Superseded != len(run)-len(n.Deletes)-len(n.Upserts) {
				t.Errorf("%d superseded", n.Superseded)
			}
		})
	}
}

// The multiset against counting, on a table that holds enough of every row.
func TestNet_MultisetAgreesWithCounting(t *testing.T) {
	s := netSchema(t)
	s.Key = nil
	var n changelog.Net
	rapid.Check(t, func(t *rapid.T) {
		var run []changelog.Change
		want := make(map[int64]int)
		for range rapid.IntRange(0, 60).Draw(t, "length") {
			c := changelog.Change{Kind: changelog.Kind(rapid.IntRange(0, 3).Draw(t, "kind")), Row: make(changelog.Row, 3)}
			k := rapid.Int64Range(0, 3).Draw(t, "row")
			c.Row[0] = changelog.IntValue(k)
			run = append(run, c)
			want[k] += 2*boolInt(c.Kind.Adds()) - 1
		}
		n.ComputeMultiset(s, run)
		got := make(map[int64]int)
		for _, c := range n.Deletes {
			got[c.Row[0].Int()]--
		}
		for _, c := range n.Upserts {
			got[c.Row[0].Int()]++
		}
		for k := range want {
			if got[k] != want[k] {
				t.Fatalf("row %d: %+d, want %+d", k, got[k], want[k])
			}
		}
	})
}

func TestNet_MemoryIsKept(t *testing.T) {
	s := netSchema(t)
	var n changelog.Net
	var run []changelog.Change
	for i := range 1000 {
		kind := changelog.Insert
		if i%3 == 0 {
			kind = changelog.Delete
		}
		run = append(run, changelog.Change{Kind: kind, Row: changelog.Row{changelog.IntValue(int64(i*7919) % 500), {}, {}}})
	}
	n.Compute(s, run)
	if a := testing.AllocsPerRun(10, func() { n.Compute(s, run) }); a > 0 {
		t.Errorf("%v allocations", a)
	}
	n.Reset()
	if len(n.Deletes)+len(n.Upserts)+n.Superseded != 0 {
		t.Error("Reset leaves something")
	}
	for _, c := range n.Upserts[:cap(n.Upserts)] {
		if c.Row != nil {
			t.Fatal("Reset keeps a row alive")
		}
	}
}

func BenchmarkNet(b *testing.B) {
	s := netSchema(b)
	for _, keys := range []int64{20000, 1000} {
		b.Run(fmt.Sprintf("20000_changes_%d_keys", keys), func(b *testing.B) {
			var n changelog.Net
			var run []changelog.Change
			for i := range int64(20000) {
				run = append(run, changelog.Change{Kind: changelog.UpdateAfter, Row: changelog.Row{changelog.IntValue(i * 7919 % keys), changelog.StringValue("a"), {}}})
			}
			b.ReportAllocs()
			for b.Loop() {
				n.Compute(s, run)
			}
		})
	}
}

// A row that is narrower than its schema is the mistake of whoever made it. It gets no panic, is not lost, and does not turn into a delete:
// it is handed on as it came, for the sink to refuse.
func TestNet_NarrowRows(t *testing.T) {
	keyed := netSchema(t)
	bare := schemaOf(t, "INT", "STRING", "STRING")
	last := schemaOf(t, "INT", "STRING", "STRING")
	last.Key = []int{2, 0}
	one := changelog.IntValue(1)
	full := changelog.Row{one, changelog.StringValue("a"), changelog.UnchangedValue()}
	for _, row := range []changelog.Row{nil, {}, {one}, {one, changelog.UnchangedValue()}} {
		for _, s := range []*changelog.Schema{keyed, bare, last} {
			for _, kind := range []changelog.Kind{changelog.Insert, changelog.UpdateBefore, changelog.UpdateAfter, changelog.Delete} {
				var n changelog.Net
				n.Compute(s, []changelog.Change{{Kind: kind, Row: row}})
				got := n.Deletes
				if kind.Adds() {
					got = n.Upserts
				}
				if len(n.Deletes)+len(n.Upserts) != 1 || len(got) != 1 || len(got[0].Row) != len(row) {
					t.Errorf("%s of %d values, key %v: deletes %v, upserts %v", kind, len(row), s.Key, n.Deletes, n.Upserts)
				}
				// With rows that fit before and after it, of the same key and of another.
				n.Compute(s, []changelog.Change{{Kind: changelog.Insert, Row: full}, {Kind: kind, Row: row}, {Kind: changelog.UpdateAfter, Row: full}, {Kind: kind, Row: row}})
				if n.Superseded != 4-len(n.Deletes)-len(n.Upserts) || n.Superseded == 4 && len(s.Key) > 0 {
					t.Errorf("%s of %d values between others, key %v: deletes %v, upserts %v", kind, len(row), s.Key, n.Deletes, n.Upserts)
				}
			}
			if got := changelog.AppendKey(nil, s, row); len(row) == 0 && len(s.Key) > 0 && !bytes.Equal(got, changelog.AppendKey(nil, s, make(changelog.Row, 3))) {
				t.Errorf("the key of no values is %x, want that of NULLs", got)
			}
		}
	}
}
