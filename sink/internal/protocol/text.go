package protocol

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// This file reads what String of events and effects prints, so that a run which a test found can be kept as text and replayed. Lists of
// partitions and positions are "orders/0 orders/1" and "orders/0@15 orders/1@20", or "nothing"; a position with a leader epoch or a topic id
// is "orders/0@15:epoch=3:id=AAAAAAAAAAAAAAAAAAAAAQ".

// ParseEvent returns the event that prints as s.
func ParseEvent(s string) (Event, error) {
	t := &text{rest: s}
	e := t.event()
	if e == nil || t.err != nil || t.rest != "" {
		return nil, t.error("event", s)
	}
	return e, nil
}

// ParseEffect returns the effect that prints as s.
func ParseEffect(s string) (Effect, error) {
	t := &text{rest: s}
	f := t.effect()
	if f == nil || t.err != nil || t.rest != "" {
		return nil, t.error("effect", s)
	}
	return f, nil
}

// text is what is left to read, and the first thing that was wrong.
type text struct {
	rest string
	err  error
}

func (t *text) error(what, s string) error {
	if t.err != nil {
		return fmt.Errorf("protocol: %q is no %s: %w", s, what, t.err)
	}
	return fmt.Errorf("protocol: %q is no %s", s, what)
}

func (t *text) event() Event {
	switch {
	case t.has("assign "):
		return Assign{t.partitions()}
	case t.has("advance to "):
		return Advance{t.positions()}
	case t.has("write to sink "):
		e := WriteFailed{Sink: int(t.number())}
		t.must(" failed: ")
		e.Class = t.class()
		t.must(", read ")
		e.Read = t.partitions()
		return e
	case t.has("barrier"):
		return Barrier{}
	case t.has("revoke "):
		return Revoke{t.partitions()}
	case t.has("lose "):
		return Lose{t.partitions()}
	case t.has("recover, read "):
		return Recover{t.partitions()}
	case t.has("recover"):
		return Recover{}
	case t.has("interrupt"):
		return Interrupt{}
	case t.has("acquired generation "):
		e := Acquired{Generation: t.number()}
		t.must(" at ")
		e.Positions = t.positions()
		if t.has(", ended ") {
			e.Ended = t.ended()
		}
		return e
	case t.has("begun at "):
		return Begun{t.positions()}
	case t.has("opened sink "):
		return Opened{int(t.number())}
	case t.has("sought"):
		return Sought{}
	case t.has("prepared sink "):
		return Prepared{int(t.number()), t.has(", nothing to commit")}
	case t.has("saved"):
		return Saved{}
	case t.has("ended, last saved "):
		return AllEnded{t.number()}
	case t.has("committed"):
		return Committed{}
	case t.has("discarded"):
		return Discarded{}
	case t.has("aborted"):
		return Aborted{}
	case t.has("confirmed"):
		return Confirmed{true}
	case t.has("not confirmed"):
		return Confirmed{}
	case t.has("waited"):
		return Waited{}
	case t.has("failed: "):
		return Failed{t.class()}
	}
	return nil
}

func (t *text) effect() Effect {
	switch {
	case t.has("acquire "):
		return Acquire{t.partitions()}
	case t.has("open sink "):
		f := Open{Sink: int(t.number())}
		t.must(" for generation ")
		f.Generation = t.number()
		if t.has(", settle ") {
			f.Ended = t.ended()
		}
		return f
	case t.has("begin "):
		return Begin{t.partitions()}
	case t.has("seek "):
		return Seek{t.positions()}
	case t.has("prepare sink "):
		f := Prepare{Sink: int(t.number())}
		t.must(" for checkpoint ")
		f.Generation, f.Checkpoint = t.numbers()
		f.From, f.To = t.fromTo()
		return f
	case t.has("save checkpoint "):
		var f Save
		f.Generation, f.Checkpoint = t.numbers()
		f.From, f.To = t.fromTo()
		for t.has(", to commit ") {
			f.Receipts = append(f.Receipts, t.receipt())
		}
		if t.has(", settled ") {
			for {
				f.Settled = append(f.Settled, t.number())
				if !t.has(" ") {
					break
				}
			}
		}
		return f
	case t.has("end generation "):
		return End{t.number()}
	case t.has("commit "):
		return Commit{t.receipt()}
	case t.has("discard sink "):
		return Discard{int(t.number())}
	case t.has("abort "):
		return Abort{t.receipt()}
	case t.has("confirm the assignment"):
		return Confirm{}
	case t.has("wait before try "):
		f := Wait{N: int(t.number())}
		t.must(" (")
		f.Class = t.class()
		t.must(")")
		return f
	case t.has("hint "):
		return Hint{t.positions()}
	case t.has("pause "):
		return Pause{t.partitions()}
	case t.has("resume "):
		return Resume{t.partitions()}
	case t.has("alarm: commit failed "):
		f := Alarm{int(t.number())}
		t.must(" times")
		return f
	case t.has("report the fence"):
		return ReportFenced{}
	case t.has("done"):
		var f Done
		if t.has(", checkpoint ") {
			f.Generation, f.Checkpoint = t.numbers()
		}
		f.Owned = !t.has(", no generation")
		return f
	case t.has("halt: commit failed "):
		f := Halt{Class: Uncertain, Tries: int(t.number())}
		t.must(" times")
		return f
	case t.has("halt: "):
		return Halt{Class: t.class()}
	}
	return nil
}

