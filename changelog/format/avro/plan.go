package avro

import (
	"errors"
	"fmt"
	"unicode"

	"github.com/flinksink/flinksink/changelog"
)

// plan is what is known of a type: the part of AvroSchemaConverter's schema that the bytes depend on.
type plan struct {
	typ    *changelog.Type
	elem   *plan  // of an ARRAY; the value of a MAP or MULTISET
	fields []plan // of a ROW
	record string // of a ROW: its name
}

// place is where in a row a type stands. The schema of elements, and the reading of fields, do not learn of 'timestamp_mapping.legacy'.
type place struct {
	legacy  bool
	record  string // the name that a ROW here has
	nested  bool   // in a ROW, ARRAY or MAP
	element bool   // in an ARRAY or MAP
}

// countType is that of the counts in a MULTISET, of which Flink makes a union too.
var countType = changelog.Type{Root: changelog.RootInt}

func newPlan(t *changelog.Type, at place) (plan, error) {
	p := plan{typ: t}
	switch t.Root {
	case changelog.RootBoolean, changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootBigInt,
		changelog.RootFloat, changelog.RootDouble, changelog.RootDecimal, changelog.RootChar, changelog.RootVarchar,
		changelog.RootBinary, changelog.RootVarbinary, changelog.RootDate, changelog.RootTime:
		return p, nil
	case changelog.RootTimestamp, changelog.RootTimestampLTZ:
		return p, checkTimestamp(t, at)
	case changelog.RootArray:
		return p.with(t.Elem, at)
	case changelog.RootMap, changelog.RootMultiset:
		key, value := t.Key, t.Elem
		if t.Root == changelog.RootMultiset {
			key, value = t.Elem, &countType
		}
		if key.Root != changelog.RootChar && key.Root != changelog.RootVarchar {
			return p, fmt.Errorf("Avro has maps with keys of a character type only; the type is %s", t)
		}
		return p.with(value, at)
	case changelog.RootRow:
		at.nested = true
		p.record = at.record
		for i := range t.Fields {
			in := at
			in.record += "_" + t.Fields[i].Name
			err := checkName(t.Fields[i].Name)
			var f plan
			if err == nil {
				f, err = newPlan(&t.Fields[i].Type, in)
			}
			if err != nil {
				return p, fmt.Errorf("field %s: %w", t.Fields[i].Name, err)
			}
			p.fields = append(p.fields, f)
		}
		return p, nil
	}
	return p, fmt.Errorf("Avro has no type %s", t)
}

func (p plan) with(elem *changelog.Type, at place) (plan, error) {
	at.nested, at.element = true, true
	e, err := newPlan(elem, at)
	p.elem = &e
	return p, err
}

// checkName reports a name that Avro does not take.
func checkName(name string) error {
	for i, r := range name {
		if !unicode.IsLetter(r) && r != '_' && (i == 0 || !unicode.IsDigit(r)) {
			return errors.New("Avro's names have letters, digits and underscores only, and do not begin with a digit")
		}
	}
	if name == "" {
		return errors.New("Avro has no empty name")
	}
	return nil
}

func checkTimestamp(t *changelog.Type, at place) error {
	legacy := at.legacy || at.element
	most := 3
	if !legacy {
		most = 6
	}
	switch {
	case t.Root == changelog.RootTimestampLTZ && legacy && !at.legacy, t.Root == changelog.RootTimestampLTZ && !legacy && at.nested:
		return errors.New("Flink cannot read or write TIMESTAMP_LTZ inside of another type")
	case t.Root == changelog.RootTimestampLTZ && legacy:
		return errors.New("the legacy mapping has no TIMESTAMP_LTZ; set 'timestamp_mapping.legacy' = 'false'")
	case t.Precision > most && legacy && !at.element:
		return fmt.Errorf("the legacy mapping has no %s, only up to precision 3; set 'timestamp_mapping.legacy' = 'false' for up to 6", t)
	case t.Precision > most:
		return fmt.Errorf("Flink has no %s in Avro, only up to precision %d", t, most)
	}
	return nil
}
