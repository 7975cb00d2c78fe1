package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/flinksink/flinksink/sink"
)

// positionsCommand finds a command about positions in an error of the library, which knows neither the store's URL nor how the bridge is called.
var positionsCommand = regexp.MustCompile(`'flinksink positions (set|reset|skip)( [^']*)?'`)

// whole completes the commands that an ErrLost names to such as can be run.
func whole(err error, name string, f *targetFlags) error {
	if !errors.Is(err, sink.ErrLost) {
		return err
	}
	flags := []string{"--store", publicURL(f.to)}
	if f.storeSchema != "" {
		flags = append(flags, "--store-schema", f.storeSchema)
	}
	flags = append(flags, "--bridge", name)
	for i, w := range flags {
		flags[i] = shell(w)
	}
	insert := strings.ReplaceAll(strings.Join(flags, " "), "$", "$$")
	return &retold{positionsCommand.ReplaceAllString(err.Error(), "flinksink positions $1 "+insert+"$2"), err}
}

// retold is an error with another text.
type retold struct {
	text string
	err  error
}

func (e *retold) Error() string { return e.text }
func (e *retold) Unwrap() error { return e.err }