// has takes s off the front.
func (t *text) has(s string) bool {
	rest, ok := strings.CutPrefix(t.rest, s)
	if ok {
		t.rest = rest
	}
	return ok
}

func (t *text) must(s string) {
	if !t.has(s) {
		t.fail(fmt.Errorf("expected %q before %q", s, t.rest))
	}
}

func (t *text) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// token takes everything up to a space, a comma, a parenthesis or, where it is asked for, a full stop.
func (t *text) token(more string) string {
	i := strings.IndexAny(t.rest, " ,()"+more)
	if i < 0 {
		i = len(t.rest)
	}
	s := t.rest[:i]
	t.rest = t.rest[i:]
	return s
}

func (t *text) number() int64 {
	n, err := strconv.ParseInt(t.token("."), 10, 64)
	if err != nil {
		t.fail(err)
	}
	return n
}

// numbers reads a generation and a checkpoint: "7.1".
func (t *text) numbers() (generation, checkpoint int64) {
	generation = t.number()
	t.must(".")
	return generation, t.number()
}

func (t *text) class() Class {
	s := t.token("")
	for i, n := range classNames {
		if n == s {
			return Class(i)
		}
	}
	t.fail(fmt.Errorf("%q is no class", s))
	return 0
}

func (t *text) receipt() (r Receipt) {
	t.must("sink ")
	r.Sink = int(t.number())
	t.must(" at ")
	r.Generation, r.Checkpoint = t.numbers()
	return r
}

func (t *text) fromTo() (from, to []changelog.Position) {
	t.must(" from ")
	from = t.positions()
	t.must(" to ")
	return from, t.positions()
}

// ended reads "7 8(2 decided)".
func (t *text) ended() (out []Ended) {
	for {
		e := Ended{Generation: t.number()}
		if t.has("(") {
			e.Decided = int(t.number())
			t.must(" decided)")
		}
		out = append(out, e)
		if !t.has(" ") {
			return out
		}
	}
}

// list reads words that hold a slash, which sets them apart from the words that may follow a list.
func (t *text) list(item func(string)) {
	if t.has("nothing") {
		return
	}
	for {
		word := t.token("")
		if !strings.Contains(word, "/") {
			t.fail(fmt.Errorf("%q is no partition", word))
			return
		}
		item(word)
		if next, _, _ := strings.Cut(strings.TrimPrefix(t.rest, " "), " "); !strings.HasPrefix(t.rest, " ") || !strings.Contains(next, "/") {
			return
		}
		t.must(" ")
	}
}

func (t *text) partitions() (out []changelog.Partition) {
	t.list(func(s string) { out = append(out, t.partition(s)) })
	return out
}

func (t *text) partition(s string) changelog.Partition {
	topic, num, _ := strings.Cut(s, "/")
	n, err := strconv.ParseInt(num, 10, 32)
	if err != nil {
		t.fail(err)
	}
	return changelog.Partition{Topic: topic, Partition: int32(n)}
}

func (t *text) positions() (out []changelog.Position) {
	t.list(func(s string) { out = append(out, t.position(s)) })
	return out
}

func (t *text) position(s string) (p changelog.Position) {
	part, at, ok := strings.Cut(s, "@")
	if !ok {
		t.fail(fmt.Errorf("%q is no position", s))
		return p
	}
	p.Partition = t.partition(part)
	for i, f := range strings.Split(at, ":") {
		name, value, _ := strings.Cut(f, "=")
		var err error
		switch {
		case i == 0:
			p.Offset, err = strconv.ParseInt(f, 10, 64)
		case name == "epoch":
			var n int64
			n, err = strconv.ParseInt(value, 10, 32)
			p.LeaderEpoch = int32(n)
		case name == "id":
			p.TopicID, err = changelog.ParseTopicID(value)
		default:
			err = fmt.Errorf("%q is no part of a position", f)
		}
		if err != nil {
			t.fail(err)
		}
	}
	return p
}

// place prints all of a position.
func place(p changelog.Position) string {
	s := p.String()
	if p.LeaderEpoch != 0 {
		s += fmt.Sprintf(":epoch=%d", p.LeaderEpoch)
	}
	if p.TopicID != (changelog.TopicID{}) {
		s += ":id=" + p.TopicID.String()
	}
	return s
}
