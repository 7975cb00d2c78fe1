package flinkavro

import (
	"encoding/binary"
	"math"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Failure is why a message cannot be read, or a row not be written.
type Failure = flinkjson.Failure

// Values that a row may take beyond the size of its message: elements of some types take no byte.
const (
	roomFloor   = 1 << 20
	roomPerByte = 8
)

// Reader reads a datum from its start, as Avro's BinaryDecoder does.
type Reader struct {
	p       []byte // what is left
	b       *changelog.Batch
	room    int               // values that the row may still take
	stack   []changelog.Value // of the arrays and maps that are being read
	depth   int               // of what is being skipped
	lenient bool
}

// NewReader returns a reader of the payload, whose values live in b and may point into payload.
func NewReader(b *changelog.Batch, payload []byte, lenient bool) Reader {
	return Reader{p: payload, b: b, lenient: lenient, room: Room(payload)}
}

// Room is how many values the row of a payload may take.
func Room(payload []byte) int { return roomFloor + roomPerByte*len(payload) }

// End reports bytes that are left, at which Flink does not look.
func (r *Reader) End() *Failure {
	if len(r.p) == 0 {
		return nil
	}
	return r.Guess(changelog.Malformed, "there are bytes after the end of the row; is it a row of this table? Flink would not look at them")
}

// Guess returns a Failure, or nil when lenient.
func (r *Reader) Guess(class changelog.DataClass, reason string) *Failure {
	if r.lenient {
		return nil
	}
	return flinkjson.Refuse(class, reason)
}

const dayMillis = 86_400_000

// The years of SQL, 0001 to 9999.
const (
	firstMilli, lastMilli = -62_135_596_800_000, 253_402_300_799_999
	firstDay, lastDay     = -719_162, 2_932_896
)

func ended() *Failure {
	return flinkjson.Misfit(changelog.Malformed, "the message ends inside the row")
}

// number reads an integer of at most bits, in zigzag and in groups of seven bits.
func (r *Reader) number(bits int) (int64, *Failure) {
	var u uint64
	most := (bits + 6) / 7
	for i := 0; ; i++ {
		if i >= len(r.p) {
			return 0, ended()
		}
		c := r.p[i]
		u |= uint64(c&0x7F) << (7 * i)
		if i == most-1 && c > 0x7F {
			return 0, flinkjson.Misfit(changelog.Malformed, "an integer is longer than its type")
		}
		if c > 0x7F {
			continue
		}
		odd := i == most-1 && c>>(bits-7*i) != 0 // bits beyond the type, which Java shifts out
		r.p = r.p[i+1:]
		if bits == 32 {
			u = uint64(uint32(u))
		}
		if odd {
			if f := r.Guess(changelog.OutOfRange, "an integer has more bits than its type"); f != nil {
				return 0, f
			}
		}
		return int64(u>>1) ^ -int64(u&1), nil
	}
}

// data reads a length and as many bytes.
func (r *Reader) data() ([]byte, *Failure) {
	n, f := r.number(64)
	switch {
	case f != nil:
		return nil, f
	case n < 0:
		return nil, flinkjson.Misfit(changelog.Malformed, "a length is negative")
	case n > int64(len(r.p)):
		return nil, ended()
	}
	s := r.p[:n:n]
	r.p = r.p[n:]
	return s, nil
}

// Value reads a value of p's type; of a type that is nullable a union of null and it.
func (r *Reader) Value(p *Plan, dst *changelog.Value) *Failure {
	*dst = changelog.Value{}
	if !p.Type.NotNull {
		branch, f := r.number(32)
		switch {
		case f != nil:
			return f
		case branch == 0:
			return nil
		case branch != 1:
			return flinkjson.Misfit(changelog.SchemaMismatch, "a union has no such branch; does the writer's table have the same columns, with the same NOT NULL?")
		}
	}
	return r.inner(p, dst)
}

// inner reads a value of p's type that is not in a union.
func (r *Reader) inner(p *Plan, dst *changelog.Value) *Failure {
	switch p.Type.Root {
	case changelog.RootChar, changelog.RootVarchar:
		s, f := r.text()
		*dst = changelog.StringBytesValue(s)
		return f
	case changelog.RootDecimal:
		s, f := r.data()
		if f != nil {
			return f
		}
		return Unscaled(s, p.Type, dst, r.Guess)
	case changelog.RootDouble:
		if len(r.p) < 8 {
			return ended()
		}
		*dst = changelog.DoubleValue(math.Float64frombits(binary.LittleEndian.Uint64(r.p)))
		r.p = r.p[8:]
		return nil
	case changelog.RootFloat:
		if len(r.p) < 4 {
			return ended()
		}
		*dst = changelog.FloatValue(math.Float32frombits(binary.LittleEndian.Uint32(r.p)))
		r.p = r.p[4:]
		return nil
	case changelog.RootBoolean:
		if len(r.p) == 0 {
			return ended()
		}
		c := r.p[0]
		r.p = r.p[1:]
		*dst = changelog.BoolValue(c == 1)
		if c > 1 {
			return r.Guess(changelog.WrongType, "neither true nor false; Flink would read FALSE")
		}
		return nil
	case changelog.RootBinary, changelog.RootVarbinary:
		s, f := r.data()
		*dst = changelog.BytesValue(s)
		return f
	case changelog.RootArray:
		elems, f := r.sequence(p.Elem, nil, false)
		*dst = changelog.ArrayValue(elems)
		return f
	case changelog.RootMap, changelog.RootMultiset:
		pairs, f := r.sequence(p.Elem, nil, true)
		*dst = changelog.MapValue(pairs)
		return f
	case changelog.RootRow:
		if f := r.Take(len(p.Fields)); f != nil {
			return f
		}
		fields := r.b.NewValues(len(p.Fields))
		*dst = changelog.RowValue(fields)
		for i := range p.Fields {
			if f := r.Value(&p.Fields[i], &fields[i]); f != nil {
				return f.At(p.Type.Fields[i].Name)
			}
		}
		return nil
	}
	bits := 32
	if p.Branch() == "long" {
		bits = 64
	}
	v, f := r.number(bits)
	if f != nil {
		return f
	}
	return Integer(p.Type, v, dst, r.Guess)
}

// Integer makes the value of a type that is an int or a long in Avro.
func Integer(t *changelog.Type, v int64, dst *changelog.Value, guess func(changelog.DataClass, string) *Failure) *Failure {
	switch t.Root {
	case changelog.RootTinyInt, changelog.RootSmallInt:
		cut := int64(int16(v))
		if t.Root == changelog.RootTinyInt {
			cut = int64(int8(v))
		}
		*dst = changelog.IntValue(cut)
		if cut != v {
			return guess(changelog.OutOfRange, "beyond the range of "+t.String()+"; Flink would read another number")
		}
	case changelog.RootDate:
		if *dst = changelog.DateValue(v); v < firstDay || v > lastDay {
			return guess(changelog.OutOfRange, "not in the years 0001 to 9999 of SQL")
		}
	case changelog.RootTime:
		bad := v < 0 || v >= dayMillis
		if v < 0 {
			v = dayMillis + v%dayMillis // as Flink shows it
		}
		*dst = changelog.TimeValue(v * 1e6)
		if bad {
			return guess(changelog.OutOfRange, "no time of a day")
		}
	case changelog.RootTimestamp, changelog.RootTimestampLTZ:
		sec, ms := v/1000, v%1000
		if ms < 0 {
			sec, ms = sec-1, ms+1000
		}
		if *dst = changelog.TimestampValue(sec, int32(ms)*1e6); t.Root == changelog.RootTimestampLTZ {
			*dst = changelog.TimestampLTZValue(sec, int32(ms)*1e6)
		}
		if v < firstMilli || v > lastMilli {
			return guess(changelog.OutOfRange, "not in the years 0001 to 9999 of SQL; is it milliseconds?")
		}
	default:
		*dst = changelog.IntValue(v)
	}
	return nil
}

// Unscaled makes a DECIMAL of its unscaled number, in two's complement, at the column's scale.
func Unscaled(s []byte, t *changelog.Type, dst *changelog.Value, guess func(changelog.DataClass, string) *Failure) *Failure {
	if len(s) == 0 {
		return flinkjson.Misfit(changelog.Malformed, "a DECIMAL has no digit")
	}
	sign := byte(int8(s[0]) >> 7)
	for len(s) > 16 && s[0] == sign && s[1]>>7 == sign>>7 {
		s = s[1:]
	}
	if len(s) <= 16 {
		var wide [16]byte
		for i := range wide {
			wide[i] = sign
		}
		copy(wide[16-len(s):], s)
		v := changelog.DecimalValue(int64(binary.BigEndian.Uint64(wide[:8])), binary.BigEndian.Uint64(wide[8:]), t.Scale)
		if fits, err := changelog.RescaleDecimal(v, t.Precision, t.Scale); err == nil {
			*dst = fits
			return nil
		}
	}
	return guess(changelog.OutOfRange, "more digits than "+t.String()+" has; Flink would read NULL")
}

// Take counts n values against the bound.
func (r *Reader) Take(n int) *Failure {
	if r.room -= n; r.room < 0 {
		return flinkjson.Refuse(changelog.OutOfRange, "the row would take far more memory than the message; is it meant for this table?")
	}
	return nil
}

// Refuse returns the failure that leniency would hide.
func Refuse(class changelog.DataClass, reason string) *Failure {
	return flinkjson.Refuse(class, reason)
}
