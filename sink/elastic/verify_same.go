package elastic

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
)

// sameMembers reports whether a document has all members of want, an object, with equal values. Members that it has beside them are not the
// table's: where it came from, and what a pipeline added. Values are equal as values of JSON: the server keeps the text of a source as it came, but one that it makes out of
// the mapping (synthetic source), or that a pipeline went through, has numbers and objects in another form.
func sameMembers(want []byte, source map[string]json.RawMessage) (bool, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(want, &members); err != nil {
		return false, err
	}
	for name, value := range members {
		has, ok := source[name]
		if !ok {
			if string(value) == "null" { // synthetic source leaves it out
				continue
			}
			return false, nil
		}
		if bytes.Equal(value, has) {
			continue
		}
		a, err := parsed(value)
		if err != nil {
			return false, err
		}
		b, err := parsed(has)
		if err != nil {
			return false, err
		}
		if !sameValue(a, b) {
			return false, nil
		}
	}
	return true, nil
}

func parsed(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, withoutText(err)
	}
	return v, nil
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(string(a), string(b))
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !sameValue(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}

// maxExponent keeps an exponent from taking the memory that its number would.
const maxExponent = 6

// sameNumber compares exactly: 1.50, 1.5 and 15e-1 are one number, 2^53 and 2^53+1 are two.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	for _, s := range []string{a, b} {
		if i := strings.IndexAny(s, "eE"); i >= 0 && len(s)-i > maxExponent {
			return false
		}
	}
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	return ok && ok2 && x.Cmp(y) == 0
}
