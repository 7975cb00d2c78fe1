package protocol

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

var (
	somePartitions = []changelog.Partition{{Topic: "orders"}, {Topic: "a.b_c-d", Partition: 12}}
	somePositions  = []changelog.Position{
		{Partition: somePartitions[0], Offset: 15},
		{Partition: somePartitions[1], Offset: 1 << 60, LeaderEpoch: -1, TopicID: changelog.TopicID{1, 2, 255}},
		{Partition: changelog.Partition{Topic: "to"}, Offset: -2, LeaderEpoch: 7},
	}
	someReceipts = []Receipt{{0, 7, 1}, {3, 7, 1}}
)

// events and effects hold every type at least once, with and without what is optional.
var events = []Event{
	Assign{somePartitions}, Assign{}, Advance{somePositions}, Advance{}, Barrier{}, Revoke{somePartitions[:1]}, Revoke{}, Lose{somePartitions}, Lose{},
	WriteFailed{2, Redo, somePartitions}, WriteFailed{0, Uncertain, nil}, Recover{}, Recover{somePartitions}, Interrupt{},
	Acquired{7, somePositions, []Ended{{3, 0}, {5, 2}}}, Acquired{7, nil, nil}, Begun{somePositions}, Begun{}, Opened{1}, Sought{},
	Prepared{1, true}, Prepared{0, false}, Saved{}, AllEnded{4}, AllEnded{}, Committed{}, Discarded{}, Aborted{},
	Confirmed{true}, Confirmed{}, Waited{},
	Failed{Uncertain}, Failed{Transient}, Failed{Fenced}, Failed{Rejected}, Failed{Config}, Failed{Lost}, Failed{Redo},
}

var effects = []Effect{
	Acquire{somePartitions}, Acquire{}, Open{1, 7, []Ended{{3, 0}, {5, 2}}}, Open{0, 7, nil}, Begin{somePartitions}, Begin{}, Seek{somePositions}, Seek{},
	Prepare{1, 7, 2, somePositions, somePositions[:1]}, Prepare{}, Save{7, 2, somePositions, somePositions, someReceipts, []int64{3, 5}},
	Save{7, 2, nil, nil, nil, nil}, Save{7, 2, somePositions, nil, nil, []int64{3}}, Save{7, 2, nil, somePositions[:2], someReceipts, nil},
	End{7}, Commit{someReceipts[1]}, Discard{2}, Abort{someReceipts[0]}, Confirm{}, Wait{3, Fenced}, Hint{somePositions}, Hint{},
	Pause{somePartitions}, Pause{}, Resume{somePartitions}, Resume{}, Alarm{5}, ReportFenced{},
	Done{7, 2, true}, Done{7, 2, false}, Done{0, 0, true}, Done{}, Halt{Class: Lost}, Halt{Class: Uncertain, Tries: 3},
}

func TestText_EveryEventParsesBack(t *testing.T) {
	types := map[string]bool{}
	for _, e := range events {
		types[fmt.Sprintf("%T", e)] = true
		if back, err := ParseEvent(fmt.Sprint(e)); err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("%v parses to %v, %v", e, back, err)
		}
	}
	if len(types) != 21 {
		t.Errorf("%d types of events are tried", len(types))
	}
}

func TestText_EveryEffectParsesBack(t *testing.T) {
	types := map[string]bool{}
	for _, f := range effects {
		types[fmt.Sprintf("%T", f)] = true
		if back, err := ParseEffect(fmt.Sprint(f)); err != nil || !reflect.DeepEqual(back, f) {
			t.Errorf("%v parses to %v, %v", f, back, err)
		}
	}
	if len(types) != 19 {
		t.Errorf("%d types of effects are tried", len(types))
	}
}

// FuzzParse: whatever parses prints as what was parsed, up to the spelling of numbers.
func FuzzParse(f *testing.F) {
	for _, e := range events {
		f.Add(fmt.Sprint(e))
	}
	for _, e := range effects {
		f.Add(fmt.Sprint(e))
	}
	f.Add("advance to t/0@1:epoch=x")
	f.Add("save checkpoint 7")
	f.Fuzz(func(t *testing.T, s string) {
		if e, err := ParseEvent(s); err == nil {
			again, err := ParseEvent(fmt.Sprint(e))
			if err != nil || !reflect.DeepEqual(again, e) {
				t.Errorf("%q parses to %v, which parses to %v, %v", s, e, again, err)
			}
		} else if !strings.Contains(err.Error(), "is no event") {
			t.Error(err)
		}
		if e, err := ParseEffect(s); err == nil {
			again, err := ParseEffect(fmt.Sprint(e))
			if err != nil || !reflect.DeepEqual(again, e) {
				t.Errorf("%q parses to %v, which parses to %v, %v", s, e, again, err)
			}
		}
	})
}
