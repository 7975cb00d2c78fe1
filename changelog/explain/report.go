package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
)

// Level says what a finding means.
type Level uint8

const (
	OK    Level = iota
	Note        // worth knowing
	Wrong       // the job is refused, or rows would be wrong
)

// String returns "ok", "note" or "wrong".
func (l Level) String() string {
	switch l {
	case OK:
		return "ok"
	case Note:
		return "note"
	case Wrong:
		return "wrong"
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Finding is one thing that a report says.
type Finding struct {
	Level Level
	What  string // what it is about: "plan", "mode", "updates", "deletes", "materialize", "table", "key", "sink" or "advice"
	Text  string
	Cure  string // one sentence; "" where nothing has to be done
}

// String returns the finding in one line.
func (f Finding) String() string {
	s := f.Level.String() + " " + f.What + ": " + f.Text
	if f.Cure != "" {
		s += ". Cure: " + f.Cure
	}
	return s
}

// Report is what Check found.
type Report struct {
	Plan     *Plan // of the table's INSERT; nil where the planner refused it, or there is none
	Findings []Finding
}

// Wrong reports whether something is.
func (r *Report) Wrong() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Wrong })
}

// Promise is the mode that the job's topic keeps, for bridge.Options.Promise; 0 where the plan does not say.
func (r *Report) Promise() changelog.Mode {
	if r.Plan == nil || !r.Plan.Known {
		return 0
	}
	return r.Plan.Mode()
}

// Sink is a sink that a report knows.
type Sink uint8

const (
	NoSink   Sink = iota // none was chosen; the report ends at the topic
	Postgres             // package sink/postgres
	Kafka                // package sink/kafka
	Files                // package sink/s3
	Index                // package sink/elastic
)

// Settings are what is chosen behind the topic. The zero is nothing.
type Settings struct {
	Sink       Sink
	Partitions int  // of the topic; 0 when not known
	Unordered  bool // bridge.Options.Unordered
}

// Check says what becomes of a plan. text is described at [Parse]; t is the table that the job writes; formats are those that its options may name. It is
// an error if the text holds no plan.
func Check(text string, t *ddl.Table, formats []changelog.Format, s Settings) (*Report, error) {
	e, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, errors.New("explain: the table is nil; ddl.Find returns one")
	}
	r := &Report{}
	d, refused := format.New(t, formats, nil)
	if r.choose(e, t.Name()) {
		r.mode()
		r.firsts()
		r.materialize(t)
	}
	var table *changelog.Table
	if refused != nil {
		r.add(Wrong, "table", oneLine(refused), "")
	} else {
		table = d.Table()
		r.carries(t, table)
	}
	if table != nil && s.Sink != NoSink {
		r.sink(t, table, s)
	}
	if r.Plan != nil {
		for _, a := range r.Plan.Advice {
			r.add(Note, "advice", strings.TrimSpace(a), "")
		}
	}
	return r, nil
}

