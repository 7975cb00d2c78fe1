package format

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
)

// connector is what a table's options say about its records.
type connector struct {
	schema     *changelog.Schema
	upsert     bool
	exceptKey  bool
	key, value side
}

// side is the key or the value of the records. A key that is not read has no format.
type side struct {
	format  changelog.Format
	prefix  string            // of the format's options: "json.", "value.json."
	options map[string]string // without the prefix
	columns []int             // of the schema, in payload order
	names   []string          // in the payload
}

func (c *connector) mode() changelog.Mode {
	if c.upsert {
		return changelog.Upsert
	}
	return c.value.format.Mode()
}

// reader collects what is wrong with a table's options.
type reader struct {
	t       *ddl.Table
	formats []changelog.Format
	errs    []error
}

func (r *reader) errorf(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("format: "+format, args...))
}

// readConnector follows KafkaDynamicTableFactory, UpsertKafkaDynamicTableFactory and KafkaConnectorOptionsUtil of connector 5.0.
func readConnector(t *ddl.Table, formats []changelog.Format, version changelog.FlinkVersion) (*connector, error) {
	if t == nil {
		return nil, errors.New("format: the table is nil; ddl.Find returns one")
	}
	for i, f := range formats {
		if f == nil {
			return nil, fmt.Errorf("format: number %d of the formats that were passed is nil", i+1)
		}
	}
	if !version.Valid() {
		return nil, fmt.Errorf("format: Options.FlinkVersion is %s, which is none that is known", version)
	}
	r := &reader{t: t, formats: formats}
	c := &connector{schema: schemaOf(t, version)}
	if err := c.schema.Validate(); err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	switch name := t.Options["connector"]; name {
	case "kafka":
		r.kafka(c)
	case "upsert-kafka":
		c.upsert = true
		r.upsertKafka(c)
	case "":
		r.errorf("table %s has no option 'connector'; set it to 'kafka' or 'upsert-kafka'", t.Name())
	default:
		r.errorf("connector '%s' is not read; 'connector' must be 'kafka' or 'upsert-kafka'", name)
	}
	if len(r.errs) == 0 {
		r.valueColumns(c)
		r.unread(c)
		r.tooNew(c, version)
	}
	return c, errors.Join(r.errs...)
}

func (r *reader) kafka(c *connector) {
	_, short := r.t.Options["format"]
	_, long := r.t.Options["value.format"]
	switch {
	case short && long:
		r.errorf("options 'format' and 'value.format' mean the same; drop one of them")
		return
	case short:
		c.value = r.side("format", "")
	case long:
		c.value = r.side("value.format", "value.")
	default:
		r.errorf("connector 'kafka' needs the option 'format' or 'value.format'")
		return
	}
	if f := c.value.format; f != nil && f.Mode() == changelog.Append && len(r.t.PrimaryKey) > 0 {
		r.errorf("a PRIMARY KEY has no meaning on connector 'kafka' with format '%s', since the topic holds inserts only; drop the PRIMARY KEY, or if the topic holds upserts set 'connector' to 'upsert-kafka'", f.Name())
	}
	_, hasFormat := r.t.Options["key.format"]
	list, hasFields := r.t.Options["key.fields"]
	fields := splitList(list)
	switch {
	case hasFields && !hasFormat:
		r.errorf("option 'key.fields' has no effect without 'key.format'; set 'key.format', or drop 'key.fields'")
	case hasFormat && len(fields) == 0:
		r.errorf("option 'key.format' needs 'key.fields', the columns that are in the key; set 'key.fields', or drop 'key.format'")
	case hasFormat:
		c.key = r.side("key.format", "key.")
		if f := c.key.format; f != nil && f.Mode() != changelog.Append {
			r.errorf("option 'key.format' is '%s', which has kinds of change; a key takes a format without them, such as 'json' or 'raw'", f.Name())
		}
		r.keyColumns(c, fields, "option 'key.fields'")
	}
}

func (r *reader) upsertKafka(c *connector) {
	if len(r.t.PrimaryKey) == 0 {
		r.errorf("connector 'upsert-kafka' needs a PRIMARY KEY: it says which columns are in the record's key; add PRIMARY KEY (…) NOT ENFORCED")
	}
	for _, name := range []string{"format", "key.fields"} {
		if _, ok := r.t.Options[name]; ok {
			cure := "use 'key.format' and 'value.format'"
			if name == "key.fields" {
				cure = "the columns of the PRIMARY KEY are the key"
			}
			r.errorf("connector 'upsert-kafka' has no option '%s'; %s", name, cure)
		}
	}
	for _, part := range []string{"key", "value"} {
		if _, ok := r.t.Options[part+".format"]; !ok {
			r.errorf("connector 'upsert-kafka' needs the option '%s.format'", part)
			continue
		}
		s := r.side(part+".format", part+".")
		if f := s.format; f != nil && f.Mode() != changelog.Append {
			r.errorf("connector 'upsert-kafka' does not take '%s' as '%s.format', because it has kinds of change of its own; read such a topic with 'connector' = 'kafka'", f.Name(), part)
		}
		if part == "key" {
			c.key = s
		} else {
			c.value = s
		}
	}
	r.keyColumns(c, r.t.PrimaryKey, "the PRIMARY KEY")
}

