package csv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Format is Flink's format 'csv'.
type Format struct{}

var _ changelog.Format = Format{}

// Name returns "csv".
func (Format) Name() string { return "csv" }

// Mode returns changelog.Append: the format knows no kinds of change.
func (Format) Mode() changelog.Mode { return changelog.Append }

// optionNames are the options of CsvFormatOptions in Flink 2.3.
var optionNames = []string{
	"allow-comments",
	"allow-trailing-comma",
	"array-element-delimiter",
	"disable-quote-character",
	"empty-string-as-null",
	"escape-character",
	"fail-on-missing-columns",
	"field-delimiter",
	"ignore-parse-errors",
	"ignore-trailing-unmappable",
	"null-literal",
	"quote-character",
	"trim-spaces",
	"write-bigdecimal-in-scientific-notation",
}

// options are the format's options. The characters are in UTF-8; quote and escape are "" where there is none.
type options struct {
	delimiter, quote, escape, between string
	null                              string
	hasNull                           bool
	comments, ignoreErrors            bool

	// The options that came with Flink 2.3. All of them are of reading only.
	trim      bool // blanks around a cell without quotes are none of it
	emptyNull bool // an empty cell is NULL
	extra     bool // cells beyond the table's columns are passed over
	whole     bool // a line with fewer cells fails also with 'ignore-parse-errors'
}

func (f Format) options(m map[string]string) (options, error) {
	o := options{delimiter: ",", quote: `"`, between: ";"}
	var errs []error
	fail := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	one := func(name, value string, dst *string) {
		if r, n := utf8.DecodeRuneInString(value); n != len(value) || n == 0 || r > 0xFFFF || r == utf8.RuneError {
			fail(fmt.Errorf("%s: option '%s' must be a string with a single character", f.Name(), name))
			return
		}
		*dst = value
	}
	noQuote := false
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value := m[name]
		var err error
		switch name {
		case "field-delimiter":
			one(name, unescapeJava(value), &o.delimiter)
		case "quote-character":
			one(name, value, &o.quote)
		case "escape-character":
			one(name, value, &o.escape)
		case "array-element-delimiter":
			one(name, value, &o.between)
		case "null-literal":
			o.null, o.hasNull = value, true
		case "disable-quote-character":
			noQuote, err = flinkjson.Flag(f.Name(), name, value)
		case "allow-comments":
			o.comments, err = flinkjson.Flag(f.Name(), name, value)
		case "ignore-parse-errors":
			o.ignoreErrors, err = flinkjson.Flag(f.Name(), name, value)
		case "write-bigdecimal-in-scientific-notation":
			_, err = flinkjson.Flag(f.Name(), name, value) // no effect in Flink 2.2
		case "trim-spaces":
			o.trim, err = flinkjson.Flag(f.Name(), name, value)
		case "empty-string-as-null":
			o.emptyNull, err = flinkjson.Flag(f.Name(), name, value)
		case "ignore-trailing-unmappable":
			o.extra, err = flinkjson.Flag(f.Name(), name, value)
		case "fail-on-missing-columns":
			o.whole, err = flinkjson.Flag(f.Name(), name, value)
		case "allow-trailing-comma":
			_, err = flinkjson.Flag(f.Name(), name, value) // no effect: Jackson allows it by default, and Flink never forbids it
		default:
			err = flinkjson.UnknownOption(f.Name(), name, optionNames)
		}
		fail(err)
	}
	if noQuote {
		if _, ok := m["quote-character"]; ok {
			fail(fmt.Errorf("%s: options 'quote-character' and 'disable-quote-character' contradict each other; drop one of them", f.Name()))
		}
		o.quote = ""
	}
	return o, errors.Join(errs...)
}

// unescapeJava is StringEscapeUtils.unescapeJava for the escapes that make one character.
func unescapeJava(s string) string {
	if len(s) < 2 || s[0] != '\\' {
		return s
	}
	switch rest := s[1:]; {
	case rest[0] == 'u' && len(rest) > 4:
		for len(rest) > 5 && rest[1] == 'u' {
			rest = rest[1:]
		}
		if u, err := strconv.ParseUint(rest[1:], 16, 16); err == nil && len(rest) == 5 {
			return string(rune(u))
		}
	case rest[0] >= '0' && rest[0] <= '7':
		if u, err := strconv.ParseUint(rest, 8, 8); err == nil {
			return string(rune(u))
		}
	case len(rest) == 1:
		switch rest[0] {
		case 'b':
			return "\b"
		case 'n':
			return "\n"
		case 't':
			return "\t"
		case 'f':
			return "\f"
		case 'r':
			return "\r"
		}
		return rest
	}
	return s
}

// column is what is known of one cell.
type column struct {
	slot int    // where in the row its value goes
	name string // in the table
	typ  *changelog.Type
}

// columns checks the types by the rules of CsvRowSchemaConverter.
func (f Format) columns(p changelog.Payload) ([]column, error) {
	var out []column
	var errs []error
	for _, i := range p.Columns {
		c := &p.Table.Schema.Columns[i]
		out = append(out, column{slot: i, name: c.Name, typ: &c.Type})
		inner := []*changelog.Type{&c.Type}
		switch c.Type.Root {
		case changelog.RootArray:
			inner[0] = c.Type.Elem
		case changelog.RootRow:
			inner = inner[:0]
			for k := range c.Type.Fields {
				inner = append(inner, &c.Type.Fields[k].Type)
			}
		}
		for _, t := range inner {
			if !simple(t.Root) {
				errs = append(errs, fmt.Errorf("%s: column %s: CSV has no type %s; an ARRAY or ROW may hold simple types only", f.Name(), c.Name, c.Type))
				break
			}
		}
	}
	return out, errors.Join(errs...)
}

func simple(r changelog.Root) bool {
	switch r {
	case changelog.RootBoolean, changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootBigInt,
		changelog.RootFloat, changelog.RootDouble, changelog.RootDecimal, changelog.RootChar, changelog.RootVarchar,
		changelog.RootBinary, changelog.RootVarbinary, changelog.RootDate, changelog.RootTime, changelog.RootTimestamp,
		changelog.RootTimestampLTZ, changelog.RootNull:
		return true
	}
	return false
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	o, columns, err := f.read(p)
	if err != nil {
		return nil, err
	}
	d := &decoder{options: o, columns: columns, lenient: p.Lenient, flink: p.Flink}
	for _, s := range []string{o.delimiter, o.escape, "\r", "\n"} {
		if s != "" {
			d.special[s[0]] = true
		}
	}
	d.quickly = o.canQuickly()
	return d, nil
}

// NewEncoder returns an encoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewEncoder(p changelog.Payload) (changelog.PayloadEncoder, error) {
	o, columns, err := f.read(p)
	if err != nil {
		return nil, err
	}
	e := &encoder{options: o, columns: columns, flink: p.Flink, special: '\\'}
	if o.escape != "" {
		e.special, _ = utf8.DecodeRuneInString(o.escape)
	}
	e.unsafe, _ = utf8.DecodeRuneInString(o.delimiter)
	if q, n := utf8.DecodeRuneInString(o.quote); n > 0 {
		e.unsafe = max(e.unsafe, q)
	}
	return e, nil
}

func (f Format) read(p changelog.Payload) (options, []column, error) {
	if err := p.Validate(); err != nil {
		return options{}, nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	o, err := f.options(p.Options)
	columns, err2 := f.columns(p)
	return o, columns, errors.Join(err, err2)
}
