package raw

import (
	"fmt"
	"math"

	"github.com/flinksink/flinksink/changelog"
)

// Encoder encodes payloads of format 'raw'. It is safe for use by several goroutines.
type Encoder struct {
	codec
	name string // of the column
}

// AppendPayload implements [changelog.PayloadEncoder]. NULL is Kafka's null.
func (e *Encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	if e.column >= len(c.Row) {
		return dst, false, e.fault(changelog.SchemaMismatch, "the row lacks the column")
	}
	v := c.Row[e.column]
	if v.IsNull() {
		return dst, true, nil
	}
	if v.Kind() != e.typ.Root.ValueKind() {
		return dst, false, e.fault(changelog.WrongType, fmt.Sprintf("the value is no %s", e.typ))
	}
	out, reason := e.append(dst, v)
	if reason != "" {
		return dst, false, e.fault(changelog.OutOfRange, reason)
	}
	return out, false, nil
}

func (e *Encoder) fault(class changelog.DataClass, reason string) error {
	return &changelog.DataError{Class: class, Field: e.name, Reason: reason}
}

func (e *Encoder) append(dst []byte, v changelog.Value) (out []byte, reason string) {
	switch e.typ.Root {
	case changelog.RootBoolean:
		if v.Bool() {
			return append(dst, 1), ""
		}
		return append(dst, 0), ""
	case changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootBigInt:
		// A value that is too big for the type would lose its upper bytes.
		if i := v.Int(); i<<(64-8*e.size)>>(64-8*e.size) != i {
			return dst, fmt.Sprintf("a number beyond %s", e.typ)
		}
		return e.word(dst, uint64(v.Int())), ""
	case changelog.RootFloat:
		return e.word(dst, uint64(math.Float32bits(v.Float()))), ""
	case changelog.RootDouble:
		return e.word(dst, math.Float64bits(v.Double())), ""
	case changelog.RootBinary, changelog.RootVarbinary:
		return append(dst, v.Bytes()...), ""
	}
	out, clean := e.charset.encode(dst, v.Bytes())
	if !clean && !e.lenient {
		return dst, "a character that the charset " + e.charset.String() + " does not have; Flink would write a replacement"
	}
	return out, ""
}

// word appends the lower bytes of u, as many as the type has.
func (e *Encoder) word(dst []byte, u uint64) []byte {
	switch e.size {
	case 1:
		return append(dst, byte(u))
	case 2:
		return e.order.AppendUint16(dst, uint16(u))
	case 4:
		return e.order.AppendUint32(dst, uint32(u))
	}
	return e.order.AppendUint64(dst, u)
}
