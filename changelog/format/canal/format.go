package canal

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Format is Flink's format 'canal-json'. Its zero value is ready for use.
type Format struct {
	// MaxRows is how many rows one message may hold. A message is decoded whole, so this bounds the memory that it takes. Defaults to
	// DefaultMaxRows.
	MaxRows int
	// SkipDDL passes over messages about definitions: type ALTER, QUERY, RENAME, CINDEX and DINDEX, beside CREATE, which Flink passes over too.
	// It should be set where Canal does not filter them (canal.instance.filter.query.ddl) and the table's columns are known to
	// stay. Defaults to false, which is an error as in Flink.
	SkipDDL bool
}

// DefaultMaxRows is the most rows of a message where Format does not say.
const DefaultMaxRows = 100_000

var _ changelog.Format = Format{}

// Name returns "canal-json".
func (Format) Name() string { return "canal-json" }

// Mode returns changelog.Retract.
func (Format) Mode() changelog.Mode { return changelog.Retract }

// optionNames are the options of CanalJsonFormatOptions.
var optionNames = []string{
	"database.include",
	"encode.decimal-as-plain-number",
	"encode.ignore-null-fields",
	"ignore-parse-errors",
	"map-null-key.literal",
	"map-null-key.mode",
	"table.include",
	"timestamp-format.standard",
}

// metadataKeys are those of CanalJsonDecodingFormat.ReadableMetadata.
var metadataKeys = []flinkjson.MetadataKey{
	{Key: "database", Type: "STRING", Member: "database", As: "STRING"},
	{Key: "table", Type: "STRING", Member: "table", As: "STRING"},
	{Key: "sql-type", Type: "MAP<STRING, INT>", Member: "sqlType", As: "MAP<STRING, INT>"},
	{Key: "pk-names", Type: "ARRAY<STRING>", Member: "pkNames", As: "ARRAY<STRING>"},
	{Key: "ingestion-timestamp", Type: "TIMESTAMP_LTZ(3)", Member: "ts", As: "BIGINT", Convert: flinkjson.Millis},
	{Key: "event-timestamp", Type: "TIMESTAMP_LTZ(3)", Member: "es", As: "BIGINT", Convert: flinkjson.Millis},
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	o, err := flinkjson.ParseOptions(f.Name(), optionNames, p.Options)
	errs := []error{err}
	d := &decoder{lenient: p.Lenient, ignoreErrors: o.IgnoreErrors, skipDDL: f.SkipDDL}
	for _, i := range []*include{&d.database, &d.table} {
		i.member = map[*include]string{&d.database: "database", &d.table: "table"}[i]
		errs = append(errs, i.compile(f.Name(), p.Options))
	}
	if d.row, err = flinkjson.NewObject(f.Name(), p); err != nil {
		errs = append(errs, err)
	}
	if d.metadata, err = flinkjson.NewMetadata(f.Name(), p.Table.Schema, metadataKeys); err != nil {
		errs = append(errs, err)
	}
	if f.MaxRows < 0 {
		errs = append(errs, fmt.Errorf("%s: Format.MaxRows is %d", f.Name(), f.MaxRows))
	}
	fields := d.metadata.Fields()
	for _, name := range []string{"type", "database", "table"} {
		field, err := flinkjson.NewField(name, "STRING")
		errs = append(errs, err)
		fields = append(fields, field)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	most := f.MaxRows
	if most == 0 {
		most = DefaultMaxRows
	}
	rows := flinkjson.RowsMember{
		Name: "data", Object: d.row, Many: true, Max: most,
		TooMany: "the message holds more than " + strconv.Itoa(most) + " rows; canal.Format.MaxRows sets how many it may",
	}
	old := rows
	old.Name, old.Flat = "old", true
	d.outline = flinkjson.NewOutline([]flinkjson.RowsMember{rows, old}, fields)
	d.old = flinkjson.NewOldRows(f.Name(), "send old rows whole", p, o)
	d.envelope = flinkjson.NewEnvelope(o, p.Lenient, d.row)
	d.envelope.NoArrays = true
	return d, nil
}

// include is one of the options that pick messages by a name.
type include struct {
	member string
	re     *regexp.Regexp // nil: every message
}

// compile reads the option. Java's Pattern.matches takes the whole text.
func (i *include) compile(format string, options map[string]string) error {
	pattern, ok := options[i.member+".include"]
	if !ok {
		return nil
	}
	re, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return fmt.Errorf("%s: option '%s.include' is no regular expression of Go's package regexp, which has no look-around, back-references and possessive quantifiers: %w",
			format, i.member, err)
	}
	i.re = re
	return nil
}

// NewEncoder returns an encoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewEncoder(p changelog.Payload) (changelog.PayloadEncoder, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	o, err := flinkjson.ParseOptions(f.Name(), optionNames, p.Options)
	rows, err2 := flinkjson.NewEncoder(f.Name(), p, o)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return &encoder{rows}, nil
}

// encoder writes the envelope that CanalJsonSerializationSchema does.
type encoder struct{ rows *flinkjson.Encoder }

// AppendPayload implements [changelog.PayloadEncoder]. It is never null.
func (e *encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	out, err = e.rows.AppendRow(append(dst, `{"data":[`...), c.Row)
	if err != nil {
		return dst, false, err
	}
	if c.Kind.Adds() {
		return append(out, `],"type":"INSERT"}`...), false, nil
	}
	return append(out, `],"type":"DELETE"}`...), false, nil
}
