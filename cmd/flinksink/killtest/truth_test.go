package killtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// record is a change that was produced, as the producer knows it.
type record struct {
	partition int32
	offset    int64
	key       string // of the row
	row       string // as text, see subject.rows
	gone      bool   // the row is deleted
	bad       string // class of the dead letter that it has to become, "": it is applied
	number    int64
}

// truth is what the tables have to hold: a plain map, fed by the writers in the order of offsets.
type truth struct {
	mu      sync.Mutex
	pending map[int32][]record // committed, or about to be; not in rows yet
	at      map[int32]int64    // where rows stands
	rows    map[string]string  // by key
	ever    map[string]bool    // keys that there ever were
	tally   map[int32]tally    // of the records in rows
	letters map[place]string   // bad messages below the positions

	written, aborted                    int
	inserts, updates, deletes, returned int // among written; returned are inserts of a key that was deleted before
}

// tally sums the records of a partition.
type tally struct{ Count, Offsets, Numbers int64 }

func newTruth() *truth {
	return &truth{pending: map[int32][]record{}, at: map[int32]int64{}, rows: map[string]string{}, ever: map[string]bool{}, tally: map[int32]tally{}, letters: map[place]string{}}
}

// commits notes the records of a transaction. It has to be called before the transaction is committed: then whoever reads a record finds
// it here.
func (w *truth) commits(rs []record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rs {
		w.pending[r.partition] = append(w.pending[r.partition], r)
	}
	w.written += len(rs)
}

func (w *truth) aborts(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aborted += n
}

// advance takes everything below the stored positions into the rows. A position that went back is an error.
func (w *truth) advance(to map[int32]int64) (moved int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, at := range w.at {
		if to[p] < at {
			return 0, fmt.Errorf("the stored position of partition %d went back from %d to %d", p, at, to[p])
		}
	}
	for p, at := range to {
		// Two writers' transactions lie in one another.
		all := w.pending[p]
		slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.offset, b.offset) })
		n := 0
		for ; n < len(all) && all[n].offset < at; n++ {
			w.apply(all[n])
		}
		w.pending[p] = slices.Clone(all[n:])
		w.at[p] = at
		moved += n
	}
	return moved, nil
}

func (w *truth) apply(r record) {
	if r.bad != "" {
		w.letters[place{r.partition, r.offset}] = r.bad
		return
	}
	_, there := w.rows[r.key]
	switch {
	case r.gone:
		w.deletes++
		delete(w.rows, r.key)
	case there:
		w.updates++
		w.rows[r.key] = r.row
	default:
		w.inserts++
		if w.ever[r.key] {
			w.returned++
		}
		w.rows[r.key] = r.row
	}
	w.ever[r.key] = true
	t := w.tally[r.partition]
	w.tally[r.partition] = tally{t.Count + 1, t.Offsets + r.offset, t.Numbers + r.number}
}

// behind is how many committed changes are not in the rows.
func (w *truth) behind() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pending {
		n += len(p)
	}
	return n
}

func (w *truth) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

// counted returns what can be compared of a table that only grows without reading all of it.
func (w *truth) counted() map[int32]tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[int32]tally{}
	for p, t := range w.tally {
		if t.Count > 0 {
			out[p] = t
		}
	}
	return out
}

// difference is what is wrong with a table.
type difference struct {
	expected, found int
	lost            []string // rows that are missing
	wrong           []string // rows with another value
	risen           []string // rows that were deleted
	foreign         []string // rows that never were
	doubled         []string // rows that are there more than once
}

func (d difference) none() bool {
	return len(d.lost)+len(d.wrong)+len(d.risen)+len(d.foreign)+len(d.doubled) == 0
}

func (d difference) String() string {
	out := fmt.Sprintf("%d rows expected, %d found", d.expected, d.found)
	for _, x := range []struct {
		what string
		rows []string
	}{{"lost", d.lost}, {"wrong", d.wrong}, {"doubled", d.doubled}, {"resurrected", d.risen}, {"foreign", d.foreign}} {
		out += fmt.Sprintf(", %d %s", len(x.rows), x.what)
		if len(x.rows) > 0 {
			out += fmt.Sprintf(" %q", x.rows[:min(5, len(x.rows))])
		}
	}
	return out
}

