package flinkjson

import (
	"strconv"

	"github.com/flinksink/flinksink/changelog"
)

// Failure is why a value, a row or a message cannot be read. It never holds a part of the message.
type Failure struct {
	kind   failureKind
	class  changelog.DataClass
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
	// again: the message is to be read as a tree.
	again
)

// What these make has the class that such failures mostly have; As gives it another one.

func misfitf(reason string) *Failure {
	return &Failure{kind: misfit, class: changelog.WrongType, reason: reason}
}

func brokenf(reason string) *Failure {
	return &Failure{kind: broken, class: changelog.Malformed, reason: reason}
}

func finalf(reason string) *Failure {
	return &Failure{kind: final, class: changelog.OutOfRange, reason: reason}
}

// As gives f another class, if there is a failure.
func (f *Failure) As(class changelog.DataClass) *Failure {
	if f != nil {
		f.class = class
	}
	return f
}

// at puts f inside the field called name.
func (f *Failure) at(name string) *Failure {
	switch {
	case f.path == "" || f.path[0] == '[':
		f.path = name + f.path
	default:
		f.path = name + "." + f.path
	}
	return f
}

// element puts f inside element i of an array.
func (f *Failure) element(i int) *Failure { return f.at("[" + strconv.Itoa(i) + "]") }

// entry puts f inside a value of a map, whose key is data and so not told.
func (f *Failure) entry() *Failure { return f.at("[*]") }

// dataError is what callers of the package see of f.
func (f *Failure) dataError() error {
	return &changelog.DataError{Class: f.class, Field: f.path, Reason: f.reason}
}
