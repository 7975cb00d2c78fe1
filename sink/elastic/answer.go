package elastic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// answerPath leaves out of an answer what is not looked at. Every item has a status, so none is missing. An item's _shards are left out too: copies that
// failed (_shards.failed) are taken out of the set that may become primary before the server answers, so an item with a good status is there to stay.
var answerPath = []string{"items.*.status", "items.*.error"}

// answer is the server's answer for one item.
type answer struct {
	Status int    `json:"status"`
	Error  *cause `json:"error"`
	delete bool
}

// cause is Elasticsearch's description of an error. Its reason may quote values and is never handed on whole, see text.
type cause struct {
	Type     string `json:"type"`
	Reason   string `json:"reason"`
	CausedBy *cause `json:"caused_by"`
}

// Names of errors that the status alone does not tell apart, on 7.17, 8.19 and 9.5.
const (
	versionConflict = "version_conflict_engine_exception"
	indexNotFound   = "index_not_found_exception"
	indexClosed     = "index_closed_exception"
	blockException  = "cluster_block_exception"
	badIndexName    = "invalid_index_name_exception"
	routingMissing  = "routing_missing_exception"
	notPrimary      = "retry_on_primary_exception"
	security        = "security_exception"
)

type verdict uint8

const (
	done     verdict = iota
	conflict         // something newer is there, or something foreign
	later            // the server cannot take it now
	refused          // it can never be written
	wrong            // a setting is wrong
)

// verdict classifies by status and type; texts differ from version to version.
func (a *answer) verdict() verdict {
	typ := ""
	if a.Error != nil {
		typ = a.Error.Type
	}
	switch {
	case a.Status >= 200 && a.Status < 300:
		return done
	case a.Status == 404 && a.Error == nil && a.delete: // there was no such document; its version is kept all the same
		return done
	case a.Status == 409:
		return conflict
	case a.Status == 429, a.Status >= 500:
		return later
	case typ == notPrimary, typ == indexNotFound, typ == indexClosed, typ == blockException:
		// The index is gone, closed or read-only until somebody sees to it; the lane's alarm says so.
		return later
	case a.Status == 401, a.Status == 403, typ == badIndexName, typ == routingMissing, typ == security:
		return wrong
	}
	return refused
}

// why describes the answer without values of the row.
func (a *answer) why() error {
	return fmt.Errorf("status %d%s", a.Status, a.Error.text())
}

// text names the chain of types. Reasons quote the row ("failed to parse field [price] of type [long] in document with id '7'. Preview of
// field's value: 'x'"), so of them only the field is taken.
func (c *cause) text() string {
	if c == nil {
		return ""
	}
	out := ""
	for at := c; at != nil && len(out) < 300; at = at.CausedBy {
		if at.Type != "" {
			out += ", " + at.Type + remedy(at.Type)
		}
		if f := fieldOf(at.Reason); f != "" {
			out += fmt.Sprintf(" (field %q)", f)
		}
	}
	return out
}

// remedy is for who is told that an index takes nothing.
func remedy(typ string) string {
	switch typ {
	case indexClosed:
		return " (somebody closed the index: POST /INDEX/_open opens it)"
	case blockException:
		return " (the index is read-only: a disk that is nearly full makes it so, or a setting index.blocks)"
	}
	return ""
}

// fieldOf finds the name of the field in a reason.
func fieldOf(reason string) string {
	for _, before := range []string{"field [", "object mapping for ["} {
		if name := between(reason, before, "]"); name != "" {
			return name
		}
	}
	// Strict mappings: mapping set to strict, dynamic introduction of [f] within [_doc] is not allowed.
	return between(reason, "dynamic introduction of [", "]")
}

func between(s, from, to string) string {
	_, s, ok := strings.Cut(s, from)
	if !ok {
		return ""
	}
	s, _, ok = strings.Cut(s, to)
	if !ok || len(s) > 200 {
		return ""
	}
	return s
}

// readAnswers reads the answer to a bulk of n items.
func readAnswers(r io.Reader, n int) ([]answer, error) { return new(answers).read(r, n) }

// answers is memory for the answers to one bulk after another.
type answers struct {
	body bytes.Buffer
	list []answer
}

// keptAnswer is how much of it is kept: answers are longer than this only where many items failed.
const keptAnswer = 1 << 20

// read reads the answer to a bulk of n items; it is valid until the next read.
func (a *answers) read(r io.Reader, n int) ([]answer, error) {
	if a.body.Cap() > keptAnswer {
		a.body = bytes.Buffer{}
	}
	a.body.Reset()
	if _, err := a.body.ReadFrom(r); err != nil {
		return nil, err
	}
	if list, ok := scanAnswers(a.list[:0], a.body.Bytes()); ok && len(list) == n {
		a.list = list
		return list, nil
	}
	var body struct {
		Items []struct {
			Index, Create, Delete *answer
		} `json:"items"`
	}
	if err := json.Unmarshal(a.body.Bytes(), &body); err != nil {
		return nil, withoutText(err)
	}
	if len(body.Items) != n {
		return nil, fmt.Errorf("it holds %d answers for %d items", len(body.Items), n)
	}
	list := make([]answer, n)
	for i, it := range body.Items {
		switch {
		case it.Index != nil:
			list[i] = *it.Index
		case it.Create != nil:
			list[i] = *it.Create
		case it.Delete != nil:
			list[i] = *it.Delete
			list[i].delete = true
		}
		if list[i].Status == 0 {
			return nil, fmt.Errorf("item %d has no status", i)
		}
	}
	return list, nil
}

// scanAnswers reads the usual answer, as all servers write it when answerPath leaves the rest out and no item failed:
//
//	{"items":[{"index":{"status":201}},{"delete":{"status":404}}]}
//
// Anything else is false, and read in full.
func scanAnswers(dst []answer, b []byte) ([]answer, bool) {
	b, ok := bytes.CutPrefix(b, []byte(`{"items":[`))
	for ok {
		a := answer{}
		switch {
		case bytes.HasPrefix(b, []byte(`{"index":{"status":`)):
			b = b[len(`{"index":{"status":`):]
		case bytes.HasPrefix(b, []byte(`{"create":{"status":`)):
			b = b[len(`{"create":{"status":`):]
		case bytes.HasPrefix(b, []byte(`{"delete":{"status":`)):
			b, a.delete = b[len(`{"delete":{"status":`):], true
		default:
			return dst, false
		}
		if len(b) < 6 || b[3] != '}' || b[4] != '}' {
			return dst, false
		}
		for _, digit := range b[:3] {
			if digit < '0' || digit > '9' {
				return dst, false
			}
			a.Status = a.Status*10 + int(digit-'0')
		}
		if a.Status < 100 {
			return dst, false
		}
		dst = append(dst, a)
		switch b = b[5:]; b[0] {
		case ',':
			b = b[1:]
		case ']':
			return dst, string(bytes.TrimSpace(b)) == "]}"
		default:
			return dst, false
		}
	}
	return dst, false
}

// readCause reads the error of an answer that is about the whole request, which may also be a page of a proxy.
func readCause(r io.Reader) *cause {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	c := new(cause)
	if json.NewDecoder(io.LimitReader(r, 1<<20)).Decode(&body) == nil {
		_ = json.Unmarshal(body.Error, c) // a text rather than an object: no type
	}
	return c
}

// withoutText keeps of an error of package json what does not quote the body.
func withoutText(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is no JSON at byte %d", syntax.Offset)
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		return fmt.Errorf("member %s has the wrong type", typ.Field)
	}
	return err
}

// withoutURL takes the address off, which may hold a password.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
