package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/explain"
)

// explainFlags are those of flinksink explain.
type explainFlags struct {
	table      tableFlags
	plan       string
	to         string
	partitions int
	unordered  bool
	kafka      kafkaFlags
}

func (c *call) explain() *cobra.Command {
	f := &explainFlags{}
	cmd := &cobra.Command{
		Use:   "explain --plan FILE --ddl FILE",
		Short: "Say what a Flink plan will write to a table, and whether topic and target can take it",
		Long: `explain reads what Flink's EXPLAIN CHANGELOG_MODE INSERT INTO ... printed (PLAN_ADVICE may stand beside CHANGELOG_MODE; a statement set is
read too), or the planner's error, and says: which kinds of change reach the table, the first node of the plan that makes updates and
the first that makes deletes, whether upsertMaterialize is on, whether connector, format and key of the table can carry it, and whether
the target can take it. What is wrong comes with the cure. No server is asked. A topic is judged as run would write it: encoded as the one
that is read, or as --kafka-ddl says.

Each line says ok, note (worth knowing) or wrong. The last line is the mode that the plan promises; run --plan holds the topic to it.
Exit status 1 when something is wrong, 2 when there is no plan in the text.`,
		Example: `  flinksink explain --plan plan.txt --ddl orders.sql
  flinksink explain --plan plan.txt --ddl orders.sql --to kafka --kafka-ddl copy.sql
  sql-client.sh -f explain.sql | flinksink explain --plan - --ddl orders.sql --table per_customer --to postgres --partitions 3`,
		Args: noArgs,
	}
	fs := cmd.Flags()
	fs.StringVar(&f.plan, "plan", "", "`FILE` with what EXPLAIN printed; - is standard input (required)")
	cmd.MarkFlagRequired("plan")
	f.table.add(cmd)
	fs.MarkHidden("lenient") // it reads no record
	fs.MarkHidden("flink-version")
	fs.StringVar(&f.to, "to", "", "`TARGET` to judge: postgres, kafka, s3 or elastic, or a URL of one, to which no connection is made (default: only the topic is judged)")
	fs.IntVar(&f.partitions, "partitions", 0, "`NUMBER` of partitions of the topic (default: not known)")
	fs.BoolVar(&f.unordered, "unordered", false, "as of run: accept a CDC topic of several partitions whose records have no key as far as the table says")
	f.kafka.addTable(cmd)
	cmd.RunE = c.runE(func(cmd *cobra.Command) error { return c.doExplain(cmd, f) })
	return cmd
}

func (c *call) doExplain(cmd *cobra.Command, f *explainFlags) error {
	s := explain.Settings{Partitions: f.partitions, Unordered: f.unordered}
	to, err := c.judged(f.to)
	if err != nil {
		return err
	}
	s.Sink = sinks[to.kind]
	if err := flagsOfOthers(cmd.Flags(), []place{to}); err != nil {
		return err
	}
	if cmd.Flags().Changed("partitions") {
		if err := within("--partitions", int64(f.partitions), 1, math.MaxInt32); err != nil {
			return err
		}
	}
	t, err := c.load(&f.table, nil)
	if err != nil {
		return err
	}
	r, err := c.explained(f.plan, t, &f.table, s)
	if err != nil {
		return err
	}
	if s.Sink == explain.Kafka {
		if err := c.judgeTopic(cmd.Context(), r, t, f, to); err != nil {
			return err
		}
	}
	wrong, err := c.writeReport(cmd.OutOrStdout(), r)
	switch {
	case err != nil:
		return err
	case wrong == 1:
		return errors.New("explain: one thing is wrong")
	case wrong > 1:
		return fmt.Errorf("explain: %d things are wrong", wrong)
	}
	return nil
}

// sinks are those that a plan is judged for.
var sinks = map[kind]explain.Sink{"": explain.NoSink, atPostgres: explain.Postgres, atKafka: explain.Kafka, atS3: explain.Files, atIndex: explain.Index}

// judged is what --to names: a kind, or a place of it.
func (c *call) judged(to string) (place, error) {
	switch kind(to) {
	case "", atPostgres, atKafka, atS3, atIndex:
		return place{kind: kind(to)}, nil
	case "postgresql":
		return place{kind: atPostgres}, nil
	}
	if strings.Contains(to, ":") {
		p, err := c.placeOf("--to", to, targetKinds()...)
		if err != nil {
			return place{}, &configError{err: err, usage: true}
		}
		return p, nil
	}
	c.secret(to)
	return place{}, usage(errors.New("--to takes postgres, kafka, s3 or elastic, or a URL of one"))
}

// explained reads a plan, from a file or from standard input, and what it means for t.
func (c *call) explained(plan string, t *ddl.Table, f *tableFlags, s explain.Settings) (*explain.Report, error) {
	text, err := c.readText("--plan", plan)
	if err != nil {
		return nil, err
	}
	formats, err := f.formats()
	if err != nil {
		return nil, err
	}
	r, err := explain.Check(text, t, formats, s)
	if err != nil {
		return nil, inFile(named("--plan", plan), err)
	}
	return r, nil
}

// writeReport returns how many findings are wrong.
func (c *call) writeReport(w io.Writer, r *explain.Report) (wrong int, err error) {
	const width = 18 // of what stands before a text
	for _, f := range r.Findings {
		if f.Level == explain.Wrong {
			wrong++
		}
		text := f.Text
		if f.Cure != "" {
			text += "\n" + f.Cure
		}
		text = hide(c.renamed(text), c.secrets)
		if _, err := fmt.Fprintf(w, "%-5s %-11s %s\n", f.Level, f.What, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", width))); err != nil {
			return wrong, err
		}
	}
	if m := r.Promise(); m != 0 {
		if _, err := fmt.Fprintf(w, "the job writes %s\n", m); err != nil {
			return wrong, err
		}
	}
	return wrong, nil
}

// promise is the mode that the plan of run --plan promises.
func (c *call) promise(plan string, t *ddl.Table, f *tableFlags) (changelog.Mode, error) {
	if plan == "" {
		return 0, nil
	}
	r, err := c.explained(plan, t, f, explain.Settings{})
	if err != nil {
		return 0, err
	}
	for _, finding := range r.Findings {
		if finding.Level == explain.Wrong {
			return 0, config("%s: %s: %s; see flinksink explain", named("--plan", plan), finding.What, finding.Text)
		}
	}
	m := r.Promise()
	if m == 0 {
		return 0, config("%s: the plan does not tell which kinds of change it holds: ask Flink for EXPLAIN CHANGELOG_MODE", named("--plan", plan))
	}
	return m, nil
}
