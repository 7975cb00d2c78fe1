package flinkjson

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Options are the options of a format that is made of JSON, by Flink's names (JsonFormatOptions).
type Options struct {
	IgnoreErrors   bool        // ignore-parse-errors
	FailMissing    bool        // fail-on-missing-field
	ISO            bool        // timestamp-format.standard = ISO-8601
	Tree           bool        // decode.json-parser.enabled = false
	PlainDecimals  bool        // encode.decimal-as-plain-number
	IgnoreNulls    bool        // encode.ignore-null-fields
	NullKey        NullKeyMode // map-null-key.mode
	NullKeyLiteral string      // map-null-key.literal
}

// NullKeyMode is what a writer does with a map's entry whose key is NULL.
type NullKeyMode uint8

const (
	NullKeyFail    NullKeyMode = iota // an error
	NullKeyDrop                       // the entry is left out
	NullKeyLiteral                    // the key is Options.NullKeyLiteral
)

// ParseOptions reads the options m of the format called format. known are the names that the format has; those that are none of the
// fields of Options are the caller's to read. Every mistake is reported, not only the first.
func ParseOptions(format string, known []string, m map[string]string) (Options, error) {
	o := Options{NullKeyLiteral: "null"}
	var errs []error
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	flag := func(name string) bool {
		v, err := Flag(format, name, m[name])
		if err != nil {
			errs = append(errs, err)
		}
		return v
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("%s: unknown option '%s'; the nearest that the format has is '%s'", format, name, nearest(name, known)))
			continue
		}
		switch name {
		case "ignore-parse-errors":
			o.IgnoreErrors = flag(name)
		case "fail-on-missing-field":
			o.FailMissing = flag(name)
		case "decode.json-parser.enabled":
			v, err := Flag(format, name, m[name])
			if err != nil {
				errs = append(errs, err)
			}
			o.Tree = !v
		case "encode.decimal-as-plain-number":
			o.PlainDecimals = flag(name)
		case "encode.ignore-null-fields":
			o.IgnoreNulls = flag(name)
		case "timestamp-format.standard":
			switch m[name] {
			case "SQL":
			case "ISO-8601":
				o.ISO = true
			default:
				errs = append(errs, fmt.Errorf("%s: option 'timestamp-format.standard' must be 'SQL' or 'ISO-8601', spelt exactly so", format))
			}
		case "map-null-key.mode":
			switch strings.ToUpper(m[name]) {
			case "FAIL":
			case "DROP":
				o.NullKey = NullKeyDrop
			case "LITERAL":
				o.NullKey = NullKeyLiteral
			default:
				errs = append(errs, fmt.Errorf("%s: option 'map-null-key.mode' must be 'FAIL', 'DROP' or 'LITERAL'", format))
			}
		case "map-null-key.literal":
			o.NullKeyLiteral = m[name]
		}
	}
	if o.IgnoreErrors && o.FailMissing {
		errs = append(errs, fmt.Errorf("%s: options 'fail-on-missing-field' and 'ignore-parse-errors' shouldn't both be true; drop one of them", format))
	}
	return o, errors.Join(errs...)
}

// Flag reads a boolean option as Flink does.
func Flag(format, name, value string) (bool, error) {
	switch strings.ToLower(value) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%s: option '%s' must be 'true' or 'false'", format, name)
}

// nearest returns the known name with the least edit distance.
func nearest(name string, known []string) string {
	best, least := "", 1<<30
	if len(name) > 100 {
		name = name[:100]
	}
	for _, o := range known {
		if d := distance(name, o); d < least {
			best, least = o, d
		}
	}
	return best
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
