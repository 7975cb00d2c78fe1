package avro

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// jsonDecoder reads Avro's JSON encoding, as Avro's JsonDecoder does. Only the envelope's pool changes after it was made.
type jsonDecoder struct {
	envelope *flinkjson.Envelope
	columns  []column
	lenient  bool
}

func newJSONDecoder(columns []column, lenient bool) *jsonDecoder {
	d := &jsonDecoder{flinkjson.NewEnvelope(flinkjson.Options{}, lenient), columns, lenient}
	d.envelope.NoArrays = true
	return d
}

// DecodePayload implements [changelog.PayloadDecoder].
func (d *jsonDecoder) DecodePayload(b *changelog.Batch, payload []byte, _ *changelog.Record) error {
	if len(payload) == 0 {
		return flinkjson.Misfit(changelog.Missing, "the message is empty").Err()
	}
	return d.envelope.Read(b, payload, func(t *flinkjson.Tree, root *flinkjson.Node) *failure {
		r := jsonReader{b: b, lenient: d.lenient, room: flinkavro.Room(payload)}
		row := b.NewRow()
		f := r.record(root, len(d.columns), func(i int) string { return d.columns[i].field }, true,
			func(i int, n *flinkjson.Node, last bool) *failure {
				return r.value(&d.columns[i].plan, n, &row[d.columns[i].slot], last)
			})
		if f == nil {
			b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
		}
		return f
	})
}

type jsonReader struct {
	b       *changelog.Batch
	room    int // values that the row may still take
	lenient bool
}

func (r *jsonReader) guess(class changelog.DataClass, reason string) *failure {
	if r.lenient {
		return nil
	}
	return flinkjson.Refuse(class, reason)
}

// record reads the members of an object, each of which must be there. Avro saves what it does not look for, and fails over it, or over the
// objects in what follows, only when it looks at the object's end: not where nothing is read after it, which last says.
func (r *jsonReader) record(n *flinkjson.Node, fields int, name func(i int) string, last bool,
	each func(i int, n *flinkjson.Node, last bool) *failure) *failure {
	if n.Kind() != flinkjson.NodeObject {
		return flinkjson.Misfit(changelog.WrongType, "not a JSON object")
	}
	if n.Twice() {
		return flinkjson.Refuse(changelog.Malformed, "a member is there twice")
	}
	for i := range fields {
		kid := n.Member(name(i))
		if kid == nil {
			return flinkjson.Misfit(changelog.Missing, "the member is missing, which Avro does not allow").At(name(i))
		}
		if f := each(i, kid, last && i == fields-1); f != nil {
			return f.At(name(i))
		}
	}
	kids := n.Kids()
	if len(kids) == fields {
		return nil
	}
	known := func(k int) bool {
		for i := range fields {
			if string(kids[k].Name()) == name(i) {
				return true
			}
		}
		return false
	}
	after := true
	for k := len(kids) - 1; k >= 0 && !last; k-- {
		if known(k) {
			after = false
		} else if !after || !plain(&kids[k]) {
			return flinkjson.Misfit(changelog.SchemaMismatch, "a member is none of the table's")
		}
	}
	return r.guess(changelog.SchemaMismatch, "a member is none of the table's; Flink would not look at it")
}

// plain reports that there is no object in n.
func plain(n *flinkjson.Node) bool {
	if n.Kind() == flinkjson.NodeObject {
		return false
	}
	for i := range n.Kids() {
		if !plain(&n.Kids()[i]) {
			return false
		}
	}
	return true
}

// value reads a value; of a type that is nullable, null or the object of its branch.
func (r *jsonReader) value(p *flinkavro.Plan, n *flinkjson.Node, dst *changelog.Value, last bool) *failure {
	*dst = changelog.Value{}
	if p.Type.NotNull {
		return r.inner(p, n, dst, last)
	}
	if n.Kind() == flinkjson.NodeNull {
		return nil
	}
	if n.Kind() != flinkjson.NodeObject || len(n.Kids()) == 0 {
		return flinkjson.Misfit(changelog.WrongType, "neither null nor the object of a union's branch")
	}
	kid := &n.Kids()[0]
	if string(kid.Name()) == "null" {
		if kid.Kind() != flinkjson.NodeNull {
			return flinkjson.Misfit(changelog.WrongType, "the branch null of a union is not null")
		}
		return nil
	}
	if string(kid.Name()) != p.Branch() {
		return flinkjson.Misfit(changelog.WrongType, "a union has no such branch; the type is "+p.Type.String())
	}
	if n.Twice() {
		return flinkjson.Refuse(changelog.Malformed, "a branch of a union is there twice")
	}
	for k := 1; k < len(n.Kids()); k++ {
		if !last && !plain(&n.Kids()[k]) {
			return flinkjson.Misfit(changelog.Malformed, "a union has more than one branch")
		}
		if f := r.guess(changelog.Malformed, "a union has more than one branch; Flink would read the first one"); f != nil {
			return f
		}
	}
	return r.inner(p, kid, dst, last)
}

