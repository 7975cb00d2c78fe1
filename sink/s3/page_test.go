package s3_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/twmb/avro/ocf"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/avro"
	"github.com/flinksink/flinksink/sink/s3/parquet"
)

// pageTypes are the types that docs/s3.md speaks of, in its order.
var pageTypes = []string{"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(9, 2)", "DECIMAL(18, 2)", "DECIMAL(38, 2)", "CHAR(3)", "STRING", "BINARY(3)", "BYTES",
	"DATE", "TIME(0)", "TIME(3)", "TIME(6)", "TIME(9)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ(9)",
	"INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND", "ARRAY<INT>", "MAP<STRING, INT>", "MAP<INT, INT>", "MULTISET<STRING>", "ROW<a INT>"}

// The page's table of types is what files have: read out of files without rows by the formats' own readers.
func TestPage_Types(t *testing.T) {
	page, err := os.ReadFile("../../docs/s3.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, typ := range pageTypes {
		tb := table(t, "t", "[I]", "", "c "+typ+" NOT NULL")
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", typ, jsonHas(tb), parquetHas(t, tb), avroHas(t, tb))
	}
	_, text, _ := strings.Cut(string(page), "<!-- types -->\n")
	text, _, _ = strings.Cut(text, "<!-- end of types -->")
	_, text, _ = strings.Cut(text, "|---|---|---|---|\n")
	if text != want.String() {
		t.Errorf("the page's table of types has to be\n%s", want.String())
	}
}

func jsonHas(tb *changelog.Table) string {
	if _, err := s3.JSONLines().Table(tb); err != nil {
		return "refused"
	}
	return "yes"
}

func empty(t *testing.T, f s3.Format, tb *changelog.Table) []byte {
	t.Helper()
	tf, err := f.Table(tb)
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	w, err := tf.NewFile(&b)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parquetHas(t *testing.T, tb *changelog.Table) string {
	b := empty(t, parquet.New(nil), tb)
	if b == nil {
		return "refused"
	}
	f, err := pq.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	text := f.Schema().String()
	text = text[strings.Index(text, "{")+1 : strings.LastIndex(text, "}")]
	text = strings.Join(strings.Fields(text), " ")
	text = strings.TrimSuffix(strings.TrimPrefix(text, "required "), ";")
	return "`" + strings.Replace(text, " c", "", 1) + "`"
}

func avroHas(t *testing.T, tb *changelog.Table) string {
	b := empty(t, avro.New(nil), tb)
	if b == nil {
		return "refused"
	}
	r, err := ocf.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var schema struct {
		Fields []struct{ Type json.RawMessage }
	}
	if err := json.Unmarshal(r.Metadata()["avro.schema"], &schema); err != nil {
		t.Fatal(err)
	}
	return "`" + strings.Trim(string(schema.Fields[0].Type), `"`) + "`"
}
