package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
)

// schema is a parsed schema. types has the records, enums and fixeds that are defined in it and in what it refers to, by full name.
type schema struct {
	root  *avro.SchemaNode
	types map[string]*avro.SchemaNode
}

// parser parses a schema after those that it refers to.
type parser struct {
	client *client // nil: there are none
	cache  avro.SchemaCache
	seen   map[string]bool
	types  map[string]*avro.SchemaNode
}

func (p *parser) references(ctx context.Context, refs []sr.SchemaReference) error {
	for _, ref := range refs {
		key := fmt.Sprintf("%s\x00%d", ref.Subject, ref.Version)
		if p.seen[key] {
			continue
		}
		if p.seen[key] = true; len(p.seen) > maxReferences {
			return &changelog.DataError{Class: changelog.SchemaMismatch, Reason: "the message was written with a schema that refers to too many others"}
		}
		s, err := p.client.sr.SchemaByVersion(ctx, ref.Subject, ref.Version)
		if err != nil {
			return err
		}
		if err := p.references(ctx, s.References); err != nil {
			return err
		}
		if _, err := p.parse(s.Schema.Schema); err != nil {
			return &changelog.DataError{Class: changelog.SchemaMismatch, Reason: fmt.Sprintf("the message was written with a schema that refers to version %d of subject %s, which cannot be parsed", ref.Version, ref.Subject), Err: errors.New(short(err.Error()))}
		}
	}
	return nil
}

func (p *parser) parse(text string) (*schema, error) {
	parsed, err := p.cache.Parse(text, avro.WithLaxNames(nil))
	if err != nil {
		return nil, err
	}
	s := &schema{parsed.Root(), p.types}
	collect(s.root, p.types, "")
	return s, nil
}

// collect finds the named types that are defined in n, and gives the references in it their full names, which in the text are relative to the
// namespace of the type around them.
func collect(n *avro.SchemaNode, types map[string]*avro.SchemaNode, namespace string) {
	switch n.Type {
	case "record", "error", "enum", "fixed":
		name := fullName(n)
		types[name] = n
		namespace = name[:max(0, strings.LastIndexByte(name, '.'))]
	case "null", "boolean", "int", "long", "float", "double", "string", "bytes", "array", "map", "union":
	default:
		if full := qualified(n.Type, namespace); types[full] != nil {
			n.Type = full
		}
	}
	for i := range n.Fields {
		collect(&n.Fields[i].Type, types, namespace)
	}
	for i := range n.Branches {
		collect(&n.Branches[i], types, namespace)
	}
	if n.Items != nil {
		collect(n.Items, types, namespace)
	}
	if n.Values != nil {
		collect(n.Values, types, namespace)
	}
}

func fullName(n *avro.SchemaNode) string {
	return qualified(n.Name, n.Namespace)
}

// qualified is a name in a namespace, which a name with a dot has already.
func qualified(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

// node follows a reference to a type that is defined elsewhere. What is not defined there is one of the primitive types.
func (s *schema) node(n *avro.SchemaNode) *avro.SchemaNode {
	if def, ok := s.types[n.Type]; ok {
		return def
	}
	return n
}
