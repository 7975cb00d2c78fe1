package changelog_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// golden is one topic that a real Flink job wrote, as far as tests here look at it.
type golden struct {
	name    string
	show    string // what SHOW CREATE TABLE printed
	columns []goldenColumn
	read    []map[string]any // the rows Flink read: text, or nested JSON
}

type goldenColumn struct{ Name, Type string }

func goldens(t *testing.T) []golden {
	t.Helper()
	files, err := filepath.Glob("../testdata/flink/*/info.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d topics in testdata (%v)", len(files), err)
	}
	var all []golden
	for _, file := range files {
		dir := filepath.Dir(file)
		g := golden{name: filepath.Base(dir)}
		var info struct{ Columns []goldenColumn }
		if err := json.Unmarshal(readFile(t, file), &info); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		g.columns = info.Columns
		g.show = string(readFile(t, filepath.Join(dir, "show-create.sql")))
		g.read = readRows(t, filepath.Join(dir, "read.jsonl"))
		all = append(all, g)
	}
	return all
}

func readRows(t *testing.T, file string) (rows []map[string]any) {
	t.Helper()
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		var line struct{ Row map[string]any }
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if line.Row != nil {
			rows = append(rows, line.Row)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parseType(t testing.TB, s string) changelog.Type {
	t.Helper()
	typ, err := changelog.ParseType(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return typ
}