func (r *jsonReader) inner(p *flinkavro.Plan, n *flinkjson.Node, dst *changelog.Value, last bool) *failure {
	misfit := func() *failure { return flinkjson.Misfit(changelog.WrongType, "not a value of type "+p.Type.String()) }
	switch p.Type.Root {
	case changelog.RootBoolean:
		if n.Kind() != flinkjson.NodeTrue && n.Kind() != flinkjson.NodeFalse {
			return misfit()
		}
		*dst = changelog.BoolValue(n.Kind() == flinkjson.NodeTrue)
		return nil
	case changelog.RootFloat, changelog.RootDouble:
		if n.Kind() != flinkjson.NodeInt && n.Kind() != flinkjson.NodeFloat {
			return misfit()
		}
		bits := 64
		if p.Type.Root == changelog.RootFloat {
			bits = 32
		}
		v, _ := strconv.ParseFloat(string(n.Text()), bits)
		if *dst = changelog.DoubleValue(v); bits == 32 {
			*dst = changelog.FloatValue(float32(v))
		}
		if math.IsInf(v, 0) {
			return r.guess(changelog.OutOfRange, "beyond the range of "+p.Type.String()+"; Flink would read an infinity")
		}
		return nil
	case changelog.RootChar, changelog.RootVarchar:
		if n.Kind() != flinkjson.NodeString {
			return misfit()
		}
		*dst = changelog.StringBytesValue(n.Text())
		return nil
	case changelog.RootBinary, changelog.RootVarbinary, changelog.RootDecimal:
		if n.Kind() != flinkjson.NodeString {
			return misfit()
		}
		raw, f := r.latin(n.Text())
		if f != nil {
			return f
		}
		if p.Type.Root != changelog.RootDecimal {
			*dst = changelog.BytesValue(raw)
			return nil
		}
		return flinkavro.Unscaled(raw, p.Type, dst, r.guess)
	case changelog.RootArray:
		if n.Kind() != flinkjson.NodeArray {
			return misfit()
		}
		if r.room -= len(n.Kids()); r.room < 0 {
			return flinkjson.Refuse(changelog.OutOfRange, "the row would take far more memory than the message; is it meant for this table?")
		}
		elems := r.b.NewValues(len(n.Kids()))
		for i := range elems {
			if f := r.value(p.Elem, &n.Kids()[i], &elems[i], false); f != nil {
				return f.AtElement(i)
			}
		}
		*dst = changelog.ArrayValue(elems)
		return nil
	case changelog.RootMap, changelog.RootMultiset:
		if n.Kind() != flinkjson.NodeObject {
			return misfit()
		}
		if n.Twice() {
			if f := r.guess(changelog.Malformed, "a map has a key twice"); f != nil {
				return f
			}
		}
		kids := n.Kids()
		pairs := r.b.NewValues(2 * len(kids))
		for i := range kids {
			pairs[2*i] = changelog.StringBytesValue(kids[i].Name())
			if f := r.value(p.Elem, &kids[i], &pairs[2*i+1], false); f != nil {
				return f.At("[*]")
			}
		}
		*dst = changelog.MapValue(pairs)
		return nil
	case changelog.RootRow:
		if r.room -= len(p.Fields); r.room < 0 {
			return flinkjson.Refuse(changelog.OutOfRange, "the row would take far more memory than the message; is it meant for this table?")
		}
		fields := r.b.NewValues(len(p.Fields))
		*dst = changelog.RowValue(fields)
		return r.record(n, len(fields), func(i int) string { return p.Type.Fields[i].Name }, last,
			func(i int, n *flinkjson.Node, last bool) *failure { return r.value(&p.Fields[i], n, &fields[i], last) })
	}
	return r.integer(p, n, dst)
}

// integer reads a number; a fraction is cut off, as Jackson's getIntValue does.
func (r *jsonReader) integer(p *flinkavro.Plan, n *flinkjson.Node, dst *changelog.Value) *failure {
	bits := 32
	if p.Branch() == "long" {
		bits = 64
	}
	tooLarge := flinkjson.Misfit(changelog.OutOfRange, "beyond the range of "+p.Type.String())
	switch n.Kind() {
	case flinkjson.NodeInt:
		v, err := strconv.ParseInt(string(n.Text()), 10, bits)
		if err != nil {
			return tooLarge
		}
		return flinkavro.Integer(p.Type, v, dst, r.guess)
	case flinkjson.NodeFloat:
		x, err := strconv.ParseFloat(string(n.Text()), 64)
		limit := math.Ldexp(1, bits-1)
		if err != nil || !(x >= -limit && x <= limit) || bits == 32 && x > math.MaxInt32 {
			return tooLarge
		}
		v := int64(math.MaxInt64)
		if x < limit {
			v = int64(x)
		}
		if f := r.guess(changelog.OutOfRange, "a number with a fraction or an exponent; Flink would read another integer"); f != nil {
			return f
		}
		return flinkavro.Integer(p.Type, v, dst, r.guess)
	}
	return flinkjson.Misfit(changelog.WrongType, "not a value of type "+p.Type.String())
}

// latin returns the bytes whose characters of ISO-8859-1 s has.
func (r *jsonReader) latin(s []byte) ([]byte, *failure) {
	out := r.b.NewBytes(len(s))[:0]
	for len(s) > 0 {
		c, n := utf8.DecodeRune(s)
		s = s[n:]
		if c > 0xFF {
			if f := r.guess(changelog.Malformed, "bytes have a character that is none; Flink would read a question mark"); f != nil {
				return nil, f
			}
			c = '?'
		}
		out = append(out, byte(c))
	}
	return out[:len(out):len(out)], nil
}
