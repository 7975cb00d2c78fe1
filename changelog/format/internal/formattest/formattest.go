// Package formattest is what the tests of formats have in common.
package formattest

import (
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// Payload makes a payload of all columns that are not METADATA, given as "a INT" or "m BIGINT FROM value.x"; the columns of key are the PRIMARY
// KEY.
func Payload(t testing.TB, options map[string]string, key []int, columns ...string) changelog.Payload {
	t.Helper()
	tab := &changelog.Table{Name: "t", Schema: &changelog.Schema{Key: key}, Mode: changelog.Retract}
	p := changelog.Payload{Table: tab, Options: options}
	for i, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		typ, metadata, _ := strings.Cut(typ, " FROM ")
		ty, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tab.Schema.Columns = append(tab.Schema.Columns, changelog.Column{Name: name, Type: ty, Metadata: metadata})
		if metadata == "" {
			p.Columns = append(p.Columns, i)
			p.Names = append(p.Names, name)
		}
	}
	return p
}

// Decoder makes a decoder, or fails the test.
func Decoder(t testing.TB, f changelog.Format, p changelog.Payload) changelog.PayloadDecoder {
	t.Helper()
	d, err := f.NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Encoder makes an encoder, or fails the test.
func Encoder(t testing.TB, f changelog.Format, p changelog.Payload) changelog.PayloadEncoder {
	t.Helper()
	e, err := f.NewEncoder(p)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Text prints changes as "-U {..} +U {..}", columns that are Unchanged left out, and "key" before a delete that knows no more.
func Text(b *changelog.Batch) string {
	var out []string
	for _, c := range b.Changes {
		s := c.Kind.String() + " "
		if c.KeyOnly {
			s += "key "
		}
		out = append(out, string(rowtext.AppendRow([]byte(s), b.Table.Schema, c.Row)))
	}
	return strings.Join(out, " ")
}

// Decode returns the changes as text, or the error as text.
func Decode(t testing.TB, f changelog.Format, p changelog.Payload, message string) string {
	t.Helper()
	b := changelog.NewBatch(p.Table)
	if err := Decoder(t, f, p).DecodePayload(b, []byte(message), nil); err != nil {
		var de *changelog.DataError
		if !errors.As(err, &de) || de.Reason == "" {
			t.Errorf("%s: %#v", message, err)
		}
		if b.Len() != 0 {
			t.Errorf("%s: %s in spite of the error", message, Text(b))
		}
		return err.Error()
	}
	return Text(b)
}

// Messages are what Check looks at: a message, and the changes that it becomes, or a part of the error.
type Messages []struct{ In, Want string }

// Check compares what messages become with what they should. A message is read once more with a member before the others that only the
// reader of trees takes.
func Check(t *testing.T, f changelog.Format, p changelog.Payload, cases Messages) {
	t.Helper()
	for _, c := range cases {
		for _, in := range []string{c.In, strings.Replace(c.In, "{", "{\"\\uD83D\":1,", 1)} {
			got := Decode(t, f, p, in)
			if ok := got == c.Want || strings.HasPrefix(got, "changelog: ") && c.Want != "" && strings.Contains(got, c.Want); !ok {
				t.Errorf("%s:\n got  %s\n want %s", in, got, c.Want)
			}
		}
	}
}
