package format_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// On 'kafka' with a format that has kinds: P14, an old row with nothing but its key; P16, a key that is NULL; P17, what is no row.
func TestDecode_RetractWithKey(t *testing.T) {
	const pk = "id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED"
	const kafka = "'connector' = 'kafka', 'format' = 'debezium-json'"
	const keyed = "'connector' = 'kafka', 'value.format' = 'debezium-json', 'key.format' = 'json', 'key.fields' = 'id'"
	for _, c := range []struct {
		columns, options string
		key, value       string // "" is null
		want             string // changes, or a part of the error
	}{
		{pk, kafka, `{"id":7}`, `{"op":"d","before":{"id":7},"after":null}`, `-D {"id":"7","name":null} key only`},
		{pk, keyed + ", 'value.fields-include' = 'EXCEPT_KEY'", `{"id":7}`, `{"op":"d","before":{},"after":null}`, `-D {"id":"7","name":null} key only`},
		{pk, keyed + ", 'value.fields-include' = 'EXCEPT_KEY'", `{"id":7}`, `{"op":"u","before":{"name":"a"},"after":{"name":"b"}}`, `-U {"id":"7","name":"a"} +U {"id":"7","name":"b"}`},
		{pk, kafka, `{"id":null}`, `{"op":"d","before":{"id":null,"name":null}}`, "value field id: a column of the PRIMARY KEY is NULL in a -D"},
		{pk, kafka, ``, `{"op":"c","after":{"name":"x"}}`, "value field id: a column of the PRIMARY KEY is NULL in a +I"},
		{pk, kafka, ``, `{"op":"d","before":{"name":"x"}}`, "value field id: a column of the PRIMARY KEY was not sent by the source in a -D"},
		{"id INT, name STRING", kafka, ``, `{"op":"d","before":{"id":null,"name":null}}`, `-D {"id":null,"name":null}`},
		{pk, kafka, ``, `{"before":null,"after":null,"op":"t"}`, "truncated"},
		{pk, kafka, `{"id":7}`, ``, ``}, // the tombstone that follows a delete
		{pk, keyed, ``, `{"op":"c","after":{"id":7}}`, "the record has a null key"},
	} {
		bytesOf := func(s string) []byte {
			if s == "" {
				return nil
			}
			return []byte(s)
		}
		tab, err := ddl.Find("CREATE TABLE t ("+c.columns+") WITH ("+c.options+")", "t")
		if err != nil {
			t.Fatal(err)
		}
		d, err := format.New(tab, formats, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := changelog.NewBatch(d.Table())
		r := &changelog.Record{Partition: changelog.Partition{Topic: "topic", Partition: 1}, Offset: 9, Key: bytesOf(c.key), Value: bytesOf(c.value)}
		if err := d.Decode(b, r); err != nil {
			var de *changelog.DataError
			if !errors.As(err, &de) || de.Partition != r.Partition || de.Offset != 9 || !strings.Contains(err.Error(), c.want) || c.want == "" || b.Len() > 0 {
				t.Errorf("%s: %v, want %s", c.value, err, c.want)
			}
			continue
		}
		var got []string
		for _, ch := range b.Changes {
			s := ch.Kind.String() + " " + string(rowtext.AppendRow(nil, b.Table.Schema, ch.Row))
			if ch.KeyOnly {
				s += " key only"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.value, s, c.want)
		}
	}
}

// A delete that knows its key only has no old row to write.
func TestEncode_RetractNeedsTheRow(t *testing.T) {
	e, err := newEncoder(t, "id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED", "'connector' = 'kafka', 'format' = 'debezium-json'", false)
	if err != nil {
		t.Fatal(err)
	}
	row := changelog.Row{changelog.IntValue(7), {}}
	if err := e.Encode(&changelog.Record{}, &changelog.Change{Kind: changelog.Delete, KeyOnly: true, Row: row}); err == nil || !strings.Contains(err.Error(), "its key only") {
		t.Error(err)
	}
	var r changelog.Record
	if err := e.Encode(&r, &changelog.Change{Kind: changelog.UpdateBefore, Row: row}); err != nil || string(r.Value) != `{"before":{"id":7,"name":null},"after":null,"op":"d"}` || r.Key != nil {
		t.Errorf("%s, %v", r.Value, err)
	}
}