func (r *Report) add(l Level, what, text, cure string) {
	r.Findings = append(r.Findings, Finding{l, what, text, cure})
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// choose finds the plan of the table, and tells what the planner refused.
func (r *Report) choose(e *Explanation, table string) bool {
	for _, f := range e.Refusals {
		if f.Sink != "" && lastName(f.Sink) != table && len(e.Plans)+len(e.Refusals) > 1 {
			continue // of another INSERT
		}
		text := "Flink refuses the job: " + f.Text
		if f.Node != nil {
			what := f.Requester
			if f.Sink != "" {
				what = "the table " + lastName(f.Sink)
			}
			text = fmt.Sprintf("Flink refuses the job: %s takes no %s, which %s makes", what, words(f.Kinds), f.Node.short())
		}
		r.add(Wrong, "plan", text, f.Cure)
	}
	var others []string
	for _, p := range e.Plans {
		switch {
		case p.Sink != "" && p.Table() == table:
			if r.Plan == nil || !r.Plan.Known && p.Known { // EXPLAIN PLAN_ADVICE may follow without modes
				if r.Plan != nil {
					p.Advice = append(p.Advice, r.Plan.Advice...)
				}
				r.Plan = p
			} else if p.Known && p.Mode() != r.Plan.Mode() {
				r.add(Note, "plan", fmt.Sprintf("the text holds another plan of the table, which writes %s; the first one counts here", p.Mode()), "")
			} else {
				r.Plan.Advice = append(r.Plan.Advice, p.Advice...)
			}
		case p.Sink != "":
			others = append(others, p.Table())
		}
	}
	switch {
	case r.Plan != nil:
		return true
	case len(others) > 0 && !r.Wrong():
		r.add(Wrong, "plan", fmt.Sprintf("the plan writes %s, and the table is %s", strings.Join(others, ", "), table), "explain the INSERT that writes the table, or paste the CREATE TABLE of what the plan writes")
	case len(e.Plans) > 0 && !r.Wrong():
		r.add(Wrong, "plan", "the plan is that of a SELECT, which writes nothing", "ask for EXPLAIN CHANGELOG_MODE INSERT INTO "+table+" SELECT ...")
	}
	return false
}

// words names kinds as the planner does.
func words(m changelog.Mode) string {
	var w []string
	if m.Contains(changelog.Insert) {
		w = append(w, "inserts")
	}
	if m.Contains(changelog.UpdateAfter) || m.Contains(changelog.UpdateBefore) {
		w = append(w, "updates")
	}
	if m.Contains(changelog.Delete) {
		w = append(w, "deletes")
	}
	if len(w) == 0 {
		return "changes"
	}
	if len(w) == 3 {
		return "inserts, updates and deletes"
	}
	return strings.Join(w, " and ")
}

func (r *Report) mode() {
	p := r.Plan
	if !p.Known {
		r.add(Note, "mode", "the plan does not tell which kinds of change it holds", "ask for EXPLAIN CHANGELOG_MODE, which may stand beside PLAN_ADVICE")
		return
	}
	text := fmt.Sprintf("%s reaches the sink: %s", p.Input, words(p.Input))
	if p.Input&^changelog.Append == 0 {
		text += " only"
	}
	if p.Materialize {
		text += fmt.Sprintf("; the SinkUpsertMaterializer makes %s of it", p.Mode())
	}
	if p.KeyOnly {
		text += "; a delete may know its key only"
	}
	r.add(OK, "mode", text, "")
}

// firsts says where updates and deletes come from. One node that makes both is told once.
func (r *Report) firsts() {
	u, d := r.Plan.FirstUpdate(), r.Plan.FirstDelete()
	tell := func(what, kinds string, n *Node) {
		text := fmt.Sprintf("%s is the first node with %s", n.short(), kinds)
		switch {
		case strings.Contains(n.Name, "SourceScan"):
			text = fmt.Sprintf("%s: the source holds %s itself", n.short(), kinds)
		case n.Name == "ChangelogNormalize":
			text += ", of a source that tells no old rows"
		}
		r.add(Note, what, text, "if the topic is to hold inserts only: "+appendCure(n))
	}
	switch {
	case u != nil && u == d:
		tell("updates", "updates and deletes", u)
	default:
		if u != nil {
			tell("updates", "updates", u)
		}
		if d != nil {
			tell("deletes", "deletes", d)
		}
	}
}

func (r *Report) materialize(t *ddl.Table) {
	p := r.Plan
	switch {
	case p.Materialize:
		r.add(Note, "materialize", "upsertMaterialize is on: the key of the query is not the PRIMARY KEY of the table, so Flink keeps a list of rows for each key in its state, and table.exec.state.ttl would make it forget some",
			"make the PRIMARY KEY the key of the query (GROUP BY, PARTITION BY, or the key that its joins keep)")
	case t.Options["connector"] == "upsert-kafka" && p.Input.Contains(changelog.UpdateBefore):
		r.add(Wrong, "materialize", "upsertMaterialize is off although -U reaches the sink, which writes it as a delete of its key: of two rows with one key the wrong one may stay, or none",
			"SET 'table.exec.sink.upsert-materialize' = 'AUTO', or make the PRIMARY KEY the key of the query")
	default:
		r.add(OK, "materialize", "upsertMaterialize is off", "")
	}
}

// carries says whether connector, format and key of the table can hold what the plan writes.
func (r *Report) carries(t *ddl.Table, table *changelog.Table) {
	connector := t.Options["connector"]
	name := t.Options["value.format"]
	if name == "" {
		name = t.Options["format"]
	}
	what := fmt.Sprintf("connector '%s' with format '%s'", connector, name)
	if p := r.Plan; p != nil && p.Known {
		switch extra := p.Mode() &^ table.Mode; {
		case table.Mode == changelog.Append && extra != 0:
			r.add(Wrong, "table", fmt.Sprintf("%s holds inserts only, and the plan writes %s", what, p.Mode()),
				"set 'connector' = 'upsert-kafka' with 'key.format', 'value.format' and a PRIMARY KEY, or take a format that carries updates, such as debezium-json")
		case table.Mode == changelog.Upsert && p.Mode() == changelog.Append:
			r.add(Note, "table", what+" can hold it; nothing in the plan says that two inserts never have one key, and of those the later one wins", "if they can, write to 'connector' = 'kafka' and keep all")
		default:
			r.add(OK, "table", what+" can hold it", "")
		}
	}
	switch {
	case table.Mode == changelog.Upsert:
		r.add(OK, "key", "the PRIMARY KEY ("+strings.Join(t.PrimaryKey, ", ")+") is the key of the records, so the changes of a row are in one partition, in order", "")
	case table.Mode == changelog.Append:
	case t.Options["key.format"] == "":
		r.add(Note, "key", "the records have no key, so the changes of a row are in order only while the topic has one partition", keyCure)
	case len(t.PrimaryKey) == 0:
		r.add(Note, "key", "the records have a key and the table has no PRIMARY KEY: the changes of a row are in one partition if 'key.fields' never change while it lives", "declare PRIMARY KEY (...) NOT ENFORCED")
	case scattered(t):
		r.add(Wrong, "key", "'key.fields' has columns that are not of the PRIMARY KEY, so an update of such a column moves the row to another partition, where no order is kept", "let 'key.fields' be the PRIMARY KEY")
	default:
		r.add(OK, "key", "the key of the records is of the PRIMARY KEY, so the changes of a row are in one partition, in order", "")
	}
}

const keyCure = "set 'key.format' and the PRIMARY KEY as 'key.fields', or keep the topic at one partition"

func scattered(t *ddl.Table) bool {
	for _, f := range strings.Split(t.Options["key.fields"], ";") {
		if f = strings.TrimSpace(f); f != "" && !slices.Contains(t.PrimaryKey, f) {
			return true
		}
	}
	return false
}

// sink says whether the sink can take the table's changes.
func (r *Report) sink(t *ddl.Table, table *changelog.Table, s Settings) {
	keyless := t.Options["key.format"] == "" || len(t.PrimaryKey) > 0 && scattered(t)
	switch {
	case table.Mode == changelog.Retract && keyless && s.Partitions > 1 && !s.Unordered:
		r.add(Wrong, "sink", fmt.Sprintf("the topic has %d partitions and its records no key that keeps a row in one of them; a bridge refuses that", s.Partitions), keyCure+"; if each row's changes are in one partition all the same, set Options.Unordered")
	case table.Mode == changelog.Retract && keyless && s.Partitions > 1:
		r.add(Note, "sink", "Options.Unordered accepts records without a key: Flink itself spreads them, so only a writer that does not may fill this topic", "")
	}
	switch s.Sink {
	case Kafka:
		r.topic(t, table)
	case Files:
		r.files(table)
	case Index:
		r.index(t, table)
	default:
		r.postgres(t, table)
	}
}

// topic judges a topic whose table is declared as that of the source, in the same encoding, which is what the command writes unless it is told otherwise.
func (r *Report) topic(t *ddl.Table, table *changelog.Table) {
	switch {
	case t.Options["connector"] == "upsert-kafka":
		r.add(OK, "sink", "Kafka takes it: one record a change by ("+strings.Join(t.PrimaryKey, ", ")+"), deletes as null values", "")
	case table.Mode == changelog.Append:
		r.add(OK, "sink", "Kafka takes it: one record an insert", "")
	default:
		r.add(OK, "sink", "Kafka takes it: one record a change, in the same encoding; another target needs connector 'upsert-kafka' or a format of kinds too", "")
	}
	r.add(Note, "sink", "readers of the topic have to be read_committed, or they see what is aborted later", "'properties.isolation.level' = 'read_committed' in their tables")
}

func (r *Report) files(table *changelog.Table) {
	switch {
	case table.Mode == changelog.Append:
		r.add(OK, "sink", "S3 takes it: each insert is a row of a file", "")
	case len(table.Schema.Key) > 0:
		r.add(Note, "sink", "S3 takes it only with the kinds beside the rows, as files are never changed", "choose Changelog (every change) or Upsert (the last change of each key in a file) in s3.Options.Kind")
	default:
		r.add(Note, "sink", "S3 takes it only with the kinds beside the rows, as files are never changed, and without a key a reader has to take equal rows away by himself", "choose Changelog in s3.Options.Kind")
	}
}

func (r *Report) index(t *ddl.Table, table *changelog.Table) {
	deletes := table.Mode.Contains(changelog.Delete) || table.Mode.Contains(changelog.UpdateBefore)
	switch {
	case len(table.Schema.Key) == 0 && table.Mode != changelog.Append:
		r.add(Wrong, "sink", "Elasticsearch cannot find the documents of rows that are updated or deleted: the table has no key", "declare PRIMARY KEY (...) NOT ENFORCED")
		return
	case len(table.Schema.Key) == 0:
		r.add(OK, "sink", "Elasticsearch takes it: each insert is a document that is named by its place in the topic", "")
	default:
		r.add(OK, "sink", "Elasticsearch takes it: each row is a document that is named by ("+strings.Join(t.PrimaryKey, ", ")+")", "")
	}
	if deletes {
		r.add(Note, "sink", "the topic can hold deletes, and Elasticsearch forgets the version of a document that was deleted", "choose Tombstone or Hard in elastic.Options.Deletes")
	}
}

func (r *Report) postgres(t *ddl.Table, table *changelog.Table) {
	switch {
	case len(table.Schema.Key) > 0:
		r.add(OK, "sink", "Postgres takes it: each change is an upsert or a delete by ("+strings.Join(t.PrimaryKey, ", ")+"), over which the target needs a unique index", "")
	case table.Mode == changelog.Append:
		r.add(OK, "sink", "Postgres takes it: each change is an insert, and the target needs no key", "")
	case table.Mode.Contains(changelog.UpdateBefore):
		r.add(Note, "sink", "Postgres takes it: without a key a delete takes away one row that is equal in all columns, which has to be looked for", "declare PRIMARY KEY (...) NOT ENFORCED if the rows have a key")
	default:
		r.add(Wrong, "sink", "Postgres cannot find the rows that go away: the table has no key, and its topic does not tell old rows", "declare PRIMARY KEY (...) NOT ENFORCED")
	}
}
