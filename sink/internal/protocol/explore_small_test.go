package protocol

import "github.com/flinksink/flinksink/changelog"

// Events and effects of machines in small worlds as values of fixed size, which can be compared and be keys of a map.

// want is an effect that wants an answer, in small numbers.
type want struct {
	kind             wantKind
	sink             uint8
	gen, cp          uint8
	parts            uint8
	from, to         [nParts]uint8
	receipts, ending uint8 // sinks with a receipt; generations that are settled or to settle
	class            Class
}

type wantKind uint8

const (
	nothing wantKind = iota
	wantAcquire
	wantOpen
	wantBegin
	wantSeek
	wantPrepare
	wantSave
	wantEnd
	wantCommit
	wantDiscard
	wantAbort
	wantConfirm
	wantWait
)

// told is an event in small numbers.
type told struct {
	kind    eventKind
	sink    uint8
	gen     uint8
	parts   uint8
	yes     bool
	class   Class
	at      [nParts]uint8
	ended   uint8
	decided [nGens]uint8
}

type eventKind uint8

const (
	tAssign eventKind = iota
	tAdvance
	tWriteFailed
	tBarrier
	tRevoke
	tLose
	tRecover
	tInterrupt
	tAcquired
	tBegun
	tOpened
	tSought
	tPrepared
	tSaved
	tAllEnded
	tCommitted
	tDiscarded
	tAborted
	tConfirmed
	tWaited
	tFailed
)

func partition(p int) changelog.Partition {
	return changelog.Partition{Topic: "t", Partition: int32(p)}
}

func partitionsOf(set uint8) (ps []changelog.Partition) {
	for p := range nParts {
		if set>>p&1 == 1 {
			ps = append(ps, partition(p))
		}
	}
	return ps
}

func positionsOf(set uint8, at [nParts]uint8) (ps []changelog.Position) {
	for p := range nParts {
		if set>>p&1 == 1 {
			ps = append(ps, changelog.Position{Partition: partition(p), Offset: int64(at[p])})
		}
	}
	return ps
}

func setOf(ps []changelog.Partition) (set uint8) {
	for _, p := range ps {
		set |= 1 << p.Partition
	}
	return set
}

func offsetsOf(ps []changelog.Position) (at [nParts]uint8) {
	for _, p := range ps {
		at[p.Partition.Partition] = uint8(p.Offset)
	}
	return at
}

func (k told) event() Event {
	switch k.kind {
	case tAssign:
		return Assign{partitionsOf(k.parts)}
	case tAdvance:
		return Advance{positionsOf(k.parts, k.at)}
	case tWriteFailed:
		return WriteFailed{int(k.sink), k.class, partitionsOf(k.parts)}
	case tBarrier:
		return Barrier{}
	case tRevoke:
		return Revoke{partitionsOf(k.parts)}
	case tLose:
		return Lose{partitionsOf(k.parts)}
	case tRecover:
		return Recover{partitionsOf(k.parts)}
	case tInterrupt:
		return Interrupt{}
	case tAcquired:
		e := Acquired{Generation: int64(k.gen), Positions: positionsOf(k.parts, k.at)}
		for g := range nGens {
			if k.ended>>g&1 == 1 {
				e.Ended = append(e.Ended, Ended{int64(g), int(k.decided[g])})
			}
		}
		return e
	case tBegun:
		return Begun{positionsOf(k.parts, k.at)}
	case tOpened:
		return Opened{int(k.sink)}
	case tSought:
		return Sought{}
	case tPrepared:
		return Prepared{int(k.sink), k.yes}
	case tSaved:
		return Saved{}
	case tAllEnded:
		return AllEnded{int64(k.gen)}
	case tCommitted:
		return Committed{}
	case tDiscarded:
		return Discarded{}
	case tAborted:
		return Aborted{}
	case tConfirmed:
		return Confirmed{k.yes}
	case tWaited:
		return Waited{}
	}
	return Failed{k.class}
}

func wanted(f Effect) (w want) {
	switch f := f.(type) {
	case Acquire:
		return want{kind: wantAcquire, parts: setOf(f.Partitions)}
	case Open:
		w = want{kind: wantOpen, sink: uint8(f.Sink), gen: uint8(f.Generation)}
		for _, e := range f.Ended {
			w.ending |= 1 << e.Generation
		}
	case Begin:
		return want{kind: wantBegin, parts: setOf(f.Partitions)}
	case Seek:
		w = want{kind: wantSeek, to: offsetsOf(f.To)}
		for _, p := range f.To {
			w.parts |= 1 << p.Partition.Partition
		}
	case Prepare:
		return want{kind: wantPrepare, sink: uint8(f.Sink), gen: uint8(f.Generation), cp: uint8(f.Checkpoint)}
	case Save:
		w = want{kind: wantSave, gen: uint8(f.Generation), cp: uint8(f.Checkpoint), from: offsetsOf(f.From), to: offsetsOf(f.To)}
		for _, r := range f.Receipts {
			w.receipts |= 1 << r.Sink
		}
		for _, g := range f.Settled {
			w.ending |= 1 << g
		}
	case End:
		return want{kind: wantEnd, gen: uint8(f.Generation)}
	case Commit:
		return want{kind: wantCommit, sink: uint8(f.Receipt.Sink), gen: uint8(f.Receipt.Generation), cp: uint8(f.Receipt.Checkpoint)}
	case Discard:
		return want{kind: wantDiscard, sink: uint8(f.Sink)}
	case Abort:
		return want{kind: wantAbort, sink: uint8(f.Receipt.Sink), gen: uint8(f.Receipt.Generation), cp: uint8(f.Receipt.Checkpoint)}
	case Confirm:
		return want{kind: wantConfirm}
	case Wait:
		return want{kind: wantWait, class: f.Class}
	}
	return w
}
