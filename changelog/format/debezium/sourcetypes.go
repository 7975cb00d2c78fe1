package debezium

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// SourceTypes says how Debezium's connector was told to send values that JSON has no type for. Flink does not know these forms: by default
// such a value is read as Flink reads it, which is an error where the column is no BIGINT, INT or STRING.
//
// With SourceTypes, columns of DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ take whole numbers in the unit of Time, and ISO texts with a zone;
// DECIMAL columns take what Decimal says and Debezium's VariableScaleDecimal; BOOLEAN columns take 0 and 1. Texts and numbers in
// Flink's own forms are read as ever, but for texts of a DECIMAL that is DecimalPrecise. Where the message has Connect's schema ('debezium-json.schema-include' = 'true'), the names in it
// (io.debezium.time.MicroTimestamp, org.apache.kafka.connect.data.Decimal, …) decide, field by field, and not the settings here.
type SourceTypes struct {
	Time    TimePrecision   // the connector's time.precision.mode
	Decimal DecimalHandling // the connector's decimal.handling.mode
}

// TimePrecision is Debezium's time.precision.mode: the unit of a time that is sent as a number. A DATE is in days in all of them.
type TimePrecision uint8

const (
	// TimeAdaptive is milliseconds for a column of a precision up to 3, microseconds up to 6, and nanoseconds beyond. The columns must be
	// declared with the precision that they have in the source. Debezium's default for Postgres.
	TimeAdaptive TimePrecision = iota
	// TimeAdaptiveMicroseconds is the same, and TIME is always in microseconds. Debezium's default for MySQL.
	TimeAdaptiveMicroseconds
	// TimeConnect is always milliseconds.
	TimeConnect
)

// DecimalHandling is Debezium's decimal.handling.mode.
type DecimalHandling uint8

const (
	// DecimalPrecise is bytes in base64: the unscaled number, at the column's scale. Debezium's default.
	DecimalPrecise DecimalHandling = iota
	// DecimalAsText is text or numbers (decimal.handling.mode string and double), as Flink reads them.
	DecimalAsText
)

// semantic is what Connect's schema says of one field.
type semantic struct {
	name  string // "io.debezium.time.Date", or "" for a plain type
	scale int    // of a Decimal
	bytes bool   // the plain type is bytes
}

// sourceTypes converts values of the payload's columns.
type sourceTypes struct {
	SourceTypes
	types []*changelog.Type // of the payload's columns
	names []string          // in the payload
}

func newSourceTypes(s SourceTypes, p changelog.Payload, schemaInclude bool) (*sourceTypes, error) {
	if s.Time > TimeConnect || s.Decimal > DecimalAsText {
		return nil, fmt.Errorf("Format.SourceTypes has an unknown mode: Time %d, Decimal %d", s.Time, s.Decimal)
	}
	out := &sourceTypes{SourceTypes: s, names: p.Names}
	for _, col := range p.Columns {
		c := &p.Table.Schema.Columns[col]
		out.types = append(out.types, &c.Type)
		if c.Type.Root == changelog.RootTime && s.Time == TimeAdaptive && !schemaInclude && !p.Flink.Since(changelog.Flink2_3) {
			return nil, fmt.Errorf("column %s: SourceTypes.Time is TimeAdaptive, which needs the column's precision, and before Flink 2.3 every TIME(p) is TIME(0); "+
				"set Options.FlinkVersion to changelog.Flink2_3, or have the message bring its schema ('debezium-json.schema-include' = 'true')", c.Name)
		}
	}
	return out, nil
}

// schemaOf returns what the message's schema says of the columns of 'before' or 'after'; nil where it has none.
func (s *sourceTypes) schemaOf(root *flinkjson.Node, image string) []semantic {
	schema := root.Member("schema")
	if schema == nil {
		return nil
	}
	row := fieldOf(schema, image)
	if row == nil {
		return nil
	}
	out := make([]semantic, len(s.names))
	for i, name := range s.names {
		f := fieldOf(row, name)
		if f == nil {
			continue
		}
		out[i].bytes = f.Member("type") != nil && f.Member("type").IsText("bytes")
		if n := f.Member("name"); n != nil && n.Kind() == flinkjson.NodeString {
			out[i].name = string(n.Text())
		}
		if p := f.Member("parameters"); p != nil {
			if n := p.Member("scale"); n != nil {
				out[i].scale, _ = strconv.Atoi(string(n.Text()))
			}
		}
	}
	return out
}

// fieldOf returns the field of that name of a struct of Connect's schema.
func fieldOf(schema *flinkjson.Node, name string) *flinkjson.Node {
	fields := schema.Member("fields")
	if fields == nil {
		return nil
	}
	list := fields.Elems()
	for i := range list {
		if n := list[i].Member("field"); n != nil && n.IsText(name) {
			return &list[i]
		}
	}
	return nil
}

