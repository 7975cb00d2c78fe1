package csv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// seeds adds the made-up messages that Flink was asked about.
func seeds(f *testing.F) {
	met := map[string]bool{}
	for _, name := range []string{"csv.jsonl", "csv-more.jsonl"} {
		file, err := os.Open(filepath.Join("..", "..", "..", "testdata", "flink", "odd", name))
		if err != nil {
			f.Fatal(err)
		}
		defer file.Close()
		for dec := json.NewDecoder(file); ; {
			var o struct{ Value []byte }
			if err := dec.Decode(&o); err == io.EOF {
				break
			} else if err != nil {
				f.Fatal(err)
			}
			if !met[string(o.Value)] {
				met[string(o.Value)] = true
				f.Add(o.Value)
			}
		}
	}
	if len(met) < 400 {
		f.Fatalf("%d messages", len(met))
	}
}

// FuzzDecode holds what a decoder promises whatever comes: at most one row, and none with an error; what is no guess is the same with leniency;
// a part of the message that is not read changes nothing; a row that was read is read again from what an encoder makes of it; and what is read
// and written quickly is what it is otherwise.
func FuzzDecode(f *testing.F) {
	seeds(f)
	for _, s := range []string{
		`"a""b",1,2.50,true,2024-02-29,AQ==,1;2;3,x;7,"2024-01-02 03:04:05.6",7`, `\N,\N,\N,\N,\N,\N,a;\N,\N;\N,\N,\N`, "'it''s',,,,,,,,,\n", `a\,b|"c|d"|'e'|'f''|g'`,
	} {
		f.Add([]byte(s))
	}
	type mode struct {
		p       changelog.Payload
		decoder [2]changelog.PayloadDecoder // strict, lenient
		slow    [2]changelog.PayloadDecoder
		encoder changelog.PayloadEncoder
	}
	var modes []mode
	for _, columns := range [][]string{
		{"s STRING", "i INT", "d DECIMAL(5, 2)", "bo BOOLEAN", "dt DATE", "b BYTES", "a ARRAY<INT>", "r ROW<x STRING, y INT>", "ts TIMESTAMP(3)", "f FLOAT"},
		{"a STRING", "b STRING", "c STRING"}, {"s STRING"}, {"a ARRAY<STRING>", "t TIME(0)"}, {"f BOOLEAN", "g INT"}, {"f DOUBLE", "g BIGINT"}, {"f DATE", "g TIMESTAMP_LTZ(3)"},
	} {
		for _, o := range []map[string]string{
			{}, {"ignore-parse-errors": "true", "allow-comments": "true"}, {"null-literal": `\N`}, {"null-literal": ""}, {"escape-character": `\`, "quote-character": "'"},
			{"disable-quote-character": "true", "field-delimiter": ";", "array-element-delimiter": "|"}, {"field-delimiter": "é", "quote-character": "，", "escape-character": "^"},
			{"quote-character": ","}, {"field-delimiter": "1", "quote-character": "0"}, {"null-literal": "0", "quote-character": "5"},
			{"trim-spaces": "true", "empty-string-as-null": "true", "ignore-trailing-unmappable": "true", "fail-on-missing-columns": "true", "ignore-parse-errors": "true"},
			{"trim-spaces": "true", "field-delimiter": " ", "null-literal": "x"},
		} {
			if o["trim-spaces"] != "" && len(columns) != 2 && len(columns) != 10 {
				continue // what it does to cells does not depend on how many there are
			}
			m := mode{p: payloadOf(f, o, columns...)}
			m.encoder = encoderOf(f, m.p)
			for i := range m.decoder {
				m.p.Lenient = i == 1
				m.decoder[i] = decoderOf(f, m.p)
				slow := *m.decoder[i].(*decoder)
				slow.quickly = false
				m.slow[i] = &slow
			}
			modes = append(modes, m)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for i, m := range modes {
			var results [2]string
			for k, d := range m.decoder {
				b := changelog.NewBatch(m.p.Table)
				err := d.DecodePayload(b, in, nil)
				if b2 := changelog.NewBatch(m.p.Table); fmt.Sprint(m.slow[k].DecodePayload(b2, in, nil)) != fmt.Sprint(err) || b2.Len() != b.Len() ||
					b.Len() > 0 && rowText(m.p.Table, &b2.Changes[0]) != rowText(m.p.Table, &b.Changes[0]) {
					t.Fatalf("mode %d: quickly another row, or another error than %v", i, err)
				}
				var de *changelog.DataError
				switch {
				case err != nil && (!errors.As(err, &de) || b.Len() > 0) || b.Len() > 1:
					t.Fatalf("mode %d: %#v, %d changes", i, err, b.Len())
				case err != nil:
					results[k] = "error " + err.Error()
				case b.Len() == 1:
					results[k] = rowText(m.p.Table, &b.Changes[0])
					sameCells(t, m.encoder.(*encoder), b.Changes[0].Row)
					if k == 0 {
						again(t, &m.p, d, m.encoder, &b.Changes[0], results[k])
					}
				}
			}
			if !strings.HasPrefix(results[0], "error") && results[0] != results[1] {
				t.Fatalf("mode %d: default %s, lenient %s", i, results[0], results[1])
			}
		}
	})
}

func rowText(t *changelog.Table, c *changelog.Change) string {
	return string(rowtext.AppendRow(nil, t.Schema, c.Row))
}

// sameCells compares the quick writers with the general one.
func sameCells(t *testing.T, e *encoder, row changelog.Row) {
	for i := range e.columns {
		c := &e.columns[i]
		v := row[c.slot]
		quick, ok := e.quick(nil, c.typ, &v)
		if !ok {
			continue
		}
		if general, f := e.cell(nil, c.typ, v); f != nil || string(general) != string(quick) {
			t.Fatalf("%s: quickly %q, else %q, %v", c.name, quick, general, f)
		}
	}
}

// again reads a row from what an encoder makes of it.
func again(t *testing.T, p *changelog.Payload, d changelog.PayloadDecoder, e changelog.PayloadEncoder, c *changelog.Change, want string) {
	if _, literal := p.Options["null-literal"]; !literal || p.Options["disable-quote-character"] != "" || p.Options["null-literal"] == "0" {
		return // NULL, text with delimiters, and a number that is the literal are not read as they were written
	}
	message, _, err := e.AppendPayload(nil, c)
	if err != nil {
		return // a lone surrogate
	}
	b := changelog.NewBatch(p.Table)
	err = d.DecodePayload(b, message, nil)
	switch {
	case len(message) == 0 && err != nil:
		return // one column that is NULL
	case strings.Contains(want, "[") || strings.Contains(want, "{\"r\"") || strings.Contains(want, `"r":`):
		return // an ARRAY or ROW that is nothing, or NULL, is none
	case strings.Contains(want, `"+1`) || strings.Contains(want, `"-0`):
		return // a year that is written with a sign, which java.sql.Date does not read
	case message[0] == 0xEF || len(message) > 1 && message[1] == 0 || message[0] == 0:
		return // taken for a mark, or for UTF-16
	case err != nil || b.Len() != 1:
		t.Fatalf("%q: %v, %d rows; %s", message, err, b.Len(), want)
	}
	if got := string(rowtext.AppendRow(nil, p.Table.Schema, b.Changes[0].Row)); got != want {
		t.Fatalf("%q\n%s\n%s", message, got, want)
	}
}
