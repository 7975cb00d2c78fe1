package flinkavro

import (
	"strconv"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// source reads a value of a type of Kafka Connect or Debezium. Nothing is guessed: what the column does not hold is an error.
func (r *Reader) source(s *Step, dst *changelog.Value) *Failure {
	t := s.Plan.Type
	if s.Op == OpTicks {
		v, f := r.number(s.Size)
		if f != nil {
			return f
		}
		return flinkjson.SourceTime(t, v, s.PerSecond, dst)
	}
	var v changelog.Value
	if f := r.step(s.Steps[0], &v); f != nil {
		return f
	}
	switch s.Op {
	case OpZoned:
		if !flinkjson.SourceZoned(t, v.Str(), dst) {
			return flinkjson.Misfit(changelog.WrongType, "no time in ISO form with a zone")
		}
		return nil
	case OpFlag:
		if v.Int() != 0 && v.Int() != 1 {
			return flinkjson.Misfit(changelog.WrongType, "a number that is neither 0 nor 1")
		}
		*dst = changelog.BoolValue(v.Int() == 1)
		return nil
	case OpUnscaled:
		return sourceDecimal(v.Bytes(), int64(s.Size), t, dst)
	case OpVariable:
		return sourceDecimal(v.Elems()[1].Bytes(), v.Elems()[0].Int(), t, dst)
	}
	text, ok := v.Bytes(), true
	switch v.Kind() {
	case changelog.KindFloat:
		text = strconv.AppendFloat(nil, float64(v.Float()), 'g', -1, 32)
	case changelog.KindDouble:
		text = strconv.AppendFloat(nil, v.Double(), 'g', -1, 64)
	}
	if *dst, ok = flinkjson.SourceText(text, t); !ok {
		return flinkjson.Misfit(changelog.WrongType, "no number that "+t.String()+" holds, with all of its digits")
	}
	return nil
}

func sourceDecimal(raw []byte, scale int64, t *changelog.Type, dst *changelog.Value) *Failure {
	v, ok := flinkjson.SourceDecimal(raw, scale, t)
	if !ok {
		return flinkjson.Misfit(changelog.OutOfRange, "more digits than "+t.String()+" has, before or after the point")
	}
	*dst = v
	return nil
}
