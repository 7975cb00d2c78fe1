package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
)

// The exit statuses. They are part of what the program promises.
const (
	exitDone   = 0
	exitFailed = 1 // a bad record, a failure while running, or a check that found what would stop a bridge
	exitConfig = 2 // the command line, or a setting that cannot work
)

var errNoCommand = errors.New("a command is missing: read, run, replay, positions, letters, pending, settle, verify, repair, compact, success, check, explain or version")

// configError says which setting is wrong, and the cure.
type configError struct {
	err   error
	usage bool // the command line itself: point to --help
}

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

func usage(err error) error { return &configError{err: err, usage: true} }

func config(format string, a ...any) error { return &configError{err: fmt.Errorf(format, a...)} }

// isUsage reports whether err, or one of those that it joins, is about the command line itself.
func isUsage(err error) bool {
	switch e := err.(type) {
	case *configError:
		return e.usage || isUsage(e.err)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), isUsage)
	case interface{ Unwrap() error }:
		return isUsage(e.Unwrap())
	}
	return false
}

// isConfig reports whether err is of a kind that was found before anything was tried.
func isConfig(err error) bool {
	var c *configError
	var d *ddl.Error
	return errors.As(err, &c) || errors.As(err, &d) || sink.ClassOf(err) == sink.ErrConfig
}

// tell prints err, if there is one, and returns the exit status. path is the command as it was typed.
func (c *call) tell(w io.Writer, path string, err error) int {
	if err == nil {
		return exitDone
	}
	text := strings.TrimPrefix(c.renamed(hide(err.Error(), c.secrets)), "flinksink: ")
	// Joined errors are one a line; the lines after the first are set off, so that it is seen where the next message begins.
	fmt.Fprintf(w, "flinksink: %s\n", strings.ReplaceAll(text, "\n", "\n  "))
	if !c.begun || isUsage(err) {
		fmt.Fprintf(w, "See '%s --help'.\n", strings.TrimSuffix(path, " help"))
		return exitConfig
	}
	if isConfig(err) {
		return exitConfig
	}
	return exitFailed
}

// renamed gives the settings of the library, which its errors name, the names that they have here. Some have one name in two kinds of sinks.
func (c *call) renamed(text string) string {
	table, index := slices.Contains(c.kinds, atPostgres), slices.Contains(c.kinds, atIndex)
	switch {
	case table && index:
		text = strings.ReplaceAll(text, "Options.Columns", "--column (Postgres) or --index-field")
	case table:
		text = strings.ReplaceAll(text, "Options.Columns", "--column")
	}
	if c.source.address != "" { // of a bridge that runs
		text = strings.ReplaceAll(text, "the address (kgo.SeedBrokers or 'properties.bootstrap.servers'), TLS and SASL", c.source.check())
	}
	return flags.Replace(text)
}

