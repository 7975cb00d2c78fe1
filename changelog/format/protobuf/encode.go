package protobuf

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// encoder follows PbRowDataSerializationSchema and the order in which protobuf-java's generated code writes. It does not change after it was made.
type encoder struct {
	root     *message
	nullText string // of NULL as the element of an ARRAY or in a MAP
	lenient  bool
}

// writable reports required fields that no column fills: the message could never be written.
func writable(m *message) error {
	var errs []error
	for _, num := range m.required {
		if f := m.fields[num]; f.column < 0 || m.columns[f.column].slot < 0 {
			errs = append(errs, fmt.Errorf("message %s: the field %s is required and no column of the table; add the column, or the message cannot be written", m.desc.FullName(), f.desc.Name()))
		}
	}
	for i := range m.columns {
		if c := &m.columns[i]; c.slot >= 0 && c.inner != nil {
			errs = append(errs, writable(c.inner))
		}
	}
	return errors.Join(errs...)
}

// AppendPayload implements [changelog.PayloadEncoder]. The payload is the row whatever the change's kind; it is never null.
func (e *encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	out, f := e.message(dst, e.root, c.Row)
	if f != nil {
		return dst, false, f.Err()
	}
	return out, false, nil
}

// message appends the fields of m by their numbers.
func (e *encoder) message(dst []byte, m *message, row []changelog.Value) ([]byte, *failure) {
	for _, i := range m.ordered {
		c := &m.columns[i]
		if c.slot >= len(row) {
			return dst, flinkjson.Misfit(changelog.SchemaMismatch, "the row does not have this column").At(c.name)
		}
		v := row[c.slot]
		if v.IsUnchanged() {
			return dst, flinkjson.Misfit(changelog.Missing, "the value was not sent by its source (Unchanged), and protobuf has no word for that").At(c.name)
		}
		if v.IsNull() {
			if c.desc.Cardinality() == protoreflect.Required {
				return dst, flinkjson.Misfit(changelog.Missing, "the value is NULL, and the field is required").At(c.name)
			}
			continue
		}
		if e.overtaken(m, i, row) {
			continue
		}
		var f *failure
		if dst, f = e.column(dst, c, v); f != nil {
			return dst, f.At(c.name)
		}
	}
	return dst, nil
}

// overtaken reports a column in a oneof of which a later column is set too: Flink sets one after the other.
func (e *encoder) overtaken(m *message, i int, row []changelog.Value) bool {
	for _, k := range m.columns[i].others {
		if s := m.columns[k].slot; k > i && s >= 0 && s < len(row) && !row[s].IsNull() {
			return true
		}
	}
	return false
}

func (e *encoder) column(dst []byte, c *column, v changelog.Value) ([]byte, *failure) {
	if v.Kind() != c.typ.Root.ValueKind() {
		return dst, misfit(c.typ)
	}
	switch {
	case c.key != nil:
		return e.mapping(dst, c, v.Elems())
	case c.repeated:
		return e.list(dst, c, v.Elems())
	case c.desc.HasPresence():
		return e.field(dst, c.field, c.typ, v, false)
	}
	return e.field(dst, c.field, c.typ, v, true)
}

func misfit(t *changelog.Type) *failure {
	return flinkjson.Misfit(changelog.WrongType, "the row has a value of another type here; the type is "+t.String())
}

// field appends one field with its tag; skipZero leaves out what is the default.
func (e *encoder) field(dst []byte, fd *field, t *changelog.Type, v changelog.Value, skipZero bool) ([]byte, *failure) {
	num := fd.desc.Number()
	start := len(dst)
	dst = protowire.AppendTag(dst, num, fd.wire)
	head := len(dst)
	dst, f := e.value(dst, fd, t, v)
	if f == nil && skipZero && fd.inner == nil && zero(dst[head:]) {
		return dst[:start], nil
	}
	if fd.wire == protowire.StartGroupType {
		dst = protowire.AppendTag(dst, num, protowire.EndGroupType)
	}
	return dst, f
}

// zero reports whether the bytes of a scalar are those of its default: an empty length, a zero, and of float and double the positive one.
func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// value appends a value without its tag. NULL, which only elements are, is the type's default.
func (e *encoder) value(dst []byte, fd *field, t *changelog.Type, v changelog.Value) ([]byte, *failure) {
	switch {
	case v.IsNull() && fd.kind == protoreflect.StringKind:
		return protowire.AppendString(dst, e.nullText), nil
	case v.IsNull():
		return e.null(dst, fd), nil
	case v.Kind() != t.Root.ValueKind():
		return dst, misfit(t)
	}
	switch fd.kind {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		fields := v.Elems()
		if len(fields) != len(t.Fields) {
			return dst, misfit(t)
		}
		if fd.kind == protoreflect.GroupKind {
			return e.message(dst, fd.inner, fields)
		}
		return prefixed(dst, func(dst []byte) ([]byte, *failure) { return e.message(dst, fd.inner, fields) })
	case protoreflect.BoolKind:
		return protowire.AppendVarint(dst, protowire.EncodeBool(v.Bool())), nil
	case protoreflect.FloatKind:
		return protowire.AppendFixed32(dst, math.Float32bits(v.Float())), nil
	case protoreflect.DoubleKind:
		return protowire.AppendFixed64(dst, math.Float64bits(v.Double())), nil
	case protoreflect.StringKind:
		if !utf8.Valid(v.Bytes()) {
			return dst, flinkjson.Misfit(changelog.Malformed, "the text is not UTF-8, or has a lone surrogate, which Flink would write as a question mark")
		}
		return protowire.AppendBytes(dst, v.Bytes()), nil
	case protoreflect.BytesKind:
		return protowire.AppendBytes(dst, v.Bytes()), nil
	case protoreflect.EnumKind:
		n, f := e.enum(fd, t, v)
		return protowire.AppendVarint(dst, uint64(int64(n))), f
	}
	n := v.Int()
	if t.Root == changelog.RootInt && n != int64(int32(n)) {
		return dst, flinkjson.Misfit(changelog.OutOfRange, "a number beyond "+t.String())
	}
	switch fd.kind {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(dst, protowire.EncodeZigZag(n)), nil
	case protoreflect.Uint32Kind:
		return protowire.AppendVarint(dst, uint64(uint32(n))), nil
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(dst, uint32(n)), nil
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(dst, uint64(n)), nil
	}
	return protowire.AppendVarint(dst, uint64(n)), nil
}

