package sinktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Call is one call that reaches [Faults].
type Call struct {
	Name string // one of Calls
	Sink string // the declared name of the sink; "" for a store
}

// Injector chooses calls. It may count those it is asked about, so it belongs to one [Faults] and one run: for another run, parse its text
// again with [ParseInjector]. Its String is that text.
type Injector interface {
	Hit(c Call) bool
	String() string
}

// Calling chooses calls by name, one of [Calls].
func Calling(name string) Injector { return calling(name) }

// OnSink chooses calls of one sink, by its declared name.
func OnSink(name string) Injector { return onSink(name) }

// OnCall chooses the nth call that it is asked about, from 1. Behind others in an [And] it counts the calls that those chose:
// And(Calling("save"), OnCall(3)) is the third Save.
func OnCall(n int) Injector { return &onCall{n: n} }

// Random chooses each call with a probability. The same seed and the same calls give the same choice.
func Random(p float64, seed uint64) Injector {
	return &random{p: p, seed: seed, dice: rand.New(rand.NewPCG(seed, seed))}
}

// And chooses what all of them choose. They are asked in order, and none after the first that does not.
func And(of ...Injector) Injector { return all(of) }

// Or chooses what any of them chooses. All of them are asked, so that each counts every call.
func Or(of ...Injector) Injector { return anyOf(of) }

// Not chooses what the other does not.
func Not(i Injector) Injector { return not{i} }

type (
	calling string
	onSink  string
	onCall  struct{ n, seen int }
	random  struct {
		p    float64
		seed uint64
		dice *rand.Rand
	}
	all   []Injector
	anyOf []Injector
	not   struct{ i Injector }
)

func (i calling) Hit(c Call) bool { return c.Name == string(i) }
func (i onSink) Hit(c Call) bool  { return c.Sink == string(i) }
func (i *onCall) Hit(Call) bool   { i.seen++; return i.seen == i.n }
func (i *random) Hit(Call) bool   { return i.dice.Float64() < i.p }
func (i not) Hit(c Call) bool     { return !i.i.Hit(c) }

func (i all) Hit(c Call) bool {
	for _, x := range i {
		if !x.Hit(c) {
			return false
		}
	}
	return true
}

func (i anyOf) Hit(c Call) bool {
	hit := false
	for _, x := range i {
		hit = x.Hit(c) || hit
	}
	return hit
}

func (i calling) String() string { return "Calling(" + string(i) + ")" }
func (i onSink) String() string  { return "OnSink(" + strconv.Quote(string(i)) + ")" }
func (i *onCall) String() string { return fmt.Sprintf("OnCall(%d)", i.n) }
func (i *random) String() string {
	return fmt.Sprintf("Random(%s, %d)", strconv.FormatFloat(i.p, 'g', -1, 64), i.seed)
}
func (i all) String() string   { return "And(" + list(i) + ")" }
func (i anyOf) String() string { return "Or(" + list(i) + ")" }
func (i not) String() string   { return "Not(" + i.i.String() + ")" }

func list(of []Injector) string {
	s := make([]string, len(of))
	for n, i := range of {
		s[n] = i.String()
	}
	return strings.Join(s, ", ")
}

// ParseInjector reads what String of an injector prints, such as "And(Calling(save), Not(OnCall(1)))". Each call of it returns an injector that
// has counted nothing.
func ParseInjector(s string) (Injector, error) {
	p := injectorText{rest: s}
	i := p.injector(0)
	if p.space(); p.err == nil && p.rest != "" {
		p.fail("the end")
	}
	if p.err != nil {
		return nil, fmt.Errorf("sinktest: %q is no injector: %w", s, p.err)
	}
	return i, nil
}

// injectorText reads the text of an injector from its front; after the first error it reads nothing.
type injectorText struct {
	rest string
	err  error
}

func (p *injectorText) fail(expected string) {
	if p.err == nil {
		p.err = fmt.Errorf("expected %s before %.20q", expected, p.rest)
	}
}

func (p *injectorText) space() { p.rest = strings.TrimLeft(p.rest, " ") }

func (p *injectorText) eat(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok && p.err == nil {
		p.rest = rest
	}
	return ok && p.err == nil
}

// want is eat of what has to be there.
func (p *injectorText) want(token string) {
	if !p.eat(token) {
		p.fail(strconv.Quote(token))
	}
}

// word reads up to a bracket, a comma or a space.
func (p *injectorText) word() string {
	p.space()
	end := strings.IndexAny(p.rest, "(), ")
	if end < 0 {
		end = len(p.rest)
	}
	w := p.rest[:end]
	p.rest = p.rest[end:]
	return w
}

// deepest bounds what a text can nest.
const deepest = 100

func (p *injectorText) injector(depth int) Injector {
	if depth > deepest {
		p.fail("no more than 100 levels")
	}
	if p.err != nil {
		return nil
	}
	name := p.word()
	p.want("(")
	var out Injector
	switch name {
	case "Calling":
		call := p.word()
		if !slices.Contains(Calls(), call) {
			p.fail("one of " + strings.Join(Calls(), ", "))
		}
		out = Calling(call)
	case "OnSink":
		p.space()
		quoted, err := strconv.QuotedPrefix(p.rest)
		if err != nil {
			p.fail("a quoted name")
			return nil
		}
		p.rest = p.rest[len(quoted):]
		sink, _ := strconv.Unquote(quoted)
		out = OnSink(sink)
	case "OnCall":
		n, err := strconv.Atoi(p.word())
		if err != nil || n < 1 {
			p.fail("a number from 1")
		}
		out = OnCall(n)
	case "Random":
		chance, err := strconv.ParseFloat(p.word(), 64)
		if err != nil || !(chance >= 0 && chance <= 1) {
			p.fail("a probability")
		}
		p.want(",")
		seed, err := strconv.ParseUint(p.word(), 10, 64)
		if err != nil {
			p.fail("a seed")
		}
		out = Random(chance, seed)
	case "And", "Or":
		var of []Injector
		for {
			of = append(of, p.injector(depth+1))
			if !p.eat(",") {
				break
			}
		}
		out = And(of...)
		if name == "Or" {
			out = Or(of...)
		}
	case "Not":
		out = Not(p.injector(depth + 1))
	default:
		p.fail("Calling, OnSink, OnCall, Random, And, Or or Not")
	}
	p.want(")")
	if p.err != nil {
		return nil
	}
	return out
}
