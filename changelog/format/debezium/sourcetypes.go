package debezium

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

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
			return zoned(t, string(n.Text()), dst), nil
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
			return flinkjson.Misfit(changelog.SchemaMismatch, "the schema says "+of.name+", and the column is DATE; declare it as the schema says")
		}
		if v < -365_243_219_162 || v > 365_241_780_471 { // java.time.LocalDate
			return flinkjson.Misfit(changelog.OutOfRange, "a number of days beyond all calendars")
		}
		*dst = changelog.DateValue(v)
		return nil
	}
	perSecond, f := s.unit(t, of)
	if f != nil {
		return f
	}
	sec, rest := v/perSecond, v%perSecond
	if rest < 0 {
		sec, rest = sec-1, rest+perSecond
	}
	nanos := rest * (1e9 / perSecond)
	switch t.Root {
	case changelog.RootTime:
		if v < 0 || sec >= 86400 {
			return flinkjson.Misfit(changelog.OutOfRange, "a number that is no time of a day; a MySQL TIME can be longer: declare the column BIGINT")
		}
		*dst = changelog.TimeValue(sec*1e9 + nanos)
	case changelog.RootTimestamp:
		*dst = changelog.TimestampValue(sec, int32(nanos))
	default:
		*dst = changelog.TimestampLTZValue(sec, int32(nanos))
	}
	return nil
}

// unit returns how many of a column's units make a second.
func (s *sourceTypes) unit(t *changelog.Type, of *semantic) (int64, *flinkjson.Failure) {
	const milli, micro, nano = 1e3, 1e6, 1e9
	isTime := t.Root == changelog.RootTime
	if of != nil && of.name != "" {
		kind, _ := strings.CutPrefix(of.name, "io.debezium.time.")
		kind, _ = strings.CutPrefix(kind, "org.apache.kafka.connect.data.")
		switch {
		case kind == "Time" && isTime, kind == "Timestamp" && !isTime:
			return milli, nil
		case kind == "MicroTime" && isTime, kind == "MicroTimestamp" && !isTime:
			return micro, nil
		case kind == "NanoTime" && isTime, kind == "NanoTimestamp" && !isTime:
			return nano, nil
		}
		return 0, flinkjson.Misfit(changelog.SchemaMismatch, "the schema says "+of.name+", and the column is "+t.String()+"; declare it as the schema says")
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

// zoned reads an ISO text with a zone (ZonedTimestamp, ZonedTime, IsoTimestamp, IsoTime), whichever the option timestamp-format.standard is. A
// TIMESTAMP or TIME takes it as UTC.
func zoned(t *changelog.Type, text string, dst *changelog.Value) bool {
	if t.Root == changelog.RootDate {
		at, err := time.Parse("2006-01-02Z07:00", text)
		if err == nil {
			year, month, day := at.Date()
			*dst = changelog.DateValue(changelog.DaysOf(int64(year), int(month), day))
		}
		return err == nil
	}
	if t.Root == changelog.RootTime {
		at, err := time.Parse("15:04:05Z07:00", text)
		if err == nil {
			at = at.UTC()
			*dst = changelog.TimeValue(int64(at.Hour()*3600+at.Minute()*60+at.Second())*1e9 + int64(at.Nanosecond()))
		}
		return err == nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return false
	}
	if *dst = changelog.TimestampLTZValue(at.Unix(), int32(at.Nanosecond())); t.Root == changelog.RootTimestamp {
		*dst = changelog.TimestampValue(at.Unix(), int32(at.Nanosecond()))
	}
	return true
}

// maxUnscaled is more bytes than the unscaled number of a DECIMAL(38, s) has at any scale that is not all zeros.
const maxUnscaled = 64

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
	if len(raw) > maxUnscaled {
		return true, flinkjson.Misfit(changelog.OutOfRange, "more digits than "+t.String()+" has")
	}
	v, ok := exactDecimal(raw, scale, t)
	if !ok {
		return true, flinkjson.Misfit(changelog.OutOfRange, "more digits than "+t.String()+" has, before or after the point")
	}
	*dst = v
	return true, nil
}

// exactDecimal makes a DECIMAL of an unscaled number in two's complement, if its type holds all digits.
func exactDecimal(raw []byte, scale int64, t *changelog.Type) (changelog.Value, bool) {
	u := new(big.Int).SetBytes(raw)
	if raw[0]&0x80 != 0 {
		u.Sub(u, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	text := u.Text(10)
	// Digits beyond the column's scale must be zeros; ParseDecimal would round them away.
	if drop := scale - int64(t.Scale); drop > 0 && u.Sign() != 0 {
		digits := strings.TrimPrefix(text, "-")
		if drop >= int64(len(digits)) || strings.Trim(digits[int64(len(digits))-drop:], "0") != "" {
			return changelog.Value{}, false
		}
	}
	v, err := changelog.ParseDecimal([]byte(text+"e"+strconv.FormatInt(-scale, 10)), t.Precision, t.Scale)
	return v, err == nil
}
