package sinktest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// dataLaws say which values come through, and how many.
func dataLaws() []Law {
	return []Law{
		{ID: "L47", Table: TextTable, Needs: Exact | ReadValues, run: hostileTexts,
			Sentence: "Any text and any bytes, as a key and as a value, come through unchanged and apart from all others, or are refused as ErrRejected, and then nothing of them is there."},
		{ID: "L48", Table: TypeTable, Needs: ReadValues, run: everyType, long: 4,
			Sentence: "A column of any logical type keeps NULL and the extremes of its type exactly, or is refused as ErrConfig before the first row."},
		{ID: "L49", Table: KeyedTable, run: manyInOne, long: 4,
			Sentence: "A batch may hold no change at all, or more than 65,535 of them."},
		{ID: "L50", Table: KeyedTable, run: overBudget,
			Sentence: "A checkpoint may hold many times Lane.ByteBudget."},
	}
}

// writeRows writes rows of the lane's table as one batch, whose memory is overwritten once Prepare or Discard returns.
func (l *lane) writeRows(kind changelog.Kind, keyOnly bool, rows ...changelog.Row) error {
	b := changelog.NewBatch(l.Topic.Table)
	to := slices.Clone(l.To)
	for _, r := range rows {
		row := b.NewRow()
		for i, v := range r {
			row[i] = intoArena(b, v)
		}
		b.Append(changelog.Change{Partition: to[0].Partition, Offset: to[0].Offset, Kind: kind, KeyOnly: keyOnly, Row: row})
		to[0].Offset++
	}
	l.batches = append(l.batches, b)
	err := l.Committer.Write(l.w.ctx, b)
	l.tell(err, "Write %d rows of table %q as %s up to %v", len(rows), l.Topic.Table.Name, kind, offsets(to))
	if err == nil {
		n := int64(len(rows))
		l.To = to
		l.counters = l.counters.Add(sink.Counters{Records: n, Read: n, Applied: n})
	}
	return err
}

// intoArena copies texts and bytes into the batch's memory.
func intoArena(b *changelog.Batch, v changelog.Value) changelog.Value {
	switch v.Kind() {
	case changelog.KindString, changelog.KindBytes:
		mine := b.NewBytes(len(v.Bytes()))
		copy(mine, v.Bytes())
		if v.Kind() == changelog.KindString {
			return changelog.StringBytesValue(mine)
		}
		return changelog.BytesValue(mine)
	}
	return v
}

// offer takes rows through a whole checkpoint. false: they were refused, as they may be, and the lane has begun anew.
func (l *lane) offer(what string, kind changelog.Kind, keyOnly bool, rows ...changelog.Row) bool {
	err := l.writeRows(kind, keyOnly, rows...)
	if err == nil {
		err = l.Prepare(l.w.ctx)
	}
	if err == nil {
		err = l.Save(l.w.ctx)
	}
	if err == nil {
		l.commit()
		return true
	}
	if !errors.Is(sink.ClassOf(err), sink.ErrRejected) {
		l.w.fail("%s was not taken, with an error of class %q, expected %q: %v", what, sink.ClassOf(err), sink.ErrRejected, err)
	}
	l.discard()
	l.begin(0)
	return false
}

// holds is a violation unless the table holds exactly these rows, by their whole content.
func (w *world) holds(when string, want ...changelog.Row) {
	w.delay()
	got, err := w.h.Values(w.ctx, w.topic.Table)
	if err != nil {
		w.broken("Harness.Values: %v", err)
	}
	canonical := func(rows []changelog.Row) map[string]int {
		m := make(map[string]int)
		for _, r := range rows {
			if len(r) != len(w.topic.Table.Schema.Columns) {
				w.broken("Harness.Values returned a row of %d values for %d columns", len(r), len(w.topic.Table.Schema.Columns))
			}
			m[rowKey(&changelog.Schema{}, r)]++
		}
		return m
	}
	w.note("readers see %d rows", len(got))
	if a, b := canonical(got), canonical(want); !maps.Equal(a, b) {
		w.fail("%s, readers see %s; expected are %s", when, w.texts(got), w.texts(want))
	}
}

