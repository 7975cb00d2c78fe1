package format_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/avro"
	"github.com/flinksink/flinksink/changelog/format/avroconfluent"
	"github.com/flinksink/flinksink/changelog/format/canal"
	"github.com/flinksink/flinksink/changelog/format/csv"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/changelog/format/debeziumavro"
	"github.com/flinksink/flinksink/changelog/format/internal/registry/registrytest"
	jsonformat "github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/changelog/format/maxwell"
	"github.com/flinksink/flinksink/changelog/format/ogg"
	"github.com/flinksink/flinksink/changelog/format/protobuf"
	"github.com/flinksink/flinksink/changelog/format/raw"
	"github.com/flinksink/flinksink/internal/capture"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// flinkDir holds topics that Flink 2.2 wrote, with what Flink read from them.
const flinkDir = "../../testdata/flink"

var formats = []changelog.Format{avro.Format{}, avroconfluent.Format{HTTP: captured}, debeziumavro.Format{HTTP: captured}, canal.Format{}, csv.Format{}, debezium.Format{}, jsonformat.Format{}, maxwell.Format{}, ogg.Format{}, protobuf.Format{Files: protoFiles()}, raw.Format{}}

// captured answers as the registry did when the topics were written.
var captured = func() *http.Client {
	g, err := registrytest.Load(flinkDir)
	if err != nil {
		panic(err)
	}
	return g.Client()
}()

// table reads the DDL of a case. One made by CREATE TABLE AS has its columns in what SHOW CREATE TABLE printed only.
func table(t testing.TB, dir string) *ddl.Table {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ddl.sql"))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := ddl.Find(string(text), "")
	if err != nil {
		text, err2 := os.ReadFile(filepath.Join(dir, "show-create.sql"))
		if err2 != nil {
			t.Fatal(err2)
		}
		tab, err2 = ddl.Find(string(text), "")
		if err2 != nil {
			t.Fatalf("ddl.sql: %v; show-create.sql: %v", err, err2)
		}
	}
	return tab
}

