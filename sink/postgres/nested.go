package postgres

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5/pgtype"
)

// This file writes what Postgres reads as the text of another type: elements of arrays, composite types, hstore, and texts that are to be cast.

// input returns the encoder of the text from which a type's input function makes the value of a column, an element or an attribute, under every
// setting of DateStyle and the like.
func input(src *changelog.Type, to *pgType, r rule) (encoder, error) {
	b, err := fit(src, to, r)
	if err != nil {
		return nil, err
	}
	switch b.elem {
	case pgtype.TextOID: // it is text already
		return b.put, nil
	case pgtype.JSONBOID:
		return func(dst []byte, v changelog.Value) ([]byte, error) {
			start := len(dst)
			dst, err := b.put(dst, v)
			if err != nil {
				return dst, err
			}
			return slices.Delete(dst, start, start+1), nil // the version of the binary form
		}, nil
	}
	return func(dst []byte, v changelog.Value) ([]byte, error) {
		checked, err := b.put(dst, v)
		if err != nil {
			return dst, err
		}
		return appendInput(checked[:len(dst)], src, v), nil
	}, nil
}

// appendQuoted puts text into double quotes, in which a quote is escaped by escape and a backslash by a backslash.
func appendQuoted(dst, text []byte, escape byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		switch c {
		case '"':
			dst = append(dst, escape)
		case '\\':
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// fitComposite writes the text form of a composite type, whose attributes have the names of the ROW's fields, in any order.
func fitComposite(src *changelog.Type, to *pgType, r rule) (binder, error) {
	if r.key {
		return binder{}, fmt.Errorf("type %s cannot hold a key: make the column text", to.shown)
	}
	var errs []error
	from := make([]int, len(to.fields)) // the ROW's field of each attribute
	puts := make([]encoder, len(to.fields))
	for i, f := range to.fields {
		from[i] = slices.IndexFunc(src.Fields, func(s changelog.Field) bool { return s.Name == f.name })
		if from[i] < 0 {
			errs = append(errs, fmt.Errorf("attribute %s of type %s is no field of the ROW", quote(f.name), to.shown))
			continue
		}
		put, err := input(&src.Fields[from[i]].Type, &f.typ, r)
		if err != nil {
			errs = append(errs, fmt.Errorf("attribute %s of type %s: %w", quote(f.name), to.shown, err))
		}
		puts[i] = put
	}
	for i := range src.Fields {
		if !slices.Contains(from, i) {
			errs = append(errs, fmt.Errorf("type %s has no attribute %s", to.shown, quote(src.Fields[i].Name)))
		}
	}
	if len(errs) > 0 {
		return binder{}, fmt.Errorf("%w: make the column jsonb, or change the type", errors.Join(errs...))
	}
	return binder{pgtype.TextArrayOID, pgtype.TextOID, "::" + to.name, func(dst []byte, v changelog.Value) ([]byte, error) {
		fields := v.Elems()
		switch {
		case v.Kind() != changelog.KindRow:
			return dst, errKind
		case len(fields) != len(src.Fields):
			return dst, errShape
		}
		dst = append(dst, '(')
		for i, n := range from {
			if i > 0 {
				dst = append(dst, ',')
			}
			switch f := fields[n]; f.Kind() {
			case changelog.KindNull:
				if to.fields[i].notNull {
					return dst, errNull
				}
			case changelog.KindUnchanged:
				return dst, errUnchangedInside
			default:
				text, err := puts[i](nil, f)
				if err != nil {
					return dst, err
				}
				dst = appendQuoted(dst, text, '"')
			}
		}
		return append(dst, ')'), nil
	}}, nil
}

// fitHstore writes a MAP of scalars as the text form of hstore, with keys and values as Flink's CAST(x AS STRING) prints them.
func fitHstore(src *changelog.Type, to *pgType, r rule) (binder, error) {
	if r.key {
		return binder{}, fmt.Errorf("type %s cannot hold a key: make the column text", to.shown)
	}
	text := &pgType{oid: pgtype.TextOID, shown: "text", mod: -1}
	var puts [2]encoder
	for i, t := range []*changelog.Type{src.Key, src.Elem} {
		if kindOf(t) == changelog.KindNull {
			return binder{}, fmt.Errorf("type %s cannot hold %s: make the column jsonb", to.shown, src)
		}
		b, err := fit(t, text, rule{})
		if err != nil {
			return binder{}, err
		}
		puts[i] = b.put
	}
	return binder{pgtype.TextArrayOID, pgtype.TextOID, "::" + to.name, func(dst []byte, v changelog.Value) ([]byte, error) {
		pairs := v.Elems()
		switch {
		case v.Kind() != changelog.KindMap:
			return dst, errKind
		case len(pairs)%2 != 0:
			return dst, errShape
		}
		for i, p := range pairs {
			switch {
			case p.IsUnchanged():
				return dst, errUnchangedInside
			case p.IsNull() && i%2 == 0:
				return dst, errNullKey
			case i%2 == 1:
				dst = append(dst, "=>"...)
			case i > 0:
				dst = append(dst, ',')
			}
			if p.IsNull() {
				dst = append(dst, "NULL"...)
				continue
			}
			text, err := puts[i%2](nil, p)
			if err != nil {
				return dst, err
			}
			dst = appendQuoted(dst, text, '\\')
		}
		return dst, nil
	}}, nil
}

// fitCast sends a text through the input function of the column's type, whatever that makes of it: the user asked for it.
func fitCast(to *pgType, r rule) (binder, error) {
	if r.key {
		return binder{}, fmt.Errorf("type %s cannot hold a key that is cast, since two texts may become one value: declare the source column with a type that fits", to.shown)
	}
	return binder{pgtype.TextArrayOID, pgtype.TextOID, "::" + to.name, putString(0)}, nil
}

// appendInput appends the text that Postgres' input function reads under every setting of DateStyle and the like.
func appendInput(dst []byte, t *changelog.Type, v changelog.Value) []byte {
	switch v.Kind() {
	case changelog.KindFloat:
		// The digits of the double that equals it: those of the float would be another number where elements are double precision.
		return appendFloatInput(dst, float64(v.Float()))
	case changelog.KindDouble:
		return appendFloatInput(dst, v.Double())
	case changelog.KindBytes:
		return hex.AppendEncode(append(dst, `\x`...), v.Bytes())
	case changelog.KindDate:
		return appendEra(dst, v.Date(), "")
	case changelog.KindTimestamp, changelog.KindTimestampLTZ:
		sec, nsec := v.Timestamp()
		days := (sec - ((sec%86400)+86400)%86400) / 86400
		clock := changelog.AppendText([]byte{' '}, &changelog.Type{Root: changelog.RootTime, Precision: min(t.Precision, 6)},
			changelog.TimeValue((sec-days*86400)*1e9+int64(nsec)))
		if v.Kind() == changelog.KindTimestampLTZ {
			clock = append(clock, "+00"...)
		}
		return appendEra(dst, days, string(clock))
	case changelog.KindTime:
		return changelog.AppendText(dst, &changelog.Type{Root: changelog.RootTime, Precision: min(t.Precision, 6)}, v)
	}
	switch t.Root { // ISO 8601, which every IntervalStyle reads
	case changelog.RootIntervalYearMonth:
		return fmt.Appendf(dst, "P%dM", v.Int())
	case changelog.RootIntervalDayTime:
		return appendMillis(dst, v.Int())
	}
	return changelog.AppendText(dst, t, v)
}

// appendMillis appends milliseconds as hours, minutes and seconds: the server reads seconds as a double, which is exact for these few.
func appendMillis(dst []byte, n int64) []byte {
	sign := ""
	u := uint64(n)
	if n < 0 {
		sign, u = "-", -u
	}
	return fmt.Appendf(dst, "PT%[1]s%[2]dH%[1]s%[3]dM%[1]s%[4]d.%03[5]dS", sign, u/3600000, u/60000%60, u/1000%60, u%1000)
}

func appendFloatInput(dst []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// appendEra appends a date with its clock, and the era where it is before year 1.
func appendEra(dst []byte, days int64, clock string) []byte {
	year, month, day := changelog.CivilOf(days)
	era := ""
	if year < 1 {
		year, era = 1-year, " BC"
	}
	return fmt.Appendf(dst, "%04d-%02d-%02d%s%s", year, month, day, clock, era)
}
