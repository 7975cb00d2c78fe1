package debezium

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Format is Flink's format 'debezium-json'. Its zero value is ready for use.
type Format struct {
	// UnavailableValue is the placeholder that the source's connector sends for a value that it does not know, its property
	// unavailable.value.placeholder. It is also found as bytes (base64 or hex), and alone in an array or a map. Columns of the
	// source that may hold it as a value of their own need another placeholder there, and here. Defaults to DefaultUnavailableValue,
	// or where decoding is lenient to NoUnavailableValue.
	UnavailableValue string
}

const (
	// DefaultUnavailableValue is the placeholder of connectors that were not told another.
	DefaultUnavailableValue = "__debezium_unavailable_value"
	// NoUnavailableValue takes every value as it stands, as Flink does: the placeholder would overwrite what the target holds.
	NoUnavailableValue = "\x00"
)

var _ changelog.Format = Format{}

// Name returns "debezium-json".
func (Format) Name() string { return "debezium-json" }

// Mode returns changelog.Retract.
func (Format) Mode() changelog.Mode { return changelog.Retract }

// optionNames are the options of DebeziumJsonFormatOptions.
var optionNames = []string{
	"encode.decimal-as-plain-number",
	"encode.ignore-null-fields",
	"ignore-parse-errors",
	"map-null-key.literal",
	"map-null-key.mode",
	"schema-include",
	"timestamp-format.standard",
}

// options reads the format's options.
func (f Format) options(m map[string]string) (o flinkjson.Options, schemaInclude bool, err error) {
	o, err = flinkjson.ParseOptions(f.Name(), optionNames, m)
	if v, ok := m["schema-include"]; ok {
		var err2 error
		schemaInclude, err2 = flinkjson.Flag(f.Name(), "schema-include", v)
		err = errors.Join(err, err2)
	}
	return o, schemaInclude, err
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	o, schemaInclude, err := f.options(p.Options)
	errs := []error{err}
	d := &decoder{columns: p.Columns, schemaInclude: schemaInclude, lenient: p.Lenient, nullsLeftOut: o.IgnoreNulls}
	if d.row, err = flinkjson.NewObject(f.Name(), p); err != nil {
		errs = append(errs, err)
	}
	if d.op, err = flinkjson.NewField("op", "STRING"); err != nil {
		errs = append(errs, err)
	}
	schema := p.Table.Schema
	d.keyed = len(schema.Key) > 0
	for _, col := range p.Columns {
		d.names = append(d.names, schema.Columns[col].Name)
		d.isKey = append(d.isKey, slices.Contains(schema.Key, col))
	}
	for i := range schema.Columns {
		if err := d.addMetadata(i, &schema.Columns[i]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Name(), err))
		}
	}
	switch {
	case f.UnavailableValue == NoUnavailableValue, f.UnavailableValue == "" && p.Lenient:
	case f.UnavailableValue == "":
		d.placeholder = newPlaceholder(DefaultUnavailableValue)
	default:
		d.placeholder = newPlaceholder(f.UnavailableValue)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	d.envelope = flinkjson.NewEnvelope(o, p.Lenient, d.row)
	return d, nil
}

// NewEncoder returns an encoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewEncoder(p changelog.Payload) (changelog.PayloadEncoder, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	o, schemaInclude, err := f.options(p.Options)
	errs := []error{err}
	if schemaInclude {
		errs = append(errs, fmt.Errorf("%s: option 'schema-include' is 'true', and no schema can be written; drop it to write", f.Name()))
	}
	rows, err := flinkjson.NewEncoder(f.Name(), p, o)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return &encoder{rows: rows, nullsLeftOut: o.IgnoreNulls}, nil
}

// encoder writes the envelope that DebeziumJsonSerializationSchema does.
type encoder struct {
	rows         *flinkjson.Encoder
	nullsLeftOut bool
}

// AppendPayload implements [changelog.PayloadEncoder]. It is never null.
func (e *encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	before, after, end := `{"before":null,"after":`, "", `,"op":"c"}`
	if e.nullsLeftOut {
		before = `{"after":`
	}
	if !c.Kind.Adds() {
		before, after, end = `{"before":`, `,"after":null`, `,"op":"d"}`
		if e.nullsLeftOut {
			after = ""
		}
	}
	out, err = e.rows.AppendRow(append(dst, before...), c.Row)
	if err != nil {
		return dst, false, err
	}
	return append(append(out, after...), end...), false, nil
}
