package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noCommand is for commands that are there for the sake of those below them: a word that is left over is none of these.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), meant("", args[0], names))
}

// flagError says what is wrong with a flag, unless it was the command that was mistyped, which does not have the flags of the one meant.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		if wrong := noCommand(cmd, cmd.Flags().Args()); wrong != nil {
			return usage(wrong)
		}
	}
	if text := wrongValue(err); text != "" {
		return usage(errors.New(text))
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		err = fmt.Errorf("%w%s", err, meant("--", unknown.GetSpecifiedName(), names))
	}
	return usage(err)
}

// meant returns ": did you mean ...?" for the name that is nearest to the one typed, if one is near enough.
func meant(prefix, typed string, names []string) string {
	best, least := "", min(3, max(2, len(typed)))
	for _, n := range names {
		if d := typos(typed, n); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %s%s?", prefix, best)
}

// typos is how many letters must be put in, taken out, changed or swapped with the next to make b of a.
func typos(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
