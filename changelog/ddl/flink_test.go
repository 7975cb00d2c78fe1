package ddl

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// info is what Flink said about a table: the part of info.json that a statement decides.
type info struct {
	Table   string
	Columns []struct {
		Name, Type, Kind string
	}
	PrimaryKey []string
}

// described puts a table in the form of info.json. Flink knows the type of a computed column, the statement does not; Flink forgets
// the comments of ROW fields (a 'c' in the case that has one).
func described(t *Table) []string {
	var out []string
	for _, c := range t.Columns {
		switch {
		case c.Computed != "":
			out = append(out, c.Name+" computed")
		case c.Metadata != "":
			out = append(out, c.Name+" metadata "+c.Type.SQL())
		default:
			out = append(out, c.Name+" physical "+strings.ReplaceAll(c.Type.SQL(), " 'c'", ""))
		}
	}
	return append(out, "KEY "+strings.Join(t.PrimaryKey, ","))
}

func (i info) described() []string {
	var out []string
	for _, c := range i.Columns {
		if c.Kind == "computed" {
			out = append(out, c.Name+" computed")
		} else {
			out = append(out, c.Name+" "+c.Kind+" "+c.Type)
		}
	}
	return append(out, "KEY "+strings.Join(i.PrimaryKey, ","))
}

// TestFlinkCases: every statement that Flink ran, and what its SHOW CREATE TABLE printed, gives the columns and the key that Flink had.
func TestFlinkCases(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "flink")
	if d := os.Getenv("FLINKSINK_FLINK_CASES"); d != "" {
		dir = d // a folder of more cases
	}
	cases, err := filepath.Glob(filepath.Join(dir, "*", "info.json"))
	if err != nil || len(cases) < 30 {
		t.Fatalf("%d cases in %s: %v", len(cases), dir, err)
	}
	for _, path := range cases {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var want info
			if err := json.Unmarshal([]byte(read(t, path)), &want); err != nil {
				t.Fatal(err)
			}
			statement := read(t, filepath.Join(dir, "ddl.sql"))
			shown, err := Find(read(t, filepath.Join(dir, "show-create.sql")), "")
			if err != nil {
				t.Fatalf("show-create.sql: %v", err)
			}
			if diff := cmp.Diff(want.described(), described(shown)); diff != "" {
				t.Errorf("show-create.sql (-Flink +ours):\n%s", diff)
			}
			if shown.Name() != want.Table || shown.Catalog == "" || shown.Database == "" {
				t.Errorf("show-create.sql is of table %s, Flink calls it %s", shown.fullName(), want.Table)
			}
			written, err := Find(statement, want.Table)
			if err != nil {
				t.Fatalf("ddl.sql: %v", err)
			}
			if strings.Contains(statement, "AS SELECT") { // the types are those of the query's literals
				written.Catalog, written.Database = shown.Catalog, shown.Database
			}
			same(t, written, shown)
		})
	}
}

// TestFlinkAnswers: statements of every kind, with what Flink answered.
func TestFlinkAnswers(t *testing.T) {
	// What Flink refuses and we take: a type that no connector was asked about, catalogs.
	lenient := map[string]string{
		"a48": "type of a watermark", "`cat.x`.`db``y`.a54": "catalogs are not looked up",
		"a71": "a literal may go on anywhere", "a63": "BITMAP is a type from Flink 2.3 on", "a85": "expressions are not checked",
	}
	// What Flink takes and we refuse.
	strict := map[string]string{
		"a23": "no columns", "a62": "LIKE", "a74": "E'...' strings", "a86": "a name with a dot as a column",
		"a77": "an escape that is none",
	}
	cases := strings.Split(read(t, filepath.Join("testdata", "flink-2.2.txt")), "====\n")[1:]
	if len(cases) < 80 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		statement, answer, ok := strings.Cut(c, "----\n")
		if !ok {
			t.Fatalf("no answer: %s", c)
		}
		_, name, _ := strings.Cut(statement, "TABLE ")
		name = strings.Fields(strings.TrimPrefix(name, "IF NOT EXISTS "))[0]
		t.Run(name, func(t *testing.T) {
			refused := strings.HasPrefix(answer, "ERROR ")
			got, err := Find(statement, "")
			switch {
			case refused && lenient[name] != "":
				if err != nil {
					t.Errorf("%s: listed as taken: %v", lenient[name], err)
				}
			case strict[name] != "":
				if err == nil {
					t.Errorf("%s: listed as refused", strict[name])
				}
			case refused:
				if err == nil {
					t.Errorf("Flink refuses\n%s\n%s\nwe read\n%s", statement, answer, got)
				}
			case err != nil:
				t.Errorf("Flink takes\n%s\n%v", statement, err)
			case answer != "":
				want, err := Find(answer, "")
				if err != nil {
					t.Fatalf("%v\n%s", err, answer)
				}
				same(t, got, want)
			}
		})
	}
}