// null appends the default of a type that is no text.
func (e *encoder) null(dst []byte, fd *field) []byte {
	switch {
	case fd.kind == protoreflect.EnumKind:
		return protowire.AppendVarint(dst, uint64(int64(fd.desc.Enum().Values().Get(0).Number())))
	case fd.wire == protowire.Fixed32Type:
		return protowire.AppendFixed32(dst, 0)
	case fd.wire == protowire.Fixed64Type:
		return protowire.AppendFixed64(dst, 0)
	case fd.wire == protowire.StartGroupType:
		return dst
	}
	return append(dst, 0) // a length, or a number
}

func (e *encoder) enum(fd *field, t *changelog.Type, v changelog.Value) (protoreflect.EnumNumber, *failure) {
	values := fd.desc.Enum().Values()
	var ev protoreflect.EnumValueDescriptor
	if t.Root == changelog.RootInt {
		if n := v.Int(); n == int64(int32(n)) {
			ev = values.ByNumber(protoreflect.EnumNumber(n))
		}
	} else {
		ev = values.ByName(protoreflect.Name(v.Str()))
	}
	switch {
	case ev != nil:
		return ev.Number(), nil
	case e.lenient:
		return values.Get(0).Number(), nil
	}
	return 0, flinkjson.Refuse(changelog.SchemaMismatch, "the enum "+string(fd.desc.Enum().FullName())+" has no such value; Flink would write "+string(values.Get(0).Name()))
}

// prefixed appends what body appends, with its length before it.
func prefixed(dst []byte, body func([]byte) ([]byte, *failure)) ([]byte, *failure) {
	start := len(dst)
	dst, f := body(append(dst, 0))
	if f != nil {
		return dst, f
	}
	size := len(dst) - start - 1
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		dst = append(dst, make([]byte, more)...)
		copy(dst[start+1+more:], dst[start+1:start+1+size])
	}
	protowire.AppendVarint(dst[:start], uint64(size))
	return dst, nil
}

func (e *encoder) list(dst []byte, c *column, elems []changelog.Value) ([]byte, *failure) {
	if len(elems) == 0 {
		return dst, nil
	}
	for i := range elems {
		if elems[i].IsUnchanged() {
			return dst, misfit(c.typ).AtElement(i)
		}
	}
	if c.desc.IsPacked() {
		dst = protowire.AppendTag(dst, c.desc.Number(), protowire.BytesType)
		return prefixed(dst, func(dst []byte) ([]byte, *failure) {
			for i := range elems {
				var f *failure
				if dst, f = e.value(dst, c.elem, c.typ.Elem, elems[i]); f != nil {
					return dst, f.AtElement(i)
				}
			}
			return dst, nil
		})
	}
	for i := range elems {
		if f := e.whole(c.elem, elems[i]); f != nil {
			return dst, f.AtElement(i)
		}
		var f *failure
		if dst, f = e.field(dst, c.elem, c.typ.Elem, elems[i], false); f != nil {
			return dst, f.AtElement(i)
		}
	}
	return dst, nil
}

// whole reports a NULL for which an empty message would stand that cannot be empty.
func (e *encoder) whole(fd *field, v changelog.Value) *failure {
	if v.IsNull() && fd.inner != nil && len(fd.inner.required) > 0 {
		return flinkjson.Misfit(changelog.Missing, "the value is NULL, for which Flink would write an empty message, and the message has required fields")
	}
	return nil
}

func (e *encoder) mapping(dst []byte, c *column, pairs []changelog.Value) ([]byte, *failure) {
	entries, f := e.inHashOrder(c, pairs)
	if f != nil {
		return dst, f
	}
	for _, en := range entries {
		if en.value.IsUnchanged() {
			return dst, misfit(c.typ).At("[*]")
		}
		if f := e.whole(c.elem, en.value); f != nil {
			return dst, f.At("[*]")
		}
		dst = protowire.AppendTag(dst, c.desc.Number(), protowire.BytesType)
		dst, f = prefixed(dst, func(dst []byte) ([]byte, *failure) {
			dst, f := e.field(dst, c.key, c.typ.Key, en.key, false)
			if f != nil {
				return dst, f
			}
			return e.field(dst, c.elem, c.typ.Elem, en.value, false)
		})
		if f != nil {
			return dst, f.At("[*]")
		}
	}
	return dst, nil
}
