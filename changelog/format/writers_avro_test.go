package format_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debeziumavro"
	"github.com/flinksink/flinksink/changelog/format/internal/registry/registrytest"
	"github.com/twmb/avro"
)

var writeAvro = flag.Bool("write-avro", false, "write the messages of testdata/writers/debezium-avro from its cases and schemas")

var avroWriters = filepath.Join("testdata", "writers", "debezium-avro")

// avroCase is a table, and messages of one schema of Debezium's connectors.
type avroCase struct {
	Note, Schema, Columns string
	Table                 string // why there is no such table
	Messages              []struct {
		Value       json.RawMessage
		Want, Error string
		Lenient     *string // the rows that Flink makes silently, if others
	}
}

// What Debezium's connectors write with Confluent's AvroConverter, and what Flink's rules of resolution make of it: columns are found by name, and
// Debezium's own types of time and number are what Avro says of them, without a logical type mostly. Flink's own answers to the same messages,
// in flink.jsonl, are those of a decoder that is lenient.
func TestDecode_DebeziumAvroWriters(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(avroWriters, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Cases []avroCase }
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	g, schemas, ids := avroSchemas(t)
	if *writeAvro {
		writeAvroMessages(t, f.Cases, schemas, ids)
	}
	stored, answers := avroMessages(t), avroAnswers(t)
	used := map[string]bool{}
	for i, c := range f.Cases {
		used[c.Schema] = true
		t.Run(fmt.Sprintf("%d %s/%s", i, c.Schema, c.Note), func(t *testing.T) {
			fm := debeziumavro.Format{HTTP: g.Client()}
			with := map[string]string{"connector": "kafka", "format": fm.Name(), fm.Name() + ".url": "http://registry"}
			tab := tableOf(t, c.Columns, with)
			for _, lenient := range []bool{false, true} {
				d, err := format.New(tab, []changelog.Format{fm}, &format.Options{Lenient: lenient})
				if c.Table != "" {
					if err == nil || !strings.Contains(err.Error(), c.Table) || answers[fmt.Sprintf("%d.table", i)].Error == "" {
						t.Errorf("error %v, want %s, as Flink has one", err, c.Table)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for k, m := range c.Messages {
					name := messageName(i, k)
					message, isStored := stored[name]
					if !isStored {
						t.Fatalf("message %s is not in messages.txt; run with -write-avro", name)
					}
					if !bytes.Equal(message, avroMessage(t, schemas[c.Schema], ids[c.Schema], m.Value)) {
						t.Errorf("message %s is not that of cases.json; run with -write-avro", name)
					}
					want, wantError := m.Want, m.Error
					if lenient && m.Lenient != nil {
						want, wantError = *m.Lenient, ""
					}
					if flink, ok := answers[name]; lenient && (!ok || flink.text() != want || (flink.Error != "") != (wantError != "")) {
						t.Errorf("message %s: Flink says %q, %q; the case %q, %q", name, flink.text(), flink.Error, want, wantError)
					}
					b := changelog.NewBatch(d.Table())
					err := d.Decode(b, &changelog.Record{Offset: int64(k), Value: message})
					var de *changelog.DataError
					switch {
					case wantError != "":
						if !errors.As(err, &de) || !strings.Contains(err.Error(), wantError) {
							t.Errorf("message %s, lenient %v:\nerror %v\nwant  %s", name, lenient, err, wantError)
						}
					case err != nil:
						t.Errorf("message %s, lenient %v: %v", name, lenient, err)
					default:
						if got := changesText(b); got != want {
							t.Errorf("message %s, lenient %v:\n got %s\nwant %s", name, lenient, got, want)
						}
					}
				}
			}
		})
	}
	for name := range schemas {
		if !used[name] {
			t.Errorf("no case has the schema %s", name)
		}
	}
}

// avroSchemas are the schemas by the names of their files, and a registry that knows them by their ids, which are their places in the order of names.
func avroSchemas(t *testing.T) (*registrytest.Registry, map[string]*avro.Schema, map[string]int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(avroWriters, "*.avsc"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d schemas, %v", len(files), err)
	}
	slices.Sort(files)
	g, schemas, ids := &registrytest.Registry{}, map[string]*avro.Schema{}, map[string]int{}
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".avsc")
		if schemas[name], err = avro.Parse(string(text)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		ids[name] = 1 + i
		g.Put(ids[name], registrytest.Schema{Text: string(text)})
	}
	return g, schemas, ids
}

// avroMessage is the message of a value in Avro's JSON; nil, a tombstone, of null.
func avroMessage(t *testing.T, s *avro.Schema, id int, value json.RawMessage) []byte {
	t.Helper()
	if string(value) == "null" {
		return nil
	}
	var v any
	if err := s.DecodeJSON(value, &v); err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	message, err := s.AppendEncode([]byte{0, 0, 0, 0, byte(id)}, v)
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	return message
}

func messageName(c, message int) string { return fmt.Sprintf("%d.%d", c, message) }

// avroMessages reads messages.txt: a line has the number of a case, that of its message and the bytes; "-" is a tombstone.
func avroMessages(t *testing.T) map[string][]byte {
	t.Helper()
	f, err := os.Open(filepath.Join(avroWriters, "messages.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	messages := map[string][]byte{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if text == "-" {
			messages[name] = nil
			continue
		}
		if messages[name], err = base64.StdEncoding.DecodeString(text); err != nil {
			t.Fatalf("message %s: %v", name, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return messages
}

// flinkAnswer is what the reader of Flink 2.2.0 made of a message, or of a table: Note is the message's name, or the number of the case and "table".
type flinkAnswer struct {
	Note   string
	Error  string
	Result []struct {
		Op  string
		Row json.RawMessage
	}
}

func (a flinkAnswer) text() string {
	var out []string
	for _, r := range a.Result {
		out = append(out, r.Op+" "+string(r.Row))
	}
	return strings.Join(out, " ")
}

func avroAnswers(t *testing.T) map[string]flinkAnswer {
	t.Helper()
	f, err := os.Open(filepath.Join(avroWriters, "flink.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	answers := map[string]flinkAnswer{}
	for d := json.NewDecoder(f); d.More(); {
		var a flinkAnswer
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
		answers[a.Note] = a
	}
	return answers
}

func writeAvroMessages(t *testing.T, cases []avroCase, schemas map[string]*avro.Schema, ids map[string]int) {
	t.Helper()
	var out bytes.Buffer
	for i, c := range cases {
		for k, m := range c.Messages {
			text := "-"
			if message := avroMessage(t, schemas[c.Schema], ids[c.Schema], m.Value); message != nil {
				text = base64.StdEncoding.EncodeToString(message)
			}
			fmt.Fprintf(&out, "%s %s\n", messageName(i, k), text)
		}
	}
	if err := os.WriteFile(filepath.Join(avroWriters, "messages.txt"), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
