package protobuf

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// failure is why a message cannot be read, or a row not be written. A misfit is what protobuf-java fails at too; what 'ignore-parse-errors' does not
// hide is final.
type failure = flinkjson.Failure

// maxDepth is how deep protobuf-java lets messages and groups nest.
const maxDepth = 100

func cut() *failure {
	return flinkjson.Misfit(changelog.Malformed, "the message ends inside a field; is it protobuf, without a length or a schema id before it?")
}

func tooDeep() *failure {
	return flinkjson.Misfit(changelog.OutOfRange, "messages are nested more than 100 deep")
}

// varint reads as CodedInputStream.readRawVarint64: at most ten bytes, and what the tenth has beyond 64 bits is shifted out. It differs from
// protowire.ConsumeVarint, which refuses that.
func varint(p []byte) (v uint64, n int, f *failure) {
	for i := 0; ; i++ {
		switch {
		case i == 10:
			return 0, 0, flinkjson.Misfit(changelog.Malformed, "an integer has more than ten bytes")
		case i == len(p):
			return 0, 0, cut()
		}
		v |= uint64(p[i]&0x7F) << (7 * i)
		if p[i] < 0x80 {
			return v, i + 1, nil
		}
	}
}

// tag reads what stands before a field. protobuf-java keeps the lower 32 bits.
func tag(p []byte) (num protowire.Number, wire protowire.Type, n int, f *failure) {
	v, n, f := varint(p)
	if f != nil {
		return 0, 0, 0, f
	}
	t := uint32(v)
	if t>>3 == 0 {
		return 0, 0, 0, flinkjson.Misfit(changelog.Malformed, "a field has the number 0; is it protobuf, without a length or a schema id before it?")
	}
	return protowire.Number(t >> 3), protowire.Type(t & 7), n, nil
}

// length reads the length before text, bytes, a message or packed values, and returns those and how many bytes both are.
func length(p []byte) (body []byte, n int, f *failure) {
	v, n, f := varint(p)
	if f != nil {
		return nil, 0, f
	}
	size := int32(v)
	switch {
	case size < 0:
		return nil, 0, flinkjson.Misfit(changelog.Malformed, "a length is negative")
	case int(size) > len(p)-n:
		return nil, 0, cut()
	}
	end := n + int(size)
	return p[n:end:end], end, nil
}

// content reads the value of a field, after its tag: the bytes of a varint or fixed number, what is inside of a length or of a group. depth is how
// many messages and groups it is in.
func content(p []byte, num protowire.Number, wire protowire.Type, depth int) (body []byte, n int, f *failure) {
	switch wire {
	case protowire.VarintType:
		_, n, f = varint(p)
		return p[:n:n], n, f
	case protowire.Fixed32Type, protowire.Fixed64Type:
		n = 4
		if wire == protowire.Fixed64Type {
			n = 8
		}
		if len(p) < n {
			return nil, 0, cut()
		}
		return p[:n:n], n, nil
	case protowire.BytesType:
		return length(p)
	case protowire.StartGroupType:
		return group(p, num, depth)
	case protowire.EndGroupType:
		return nil, 0, flinkjson.Misfit(changelog.Malformed, "a group ends that did not begin")
	}
	return nil, 0, flinkjson.Misfit(changelog.Malformed, "a field has a wire type that does not exist; is it protobuf, without a length or a schema id before it?")
}

// group reads up to the end of the group called num.
func group(p []byte, num protowire.Number, depth int) (body []byte, n int, f *failure) {
	if depth >= maxDepth {
		return nil, 0, tooDeep()
	}
	for n < len(p) {
		inner, wire, size, f := tag(p[n:])
		if f != nil {
			return nil, 0, f
		}
		start := n
		n += size
		if wire == protowire.EndGroupType {
			if inner != num {
				return nil, 0, flinkjson.Misfit(changelog.Malformed, "a group ends that did not begin")
			}
			return p[:start:start], n, nil
		}
		if _, size, f = content(p[n:], inner, wire, depth+1); f != nil {
			return nil, 0, f
		}
		n += size
	}
	return nil, 0, cut()
}
