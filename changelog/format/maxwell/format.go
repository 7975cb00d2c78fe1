package maxwell

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Format is Flink's format 'maxwell-json'. Its zero value is ready for use.
type Format struct {
	// Bootstrap reads the messages of Maxwell's bootstraps: bootstrap-insert is a +I, bootstrap-start and bootstrap-complete are nothing. A
	// bootstrap sends rows that may have been sent before, so the table needs a PRIMARY KEY. Defaults to false, which is an error as in
	// Flink.
	Bootstrap bool
	// SkipDDL passes over messages about definitions, which Maxwell writes where output_ddl is set: type table-create, table-alter,
	// database-create, database-alter and database-drop. The table's columns should be known to stay. Defaults to false, which
	// is an error as in Flink.
	SkipDDL bool
}

var _ changelog.Format = Format{}

// Name returns "maxwell-json".
func (Format) Name() string { return "maxwell-json" }

// Mode returns changelog.Retract.
func (Format) Mode() changelog.Mode { return changelog.Retract }

// optionNames are the options of MaxwellJsonFormatOptions.
var optionNames = []string{
	"encode.decimal-as-plain-number",
	"encode.ignore-null-fields",
	"ignore-parse-errors",
	"map-null-key.literal",
	"map-null-key.mode",
	"timestamp-format.standard",
}

// metadataKeys are those of MaxwellJsonDecodingFormat.ReadableMetadata.
var metadataKeys = []flinkjson.MetadataKey{
	{Key: "database", Type: "STRING", Member: "database", As: "STRING"},
	{Key: "table", Type: "STRING", Member: "table", As: "STRING"},
	{Key: "primary-key-columns", Type: "ARRAY<STRING>", Member: "primary_key_columns", As: "ARRAY<STRING>"},
	{Key: "ingestion-timestamp", Type: "TIMESTAMP_LTZ(3)", Member: "ts", As: "BIGINT", Convert: func(v changelog.Value) (changelog.Value, error) {
		return flinkjson.Millis(changelog.IntValue(v.Int() * 1000)) // seconds; wraps where Java's long does
	}},
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	o, err := flinkjson.ParseOptions(f.Name(), optionNames, p.Options)
	errs := []error{err}
	d := &decoder{Format: f, lenient: p.Lenient}
	if d.row, err = flinkjson.NewObject(f.Name(), p); err != nil {
		errs = append(errs, err)
	}
	if d.metadata, err = flinkjson.NewMetadata(f.Name(), p.Table.Schema, metadataKeys); err != nil {
		errs = append(errs, err)
	}
	typ, err := flinkjson.NewField("type", "STRING")
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	d.outline = flinkjson.NewOutline([]flinkjson.RowsMember{
		{Name: "data", Object: d.row}, {Name: "old", Object: d.row, Flat: true},
	}, append(d.metadata.Fields(), typ))
	d.old = flinkjson.NewOldRows(f.Name(), "send old rows whole", p, o)
	d.envelope = flinkjson.NewEnvelope(o, p.Lenient, d.row)
	d.envelope.NoArrays = true
	return d, nil
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

// encoder writes the envelope that MaxwellJsonSerializationSchema does.
type encoder struct{ rows *flinkjson.Encoder }

// AppendPayload implements [changelog.PayloadEncoder]. It is never null.
func (e *encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	out, err = e.rows.AppendRow(append(dst, `{"data":`...), c.Row)
	if err != nil {
		return dst, false, err
	}
	if c.Kind.Adds() {
		return append(out, `,"type":"insert"}`...), false, nil
	}
	return append(out, `,"type":"delete"}`...), false, nil
}
