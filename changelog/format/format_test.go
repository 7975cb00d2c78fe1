package format_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// cdc stands for a format with kinds of its own.
type cdc struct{ changelog.Format }

func (cdc) Name() string         { return "debezium-json" }
func (cdc) Mode() changelog.Mode { return changelog.Retract }
func (cdc) NewDecoder(changelog.Payload) (changelog.PayloadDecoder, error) {
	return cdcDecoder{}, nil
}

type cdcDecoder struct{}

func (cdcDecoder) DecodePayload(b *changelog.Batch, p []byte, _ *changelog.Record) error {
	for _, k := range []changelog.Kind{changelog.UpdateBefore, changelog.UpdateAfter} {
		row := b.NewRow()
		row[0] = changelog.IntValue(int64(p[0]))
		b.Append(changelog.Change{Kind: k, Row: row})
	}
	return nil
}

func newDecoder(t testing.TB, columns, options string, lenient bool) (*format.Decoder, error) {
	t.Helper()
	tab, err := ddl.Find(fmt.Sprintf("CREATE TABLE t (%s) WITH (%s)", columns, options), "t")
	if err != nil {
		t.Fatal(err)
	}
	return format.New(tab, slices.Concat(formats, []changelog.Format{cdc{}}), &format.Options{Lenient: lenient})
}

