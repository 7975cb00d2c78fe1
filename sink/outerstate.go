package sink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/flinksink/flinksink/changelog"
)

// OuterState is a checkpoint whose decision is an outer engine's, as the engine keeps it: everything that another process needs to commit
// it and to go on from it. MarshalBinary writes it in version 1 of the format, UnmarshalBinary reads every version there is:
//
//	bytes     what
//	4         the text "FSCK"
//	1         the version of the format: 1
//	string    Bridge
//	string    Fingerprint
//	varint    ID
//	varint    Generation
//	varint    Checkpoint
//	6 varints Counters: Records, Read, Applied, Superseded, DeadLettered, Skipped
//	positions From
//	positions To
//	uvarint   how many Committables; then each of them:
//	  string    Sink
//	  varint    Generation
//	  varint    Checkpoint
//	  varint    Version
//	  string    Data
//	  positions From
//	  positions To
//	4         CRC-32 (Castagnoli) of all bytes before it, most significant byte first
//
// A uvarint and a varint are those of encoding/binary (seven bits a byte, least significant first; a varint is zig-zag). A string is a uvarint
// with its length in bytes and its bytes. Positions are a uvarint with their number, then for each a string with the topic, a varint
// with the partition, a varint with the offset, a varint with the leader epoch, and 16 bytes with the topic id.
//
// A change of the format raises the version; what an older version wrote stays readable.
type OuterState struct {
	Bridge      string
	Fingerprint string
	ID          int64 // the outer engine's own number of the checkpoint
	Generation  GenerationID
	Checkpoint  CheckpointID
	Counters    Counters
	From, To    []changelog.Position // of all partitions of the lane, sorted
	// Committables are those of this checkpoint, empty ones left out.
	Committables []Committable
}

