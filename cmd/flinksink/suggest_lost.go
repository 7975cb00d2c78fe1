package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/flinksink/flinksink/sink"
)

// positionsCommand finds a command about positions in an error of the library, which knows neither the store's URL nor how the bridge is called.
var positionsCommand = regexp.MustCompile(`'flinksink positions (set|reset|skip)( [^']*)?'`)

// settleCommand is the same of the command that settles.
var settleCommand = regexp.MustCompile(`'flinksink settle( [^']*)?'`)

// whole completes the commands that an ErrLost names to such as can be run.
func whole(err error, name string, at storeFlags) error {
	if !errors.Is(err, sink.ErrLost) {
		return err
	}
	return &retold{wholeCommands(err.Error(), name, at), err}
}

// wholeCommands completes the commands about positions in text. Who pastes one has read what it is the cure of: it comes with the --yes
// without which it would only show what it would do.
func wholeCommands(text, name string, at storeFlags) string {
	flags := append(at.words(), "--bridge", name)
	for i, w := range flags {
		flags[i] = shell(w)
	}
	text = settleCommand.ReplaceAllStringFunc(text, func(found string) string {
		return strings.Join(append([]string{"flinksink settle"}, flags...), " ") + settleCommand.FindStringSubmatch(found)[1]
	})
	return positionsCommand.ReplaceAllStringFunc(text, func(found string) string {
		m := positionsCommand.FindStringSubmatch(found)
		words := append([]string{"flinksink positions", m[1]}, flags...)
		if m[1] != "skip" { // which names the position it expects
			words = append(words, "--yes")
		}
		return strings.Join(words, " ") + m[2]
	})
}

// retold is an error with another text.
type retold struct {
	text string
	err  error
}

func (e *retold) Error() string { return e.text }
func (e *retold) Unwrap() error { return e.err }
