package explain

import (
	"errors"
	"strings"
)

// Explanation is what a text holds, in its order.
type Explanation struct {
	Plans    []*Plan
	Refusals []*Refusal // what the planner would not plan
}

// The headings of ExplainResult. The AST before the physical plan has no modes, and the execution plan behind it none either.
const (
	heading  = "== "
	physical = "== Optimized Physical Plan"
)

// Parse reads the answer to EXPLAIN, or to several of them. It is an error if there is neither a plan nor a refusal in it.
func Parse(text string) (*Explanation, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	e := &Explanation{}
	lines := strings.Split(text, "\n")
	found := false
	for i := 0; i < len(lines); i++ {
		if strings.HasPrefix(strings.TrimSpace(lines[i]), physical) {
			found = true
			end := i + 1
			for end < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[end]), heading) && !isError(lines[end]) {
				end++
			}
			e.section(lines[i+1 : end])
			i = end - 1
		}
	}
	if !found && strings.Contains(text, "changelogMode=[") {
		e.section(lines) // a plan that was copied without its heading
	}
	e.refusals(lines)
	if len(e.Plans) == 0 && len(e.Refusals) == 0 {
		return nil, errors.New("explain: the text holds no plan: it must be what EXPLAIN CHANGELOG_MODE INSERT INTO ... prints, with its '== Optimized Physical Plan ==', or the planner's error")
	}
	return e, nil
}

// section reads the trees of one physical plan. Each node is a line, behind three characters for each level; what is no node goes on with the line
// before it, since texts in conditions may have line ends.
func (e *Explanation) section(lines []string) {
	type level struct {
		text  string
		depth int
	}
	var tree []level
	var advice []string
	flush := func() {
		if len(tree) == 0 {
			return
		}
		var stack []*Node
		nodes := make([]*Node, len(tree))
		for i, l := range tree {
			n := newNode(l.text)
			nodes[i] = n
			l.depth = min(l.depth, len(stack)) // a level that was left out hangs below the last one
			if stack = stack[:l.depth]; len(stack) > 0 {
				up := stack[len(stack)-1]
				up.Inputs = append(up.Inputs, n)
			}
			stack = append(stack, n)
		}
		e.Plans = append(e.Plans, newPlan(nodes[0]))
		tree = nil
	}
	first := len(e.Plans)
	for _, line := range lines {
		depth, rest := indent(line)
		switch {
		case strings.TrimSpace(line) == "":
			flush()
		case strings.HasPrefix(line, "advice["):
			flush()
			advice = append(advice, line)
		case strings.HasPrefix(line, "No available advice"):
			flush()
		case isNode(rest) && (depth > 0) == (len(tree) > 0):
			tree = append(tree, level{rest, depth})
		case isNode(rest) && depth == 0:
			flush()
			tree = append(tree, level{rest, 0})
		case len(tree) > 0:
			tree[len(tree)-1].text += "\n" + line
		}
	}
	flush()
	for _, p := range e.Plans[first:] {
		p.Advice = advice
	}
}

// indent takes the lines of a tree off: "   ", ":  " for each level but the last, and "+- " or ":- ".
func indent(line string) (depth int, rest string) {
	rest = line
	for len(rest) >= 3 {
		switch rest[:3] {
		case "   ", ":  ":
			depth++
		case "+- ", ":- ":
			return depth + 1, rest[3:]
		default:
			return depth, rest
		}
		rest = rest[3:]
	}
	return depth, rest
}

// isNode reports a line that begins with the name of a node and a parenthesis.
func isNode(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z' || i > 0 && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_'):
		case c == '(':
			return i > 0
		default:
			return false
		}
	}
	return false
}