// compare compares rows, as they were found one by one, with what they have to be.
func (w *truth) compare(found [][2]string) difference {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := difference{expected: len(w.rows), found: len(found)}
	seen := make(map[string]bool, len(found))
	for _, f := range found {
		key, row := f[0], f[1]
		want, ok := w.rows[key]
		switch {
		case seen[key]:
			d.doubled = append(d.doubled, key)
		case !ok && w.ever[key]:
			d.risen = append(d.risen, key)
		case !ok:
			d.foreign = append(d.foreign, key+" "+row)
		case row != want:
			d.wrong = append(d.wrong, fmt.Sprintf("%s is %s, not %s", key, row, want))
		}
		seen[key] = true
	}
	for key := range w.rows {
		if !seen[key] {
			d.lost = append(d.lost, key)
		}
	}
	slices.Sort(d.lost)
	return d
}

// The oracle must be able to find everything that it is asked for.
func TestTruth(t *testing.T) {
	w := newTruth()
	// Two transactions that lie in one another, in the order of their ends.
	w.commits([]record{{offset: 1, key: "a", row: "2"}, {offset: 4, key: "b", row: "1"}})
	w.commits([]record{{offset: 0, key: "a", row: "1"}, {offset: 2, key: "c", row: "1"}, {offset: 3, key: "c", gone: true}, {offset: 7, key: "a", gone: true}})
	if moved, err := w.advance(map[int32]int64{0: 5}); moved != 5 || err != nil {
		t.Fatalf("%d changes below the position, %v", moved, err)
	}
	if n := w.behind(); n != 1 {
		t.Errorf("%d changes behind", n)
	}
	for want, found := range map[string][][2]string{
		"2 rows expected, 2 found, 0 lost, 0 wrong, 0 doubled, 0 resurrected, 0 foreign":                   {{"a", "2"}, {"b", "1"}},
		`2 rows expected, 1 found, 1 lost ["b"], 0 wrong, 0 doubled, 0 resurrected, 0 foreign`:             {{"a", "2"}},
		`2 rows expected, 2 found, 0 lost, 1 wrong ["a is 1, not 2"], 0 doubled, 0 resurrected, 0 foreign`: {{"a", "1"}, {"b", "1"}},
		`2 rows expected, 3 found, 0 lost, 0 wrong, 1 doubled ["a"], 0 resurrected, 0 foreign`:             {{"a", "2"}, {"b", "1"}, {"a", "2"}},
		`2 rows expected, 3 found, 0 lost, 0 wrong, 0 doubled, 1 resurrected ["c"], 0 foreign`:             {{"a", "2"}, {"b", "1"}, {"c", "1"}},
		`2 rows expected, 3 found, 0 lost, 0 wrong, 0 doubled, 0 resurrected, 1 foreign ["d aborted"]`:     {{"a", "2"}, {"b", "1"}, {"d", "aborted"}},
		`2 rows expected, 0 found, 2 lost ["a" "b"], 0 wrong, 0 doubled, 0 resurrected, 0 foreign`:         nil,
	} {
		d := w.compare(found)
		if got := d.String(); got != want || d.none() != strings.Contains(want, "2 found, 0 lost, 0 wrong") {
			t.Errorf("%q:\n got %s\nwant %s", found, got, want)
		}
	}
	w.commits([]record{{partition: 1, offset: 3, key: "x", row: "1", bad: refused}, {partition: 1, offset: 5, key: "y", bad: undecodable}})
	if _, err := w.advance(map[int32]int64{0: 5, 1: 4}); err != nil || len(w.rows) != 2 {
		t.Errorf("a bad message is a row: %v, %v", w.rows, err)
	}
	for ok, found := range map[bool][]map[place]string{
		true:  {{{1, 3}: refused}},
		false: {nil, {{1, 3}: undecodable}, {{1, 3}: "rejected+rejected"}, {{1, 3}: refused, {1, 5}: undecodable}, {{1, 5}: undecodable}},
	} {
		for _, f := range found {
			if err := w.compareLetters(f); (err == nil) != ok {
				t.Errorf("%v: %v", f, err)
			}
		}
	}
	if _, err := w.advance(map[int32]int64{0: 4}); err == nil {
		t.Error("a position that went back is not seen")
	}
	if _, err := w.advance(map[int32]int64{0: 8, 1: 6}); err != nil || w.behind() != 0 || len(w.rows) != 1 {
		t.Errorf("at the end: %v, %d behind, rows %v", err, w.behind(), w.rows)
	}
}
