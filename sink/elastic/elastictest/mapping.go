package elastictest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// field is one field of a mapping.
type field struct {
	Type       string            `json:"type,omitempty"`
	Dynamic    any               `json:"dynamic,omitempty"`
	Enabled    *bool             `json:"enabled,omitempty"`
	Scaling    any               `json:"scaling_factor,omitempty"`
	Properties map[string]*field `json:"properties,omitempty"`
	Fields     map[string]*field `json:"fields,omitempty"`
	Above      int               `json:"ignore_above,omitempty"`
	Malformed  bool              `json:"ignore_malformed,omitempty"`
	Meta       map[string]any    `json:"_meta,omitempty"`
}

func (x *index) putMapping(body []byte) *problem {
	if len(body) == 0 {
		return nil
	}
	var f field
	if err := json.Unmarshal(body, &f); err != nil {
		return &problem{status: 400, typ: "mapper_parsing_exception", reason: err.Error()}
	}
	if f.Dynamic != nil {
		x.mapping.Dynamic = f.Dynamic
	}
	if f.Meta != nil {
		x.mapping.Meta = f.Meta
	}
	return x.mapping.merge(&f)
}

func (f *field) merge(g *field) *problem {
	for name, p := range g.Properties {
		if f.Properties == nil {
			f.Properties = make(map[string]*field)
		}
		old := f.Properties[name]
		if old == nil {
			f.Properties[name] = p
			continue
		}
		if old.Type != p.Type {
			return &problem{status: 400, typ: "illegal_argument_exception", reason: fmt.Sprintf("mapper [%s] cannot be changed from type [%s] to [%s]", name, old.Type, p.Type)}
		}
		if p := old.merge(p); p != nil {
			return p
		}
	}
	return nil
}

func (x *index) putSettings(body []byte) *problem {
	if len(body) == 0 {
		return nil
	}
	var settings map[string]any
	if err := json.Unmarshal(body, &settings); err != nil {
		return &problem{status: 400, typ: "parse_exception", reason: err.Error()}
	}
	if inner, ok := settings["index"].(map[string]any); ok {
		maps.Copy(settings, inner)
	}
	for name, v := range settings {
		switch strings.TrimPrefix(name, "index.") {
		case "gc_deletes":
			x.gc = fmt.Sprint(v)
		case "blocks.write":
			x.readOnly = fmt.Sprint(v) == "true"
		}
	}
	return nil
}

// check refuses a document that does not fit, as the server does.
func (f *field) check(at string, doc map[string]any) *problem {
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		full := name
		if at != "" {
			full = at + "." + name
		}
		g := f.Properties[name]
		if g == nil {
			if f.Dynamic == "strict" {
				return &problem{status: 400, typ: "strict_dynamic_mapping_exception", reason: fmt.Sprintf("[1:1] mapping set to strict, dynamic introduction of [%s] within [_doc] is not allowed", full)}
			}
			continue
		}
		if err := g.takes(full, doc[name]); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) takes(name string, v any) *problem {
	if v == nil || f.Enabled != nil && !*f.Enabled {
		return nil
	}
	if list, ok := v.([]any); ok {
		for _, e := range list {
			if p := f.takes(name, e); p != nil {
				return p
			}
		}
		return nil
	}
	if f.Properties != nil || f.Type == "object" || f.Type == "nested" {
		m, ok := v.(map[string]any)
		if !ok {
			return &problem{status: 400, typ: "document_parsing_exception", reason: fmt.Sprintf("[1:1] object mapping for [%s] tried to parse field [%s] as object, but found a concrete value", name, name)}
		}
		sub := *f
		return sub.check(name, m)
	}
	if _, object := v.(map[string]any); f.Type != "" && !fits(f.Type, v) && (object || !f.Malformed) {
		return &problem{status: 400, typ: "document_parsing_exception",
			reason: fmt.Sprintf("[1:1] failed to parse field [%s] of type [%s] in document with id '?'. Preview of field's value: '%v'", name, f.Type, v),
			caused: &problem{typ: "illegal_argument_exception", reason: "For input string"}}
	}
	return nil
}

var (
	floatBits = map[string]int{"float": 32, "double": 64, "scaled_float": 64}
	bits      = map[string]int{"byte": 8, "short": 16, "integer": 32, "long": 64}
	date      = regexp.MustCompile(`^\d{4}(-\d{2}(-\d{2}(T\d{2}(:\d{2}(:\d{2}([.,]\d{1,9})?)?)?(Z|[+-]\d{2}:?\d{2})?)?)?)?$|^-?\d+$`)
)

func fits(typ string, v any) bool {
	if _, ok := v.(map[string]any); ok {
		return false
	}
	text := fmt.Sprint(v)
	switch typ {
	case "boolean":
		return text == "true" || text == "false" || text == ""
	case "byte", "short", "integer", "long":
		_, err := strconv.ParseInt(text, 10, bits[typ])
		return err == nil
	case "float", "double", "scaled_float":
		f, err := strconv.ParseFloat(text, floatBits[typ])
		return err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	case "date":
		return date.MatchString(text)
	case "binary":
		_, err := base64.StdEncoding.DecodeString(text)
		return err == nil
	}
	return true
}
