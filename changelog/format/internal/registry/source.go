package registry

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
	"github.com/twmb/avro"
)

// The types that values of Kafka Connect and Debezium are written in, as the table's own reader reads them.
var (
	plainText     = plainPlan(changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength, NotNull: true})
	plainBytes    = plainPlan(changelog.Type{Root: changelog.RootVarbinary, Length: changelog.MaxLength, NotNull: true})
	plainInt      = plainPlan(changelog.Type{Root: changelog.RootInt, NotNull: true})
	plainFloat    = plainPlan(changelog.Type{Root: changelog.RootFloat, NotNull: true})
	plainDouble   = plainPlan(changelog.Type{Root: changelog.RootDouble, NotNull: true})
	variableScale = func() *flinkavro.Plan {
		p := plainPlan(changelog.Type{Root: changelog.RootRow, NotNull: true, Fields: []changelog.Field{{Name: "scale", Type: *plainInt.Type}, {Name: "value", Type: *plainBytes.Type}}})
		p.Record, p.Fields = "io.debezium.data.VariableScaleDecimal", []flinkavro.Plan{*plainInt, *plainBytes}
		return p
	}()
)

func plainPlan(t changelog.Type) *flinkavro.Plan { return &flinkavro.Plan{Type: &t} }

// logicalUnits are Avro's own types of time: whether it is one of day, and how many units make a second.
var logicalUnits = map[string]struct {
	ofDay     bool
	perSecond int64
}{
	"time-millis": {true, 1e3}, "time-micros": {true, 1e6},
	"timestamp-millis": {false, 1e3}, "timestamp-micros": {false, 1e6}, "timestamp-nanos": {false, 1e9},
	"local-timestamp-millis": {false, 1e3}, "local-timestamp-micros": {false, 1e6}, "local-timestamp-nanos": {false, 1e9},
}

// source is how a value of a type of Kafka Connect or Debezium is read, whose schema says what it is; nil where it is read as ever.
func (c *compiler) source(n *avro.SchemaNode, p *flinkavro.Plan) *flinkavro.Step {
	as := func(op flinkavro.Op, of *flinkavro.Plan) *flinkavro.Step {
		return &flinkavro.Step{Op: op, Plan: p, Steps: []*flinkavro.Step{c.single(n, of)}}
	}
	integer, text := n.Type == "int" || n.Type == "long", n.Type == "string"
	switch p.Type.Root {
	case changelog.RootBoolean:
		if n.Type == "int" && n.LogicalType == "" && connectName(n) == "" {
			return as(flinkavro.OpFlag, plainInt)
		}
	case changelog.RootDate, changelog.RootTime, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		switch {
		case integer:
			return ticks(n, p)
		case text:
			return as(flinkavro.OpZoned, plainText)
		}
	case changelog.RootDecimal:
		switch {
		case n.Type == "bytes" && n.LogicalType == "decimal" && n.Scale != p.Type.Scale:
			scale := n.Scale
			s := as(flinkavro.OpUnscaled, plainBytes)
			s.Size = scale
			return s
		case kind(n) == "record" && n.Props["connect.name"] == variableScale.Record:
			return as(flinkavro.OpVariable, variableScale)
		case text:
			return as(flinkavro.OpPlain, plainText)
		case n.Type == "double":
			return as(flinkavro.OpPlain, plainDouble)
		case n.Type == "float":
			return as(flinkavro.OpPlain, plainFloat)
		}
	}
	return nil
}

// ticks is how a time that is an integer is read: by Avro's logical type, or Connect's name, or as Flink reads one that has neither.
func ticks(n *avro.SchemaNode, p *flinkavro.Plan) *flinkavro.Step {
	name := connectName(n)
	if p.Type.Root == changelog.RootDate {
		if guessed(n, p) != "" {
			return mismatched(n, p)
		}
		return nil
	}
	ofDay := p.Type.Root == changelog.RootTime
	unit, known := logicalUnits[n.LogicalType]
	ok := known && unit.ofDay == ofDay
	switch {
	case known:
	case n.LogicalType != "":
	case name != "":
		unit.perSecond, ok = flinkjson.SourceUnit(name, ofDay)
	default:
		return nil
	}
	if !ok {
		return mismatched(n, p)
	}
	bits := 64
	if n.Type == "int" {
		bits = 32
	}
	return &flinkavro.Step{Op: flinkavro.OpTicks, Plan: p, Size: bits, PerSecond: unit.perSecond}
}

func mismatched(n *avro.SchemaNode, p *flinkavro.Plan) *flinkavro.Step {
	return fail("the message was written with %s of %s, and the column is %s; declare it as the schema says", n.Type, semantics(n), p.Type)
}
