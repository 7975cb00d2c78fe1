package elastic

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// maxID is Elasticsearch's limit for an _id, in bytes. Above it the server refuses the whole request, its good neighbours too.
const maxID = 512

// escapeID begins every id that is not the key's own text, so that none is taken for another.
const escapeID = '~'

// ID returns the _id of a row of t: injective, at most 512 bytes, and the same in every version of this package.
//
//	key of one integer           its digits
//	key of one text              the text, if it has 1 to 512 bytes, no lone surrogate, and does not begin with ~
//	any other key                ~ and the canonical form of [changelog.AppendKey] in URL base64
//	where that is too long       ~~ and the SHA-256 of the canonical form in URL base64; also with Options.HashIDs
//
// Keys that are equal as typed values ([changelog.AppendKey]: DECIMALs at the column's scale, -0 and 0) have one id. Options.IDPrefix goes before all of it.
//
// For a table without a key the id names the change: ~topic/partition/offset/index.
func (s *Sink) ID(t *changelog.Table, c *changelog.Change) string {
	return string(s.appendID(nil, nil, t, c))
}

// appendID appends the id; scratch is memory for the canonical form.
func (s *Sink) appendID(dst, scratch []byte, t *changelog.Table, c *changelog.Change) []byte {
	dst = append(dst, s.o.IDPrefix...)
	room := maxID - len(s.o.IDPrefix)
	if len(t.Schema.Key) == 0 {
		start := len(dst)
		dst = append(dst, escapeID)
		dst = append(dst, c.Topic...)
		for _, n := range []int64{int64(c.Partition.Partition), c.Offset, int64(c.Index)} {
			dst = append(dst, '/')
			dst = strconv.AppendInt(dst, n, 10)
		}
		if len(dst)-start > room { // a topic has at most 249 characters
			dst = appendHash(dst[:start], append([]byte(nil), dst[start:]...))
		}
		return dst
	}
	if len(t.Schema.Key) == 1 && !s.o.HashIDs {
		v := c.Row[t.Schema.Key[0]]
		switch v.Kind() {
		case changelog.KindInt:
			return strconv.AppendInt(dst, v.Int(), 10)
		case changelog.KindString:
			if text := v.Bytes(); len(text) > 0 && len(text) <= room && text[0] != escapeID && utf8.Valid(text) {
				return append(dst, text...)
			}
		}
	}
	canonical := changelog.AppendKey(scratch[:0], t.Schema, c.Row)
	if s.o.HashIDs || 1+base64.RawURLEncoding.EncodedLen(len(canonical)) > room {
		return appendHash(dst, canonical)
	}
	dst = append(dst, escapeID)
	return base64.RawURLEncoding.AppendEncode(dst, canonical)
}

func appendHash(dst, b []byte) []byte {
	sum := sha256.Sum256(b)
	dst = append(dst, escapeID, escapeID)
	return base64.RawURLEncoding.AppendEncode(dst, sum[:])
}
