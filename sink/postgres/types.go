package postgres

import (
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5/pgtype"
)

// pgType is the type of a column as the server's catalogue has it.
type pgType struct {
	oid    uint32 // of the type under all domains
	name   string // of the column's own type, schema-qualified and quoted, for casts
	shown  string // as people write it, with length or precision
	mod    int32  // type modifier: length, precision and scale; -1: none
	kind   byte   // pg_type.typtype: b base, e enum, r range, m multirange, c composite
	citext bool   // the type of the extension citext, whose OID is another in each database
	hstore bool   // the type of the extension hstore
	elem   *pgType
	fields []pgColumn // attributes of a composite type

	domain  bool // it is a domain, over the type of oid
	refuses bool // of elements: their domain refuses NULL

	relation uint32 // that holds them in the catalogue
}

// binder says how values get into a column: as elements of one array for each column, which unnest makes rows of.
type binder struct {
	array, elem uint32 // OIDs of the parameter and of its elements
	cast        string // ::"type" where the elements are text that the type's own input function reads, or ""
	put         encoder
}

// encoder appends the binary form of a value that is not NULL. Its errors hold reasons and never the value.
type encoder func(dst []byte, v changelog.Value) ([]byte, error)

// rule is what fit has to hold to.
type rule struct {
	key      bool // values that differ have to stay different
	truncate bool // Options.TruncateNanos
	cast     bool // Options.Cast
}

// fit returns how values of a Flink type are written into a column, or says why the column cannot hold all of them exactly. Wider
// columns are fine: each pair here loses nothing.
//
//	BOOLEAN             boolean
//	TINYINT .. BIGINT   smallint, integer, bigint at least as wide; numeric; real and double precision while exact
//	FLOAT, DOUBLE       real (FLOAT only), double precision
//	DECIMAL(p, s)       numeric with at least as many digits before and after the point; smallint .. bigint for scale 0
//	CHAR .. STRING      text, varchar, char, citext, uuid, json, jsonb, xml, inet, cidr, macaddr, macaddr8, enums
//	BINARY .. BYTES     bytea
//	DATE, TIME          date, time
//	TIMESTAMP           timestamp (never timestamptz: it would gain a zone)
//	TIMESTAMP_LTZ       timestamptz (never timestamp: it would lose its)
//	INTERVAL            interval
//	ARRAY, also of ARRAY  an array whose elements fit, and a rectangular one of several dimensions; jsonb, json
//	MAP of scalars      hstore; jsonb, json
//	ROW                 a composite type whose attributes fit its fields; jsonb, json
//	ARRAY, MAP, MULTISET, ROW  jsonb, json
//
// text and varchar hold every type: scalars as Flink's CAST(x AS STRING) prints them (bytes as hex), the others as JSON.
func fit(src *changelog.Type, to *pgType, r rule) (binder, error) {
	switch src.Root {
	case changelog.RootChar, changelog.RootVarchar:
		if r.cast {
			return fitCast(to, r)
		}
		return fitString(to, r)
	case changelog.RootArray:
		if to.elem != nil {
			return fitArray(src, to, r)
		}
		return fitNested(src, to)
	case changelog.RootMap, changelog.RootMultiset, changelog.RootRow:
		switch {
		case src.Root == changelog.RootRow && to.kind == 'c':
			return fitComposite(src, to, r)
		case src.Root == changelog.RootMap && to.hstore:
			return fitHstore(src, to, r)
		}
		return fitNested(src, to)
	}
	if to.oid == pgtype.TextOID || to.oid == pgtype.VarcharOID {
		return fitText(src, to, r)
	}
	if b, ok := fitScalar(src, to, r); ok {
		b.put = only(kindOf(src), b.put)
		return b, nil
	}
	return binder{}, misfit(src, to, r)
}