// value converts the value n of a column. It has not taken it where n is in a form of Flink's own.
func (s *sourceTypes) value(column int, n *flinkjson.Node, schema []semantic, dst *changelog.Value) (taken bool, f *flinkjson.Failure) {
	t := s.types[column]
	var of *semantic
	if schema != nil {
		of = &schema[column]
	}
	switch t.Root {
	case changelog.RootBoolean:
		if n.IsInteger("0") || n.IsInteger("1") {
			*dst = changelog.BoolValue(n.IsInteger("1"))
			return true, nil
		}
	case changelog.RootDate, changelog.RootTime, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		switch n.Kind() {
		case flinkjson.NodeInt:
			return true, s.number(t, n, of, dst)
		case flinkjson.NodeString:
			return flinkjson.SourceZoned(t, string(n.Text()), dst), nil
		}
	case changelog.RootDecimal:
		return s.decimal(t, n, of, dst)
	case changelog.RootBinary, changelog.RootVarbinary:
		if n.Kind() == flinkjson.NodeObject {
			return true, flinkjson.Misfit(changelog.WrongType, "an object, such as Debezium's geometry, is no "+t.String()+"; declare the column ROW<wkb BYTES, srid INT>, or STRING")
		}
	}
	return false, nil
}

// number reads a time that is a whole number.
func (s *sourceTypes) number(t *changelog.Type, n *flinkjson.Node, of *semantic, dst *changelog.Value) *flinkjson.Failure {
	v, err := strconv.ParseInt(string(n.Text()), 10, 64)
	if err != nil {
		return flinkjson.Misfit(changelog.OutOfRange, "a number of more than 64 bits is no "+t.String())
	}
	if t.Root == changelog.RootDate {
		if of != nil && of.name != "" && !strings.HasSuffix(of.name, ".Date") {
			return schemaSays(of, t)
		}
		return flinkjson.SourceDate(v, dst)
	}
	perSecond, f := s.unit(t, of)
	if f != nil {
		return f
	}
	return flinkjson.SourceTime(t, v, perSecond, dst)
}

func schemaSays(of *semantic, t *changelog.Type) *flinkjson.Failure {
	return flinkjson.Misfit(changelog.SchemaMismatch, "the schema says "+of.name+", and the column is "+t.String()+"; declare it as the schema says")
}

// unit returns how many of a column's units make a second.
func (s *sourceTypes) unit(t *changelog.Type, of *semantic) (int64, *flinkjson.Failure) {
	const milli, micro, nano = 1e3, 1e6, 1e9
	isTime := t.Root == changelog.RootTime
	if of != nil && of.name != "" {
		perSecond, ok := flinkjson.SourceUnit(of.name, isTime)
		if !ok {
			return 0, schemaSays(of, t)
		}
		return perSecond, nil
	}
	switch {
	case s.Time == TimeConnect:
		return milli, nil
	case isTime && s.Time == TimeAdaptiveMicroseconds:
		return micro, nil
	case t.Precision <= 3:
		return milli, nil
	case t.Precision <= 6:
		return micro, nil
	}
	return nano, nil
}

// decimal reads a number that is bytes: Connect's Decimal at the scale of the schema or of the column, or Debezium's VariableScaleDecimal,
// which has its scale with it.
func (s *sourceTypes) decimal(t *changelog.Type, n *flinkjson.Node, of *semantic, dst *changelog.Value) (taken bool, f *flinkjson.Failure) {
	scale := int64(t.Scale)
	switch {
	case n.Kind() == flinkjson.NodeObject:
		at, value := n.Member("scale"), n.Member("value")
		if at == nil || value == nil || at.Kind() != flinkjson.NodeInt {
			return true, flinkjson.Misfit(changelog.Missing, "an object without 'scale' and 'value' is no "+t.String())
		}
		var err error
		if scale, err = strconv.ParseInt(string(at.Text()), 10, 32); err != nil {
			return true, flinkjson.Misfit(changelog.WrongType, "'scale' is no number of 32 bits")
		}
		n = value
	case of != nil:
		if !of.bytes {
			return false, nil
		}
		scale = int64(of.scale)
	case s.Decimal != DecimalPrecise:
		return false, nil
	}
	if n.Kind() != flinkjson.NodeString {
		return false, nil
	}
	raw, ok := flinkjson.Base64(n.Text())
	if !ok || len(raw) == 0 {
		return true, flinkjson.Misfit(changelog.WrongType, "no number in base64; if the connector has decimal.handling.mode string or double, set SourceTypes.Decimal to DecimalAsText")
	}
	if len(raw) > flinkjson.MaxUnscaled {
		return true, flinkjson.Misfit(changelog.OutOfRange, "more digits than "+t.String()+" has")
	}
	v, ok := flinkjson.SourceDecimal(raw, scale, t)
	if !ok {
		return true, flinkjson.Misfit(changelog.OutOfRange, "more digits than "+t.String()+" has, before or after the point")
	}
	*dst = v
	return true, nil
}
