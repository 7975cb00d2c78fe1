package explain

import (
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// Refusal is an error of Flink's planner.
type Refusal struct {
	Text string // of the innermost cause, in one line

	// What "... doesn't support consuming ... changes which is produced by node ..." says; zero for other errors.
	Requester string         // who does not take the changes: "Table sink 'default_catalog.default_database.s'" or an operator
	Sink      string         // the table of a sink; "" for an operator
	Kinds     changelog.Mode // what it does not take
	Node      *Node          // where they come from

	Cure string // in one sentence; "" where none is known
}

func isError(line string) bool {
	return strings.HasPrefix(line, "[ERROR]") || strings.Contains(line, "Exception: ") || strings.Contains(line, consuming)
}

const (
	consuming = "doesn't support consuming "
	produced  = " changes which is produced by node "
)

// known are the planner's texts that have a cure. {} is what they name.
var known = []struct{ text, cure string }{
	{"Can't generate a valid execution plan for the given query", "let an upsert sink have the key of the query as its PRIMARY KEY, or take a format that can carry -U, such as debezium-json"},
	{"The query has an upsert key that differs from the primary key of the sink table", "make the PRIMARY KEY of the sink table the key of the query (GROUP BY, PARTITION BY, or the join's unique key), or say what is to happen with ON CONFLICT DO DEDUPLICATE"},
	{"ON CONFLICT clause is only allowed for upsert sinks", "drop ON CONFLICT, or write to 'upsert-kafka' with a PRIMARY KEY"},
	{"produces a changelog stream that contains UPDATE_AFTER but no UPDATE_BEFORE", "declare PRIMARY KEY (...) NOT ENFORCED on the source table"},
	{"doesn't support defining PRIMARY KEY constraint on the table", "drop the PRIMARY KEY, or set 'connector' = 'upsert-kafka' with 'key.format' and 'value.format' if the query updates rows"},
	{"tables require to define a PRIMARY KEY constraint", "declare PRIMARY KEY (...) NOT ENFORCED: the key columns of the query"},
	{"is not in insert-only mode", "take a format without kinds of its own, such as json, or set 'connector' = 'kafka'"},
	{"A key format should only deal with INSERT-only records", "set 'key.format' to a format without kinds of its own, such as json"},
	{"A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'", "set 'value.fields-include' = 'EXCEPT_KEY'"},
	{"Querying a table in batch mode is currently only possible for INSERT-only table sources", "SET 'execution.runtime-mode' = 'streaming'"},
	{"a primary key is required but could not be found", "declare PRIMARY KEY (...) NOT ENFORCED on the sink table, or drop 'sink.parallelism'"},
	{"sink.transactional-id-prefix must be specified", "set 'sink.transactional-id-prefix', to another value for each job"},
	{"must be set to be greater than zero together to enable sink buffer flushing", "set both 'sink.buffer-flush.max-rows' and 'sink.buffer-flush.interval', or neither"},
	{"Could not find required sink format", "set 'key.format' and 'value.format'"},
}

// refusals finds errors: a line that names an exception, and the causes below it, of which the innermost counts.
func (e *Explanation) refusals(lines []string) {
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if !isError(lines[i]) || strings.HasPrefix(line, "at ") {
			continue
		}
		text, last := line, i
		for k := i + 1; k < len(lines) && !strings.HasPrefix(lines[k], "[ERROR]") && !strings.HasPrefix(lines[k], heading) && !strings.HasPrefix(lines[k], "EXPLAIN"); k++ {
			cause := strings.TrimSpace(lines[k])
			low := strings.ToLower(cause)
			if strings.HasPrefix(low, "caused by") {
				text, last = strings.TrimLeft(cause[len("caused by"):], ": "), k
			}
		}
		i = last
		e.Refusals = append(e.Refusals, newRefusal(text))
	}
}

func newRefusal(text string) *Refusal {
	text = strings.TrimSpace(strings.TrimPrefix(text, "[ERROR]"))
	// The class of the exception says nothing to a user.
	if class, rest, ok := strings.Cut(text, ": "); ok && !strings.Contains(class, " ") && (strings.HasSuffix(class, "Exception") || strings.HasSuffix(class, "Error")) {
		text = rest
	}
	r := &Refusal{Text: text}
	requester, rest, ok := strings.Cut(text, consuming)
	kinds, node, ok2 := strings.Cut(rest, produced)
	if ok && ok2 {
		r.Requester = strings.TrimSpace(requester)
		if _, name, ok := strings.Cut(r.Requester, "Table sink '"); ok {
			r.Sink = strings.TrimSuffix(name, "'")
		}
		for _, k := range strings.Split(kinds, " and ") {
			switch strings.TrimSpace(k) {
			case "insert":
				r.Kinds |= 1 << changelog.Insert
			case "update":
				r.Kinds |= 1<<changelog.UpdateBefore | 1<<changelog.UpdateAfter
			case "delete":
				r.Kinds |= 1 << changelog.Delete
			}
		}
		r.Node = newNode(node)
		r.Cure = r.consumingCure()
		return r
	}
	for _, k := range known {
		if strings.Contains(text, k.text) {
			r.Cure = k.cure
			break
		}
	}
	return r
}

func (r *Refusal) consumingCure() string {
	append := "let the query make inserts only: " + appendCure(r.Node)
	if r.Sink == "" {
		return append
	}
	return "write to 'connector' = 'upsert-kafka' with 'key.format', 'value.format' and the key of the query as PRIMARY KEY, or to 'connector' = 'kafka' with a format that carries updates, such as debezium-json; or " + append
}

// appendCure says how a query gets rid of the updates and deletes that a node makes.
func appendCure(n *Node) string {
	name := n.Name
	switch {
	case strings.Contains(name, "WindowAggregate"):
		return "take a window without early firing (table.exec.emit.early-fire.enabled)"
	case strings.Contains(name, "GroupAggregate"):
		return "GROUP BY window_start, window_end of TUMBLE, HOP or CUMULATE, so that each group is told once"
	case strings.Contains(name, "IntervalJoin"), strings.Contains(name, "TemporalJoin"):
		return "let its inputs hold inserts only"
	case strings.Contains(name, "Join"):
		return "join within an interval of time, or with FOR SYSTEM_TIME AS OF the left row's time"
	case strings.Contains(name, "Deduplicate"):
		return "keep the first row of each key (ORDER BY time ASC) instead of the last"
	case strings.Contains(name, "Rank"), strings.Contains(name, "SortLimit"), strings.Contains(name, "Limit"):
		return "PARTITION BY window_start, window_end too, or keep the first row of each key (ROW_NUMBER() = 1, ORDER BY time ASC)"
	case name == "ChangelogNormalize", strings.Contains(name, "SourceScan"):
		return "read a source that holds inserts only"
	}
	return "leave " + name + " out"
}
