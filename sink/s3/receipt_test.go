package s3

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// What a release wrote once is read for ever. A new version of the format adds a file and alters none.
func TestReceipt_Fixtures(t *testing.T) {
	want := map[string]receipt{
		"v1-multipart.json": {Bridge: "orders", Bucket: "lake", Token: "0123456789abcdef0123456789abcdef", Manifest: "p/_flinksink/orders/lake/manifest/000000000007-000000000012-01234567.json", Files: []fileReceipt{{
			Table: "orders", Key: "p/orders/country=DE/orders.lake.p0-3.g7.c12.1.89abcdef.jsonl.gz", Token: "89abcdef89abcdef89abcdef89abcdef", Rows: 3, Size: 120, SHA256: strings.Repeat("ab", 32),
			ContentType: "application/gzip", Upload: "upload-1", Parts: []partReceipt{{ETag: `"00112233445566778899aabbccddeeff"`, CRC32: "iAJiXQ=="}, {ETag: `"e1"`}}}}},
		"v1-rename.json": {Bridge: "orders", Bucket: "lake", Token: "0123456789abcdef0123456789abcdef", Files: []fileReceipt{{
			Table: "orders", Key: "p/orders/orders.lake.p0-3.g7.c12.1.89abcdef.parquet", Token: "89abcdef89abcdef89abcdef89abcdef", Rows: 3, Size: 120, SHA256: strings.Repeat("ab", 32),
			Staged: "p/_staging/orders/lake/7/orders/orders.lake.p0-3.g7.c12.1.89abcdef.parquet", ETag: `"e2"`}}},
		"v2-letters.json": {Bridge: "orders", Bucket: "lake", Token: "0123456789abcdef0123456789abcdef", Files: []fileReceipt{
			{Table: "orders", Key: "p/orders/day=2026-11-30/orders.lake.p0-3.g7.c12.1.89abcdef.jsonl", Token: "89abcdef89abcdef89abcdef89abcdef", Rows: 3, Size: 120, SHA256: strings.Repeat("ab", 32),
				Upload: "upload-1", Parts: []partReceipt{{ETag: `"e1"`}}},
			{Key: "p/_flinksink/orders/lake/letter/orders.lake.p0-3.g7.c12.2.89abcdef.jsonl", Token: "89abcdef89abcdef89abcdef89abcdef", Rows: 1, Size: 12, SHA256: strings.Repeat("cd", 32),
				Upload: "upload-2", Parts: []partReceipt{{ETag: `"e2"`}}}},
			EventTimes: []EventTime{{"orders", "orders", 3, time.Date(2026, 11, 30, 1, 2, 3, 4e6, time.UTC)}}},
		"v1-object.json": {Bridge: "orders", Bucket: "lake", Token: "0123456789abcdef0123456789abcdef", Object: "p/_flinksink/orders/lake/receipt/000000000007-000000000012-01234567", SHA256: strings.Repeat("cd", 32)},
	}
	files, err := filepath.Glob("testdata/receipt/*.json")
	if err != nil || len(files) != len(want) {
		t.Fatalf("fixtures %v: %v", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseReceipt(int(filepath.Base(f)[1]-'0'), b)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		if w := want[filepath.Base(f)]; !reflect.DeepEqual(*got, w) {
			t.Errorf("%s is read as %+v", f, *got)
		}
		if again, err := json.Marshal(want[filepath.Base(f)]); err != nil || string(again) != string(b) { // the newest version is written so
			t.Errorf("%s is written as %s, %v", f, again, err)
		}
	}
}

func TestReceipt_Refuses(t *testing.T) {
	good, err := os.ReadFile("testdata/receipt/v1-multipart.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseReceipt(3, good); sink.ClassOf(err) != sink.ErrConfig {
		t.Errorf("version 3: %v", err)
	}
	for what, b := range map[string]string{
		"empty":                "",
		"cut off":              string(good[:len(good)/2]),
		"with something more":  string(good) + "{}",
		"of a later field":     strings.Replace(string(good), `"bucket"`, `"later":1,"bucket"`, 1),
		"without an upload":    strings.Replace(string(good), `"upload":"upload-1",`, "", 1),
		"with both":            strings.Replace(string(good), `"upload":`, `"staged":"x","upload":`, 1),
		"without files":        `{"bridge":"b","bucket":"b","token":"t"}`,
		"object without a sum": `{"bridge":"b","bucket":"b","token":"t","object":"o"}`,
		"another program's":    `{"name":"x"}`,
	} {
		if _, err := parseReceipt(1, []byte(b)); sink.ClassOf(err) != sink.ErrLost {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// No bytes make the reader panic.
func FuzzReceipt(f *testing.F) {
	for _, name := range []string{"v1-multipart.json", "v1-rename.json", "v1-object.json"} {
		b, err := os.ReadFile(filepath.Join("testdata/receipt", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parseReceipt(1, b); err == nil && r.Object == "" && len(r.Files) == 0 {
			t.Error("a receipt of nothing was accepted")
		}
	})
}

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		"orders": "orders", "Orders_2-x": "Orders_2-x", "a.b/c": "a!2eb!2fc", "": "!", "_staging": "!_staging", "ü": "!c3!bc", "..": "!2e!2e",
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, expected %q", in, got, want)
		}
	}
	long, other := escape(strings.Repeat("x", 300)), escape(strings.Repeat("x", 299)+"y")
	if len(long) > maxWord+1 || long == other {
		t.Errorf("long names: %q and %q", long, other)
	}
	parts := []changelog.Partition{{Topic: "b", Partition: 7}, {Topic: "a", Partition: 3}}
	n := newNames("p", "my.bridge", "lake")
	name := n.file(parts, 12, 3, 4, "89abcdef", ".jsonl.gz")
	if name != "my!2ebridge.lake.p3-7.g12.c3.4.89abcdef.jsonl.gz" {
		t.Errorf("a file is called %s", name)
	}
	if g, ours := n.generationOf("p/orders/day=1/" + name); g != 12 || !ours {
		t.Errorf("its generation is read as %d, %t", g, ours)
	}
	for _, other := range []string{"p/x", "", "lake.lake.p3-7.g12.c3.4.89abcdef.jsonl", "my!2ebridge.other.p3-7.g12.c3.4.89abcdef.jsonl", "my!2ebridge.lake.p3-7.g.c3.4.89abcdef.jsonl",
		"my!2ebridge.lake.p3-7.g-1.c3.4.89abcdef.jsonl", "my!2ebridge.lake.p3-7.g12.c3"} {
		if g, ours := n.generationOf(other); ours {
			t.Errorf("%q is taken for generation %d", other, g)
		}
	}
	if n.fence(12) != "p/_flinksink/my!2ebridge/lake/fence/12" || newNames("", "b", "s").fence(1) != "_flinksink/b/s/fence/1" {
		t.Errorf("fences %s", n.fence(12))
	}
}

func TestFolders(t *testing.T) {
	s := &changelog.Schema{}
	for _, c := range [][2]string{{"s", "STRING"}, {"d", "DATE"}, {"ts", "TIMESTAMP(3)"}, {"ltz", "TIMESTAMP_LTZ(3)"}, {"n", "DECIMAL(5, 2)"}, {"a", "ARRAY<INT>"}} {
		typ, err := changelog.ParseType(c[1])
		if err != nil {
			t.Fatal(err)
		}
		s.Columns = append(s.Columns, changelog.Column{Name: c[0], Type: typ})
	}
	d, _ := changelog.ParseDecimal([]byte("1.50"), 5, 2)
	row := func(text string) changelog.Row {
		return changelog.Row{changelog.StringValue(text), changelog.DateValue(changelog.DaysOf(2024, 2, 29)), changelog.TimestampValue(3661, 0), changelog.TimestampLTZValue(86400*365, 0), d, {}}
	}
	for _, c := range []struct {
		field PartitionField
		row   changelog.Row
		want  string
	}{
		{PartitionField{Column: "s"}, row("DE"), "s=DE/"},
		{PartitionField{Column: "s", Name: "country"}, row("a/b=c d%"), "country=a%2Fb%3Dc d%25/"},
		{PartitionField{Column: "s"}, row(""), "s=__HIVE_DEFAULT_PARTITION__/"},
		{PartitionField{Column: "s"}, changelog.Row{{}, {}, {}, {}, {}, {}}, "s=__HIVE_DEFAULT_PARTITION__/"},
		{PartitionField{Column: "s"}, row(".."), "s=%2E%2E/"},
		{PartitionField{Column: "s"}, row("zürich\n\xff"), "s=zürich%0A%FF/"},
		{PartitionField{Column: "d"}, row(""), "d=2024-02-29/"},
		{PartitionField{Column: "d", Name: "month", Layout: "2006-01"}, row(""), "month=2024-02/"},
		{PartitionField{Column: "ts", Name: "hour", Layout: "15"}, row(""), "hour=01/"},
		{PartitionField{Column: "ltz", Name: "day", Layout: "2006-01-02"}, row(""), "day=1971-01-01/"},
		{PartitionField{Column: "n"}, row(""), "n=1.50/"},
	} {
		ps, err := newPartitioners([]PartitionField{c.field}, s)
		if err != nil {
			t.Errorf("%+v: %v", c.field, err)
			continue
		}
		got, err := appendFolder(nil, ps, &changelog.Change{Row: c.row})
		if err != nil || string(got) != c.want {
			t.Errorf("%+v: %q, %v, expected %q", c.field, got, err, c.want)
		}
	}
	ps, _ := newPartitioners([]PartitionField{{Column: "s"}}, s)
	if _, err := appendFolder(nil, ps, &changelog.Change{Row: row(strings.Repeat("/", 100))}); err == nil || strings.Contains(err.Error(), "//") {
		t.Errorf("a name that is too long: %v", err)
	}
	for _, f := range []PartitionField{{Column: "x"}, {Column: "a"}, {Column: "s", Name: "n", Layout: "15"}} {
		if _, err := newPartitioners([]PartitionField{f}, s); err == nil || !strings.Contains(err.Error(), f.Column) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	for _, f := range []PartitionField{{}, {Column: "ts", Layout: "15"}, {Column: "_hidden"}} {
		if f.check() == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}
