package changelog

import (
	"strconv"
	"strings"
)

// String returns the text that Flink's documentation and messages use (LogicalType.asSummaryString): "DECIMAL(10, 2) NOT NULL",
// "STRING", "TIMESTAMP_LTZ(3)". It differs from Flink's where that could not be read back: field names are quoted
// where they must be ("ROW<a INT, `b c` INT>") rather than always, and the snapshot of a RAW type is whole. Field comments are
// left out. [ParseType] reads it back as an equal type.
func (t Type) String() string {
	var b strings.Builder
	t.write(&b, false)
	return b.String()
}

// SQL returns the text that Flink stores and SHOW CREATE TABLE prints (LogicalType.asSerializableString):
// "VARCHAR(2147483647)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", field names always quoted, field comments included.
func (t Type) SQL() string {
	var b strings.Builder
	t.write(&b, true)
	return b.String()
}

// FromSQL returns what Flink's SQL makes of the type when it stands in a CREATE TABLE: TIME(p) is TIME(0), at any depth (Flink
// 2.2 and before; seen in SHOW CREATE TABLE). Types that come from Flink's own text have been through that already.
func (t Type) FromSQL() Type {
	if t.Root == RootTime {
		t.Precision = 0
	}
	if t.Key != nil {
		key := t.Key.FromSQL()
		t.Key = &key
	}
	if t.Elem != nil {
		elem := t.Elem.FromSQL()
		t.Elem = &elem
	}
	if t.Fields != nil {
		fields := make([]Field, len(t.Fields))
		for i, f := range t.Fields {
			f.Type = f.Type.FromSQL()
			fields[i] = f
		}
		t.Fields = fields
	}
	return t
}

// Equal reports whether t and u are the same type, NOT NULL included. Comments do not count.
func (t Type) Equal(u Type) bool {
	if t.Root != u.Root || t.NotNull != u.NotNull || t.Length != u.Length || t.Precision != u.Precision || t.Scale != u.Scale ||
		t.Interval != u.Interval || t.Name != u.Name || t.Snapshot != u.Snapshot || len(t.Fields) != len(u.Fields) {
		return false
	}
	for i := range t.Fields {
		if t.Fields[i].Name != u.Fields[i].Name || !t.Fields[i].Type.Equal(u.Fields[i].Type) {
			return false
		}
	}
	return equalTypes(t.Key, u.Key) && equalTypes(t.Elem, u.Elem)
}

func equalTypes(t, u *Type) bool {
	if t == nil || u == nil {
		return t == u
	}
	return t.Equal(*u)
}

// words returns the two ends of the resolution as SQL writes them: "DAY" and " TO SECOND".
func (u IntervalUnit) words() (from, until string) {
	switch u {
	case IntervalYear:
		return "YEAR", ""
	case IntervalYearToMonth:
		return "YEAR", " TO MONTH"
	case IntervalMonth:
		return "MONTH", ""
	case IntervalDay:
		return "DAY", ""
	case IntervalDayToHour:
		return "DAY", " TO HOUR"
	case IntervalDayToMinute:
		return "DAY", " TO MINUTE"
	case IntervalDayToSecond:
		return "DAY", " TO SECOND"
	case IntervalHour:
		return "HOUR", ""
	case IntervalHourToMinute:
		return "HOUR", " TO MINUTE"
	case IntervalHourToSecond:
		return "HOUR", " TO SECOND"
	case IntervalMinute:
		return "MINUTE", ""
	case IntervalMinuteToSecond:
		return "MINUTE", " TO SECOND"
	case IntervalSecond:
		return "SECOND", ""
	}
	return "", ""
}

