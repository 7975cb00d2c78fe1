package debezium

import (
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
