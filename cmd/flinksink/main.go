package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := interruptible(context.Background())
	status := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// execute runs one command line and returns the exit status. Nothing it starts outlives it.
func execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	return (&call{patience: patience}).execute(ctx, args, in, out, errs)
}

func (c *call) execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	c.in = in
	root := c.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(ctx)
	return c.tell(errs, cmd.CommandPath(), err)
}

// patience is how long a server may take to answer at the start before the program gives up.
const patience = 10 * time.Second

// call is one run of the program.
type call struct {
	patience time.Duration
	begun    bool         // the command line was understood: what fails from here on is not the use of it
	secrets  []string     // what no error text may show
	kinds    []kind       // that --to names
	source   origin       // of the brokers that are read from
	silent   []silence    // brokers that did not answer
	in       io.Reader    // standard input; nil: none
	input    []byte       // what it held, once it was read
	inputOf  string       // the flag that it was read for
	logger   *slog.Logger // of the bridge that runs; nil: none does
}

func (c *call) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "flinksink",
		Short: "Make the changelog that a Flink SQL job writes to Kafka true in Postgres, Kafka, S3 and Elasticsearch",
		Long: `flinksink reads topics that Flink SQL jobs write, by the job's own CREATE TABLE, and makes what they say true in Postgres,
in another topic, in files of a bucket, or in an Elasticsearch index: each change takes effect once, through crashes of any of them (an
index converges).

Exit status: 0 done; 1 a bad record, a failure while running, or a check that found something; 2 a wrong command line, or a setting
that cannot work, found before the first row. An interrupt (or SIGTERM) ends every command in order; a second one ends it at once,
with status 1.`,
		Args:          noCommand,
		SilenceErrors: true,
		SilenceUsage:  true,
		Example: `  flinksink read  --ddl orders.sql --brokers localhost:9092
  flinksink check --bridge orders --ddl orders.sql --to postgres://app@db/shop
  flinksink run   --bridge orders --ddl orders.sql --to postgres://app@db/shop --create-table`,
		PersistentPreRunE: checkGiven,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage(errNoCommand)
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(help())
	root.Version = builtWith() // of --version
	root.SetVersionTemplate("{{.Version}}")
	root.InitDefaultVersionFlag()
	root.Flags().Lookup("version").Usage = "print the version"
	root.SetFlagErrorFunc(flagError)
	// Flags are wrapped; cobra leaves one line to each, however long.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 120"))
	root.AddCommand(c.read(), c.run(), c.replay(), c.positions(), c.letters(), c.pending(), c.settle(), c.verify(), c.repair(), c.compact(), c.success(), c.check(), c.explain(), c.version())
	return root
}

// runE makes do the body of a command.
func (c *call) runE(do func(cmd *cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c.begun = true
		return do(cmd)
	}
}
