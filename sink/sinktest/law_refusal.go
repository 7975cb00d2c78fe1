package sinktest

import (
	"context"
	"errors"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// refusalLaws are about changes that cannot be written as they came, and about what follows a Write that failed.
func refusalLaws() []Law {
	return []Law{
		{ID: "L58", Table: TextTable, Needs: Deletes | ReadValues | Unsent, run: unsentStays,
			Sentence: "A column that its source did not send (Unchanged) stays what it was, whether that is in the table, in this checkpoint or in this batch."},
		{ID: "L59", Table: TextTable, Needs: Deletes | ReadValues, run: unsentRefused,
			Sentence: "A change with a column that was not sent and that cannot be kept is refused as ErrRejected or ErrConfig, and never written as NULL or anything else."},
		{ID: "L60", Table: KeyedTable, run: noHoles,
			Sentence: "After a Write that failed Prepare fails too, until Discard: a checkpoint with a hole is never prepared."},
	}
}

// textRow is a row of TextTable.
func textRow(k string, v, b changelog.Value) changelog.Row {
	return changelog.Row{changelog.StringValue(k), v, b}
}

func unsentStays(w *world) {
	str := changelog.StringValue
	raw := func(s string) changelog.Value { return changelog.BytesValue([]byte(s)) }
	same, null := changelog.UnchangedValue(), changelog.Value{}
	a := w.lane()
	a.ownSink()
	w.must(a.refused, "Lane")
	a.begin(0)
	write := func(rows ...changelog.Row) {
		w.must(a.writeRows(changelog.UpdateAfter, false, rows...), "Write of rows with columns that were not sent")
	}
	finish := func(when string, want ...changelog.Row) {
		a.prepare()
		a.save()
		a.commit()
		w.holds(when, want...)
	}
	write(textRow("1", str("v1"), raw("b1")), textRow("2", str("v2"), raw("b2")), textRow("3", str("v3"), raw("b3")), textRow("4", null, raw("b4")))
	finish("after whole rows",
		textRow("1", str("v1"), raw("b1")), textRow("2", str("v2"), raw("b2")), textRow("3", str("v3"), raw("b3")), textRow("4", null, raw("b4")))
	write(textRow("1", same, raw("B1")), textRow("2", null, same), textRow("3", same, same), textRow("4", same, null))
	finish("after a checkpoint of rows with columns that were not sent",
		textRow("1", str("v1"), raw("B1")), textRow("2", null, raw("b2")), textRow("3", str("v3"), raw("b3")), textRow("4", null, null))
	write(textRow("1", str("V1"), same), textRow("5", str("v5"), raw("b5")))
	write(textRow("1", same, raw("BB1")), textRow("5", same, raw("B5")), textRow("2", str("V2"), same), textRow("2", same, raw("B2")))
	finish("after columns one by one, in two batches and in one",
		textRow("1", str("V1"), raw("BB1")), textRow("2", str("V2"), raw("B2")), textRow("3", str("v3"), raw("b3")), textRow("4", null, null), textRow("5", str("v5"), raw("B5")))
	w.must(a.writeRows(changelog.Delete, true, textRow("3", null, null), textRow("4", null, null), textRow("5", null, null)), "Write of deletes")
	write(textRow("3", str("w3"), null), textRow("3", same, raw("c3")))
	finish("after deletes, a new row and a column of it in one checkpoint",
		textRow("1", str("V1"), raw("BB1")), textRow("2", str("V2"), raw("B2")), textRow("3", str("w3"), raw("c3")))
	a.crash()
	a = w.lane()
	a.begin(0)
	write(textRow("1", same, null), textRow("2", same, same))
	finish("after another process wrote columns of rows that it has not seen",
		textRow("1", str("V1"), null), textRow("2", str("V2"), raw("B2")), textRow("3", str("w3"), raw("c3")))
}

func unsentRefused(w *world) {
	str, same := changelog.StringValue, changelog.UnchangedValue()
	a := w.lane()
	a.ownSink()
	w.must(a.refused, "Lane")
	a.begin(0)
	whole := []changelog.Row{textRow("1", str("v1"), changelog.BytesValue([]byte("b1"))), textRow("2", str("v2"), changelog.Value{})}
	w.must(a.writeRows(changelog.Insert, false, whole...), "Write")
	a.prepare()
	a.save()
	a.commit()
	w.holds("after whole rows", whole...)
	type refusal struct {
		what string
		row  changelog.Row
		gone bool // the checkpoint deletes row 2 before, in a batch of its own
	}
	cases := []refusal{
		{"one column of a row that is not there", textRow("9", same, changelog.BytesValue([]byte("x"))), false},
		{"no column of a row that is not there", textRow("9", same, same), false},
		{"one column of a row that this checkpoint has deleted", textRow("2", same, changelog.BytesValue([]byte("x"))), true},
		{"a row whose key was not sent", changelog.Row{same, str("x"), {}}, false},
	}
	if w.h.WholeRows {
		cases = append(cases, refusal{"one column of a row that is there, for a sink that is declared to write WholeRows",
			textRow("2", same, changelog.BytesValue([]byte("x"))), false}) // not row 1, which the batch itself tells
	}
	for _, c := range cases {
		w.note("%s:", c.what)
		if c.gone {
			w.must(a.writeRows(changelog.Delete, true, textRow("2", changelog.Value{}, changelog.Value{})), "Write of a delete")
		}
		err := a.writeRows(changelog.UpdateAfter, false, textRow("1", str("other"), changelog.Value{}), c.row)
		if err == nil {
			err = a.Prepare(w.ctx)
		}
		if err == nil {
			err = a.Save(w.ctx)
		}
		switch class := sink.ClassOf(err); {
		case err == nil:
			a.commit()
			w.fail("%s was taken: expected %q", c.what, sink.ErrRejected)
		case !errors.Is(class, sink.ErrRejected) && !errors.Is(class, sink.ErrConfig):
			w.fail("%s was refused with an error of class %q, expected %q: %v", c.what, class, sink.ErrRejected, err)
		}
		a.discard()
		a.begin(0)
		if !w.h.Convergent {
			w.holds("after "+c.what+" was refused", whole...)
		}
	}
}

// noHoles makes Write fail in ways that any sink may, and none must: where it succeeds there is nothing to see.
func noHoles(w *world) {
	gone, cancel := context.WithCancel(w.ctx)
	cancel()
	a := w.lane()
	a.begin(0)
	foreign := func(t *changelog.Table, values int) error {
		b := changelog.NewBatch(t)
		b.Append(changelog.Change{Partition: a.To[0].Partition, Offset: a.To[0].Offset, Kind: changelog.Insert, Row: b.NewValues(values)})
		a.batches = append(a.batches, b)
		err := a.Committer.Write(w.ctx, b)
		a.tell(err, "Write of a row of %d NULLs to table %q", values, t.Name)
		return err
	}
	undeclared := *w.topic.Table
	undeclared.Name = "sinktest_undeclared"
	for i, c := range []struct {
		what string
		fail func() error
	}{
		{"with an ended context", func() error { return a.Write(gone, 1) }},
		{"to a table that the lane was not made for", func() error { return foreign(&undeclared, 2) }},
		{"of a row that is narrower than its table", func() error { return foreign(w.topic.Table, 1) }},
	} {
		before, id := a.From, int64(10*i)
		w.topic.Put(0, Insert(id, "a"), Insert(id+1, "b"))
		w.note("a Write %s:", c.what)
		w.must(a.Write(w.ctx, 1), "Write")
		if c.fail() != nil {
			if a.Prepare(w.ctx) == nil {
				w.fail("Prepare succeeded after a Write %s had failed", c.what)
			}
			if !w.h.Convergent {
				w.sees("after a Write "+c.what+" and the Prepare that followed", before...)
			}
		}
		a.discard()
		a.begin(0)
		a.checkpoint()
		w.sees("after all was written again", a.From...)
	}
}
