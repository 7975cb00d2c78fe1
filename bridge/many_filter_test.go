package bridge

import (
	"errors"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// A row that an output's filter could only guess about is a data error of its message, found when it is decoded, before any sink is given it; where
// another topic is meant, or the filter's columns are there, it is not.
func TestMany_FilterCannotJudge(t *testing.T) {
	table := newRows().table
	whole := func(kind changelog.Kind, v changelog.Value) changelog.Change {
		return changelog.Change{Partition: changelog.Partition{Topic: "rows"}, Offset: 7, Kind: kind, Row: changelog.Row{changelog.IntValue(1), v}}
	}
	a, unsent := changelog.StringValue("a"), changelog.UnchangedValue()
	byText := &Filter{Keep: func(row changelog.Row) bool { return row[1].Str() == "a" }}
	byKey := &Filter{Reads: []string{"id"}, Keep: func(row changelog.Row) bool { return row[0].Int() == 1 }}
	for name, c := range map[string]struct {
		filter  *Filter
		topics  []string
		changes []changelog.Change
		bad     bool
		share   sink.Share // of the last change
	}{
		"the filter's column was not sent":       {byText, nil, []changelog.Change{whole(changelog.UpdateAfter, unsent)}, true, 0},
		"by key, which is there":                 {byKey, nil, []changelog.Change{whole(changelog.UpdateAfter, unsent)}, false, sink.ShareAll},
		"of a topic that the output leaves out":  {byText, []string{"other"}, []changelog.Change{whole(changelog.UpdateAfter, unsent)}, false, sink.ShareNone},
		"a row that passes":                      {byText, nil, []changelog.Change{whole(changelog.Insert, a)}, false, sink.ShareAll},
		"a row that does not":                    {byText, nil, []changelog.Change{whole(changelog.Insert, changelog.StringValue("b"))}, false, sink.ShareDelete},
		"a delete of a row that may have passed": {byText, nil, []changelog.Change{whole(changelog.Delete, changelog.StringValue("b"))}, false, sink.ShareAll},
		"a row too narrow":                       {byText, nil, []changelog.Change{{Partition: changelog.Partition{Topic: "rows"}, Offset: 7, Row: changelog.Row{a}}}, true, 0},
	} {
		topics := []string{"rows", "other"}
		in := Input{Topics: topics, Decoder: messages{table, map[int64][]changelog.Change{7: c.changes}}}
		b, err := NewMany("test", []Input{in}, []Output{{Name: "some", Sink: newTarget(), Topics: c.topics, Filters: map[string]*Filter{"rows": c.filter}}}, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		batch := changelog.NewBatch(table)
		err = b.ins[0].Decoder.Decode(batch, &changelog.Record{Partition: changelog.Partition{Topic: "rows"}, Offset: 7})
		var de *changelog.DataError
		switch {
		case c.bad && !errors.As(err, &de):
			t.Errorf("%s: got %v", name, err)
		case c.bad && batch.Len() > 0:
			t.Errorf("%s: %d changes are left in the batch", name, batch.Len())
		case c.bad:
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if got := b.sinks[0].Share(batch, batch.Len()-1); got != c.share {
				t.Errorf("%s: share %d, want %d", name, got, c.share)
			}
		}
	}
}
