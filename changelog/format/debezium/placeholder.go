package debezium

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// placeholder finds the values that a connector sends for those that it does not know, in the forms that Debezium's
// UnchangedToastedPlaceholder has for the types of Postgres.
type placeholder struct {
	texts    []string // itself; as bytes in base64 and in hex
	uuid     string   // in an array of UUIDs
	integers []string // in an array of numbers: its bytes

	first [256]bool // the bytes that one of the texts above begins with, and the backslash of an escape
}

func newPlaceholder(text string) *placeholder {
	raw := []byte(text)
	p := &placeholder{texts: []string{text, base64.StdEncoding.EncodeToString(raw), hex.EncodeToString(raw)}}
	for _, c := range raw {
		p.integers = append(p.integers, strconv.Itoa(int(int8(c))))
	}
	// Java's UUID.nameUUIDFromBytes, version 3.
	u := md5.Sum(raw)
	u[6] = u[6]&0x0F | 0x30
	u[8] = u[8]&0x3F | 0x80
	p.uuid = fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:])
	for _, t := range append([]string{p.uuid, `\`}, p.texts...) {
		p.first[t[0]] = true
	}
	return p
}

// is reports whether n, the value of a column, is the placeholder.
func (p *placeholder) is(n *flinkjson.Node) bool {
	if p.isText(n) {
		return true
	}
	if elems := n.Elems(); len(elems) == 1 && (p.isText(&elems[0]) || elems[0].IsText(p.uuid)) {
		return true
	} else if len(elems) > 0 && len(elems) == len(p.integers) {
		for i := range elems {
			if !elems[i].IsInteger(p.integers[i]) {
				return false
			}
		}
		return true
	}
	name, kid, ok := n.Only()
	return ok && name == p.texts[0] && p.isText(kid)
}

func (p *placeholder) isText(n *flinkjson.Node) bool {
	for _, t := range p.texts {
		if n.IsText(t) {
			return true
		}
	}
	return false
}

// maybe reports whether the value that text, a part of a message, begins with could be the placeholder. It is a quick look: of what it lets pass
// none is one, and what it does not may be none.
func (p *placeholder) maybe(text []byte) bool {
	if text[0] == '"' {
		return p.maybeText(text)
	}
	inner := bytes.TrimLeft(text[1:], " \t\r\n")
	if len(inner) == 0 {
		return false
	}
	if inner[0] == '"' { // of an array its first element, of an object its first name
		return p.maybeText(inner) || maybeString(inner, p.uuid)
	}
	return len(p.integers) > 0 && bytes.HasPrefix(inner, []byte(p.integers[0]))
}

func (p *placeholder) maybeText(text []byte) bool {
	if len(text) < 2 || !p.first[text[1]] {
		return false
	}
	for _, t := range p.texts {
		if maybeString(text, t) {
			return true
		}
	}
	return false
}

// maybeString reports whether text could begin with the string s. Of one that has an escape before it differs, it does not look on.
func maybeString(text []byte, s string) bool {
	text = text[1:]
	for i := range s {
		if i >= len(text) {
			return false
		}
		if text[i] != s[i] {
			return text[i] == '\\'
		}
	}
	return len(text) > len(s) && text[len(s)] == '"'
}
