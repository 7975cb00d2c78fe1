package ddl

import (
	"fmt"
	"strings"
)

// Find returns the table called name of those that text creates. name may be qualified as far as the statement qualifies it, with
// or without back quotes, and is case-sensitive, as in Flink; "" asks for the only table there is. The other tables may be
// ones that [Parse] refuses, but a mistake of grammar anywhere in text is an error. An error about the name lists the names that there
// are. Errors are an [*Error].
func Find(text, name string) (*Table, error) {
	all, p, err := parse(text)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, p.noTable()
	}
	if name == "" {
		if len(all) > 1 {
			return nil, &Error{Reason: fmt.Sprintf("the text creates %d tables: say which one, of %s", len(all), list(all))}
		}
		return all[0].table, all[0].refused
	}
	parts := splitName(name)
	var found []created
	for _, c := range all {
		// A name with dots in it is also tried as it is, so that nobody has to quote a quote on a command line.
		if c.table.called(parts) || c.table.Table == name {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 1:
		return found[0].table, found[0].refused
	case 0:
		hint := ""
		for _, c := range all {
			if strings.EqualFold(c.table.Table, parts[len(parts)-1]) {
				hint = fmt.Sprintf(" (names are case-sensitive, and qualified only as far as the statement does: %s)", c.table.fullName())
				break
			}
		}
		return nil, &Error{Reason: fmt.Sprintf("the text creates no table called %q%s: there are %s", name, hint, list(all))}
	}
	e := &Error{Reason: fmt.Sprintf("the text creates table %q %d times: qualify the name or leave one statement, of %s", name, len(found), list(found))}
	e.Line, e.Column = place(p.lex.text, found[1].offset)
	return nil, e
}

// list names tables, as many as fit a message.
func list(all []created) string {
	const most = 20
	var names []string
	for i, c := range all {
		if i == most {
			names = append(names, "...")
			break
		}
		names = append(names, c.table.fullName())
	}
	return strings.Join(names, ", ")
}

// called reports whether the last parts of the table's name are these.
func (t *Table) called(parts []string) bool {
	own := t.parts()
	if len(parts) > len(own) {
		return false
	}
	own = own[len(own)-len(parts):]
	for i := range parts {
		if parts[i] != own[i] {
			return false
		}
	}
	return true
}

// splitName cuts a name at the dots outside back quotes. What is not well formed is one name as it is.
func splitName(name string) []string {
	p := &parser{lex: lexer{text: name}}
	p.tok = p.lex.next()
	if !strings.Contains(name, "`") {
		return strings.Split(name, ".")
	}
	var parts []string
	for {
		if p.tok.kind == tokenName {
			if _, closed := quoted(p.text(p.tok), '`'); !closed {
				return []string{name}
			}
		}
		switch p.tok.kind {
		case tokenWord: // of Flink's own words, too: it is a name that was asked for
			parts = append(parts, p.text(p.tok))
		case tokenName:
			parts = append(parts, unquote(p.text(p.tok)))
		default:
			return []string{name}
		}
		p.advance()
		if p.tok.kind == tokenEnd {
			return parts
		}
		if !p.acceptMark('.') {
			return []string{name}
		}
	}
}
