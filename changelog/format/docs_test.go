package format_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/internal/rowtext"
)

const formatsDoc = "../../docs/formats.md"

// docRows returns the rows of the table under a heading of docs/formats.md, or of the first table for "".
func docRows(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(formatsDoc)
	if err != nil {
		t.Fatal(err)
	}
	under, inTable := heading == "", 0
	for _, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			if inTable > 0 {
				return rows
			}
			under = line == "## "+heading
		case under && strings.HasPrefix(line, "|"):
			if inTable++; inTable > 2 {
				cells := strings.Split(strings.Trim(line, "| "), " | ")
				if strings.Contains(line, "| |") {
					cells = nil
					for _, c := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|") {
						cells = append(cells, strings.TrimSpace(c))
					}
				}
				rows = append(rows, cells)
			}
		}
	}
	if len(rows) == 0 {
		t.Fatalf("no table under %q", heading)
	}
	return rows
}

// code takes the back-quotes off a cell.
func code(s string) string { return strings.ReplaceAll(s, "`", "") }

// docValue is the message that a cell means.
func docValue(cell string) []byte {
	switch cell {
	case "", "(null)":
		return nil
	case "(empty)":
		return []byte{}
	}
	if digits, ok := strings.CutPrefix(code(cell), "hex "); ok {
		out, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			panic(err)
		}
		return out
	}
	return []byte(strings.ReplaceAll(code(cell), " + line end + ", "\n"))
}

// docDecode reads the record of a row, with which both tables of records begin.
func docDecode(t *testing.T, row []string, lenient bool) string {
	t.Helper()
	name, isUpsert := strings.CutPrefix(code(row[0]), "upsert-kafka ")
	with := []string{fmt.Sprintf("'connector' = 'kafka', 'format' = '%s'", name)}
	prefix := name + "."
	if isUpsert {
		with[0] = fmt.Sprintf("'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = '%s'", name)
		prefix = "value." + prefix
	}
	if o := code(row[1]); o != "" {
		for _, o := range strings.Split(o, ", ") {
			k, v, _ := strings.Cut(o, "=")
			with = append(with, fmt.Sprintf("'%s%s' = '%s'", prefix, k, v))
		}
	}
	tab, err := ddl.Find(fmt.Sprintf("CREATE TABLE t (%s) WITH (%s)", code(row[2]), strings.Join(with, ", ")), "t")
	if err != nil {
		t.Fatal(err)
	}
	d, err := format.New(tab, formats, &format.Options{Lenient: lenient})
	if err != nil {
		t.Fatal(err)
	}
	b := changelog.NewBatch(d.Table())
	if err := d.Decode(b, &changelog.Record{Key: docValue(row[3]), Value: docValue(row[4])}); err != nil {
		return "error: " + err.Error()
	}
	if b.Len() == 0 {
		return "nothing"
	}
	var out []string
	for _, c := range b.Changes {
		out = append(out, c.Kind.String()+" "+string(rowtext.AppendRow(nil, b.Table.Schema, c.Row)))
	}
	return strings.Join(out, " ")
}

func TestDocs_Stricter(t *testing.T) {
	formatsMet := map[string]bool{}
	for _, row := range docRows(t, "Where we are stricter") {
		if len(row) != 7 {
			t.Fatalf("%d cells: %q", len(row), row)
		}
		formatsMet[code(row[0])] = true
		if got := docDecode(t, row, false); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, code(row[5])) {
			t.Errorf("%q: by default %s", row, got)
		}
		if got := docDecode(t, row, true); got != code(row[6]) {
			t.Errorf("%q: lenient %s", row, got)
		}
	}
	for _, f := range formats {
		if !formatsMet[f.Name()] {
			t.Errorf("%s has no row", f.Name())
		}
	}
}

func TestDocs_PrimaryKey(t *testing.T) {
	for _, row := range docRows(t, "Where a PRIMARY KEY says more") {
		if len(row) != 7 {
			t.Fatalf("%d cells: %q", len(row), row)
		}
		if got := docDecode(t, row, false); got != code(row[5]) {
			t.Errorf("%q: by default %s", row, got)
		}
		if got := docDecode(t, row, true); got != code(row[6]) {
			t.Errorf("%q: lenient %s", row, got)
		}
	}
}

// The first table has each format with its options, all of which it takes, and its metadata.
func TestDocs_Formats(t *testing.T) {
	rows := map[string][]string{}
	for _, row := range docRows(t, "") {
		rows[code(row[0])] = row
	}
	tab := &changelog.Table{Name: "t", Schema: &changelog.Schema{Columns: []changelog.Column{{Name: "f", Type: changelog.Type{Root: changelog.RootInt}}}}}
	for _, f := range formats {
		row := rows[f.Name()]
		if row == nil {
			t.Errorf("%s is not in the table", f.Name())
			continue
		}
		if retract := strings.HasPrefix(row[5], "all"); retract != (f.Mode() == changelog.Retract) {
			t.Errorf("%s: kinds %q, mode %s", f.Name(), row[5], f.Mode())
		}
		for _, o := range strings.Split(code(row[6]), ", ") {
			p := changelog.Payload{Table: tab, Columns: []int{0}, Names: []string{"f"}, Options: map[string]string{o: ""}}
			if _, err := f.NewDecoder(p); err != nil && strings.Contains(err.Error(), "unknown option") {
				t.Errorf("%s: %v", f.Name(), err)
			}
		}
		keys := map[string]bool{}
		for _, k := range strings.Split(code(row[7]), ", ") {
			keys[k] = true
		}
		other := changelog.Table{Name: "t", Schema: &changelog.Schema{Columns: append([]changelog.Column{{Name: "m", Type: changelog.Type{Root: changelog.RootInt}, Metadata: "value.nothing"}}, tab.Schema.Columns...)}}
		if _, err := f.NewDecoder(changelog.Payload{Table: &other, Columns: []int{1}, Names: []string{"f"}}); f.Mode() == changelog.Retract {
			for k := range keys {
				if err == nil || !strings.Contains(err.Error(), k+" ") {
					t.Errorf("%s: metadata %s is not in: %v", f.Name(), k, err)
				}
			}
		}
	}
	if len(rows) != len(formats) {
		t.Errorf("%d rows for %d formats", len(rows), len(formats))
	}
}
