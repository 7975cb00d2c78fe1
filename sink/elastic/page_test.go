package elastic_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/elastic"
)

// pageValues are the values behind the second column of the table of types in docs/elastic.md.
func pageValues() map[string]changelog.Value {
	i, str := changelog.IntValue, changelog.StringValue
	return map[string]changelog.Value{
		"BOOLEAN": changelog.BoolValue(true), "TINYINT": i(-128), "SMALLINT": i(-32768), "INT": i(2147483647), "BIGINT": i(1<<53 + 1),
		"FLOAT": changelog.FloatValue(0.1), "DOUBLE": changelog.DoubleValue(1e300),
		"DECIMAL(18, 2)": changelog.DecimalValue(0, 999999999999999999, 2), "DECIMAL(38, 2)": changelog.DecimalValue(54, 3875820019684212735, 2),
		"STRING": str(`a"b`), "BYTES": changelog.BytesValue([]byte{0, 255}),
		"DATE": changelog.DateValue(19782), "TIME(3)": changelog.TimeValue(45296789e6),
		"TIMESTAMP(9)": changelog.TimestampValue(1709210096, 123456789), "TIMESTAMP_LTZ(3)": changelog.TimestampLTZValue(1709210096, 123e6),
		"INTERVAL YEAR TO MONTH": i(14), "INTERVAL DAY TO SECOND(3)": i(86400000),
		"ARRAY<INT>": changelog.ArrayValue([]changelog.Value{i(1), {}}), "ROW<a INT, b STRING>": changelog.RowValue([]changelog.Value{i(1), str("x")}),
		"MAP<STRING, INT>": changelog.MapValue([]changelog.Value{str("a.b"), i(1)}), "MULTISET<STRING>": changelog.MapValue([]changelog.Value{str("x"), i(2)}),
	}
}

// The table of types in docs/elastic.md is what is written and mapped, on a real server too.
func TestPage_Types(t *testing.T) {
	page, err := os.ReadFile("../../docs/elastic.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "<!-- types -->")
	text, _, found := strings.Cut(text, "<!-- end of types -->")
	if !found {
		t.Fatal("the page has no table of types")
	}
	values := pageValues()
	onEach(t, func(t *testing.T, s *server) {
		columns := []string{"id BIGINT NOT NULL"}
		row := []any{1}
		want, fields := make(map[string]string), make(map[string]string)
		for _, line := range strings.Split(strings.TrimSpace(text), "\n")[2:] {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			if len(cells) != 3 {
				t.Fatalf("a row of %d cells: %s", len(cells), line)
			}
			for i := range cells {
				cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "`", "")
			}
			v, ok := values[cells[0]]
			if !ok {
				t.Fatalf("no value for %s", cells[0])
			}
			name := "c" + string(rune('a'+len(row)))
			columns, row = append(columns, name+" "+cells[0]), append(row, v)
			want[name], fields[name] = cells[1], cells[2]
		}
		if len(row) != len(values)+1 {
			t.Fatalf("%d rows, and %d values", len(row)-1, len(values))
		}
		tab := table(t, "page", mode(t, "[I,UA,D]"), 1, columns...)
		l := s.lane(tab, tombstones, nil)
		l.open(1, 0, false)
		l.must(l.checkpoint(at(0, ins, row...)))
		var doc map[string]json.RawMessage
		l.must(json.Unmarshal([]byte(l.docs(everything)["1"]), &doc))
		for name, text := range want {
			if string(doc[name]) != text {
				t.Errorf("%s is %s in the document, the page says %s", name, doc[name], text)
			}
		}
		es, err := elastic.New(s.client(nil), "", &tombstones)
		l.must(err)
		text, err := es.Mapping(tab)
		l.must(err)
		var m struct {
			Mappings struct {
				Properties map[string]struct {
					Type       string
					Enabled    *bool
					Properties map[string]any
				}
			}
		}
		l.must(json.Unmarshal([]byte(text), &m))
		for name, field := range fields {
			p := m.Mappings.Properties[name]
			got := p.Type
			switch {
			case p.Enabled != nil && !*p.Enabled:
				got = "object, not searched"
			case p.Properties != nil:
				got = "object"
			}
			if got != field {
				t.Errorf("%s is mapped as %s, the page says %s", name, got, field)
			}
		}
	})
}
