package flinkavro

import (
	"errors"
	"fmt"
	"unicode"

	"github.com/flinksink/flinksink/changelog"
)

// RootName is the name of the record that a table is; what is in it is named after its columns.
const RootName = "org.apache.flink.avro.generated.record"

// Plan is what is known of a type: the part of AvroSchemaConverter's schema that the bytes depend on. Where a table has a schema of its own,
// the rest of what it may say is here too.
type Plan struct {
	Type   *changelog.Type
	Elem   *Plan  // of an ARRAY; the value of a MAP or MULTISET
	Fields []Plan // of a ROW
	Record string // of a ROW, an enum or a fixed: its full name

	NullLast bool     // in the union of a nullable type null is the second branch
	Symbols  []string // text is an enum of these
	Fixed    int      // bytes or a DECIMAL are as many bytes; 0: any number
	Names    []string // of a ROW, an enum or a fixed: its aliases, as full names

	// Of a field of a ROW.
	Aliases    []string
	Default    changelog.Value
	HasDefault bool

	EnumDefault string // the symbol for those that Symbols lacks, "" for none
}

// Options are what a plan depends on beside the type.
type Options struct {
	Legacy   bool   // of 'avro': 'timestamp_mapping.legacy'
	Registry bool   // a format of the schema registry, which has the legacy mapping alone
	Record   string // the name that a ROW has
	Sources  bool   // the types of Kafka Connect and Debezium are read, for which there are columns that Flink has none for
}

// NewPlan returns the plan of the schema that Flink derives from t, or says what Avro or Flink does not have.
func NewPlan(t *changelog.Type, o Options) (Plan, error) {
	return newPlan(t, place{legacy: o.Legacy || o.Registry, registry: o.Registry, record: o.Record, sources: o.Sources})
}

// place is where in a row a type stands. The schema of elements, and the reading of fields, do not learn of 'timestamp_mapping.legacy'.
type place struct {
	legacy   bool
	registry bool   // there is no such option
	sources  bool   // of Options
	record   string // the name that a ROW here has
	nested   bool   // in a ROW, ARRAY or MAP
	element  bool   // in an ARRAY or MAP
}

// countType is that of the counts in a MULTISET, of which Flink makes a union too.
var countType = changelog.Type{Root: changelog.RootInt}

func newPlan(t *changelog.Type, at place) (Plan, error) {
	p := Plan{Type: t}
	switch t.Root {
	case changelog.RootBoolean, changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootBigInt,
		changelog.RootFloat, changelog.RootDouble, changelog.RootDecimal, changelog.RootChar, changelog.RootVarchar,
		changelog.RootBinary, changelog.RootVarbinary, changelog.RootDate, changelog.RootTime:
		return p, nil
	case changelog.RootTimestamp, changelog.RootTimestampLTZ:
		if at.sources {
			return p, nil
		}
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
		p.Record = at.record
		for i := range t.Fields {
			in := at
			in.record += "_" + t.Fields[i].Name
			err := CheckName(t.Fields[i].Name)
			var f Plan
			if err == nil {
				f, err = newPlan(&t.Fields[i].Type, in)
				f.HasDefault = !t.Fields[i].Type.NotNull
			}
			if err != nil {
				return p, fmt.Errorf("field %s: %w", t.Fields[i].Name, err)
			}
			p.Fields = append(p.Fields, f)
		}
		return p, nil
	}
	return p, fmt.Errorf("Avro has no type %s", t)
}

func (p Plan) with(elem *changelog.Type, at place) (Plan, error) {
	at.nested, at.element = true, true
	e, err := newPlan(elem, at)
	p.Elem = &e
	return p, err
}

// CheckName reports a name that Avro does not take.
func CheckName(name string) error {
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
	case t.Root == changelog.RootTimestampLTZ && at.registry:
		return errors.New("Flink has no TIMESTAMP_LTZ in this format; declare a TIMESTAMP(3)")
	case t.Precision > most && at.registry:
		return fmt.Errorf("Flink has no %s in this format, only up to precision 3", t)
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

// Branch is what the JSON encoding calls the type of a union's second branch.
func (p *Plan) Branch() string {
	switch p.Type.Root {
	case changelog.RootBoolean:
		return "boolean"
	case changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootDate, changelog.RootTime:
		return "int"
	case changelog.RootBigInt, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		return "long"
	case changelog.RootFloat:
		return "float"
	case changelog.RootDouble:
		return "double"
	case changelog.RootChar, changelog.RootVarchar:
		return "string"
	case changelog.RootArray:
		return "array"
	case changelog.RootMap, changelog.RootMultiset:
		return "map"
	case changelog.RootRow:
		return p.Record
	}
	return "bytes"
}
