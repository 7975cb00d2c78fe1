package json

import "strconv"

// failure is why a value, a row or a message cannot be read. It never holds a part of the message.
type failure struct {
	kind   failureKind
	path   string // of the field, grown from the inside out
	reason string
}

type failureKind uint8

const (
	// misfit: a whole token does not fit its type. 'ignore-parse-errors' makes it NULL.
	misfit failureKind = iota
	// broken: the text is no JSON from here on, and what follows is read from a place inside a token.
	broken
	// final: nothing makes it pass: a guess of Flink's while not lenient, or a bound of ours.
	final
)

func misfitf(reason string) *failure { return &failure{kind: misfit, reason: reason} }
func brokenf(reason string) *failure { return &failure{kind: broken, reason: reason} }
func finalf(reason string) *failure  { return &failure{kind: final, reason: reason} }

// at puts f inside the field called name.
func (f *failure) at(name string) *failure {
	switch {
	case f.path == "" || f.path[0] == '[':
		f.path = name + f.path
	default:
		f.path = name + "." + f.path
	}
	return f
}

// element puts f inside element i of an array.
func (f *failure) element(i int) *failure { return f.at("[" + strconv.Itoa(i) + "]") }

// entry puts f inside a value of a map, whose key is data and so not told.
func (f *failure) entry() *failure { return f.at("[*]") }