// TestFlinkWords: every word of Flink's grammar in the five places where it was asked for as a name.
func TestFlinkWords(t *testing.T) {
	all := []string{"1.17.2", "1.20.4", "2.2.0", "2.3.0"}
	words, reserved := 0, 0
	for _, line := range strings.Split(strings.TrimSpace(read(t, filepath.Join("testdata", "words.txt"))), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		word, by, _ := strings.Cut(line, " ")
		words++
		want := by == strings.Join(all, " ")
		if want {
			reserved++
		}
		if got := changelog.ReservedWord(strings.ToLower(word)); got != want {
			t.Errorf("%s: ReservedWord says %v, and %q keep it for themselves", word, got, by)
		}
		w := strings.ToLower(word)
		for _, statement := range []string{
			"CREATE TABLE t (%s INT)", "CREATE TABLE t (k0 INT, %[1]s INT, PRIMARY KEY (%[1]s) NOT ENFORCED)", "CREATE TABLE t (f ROW<%s INT>)", "CREATE TABLE %s (f INT)",
			"CREATE TABLE t (f INT, CONSTRAINT %s PRIMARY KEY (f) NOT ENFORCED)",
		} {
			if _, err := Find(fmt.Sprintf(statement, w), ""); (err != nil) != want {
				t.Errorf("%s, which %q keep for themselves: %v", fmt.Sprintf(statement, w), by, err)
			}
			if _, err := Find(fmt.Sprintf(statement, "`"+w+"`"), ""); err != nil {
				t.Error(err)
			}
		}
	}
	if words < 780 || reserved < 380 {
		t.Errorf("%d words, %d of them reserved", words, reserved)
	}
}

// TestFlinkExplained: files of several statements, EXPLAIN and INSERT among them.
func TestFlinkExplained(t *testing.T) {
	text := read(t, filepath.Join("testdata", "statements.sql"))
	tables, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, table := range tables {
		names = append(names, table.Name())
	}
	if want := "clicks out_json per_cust orders last_click"; strings.Join(names, " ") != want {
		t.Errorf("tables %v, want %s", names, want)
	}
	clicks := tables[0]
	if w := clicks.Watermark; w == nil || w.Column != "ts" || w.Expression != "ts - INTERVAL '5' SECOND" {
		t.Errorf("watermark %+v", w)
	}
}

// same compares a statement with what Flink printed for its table. Flink qualifies the name, quotes the names in expressions, names
// the constraint and drops the comments of ROW fields.
func same(t *testing.T, got, want *Table) {
	t.Helper()
	if got.Table != want.Table {
		t.Errorf("name %q, Flink says %q", got.Table, want.Table)
	}
	if diff := cmp.Diff(described(want), described(got)); diff != "" {
		t.Errorf("columns and key (-Flink +ours):\n%s", diff)
	}
	for i := range min(len(got.Columns), len(want.Columns)) {
		g, w := got.Columns[i], want.Columns[i]
		if g.Comment != w.Comment || g.Metadata != w.Metadata || g.Virtual != w.Virtual || normal(g.Computed) != normal(w.Computed) {
			t.Errorf("column %+v, Flink has %+v", g, w)
		}
	}
	if (got.Watermark == nil) != (want.Watermark == nil) {
		t.Errorf("watermark %v, Flink has %v", got.Watermark, want.Watermark)
	} else if got.Watermark != nil && (got.Watermark.Column != want.Watermark.Column || normal(got.Watermark.Expression) != normal(want.Watermark.Expression)) {
		t.Errorf("watermark %v, Flink has %v", got.Watermark, want.Watermark)
	}
	type rest struct {
		Comment, Constraint string
		Temporary           bool
		DistributedBy       *Distribution
		PartitionedBy       []string
		Options             map[string]string
	}
	constraint := got.Constraint
	if constraint == "" && len(got.PrimaryKey) > 0 {
		constraint = "PK_" + strings.Join(got.PrimaryKey, "_") // Flink's name for one without
	}
	g := rest{got.Comment, constraint, got.Temporary, got.DistributedBy, got.PartitionedBy, got.Options}
	w := rest{want.Comment, want.Constraint, want.Temporary, want.DistributedBy, want.PartitionedBy, want.Options}
	if diff := cmp.Diff(w, g, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-Flink +ours):\n%s", diff)
	}
	if !sameSchema(got.Schema(), want.Schema()) {
		t.Errorf("schema %+v, of Flink's text %+v", got.Schema(), want.Schema())
	}
}

func sameSchema(a, b *changelog.Schema) bool {
	if len(a.Columns) != len(b.Columns) || !cmp.Equal(a.Key, b.Key) {
		return false
	}
	for i := range a.Columns {
		x, y := a.Columns[i], b.Columns[i]
		if !x.Type.Equal(y.Type) {
			return false
		}
		x.Type, y.Type = changelog.Type{}, changelog.Type{}
		if !cmp.Equal(x, y) {
			return false
		}
	}
	return true
}

// normal takes away what Flink adds to an expression when it prints it.
func normal(expr string) string {
	return strings.NewReplacer("`", "", " ", "", "\n", "").Replace(expr)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
