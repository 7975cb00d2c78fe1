package changelog

// Root is the root of a logical type, Flink's LogicalTypeRoot
// (https://nightlies.apache.org/flink/flink-docs-stable/docs/sql/reference/data-types/).
type Root uint8

const (
	RootInvalid Root = iota
	RootChar
	RootVarchar // STRING is VARCHAR(2147483647)
	RootBoolean
	RootBinary
	RootVarbinary // BYTES is VARBINARY(2147483647)
	RootDecimal
	RootTinyInt
	RootSmallInt
	RootInt
	RootBigInt
	RootFloat
	RootDouble
	RootDate
	RootTime
	RootTimestamp
	RootTimestampTZ  // TIMESTAMP WITH TIME ZONE: parsed and printed; no format reads or writes it
	RootTimestampLTZ // TIMESTAMP WITH LOCAL TIME ZONE
	RootIntervalYearMonth
	RootIntervalDayTime
	RootArray
	RootMultiset
	RootMap
	RootRow
	RootNull
	RootRaw        // RAW('class', 'snapshot'): parsed and printed only
	RootVariant    // VARIANT (Flink 2.1): parsed and printed only
	RootStructured // a user-defined type by name, or STRUCTURED<'class', ...>: parsed and printed only
	RootBitmap     // BITMAP (Flink 2.3): parsed and printed only
)

// MaxLength is the length of STRING and BYTES.
const MaxLength = 2147483647

// Type is one of Flink's logical types. The zero value of NotNull is Flink's default: a type is nullable.
type Type struct {
	Root      Root
	NotNull   bool
	Length    int          // CHAR, VARCHAR, BINARY, VARBINARY
	Precision int          // DECIMAL digits; TIME and TIMESTAMP fraction digits; leading digits of an INTERVAL (year or day)
	Scale     int          // DECIMAL; fraction digits of a day-time INTERVAL
	Interval  IntervalUnit // INTERVAL
	Key       *Type        // MAP
	Elem      *Type        // ARRAY, MULTISET; the value of a MAP
	Fields    []Field      // ROW, STRUCTURED
	Name      string       // RAW, STRUCTURED: the class; a user-defined type that is known by its name: that, in back-quotes
	Snapshot  string       // RAW: the serializer snapshot
}

// Field is one field of a ROW.
type Field struct {
	Name    string
	Type    Type
	Comment string
}

// IntervalUnit is the resolution of an INTERVAL type.
type IntervalUnit uint8

const (
	IntervalYear IntervalUnit = iota + 1
	IntervalYearToMonth
	IntervalMonth
	IntervalDay
	IntervalDayToHour
	IntervalDayToMinute
	IntervalDayToSecond
	IntervalHour
	IntervalHourToMinute
	IntervalHourToSecond
	IntervalMinute
	IntervalMinuteToSecond
	IntervalSecond
)
