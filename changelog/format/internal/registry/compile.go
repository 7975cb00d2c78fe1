package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/twmb/avro"
)

// compile brings a writer's schema together with the plan of the table, as Avro's Resolver does, which Flink's reader runs. Like it, and unlike the
// resolution of the parser's own package, what does not fit fails where a datum comes to it and not before: a union of which only
// some branches fit is read as long as the others are not taken.
//
// With sources a value of a type of Kafka Connect or Debezium is read as what it is, which Flink does not do.
func compile(s *schema, p *flinkavro.Plan, sources bool) *flinkavro.Step {
	c := compiler{s, map[match]*flinkavro.Step{}, map[string]*flinkavro.Step{}, sources}
	return c.resolve(s.root, p)
}

type compiler struct {
	*schema
	done    map[match]*flinkavro.Step  // records of the writer beside ROWs
	skipped map[string]*flinkavro.Step // records of the writer that are passed over
	sources bool
}

type match struct {
	record string
	plan   *flinkavro.Plan
}

func fail(reason string, args ...any) *flinkavro.Step {
	return &flinkavro.Step{Op: flinkavro.OpFail, Reason: fmt.Sprintf(reason, args...)}
}

// resolve is Resolver.resolve, with WriterUnion.resolve.
func (c *compiler) resolve(n *avro.SchemaNode, p *flinkavro.Plan) *flinkavro.Step {
	if n = c.node(n); n.Type != "union" {
		return c.single(n, p)
	}
	u := &flinkavro.Step{Op: flinkavro.OpUnion, Plan: p}
	for i := range n.Branches {
		u.Steps = append(u.Steps, c.single(c.node(&n.Branches[i]), p))
	}
	same := func(i int, op flinkavro.Op) bool { return u.Steps[i].Op == op && u.Steps[i].Reason == "" }
	if !p.Type.NotNull && len(u.Steps) == 2 && same(0, flinkavro.OpNull) && same(1, flinkavro.OpInner) {
		u.Op = flinkavro.OpPlan // the branches are kept: the root of a datum is read by them
	}
	return u
}

// single resolves what is no union.
func (c *compiler) single(n *avro.SchemaNode, p *flinkavro.Plan) *flinkavro.Step {
	inner := &flinkavro.Step{Op: flinkavro.OpInner, Plan: p, Reason: guessed(n, p)}
	reader := branch(p)
	switch {
	case n.Type == "null" && !p.Type.NotNull:
		return &flinkavro.Step{Op: flinkavro.OpNull, Plan: p}
	case n.Type == "null":
		return fail("the message has null here, and the column is %s", p.Type)
	}
	if c.sources {
		if s := c.source(n, p); s != nil {
			return s
		}
	}
	switch {
	case kind(n) != reader:
		return c.promote(n, p, inner)
	}
	switch reader {
	case "record":
		return c.record(n, p)
	case "array", "map":
		return c.elements(n, p)
	case "enum":
		return enum(n, p)
	case "fixed":
		if !named(n, p) || n.Size != p.Fixed {
			return fail("the message was written with fixed %s of %d bytes, and the option 'schema' has %s of %d", fullName(n), n.Size, p.Record, p.Fixed)
		}
		return &flinkavro.Step{Op: flinkavro.OpFixed, Plan: p, Size: n.Size, Reason: inner.Reason}
	}
	return inner
}

// branch is the Avro type of a plan's values.
func branch(p *flinkavro.Plan) string {
	switch {
	case p.Type.Root == changelog.RootRow:
		return "record"
	case p.Symbols != nil:
		return "enum"
	case p.Fixed > 0:
		return "fixed"
	}
	return p.Branch()
}

func kind(n *avro.SchemaNode) string {
	if n.Type == "error" {
		return "record"
	}
	return n.Type
}

// promote is Promote.resolve.
func (c *compiler) promote(n *avro.SchemaNode, p *flinkavro.Plan, inner *flinkavro.Step) *flinkavro.Step {
	step := *inner
	switch reader := branch(p); {
	case n.Type == "int" && reader == "long":
		step.Op = flinkavro.OpInt
		return &step
	case n.Type == "string" && reader == "bytes", n.Type == "bytes" && reader == "string":
		return &step // a length and as many bytes, both
	case reader != "float" && reader != "double":
	case n.Type == "int":
		step.Op, step.Size = flinkavro.OpToFloat, 32
		return &step
	case n.Type == "long":
		step.Op, step.Size = flinkavro.OpToFloat, 64
		return &step
	case n.Type == "float":
		step.Op, step.Size = flinkavro.OpToFloat, -1
		return &step
	}
	what := n.Type
	switch kind(n) {
	case "record", "enum", "fixed":
		what += " " + fullName(n)
	}
	return fail("the message was written with %s here, which Avro does not make %s of %s", what, branch(p), p.Type)
}

// named reports whether the reader takes the writer's type of that name. In a union only the full name counts, as in ReaderUnion.
func named(n *avro.SchemaNode, p *flinkavro.Plan) bool {
	name := fullName(n)
	if name == p.Record || slices.Contains(p.Names, name) {
		return true
	}
	return p.Type.NotNull && unqualified(name) == unqualified(p.Record)
}