func mustDecoder(t testing.TB, columns, options string, lenient bool) *format.Decoder {
	t.Helper()
	d, err := newDecoder(t, columns, options, lenient)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNew_Refuses(t *testing.T) {
	const kv = "k STRING, v INT"
	const kvPK = kv + ", PRIMARY KEY (k) NOT ENFORCED"
	const upsert = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
	const kafka = "'connector' = 'kafka', 'format' = 'json'"
	for _, c := range []struct{ columns, options, want string }{
		{kv, "'format' = 'json'", "'connector'"},
		{kv, "'connector' = 'jdbc'", "'connector' must be 'kafka' or 'upsert-kafka'"},
		{kv, "'connector' = 'kafka'", "'format' or 'value.format'"},
		{kv, kafka + ", 'value.format' = 'json'", "drop one of them"},
		{kv, "'connector' = 'kafka', 'format' = 'xml'", "'json', 'maxwell-json'"},
		{kvPK, kafka, "drop the PRIMARY KEY"},
		{kv, kafka + ", 'key.fields' = 'k'", "set 'key.format'"},
		{kv, kafka + ", 'key.format' = 'json'", "needs 'key.fields'"},
		{kv, kafka + ", 'key.format' = 'json', 'key.fields' = 'x'", "the physical columns are k, v"},
		{kv, kafka + ", 'key.format' = 'json', 'key.fields' = 'k;k'", "twice"},
		{kv, kafka + ", 'key.format' = 'debezium-json', 'key.fields' = 'k'", "without them"},
		{kv, kafka + ", 'key.format' = 'json', 'key.fields' = 'k', 'key.fields-prefix' = 'k'", "'EXCEPT_KEY'"},
		{kv, kafka + ", 'key.format' = 'json', 'key.fields' = 'k', 'key.fields-prefix' = 'x_', 'value.fields-include' = 'EXCEPT_KEY'", "does not begin with the 'x_'"},
		{kv, kafka + ", 'value.fields-include' = 'SOME'", "'ALL' or 'EXCEPT_KEY'"},
		{kv, kafka + ", 'json.ignore-parse-error' = 'true'", "nearest that the format has is 'ignore-parse-errors'"},
		{kv, kafka + ", 'value.json.ignore-parse-errors' = 'true'", "'json.…'"},
		{kv, upsert, "needs a PRIMARY KEY"},
		{kvPK, "'connector' = 'upsert-kafka', 'value.format' = 'json'", "'key.format'"},
		{kvPK, "'connector' = 'upsert-kafka', 'key.format' = 'json'", "'value.format'"},
		{kvPK, upsert + ", 'format' = 'json'", "use 'key.format' and 'value.format'"},
		{kvPK, upsert + ", 'key.fields' = 'k'", "the columns of the PRIMARY KEY are the key"},
		{kvPK, upsert + ", 'json.ignore-parse-errors' = 'true'", "'value.json.…' and 'key.json.…'"},
		{kvPK, "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'debezium-json'", "'connector' = 'kafka'"},
		{kvPK, "'connector' = 'upsert-kafka', 'key.format' = 'debezium-json', 'value.format' = 'json'", "as 'key.format'"},
		{kvPK + ", w INT", "'connector' = 'upsert-kafka', 'key.format' = 'raw', 'value.format' = 'raw'", "single column"},
		{kv + ", o INT METADATA FROM 'offset'", kafka, "BIGINT"},
		{kv + ", o TIMESTAMP(3) METADATA FROM 'timestamp'", kafka, "TIMESTAMP_LTZ(3)"},
		{kv + ", o BIGINT METADATA FROM 'ofset'", kafka, "no metadata 'ofset'"},
		{kv + ", o MAP<STRING, STRING> METADATA FROM 'headers'", kafka, "MAP<STRING, BYTES>"},
		{kv + ", o STRING METADATA FROM 'value.source.table'", kafka, "has no metadata"},
	} {
		_, err := newDecoder(t, c.columns, c.options, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("(%s) WITH (%s):\n %v\n want %q in it", c.columns, c.options, err, c.want)
		}
	}
}

func TestNew_Mode(t *testing.T) {
	for _, c := range []struct {
		columns, options string
		want             changelog.Mode
	}{
		{"k INT", "'connector' = 'kafka', 'value.format' = 'json', 'value.json.ignore-parse-errors' = 'true'", changelog.Append},
		{"k INT, PRIMARY KEY (k) NOT ENFORCED", "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'", changelog.Upsert},
		{"k INT, PRIMARY KEY (k) NOT ENFORCED", "'connector' = 'kafka', 'format' = 'debezium-json'", changelog.Retract},
	} {
		if d := mustDecoder(t, c.columns, c.options, false); d.Table().Mode != c.want || d.Table().Name != "t" {
			t.Errorf("%s: %s %s, want %s", c.options, d.Table().Name, d.Table().Mode, c.want)
		}
	}
	tab, err := ddl.Find("CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'format' = 'json')", "t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := format.New(tab, formats, nil); err != nil {
		t.Errorf("nil options: %v", err)
	}
}

func TestDecode_Metadata(t *testing.T) {
	d := mustDecoder(t, "a INT, `partition` BIGINT METADATA VIRTUAL, o BIGINT METADATA FROM 'offset', tp STRING METADATA FROM 'topic', "+
		"ts TIMESTAMP_LTZ(1) METADATA FROM 'timestamp', tt STRING METADATA FROM 'timestamp-type', "+
		"le INT METADATA FROM 'leader-epoch', h MAP<STRING, BYTES> METADATA FROM 'headers', "+
		"hl ARRAY<ROW<key STRING, `value` BYTES>> METADATA FROM 'header-list', c AS a + 1", "'connector' = 'kafka', 'format' = 'json'", false)
	r := &changelog.Record{
		Partition: changelog.Partition{Topic: "topic", Partition: 3}, Offset: 1 << 40, LeaderEpoch: -1, Timestamp: -1,
		TimestampType: changelog.LogAppendTime, Value: []byte(`[{"a":1},{"a":2}]`),
		Headers: []changelog.Header{{Key: "x", Value: []byte{1}}, {Key: "n"}, {Key: "x", Value: []byte{2}}, {Key: "\xFF", Value: []byte{}}},
	}
	b := changelog.NewBatch(d.Table())
	if err := d.Decode(b, r); err != nil {
		t.Fatal(err)
	}
	const rest = `"partition":"3","o":"1099511627776","tp":"topic","ts":"1969-12-31 23:59:59.9","tt":"LogAppendTime",` +
		`"le":null,"h":[["n",null],["x","02"],["` + "\uFFFD" + `",""]],"hl":[{"key":"x","value":"01"},{"key":"n","value":null},{"key":"x","value":"02"},{"key":"` + "\uFFFD" + `","value":""}]}}`
	for i := range 2 {
		want := fmt.Sprintf(`{"op":"+I","partition":3,"offset":1099511627776,"row":{"a":"%d",%s`, i+1, rest)
		if got := string(rowtext.AppendChange(nil, b.Table, &b.Changes[i])); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if b.Changes[i].Index != int32(i) {
			t.Errorf("index %d of row %d", b.Changes[i].Index, i)
		}
	}
	r.LeaderEpoch = 5
	if err := d.Decode(b, r); err != nil || b.Changes[2].Row[6].Int() != 5 {
		t.Errorf("leader epoch %d, %v", b.Changes[2].Row[6].Int(), err)
	}
}

func TestDecode_ErrorHasCoordinatesAndLeavesTheBatch(t *testing.T) {
	d := mustDecoder(t, "k STRING, v INT, PRIMARY KEY (k) NOT ENFORCED", "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'", false)
	b := changelog.NewBatch(d.Table())
	good := &changelog.Record{Key: []byte(`{"k":"a"}`), Value: []byte(`{"k":"a","v":1}`)}
	if err := d.Decode(b, good); err != nil {
		t.Fatal(err)
	}
	p := changelog.Partition{Topic: "topic", Partition: 4}
	for _, c := range []struct{ key, value, part, field string }{
		{`{"k":1,`, `{"k":"a","v":1}`, "key", ""},
		{`{"k":"a"}`, `[{"k":"a","v":1},{"k":"a","v":"x"}]`, "value", "[1].v"},
		{`{"k":"a"}`, `{"v":1}`, "value", "k"},
		{`{"k":"a"}`, `{"k":"b","v":1}`, "value", "k"},
		{`{"k":null}`, `{"k":null,"v":1}`, "key", "k"},
		{`{"x":1}`, "null", "key", "k"},
		{"null", `{"k":"a","v":1}`, "key", ""},
		{"[]", "null", "key", ""},
	} {
		r := &changelog.Record{Partition: p, Offset: 17, Key: []byte(c.key), Value: []byte(c.value)}
		if c.key == "null" {
			r.Key = nil
		}
		if c.value == "null" {
			r.Value = nil
		}
		err := d.Decode(b, r)
		var de *changelog.DataError
		if !errors.As(err, &de) {
			t.Errorf("%s %s: %v, no DataError", c.key, c.value, err)
			continue
		}
		if de.Partition != p || de.Offset != 17 || de.Part != c.part || de.Field != c.field || de.Reason == "" {
			t.Errorf("%s %s: %+v", c.key, c.value, de)
		}
		if b.Len() != 1 || b.Changes[0].Row[0].Str() != "a" {
			t.Errorf("%s %s: the batch has %d changes, was 1", c.key, c.value, b.Len())
		}
	}
}

func TestDecode_Pins(t *testing.T) {
	d := mustDecoder(t, "k STRING, v STRING, PRIMARY KEY (k) NOT ENFORCED", "'connector' = 'upsert-kafka', 'key.format' = 'raw', 'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY'", false)
	b := changelog.NewBatch(d.Table())
	r := &changelog.Record{Key: []byte("key"), Value: make([]byte, 5000)}
	if err := d.Decode(b, r); err != nil {
		t.Fatal(err)
	}
	before := b.Bytes()
	b.Truncate(0)
	if err := d.Decode(b, r); err != nil {
		t.Fatal(err)
	}
	if got := b.Bytes() - before; got != 5003 {
		t.Errorf("a record of 5003 bytes pins %d", got)
	}
}

// -U and +U of one message keep their kinds and are numbered; a null value means nothing to a format with kinds.
func TestDecode_KindsOfTheFormat(t *testing.T) {
	d := mustDecoder(t, "k INT", "'connector' = 'kafka', 'format' = 'debezium-json'", false)
	b := changelog.NewBatch(d.Table())
	if err := d.Decode(b, &changelog.Record{Value: []byte{7}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(b, &changelog.Record{}); err != nil {
		t.Fatal(err)
	}
	if b.Len() != 2 || b.Changes[0].Kind != changelog.UpdateBefore || b.Changes[1].Kind != changelog.UpdateAfter || b.Changes[1].Index != 1 {
		t.Errorf("%+v", b.Changes)
	}
}

// Arrays in the key and in the value are joined each with each, within bounds.
func TestDecode_ProductIsBounded(t *testing.T) {
	d := mustDecoder(t, "k STRING, v INT", "'connector' = 'kafka', 'key.format' = 'json', 'key.fields' = 'k', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY'", true)
	rows := func(n int) []byte { return []byte("[" + strings.Repeat("{},", n-1) + "{}]") }
	b := changelog.NewBatch(d.Table())
	if err := d.Decode(b, &changelog.Record{Key: rows(30), Value: rows(40)}); err != nil || b.Len() != 1200 {
		t.Errorf("%d rows, %v", b.Len(), err)
	}
	if err := d.Decode(b, &changelog.Record{Key: rows(10000), Value: rows(10000)}); err == nil || b.Len() != 1200 {
		t.Errorf("%d rows, %v", b.Len(), err)
	}
}

// Keys are decoded into memory that is used again; what rows took from it stays.
func TestDecode_ConcurrentAndRowsStay(t *testing.T) {
	d := mustDecoder(t, "k STRING, v INT, PRIMARY KEY (k) NOT ENFORCED",
		"'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY'", false)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			b := changelog.NewBatch(d.Table())
			for i := range 500 {
				r := &changelog.Record{Offset: int64(i), Key: fmt.Appendf(nil, `{"k":"\u0041-%d-%d"}`, g, i), Value: fmt.Appendf(nil, `{"v":%d}`, i)}
				if i%5 == 0 {
					r.Value = nil
				}
				if err := d.Decode(b, r); err != nil {
					t.Error(err)
					return
				}
			}
			for i, c := range b.Changes {
				if want := fmt.Sprintf("A-%d-%d", g, i); c.Row[0].Str() != want || c.KeyOnly != (i%5 == 0) {
					t.Errorf("%s, want %s", c.Row[0].Str(), want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// What is missing is told, and is no panic.
func TestNew_Missing(t *testing.T) {
	tab, err := ddl.Find("CREATE TABLE t (v INT) WITH ('connector' = 'kafka', 'format' = 'json')", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		table   *ddl.Table
		formats []changelog.Format
		want    string
	}{
		{nil, formats, "format: the table is nil"},
		{tab, nil, "none of the formats that were passed: there are none; pass []changelog.Format{json.Format{}"},
		{tab, []changelog.Format{formats[0], nil}, "format: number 2 of the formats that were passed is nil"},
		{&ddl.Table{}, formats, "'connector'"},
	} {
		if _, err := format.New(c.table, c.formats, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New: %v, want %q", err, c.want)
		}
		if _, err := format.NewEncoder(c.table, c.formats, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewEncoder: %v, want %q", err, c.want)
		}
	}
}

// What no format can do in a column of the key is told once, though the key and the value hold it; what is wrong with an option of each
// is told for each.
func TestNew_TellsOnce(t *testing.T) {
	const options = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', 'key.json.x' = '1', 'value.json.x' = '1'"
	tab, err := ddl.Find("CREATE TABLE t (k RAW('C', 'AA=='), v RAW('C', 'AA=='), PRIMARY KEY (k) NOT ENFORCED) WITH ("+options+")", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = format.New(tab, formats, nil)
	_, err2 := format.NewEncoder(tab, formats, nil)
	for _, err := range []error{err, err2} {
		if err == nil {
			t.Fatal("no error")
		}
		for text, times := range map[string]int{"column k:": 1, "column v:": 1, "'key.json.…'": 1, "'value.json.…'": 1, "option 'x'": 2} {
			if n := strings.Count(err.Error(), text); n != times {
				t.Errorf("%q is there %d times, want %d, in\n%v", text, n, times, err)
			}
		}
	}
	// Where the key has no other mistake, nothing is said of it.
	tab, err = ddl.Find("CREATE TABLE t (k RAW('C', 'AA=='), PRIMARY KEY (k) NOT ENFORCED) WITH ("+
		"'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json')", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := format.New(tab, formats, nil); err == nil || strings.Contains(err.Error(), "key") || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("got %v", err)
	}
}
