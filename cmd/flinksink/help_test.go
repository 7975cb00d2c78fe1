package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestHelp(t *testing.T) {
	for _, c := range []string{"", "read", "run", "replay", "positions", "positions show", "positions set", "positions reset", "positions skip", "letters", "pending", "settle", "verify", "repair", "compact", "success", "check", "explain", "version"} {
		t.Run("flinksink "+c, func(t *testing.T) {
			args := append(strings.Fields(c), "--help")
			got := command(t, args...)
			if got.status != exitDone || got.errs != "" {
				t.Fatalf("status %d: %s", got.status, got.errs)
			}
			golden(t, strings.TrimSuffix("help-"+strings.ReplaceAll(c, " ", "-"), "-")+".txt", got.out)
			for i, l := range strings.Split(got.out, "\n") {
				if len(l) > 140 && !strings.HasPrefix(strings.TrimSpace(l), "--") {
					t.Errorf("line %d is %d wide", i+1, len(l))
				}
			}
			if c != "" && !strings.Contains(got.out, "Examples:\n  flinksink "+c) && c != "run" {
				t.Error("no example")
			}
		})
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "flinksink: a command is missing: read, run, replay, positions, letters, pending, settle, verify, repair, compact, success, check, explain or version\nSee 'flinksink --help'.\n"},
		{"raed", "flinksink: unknown command \"raed\" for \"flinksink\": did you mean read?\nSee 'flinksink --help'.\n"},
		{"read", "flinksink: --ddl FILE is missing\nSee 'flinksink read --help'.\n"},
		{"rnu --bridge x", "flinksink: unknown command \"rnu\" for \"flinksink\": did you mean run?\nSee 'flinksink --help'.\n"},
		{"positions shw --store x", "flinksink: unknown command \"shw\" for \"flinksink positions\": did you mean show?\nSee 'flinksink positions --help'.\n"},
		{"positions --store x", "flinksink: unknown flag: --store\nSee 'flinksink positions --help'.\n"},
		{"run --bridg x", "flinksink: unknown flag: --bridg: did you mean --bridge?\nSee 'flinksink run --help'.\n"},
		{"run -x", "flinksink: unknown shorthand flag: 'x' in -x\nSee 'flinksink run --help'.\n"},
		{"x", "flinksink: unknown command \"x\" for \"flinksink\"\nSee 'flinksink --help'.\n"},
		{"read --nope", "flinksink: unknown flag: --nope\nSee 'flinksink read --help'.\n"},
		{"read --ddl a b", "flinksink: read takes flags alone, and \"b\" is none: what belongs to a flag stands behind it, in quotes if it holds blanks\nSee 'flinksink read --help'.\n"},
		{"read --ddl a --file b --brokers c", "flinksink: --file and --brokers exclude one another: give one of them\nSee 'flinksink read --help'.\n"},
		{"run --ddl a --to b", "flinksink: --bridge NAME is missing\nSee 'flinksink run --help'.\n"},
		{"run --bridge x --ddl a --to s3://b/c --interval 0s", "flinksink: --interval has to be longer than 0, e.g. 1s\nSee 'flinksink run --help'.\n"},
		{"run --bridge x --ddl a --to b --interval x", "flinksink: --interval takes a duration such as 5s or 1m, and \"x\" is none\nSee 'flinksink run --help'.\n"},
		{"run --bridge x --ddl a --to s3://b/c --lanes 0", "flinksink: --lanes is 0: it has to be 1 or more\nSee 'flinksink run --help'.\n"},
		{"read --ddl a --file=", "flinksink: --file is empty: give TOPIC.jsonl behind it, or leave it out\nSee 'flinksink read --help'.\n"},
		{"run --bridge x --ddl a --to s3://b/c --store=", "flinksink: --store is empty: give URL behind it, or leave it out\nSee 'flinksink run --help'.\n"},
		{"run --bridge x --ddl - --to s3://b/c --plan - --kafka-ddl -", "flinksink: --ddl, --kafka-ddl, --plan cannot all be standard input: name files but for one\nSee 'flinksink run --help'.\n"},
		{"run --bridge x --until-end true", "flinksink: \"true\" stands alone: the value of a flag that is true or false is written behind =, as in --flag=true\nSee 'flinksink run --help'.\n"},
		{"settle --store x --bridge y postgres://me:geheim@db", "flinksink: settle takes flags alone, and what is left over is none: what belongs to a flag stands behind it, in quotes if it holds blanks\nSee 'flinksink settle --help'.\n"},
		{"success --to x", "flinksink: --bridge NAME, --ddl FILE, --every TIME and --s3-partition-by FOLDER are missing\nSee 'flinksink success --help'.\n"},
		{"help nope", "flinksink: unknown command \"nope\" for \"flinksink\"\nSee 'flinksink --help'.\n"},
		{"help positions shw", "flinksink: unknown command \"shw\" for \"flinksink positions\": did you mean show?\nSee 'flinksink --help'.\n"},
		{"positions set --store x --bridge b", "flinksink: positions set takes a position, TOPIC:PARTITION:OFFSET, e.g. orders:3:1017, and none is given\nSee 'flinksink positions set --help'.\n"},
		{"positions skip --store x --bridge b a:0:1 a:0:2", "flinksink: positions skip takes one position, TOPIC:PARTITION:OFFSET, and 2 are given\nSee 'flinksink positions skip --help'.\n"},
		{"positions", "flinksink: a command is missing: show, set, reset or skip\nSee 'flinksink positions --help'.\n"},
		{"positions moev", "flinksink: unknown command \"moev\" for \"flinksink positions\"\nSee 'flinksink positions --help'.\n"},
		{"positions skip --store x a:0:1", "flinksink: --bridge NAME is missing\nSee 'flinksink positions skip --help'.\n"},
		{"positions skip --store x --bridge b a", "flinksink: \"a\": a position is written TOPIC:PARTITION:OFFSET, e.g. orders:3:1017\nSee 'flinksink positions skip --help'.\n"},
		{"explain --ddl a", "flinksink: --plan FILE is missing\nSee 'flinksink explain --help'.\n"},
		{"explain --ddl a --plan b --to x", "flinksink: --to takes postgres, kafka, s3 or elastic, or a URL of one\nSee 'flinksink explain --help'.\n"},
		{"explain --ddl - --plan -", "flinksink: --ddl, --plan cannot all be standard input: name files but for one\nSee 'flinksink explain --help'.\n"},
		{"check --bridge x --ddl a --to s3://b/c --interval 0s", "flinksink: --interval has to be longer than 0, e.g. 1s\nSee 'flinksink check --help'.\n"},
		{"check --bridge x --ddl a --to s3://b/c --lanes 0", "flinksink: --lanes is 0: it has to be 1 or more\nSee 'flinksink check --help'.\n"},
		{"check --bridge x --ddl a", "flinksink: --to URL is missing\nSee 'flinksink check --help'.\n"},
		{"replay --ddl a", "flinksink: --file TOPIC.jsonl and --to URL are missing\nSee 'flinksink replay --help'.\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			got := command(t, strings.Fields(c.args)...)
			if got.status != exitConfig || got.out != "" || got.errs != c.want {
				t.Errorf("status %d, out %q, error\n%s\nwant\n%s", got.status, got.out, got.errs, c.want)
			}
		})
	}
}

