package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (c *call) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of the program and what it was built with",
		Example: "  flinksink version",
		Args:    noArgs,
		RunE: c.runE(func(cmd *cobra.Command) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), builtWith())
			return err
		}),
	}
}

// builtWith is the text of the version of this program.
func builtWith() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionText(info)
}

// versionText shows what matters in a report of a mistake: our version, the compiler, and the libraries that talk to servers.
func versionText(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version == "" {
		version = "(unknown)"
	}
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				modified = ", with local changes"
			}
		}
	}
	text := "flinksink " + version
	if revision != "" {
		text += " (" + revision + modified + ")"
	}
	text += fmt.Sprintf("\n%s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/twmb/franz-go", "github.com/jackc/pgx/v5":
			if d.Replace != nil {
				d = d.Replace
			}
			text += d.Path + " " + d.Version + "\n"
		}
	}
	return text
}
