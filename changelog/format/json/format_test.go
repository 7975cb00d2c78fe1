package json

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// payloadOf makes a payload of all columns, given as "a INT".
func payloadOf(t testing.TB, options map[string]string, columns ...string) changelog.Payload {
	t.Helper()
	tab := &changelog.Table{Name: "t", Schema: &changelog.Schema{}, Mode: changelog.Append}
	p := changelog.Payload{Table: tab, Options: options}
	for i, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		ty, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tab.Schema.Columns = append(tab.Schema.Columns, changelog.Column{Name: name, Type: ty})
		p.Columns = append(p.Columns, i)
		p.Names = append(p.Names, name)
	}
	return p
}

func TestNewDecoder_Options(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		want    string // in the error; "" for none
	}{
		{map[string]string{"ignore-parse-errors": "TRUE", "map-null-key.mode": "drop", "map-null-key.literal": "x"}, ""},
		{map[string]string{"timestamp-format.standard": "ISO-8601", "encode.ignore-null-fields": "true", "encode.decimal-as-plain-number": "false"}, ""},
		{map[string]string{"decode.json-parser.enabled": "false"}, ""},
		{map[string]string{"ignore-parse-error": "true"}, "unknown option 'ignore-parse-error'; the nearest that the format has is 'ignore-parse-errors'"},
		{map[string]string{"timestamp-format": "SQL"}, "'timestamp-format.standard'"},
		{map[string]string{"timestamp-format.standard": "iso-8601"}, "must be 'SQL' or 'ISO-8601'"},
		{map[string]string{"map-null-key.mode": "KEEP"}, "'FAIL', 'DROP' or 'LITERAL'"},
		{map[string]string{"fail-on-missing-field": "yes"}, "'fail-on-missing-field' must be 'true' or 'false'"},
		{map[string]string{"fail-on-missing-field": "true", "ignore-parse-errors": "true"}, "shouldn't both be true"},
	} {
		_, err := Format{}.NewDecoder(payloadOf(t, c.options, "a INT"))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: error %v, want %q in it", c.options, err, c.want)
		}
	}
}

func TestNewDecoder_Types(t *testing.T) {
	_, err := Format{}.NewDecoder(payloadOf(t, nil, "a MAP<INT, INT>", "b TIMESTAMP(3) WITH TIME ZONE", "c ARRAY<MULTISET<INT>>"))
	for _, want := range []string{"column a", "column b", "column c", "keys of a character type"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestNewEncoder_Refuses(t *testing.T) {
	_, err := Format{}.NewEncoder(payloadOf(t, map[string]string{"map-null-key.mode": "KEEP"}, "a MAP<INT, INT>", "b TIMESTAMP(3) WITH TIME ZONE"))
	for _, want := range []string{"'map-null-key.mode'", "column a", "column b"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
