package ddl

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// other goes past a statement that is no CREATE TABLE. A CREATE of what Flink does not create was meant as one.
func (p *parser) other() error {
	if p.isMark(';') {
		p.advance()
		return nil
	}
	if p.is("CREATE") {
		if err := p.createOther(); err != nil {
			return err
		}
	}
	p.others = append(p.others, p.kind())
	p.skipStatement()
	return nil
}

// createOther looks at CREATE and what follows, and stays before it.
func (p *parser) createOther() error {
	saved := *p
	p.advance()
	if p.accept("OR") && !p.accept("REPLACE") && !p.accept("ALTER") {
		return p.expected("REPLACE")
	}
	p.accept("TEMPORARY")
	p.accept("SYSTEM")
	p.accept("MATERIALIZED")
	// CONNECTION and the last two are of Flink versions and services after 2.2.
	for _, what := range []string{"TABLE", "VIEW", "FUNCTION", "CATALOG", "DATABASE", "MODEL", "CONNECTION", "AGENT", "TOOL"} {
		if p.is(what) {
			*p = saved
			return nil
		}
	}
	return p.expected("TABLE, or what else Flink creates (VIEW, FUNCTION, CATALOG, DATABASE, MODEL, MATERIALIZED TABLE)")
}

// kind returns the word that the statement begins with, in upper case. Behind a quote that was set wrongly, in a statement before, what
// looks like a word may be part of a secret: there, only the words that Flink's statements begin with are told.
func (p *parser) kind() string {
	if p.tok.kind != tokenWord {
		return ""
	}
	word := strings.ToUpper(p.text(p.tok))
	switch word {
	case "ADD", "ALTER", "ANALYZE", "BEGIN", "CALL", "COMPILE", "CREATE", "DELETE", "DESC", "DESCRIBE", "DROP", "END", "EXECUTE", "EXPLAIN",
		"HELP", "INSERT", "JAR", "LOAD", "QUIT", "REMOVE", "RESET", "SELECT", "SET", "SHOW", "STOP", "TRUNCATE", "UNLOAD", "UPDATE", "USE",
		"VALUES", "WITH":
		return word
	}
	if len(p.others) > 0 {
		return ""
	}
	if r := []rune(word); len(r) > 40 {
		word = string(r[:40]) + "..."
	}
	return word
}

// noTable says what the text holds, since it is no CREATE TABLE.
func (p *parser) noTable() error {
	const holds = "the text holds no CREATE TABLE statement: it has "
	if len(p.others) == 0 {
		return &Error{Reason: holds + "no statement"}
	}
	var kinds []string
	unknown := false
	for _, k := range p.others {
		unknown = unknown || k == ""
		if k != "" && !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	what := strings.Join(kinds, ", ")
	switch {
	case what == "":
		what = "of no kind that Flink has"
	case unknown:
		what += " and others"
	}
	plural := "s"
	if len(p.others) == 1 {
		plural = ""
	}
	return &Error{Reason: fmt.Sprintf("%s%d statement%s, %s", holds, len(p.others), plural, what)}
}

// skipStatement goes past the ';' of the statement, or to where the next CREATE TABLE begins a line: what SHOW CREATE TABLE prints
// has no ';'.
func (p *parser) skipStatement() {
	for p.tok.kind != tokenEnd {
		if p.acceptMark(';') {
			return
		}
		p.advance()
		if p.beginsTable() {
			return
		}
	}
}

// beginsTable reports whether CREATE TABLE is next, at the beginning of a line.
func (p *parser) beginsTable() bool {
	if !p.is("CREATE") {
		return false
	}
	line := strings.TrimRightFunc(p.lex.text[p.last:p.tok.start], func(r rune) bool { return r != '\n' && unicode.IsSpace(r) })
	if p.last > 0 && !strings.HasSuffix(line, "\n") {
		return false
	}
	saved := *p
	defer func() { *p = saved }()
	return p.createTable(&Table{})
}
