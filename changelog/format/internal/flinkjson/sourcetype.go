package flinkjson

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
)

// Forms in which Debezium and Kafka Connect send what JSON and Avro have no type for. Flink reads none of them.

// SourceUnit returns how many units of a type of Debezium or Connect make a second ("io.debezium.time.MicroTimestamp"). ok is false where the name is
// none of a number of the kind that is asked for, a time of day or a point in time.
func SourceUnit(name string, isTime bool) (perSecond int64, ok bool) {
	kind, _ := strings.CutPrefix(name, "io.debezium.time.")
	kind, _ = strings.CutPrefix(kind, "org.apache.kafka.connect.data.")
	unit, isOfTime := strings.CutSuffix(kind, "Time")
	if !isOfTime {
		var isStamp bool
		if unit, isStamp = strings.CutSuffix(kind, "Timestamp"); !isStamp {
			return 0, false
		}
	}
	switch unit {
	case "":
		perSecond = 1e3
	case "Micro":
		perSecond = 1e6
	case "Nano":
		perSecond = 1e9
	}
	return perSecond, perSecond > 0 && isOfTime == isTime
}

// SourceDate reads a number of days. Flink's DATE has 32 bits of them.
func SourceDate(days int64, dst *changelog.Value) *Failure {
	if days < math.MinInt32 || days > math.MaxInt32 {
		return Misfit(changelog.OutOfRange, "a number of days that no DATE has, which has 32 bits")
	}
	*dst = changelog.DateValue(days)
	return nil
}

// SourceTime reads a time of day or a point in time that is a number of units.
func SourceTime(t *changelog.Type, v, perSecond int64, dst *changelog.Value) *Failure {
	sec, rest := v/perSecond, v%perSecond
	if rest < 0 {
		sec, rest = sec-1, rest+perSecond
	}
	nanos := rest * (1e9 / perSecond)
	switch t.Root {
	case changelog.RootTime:
		if v < 0 || sec >= 86400 {
			return Misfit(changelog.OutOfRange, "a number that is no time of a day; a MySQL TIME can be longer: declare the column BIGINT")
		}
		*dst = changelog.TimeValue(sec*1e9 + nanos)
	case changelog.RootTimestamp:
		*dst = changelog.TimestampValue(sec, int32(nanos))
	default:
		*dst = changelog.TimestampLTZValue(sec, int32(nanos))
	}
	return nil
}

// SourceZoned reads an ISO text with a zone (ZonedTimestamp, ZonedTime, IsoTimestamp, IsoTime), whichever the option timestamp-format.standard is. A
// TIMESTAMP or TIME takes it as UTC.
func SourceZoned(t *changelog.Type, text string, dst *changelog.Value) bool {
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

// MaxUnscaled is more bytes than the unscaled number of a DECIMAL(38, s) has at any scale that is not all zeros.
const MaxUnscaled = 64

// SourceDecimal makes a DECIMAL of an unscaled number in two's complement, if its type holds all digits.
func SourceDecimal(raw []byte, scale int64, t *changelog.Type) (changelog.Value, bool) {
	if len(raw) == 0 || len(raw) > MaxUnscaled {
		return changelog.Value{}, false
	}
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

// SourceText makes a DECIMAL of a number in text, if its type holds all digits.
func SourceText(s []byte, t *changelog.Type) (changelog.Value, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(s)), "e")
	e := int64(0)
	if exponent != "" {
		var err error
		if e, err = strconv.ParseInt(exponent, 10, 16); err != nil {
			return changelog.Value{}, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "+-")
	if drop := int64(len(fraction)) - e - int64(t.Scale); drop > 0 && strings.Trim(digits, "0") != "" &&
		(drop >= int64(len(digits)) || strings.Trim(digits[int64(len(digits))-drop:], "0") != "") {
		return changelog.Value{}, false
	}
	v, err := changelog.ParseDecimal(s, t.Precision, t.Scale)
	return v, err == nil
}
