// Package filetest is what tests of file formats have in common: a table with a column of each type, what another program prints of its rows, and the
// rows that a format must refuse.
package filetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3"
)

// Table makes a table of columns such as "id BIGINT NOT NULL".
func Table(t testing.TB, columns ...string) *changelog.Table {
	t.Helper()
	tb := &changelog.Table{Name: "orders", Mode: changelog.Append, Schema: &changelog.Schema{}}
	for _, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		parsed, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tb.Schema.Columns = append(tb.Schema.Columns, changelog.Column{Name: name, Type: parsed})
	}
	return tb
}

// Write returns a file of rows.
func Write(t testing.TB, format s3.Format, tb *changelog.Table, rows ...changelog.Row) []byte {
	t.Helper()
	tf, err := format.Table(tb)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f, err := tf.NewFile(&out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := f.WriteRow(&changelog.Change{Row: r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// pythonVariable names the interpreter that has the libraries which files are read with.
const pythonVariable = "FLINKSINK_PYTHON"

// Python returns an interpreter that has these modules, and skips the test where there is none. install is what pip is given.
func Python(t *testing.T, modules, install string) string {
	t.Helper()
	python := os.Getenv(pythonVariable)
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import "+modules).CombinedOutput(); err != nil {
		t.Skipf("needs Python with other programs' readers (pip install %s); %s names the interpreter, as ./test full does: %v %s", install, pythonVariable, err, out)
	}
	return python
}

// Printed is what testdata/print.py says of a file.
type Printed struct {
	Columns   []string
	RowGroups int // of Parquet
	Rows      []map[string]any
}

// Print has another program read a file.
func Print(t testing.TB, python string, file []byte) (p Printed) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/print.py", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return p
}

// Names are the columns of a table.
func Names(tb *changelog.Table) (names []string) {
	for _, c := range tb.Schema.Columns {
		names = append(names, c.Name)
	}
	return names
}

// Refusal is a value that a column cannot take.
type Refusal struct {
	typ    string
	value  changelog.Value
	class  changelog.DataClass
	reason string
}

// Refuse makes a Refusal. reason is a part of the reason that has to be told.
func Refuse(typ string, v changelog.Value, class changelog.DataClass, reason string) Refusal {
	return Refusal{typ, v, class, reason}
}

// Refuses fails unless each value is refused, by column, class and reason.
func Refuses(t *testing.T, format s3.Format, refusals ...Refusal) {
	t.Helper()
	for _, c := range refusals {
		tf, err := format.Table(Table(t, "v "+c.typ))
		if err != nil {
			t.Fatal(err)
		}
		f, err := tf.NewFile(&bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		err = f.WriteRow(&changelog.Change{Partition: changelog.Partition{Topic: "t", Partition: 3}, Offset: 7, Row: changelog.Row{c.value}})
		var d *changelog.DataError
		if !errors.As(err, &d) || d.Class != c.class || !strings.Contains(d.Reason, c.reason) || d.Field != "v" || d.Topic != "t" || d.Partition.Partition != 3 || d.Offset != 7 {
			t.Errorf("%s: %v, expected %q of class %s, with its column and position", c.typ, err, c.reason, c.class)
		}
	}
}
