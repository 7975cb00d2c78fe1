package json

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// options are the format's options by Flink's names (JsonFormatOptions). Those that concern writing only are checked and not used.
type options struct {
	ignoreErrors bool // ignore-parse-errors
	failMissing  bool // fail-on-missing-field
	iso          bool // timestamp-format.standard = ISO-8601
	tree         bool // decode.json-parser.enabled = false
}

var optionNames = []string{
	"decode.json-parser.enabled",
	"encode.decimal-as-plain-number",
	"encode.ignore-null-fields",
	"fail-on-missing-field",
	"ignore-parse-errors",
	"map-null-key.literal",
	"map-null-key.mode",
	"timestamp-format.standard",
}

// parseOptions reports every mistake, not only the first.
func parseOptions(m map[string]string) (options, error) {
	var o options
	var errs []error
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	flag := func(name string) bool {
		switch strings.ToLower(m[name]) {
		case "true":
			return true
		case "false":
			return false
		}
		errs = append(errs, fmt.Errorf("json: option '%s' must be 'true' or 'false'", name))
		return false
	}
	for _, name := range names {
		switch name {
		case "ignore-parse-errors":
			o.ignoreErrors = flag(name)
		case "fail-on-missing-field":
			o.failMissing = flag(name)
		case "decode.json-parser.enabled":
			o.tree = !flag(name)
		case "encode.decimal-as-plain-number", "encode.ignore-null-fields":
			flag(name)
		case "timestamp-format.standard":
			switch m[name] {
			case "SQL":
			case "ISO-8601":
				o.iso = true
			default:
				errs = append(errs, errors.New("json: option 'timestamp-format.standard' must be 'SQL' or 'ISO-8601', spelt exactly so"))
			}
		case "map-null-key.mode":
			switch strings.ToUpper(m[name]) {
			case "FAIL", "DROP", "LITERAL":
			default:
				errs = append(errs, errors.New("json: option 'map-null-key.mode' must be 'FAIL', 'DROP' or 'LITERAL'"))
			}
		case "map-null-key.literal":
		default:
			errs = append(errs, fmt.Errorf("json: unknown option '%s'; the nearest that the format has is '%s'", name, nearest(name)))
		}
	}
	if o.ignoreErrors && o.failMissing {
		errs = append(errs, errors.New("json: options 'fail-on-missing-field' and 'ignore-parse-errors' shouldn't both be true; drop one of them"))
	}
	return o, errors.Join(errs...)
}

// nearest returns the option name with the least edit distance.
func nearest(name string) string {
	best, least := "", 1<<30
	if len(name) > 100 {
		name = name[:100]
	}
	for _, o := range optionNames {
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
