package avroconfluent

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

var askDir = flag.String("ask", "", "write the messages of the tests, and the schemas they were written with, into this folder, for Flink's own reader to answer")

// ask notes a message that Flink is to read. Its answers are kept in testdata/flink/odd/avro-confluent-more.jsonl, and the schemas in schemas.json there.
func ask(t *testing.T, p changelog.Payload, columns []string, note string, id int, schema string, message []byte) {
	t.Helper()
	if *askDir == "" {
		return
	}
	const name = "avro-confluent"
	o := map[string]string{"connector": "kafka", "format": name}
	for k, v := range p.Options {
		o[name+"."+k] = v
	}
	o[name+".url"] = "http://localhost:8081"
	list := ""
	for i, c := range columns {
		if i > 0 {
			list += ", "
		}
		name, typ, _ := strings.Cut(c, " ")
		list += "`" + name + "` " + typ
	}
	add(t, name+".jsonl", map[string]any{"columns": list, "ddl-options": o, "key": nil, "value": message, "note": note})
	add(t, name+"-schemas.jsonl", map[string]any{"id": id, "schema": json.RawMessage(schema)})
}

func add(t *testing.T, name string, line map[string]any) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(*askDir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(f).Encode(line); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
