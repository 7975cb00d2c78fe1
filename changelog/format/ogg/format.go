package ogg

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Format is Flink's format 'ogg-json'.
type Format struct{}

var _ changelog.Format = Format{}

// Name returns "ogg-json".
func (Format) Name() string { return "ogg-json" }

// Mode returns changelog.Retract.
func (Format) Mode() changelog.Mode { return changelog.Retract }

// optionNames are the options of OggJsonFormatOptions.
var optionNames = []string{
	"encode.decimal-as-plain-number",
	"encode.ignore-null-fields",
	"ignore-parse-errors",
	"map-null-key.literal",
	"map-null-key.mode",
	"timestamp-format.standard",
}

// metadataKeys are those of OggJsonDecodingFormat.ReadableMetadata.
var metadataKeys = []flinkjson.MetadataKey{
	{Key: "table", Type: "STRING", Member: "table", As: "STRING"},
	{Key: "primary-keys", Type: "ARRAY<STRING>", Member: "primary_keys", As: "ARRAY<STRING>"},
	{Key: "ingestion-timestamp", Type: "TIMESTAMP_LTZ(6)", Member: "current_ts", As: "STRING", Convert: currentTS},
	{Key: "event-timestamp", Type: "TIMESTAMP_LTZ(6)", Member: "op_ts", As: "STRING", Convert: opTS},
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	o, err := flinkjson.ParseOptions(f.Name(), optionNames, p.Options)
	errs := []error{err}
	d := &decoder{whole: p.Lenient || o.IgnoreNulls}
	row, err := flinkjson.NewObject(f.Name(), p)
	errs = append(errs, err)
	if d.metadata, err = flinkjson.NewMetadata(f.Name(), p.Table.Schema, metadataKeys); err != nil {
		errs = append(errs, err)
	}
	op, err := flinkjson.NewField("op_type", "STRING")
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	d.outline = flinkjson.NewOutline([]flinkjson.RowsMember{
		{Name: "before", Object: row}, {Name: "after", Object: row},
	}, append(d.metadata.Fields(), op))
	d.old = flinkjson.NewOldRows(f.Name(), "send old rows whole (log all columns of the table, and its before images)", p, o)
	d.envelope = flinkjson.NewEnvelope(o, p.Lenient, row)
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
	return flinkjson.NewImageEncoder(rows, o, "op_type", "I", "D"), nil
}
