package csv

import (
	"bytes"
	"math"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// column reads a cell into its place in row.
func (d *decoder) column(b *changelog.Batch, c *column, cell []byte, row changelog.Row) *failure {
	switch c.typ.Root {
	case changelog.RootArray:
		return d.array(b, c.typ, cell, &row[c.slot])
	case changelog.RootRow:
		return d.row(b, c.typ, cell, &row[c.slot])
	}
	return d.nullable(b, c.typ, cell, &row[c.slot])
}

// nullable is createNullableConverter.
func (d *decoder) nullable(b *changelog.Batch, t *changelog.Type, s []byte, dst *changelog.Value) *failure {
	if d.hasNull && string(s) == d.null || d.emptyNull && len(s) == 0 {
		*dst = changelog.Value{}
		return nil
	}
	f := d.scalar(b, t, s, dst)
	if f != nil && d.ignoreErrors && !f.Final() {
		*dst = changelog.Value{}
		f = nil
	}
	return f
}

// misfit says that s is no value of type t.
func (d *decoder) misfit(t *changelog.Type, s []byte) *failure {
	if len(s) == 0 && !d.hasNull {
		return flinkjson.Misfit(changelog.WrongType, "an empty cell is not a value of type "+t.String()+"; if the writer writes NULL as nothing, set 'csv.null-literal' = ''")
	}
	return flinkjson.Misfit(changelog.WrongType, "not a value of type "+t.String())
}

// scalar follows CsvToRowDataConverters.
func (d *decoder) scalar(b *changelog.Batch, t *changelog.Type, s []byte, dst *changelog.Value) *failure {
	switch t.Root {
	case changelog.RootChar, changelog.RootVarchar:
		*dst = changelog.StringBytesValue(s)
		return nil
	case changelog.RootTinyInt:
		return d.integer(t, s, math.MinInt8, math.MaxInt8, dst)
	case changelog.RootSmallInt:
		return d.integer(t, s, math.MinInt16, math.MaxInt16, dst)
	case changelog.RootInt:
		return d.integer(t, s, math.MinInt32, math.MaxInt32, dst)
	case changelog.RootBigInt:
		return d.integer(t, s, math.MinInt64, math.MaxInt64, dst)
	case changelog.RootDouble, changelog.RootFloat:
		bits := 64
		if t.Root == changelog.RootFloat {
			bits = 32
		}
		v, beyond, ok := flinkjson.Float(flinkjson.Trim(s), bits)
		if !ok {
			return d.misfit(t, s)
		}
		if *dst = changelog.DoubleValue(v); bits == 32 {
			*dst = changelog.FloatValue(float32(v))
		}
		if beyond {
			return d.guess(changelog.OutOfRange, "beyond the range of "+t.String()+"; Flink would read an infinity")
		}
		return nil
	case changelog.RootDecimal:
		v, beyond, ok := flinkjson.Decimal(s, t)
		switch {
		case !ok:
			return d.misfit(t, s)
		case tooLargeForJava(s, beyond):
			return d.misfit(t, s).As(changelog.OutOfRange)
		}
		if *dst = v; beyond {
			*dst = changelog.Value{}
			return d.guess(changelog.OutOfRange, "more digits than "+t.String()+" has; Flink would read NULL")
		}
		return nil
	case changelog.RootBoolean:
		word := flinkjson.Trim(s)
		*dst = changelog.BoolValue(bytes.EqualFold(word, []byte("true")))
		if !dst.Bool() && !bytes.EqualFold(word, []byte("false")) {
			return d.guess(changelog.WrongType, "neither true nor false; Flink would read FALSE")
		}
		return nil
	case changelog.RootDate:
		v, guess, ok := parseDate(s)
		if !ok {
			return d.misfit(t, s)
		}
		if *dst = v; guess {
			return d.guess(changelog.OutOfRange, "not a day of the calendar; Flink would read another one")
		}
		return nil
	case changelog.RootTime:
		return d.time(t, s, dst)
	case changelog.RootTimestamp, changelog.RootTimestampLTZ:
		v, guess, ok := flinkjson.Temporal(t.Root, flinkjson.Trim(s))
		if !ok {
			return d.misfit(t, s)
		}
		if *dst = v; guess {
			return d.guess(changelog.OutOfRange, "not a time that "+t.String()+" can say; Flink would change it")
		}
		return nil
	case changelog.RootBinary, changelog.RootVarbinary:
		raw, ok := flinkjson.Base64(s)
		if !ok {
			return d.misfit(t, s)
		}
		out := b.NewBytes(len(raw))
		copy(out, raw)
		*dst = changelog.BytesValue(out)
		return nil
	}
	return nil // NULL
}

func (d *decoder) integer(t *changelog.Type, s []byte, least, most int64, dst *changelog.Value) *failure {
	v, ok := flinkjson.Integer(flinkjson.Trim(s))
	if !ok || v < least || v > most {
		return d.misfit(t, s).As(flinkjson.ClassOfNumber(s, t.Root))
	}
	*dst = changelog.IntValue(v)
	return nil
}

// tooLargeForJava reports an exponent with which a BigDecimal cannot be made, or if it is beyond its column cannot be given a scale.
func tooLargeForJava(s []byte, beyond bool) bool {
	i := bytes.IndexAny(s, "eE")
	if i < 0 {
		return false
	}
	e, err := strconv.ParseInt(string(s[i+1:]), 10, 32)
	return err != nil || e == math.MinInt32 || beyond && e > maxExponent
}

// maxExponent is about log10 of the largest BigInteger, which has 2^31 bits.
const maxExponent = 646_456_000

// time is LocalTime.parse, which has no 24:00 and may leave seconds out. Before 2.3 Flink's SQL knows TIME(0) only, so a fraction is cut off.
func (d *decoder) time(t *changelog.Type, s []byte, dst *changelog.Value) *failure {
	text := s
	var whole [8]byte
	if len(s) == len("00:00") {
		text = append(append(whole[:0], s...), ":00"...)
	}
	read := flinkjson.TimeMillis
	if !d.flink.Since(changelog.Flink2_3) {
		read = func(s []byte) (changelog.Value, bool, bool) { return flinkjson.Temporal(changelog.RootTime, s) }
	}
	v, guess, ok := read(text)
	if !ok || len(s) > 1 && s[0] == '2' && s[1] == '4' {
		return d.misfit(t, s)
	}
	// From Flink 2.3 on the column has a precision.
	unit := int64(1e9)
	for range t.Precision {
		unit /= 10
	}
	if cut := v.Time() / unit * unit; cut != v.Time() {
		v, guess = changelog.TimeValue(cut), true
	}
	if *dst = v; guess {
		return d.guess(changelog.OutOfRange, "a fraction of a second; Flink would cut it off")
	}
	return nil
}

// elements splits the cell of an ARRAY or ROW. A blank one has none.
func (d *decoder) elements(cell []byte, each func(i int, s []byte) *failure) (n int, f *failure) {
	if len(flinkjson.Trim(cell)) == 0 {
		return 0, nil
	}
	for more := true; more; n++ {
		var s []byte
		s, cell, more = bytes.Cut(cell, []byte(d.between))
		if d.trim {
			s = trimmed(s)
		}
		if f := each(n, s[:len(s):len(s)]); f != nil {
			return n, f.AtElement(n)
		}
	}
	return n, nil
}

func (d *decoder) array(b *changelog.Batch, t *changelog.Type, cell []byte, dst *changelog.Value) *failure {
	elems := b.NewValues(bytes.Count(cell, []byte(d.between)) + 1)
	n, f := d.elements(cell, func(i int, s []byte) *failure { return d.nullable(b, t.Elem, s, &elems[i]) })
	if f != nil {
		return f
	}
	*dst = changelog.ArrayValue(elems[:n])
	return nil
}

// row reads a ROW; of a blank cell it is NULL.
func (d *decoder) row(b *changelog.Batch, t *changelog.Type, cell []byte, dst *changelog.Value) *failure {
	fields := b.NewValues(len(t.Fields))
	n, f := d.elements(cell, func(i int, s []byte) *failure {
		if i >= len(fields) {
			return nil
		}
		return d.nullable(b, &t.Fields[i].Type, s, &fields[i])
	})
	switch {
	case f != nil:
		return f
	case n == 0:
		*dst = changelog.Value{}
		return nil
	case n < len(fields) && !d.ignoreErrors:
		return flinkjson.Misfit(changelog.SchemaMismatch, "the ROW has fewer fields than its type")
	case n > len(fields):
		if f := d.guess(changelog.SchemaMismatch, "the ROW has more fields than its type; Flink would not read them"); f != nil {
			return f
		}
	}
	*dst = changelog.RowValue(fields)
	return nil
}
