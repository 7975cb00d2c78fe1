package flinkjson

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// plan is what the readers know of a type.
type plan struct {
	root changelog.Root
	kind changelog.ValueKind // of the type's values
	typ  *changelog.Type
	elem *plan    // of an ARRAY; the value of a MAP or MULTISET
	row  *rowPlan // of a ROW
}

// rowPlan is what the readers know of an object.
type rowPlan struct {
	fields []field
	index  map[string]int
}

type field struct {
	plan
	name   string
	slot   int    // where in the row its value goes
	quoted string // the name in quotes with its colon, as most writers write it; "" where it takes escapes

	member []byte // the name as it is written, with its colon
}

func (rp *rowPlan) add(name string, slot int, p plan) {
	rp.index[name] = len(rp.fields)
	member, _ := appendText(nil, []byte(strings.ToValidUTF8(name, "\uFFFD")))
	f := field{plan: p, name: name, slot: slot, member: append(member, ':')}
	if quoted := `"` + name + `":`; !strings.ContainsAny(name, "\"\\") && utf8.ValidString(name) {
		f.quoted = quoted
	}
	rp.fields = append(rp.fields, f)
}

var intType = changelog.Type{Root: changelog.RootInt}

func newPlan(t *changelog.Type) (plan, error) {
	p := plan{root: t.Root, kind: t.Root.ValueKind(), typ: t}
	switch t.Root {
	case changelog.RootBoolean, changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootBigInt,
		changelog.RootFloat, changelog.RootDouble, changelog.RootDecimal, changelog.RootChar, changelog.RootVarchar,
		changelog.RootBinary, changelog.RootVarbinary, changelog.RootDate, changelog.RootTime, changelog.RootTimestamp,
		changelog.RootTimestampLTZ, changelog.RootIntervalYearMonth, changelog.RootIntervalDayTime, changelog.RootNull:
		return p, nil
	case changelog.RootArray:
		return p.with(t.Elem)
	case changelog.RootMap, changelog.RootMultiset:
		key, value := t.Key, t.Elem
		if t.Root == changelog.RootMultiset {
			key, value = t.Elem, &intType
		}
		if key.Root != changelog.RootChar && key.Root != changelog.RootVarchar {
			return p, fmt.Errorf("JSON has maps with keys of a character type only; the type is %s", t)
		}
		return p.with(value)
	case changelog.RootRow:
		p.row = &rowPlan{index: make(map[string]int, len(t.Fields))}
		for i := range t.Fields {
			f, err := newPlan(&t.Fields[i].Type)
			if err != nil {
				return p, err
			}
			p.row.add(t.Fields[i].Name, i, f)
		}
		return p, nil
	}
	return p, fmt.Errorf("JSON has no type %s", t)
}

func (p plan) with(elem *changelog.Type) (plan, error) {
	e, err := newPlan(elem)
	p.elem = &e
	return p, err
}

func hasDecimal(t *changelog.Type) bool {
	if t == nil {
		return false
	}
	if t.Root == changelog.RootDecimal || hasDecimal(t.Key) || hasDecimal(t.Elem) {
		return true
	}
	for i := range t.Fields {
		if hasDecimal(&t.Fields[i].Type) {
			return true
		}
	}
	return false
}
