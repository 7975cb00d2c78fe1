package avroconfluent

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/registry/registrytest"
	"github.com/flinksink/flinksink/internal/rowtext"
)

var flinkDir = filepath.Join("..", "..", "..", "testdata", "flink")

// FuzzDecode holds what a decoder promises whatever a message and its schema are: one row or an error; what is no guess is the same with
// leniency; and a row that was read is read again from what an encoder makes of it. A schema that is no JSON is one of the captured ones.
func FuzzDecode(f *testing.F) {
	g, err := registrytest.Load(flinkDir)
	if err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(flinkDir, "odd", "schemas.json"))
	if err != nil {
		f.Fatal(err)
	}
	var schemas map[string]json.RawMessage
	if err := json.Unmarshal(text, &schemas); err != nil {
		f.Fatal(err)
	}
	file, err := os.Open(filepath.Join(flinkDir, "odd", "avro-confluent.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	for sc := bufio.NewScanner(file); sc.Scan(); {
		var o struct{ Value []byte }
		if err := json.Unmarshal(sc.Bytes(), &o); err != nil {
			f.Fatal(err)
		}
		schema := ""
		if len(o.Value) > 4 {
			schema = string(schemas[strconv.Itoa(int(o.Value[4]))])
		}
		f.Add(o.Value, schema)
	}
	f.Add([]byte("\x00\x00\x00\x00\x00\x02\x02\x00\x02"), `{"type":"record","name":"r","fields":[{"name":"t","type":["null","r"]},{"name":"a","type":{"type":"array","items":"null"}},{"name":"id","type":["string","int"]}]}`)
	f.Add([]byte("\x00\x00\x00\x00\x00\x02\x02\x00\x02"), `{"type":"record","name":"r","fields":[{"name":"r","type":"r"}]}`)
	f.Add([]byte("\x00\x00\x00\x00\x00\xfe\xff\xff\xff\xff\xff\x01"), `{"type":"record","name":"r","fields":[{"name":"gone","type":{"type":"map","values":{"type":"array","items":"null"}}}]}`)
	var payloads []changelog.Payload
	for _, columns := range [][]string{
		{"id INT", "name STRING"}, {"id INT", "ts TIMESTAMP(3)", "de DECIMAL(6, 2)", "dt DATE", "tm TIME(3)"}, {"id BIGINT NOT NULL", "x DOUBLE"},
		{"a ARRAY<ROW<x INT, y ARRAY<STRING>>>", "m MAP<STRING, ROW<d DATE>>"}, {"r ROW<r ROW<x INT>>", "t TINYINT"},
	} {
		payloads = append(payloads, payloadOf(f, nil, columns...))
	}
	f.Fuzz(func(t *testing.T, message []byte, schema string) {
		client := g.Client()
		if json.Valid([]byte(schema)) && len(message) > 4 {
			own := &registrytest.Registry{}
			own.Put(7, registrytest.Schema{Text: schema})
			client, message = own.Client(), append([]byte{0, 0, 0, 0, 7}, message[5:]...)
		}
		for i, p := range payloads {
			var results [2]string
			for k, lenient := range []bool{false, true} {
				p.Lenient = lenient
				d, err := Format{HTTP: client}.NewDecoder(p)
				if err != nil {
					t.Fatal(err)
				}
				b := changelog.NewBatch(p.Table)
				var de *changelog.DataError
				if err := d.DecodePayload(b, message, nil); err != nil {
					if !errors.As(err, &de) || b.Len() > 0 {
						t.Fatalf("payload %d: %#v, %d changes", i, err, b.Len())
					}
					results[k] = "error"
					continue
				}
				results[k] = string(rowtext.AppendRow(nil, p.Table.Schema, b.Changes[0].Row))
				if lenient {
					continue
				}
				e, err := Format{HTTP: client}.NewEncoder(p)
				if err != nil {
					t.Fatal(err)
				}
				again, _, err := e.AppendPayload(nil, &b.Changes[0])
				if err != nil {
					t.Fatalf("payload %d: %v, %s", i, err, results[0])
				}
				b.Reset()
				if err := d.DecodePayload(b, again, nil); err != nil {
					t.Fatalf("payload %d: %v, %s", i, err, results[0])
				}
				if got := string(rowtext.AppendRow(nil, p.Table.Schema, b.Changes[0].Row)); got != results[0] {
					t.Fatalf("payload %d: %s, then %s", i, results[0], got)
				}
			}
			if results[0] != "error" && results[0] != results[1] {
				t.Fatalf("payload %d: default %s, lenient %s", i, results[0], results[1])
			}
		}
	})
}
