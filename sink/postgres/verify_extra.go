package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/sink"
)

// place is where a row lies: its table (a partition of a partitioned one) and its ctid there, and the transaction that wrote it. In one snapshot the
// first two name a row; later, all three together name this very version of it.
type place struct {
	table  uint32
	block  uint32
	item   uint16
	writer uint32
}

func parsePlace(table, ctid, writer []byte) (p place, err error) {
	bad := func() (place, error) {
		return place{}, fmt.Errorf("the server's ctid is in a form that is not known here")
	}
	oid, err := strconv.ParseUint(string(table), 10, 32)
	if err != nil {
		return bad()
	}
	xmin, err := strconv.ParseUint(string(writer), 10, 32)
	if err != nil {
		return bad()
	}
	block, item, ok := strings.Cut(strings.Trim(string(ctid), "()"), ",")
	b, err := strconv.ParseUint(block, 10, 32)
	i, err2 := strconv.ParseUint(item, 10, 16)
	if !ok || err != nil || err2 != nil {
		return bad()
	}
	return place{uint32(oid), uint32(b), uint16(i), uint32(xmin)}, nil
}

func (p place) ctid() string { return fmt.Sprintf("(%d,%d)", p.block, p.item) }

// places is a set of places, a bit for each row that a page of 8 kB can hold, for runs of pages of which one is in it.
type places struct {
	runs map[run]*[runPages * pageWords]uint64
	more map[place]struct{} // items that a page of 8 kB has not
}

type run struct{ table, number uint32 }

const (
	runPages  = 256
	pageWords = 5 // MaxHeapTuplesPerPage is 291
)

func newPlaces() *places {
	return &places{runs: make(map[run]*[runPages * pageWords]uint64), more: make(map[place]struct{})}
}

func (ps *places) find(p place) (r run, word int, bit uint64, ok bool) {
	return run{p.table, p.block / runPages}, int(p.block%runPages)*pageWords + int(p.item)/64, 1 << (p.item % 64), p.item < pageWords*64
}

func (ps *places) add(p place) {
	r, word, bit, ok := ps.find(p)
	if !ok {
		p.writer = 0
		ps.more[p] = struct{}{}
		return
	}
	words := ps.runs[r]
	if words == nil {
		words = new([runPages * pageWords]uint64)
		ps.runs[r] = words
	}
	words[word] |= bit
}

func (ps *places) has(p place) bool {
	r, word, bit, ok := ps.find(p)
	if !ok {
		p.writer = 0
		_, there := ps.more[p]
		return there
	}
	words := ps.runs[r]
	return words != nil && words[word]&bit != 0
}

// extraPage is how many extra rows are handed on at once.
const extraPage = 1000

// Extra implements [sink.View], at the last pass: rows that no pass looked up.
func (v *view) Extra(ctx context.Context, pass sink.ViewPass, found func([]sink.Difference) error) error {
	if !pass.Last {
		return nil
	}
	done := make(map[qualified]bool)
	for _, tg := range v.targets {
		if done[tg.name] {
			continue
		}
		done[tg.name] = true
		if err := v.extraIn(ctx, tg, found); err != nil {
			return v.fail("verify", err)
		}
	}
	return nil
}

func (v *view) extraIn(ctx context.Context, tg *target, found func([]sink.Difference) error) error {
	key := "NULL"
	if v.r.Keys {
		var names []string
		for _, i := range tg.keys {
			names = append(names, "t."+quote(tg.columns[i].name))
		}
		key = fmt.Sprintf("ROW(%s)::text", strings.Join(names, ", "))
	}
	where := ""
	if tg.soft {
		where = " WHERE NOT " + tg.isDeleted()
	}
	sql := fmt.Sprintf("SELECT t.tableoid, t.ctid, t.xmin, %s FROM %s AS t%s", key, tg.name.SQL(), where)
	seen := v.seen[tg.name]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows := v.tx.Conn().PgConn().ExecParams(ctx, sql, nil, nil, nil, nil)
	var page []sink.Difference
	for rows.NextRow() {
		row := rows.Values()
		at, err := parsePlace(row[0], row[1], row[2])
		if err != nil {
			cancel() // else Close would read the rest of the table
			_, _ = rows.Close()
			return err
		}
		if seen.has(at) {
			continue
		}
		page = append(page, sink.Difference{Kind: sink.Extra, Key: strings.Clone(string(row[3])), Seen: seenRow{tg, at}})
		if len(page) == extraPage {
			if err := found(page); err != nil {
				cancel()
				_, _ = rows.Close()
				return err
			}
			page = nil
		}
	}
	if _, err := rows.Close(); err != nil {
		return err
	}
	if len(page) == 0 {
		return nil
	}
	return found(page)
}