// flags are the names of settings. Longer texts come before what they begin with. Those that no flag sets are said in words.
var flags = strings.NewReplacer(
	// Of the Postgres sink; Kafka's have the same names.
	"longer than Options.TransactionTimeout: raise it, or make", "longer than an hour, the longest that a transaction may take here: make",
	"Options.IdleTimeout, or Options.TransactionTimeout from", "5 minutes, or an hour from",
	"Options.IdleTimeout", "5 minutes",

	"(the database is the pool's)", "(--into; the database is that of --to)",
	"Options.SoftDelete has no Column: name", "--soft-delete is missing: name",
	"Options.SoftDelete has both From and a value: leave Deleted and Live empty, or From", "--soft-delete-from stands beside a value: leave out =VALUE of --soft-delete and --soft-delete-live, or --soft-delete-from",
	"Options.SoftDelete.Live stands without a text in Deleted", "--soft-delete-live stands without a text in --soft-delete",
	"leave it empty, or give Deleted too", "leave it out, or give --soft-delete COLUMN=TEXT",
	"Options.SoftDelete.Live and Deleted are the same", "--soft-delete-live and the text of --soft-delete are the same",
	"Options.Swap has no Group: name", "--swap-group is missing: name",
	"cannot be used in mode Staged, which", "cannot be used in mode staged, which",
	"use InTransaction or Prepared", "use in-transaction or prepared",
	"and mode Prepared needs one", "and mode prepared needs one",
	"Or use another mode: InTransaction where this sink may be the store, Staged elsewhere", "Or use another --mode: in-transaction where this target may decide, staged elsewhere",
	"are not possible in mode Prepared", "are not possible in mode prepared",
	"of it that leaves receipts (of postgres, Prepared or Staged)", "of it that leaves receipts (of postgres, prepared or staged)",
	"was prepared by TwoPhase, and waits to be committed: open the bridge with that once more", "was prepared in mode two-phase, and waits to be committed: run the bridge with --mode two-phase once more",
	"the receipt is none of InTransaction, which leaves none: open the bridge with TwoPhase once more", "the receipt is none of mode in-transaction, which leaves none: run the bridge with --mode two-phase once more",
	"use a topic of fewer partitions, or InTransaction", "use a topic of fewer partitions, or --mode in-transaction",
	"compress their own blocks: leave it out, and set the format's own", "compress their own blocks: leave it out",

	"Options.CreateTable", "--create-table",
	"Options.CreateIndex", "--create-table",
	"Options.Deletes. Tombstone keeps a small document in place of a deleted row, which readers leave out by the alias of Options.Alias, and never goes backwards. Hard deletes",
	"--index-deletes. tombstone keeps a small document in place of a deleted row, which readers leave out by the alias of --index-alias, and never goes backwards. hard deletes",
	"Options.Deletes: Tombstone", "--index-deletes tombstone",
	"Options.Deletes", "--index-deletes",
	"Options.Alias", "--index-alias",
	"Options.Columns", "--index-field",
	"Options.Routing", "--index-routing",
	"Options.IDPrefix", "--index-id-prefix",
	"Changelog (every change) or Upsert (the last change of each key in a file) in s3.Options.Kind", "--s3-kind changelog (every change) or upsert (the last change of each key in a file)",
	"Changelog in s3.Options.Kind", "--s3-kind changelog",
	"Tombstone or Hard in elastic.Options.Deletes", "--index-deletes tombstone or hard",
	"Options.Kind to Changelog (every change, with its kind) or Upsert", "--s3-kind to changelog (every change, with its kind) or upsert",
	"Options.Kind to Changelog (every change, with its kind) or Upsert (", "--s3-kind to changelog (every change, with its kind) or upsert (",
	"Options.Kind to Changelog", "--s3-kind to changelog",
	"set it to Changelog or Upsert", "set it to changelog or upsert",
	"Options.Kind AppendOnly", "--s3-kind append",
	"Options.Kind Upsert writes one row a key: set it to Changelog", "--s3-kind upsert writes one row a key: set it to changelog",
	"Options.Kind", "--s3-kind",
	"SuccessOptions.PartitionBy", "--s3-partition-by",
	"Options.PartitionBy", "--s3-partition-by",

	"SuccessOptions.Every", "--every",
	"SuccessOptions.Partitions", "--idle",
	"Options.EventTime", "--s3-event-time",
	"Options.Manifest", "--s3-manifest",
	"Options.Compression", "--s3-compression",
	"Options.TransactionTimeout", "--kafka-transaction-timeout",
	"Options.DeadLetterTopic", "--kafka-dead-letters",
	"Options.Prefix", "--kafka-prefix",
	"Options.Topic ", "--kafka-checkpoints ",
	"(Options.Topic)", "(--kafka-checkpoints)",
	"the store in Options.Store decides", "the store of --store decides",
	"Options.Store", "--store",
	"Options.Schema", "--store-schema",
	"Options.InstanceID", "--instance",
	"Options.Interval", "--interval",
	"Options.MaxDowntime", "--kafka-max-downtime",
	"it is a time, or NoDowntime", "it is 0s, for none, or longer",
	"READ on Options.Group", "READ on the consumer group",
	"on another one, leave Options.Group empty", "on another one, the bridge needs another store (--store)",
	"(Options.Group)", "('properties.group.id')",
	"('properties.group.id'): set Options.Group", "('properties.group.id'): name one",
	"Options.Lanes", "--lanes",
	"Options.Unordered", "--unordered",
	"Options.AllowMissedDeletes", "--allow-missed-deletes",
	"Options.HaltWhenFenced", "--halt-when-fenced",
	"kgo.SeedBrokers", "--brokers",
	"Format.Files", "--proto",
	"Options.Promise", "--plan",
	"Options.AppendOnce", "--append-once",
	"Options.IgnoreDeletes", "--ignore-deletes",
	"Options.SkipUnchanged", "--skip-unchanged",
	"Options.SoftDelete.From", "--soft-delete-from",
	"Options.SoftDelete.Live", "--soft-delete-live",
	"Options.SoftDelete.Column", "--soft-delete",
	"Options.SoftDelete.Deleted", "--soft-delete",
	"Options.SoftDelete", "--soft-delete",
	"Options.Version", "--version-column",
	"Options.Audit", "--audit",
	"Options.Swap.Group", "--swap-group",
	"Options.Swap.Run", "--swap-run",
	"Options.Swap.Last", "--swap-last",
	"Options.Swap", "--swap-group",
	"Options.Cast", "--cast",
	"Options.Evolve", "--evolve",
	"Options.TruncateNanos", "--truncate-nanos",
	"Options.Mode to Staged", "--mode to staged",
	"Options.Mode Rename", "--mode rename",
	"Options.DataBudget (--data-budget)", "--data-budget",
	"Options.OnData (--on-data)", "--on-data",
	"Options.OnData is DeadLetter, and no sink of the bridge can keep dead letters (be a sink.DeadLetterKeeper): choose Halt or Skip, or a sink that can",
	"--on-data is dead-letter, and no target can keep dead letters: choose halt or skip, or a target that can",
	"Options.FlinkVersion", "--flink-version",
	", which Options.ControlIndex names", "",
	", which Options.DeadLetters names", "",
	"Options.Meta, which says where a document comes from", "the note of where a document comes from",
	"the name of Options.Meta", "the name of the note of where a document comes from",
	" (Options.Patience)", "",
	"no answer within Options.RequestTimeout", "no answer in time",
	"set Options.Checksum to ChecksumCRC32", "that is for a program of one's own, by s3.Settings.Checksum",
	"postgres.Now", "now()",
	"VerifyOptions.From", "--from",
	"VerifyOptions.Memory", "--memory",
)

// hide replaces secrets. Texts are built without them; this is for what a library puts into one.
func hide(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) >= 4 { // shorter ones are part of too many words
			text = strings.ReplaceAll(text, s, "******")
		}
	}
	return text
}