// help COMMAND shows what COMMAND --help does.
func TestHelp_Command(t *testing.T) {
	for _, c := range []string{"", "run", "positions set"} {
		asked, flag := command(t, append([]string{"help"}, strings.Fields(c)...)...), command(t, append(strings.Fields(c), "--help")...)
		if asked.status != exitDone || asked.out != flag.out {
			t.Errorf("%q: %+v", c, asked)
		}
	}
}

func TestVersion(t *testing.T) {
	got := command(t, "version")
	if flag := command(t, "--version"); flag != got {
		t.Errorf("--version: %+v", flag)
	}
	if got.status != exitDone || !strings.HasPrefix(got.out, "flinksink ") || !strings.Contains(got.out, "\ngo1.") {
		t.Errorf("status %d: %q", got.status, got.out)
	}
	text := versionText(&debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
		Deps: []*debug.Module{{Path: "github.com/spf13/cobra", Version: "v9"}, {Path: "github.com/twmb/franz-go", Version: "v8"},
			{Path: "github.com/jackc/pgx/v5", Version: "v6", Replace: &debug.Module{Path: "example.org/pgx", Version: "v7"}}},
	})
	first, rest, _ := strings.Cut(text, "\n")
	_, rest, _ = strings.Cut(rest, "\n")
	if first != "flinksink v1.2.3 (abc, with local changes)" || rest != "github.com/twmb/franz-go v8\nexample.org/pgx v7\n" {
		t.Errorf("%q", text)
	}
}
