package flinkavro

import (
	"encoding/binary"
	"math"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Step is how a value that was written with one schema is read as a value of the table's, or how it is passed over. Steps of what is passed
// over may lead back to themselves, as the schemas of trees do.
type Step struct {
	Op     Op
	Plan   *Plan  // what the value becomes; nil where it is passed over
	Reason string // of OpFail why; of others what Flink guesses silently, "" for nothing
	Steps  []*Step
	// Steps are the branches of OpUnion, the element of OpArray and OpMap. The root of a datum has its Steps and Fields with OpPlan and OpInner too.

	// Of OpRecord: the writer's fields in their order, and the fields that the writer does not have.
	Fields   []Field
	Defaults []Default

	Symbols []changelog.Value // of OpEnum, by the writer's number; NULL: the reader has no such symbol
	Size    int               // of OpFixed

	PerSecond int64 // of OpTicks
}

// Field is a field of the writer.
type Field struct {
	Name   string // in the table
	Target int    // which field of the plan it is, -1: none
	Step   *Step
}

// Default is a field that the writer does not have.
type Default struct {
	Target int
	Value  changelog.Value
}

// Op is what a step does.
type Op uint8

const (
	OpPlan  Op = iota // the writer's schema is that of the plan
	OpInner           // so it is, without the union around it
	OpNull            // NULL, which takes no byte
	OpFail            // no value can be read: what Avro calls an error action, which fails only where a datum comes to it
	OpUnion           // one of the branches follows
	OpRecord
	OpArray
	OpMap
	OpInt     // an int for a long
	OpToFloat // an int, a long or a float for a float or a double; Size is its bits, negative for a float
	OpEnum
	OpFixed

	// For the types of Kafka Connect and Debezium, whose Steps[0], but for OpTicks, reads the value as it was written.
	OpTicks    // an integer of Size bits, of which PerSecond make a second
	OpZoned    // ISO text with a zone
	OpUnscaled // a decimal in bytes, at Size as its scale
	OpVariable // a decimal in bytes with its scale
	OpPlain    // a decimal in text, or of a float or a double
	OpFlag     // an int that is 0 or 1

	// For what is passed over.
	OpSkip      // Size bytes
	OpSkipInt   // an integer of at most 64 bits
	OpSkipBytes // a length and as many bytes
)

// maxSkipDepth bounds records in records that are passed over; a table's own types are as deep as they are written.
const maxSkipDepth = 1000

// Row reads the record of a datum, whose plan is a ROW. Field i of s.Plan becomes dst[slots[i]]; with slots nil dst[i]. null
// reports a datum that is null, which sets nothing.
func (r *Reader) Row(s *Step, dst []changelog.Value, slots []int) (null bool, f *Failure) {
	for s.Op == OpUnion || s.Op == OpPlan {
		if s, f = r.branch(s); f != nil {
			return false, f
		}
	}
	switch s.Op {
	case OpRecord, OpInner:
		return false, r.record(s, dst, slots)
	case OpNull:
		return true, nil
	}
	return false, flinkjson.Misfit(changelog.SchemaMismatch, s.Reason)
}

func (r *Reader) branch(s *Step) (*Step, *Failure) {
	n, f := r.number(32)
	switch {
	case f != nil:
		return nil, f
	case n < 0 || n >= int64(len(s.Steps)):
		return nil, flinkjson.Misfit(changelog.Malformed, "a union has no such branch")
	}
	return s.Steps[n], nil
}

func (r *Reader) record(s *Step, dst []changelog.Value, slots []int) *Failure {
	for i := range s.Fields {
		field := &s.Fields[i]
		if field.Target < 0 {
			if f := r.skip(field.Step); f != nil {
				return f.At(field.Name)
			}
			continue
		}
		at := field.Target
		if slots != nil {
			at = slots[at]
		}
		if f := r.step(field.Step, &dst[at]); f != nil {
			return f.At(field.Name)
		}
	}
	for i := range s.Defaults {
		at := s.Defaults[i].Target
		if slots != nil {
			at = slots[at]
		}
		dst[at] = s.Defaults[i].Value
	}
	return nil
}

// step reads a value.
func (r *Reader) step(s *Step, dst *changelog.Value) *Failure {
	if s.Reason != "" && s.Op != OpFail {
		if f := r.Guess(changelog.SchemaMismatch, s.Reason); f != nil {
			return f
		}
	}
	switch s.Op {
	case OpPlan:
		return r.Value(s.Plan, dst)
	case OpInner:
		return r.inner(s.Plan, dst)
	case OpNull:
		*dst = changelog.Value{}
		return nil
	case OpUnion:
		branch, f := r.branch(s)
		if f != nil {
			return f
		}
		return r.step(branch, dst)
	case OpRecord:
		if f := r.Take(len(s.Plan.Fields)); f != nil {
			return f
		}
		fields := r.b.NewValues(len(s.Plan.Fields))
		*dst = changelog.RowValue(fields)
		return r.record(s, fields, nil)
	case OpArray:
		elems, f := r.sequence(nil, s.Steps[0], false)
		*dst = changelog.ArrayValue(elems)
		return f
	case OpMap:
		pairs, f := r.sequence(nil, s.Steps[0], true)
		*dst = changelog.MapValue(pairs)
		return f
	case OpInt:
		v, f := r.number(32)
		if f != nil {
			return f
		}
		return Integer(s.Plan.Type, v, dst, r.Guess)
	case OpToFloat:
		return r.toFloat(s, dst)
	case OpEnum:
		n, f := r.number(32)
		switch {
		case f != nil:
			return f
		case n < 0 || n >= int64(len(s.Symbols)):
			return flinkjson.Misfit(changelog.Malformed, "an enum has no such symbol")
		case s.Symbols[n].IsNull():
			return flinkjson.Misfit(changelog.SchemaMismatch, "an enum's symbol is none of those of the option 'schema'")
		}
		*dst = s.Symbols[n]
		return nil
	case OpFixed:
		if s.Size > len(r.p) {
			return ended()
		}
		data := r.p[:s.Size:s.Size]
		r.p = r.p[s.Size:]
		if s.Plan.Type.Root == changelog.RootDecimal {
			return Unscaled(data, s.Plan.Type, dst, r.Guess)
		}
		*dst = changelog.BytesValue(data)
		return nil
	case OpTicks, OpZoned, OpUnscaled, OpVariable, OpPlain, OpFlag:
		return r.source(s, dst)
	}
	return flinkjson.Misfit(changelog.SchemaMismatch, s.Reason)
}

// toFloat reads a number that Avro promotes.
func (r *Reader) toFloat(s *Step, dst *changelog.Value) *Failure {
	var x float64
	if s.Size < 0 { // a float, which becomes a double
		if len(r.p) < 4 {
			return ended()
		}
		x = float64(math.Float32frombits(binary.LittleEndian.Uint32(r.p)))
		r.p = r.p[4:]
	} else {
		v, f := r.number(s.Size)
		if f != nil {
			return f
		}
		if s.Plan.Type.Root == changelog.RootFloat { // at once, so that it is rounded once
			*dst = changelog.FloatValue(float32(v))
			return nil
		}
		x = float64(v)
	}
	*dst = changelog.DoubleValue(x)
	return nil
}

// skip passes over a value.
func (r *Reader) skip(s *Step) *Failure {
	switch s.Op {
	case OpNull:
		return nil
	case OpSkip:
		if s.Size > len(r.p) {
			return ended()
		}
		r.p = r.p[s.Size:]
		return nil
	case OpSkipInt:
		_, f := r.number(64)
		return f
	case OpSkipBytes:
		_, f := r.data()
		return f
	}
	if r.depth++; r.depth > maxSkipDepth {
		return flinkjson.Refuse(changelog.OutOfRange, "a field that the table does not have is nested too deeply")
	}
	defer func() { r.depth-- }()
	switch s.Op {
	case OpUnion:
		branch, f := r.branch(s)
		if f != nil {
			return f
		}
		return r.skip(branch)
	case OpRecord:
		if f := r.Take(1); f != nil { // a record of nothing takes no byte
			return f
		}
		for i := range s.Fields {
			if f := r.skip(s.Fields[i].Step); f != nil {
				return f
			}
		}
		return nil
	case OpArray, OpMap:
		return r.skipBlocks(s)
	}
	return flinkjson.Misfit(changelog.SchemaMismatch, s.Reason)
}

func (r *Reader) skipBlocks(s *Step) *Failure {
	for {
		n, f := r.number(64)
		switch {
		case f != nil:
			return f
		case n == 0:
			return nil
		case n < 0: // the block's size in bytes follows
			if _, f := r.data(); f != nil {
				return f
			}
			continue
		case n > int64(r.room):
			n = int64(r.room) + 1
		}
		if f := r.Take(int(n)); f != nil {
			return f
		}
		for range n {
			if s.Op == OpMap {
				if _, f := r.data(); f != nil {
					return f
				}
			}
			if f := r.skip(s.Steps[0]); f != nil {
				return f
			}
		}
	}
}