// readCommitted is how the rows of read.jsonl were read.
func readCommitted(t testing.TB, dir string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Read map[string]string `json:"read"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c.Read["properties.isolation.level"] == "read_committed"
}

// lines returns the JSON lines of a file, parsed, so that the order of a row's columns does not count; nil if there is no file.
func lines(t testing.TB, path string) []any {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	var out []any
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		var v any
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, v)
	}
	return out
}

func canonical(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parsed brings a line of ours into the form of canonical.
func parsed(t testing.TB, line []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatalf("rowtext is no JSON: %v\n%s", err, line)
	}
	return canonical(t, v)
}

func cases(t testing.TB) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(flinkDir, "*", "topic.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	if len(dirs) < 30 {
		t.Fatalf("%d cases under %s, and there should be more than 30", len(dirs), flinkDir)
	}
	return dirs
}

// failing are the records of a case, as "partition/offset", at which Flink failed when it read them back, and rows the lines of read.jsonl that are
// rows.
func failing(t testing.TB, dir string) (rows []any, failed map[string]bool) {
	t.Helper()
	failed = map[string]bool{}
	for _, line := range lines(t, filepath.Join(dir, "read.jsonl")) {
		if m := line.(map[string]any); m["error"] != nil {
			failed[fmt.Sprint(m["partition"], "/", m["offset"])] = true
		} else {
			rows = append(rows, line)
		}
	}
	return rows, failed
}

// decodeCase decodes the records of a case that were read when its answers were made. Those that Flink could not read must fail.
func decodeCase(t testing.TB, dir string, lenient bool) *changelog.Batch {
	t.Helper()
	d, err := format.New(table(t, dir), formats, &format.Options{Lenient: lenient})
	if err != nil {
		t.Fatal(err)
	}
	records, err := capture.ReadFile(filepath.Join(dir, "topic.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	_, failed := failing(t, dir)
	b := changelog.NewBatch(d.Table())
	for i := range records {
		if r := &records[i]; !r.Aborted || !readCommitted(t, dir) {
			r.Topic = filepath.Base(dir) // the captured topics are named after their case
			r.LeaderEpoch = 0            // which a capture does not tell; the topics were new
			err := d.Decode(b, &r.Record)
			if fails := failed[fmt.Sprint(r.Partition.Partition, "/", r.Offset)]; fails != (err != nil) {
				t.Fatalf("offset %d: error %v; Flink fails: %v", r.Offset, err, fails)
			}
		}
	}
	return b
}

func TestDecode_AsFlinkRead(t *testing.T) {
	rows := 0
	for _, dir := range cases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			want, _ := failing(t, dir)
			for _, lenient := range []bool{false, true} {
				b := decodeCase(t, dir, lenient)
				if want == nil {
					if b.Len() == 0 {
						t.Error("no rows")
					}
					continue // a topic that was not read back; it decodes
				}
				if b.Len() != len(want) {
					t.Errorf("lenient %v: %d rows, Flink read %d", lenient, b.Len(), len(want))
				}
				for i := range min(b.Len(), len(want)) {
					got, want := parsed(t, rowtext.AppendChange(nil, b.Table, &b.Changes[i])), canonical(t, want[i])
					if got != want {
						t.Fatalf("lenient %v, row %d:\n got %s\nwant %s", lenient, i, got, want)
					}
				}
				rows += b.Len()
			}
		})
	}
	t.Logf("%d rows of %d cases", rows/2, len(cases(t)))
}

// The rows of a topic, folded by key, or without a key as a multiset, are the table that Flink had in the end.
func TestDecode_FoldedIsTheFinalTable(t *testing.T) {
	folded := map[changelog.Mode]int{}
	for _, dir := range cases(t) {
		want := lines(t, filepath.Join(dir, "final.jsonl"))
		if want == nil {
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			b := decodeCase(t, dir, false)
			folded[b.Table.Mode]++
			var have map[string]int
			if len(b.Table.Schema.Key) > 0 {
				have = foldByKey(t, b)
			} else {
				have = foldMultiset(t, b)
			}
			for _, w := range want {
				row := w.(map[string]any)
				if inner, ok := row["row"]; ok {
					row = inner.(map[string]any)
				}
				text := canonical(t, row)
				if have[text] == 0 {
					t.Errorf("missing %s", text)
				}
				have[text]--
			}
			for row, n := range have {
				if n > 0 {
					t.Errorf("too much: %s", row)
				}
			}
		})
	}
	if folded[changelog.Upsert] < 15 || folded[changelog.Retract] < 6 {
		t.Errorf("only %v cases", folded)
	}
}

func foldByKey(t *testing.T, b *changelog.Batch) map[string]int {
	state := map[string]string{}
	for _, c := range b.Changes {
		var key []byte
		for _, k := range b.Table.Schema.Key {
			key = rowtext.AppendValue(append(key, ' '), &b.Table.Schema.Columns[k].Type, c.Row[k])
		}
		row := parsed(t, rowtext.AppendRow(nil, b.Table.Schema, c.Row))
		switch {
		case !b.Table.Mode.Contains(c.Kind):
			t.Fatalf("a %s in a topic of %s", c.Kind, b.Table.Mode)
		case c.Kind.Adds():
			state[string(key)] = row
		case b.Table.Mode == changelog.Upsert && !c.KeyOnly:
			t.Fatal("a tombstone that claims to know its row")
		case !c.KeyOnly && row != state[string(key)]:
			t.Fatalf("%s takes away %s, and its key holds %s", c.Kind, row, state[string(key)])
		default:
			delete(state, string(key))
		}
	}
	have := map[string]int{}
	for _, row := range state {
		have[row]++
	}
	return have
}

// foldMultiset takes away a row that is equal in all columns, METADATA ones too, as Flink does; where the two rows of an update come from
// messages with other metadata than the insert, there is none.
func foldMultiset(t *testing.T, b *changelog.Batch) map[string]int {
	have := map[string]int{}
	metadata := slices.ContainsFunc(b.Table.Schema.Columns, func(c changelog.Column) bool { return c.Metadata != "" })
	for _, c := range b.Changes {
		row := parsed(t, rowtext.AppendRow(nil, b.Table.Schema, c.Row))
		switch {
		case c.Kind.Adds():
			have[row]++
		case have[row] > 0:
			have[row]--
		case !metadata:
			t.Fatalf("%s takes away %s, which is not there", c.Kind, row)
		}
	}
	return have
}

// oddMessage is a line of testdata/flink/odd: a made-up message and what Flink's reader made of it.
type oddMessage struct {
	Columns string            `json:"columns"`
	Options map[string]string `json:"ddl-options"`
	Key     *string           `json:"key"`
	Value   *string           `json:"value"`
	Text    *string           `json:"valueText"`
	KeyText *string           `json:"keyText"`
	Result  []any             `json:"result"`
	Error   string            `json:"error"`
}

func (o *oddMessage) String() string {
	text := func(text, base64 *string) string {
		switch {
		case text != nil:
			return fmt.Sprintf("%.200q", *text)
		case base64 != nil:
			return "base64 " + *base64
		}
		return "null"
	}
	return fmt.Sprintf("[%s] %v key %s value %s", o.Columns, o.Options, text(o.KeyText, o.Key), text(o.Text, o.Value))
}

// decode returns the rows as text, or an error, as it is now and as it was when the table was made.
func (o *oddMessage) decode(t *testing.T, lenient bool) (rows []string, err error) {
	t.Helper()
	var with []string
	for k, v := range o.Options {
		with = append(with, fmt.Sprintf("'%s' = '%s'", k, strings.ReplaceAll(v, "'", "''")))
	}
	tab, err := ddl.Find(fmt.Sprintf("CREATE TABLE t (%s) WITH (%s)", o.Columns, strings.Join(with, ", ")), "t")
	if err != nil {
		return nil, err
	}
	d, err := format.New(tab, formats, &format.Options{Lenient: lenient})
	if err != nil {
		return nil, err
	}
	r := &changelog.Record{Offset: 7, Timestamp: 1700000000123, Key: unbase64(t, o.Key), Value: unbase64(t, o.Value)}
	b := changelog.NewBatch(d.Table())
	if err := d.Decode(b, r); err != nil {
		return nil, err
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Offset != 7 || c.Index != int32(i) {
			t.Errorf("%s: change %d is at offset %d, index %d", o, i, c.Offset, c.Index)
		}
		rows = append(rows, fmt.Sprintf("%s %s", c.Kind, parsed(t, rowtext.AppendRow(nil, b.Table.Schema, c.Row))))
	}
	return rows, nil
}

func unbase64(t *testing.T, s *string) []byte {
	t.Helper()
	if s == nil {
		return nil
	}
	out := []byte{}
	text, err := json.Marshal(*s)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refused are messages of 'avro.encoding' = 'json' that a lenient decoder refuses too: members that are there twice, of which Flink takes one or
// the other by where it was when it needed it, and a message that is broken after its last value, where Flink does not look.
var refused = map[string]bool{
	`{"a":{"int":1},"a":{"int":2},"b":null}`:      true,
	`{"a":{"int":1},"b":null,"a":{"int":2}}`:      true,
	`{"b":null,"b":{"string":"q"},"a":{"int":2}}`: true,
	`{"b":null,"a":{"int":2},"b":{"string":"q"}}`: true,
	`{"a":{"int":1},"b":{"string":"x"}`:           true,
}

// By default a message gives Flink's rows or an error; lenient, Flink's rows, and an error where Flink has one.
func TestDecode_OddMessages(t *testing.T) {
	for _, name := range []string{"json", "upsert-kafka", "raw", "protobuf", "protobuf-more", "debezium-json", "avro", "avro-json", "avro-more", "avro-confluent", "avro-confluent-more", "debezium-avro-confluent", "debezium-avro-confluent-more", "canal-json", "canal-json-more", "csv", "csv-more", "maxwell-json", "maxwell-json-more", "ogg-json", "ogg-json-more"} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(flinkDir, "odd", name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			sc := bufio.NewScanner(f)
			sc.Buffer(nil, 16<<20)
			var messages, same, stricter, lenientSame int
			for sc.Scan() {
				var o oddMessage
				if err := json.Unmarshal(sc.Bytes(), &o); err != nil {
					t.Fatal(err)
				}
				messages++
				want := []string{}
				nulls := 0
				for _, r := range o.Result {
					if r == nil {
						nulls++
						continue
					}
					m := r.(map[string]any)
					want = append(want, fmt.Sprintf("%s %s", m["op"], canonical(t, m["row"])))
				}
				equal := func(got []string) bool {
					return fmt.Sprintf("%q", got) == fmt.Sprintf("%q", want)
				}
				got, err := o.decode(t, false)
				switch {
				case err != nil && strings.Contains(err.Error(), secret(&o)):
					t.Errorf("%s: the error shows the message: %v", &o, err)
				case err != nil && o.Error != "":
					same++
				case err != nil:
					stricter++
				case o.Error != "":
					t.Errorf("%s:\n default: %q\n Flink fails: %s", &o, got, o.Error)
				case equal(got):
					same++
				default:
					t.Errorf("%s:\n default: %q\n Flink:   %q", &o, got, want)
				}
				got, err = o.decode(t, true)
				switch {
				case err != nil && (o.Error != "" || nulls > 0): // a job may fail at a null row
					lenientSame++
				case err != nil && o.Text != nil && refused[*o.Text]:
				case err != nil:
					t.Errorf("%s:\n lenient: %v\n Flink:   %q", &o, err, want)
				case o.Error != "":
					t.Errorf("%s:\n lenient: %q\n Flink fails: %s", &o, got, o.Error)
				case equal(got):
					lenientSame++
				default:
					t.Errorf("%s:\n lenient: %q\n Flink:   %q", &o, got, want)
				}
			}
			t.Logf("%d messages; default: %d as Flink, %d stricter; lenient: %d as Flink",
				messages, same, stricter, lenientSame)
			if messages == 0 || sc.Err() != nil {
				t.Errorf("no messages: %v", sc.Err())
			}
		})
	}
}

// secret is a part of the message that no error may show.
func secret(o *oddMessage) string {
	if o.Text != nil && len(*o.Text) > 4 {
		return *o.Text
	}
	return "\x00none"
}
