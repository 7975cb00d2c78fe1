package elastic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// Mapping returns the body of a create index request for t, as Options.CreateIndex sends it.
//
//	BOOLEAN, TINYINT, SMALLINT, INT, BIGINT   boolean, byte, short, integer, long
//	FLOAT, DOUBLE          float, double with ignore_malformed: NaN and infinities stay in the source and are not searched
//	DECIMAL(p <= 18, s)    scaled_float with factor 10^s (double where the server lacks it)
//	DECIMAL above          keyword
//	CHAR .. STRING         text with a keyword beside it, as the server's own default; of a key keyword
//	BINARY .. BYTES        binary
//	DATE, TIMESTAMP, TIMESTAMP_LTZ   date (a search sees milliseconds; the source keeps all digits)
//	TIME                   keyword
//	INTERVAL               long
//	ROW, ARRAY             object; that of the elements
//	MAP, MULTISET          object that is not searched: each key would be a field
//
// The mapping is strict: a field that is not in it is refused. For a table of very many columns it raises index.mapping.total_fields.limit.
func (s *Sink) Mapping(t *changelog.Table) (string, error) {
	p, err := s.plan(t)
	if err != nil {
		return "", err
	}
	return s.mapping(p, "scaled_float")
}

func (s *Sink) mapping(p *plan, decimal string) (string, error) {
	properties := make(map[string]any)
	for _, c := range p.columns {
		col := &p.table.Schema.Columns[c.number]
		m := fieldMapping(&col.Type, decimal)
		if col.Type.Root == changelog.RootVarchar || col.Type.Root == changelog.RootChar {
			if slices.Contains(p.table.Schema.Key, c.number) {
				m = map[string]any{"type": "keyword"}
			}
		}
		properties[s.field(col.Name)] = m
	}
	properties[s.o.Meta] = map[string]any{"type": "object", "enabled": false}
	if s.o.Deletes == Tombstone {
		properties[DeletedField] = map[string]any{"type": "date"}
	}
	body := map[string]any{"mappings": map[string]any{"dynamic": "strict", "properties": properties}}
	if n := fields(properties); n > defaultFields-spareFields {
		body["settings"] = map[string]any{"index": map[string]any{"mapping": map[string]any{"total_fields": map[string]any{"limit": n + spareFields}}}}
	}
	b, err := json.MarshalIndent(body, "", "  ")
	return string(b), err
}

const (
	defaultFields = 1000 // of index.mapping.total_fields.limit
	spareFields   = 100  // for columns that come later
)

// fields counts as the server does: objects and fields beside another one too.
func fields(properties map[string]any) int {
	n := len(properties)
	for _, p := range properties {
		for _, more := range []string{"properties", "fields"} {
			if inner, ok := p.(map[string]any)[more].(map[string]any); ok {
				n += fields(inner)
			}
		}
	}
	return n
}

// decimal is the type of DECIMALs that a 64-bit integer can hold: scaled_float, or double for a server without the module mapper-extras.
func fieldMapping(t *changelog.Type, decimal string) map[string]any {
	of := func(name string) map[string]any { return map[string]any{"type": name} }
	switch t.Root {
	case changelog.RootBoolean:
		return of("boolean")
	case changelog.RootTinyInt:
		return of("byte")
	case changelog.RootSmallInt:
		return of("short")
	case changelog.RootInt:
		return of("integer")
	case changelog.RootBigInt, changelog.RootIntervalDayTime, changelog.RootIntervalYearMonth:
		return of("long")
	case changelog.RootFloat:
		return map[string]any{"type": "float", "ignore_malformed": true}
	case changelog.RootDouble:
		return map[string]any{"type": "double", "ignore_malformed": true}
	case changelog.RootDecimal:
		if t.Precision > exactDigits {
			return of("keyword")
		}
		if decimal != "scaled_float" {
			return of(decimal)
		}
		factor, _ := strconv.ParseInt("1"+strings.Repeat("0", t.Scale), 10, 64)
		return map[string]any{"type": "scaled_float", "scaling_factor": factor}
	case changelog.RootBinary, changelog.RootVarbinary:
		return of("binary")
	case changelog.RootDate, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		return of("date")
	case changelog.RootTime:
		return of("keyword")
	case changelog.RootArray:
		return fieldMapping(t.Elem, decimal)
	case changelog.RootMap, changelog.RootMultiset:
		return map[string]any{"type": "object", "enabled": false}
	case changelog.RootRow:
		properties := make(map[string]any)
		for i := range t.Fields {
			properties[t.Fields[i].Name] = fieldMapping(&t.Fields[i].Type, decimal)
		}
		return map[string]any{"properties": properties}
	}
	return map[string]any{"type": "text", "fields": map[string]any{"keyword": map[string]any{"type": "keyword", "ignore_above": 256}}}
}