// only lets values of one kind through. Some encoders take several, whose pairs of types are all exact, but what is exact is a
// property of the source's type.
func only(kind changelog.ValueKind, put encoder) encoder {
	return func(dst []byte, v changelog.Value) ([]byte, error) {
		if v.Kind() != kind {
			return dst, errKind
		}
		return put(dst, v)
	}
}

// misfit names the column type that would do.
func misfit(src *changelog.Type, to *pgType, r rule) error {
	const finer = "keeps microseconds only"
	switch src.Root {
	case changelog.RootTime, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		if src.Precision > 6 && (to.oid == pgtype.TimeOID || to.oid == pgtype.TimestampOID || to.oid == pgtype.TimestamptzOID) && src.Root != changelog.RootTimestampTZ {
			switch {
			case r.key:
				return fmt.Errorf("type %s cannot hold %s in a key, since it %s: make the column text", to.shown, src, finer)
			case !r.truncate:
				return fmt.Errorf("type %s cannot hold %s, since it %s: make the column text, or set Options.TruncateNanos to cut the finer digits off", to.shown, src, finer)
			}
		}
	}
	if want, ok := sqlType(src, r); ok {
		return fmt.Errorf("type %s cannot hold %s: make the column %s", to.shown, src, want)
	}
	return fmt.Errorf("%s cannot be written to Postgres: leave the column out with an empty name in Options.Columns", src)
}

// sqlType is the column type that CREATE TABLE gets for a Flink type.
func sqlType(src *changelog.Type, r rule) (string, bool) {
	switch src.Root {
	case changelog.RootBoolean:
		return "boolean", true
	case changelog.RootTinyInt, changelog.RootSmallInt:
		return "smallint", true
	case changelog.RootInt:
		return "integer", true
	case changelog.RootBigInt:
		return "bigint", true
	case changelog.RootFloat:
		return "real", true
	case changelog.RootDouble:
		return "double precision", true
	case changelog.RootDecimal:
		return fmt.Sprintf("numeric(%d,%d)", src.Precision, src.Scale), true
	case changelog.RootChar, changelog.RootVarchar:
		return "text", true // Flink does not enforce lengths in what it writes to Kafka
	case changelog.RootBinary, changelog.RootVarbinary:
		return "bytea", true
	case changelog.RootDate:
		return "date", true
	case changelog.RootTime:
		return fraction("time", "", src, r), true
	case changelog.RootTimestamp:
		return fraction("timestamp", "", src, r), true
	case changelog.RootTimestampLTZ:
		return fraction("timestamp", " with time zone", src, r), true
	case changelog.RootIntervalDayTime, changelog.RootIntervalYearMonth:
		return "interval", true
	case changelog.RootArray:
		if e := src.Elem; e != nil && isArrayElement(e) {
			if t, ok := sqlType(e, r); ok {
				return t + "[]", true
			}
		}
		return "jsonb", jsonProblem(src) == nil
	case changelog.RootMap, changelog.RootMultiset, changelog.RootRow:
		return "jsonb", jsonProblem(src) == nil
	}
	return "", false
}

func fraction(name, zone string, src *changelog.Type, r rule) string {
	p := src.Precision
	if p > 6 {
		if r.key || !r.truncate {
			return "text"
		}
		p = 6
	}
	return fmt.Sprintf("%s(%d)%s", name, p, zone)
}

// isArrayElement: an array of it is a Postgres array, whatever values it has. An array of arrays is one only where it is rectangular, which Flink's need not be.
func isArrayElement(t *changelog.Type) bool {
	switch t.Root {
	case changelog.RootArray, changelog.RootMap, changelog.RootMultiset, changelog.RootRow:
		return false
	}
	return true
}