const (
	outerMagic   = "FSCK"
	outerVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MarshalBinary returns the state in the newest version of the format.
func (s *OuterState) MarshalBinary() ([]byte, error) {
	b := append([]byte(outerMagic), outerVersion)
	b = appendString(b, s.Bridge)
	b = appendString(b, s.Fingerprint)
	for _, n := range []int64{s.ID, int64(s.Generation), int64(s.Checkpoint), s.Counters.Records, s.Counters.Read, s.Counters.Applied,
		s.Counters.Superseded, s.Counters.DeadLettered, s.Counters.Skipped} {
		b = binary.AppendVarint(b, n)
	}
	b = appendPositions(b, s.From)
	b = appendPositions(b, s.To)
	b = binary.AppendUvarint(b, uint64(len(s.Committables)))
	for _, c := range s.Committables {
		b = appendString(b, c.Sink)
		b = binary.AppendVarint(b, int64(c.Generation))
		b = binary.AppendVarint(b, int64(c.Checkpoint))
		b = binary.AppendVarint(b, int64(c.Version))
		b = appendString(b, string(c.Data))
		b = appendPositions(b, c.From)
		b = appendPositions(b, c.To)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendPositions(b []byte, ps []changelog.Position) []byte {
	b = binary.AppendUvarint(b, uint64(len(ps)))
	for _, p := range ps {
		b = appendString(b, p.Topic)
		b = binary.AppendVarint(b, int64(p.Partition.Partition))
		b = binary.AppendVarint(b, p.Offset)
		b = binary.AppendVarint(b, int64(p.LeaderEpoch))
		b = append(b, p.TopicID[:]...)
	}
	return b
}

// UnmarshalBinary reads what MarshalBinary of this or an older release wrote. A version that this release does not know, bytes that were
// cut off or altered, and bytes that are something else are an error of class ErrConfig, and leave s as it was. s keeps nothing of b.
func (s *OuterState) UnmarshalBinary(b []byte) error {
	wrong := func(format string, a ...any) error {
		return &Error{Op: "read outer state", Class: ErrConfig, Err: fmt.Errorf(format, a...)}
	}
	if len(b) < len(outerMagic)+1+4 || string(b[:len(outerMagic)]) != outerMagic {
		return wrong("%d bytes that are no checkpoint of an External: pass what its Barrier returned", len(b))
	}
	if v := b[len(outerMagic)]; v != outerVersion {
		return wrong("the checkpoint is in version %d of the format, and this release reads version %d: restore it with the release that wrote it, or a newer one", v, outerVersion)
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return wrong("the checkpoint's checksum does not fit: its bytes were cut off or altered where they were kept")
	}
	r := reader{b: body[len(outerMagic)+1:]}
	out := OuterState{Bridge: r.string(), Fingerprint: r.string(), ID: r.varint(), Generation: GenerationID(r.varint()), Checkpoint: CheckpointID(r.varint())}
	out.Counters = Counters{Records: r.varint(), Read: r.varint(), Applied: r.varint(), Superseded: r.varint(), DeadLettered: r.varint(), Skipped: r.varint()}
	out.From, out.To = r.positions(), r.positions()
	for range r.count(7) {
		c := Committable{Sink: r.string(), Generation: GenerationID(r.varint()), Checkpoint: CheckpointID(r.varint()), Version: r.int()}
		c.Data = []byte(r.string())
		c.From, c.To = r.positions(), r.positions()
		out.Committables = append(out.Committables, c)
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("more bytes than the format has")
	}
	if r.err == nil {
		r.err = out.sound()
	}
	if r.err != nil {
		return wrong("the checkpoint cannot be read: %w", r.err)
	}
	*s = out
	return nil
}

// sound refuses what no Barrier wrote.
func (s *OuterState) sound() error {
	switch {
	case s.ID < 1 || s.Generation < 1 || s.Checkpoint < 1:
		return errors.New("a number below 1")
	case len(s.From) == 0 || len(s.From) != len(s.To):
		return errors.New("From and To are not of the same partitions")
	}
	for i, from := range s.From {
		if from.Partition != s.To[i].Partition || i > 0 && s.From[i-1].Partition.Compare(from.Partition) >= 0 {
			return errors.New("From and To are not of the same partitions, sorted")
		}
		if s.To[i].Offset < from.Offset {
			return errors.New("a position goes back")
		}
	}
	for _, c := range s.Committables {
		if c.Generation > s.Generation || c.Generation < 1 || c.Empty() {
			return errors.New("a committable that is empty, or of a generation that comes later")
		}
	}
	return nil
}

// reader reads the parts of the format; after the first error it returns zeros.
type reader struct {
	b   []byte
	err error
}

var errCut = errors.New("it ends too early, or a number is too large")

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.b)
	if r.err == nil && size <= 0 {
		r.err = errCut
	}
	if r.err != nil {
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) int() int { return int(r.int32()) }

func (r *reader) int32() int32 {
	n := r.varint()
	if n < math.MinInt32 || n > math.MaxInt32 {
		r.err = errCut
		return 0
	}
	return int32(n)
}

// count reads how many things follow, each of which takes at least so many bytes: a number that cannot be true allocates nothing.
func (r *reader) count(least int) int {
	n, size := binary.Uvarint(r.b)
	if r.err == nil && (size <= 0 || n > uint64(len(r.b)-size)/uint64(least)) {
		r.err = errCut
	}
	if r.err != nil {
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

func (r *reader) bytes(n int) []byte {
	if r.err == nil && n > len(r.b) {
		r.err = errCut
	}
	if r.err != nil {
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) string() string { return string(r.bytes(r.count(1))) }

func (r *reader) positions() []changelog.Position {
	var ps []changelog.Position
	for range r.count(20) {
		p := changelog.Position{Partition: changelog.Partition{Topic: r.string(), Partition: r.int32()}, Offset: r.varint(), LeaderEpoch: r.int32()}
		copy(p.TopicID[:], r.bytes(16))
		ps = append(ps, p)
	}
	return ps
}
