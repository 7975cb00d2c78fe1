package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file says what a command line lacks, and what a flag takes that was given something else, in place of the words of the packages that read it.

// wrongValue says what a flag takes, "" where err is of another kind.
func wrongValue(err error) string {
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &missing):
		return fmt.Sprintf("%s needs a value: it takes %s", flagName(missing.GetFlag()), taken(missing.GetFlag()))
	case !errors.As(err, &invalid):
		return ""
	}
	f, value := invalid.GetFlag(), invalid.GetValue()
	what := ""
	switch {
	case value == "":
		what = ", and here it is empty"
	case errors.Is(err, strconv.ErrRange):
		what = ", and this number is too large"
	case len(value) <= 20 && !strings.ContainsAny(value, ":/@\n"): // anything else may be what belongs to another flag, such as a password
		what = fmt.Sprintf(", and %q is none", value)
	}
	return fmt.Sprintf("%s takes %s%s", flagName(f), taken(f), what)
}

// flagName is how a flag is written.
func flagName(f *pflag.Flag) string { return "--" + f.Name }

// taken is what a flag takes, with an example.
func taken(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	switch f.Value.Type() {
	case "duration":
		return "a duration such as 5s or 1m"
	case "int", "int64", "int32", "uint":
		such := f.DefValue
		if such == "0" {
			such = "3"
		}
		return "a whole number such as " + such
	case "bool":
		return fmt.Sprintf("true or false behind =, as in --%s=false, or stands alone, which is true", f.Name)
	case "stringToString":
		return fmt.Sprintf("%s, with commas between the pairs", name)
	case "stringSlice":
		return fmt.Sprintf("%s with commas between them, such as a,b, and \" at both ends of one that holds a comma or is quoted", name)
	}
	return name
}

// checkGiven says which flags are missing that a command cannot do without, before cobra does, and what they are; and which are given and name nothing.
func checkGiven(cmd *cobra.Command, _ []string) error {
	if err := checkFiles(cmd); err != nil {
		return err
	}
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Equal(f.Annotations[cobra.BashCompOneRequiredFlag], []string{"true"}) && !f.Changed {
			name, _ := pflag.UnquoteUsage(f)
			missing = append(missing, flagName(f)+" "+name)
		}
	})
	switch n := len(missing); {
	case n == 1:
		return usage(fmt.Errorf("%s is missing", missing[0]))
	case n > 1:
		return usage(fmt.Errorf("%s and %s are missing", strings.Join(missing[:n-1], ", "), missing[n-1]))
	}
	return nil
}

// checkFiles refuses names that are empty, as of a variable of the shell that is not set: what they were to replace is used in their place. And it refuses two flags
// that would read standard input.
func checkFiles(cmd *cobra.Command) error {
	var errs []error
	var input []string
	for _, name := range []string{"brokers", "ddl", "file", "kafka-ddl", "kafka-properties", "plan", "store"} {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		isFile := name != "store" && name != "brokers"
		what, _ := pflag.UnquoteUsage(f)
		value := f.Value.String()
		switch {
		case isFile && strings.Contains(value, "://"): // with a password in it, as may be
			errs = append(errs, fmt.Errorf("%s takes %s, and this is a URL", flagName(f), what))
		case value == "":
			errs = append(errs, fmt.Errorf("%s is empty: give %s behind it, or leave it out", flagName(f), what))
		case value == stdin && isFile && name != "file":
			input = append(input, flagName(f))
		}
	}
	if len(input) > 1 {
		errs = append(errs, fmt.Errorf("%s cannot all be standard input: name files but for one", strings.Join(input, ", ")))
	}
	if err := errors.Join(errs...); err != nil {
		return usage(err)
	}
	return nil
}

// excludes says of two flags that only one of them can be given.
func excludes(cmd *cobra.Command, flag string, others ...string) error {
	for _, other := range others {
		if cmd.Flags().Changed(flag) && cmd.Flags().Changed(other) {
			return usage(fmt.Errorf("--%s and --%s exclude one another: give one of them", flag, other))
		}
	}
	return nil
}

// noArgs is for commands that take flags alone.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if b, err := strconv.ParseBool(args[0]); err == nil {
		return fmt.Errorf("%q stands alone: the value of a flag that is true or false is written behind =, as in --flag=%t", args[0], b)
	}
	return fmt.Errorf("%s takes flags alone, and %s is none: what belongs to a flag stands behind it, in quotes if it holds blanks", typed(cmd), shown(args[0]))
}

// typed is the command behind the name of the program.
func typed(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// shown is a word of the command line that may be shown: one that could be a URL with a password is not.
func shown(word string) string {
	if len(word) > 40 || strings.ContainsAny(word, ":@/\n") {
		return "what is left over"
	}
	return strconv.Quote(word)
}

// takesPositions is for commands that take positions, least of them and, unless most is 0, at most most.
func takesPositions(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("%s takes a position, TOPIC:PARTITION:OFFSET, e.g. orders:3:1017, and none is given", typed(cmd))
		case most > 0 && len(args) > most:
			return fmt.Errorf("%s takes one position, TOPIC:PARTITION:OFFSET, and %d are given", typed(cmd), len(args))
		}
		return nil
	}
}

// help shows the help of a command.
func help() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does, with its flags and examples",
		RunE: func(cmd *cobra.Command, args []string) error {
			of := cmd.Root()
			for _, word := range args {
				i := slices.IndexFunc(of.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
				if i < 0 {
					return usage(noCommand(of, []string{word}))
				}
				of = of.Commands()[i]
			}
			of.InitDefaultHelpFlag()
			of.SetOut(cmd.OutOrStdout())
			return of.Help()
		},
	}
}
