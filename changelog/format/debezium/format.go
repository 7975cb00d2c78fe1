package debezium

import (
	"errors"
	"fmt"

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
	// SourceTypes, where not nil, also reads the forms in which Debezium sends dates, times and decimals. Flink reads none of them, so
	// a table that Flink shares must declare its columns as they are sent. Defaults to nil: as Flink.
	SourceTypes *SourceTypes
	// Truncate says what becomes of op t: the source's table was emptied, and the target is not. Defaults to EventAsFlink.
	Truncate EventPolicy
	// Messages says what becomes of op m, a message in the source's log (pg_logical_emit_message). Defaults to EventAsFlink.
	Messages EventPolicy
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
	d := &decoder{schemaInclude: schemaInclude, ignoreErrors: o.IgnoreErrors, truncate: f.Truncate, messages: f.Messages}
	if f.Truncate > EventRefuse || f.Messages > EventRefuse {
		errs = append(errs, fmt.Errorf("%s: Format.Truncate is %d and Format.Messages is %d; they take EventAsFlink, EventSkip and EventRefuse", f.Name(), f.Truncate, f.Messages))
	}
	if f.SourceTypes != nil {
		if d.source, err = newSourceTypes(*f.SourceTypes, p, schemaInclude); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Name(), err))
		}
	}
	if d.row, err = flinkjson.NewObject(f.Name(), p); err != nil {
		errs = append(errs, err)
	}
	if d.op, err = flinkjson.NewField("op", "STRING"); err != nil {
		errs = append(errs, err)
	}
	schema := p.Table.Schema
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
	d.old = flinkjson.NewOldRows(f.Name(), "send old rows whole (in Postgres REPLICA IDENTITY FULL)", p, o)
	d.envelope = flinkjson.NewEnvelope(o, p.Lenient, d.row)
	if d.source == nil {
		d.outline = d.newOutline()
	}
	return d, nil
}

// newOutline says what is read of a message in one pass. It is nil where members are read that lie beside those of the payload.
func (d *decoder) newOutline() *flinkjson.Outline {
	rows := flinkjson.RowsMember{Name: "before", Object: d.row}
	if d.placeholder != nil {
		rows.Odd = d.placeholder.maybe
	}
	after := rows
	after.Name = "after"
	fields := []*flinkjson.Field{d.op}
	for i := range d.members {
		if d.members[i].inRoot && d.schemaInclude {
			return nil
		}
		fields = append(fields, d.members[i].field)
	}
	o := flinkjson.NewOutline([]flinkjson.RowsMember{rows, after}, fields)
	if d.schemaInclude {
		o.Inside = "payload"
	}
	return o
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
	return flinkjson.NewImageEncoder(rows, o, "op", "c", "d"), nil
}