// liveField is a field of a live mapping.
type liveField struct {
	Type       string               `json:"type"`
	Dynamic    json.RawMessage      `json:"dynamic"`
	Enabled    json.RawMessage      `json:"enabled"`
	Properties map[string]liveField `json:"properties"`
}

// fits compares the columns with a live mapping, and returns all that would be refused, row by row, later.
func (s *Sink) fits(p *plan, live liveField) error {
	var errs []error
	strict := string(bytes.Trim(live.Dynamic, `"`)) == "strict"
	look := func(field, what string, accept []string, why, own string) {
		f, ok := live.field(field)
		body, leave := "", ", or leave the column out with Options.Columns"
		if own != "" { // it is no column
			body, leave = fmt.Sprintf(` {"properties":{%q:%s}}`, field, own), ""
		}
		switch {
		case !ok && strict:
			errs = append(errs, fmt.Errorf("the mapping is strict and lacks field %q of %s: add it with PUT %s/_mapping%s%s", field, what, p.index, body, leave))
		case ok && len(accept) > 0 && f.Type != "" && !slices.Contains(accept, f.Type):
			errs = append(errs, fmt.Errorf("field %q has type %s, which cannot take %s (%s): make it one of %s in a new index%s",
				field, f.Type, what, why, strings.Join(accept, ", "), leave))
		case ok && len(accept) > 0 && f.Type == "" && len(f.Properties) > 0 && !slices.Contains(accept, "object"):
			errs = append(errs, fmt.Errorf("field %q is an object, which cannot take %s", field, what))
		}
	}
	for _, c := range p.columns {
		col := &p.table.Schema.Columns[c.number]
		accept, why := accepting(&col.Type)
		look(s.field(col.Name), fmt.Sprintf("column %q %s", col.Name, &col.Type), accept, why, "")
	}
	look(s.o.Meta, "Options.Meta, which says where a document comes from", []string{"object", "flattened"}, "an object", `{"type":"object","enabled":false}`)
	if s.o.Deletes == Tombstone && p.deletes {
		look(DeletedField, "tombstones", []string{"date"}, "a time", `{"type":"date"}`)
	}
	return errors.Join(errs...)
}

// field finds a field by its name, whose dots lead into objects.
func (f liveField) field(name string) (liveField, bool) {
	if g, ok := f.Properties[name]; ok {
		return g, true
	}
	if head, tail, ok := strings.Cut(name, "."); ok {
		if g, ok := f.Properties[head]; ok {
			return g.field(tail)
		}
	}
	return liveField{}, false
}

// accepting returns the field types that take every value of t, and what it is written as; none: any may do, which only the server can tell.
func accepting(t *changelog.Type) (types []string, as string) {
	texts := []string{"text", "keyword", "wildcard", "match_only_text", "constant_keyword"}
	numbers := []string{"double", "float", "half_float", "scaled_float"}
	switch t.Root {
	case changelog.RootBoolean:
		return append([]string{"boolean"}, texts...), "true or false"
	case changelog.RootTinyInt:
		return slices.Concat([]string{"byte", "short", "integer", "long"}, numbers, texts), "a number"
	case changelog.RootSmallInt:
		return slices.Concat([]string{"short", "integer", "long"}, numbers, texts), "a number"
	case changelog.RootInt:
		return slices.Concat([]string{"integer", "long", "date"}, numbers, texts), "a number"
	case changelog.RootBigInt, changelog.RootIntervalDayTime, changelog.RootIntervalYearMonth:
		return slices.Concat([]string{"long", "date"}, numbers, texts), "a number"
	case changelog.RootFloat, changelog.RootDouble:
		return slices.Concat(numbers, texts), "a number"
	case changelog.RootDecimal:
		if t.Precision > exactDigits {
			return slices.Concat(texts, []string{"double", "scaled_float"}), "a text of digits"
		}
		return slices.Concat(numbers, texts), "a number"
	case changelog.RootBinary, changelog.RootVarbinary:
		return append([]string{"binary"}, texts...), "base64"
	case changelog.RootDate, changelog.RootTimestamp, changelog.RootTimestampLTZ:
		return slices.Concat([]string{"date", "date_nanos"}, texts), "a text"
	case changelog.RootTime:
		return slices.Concat(texts, []string{"date"}), "a text"
	case changelog.RootArray:
		return accepting(t.Elem)
	case changelog.RootMap, changelog.RootMultiset:
		return []string{"object", "flattened", "nested"}, "an object"
	}
	return nil, ""
}
