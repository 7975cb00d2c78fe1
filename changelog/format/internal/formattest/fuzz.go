package formattest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// Seeds adds the made-up messages that Flink was asked about, of files of testdata/flink/odd, to what a fuzzer in a folder of
// changelog/format begins with.
func Seeds(f *testing.F, files ...string) {
	met := map[string]bool{}
	for _, name := range files {
		file, err := os.Open(filepath.Join("..", "..", "..", "testdata", "flink", "odd", name))
		if err != nil {
			f.Fatal(err)
		}
		defer file.Close()
		for dec := json.NewDecoder(file); ; {
			var o struct{ Value []byte }
			if err := dec.Decode(&o); errors.Is(err, io.EOF) {
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
	if len(met) < 40 {
		f.Fatalf("%d messages", len(met))
	}
}

// Fuzz is a fuzzer of a format that wraps JSON rows.
type Fuzz struct {
	Decoder changelog.Format // with the settings that are on
	Columns []string         // it is fuzzed with these, and with a DECIMAL before them, which changes how Jackson reads numbers
	Options []map[string]string

	// Tree reads a message with the reader of trees.
	Tree func(d changelog.PayloadDecoder, b *changelog.Batch, in []byte) error
}

type mode struct {
	p       changelog.Payload
	decoder [2]changelog.PayloadDecoder // strict, lenient
	encoder changelog.PayloadEncoder
	keyed   bool
}

// Run holds what a decoder promises whatever comes: an error leaves nothing behind; every -U has its +U behind it; the pass over plain JSON
// takes nothing that the reader of trees reads otherwise; what is no guess is the same with leniency; and a row that was read is read again from
// what an encoder makes of it.
func (z Fuzz) Run(f *testing.F) {
	var modes []mode
	for _, columns := range [][]string{z.Columns, append([]string{"de DECIMAL(6, 2)"}, z.Columns...)} {
		for _, o := range z.Options {
			for _, key := range [][]int{nil, {0}} {
				m := mode{p: Payload(f, o, key, columns...), keyed: key != nil}
				for i := range m.decoder {
					m.p.Lenient = i == 1
					m.decoder[i] = Decoder(f, z.Decoder, m.p)
				}
				var err error
				if m.encoder, err = z.Decoder.NewEncoder(m.p); err != nil {
					f.Fatal(err)
				}
				modes = append(modes, m)
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for i := range modes {
			m := &modes[i]
			strict, lenient := z.decode(t, m, 0, in), z.decode(t, m, 1, in)
			if !m.keyed && !strings.HasPrefix(strict, "error") && strict != lenient {
				t.Fatalf("mode %d: default %s, lenient %s", i, strict, lenient)
			}
		}
	})
}

// decode returns what a message becomes.
func (z Fuzz) decode(t *testing.T, m *mode, which int, in []byte) string {
	d, b := m.decoder[which], changelog.NewBatch(m.p.Table)
	err := d.DecodePayload(b, in, nil)
	var de *changelog.DataError
	if err != nil && (!errors.As(err, &de) || b.Len() > 0) {
		t.Fatalf("%v: %#v, %d changes", m.p.Options, err, b.Len())
	}
	kinds := ""
	for _, c := range b.Changes {
		kinds += c.Kind.String()
	}
	if rest := strings.ReplaceAll(kinds, "-U+U", ""); strings.Contains(rest, "U") {
		t.Fatalf("%v: %s", m.p.Options, kinds)
	}
	result := outcome(b, err)
	tree := changelog.NewBatch(m.p.Table)
	if got := outcome(tree, z.Tree(d, tree, in)); got != result {
		t.Fatalf("%v: %s, as a tree %s", m.p.Options, result, got)
	}
	if which == 0 {
		for c := range b.Changes {
			m.again(t, &b.Changes[c])
		}
	}
	return result
}

func outcome(b *changelog.Batch, err error) string {
	if err != nil {
		return "error " + err.Error()
	}
	return Text(b)
}

// again reads a row from what an encoder makes of it.
func (m *mode) again(t *testing.T, c *changelog.Change) {
	if m.p.Options["database.include"] != "" {
		return // an encoder writes no database
	}
	row := make(changelog.Row, len(c.Row)) // without METADATA, which is not written
	for _, col := range m.p.Columns {
		if row[col] = c.Row[col]; row[col].IsUnchanged() {
			return
		}
	}
	want := string(rowtext.AppendRow(nil, m.p.Table.Schema, row))
	if c.KeyOnly || strings.Contains(want, "-0.0") { // which Flink's trees do not keep
		return
	}
	message, _, err := m.encoder.AppendPayload(nil, &changelog.Change{Kind: c.Kind, Row: row})
	if err != nil {
		return // a map with a key twice, which Flink would mix
	}
	b := changelog.NewBatch(m.p.Table)
	if err := m.decoder[0].DecodePayload(b, message, nil); err != nil || b.Len() != 1 || b.Changes[0].Kind.Adds() != c.Kind.Adds() {
		t.Fatalf("%s: %v, %d changes", message, err, b.Len())
	}
	if got := string(rowtext.AppendRow(nil, m.p.Table.Schema, b.Changes[0].Row)); got != want && !b.Changes[0].KeyOnly {
		t.Fatalf("%s\n%s\n%s", message, got, want)
	}
}