// texts prints rows of the suite's own values, the first ones, shortened.
func (w *world) texts(rows []changelog.Row) string {
	var s []string
	for i, r := range rows {
		if i == 6 {
			s = append(s, "...")
			break
		}
		var vs []string
		for j, v := range r {
			text := "NULL"
			switch v.Kind() {
			case changelog.KindNull:
			case changelog.KindString, changelog.KindBytes:
				text = fmt.Sprintf("%.40q", v.Bytes())
			default:
				text = string(changelog.AppendText(nil, &w.topic.Table.Schema.Columns[j].Type, v))
			}
			vs = append(vs, text)
		}
		s = append(s, "("+strings.Join(vs, ", ")+")")
	}
	return fmt.Sprintf("%d rows %s", len(rows), strings.Join(s, " "))
}

// hostile are texts that a careless sink alters, cuts off, interprets, or takes for one another.
func hostile() []string {
	mega := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2)) // nothing that compression makes small
	for i := range mega {
		mega[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[r.IntN(36)]
	}
	return []string{"", " ", "a", "A", "a ", " a", "a\x00b", "\x00", "'", "''", `"`, `\`, `\\`, `\N`, `\x41`, "NULL", "null", "$1", "%s", "?", ":name", "{}", "{a,b}",
		"a,b", "(1)", "--", "/*", ";", "a\tb", "a\nb", "a\r\nb", "é", "e\u0301", "ß", "ẞ", "😀", "👩‍👩‍👧‍👦", "שלום", "\u202eabc", "\ufeff", "\uffff", "\U0010ffff", "\u2028",
		"\ufffd", "\xed\xa0\x80", "\xed\xaf\xbf", "a\xed\xb0\x80b", // lone surrogates are no UTF-8 and legal all the same: see changelog.StringValue
		strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("ä", 1500), string(mega)}
}

func hostileTexts(w *world) {
	a := w.lane()
	a.ownSink()
	if a.refused != nil {
		w.fail("Lane refused a table of texts: %v", a.refused)
	}
	a.begin(0)
	table := make(map[string]changelog.Row)
	rows := func() []changelog.Row { return slices.Collect(maps.Values(table)) }
	opened := len(w.history)
	for i, s := range hostile() {
		w.history = w.history[:opened]
		w.note("the text %.30q, of %d bytes:", s, len(s))
		id := changelog.StringValue(fmt.Sprintf("id %d", i))
		asValue := changelog.Row{id, changelog.StringValue(s), changelog.BytesValue([]byte(s))}
		if a.offer("a text as a value", changelog.Insert, false, asValue) {
			table[id.Str()] = asValue
		}
		key := changelog.StringValue(s)
		for _, v := range []string{"first", "second"} {
			asKey := changelog.Row{key, changelog.StringValue(v), {}}
			if a.offer("a text as a key", changelog.UpdateAfter, false, asKey) {
				table[s] = asKey
			}
		}
		if i%8 == 7 || i == len(hostile())-1 {
			w.holds("after texts one by one", rows()...)
		}
	}
	w.history = w.history[:opened]
	// Bytes are no text.
	for i, b := range [][]byte{{0xff, 0xfe}, {0xc3, 0x28}, {0}, {}, {0xed, 0xa0, 0x80}, nil} {
		row := changelog.Row{changelog.StringValue(fmt.Sprintf("bytes %d", i)), {}, {}}
		if b != nil {
			row[2] = changelog.BytesValue(b)
		}
		if a.offer("bytes as a value", changelog.Insert, false, row) {
			table[row[0].Str()] = row
		}
	}
	w.holds("after bytes that are no text", rows()...)
	// All that was taken, once more in one checkpoint, and then gone by their keys, all but those that come last.
	if !a.offer("all that was taken one by one", changelog.UpdateAfter, false, rows()...) {
		w.fail("rows that were taken one by one are refused together")
	}
	w.holds("after all of them in one checkpoint", rows()...)
	if w.h.NoDeletes {
		return
	}
	keys := slices.Sorted(maps.Keys(table))
	for i, k := range keys {
		if i%2 == 0 {
			if !a.offer("a delete by key", changelog.Delete, true, changelog.Row{changelog.StringValue(k), {}, {}}) {
				w.fail("the delete of a row that is there was refused: key %.30q", k)
			}
			delete(table, k)
		}
	}
	w.holds("after every other key was deleted", rows()...)
}

// typeCase is one logical type with values that have to come through.
type typeCase struct {
	sql    string
	values []changelog.Value
}

// typeCases cover every root of a logical type that formats read, at its extremes.
func typeCases() []typeCase {
	v := func(vs ...changelog.Value) []changelog.Value { return vs }
	ints := func(ns ...int64) (vs []changelog.Value) {
		for _, n := range ns {
			vs = append(vs, changelog.IntValue(n))
		}
		return vs
	}
	texts := func(ss ...string) (vs []changelog.Value) {
		for _, s := range ss {
			vs = append(vs, changelog.StringValue(s))
		}
		return vs
	}
	decimals := func(precision, scale int, ss ...string) (vs []changelog.Value) {
		for _, s := range ss {
			d, err := changelog.ParseDecimal([]byte(s), precision, scale)
			if err == nil {
				vs = append(vs, d)
			}
		}
		return vs
	}
	const day = 24 * 60 * 60
	first, last := changelog.DaysOf(1, 1, 1), changelog.DaysOf(9999, 12, 31)
	nines := strings.Repeat("9", 38)
	str, one, two := changelog.StringValue, changelog.IntValue(1), changelog.IntValue(-2)
	return []typeCase{
		{"BOOLEAN", v(changelog.BoolValue(true), changelog.BoolValue(false))},
		{"TINYINT", ints(math.MinInt8, 0, math.MaxInt8)},
		{"SMALLINT", ints(math.MinInt16, math.MaxInt16)},
		{"INT", ints(math.MinInt32, math.MaxInt32)},
		{"BIGINT", ints(math.MinInt64, math.MinInt64+1, 1<<53+1, math.MaxInt64)},
		{"FLOAT", v(changelog.FloatValue(math.MaxFloat32), changelog.FloatValue(math.SmallestNonzeroFloat32), changelog.FloatValue(0.1),
			changelog.FloatValue(float32(math.NaN())), changelog.FloatValue(float32(math.Inf(-1))))},
		{"DOUBLE", v(changelog.DoubleValue(math.MaxFloat64), changelog.DoubleValue(math.SmallestNonzeroFloat64), changelog.DoubleValue(0.1),
			changelog.DoubleValue(math.NaN()), changelog.DoubleValue(math.Inf(1)))},
		{"DECIMAL(10, 2)", decimals(10, 2, "0.01", "-99999999.99", "100.00")},
		{"DECIMAL(38, 0)", decimals(38, 0, nines, "-"+nines, "0")},
		{"DECIMAL(38, 38)", decimals(38, 38, "0."+nines, "-0."+nines, "0."+strings.Repeat("0", 37)+"1")},
		{"CHAR(4)", texts("abcd", "ab  ", "äöü€")},
		{"VARCHAR(4)", texts("", "a ", "😀😀😀😀")},
		{"STRING", texts("", "text")},
		{"BINARY(2)", v(changelog.BytesValue([]byte{0, 255}))},
		{"BYTES", v(changelog.BytesValue([]byte{}), changelog.BytesValue([]byte{0, 1, 255}))},
		{"DATE", v(changelog.DateValue(first), changelog.DateValue(-1), changelog.DateValue(last))},
		{"TIME(0)", v(changelog.TimeValue(0), changelog.TimeValue((day-1)*1e9))},
		{"TIME(3)", v(changelog.TimeValue(0), changelog.TimeValue(day*1e9-1e6))},
		{"TIMESTAMP(0)", v(changelog.TimestampValue(first*day, 0), changelog.TimestampValue(last*day+day-1, 0))},
		{"TIMESTAMP(3)", v(changelog.TimestampValue(-1, 999e6), changelog.TimestampValue(last*day+day-1, 999e6))},
		{"TIMESTAMP(6)", v(changelog.TimestampValue(first*day, 1000), changelog.TimestampValue(last*day+day-1, 999_999e3))},
		{"TIMESTAMP(9)", v(changelog.TimestampValue(0, 1), changelog.TimestampValue(last*day+day-1, 999_999_999))},
		{"TIMESTAMP_LTZ(3)", v(changelog.TimestampLTZValue(first*day, 0), changelog.TimestampLTZValue(last*day+day-1, 999e6))},
		{"TIMESTAMP_LTZ(6)", v(changelog.TimestampLTZValue(-1, 999_999e3))},
		{"TIMESTAMP_LTZ(9)", v(changelog.TimestampLTZValue(1, 1))},
		{"INTERVAL YEAR(4) TO MONTH", ints(0, -1, 9999*12+11)},
		{"INTERVAL DAY(6) TO SECOND(3)", ints(0, -1, 999_999*day*1000+1)},
		{"ARRAY<INT>", v(changelog.ArrayValue(nil), changelog.ArrayValue([]changelog.Value{one, {}, two}))},
		{"ARRAY<STRING>", v(changelog.ArrayValue([]changelog.Value{str(""), {}, str("NULL"), str(`a,"b"\`), str("{}")}))},
		{"MAP<STRING, INT>", v(changelog.MapValue(nil), changelog.MapValue([]changelog.Value{str("a"), one, str(""), {}}))},
		{"MULTISET<STRING>", v(changelog.MapValue([]changelog.Value{str("a"), one, str("b"), changelog.IntValue(2)}))},
		{"ROW<a INT, b STRING>", v(changelog.RowValue([]changelog.Value{one, str("x")}), changelog.RowValue([]changelog.Value{{}, {}}))},
	}
}

func everyType(w *world) {
	kept := 0
	var refused []string
	for _, c := range typeCases() {
		t, err := changelog.ParseType(c.sql)
		if err != nil {
			w.broken("the suite's type %s: %v", c.sql, err)
		}
		w.topic = NewTopic(typeTable(t))
		w.history = nil
		w.note("a column of type %s:", c.sql)
		w.srv = NewServer()
		if err := w.h.Reset(w.ctx, w.topic.Table); err != nil {
			w.broken("Harness.Reset: %v", err)
		}
		a := w.lane()
		a.ownSink()
		err = a.refused
		if err == nil {
			a.acquire(0)
			err = a.Open(w.ctx)
		}
		if err != nil {
			if !errors.Is(sink.ClassOf(err), sink.ErrConfig) {
				w.fail("type %s was refused with an error of class %q, expected %q: %v", c.sql, sink.ClassOf(err), sink.ErrConfig, err)
			}
			refused = append(refused, c.sql)
			w.release()
			w.lanes = nil
			continue
		}
		kept++
		rows := []changelog.Row{{changelog.IntValue(0), {}}}
		for i, v := range c.values {
			rows = append(rows, changelog.Row{changelog.IntValue(int64(i + 1)), v})
		}
		w.must(a.writeRows(changelog.Insert, false, rows...), "Write of values of type "+c.sql)
		a.prepare()
		a.save()
		a.commit()
		w.holds("after inserts of type "+c.sql, rows...)
		// Each row gets the value of the one before: NULL becomes a value and a value NULL.
		moved := slices.Clone(rows)
		for i := range moved {
			moved[i] = changelog.Row{rows[i][0], rows[(i+len(rows)-1)%len(rows)][1]}
		}
		w.must(a.writeRows(changelog.UpdateAfter, false, moved...), "Write of other values of type "+c.sql)
		a.prepare()
		a.save()
		a.commit()
		w.holds("after updates of type "+c.sql, moved...)
		w.release()
		w.lanes = nil
	}
	if kept == 0 {
		w.fail("every type was refused: %v", refused)
	}
}

// manyInOne passes 65,535 with changes, with the values of as many rows as that takes (33,000 of two columns: the parameters of one statement),
// and no more rows than that: where each is a file or a request, they are what takes the time.
func manyInOne(w *world) {
	const many, rows = 66_000, 33_000
	a := w.lane()
	a.begin(0)
	empty := changelog.NewBatch(w.topic.Table)
	err := a.Committer.Write(w.ctx, empty)
	a.tell(err, "Write of an empty batch")
	w.must(err, "Write of an empty batch")
	for id := range int64(rows) {
		w.topic.Put(0, Insert(id, "a"))
	}
	for i := range int64(many - rows) {
		w.topic.Put(0, UpdateAfter(i%100, fmt.Sprint("b", i)))
	}
	a.checkpoint()
	w.sees("after a batch of 33,000 inserts and 33,000 updates of 100 of these rows", a.From...)
	for i := range int64(many) {
		if id := i % 200; (i/200)%2 == 0 {
			w.topic.Put(0, UpdateAfter(id, "c"))
		} else {
			w.topic.Put(0, DeleteKey(id))
		}
	}
	a.checkpoint()
	w.sees("after a batch of 33,000 updates and 33,000 deletes of 200 rows", a.From...)
}

func overBudget(w *world) {
	const budget = 32 << 10
	a := w.laneAs(w.ctx, sink.Lane{Bridge: Bridge, ByteBudget: budget})
	a.begin(0)
	for id := range int64(64) {
		w.topic.Put(0, Insert(id, strings.Repeat("x", 8<<10)))
	}
	for range 16 {
		w.must(a.Write(w.ctx, 4), "Write")
	}
	a.prepare()
	a.save()
	a.commit()
	w.sees("after a checkpoint of 16 times the lane's budget", a.From...)
	w.topic.Put(0, UpdateAfter(1, strings.Repeat("y", 4*budget)))
	a.checkpoint()
	w.sees("after one row of 4 times the lane's budget", a.From...)
}