func unqualified(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// record is RecordAdjust.resolve. The records' names do not matter: in a union Avro takes a record by its structure where the names differ.
func (c *compiler) record(n *avro.SchemaNode, p *flinkavro.Plan) *flinkavro.Step {
	key := match{record: fullName(n), plan: p}
	if s := c.done[key]; s != nil {
		return s
	}
	step := &flinkavro.Step{Op: flinkavro.OpRecord, Plan: p}
	c.done[key] = step
	same := len(n.Fields) == len(p.Fields)
	read := make([]bool, len(p.Fields))
	for i := range n.Fields {
		f := &n.Fields[i]
		at := readerField(n, f.Name, p)
		if at < 0 {
			step.Fields = append(step.Fields, flinkavro.Field{Name: f.Name, Target: -1, Step: c.skip(&f.Type)})
			same = false
			continue
		}
		if read[at] {
			*step = *fail("the message was written with two fields that are %s, by an alias of the option 'schema'", p.Type.Fields[at].Name)
			return step
		}
		read[at] = true
		s := c.resolve(&f.Type, &p.Fields[at])
		step.Fields = append(step.Fields, flinkavro.Field{Name: p.Type.Fields[at].Name, Target: at, Step: s})
		plan := s.Op == flinkavro.OpPlan || s.Op == flinkavro.OpInner && p.Fields[at].Type.NotNull
		same = same && at == i && plan && s.Reason == ""
	}
	for i := range p.Fields {
		switch f := &p.Fields[i]; {
		case read[i]:
		case !f.HasDefault:
			*step = *fail("the message was written with a schema that lacks the field %s, which is %s and has no default", p.Type.Fields[i].Name, f.Type)
			return step
		default:
			step.Defaults = append(step.Defaults, flinkavro.Default{Target: i, Value: f.Default})
		}
	}
	if same {
		step.Op = flinkavro.OpInner // and the fields are kept, as above
	}
	return step
}

// readerField finds the field of the plan that takes the writer's field called name. An alias of the reader renames the writer's field, where the
// records have the same name (Schema.applyAliases).
func readerField(n *avro.SchemaNode, name string, p *flinkavro.Plan) int {
	at := -1
	for i := range p.Fields {
		if p.Type.Fields[i].Name == name {
			at = i
		}
	}
	if own := fullName(n); own != p.Record && !slices.Contains(p.Names, own) {
		return at
	}
	for i := range p.Fields {
		if slices.Contains(p.Fields[i].Aliases, name) {
			at = i
		}
	}
	return at
}

func (c *compiler) elements(n *avro.SchemaNode, p *flinkavro.Plan) *flinkavro.Step {
	op, of := flinkavro.OpArray, n.Items
	if n.Type == "map" {
		op, of = flinkavro.OpMap, n.Values
	}
	elem := c.resolve(of, p.Elem)
	if elem.Reason == "" && (elem.Op == flinkavro.OpPlan || elem.Op == flinkavro.OpInner && p.Elem.Type.NotNull) {
		op = flinkavro.OpInner
	}
	return &flinkavro.Step{Op: op, Plan: p, Steps: []*flinkavro.Step{elem}}
}

// enum is EnumAdjust.resolve.
func enum(n *avro.SchemaNode, p *flinkavro.Plan) *flinkavro.Step {
	if !named(n, p) {
		return fail("the message was written with the enum %s, and the option 'schema' has %s", fullName(n), p.Record)
	}
	step := &flinkavro.Step{Op: flinkavro.OpEnum, Plan: p}
	for _, symbol := range n.Symbols {
		v := changelog.StringValue(symbol)
		if !slices.Contains(p.Symbols, symbol) {
			if v = (changelog.Value{}); p.EnumDefault != "" {
				v = changelog.StringValue(p.EnumDefault)
			}
		}
		step.Symbols = append(step.Symbols, v)
	}
	return step
}

// skip is how a field is passed over.
func (c *compiler) skip(n *avro.SchemaNode) *flinkavro.Step {
	n = c.node(n)
	step := &flinkavro.Step{}
	switch kind(n) {
	case "null":
		step.Op = flinkavro.OpNull
	case "boolean":
		step.Op, step.Size = flinkavro.OpSkip, 1
	case "float":
		step.Op, step.Size = flinkavro.OpSkip, 4
	case "double":
		step.Op, step.Size = flinkavro.OpSkip, 8
	case "fixed":
		step.Op, step.Size = flinkavro.OpSkip, n.Size
	case "int", "long", "enum":
		step.Op = flinkavro.OpSkipInt
	case "string", "bytes":
		step.Op = flinkavro.OpSkipBytes
	case "array":
		step.Op, step.Steps = flinkavro.OpArray, []*flinkavro.Step{c.skip(n.Items)}
	case "map":
		step.Op, step.Steps = flinkavro.OpMap, []*flinkavro.Step{c.skip(n.Values)}
	case "union":
		step.Op = flinkavro.OpUnion
		for i := range n.Branches {
			step.Steps = append(step.Steps, c.skip(&n.Branches[i]))
		}
	case "record":
		if s := c.skipped[fullName(n)]; s != nil {
			return s
		}
		step.Op = flinkavro.OpRecord
		c.skipped[fullName(n)] = step // before its fields, which may hold it again
		for i := range n.Fields {
			step.Fields = append(step.Fields, flinkavro.Field{Name: n.Fields[i].Name, Target: -1, Step: c.skip(&n.Fields[i].Type)})
		}
	default:
		return fail("the message was written with a schema that has an unknown type")
	}
	return step
}