// write appends the type, in its summary or its serializable form.
func (t *Type) write(b *strings.Builder, sql bool) {
	switch t.Root {
	case RootChar:
		writeSized(b, "CHAR", t.Length)
	case RootVarchar:
		if t.Length == MaxLength && !sql {
			b.WriteString("STRING")
		} else {
			writeSized(b, "VARCHAR", t.Length)
		}
	case RootBinary:
		writeSized(b, "BINARY", t.Length)
	case RootVarbinary:
		if t.Length == MaxLength && !sql {
			b.WriteString("BYTES")
		} else {
			writeSized(b, "VARBINARY", t.Length)
		}
	case RootDecimal:
		b.WriteString("DECIMAL(" + strconv.Itoa(t.Precision) + ", " + strconv.Itoa(t.Scale) + ")")
	case RootTime:
		writeSized(b, "TIME", t.Precision)
	case RootTimestamp:
		writeSized(b, "TIMESTAMP", t.Precision)
	case RootTimestampTZ:
		writeSized(b, "TIMESTAMP", t.Precision)
		b.WriteString(" WITH TIME ZONE")
	case RootTimestampLTZ:
		if sql {
			writeSized(b, "TIMESTAMP", t.Precision)
			b.WriteString(" WITH LOCAL TIME ZONE")
		} else {
			writeSized(b, "TIMESTAMP_LTZ", t.Precision)
		}
	case RootIntervalYearMonth, RootIntervalDayTime:
		t.writeInterval(b)
	case RootArray, RootMultiset:
		b.WriteString(t.Root.name() + "<")
		writeElem(b, t.Elem, sql)
		b.WriteByte('>')
	case RootMap:
		b.WriteString("MAP<")
		writeElem(b, t.Key, sql)
		b.WriteString(", ")
		writeElem(b, t.Elem, sql)
		b.WriteByte('>')
	case RootRow:
		b.WriteString("ROW<")
		writeFields(b, t.Fields, sql)
		b.WriteByte('>')
	case RootRaw:
		b.WriteString("RAW(")
		writeString(b, t.Name)
		b.WriteString(", ")
		writeString(b, t.Snapshot)
		b.WriteByte(')')
	case RootStructured:
		if strings.HasPrefix(t.Name, "`") {
			b.WriteString(t.Name)
			break
		}
		b.WriteString("STRUCTURED<")
		writeString(b, t.Name)
		if len(t.Fields) > 0 {
			b.WriteString(", ")
			writeFields(b, t.Fields, sql)
		}
		b.WriteByte('>')
	default:
		b.WriteString(t.Root.name())
	}
	if t.NotNull {
		b.WriteString(" NOT NULL")
	}
}

// name returns the word for the root: the first of the type's text.
func (r Root) name() string {
	switch r {
	case RootBoolean:
		return "BOOLEAN"
	case RootTinyInt:
		return "TINYINT"
	case RootSmallInt:
		return "SMALLINT"
	case RootInt:
		return "INT"
	case RootBigInt:
		return "BIGINT"
	case RootFloat:
		return "FLOAT"
	case RootDouble:
		return "DOUBLE"
	case RootDate:
		return "DATE"
	case RootArray:
		return "ARRAY"
	case RootMultiset:
		return "MULTISET"
	case RootNull:
		return "NULL"
	case RootVariant:
		return "VARIANT"
	case RootBitmap:
		return "BITMAP"
	}
	return "INVALID"
}

func (t *Type) writeInterval(b *strings.Builder) {
	from, until := t.Interval.words()
	b.WriteString("INTERVAL ")
	if from == "YEAR" || from == "DAY" {
		writeSized(b, from, t.Precision)
	} else {
		b.WriteString(from)
	}
	b.WriteString(until)
	if t.Interval == IntervalSecond || until == " TO SECOND" {
		writeSized(b, "", t.Scale)
	}
}

func writeSized(b *strings.Builder, word string, n int) {
	b.WriteString(word)
	b.WriteByte('(')
	b.WriteString(strconv.Itoa(n))
	b.WriteByte(')')
}

func writeElem(b *strings.Builder, t *Type, sql bool) {
	if t == nil {
		b.WriteString("INVALID")
		return
	}
	t.write(b, sql)
}

func writeFields(b *strings.Builder, fields []Field, sql bool) {
	for i := range fields {
		f := &fields[i]
		if i > 0 {
			b.WriteString(", ")
		}
		if sql || identifierLen(f.Name) != len(f.Name) || f.Name == "" || reserved(upperASCII(f.Name)) {
			appendQuoted(b, f.Name)
		} else {
			b.WriteString(f.Name)
		}
		b.WriteByte(' ')
		f.Type.write(b, sql)
		if sql && f.Comment != "" {
			b.WriteByte(' ')
			writeString(b, f.Comment)
		}
	}
}

// appendQuoted writes an identifier in back-quotes.
func appendQuoted(b *strings.Builder, name string) {
	b.WriteString("`" + strings.ReplaceAll(name, "`", "``") + "`")
}

func writeString(b *strings.Builder, s string) {
	b.WriteString("'" + strings.ReplaceAll(s, "'", "''") + "'")
}
