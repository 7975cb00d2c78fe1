package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag of every command that takes a number, a time, a pair or a yes says what it takes when it is given something else, and shows no word of the packages that read it.
func TestFlags_WrongValues(t *testing.T) {
	seen := 0
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			each(sub)
		}
		cmd.InitDefaultHelpFlag()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"odd\"", "99999999999999999999999", "", "postgres://me:geheim42@db"} {
				args := append(strings.Fields(strings.TrimPrefix(cmd.CommandPath(), "flinksink")), "--"+f.Name+"="+value)
				got := command(t, args...)
				if strings.Contains(got.errs, "geheim42") || strings.Contains(got.errs, "strconv") || strings.Contains(got.errs, "time: ") || strings.Contains(got.errs, "invalid argument") || strings.Contains(got.errs, "parse error") {
					t.Errorf("%v: %s", args, got.errs)
				}
				switch f.Value.Type() {
				case "string", "stringArray":
					continue
				case "stringToString", "stringSlice":
					if value != "odd\"" {
						continue
					}
				}
				seen++
				if got.status != exitConfig || !strings.HasPrefix(got.errs, "flinksink: --"+f.Name+" takes ") || !strings.Contains(got.errs, "--help'.") {
					t.Errorf("%v: status %d, %s", args, got.status, got.errs)
				}
			}
		})
	}
	each((&call{}).root())
	if seen < 250 {
		t.Errorf("%d values were tried", seen)
	}
}

func TestFlags_WhatIsTaken(t *testing.T) {
	for flags, want := range map[string]string{
		"--lanes=x":                    `--lanes takes a whole number such as 1, and "x" is none`,
		"--lanes=99999999999999999999": "--lanes takes a whole number such as 1, and this number is too large",
		"--s3-file-size=":              "--s3-file-size takes a whole number such as 256, and here it is empty",
		"--interval=5":                 `--interval takes a duration such as 5s or 1m, and "5" is none`,
		"--interval":                   "--interval needs a value: it takes a duration such as 5s or 1m",
		"--ddl":                        "--ddl needs a value: it takes FILE",
		"--until-end=maybe":            `--until-end takes true or false behind =, as in --until-end=false, or stands alone, which is true, and "maybe" is none`,
		"--s3-path-style=maybe":        `--s3-path-style takes true or false behind =, as in --s3-path-style=false, or stands alone, which is true, and "maybe" is none`,
		"--index-field=a":              `--index-field takes COLUMN=FIELD,..., with commas between the pairs, and "a" is none`,
		"--lanes=kafka://me:geheim":    "--lanes takes a whole number such as 1",
	} {
		if got := command(t, "run", flags); got.errs != "flinksink: "+want+"\nSee 'flinksink run --help'.\n" {
			t.Errorf("%s: %s", flags, got.errs)
		}
	}
}

// The style of paths is true, false or left to the endpoint, and its help reads like that of the other flags of this kind.
func TestFlags_PathStyle(t *testing.T) {
	for _, c := range []struct{ args, want string }{{"", ""}, {"--s3-path-style", "true"}, {"--s3-path-style=true", "true"}, {"--s3-path-style=0", "false"}, {"--s3-path-style=FALSE", "false"}} {
		f, cmd := &s3Flags{}, &cobra.Command{}
		f.addClient(cmd)
		if err := cmd.ParseFlags(strings.Fields(c.args)); err != nil || string(f.pathStyle) != c.want {
			t.Errorf("%s: %q, %v", c.args, f.pathStyle, err)
		}
	}
	if got := command(t, "run", "--help").out; !strings.Contains(got, "--s3-path-style   ") || strings.Contains(got, `[="true"]`) {
		t.Error(got)
	}
}
