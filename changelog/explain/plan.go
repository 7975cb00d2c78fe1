package explain

import (
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// Plan is how one table is written, or one SELECT is answered: an optimized physical plan.
type Plan struct {
	Sink        string         // the table, as the plan names it: catalog.database.table; "" for a SELECT
	Known       bool           // the plan tells modes: it was asked for with CHANGELOG_MODE
	Input       changelog.Mode // the kinds of change that reach the sink
	Materialize bool           // a SinkUpsertMaterializer stands before the sink: upsertMaterialize=[true]
	KeyOnly     bool           // deletes that reach the sink may know their key only (PD, from Flink 2.1 on)
	Root        *Node
	Advice      []string // what PLAN_ADVICE said of it
}

// Node is one operator of a plan.
type Node struct {
	Name    string // "GroupAggregate"
	Text    string // as it is printed, without its mode
	Mode    changelog.Mode
	Known   bool // the plan tells its mode
	KeyOnly bool
	Inputs  []*Node
}

// Mode is the set of the kinds that the job writes: what reaches the sink, or what a SinkUpsertMaterializer makes of it, which never writes a -U.
func (p *Plan) Mode() changelog.Mode {
	m := p.Input
	if p.Materialize {
		if m.Contains(changelog.UpdateBefore) {
			m |= 1 << changelog.Delete // of a key whose last row is retracted
		}
		m = m&^(1<<changelog.UpdateBefore) | 1<<changelog.Insert | 1<<changelog.UpdateAfter
	}
	return m
}

// FirstUpdate returns the node nearest to a source that makes updates, and FirstDelete the one that makes deletes; nil where none does. Of several the leftmost
// is meant.
func (p *Plan) FirstUpdate() *Node {
	return p.first(1<<changelog.UpdateBefore | 1<<changelog.UpdateAfter)
}

// FirstDelete is described at [Plan.FirstUpdate].
func (p *Plan) FirstDelete() *Node { return p.first(1 << changelog.Delete) }

func (p *Plan) first(kinds changelog.Mode) *Node {
	if p.Root == nil || p.Input&kinds == 0 {
		return nil
	}
	n := p.Root
	for {
		var from *Node
		for _, in := range n.Inputs {
			if in.Mode&kinds != 0 {
				from = in
				break
			}
		}
		if from == nil {
			return n
		}
		n = from
	}
}

// newNode reads one node as RelTreeWriterImpl prints it.
func newNode(text string) *Node {
	n := &Node{Text: text}
	n.Name, _, _ = strings.Cut(text, "(")
	const attr = "changelogMode=["
	i := strings.LastIndex(text, attr)
	if i < 0 {
		return n
	}
	end := strings.IndexByte(text[i:], ']')
	if end < 0 {
		return n
	}
	letters := text[i+len(attr) : i+end]
	rest := text[i+end+1:]
	before := strings.TrimSuffix(text[:i], ", ")
	if strings.HasSuffix(before, "(") {
		rest = strings.TrimPrefix(rest, ", ")
	}
	n.Text = before + rest
	if letters == "NONE" { // a sink writes nothing on
		n.Known = true
		return n
	}
	m, err := changelog.ParseMode("[" + letters + "]")
	if err != nil {
		n.Text = text
		return n
	}
	n.Mode, n.Known = m, true
	for _, l := range strings.Split(letters, ",") {
		n.KeyOnly = n.KeyOnly || strings.TrimSpace(l) == "PD"
	}
	return n
}

// attribute returns the value of name=[...] in a node's text, brackets in it included; "" if there is none.
func attribute(text, name string) string {
	_, rest, ok := strings.Cut(text, name+"=[")
	if !ok {
		return ""
	}
	depth := 1
	for i := range len(rest) {
		switch rest[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return rest[:i]
			}
		}
	}
	return ""
}

// short is a node as a sentence names it: with what it is by, not with all that it selects.
func (n *Node) short() string {
	for _, name := range []string{"groupBy", "partitionBy", "key", "where", "table", "fields"} {
		v := attribute(n.Text, name)
		if v == "" {
			continue
		}
		if name == "table" { // [[catalog, database, table, ...]]
			parts := strings.Split(strings.Trim(v, "[]"), ", ")
			v = strings.Join(parts[:min(3, len(parts))], ".")
		}
		const most = 100
		if r := []rune(v); len(r) > most {
			v = string(r[:most]) + "…"
		}
		return n.Name + "(" + name + "=[" + v + "])"
	}
	return n.Name
}

// newPlan makes a plan of the root of a tree.
func newPlan(root *Node) *Plan {
	p := &Plan{Root: root}
	if root.Name == "Sink" || root.Name == "LegacySink" {
		if p.Sink = attribute(root.Text, "table"); p.Sink == "" {
			p.Sink = attribute(root.Text, "name")
		}
		// An UNION of several inputs is a node of its own, so that a sink has one.
		for _, in := range root.Inputs {
			p.Input |= in.Mode
			p.Known = p.Known || in.Known
			p.KeyOnly = p.KeyOnly || in.KeyOnly
		}
		p.Materialize = attribute(root.Text, "upsertMaterialize") == "true"
		return p
	}
	p.Input, p.Known, p.KeyOnly = root.Mode, root.Known, root.KeyOnly
	return p
}

// Table is the last part of the sink's name.
func (p *Plan) Table() string { return lastName(p.Sink) }

func lastName(name string) string {
	return strings.Trim(name[strings.LastIndexByte(name, '.')+1:], "`")
}