func fitString(to *pgType, r rule) (binder, error) {
	switch to.oid {
	case pgtype.TextOID:
		return binder{pgtype.TextArrayOID, pgtype.TextOID, "", putString(0)}, nil
	case pgtype.VarcharOID:
		// The length is checked here: the server would cut trailing spaces off silently.
		return binder{pgtype.TextArrayOID, pgtype.TextOID, "", putString(length(to))}, nil
	case pgtype.BPCharOID:
		if r.key {
			return binder{}, fmt.Errorf("type %s cannot hold a key, since it takes texts that differ in trailing spaces for equal: make the column text", to.shown)
		}
		return binder{pgtype.TextArrayOID, pgtype.TextOID, "", putString(length(to))}, nil
	case pgtype.JSONBOID:
		if r.key {
			return binder{}, fmt.Errorf("type jsonb cannot hold a key, since it takes different texts for equal: make the column text")
		}
		return binder{pgtype.JSONBArrayOID, pgtype.JSONBOID, "", putJSONText}, nil
	}
	if !keepsText(to) {
		return binder{}, fmt.Errorf("type %s cannot hold every text unchanged: make the column text, declare the source column with a type that fits, or name it in Options.Cast to take what Postgres makes of the text", to.shown)
	}
	if r.key && to.citext {
		return binder{}, fmt.Errorf("type %s cannot hold a key, since it takes different texts for equal: make the column text", to.shown)
	}
	if r.key && to.unequal() {
		return binder{}, fmt.Errorf("type %s cannot hold a key, since Postgres has no = for domains over an enum: make the column text, or of the enum itself", to.shown)
	}
	return binder{pgtype.TextArrayOID, pgtype.TextOID, "::" + to.name, putString(0)}, nil
}

// unequal reports whether = does not find its way to the type: that of enums is polymorphic, and takes no domain for one.
func (t *pgType) unequal() bool { return t.domain && t.kind == 'e' }

// keepsText lists the types beyond text that a text may go into by the type's own input function: each stands for the text that was sent, or
// refuses it. It is a list and not a rule, since neither the category nor the kind of a type tells this: "char" and name cut a text off
// without a word, bytea reads escapes, bit(n) pads, tsvector sorts words and drops some, ranges move their bounds, and what the types of
// extensions do nobody knows.
func keepsText(to *pgType) bool {
	switch to.oid {
	case pgtype.UUIDOID, pgtype.JSONOID, pgtype.XMLOID, pgtype.InetOID, pgtype.CIDROID, pgtype.MacaddrOID, pgtype.Macaddr8OID:
		return true
	}
	return to.citext || to.kind == 'e'
}

// length is the n of varchar(n) and char(n), 0 when there is none.
func length(t *pgType) int { return max(int(t.mod)-4, 0) }

// fitText writes scalars as Flink's CAST(x AS STRING) prints them.
func fitText(src *changelog.Type, to *pgType, r rule) (binder, error) {
	switch src.Root {
	case changelog.RootRaw, changelog.RootVariant, changelog.RootBitmap, changelog.RootStructured, changelog.RootNull, changelog.RootTimestampTZ, changelog.RootInvalid:
		return binder{}, misfit(src, to, rule{})
	}
	limit := length(to)
	if to.oid == pgtype.TextOID {
		limit = 0
	}
	kind := kindOf(src)
	return binder{pgtype.TextArrayOID, pgtype.TextOID, "", func(dst []byte, v changelog.Value) ([]byte, error) {
		if v.Kind() != kind {
			return dst, errKind
		}
		start := len(dst)
		if r.key {
			v = oneSpelling(v)
		}
		dst = changelog.AppendText(dst, src, v)
		if limit > 0 && len(dst)-start > limit {
			return dst, errTooLong
		}
		return dst, nil
	}}, nil
}

// oneSpelling gives keys that are equal one text: 0 and -0 are one key, and their texts would be two.
func oneSpelling(v changelog.Value) changelog.Value {
	switch {
	case v.Kind() == changelog.KindFloat && v.Float() == 0:
		return changelog.FloatValue(0)
	case v.Kind() == changelog.KindDouble && v.Double() == 0:
		return changelog.DoubleValue(0)
	}
	return v
}