// side finds the format that the option names, and its options.
func (r *reader) side(option, part string) side {
	name := r.t.Options[option]
	s := side{prefix: part + name + ".", options: map[string]string{}}
	for _, f := range r.formats {
		if f.Name() == name {
			s.format = f
		}
	}
	if s.format == nil {
		known := make([]string, len(r.formats))
		for i, f := range r.formats {
			known[i] = "'" + f.Name() + "'"
		}
		list := strings.Join(known, ", ")
		if list == "" {
			list = "there are none; pass []changelog.Format{json.Format{}, …}"
		}
		r.errorf("option '%s' is '%s', which is none of the formats that were passed: %s", option, name, list)
	}
	for option, value := range r.t.Options {
		if name, ok := strings.CutPrefix(option, s.prefix); ok {
			s.options[name] = value
		}
	}
	return s
}

// keyColumns finds the key's columns and takes the prefix off their names.
func (r *reader) keyColumns(c *connector, fields []string, where string) {
	prefix := r.t.Options["key.fields-prefix"]
	for _, name := range fields {
		i := c.schema.Index(name)
		switch {
		case i < 0 || c.schema.Columns[i].Metadata != "":
			r.errorf("%s lists %s, which is no physical column of the table; the physical columns are %s", where, name, strings.Join(physical(c.schema), ", "))
		case !strings.HasPrefix(name, prefix):
			r.errorf("%s lists %s, which does not begin with the '%s' of option 'key.fields-prefix'; all columns of the key must", where, name, prefix)
		case slices.Contains(c.key.columns, i):
			r.errorf("%s lists %s twice", where, name)
		default:
			c.key.columns = append(c.key.columns, i)
			c.key.names = append(c.key.names, name[len(prefix):])
		}
	}
}

func (r *reader) valueColumns(c *connector) {
	include := r.t.Options["value.fields-include"]
	switch strings.ToUpper(include) {
	case "", "ALL":
		if r.t.Options["key.fields-prefix"] != "" {
			r.errorf("option 'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY', since with 'ALL' the value holds the key columns under their full names too")
		}
	case "EXCEPT_KEY":
		c.exceptKey = true
	default:
		r.errorf("option 'value.fields-include' is '%s'; it must be 'ALL' or 'EXCEPT_KEY'", include)
	}
	for i := range c.schema.Columns {
		if c.schema.Columns[i].Metadata == "" && !(c.exceptKey && slices.Contains(c.key.columns, i)) {
			c.value.columns = append(c.value.columns, i)
			c.value.names = append(c.value.names, c.schema.Columns[i].Name)
		}
	}
}

// unread reports options of keys, values and formats that nothing reads: a misspelt one would be ignored in silence.
func (r *reader) unread(c *connector) {
	known := []string{"key.format", "key.fields", "key.fields-prefix", "value.format", "value.fields-include"}
	for _, option := range slices.Sorted(maps.Keys(r.t.Options)) {
		if slices.Contains(known, option) || strings.HasPrefix(option, c.value.prefix) || c.key.format != nil && strings.HasPrefix(option, c.key.prefix) {
			continue
		}
		ours := strings.HasPrefix(option, "key.") || strings.HasPrefix(option, "value.")
		for _, f := range r.formats {
			ours = ours || strings.HasPrefix(option, f.Name()+".")
		}
		if !ours {
			continue
		}
		spelt := "'" + c.value.prefix + "…'"
		if c.key.format != nil {
			spelt += " and '" + c.key.prefix + "…'"
		}
		r.errorf("nothing reads the option '%s'; the formats of this table have their options as %s", option, spelt)
	}
}

func physical(s *changelog.Schema) []string {
	var names []string
	for i := range s.Columns {
		if s.Columns[i].Metadata == "" {
			names = append(names, s.Columns[i].Name)
		}
	}
	return names
}

// splitList splits a list as Flink's StructuredOptionsSplitter does: at semicolons outside of quotes; a quote in quotes is doubled.
func splitList(list string) []string {
	var out []string
	for list = strings.TrimSpace(list); list != ""; list = strings.TrimSpace(list) {
		var item string
		if q := list[0]; q == '\'' || q == '"' {
			i := 1
			for ; i < len(list); i++ {
				if list[i] == q {
					if i+1 >= len(list) || list[i+1] != q {
						break
					}
					i++
				}
				item += string(list[i])
			}
			_, list, _ = strings.Cut(list[min(i, len(list)):], ";")
		} else {
			item, list, _ = strings.Cut(list, ";")
			item = strings.TrimSpace(item)
		}
		if item != "" {
			out = append(out, item)
		}
	}
	return out
}
