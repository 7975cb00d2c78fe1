package protobuf

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// scalar makes a value of a field's bytes, which have the field's wire type. It is not ok where the field is as if absent.
func (r *reader) scalar(fd *field, t *changelog.Type, body []byte) (v changelog.Value, ok bool, f *failure) {
	switch fd.wire {
	case protowire.BytesType:
		if fd.kind == protoreflect.BytesKind {
			return changelog.BytesValue(body), true, nil
		}
		s, f := r.text(fd, body)
		return changelog.StringBytesValue(s), true, f
	case protowire.Fixed32Type:
		u := binary.LittleEndian.Uint32(body)
		if fd.kind == protoreflect.FloatKind {
			return changelog.FloatValue(math.Float32frombits(u)), true, nil
		}
		return changelog.IntValue(int64(int32(u))), true, nil
	case protowire.Fixed64Type:
		u := binary.LittleEndian.Uint64(body)
		if fd.kind == protoreflect.DoubleKind {
			return changelog.DoubleValue(math.Float64frombits(u)), true, nil
		}
		return changelog.IntValue(int64(u)), true, nil
	}
	u, n, f := varint(body)
	if f != nil {
		return v, false, f
	}
	if n == 10 && body[9] > 1 {
		f = r.guess(changelog.OutOfRange, "an integer has more than 64 bits")
	}
	switch fd.kind {
	case protoreflect.BoolKind:
		if u > 1 && f == nil {
			f = r.guess(changelog.WrongType, "neither true nor false; Flink would read TRUE")
		}
		return changelog.BoolValue(u != 0), true, f
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Sint32Kind, protoreflect.EnumKind:
		// A negative number is ten bytes long, or five for a writer that has it unsigned.
		if int64(u) != int64(int32(u)) && u>>32 != 0 && f == nil {
			f = r.guess(changelog.OutOfRange, "an integer has more than 32 bits; Flink would read its lower bits")
		}
		if f != nil {
			return v, false, f
		}
		switch fd.kind {
		case protoreflect.Sint32Kind:
			return changelog.IntValue(int64(int32(protowire.DecodeZigZag(u & math.MaxUint32)))), true, nil
		case protoreflect.EnumKind:
			return r.enum(fd, t, protoreflect.EnumNumber(int32(u)))
		}
		return changelog.IntValue(int64(int32(u))), true, nil
	case protoreflect.Sint64Kind:
		return changelog.IntValue(protowire.DecodeZigZag(u)), true, f
	}
	return changelog.IntValue(int64(u)), true, f
}

func (r *reader) text(fd *field, s []byte) ([]byte, *failure) {
	switch {
	case utf8.Valid(s):
		return s, nil
	case fd.strict:
		return nil, flinkjson.Misfit(changelog.Malformed, "the text is not UTF-8")
	}
	return replaceInvalid(s), r.guess(changelog.Malformed, "the text is not UTF-8; Flink would put U+FFFD there")
}

func (r *reader) enum(fd *field, t *changelog.Type, n protoreflect.EnumNumber) (v changelog.Value, ok bool, f *failure) {
	e := fd.desc.Enum()
	if ev := e.Values().ByNumber(n); ev != nil {
		return enumValue(ev, t), true, nil
	}
	switch {
	case e.IsClosed():
		r.dropped = true
		return v, false, r.guess(changelog.SchemaMismatch, "an enum has a number without a name; Flink would read the row as if the field were absent")
	case t.Root == changelog.RootInt:
		return v, false, flinkjson.Misfit(changelog.SchemaMismatch, "an enum has a number without a name, which Flink fails at too; a newer .proto may have it")
	}
	return changelog.StringValue("UNRECOGNIZED"), true, r.guess(changelog.SchemaMismatch, "an enum has a number without a name; Flink would read UNRECOGNIZED; a newer .proto may have it")
}

// replaceInvalid puts one U+FFFD where Java does: for each longest run of bytes that could begin a character, and one for each other byte.
func replaceInvalid(s []byte) []byte {
	out := make([]byte, 0, len(s)+8)
	for len(s) > 0 {
		c, n := utf8.DecodeRune(s)
		if c == utf8.RuneError && n == 1 {
			for k := min(3, len(s)); k > 1; k-- {
				if !utf8.FullRune(s[:k]) {
					n = k
					break
				}
			}
			if len(s) > 2 && s[0] == 0xED && s[1]&0xE0 == 0xA0 && s[2]&0xC0 == 0x80 {
				n = 3 // a surrogate, which Java takes for one
			}
		}
		out = utf8.AppendRune(out, c)
		s = s[n:]
	}
	return out
}