// fitNested writes JSON.
func fitNested(src *changelog.Type, to *pgType) (binder, error) {
	if err := jsonProblem(src); err != nil {
		return binder{}, err
	}
	put := func(dst []byte, v changelog.Value) ([]byte, error) { return appendJSON(dst, src, v) }
	switch {
	case to.oid == pgtype.JSONBOID:
		return binder{pgtype.JSONBArrayOID, pgtype.JSONBOID, "", func(dst []byte, v changelog.Value) ([]byte, error) {
			return appendJSON(append(dst, jsonbVersion), src, v)
		}}, nil
	case to.oid == pgtype.JSONOID:
		return binder{pgtype.TextArrayOID, pgtype.TextOID, "::" + to.name, put}, nil
	case to.oid == pgtype.TextOID, to.oid == pgtype.VarcharOID && to.mod == -1:
		return binder{pgtype.TextArrayOID, pgtype.TextOID, "", put}, nil
	}
	return binder{}, misfit(src, to, rule{})
}

func fitScalar(src *changelog.Type, to *pgType, r rule) (binder, bool) {
	switch src.Root {
	case changelog.RootBoolean:
		return binder{pgtype.BoolArrayOID, pgtype.BoolOID, "", putBool}, to.oid == pgtype.BoolOID
	case changelog.RootTinyInt:
		return fitInt(1, to)
	case changelog.RootSmallInt:
		return fitInt(2, to)
	case changelog.RootInt:
		return fitInt(4, to)
	case changelog.RootBigInt:
		return fitInt(8, to)
	case changelog.RootFloat:
		switch to.oid {
		case pgtype.Float4OID:
			return binder{pgtype.Float4ArrayOID, pgtype.Float4OID, "", putFloat4}, true
		case pgtype.Float8OID:
			return binder{pgtype.Float8ArrayOID, pgtype.Float8OID, "", putFloat8}, true
		}
	case changelog.RootDouble:
		return binder{pgtype.Float8ArrayOID, pgtype.Float8OID, "", putFloat8}, to.oid == pgtype.Float8OID
	case changelog.RootDecimal:
		return fitDecimal(src, to)
	case changelog.RootBinary, changelog.RootVarbinary:
		return binder{pgtype.ByteaArrayOID, pgtype.ByteaOID, "", putBytes}, to.oid == pgtype.ByteaOID
	case changelog.RootDate:
		return binder{pgtype.DateArrayOID, pgtype.DateOID, "", putDate}, to.oid == pgtype.DateOID
	case changelog.RootTime:
		unit, ok := fractionUnit(src, to, r)
		return binder{pgtype.TimeArrayOID, pgtype.TimeOID, "", putTime(unit, r.truncate)}, ok && to.oid == pgtype.TimeOID
	case changelog.RootTimestamp:
		unit, ok := fractionUnit(src, to, r)
		return binder{pgtype.TimestampArrayOID, pgtype.TimestampOID, "", putTimestamp(changelog.KindTimestamp, unit, r.truncate)}, ok && to.oid == pgtype.TimestampOID
	case changelog.RootTimestampLTZ:
		unit, ok := fractionUnit(src, to, r)
		return binder{pgtype.TimestamptzArrayOID, pgtype.TimestamptzOID, "", putTimestamp(changelog.KindTimestampLTZ, unit, r.truncate)}, ok && to.oid == pgtype.TimestamptzOID
	case changelog.RootIntervalYearMonth:
		return binder{pgtype.IntervalArrayOID, pgtype.IntervalOID, "", putMonths}, to.oid == pgtype.IntervalOID && to.mod == -1
	case changelog.RootIntervalDayTime:
		return binder{pgtype.IntervalArrayOID, pgtype.IntervalOID, "", putMillis}, to.oid == pgtype.IntervalOID && to.mod == -1
	}
	return binder{}, false
}
