package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// spareTable is (k INT, v STRING, n BIGINT) with the key k.
func spareTable(shape func(tg *target)) *target {
	s := &changelog.Schema{Key: []int{0}, Columns: []changelog.Column{{Name: "k", Type: typeInt}, {Name: "v", Type: typeText}, {Name: "n", Type: typeBigInt}}}
	tg := &target{table: &changelog.Table{Name: "t", Schema: s}, keys: []int{0}, mark: -1, version: -1}
	for i := range s.Columns {
		tg.columns = append(tg.columns, column{source: i, name: s.Columns[i].Name, key: i == 0})
	}
	tg.columns = append(tg.columns, column{source: -1, origin: fromMark, name: "gone", width: 3})
	tg.mark = 3
	shape(tg)
	return tg
}

// spareRun reads "+1a5" (key, text, version), "-1a5", "<1a5" (-U), "~15" (a +U whose text was not sent) and "x1" (a delete that knows its key only).
func spareRun(text string) (out []changelog.Change) {
	for i, w := range strings.Fields(text) {
		c := changelog.Change{Offset: int64(i), Row: changelog.Row{changelog.IntValue(int64(w[1] - '0')), {}, {}}}
		version := func(b byte) { c.Row[2] = changelog.IntValue(int64(b - '0')) }
		switch w[0] {
		case '~':
			c.Kind, c.Row[1] = changelog.UpdateAfter, changelog.UnchangedValue()
			version(w[2])
		case 'x':
			c.Kind, c.KeyOnly = changelog.Delete, true
		default:
			c.Kind = map[byte]changelog.Kind{'+': changelog.UpdateAfter, '-': changelog.Delete, '<': changelog.UpdateBefore}[w[0]]
			c.Row[1] = changelog.StringValue(w[2:3])
			version(w[3])
		}
		out = append(out, c)
	}
	return out
}

func sparePrint(changes []changelog.Change) string {
	var out []string
	for _, c := range changes {
		v := "?"
		if c.Row[1].Kind() == changelog.KindString {
			v = c.Row[1].Str()
		}
		n := "?"
		if c.Row[2].Kind() == changelog.KindInt {
			n = fmt.Sprint(c.Row[2].Int())
		}
		sign := "-"
		if c.Kind.Adds() {
			sign = "+"
		}
		out = append(out, fmt.Sprintf("%s%d%s%s@%d", sign, c.Row[0].Int(), v, n, c.Offset))
	}
	return strings.Join(out, " ")
}

func TestSpared(t *testing.T) {
	soft := func(tg *target) { tg.soft = true }
	ignores := func(tg *target) { tg.ignores = true }
	versions := func(tg *target) {
		tg.soft, tg.version = true, 2
		tg.columns[2].version = true
	}
	for _, tc := range []struct {
		shape                        func(*target)
		run, gone, whole, kept, puts string
		stale                        int
	}{
		{soft, "-1a1", "-1a1@0", "", "", "", 0},
		{soft, "+1a1 -1a1", "", "", "-1a1@1", "", 0},
		{soft, "+1a1 -1a1 x1", "", "", "-1a1@1", "", 0},                     // marked by the first delete
		{soft, "x1 -1a1", "-1??@0", "", "", "", 0},                          // the same of a row that is in the table
		{soft, "+1a1 ~12 x1 +1c3 +2b1 -2b1", "", "", "-2b1@5", "+1c3@3", 0}, // what comes back is not marked
		{soft, "+1a1 ~12 x1", "", "", "-1a2@2", "", 0},                      // what an update left out is known
		{soft, "~12 x1", "", "", "-1?2@1", "", 0},                           // and here the table knows it
		{soft, "+1a1 <1a1 +2a2", "", "", "-1a1@1", "+2a2@2", 0},             // a key that changes
		{soft, "<1a1 ~22", "-1a1@0", "", "", "+2a2@1", 0},
		{ignores, "-1a1", "-1a1@0", "", "", "", 0},
		{ignores, "+1a1 -1a1 x1", "", "", "+1a1@0", "", 0},
		{ignores, "+1a1 <1a1 +2a2", "", "", "+1a1@0", "+2a2@2", 0},
		{versions, "-1a5", "", "-1a5@0", "", "", 0},
		{versions, "x1", "-1??@0", "", "", "", 0},
		{versions, "+1a5 -1b6", "", "", "-1a6@1", "", 0}, // the row as it was, with the version of the delete
		{versions, "+1a5 -1b4", "", "", "", "+1a5@0", 1},
		{versions, "+1a5 +1b4 +1c5", "", "", "", "+1c5@2", 1},
		{versions, "-1a5 +1b4", "", "-1a5@0", "", "", 1},
	} {
		tg := spareTable(tc.shape)
		var a applier
		changes, stale := current(tg, spareRun(tc.run))
		a.net.Compute(tg.table.Schema, changes)
		puts := slices.Clone(a.net.Upserts)
		gone, whole, kept := a.spared(tg, changes)
		if g, w, k, p := sparePrint(gone), sparePrint(whole), sparePrint(kept), sparePrint(puts); g != tc.gone || w != tc.whole || k != tc.kept || p != tc.puts || stale != tc.stale {
			t.Errorf("%s: gone %q, whole %q, kept %q, puts %q, %d stale; expected %q, %q, %q, %q, %d", tc.run, g, w, k, p, stale, tc.gone, tc.whole, tc.kept, tc.puts, tc.stale)
		}
	}
}
