package postgres

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxIdent is the length in bytes that Postgres cuts identifiers to (NAMEDATALEN-1), with a mere notice. Two long names could become
// one, so longer ones are refused.
const maxIdent = 63

// checkIdent says why name cannot be an identifier. what says which setting or column it is.
func checkIdent(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case len(name) > maxIdent:
		cure := "use a shorter one"
		switch what {
		case "column":
			cure = "give the column a shorter one in Options.Columns"
		case "table":
			cure = "name the table to write into"
		}
		return fmt.Errorf("%s: the name %q has %d bytes, and Postgres keeps only %d of a name: %s", what, name, len(name), maxIdent, cure)
	case strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name):
		return fmt.Errorf("%s: the name %q is not valid UTF-8 without NUL, as Postgres names have to be", what, name)
	}
	return nil
}

// maxBridge is the length in bytes of a bridge's name, which stands in every row of the sink's own tables and their indexes.
const maxBridge = 200

// checkBridge says why name cannot be the name of a bridge.
func checkBridge(name string) error {
	switch {
	case len(name) > maxBridge:
		return configf("the name of the bridge has %d bytes: use one of at most %d", len(name), maxBridge)
	case strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name):
		return configf("the name of the bridge, %q, is not valid UTF-8 without NUL, as texts in Postgres have to be", name)
	}
	return nil
}

// quote is the one way by which a name gets into a statement: of schemas, tables, columns, types and conflict targets alike.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal is text as an expression, whatever the server's settings make of a backslash.
func literal(text string) string {
	return fmt.Sprintf("convert_from(decode('%x', 'hex'), 'UTF8')", text)
}

// qualified is the name of a table. An empty schema leaves the search to the search_path.
type qualified struct{ schema, table string }

// SQL returns the quoted form.
func (q qualified) SQL() string {
	if q.schema == "" {
		return quote(q.table)
	}
	return quote(q.schema) + "." + quote(q.table)
}

// parseName reads a table's name as SQL would: a, s.a, "My Table", s."My Table". Parts without quotes are folded to lower case.
func parseName(into string) (qualified, error) {
	var parts []string
	rest := into
	for {
		part, after, err := parsePart(rest)
		if err != nil {
			return qualified{}, fmt.Errorf("table name %q: %w", into, err)
		}
		if err := checkIdent("table name", part); err != nil {
			return qualified{}, err
		}
		parts = append(parts, part)
		if after == "" {
			break
		}
		if after[0] != '.' {
			return qualified{}, fmt.Errorf("table name %q: expected a dot after %s: write names with spaces or other signs in double quotes", into, quote(part))
		}
		rest = after[1:]
	}
	switch len(parts) {
	case 1:
		return qualified{table: parts[0]}, nil
	case 2:
		return qualified{schema: parts[0], table: parts[1]}, nil
	}
	return qualified{}, fmt.Errorf("table name %q has %d parts: expected table or schema.table (the database is the pool's)", into, len(parts))
}

func parsePart(s string) (part, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		var b strings.Builder
		for i := 1; i < len(s); i++ {
			if s[i] != '"' {
				b.WriteByte(s[i])
				continue
			}
			if i+1 < len(s) && s[i+1] == '"' {
				b.WriteByte('"')
				i++
				continue
			}
			return b.String(), s[i+1:], nil
		}
		return "", "", errors.New("a double quote is not closed")
	}
	end := strings.IndexFunc(s, func(r rune) bool {
		return !(r == '_' || r == '$' || r >= 0x80 || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	})
	if end < 0 {
		end = len(s)
	}
	if end == 0 || '0' <= s[0] && s[0] <= '9' || s[0] == '$' {
		return "", "", errors.New("expected a name: write names that begin with a digit or hold other signs in double quotes")
	}
	return lowerASCII(s[:end]), s[end:], nil
}

// lowerASCII folds as Postgres does in UTF-8 databases: ASCII letters only.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
