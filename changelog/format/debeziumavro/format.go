package debeziumavro

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
	"github.com/flinksink/flinksink/changelog/format/internal/registry"
)

// Format is Flink's format 'debezium-avro-confluent'. Its zero value is ready for use.
type Format struct {
	// HTTP makes the requests to the registry, e.g. with credentials that change. Defaults to a client that follows the options.
	HTTP *http.Client
	// Timeout bounds a request to the registry and its answer, and so how long a decoder waits. Defaults to ten seconds.
	Timeout time.Duration
	// UnavailableValue is the placeholder that the source's connector sends for a value that it does not know, its property
	// unavailable.value.placeholder. It is also found as bytes, and alone in an array or a map. Columns of the source that may hold it as a
	// value of their own need another placeholder there, and here. Defaults to DefaultUnavailableValue, or where decoding is lenient
	// to NoUnavailableValue.
	UnavailableValue string
	// SourceTypes reads Debezium's and Connect's types of dates, times and decimals as what the message's schema says that they are, whatever their unit, scale or form.
	// Flink takes no notice of them, and has no TIMESTAMP of more than three digits and no TIMESTAMP_LTZ in this format; so a table with
	// them is none that Flink can use, and such a Format only reads. Defaults to false: as Flink.
	SourceTypes bool
}

const (
	// DefaultUnavailableValue is the placeholder of connectors that were not told another.
	DefaultUnavailableValue = "__debezium_unavailable_value"
	// NoUnavailableValue takes every value as it stands, as Flink does: the placeholder would overwrite what the target holds.
	NoUnavailableValue = "\x00"
)

var _ changelog.Format = Format{}

// Name returns "debezium-avro-confluent".
func (Format) Name() string { return "debezium-avro-confluent" }

// Mode returns changelog.Retract.
func (Format) Mode() changelog.Mode { return changelog.Retract }

// Fields of the envelope, in the order of Flink's schema.
const (
	before = iota
	after
	op
	envelopeFields
)

// codec makes the codec of the envelope: DebeziumAvroFormatFactory.createDebeziumAvroRowType.
func (f Format) codec(p changelog.Payload) (*registry.Codec, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	row := changelog.Type{Root: changelog.RootRow}
	for i, col := range p.Columns {
		row.Fields = append(row.Fields, changelog.Field{Name: p.Names[i], Type: p.Table.Schema.Columns[col].Type})
	}
	text := changelog.Type{Root: changelog.RootVarchar, Length: changelog.MaxLength}
	t := changelog.Type{Root: changelog.RootRow, Fields: []changelog.Field{before: {Name: "before", Type: row}, after: {Name: "after", Type: row}, op: {Name: "op", Type: text}}}
	var errs []error
	for i := range p.Table.Schema.Columns {
		if c := &p.Table.Schema.Columns[i]; strings.HasPrefix(c.Metadata, "value.") {
			errs = append(errs, fmt.Errorf("%s: column %s: the format has none of the metadata of 'debezium-json', so not '%s'", f.Name(), c.Name, c.Metadata))
		}
	}
	c, err := registry.NewCodec(f.Name(), p, &t, registry.Extra{Client: f.HTTP, Timeout: f.Timeout, SourceTypes: f.SourceTypes})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return c, nil
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error. The registry is
// not asked yet.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	c, err := f.codec(p)
	if err != nil {
		return nil, err
	}
	d := &decoder{codec: c, columns: p.Columns, names: p.Names, lenient: p.Lenient, placeholder: f.UnavailableValue}
	switch {
	case f.UnavailableValue == NoUnavailableValue, f.UnavailableValue == "" && p.Lenient:
		d.placeholder = ""
	case f.UnavailableValue == "":
		d.placeholder = DefaultUnavailableValue
	}
	return d, nil
}

// NewEncoder returns an encoder for p, as [Format.NewDecoder] does.
func (f Format) NewEncoder(p changelog.Payload) (changelog.PayloadEncoder, error) {
	if f.SourceTypes {
		return nil, fmt.Errorf("%s: Format.SourceTypes is of reading only; take a Format without it to write", f.Name())
	}
	c, err := f.codec(p)
	if err != nil {
		return nil, err
	}
	if err := c.Writable(); err != nil {
		return nil, err
	}
	return &encoder{c, p.Columns, flinkavro.Writer{Lenient: p.Lenient}}, nil
}

// encoder writes the envelope that DebeziumAvroSerializationSchema does.
type encoder struct {
	codec   *registry.Codec
	columns []int
	w       flinkavro.Writer
}

// AppendPayload implements [changelog.PayloadEncoder]. It is never null.
func (e *encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	if out, err = e.codec.AppendHeader(dst); err != nil {
		return dst, false, err
	}
	row := make([]changelog.Value, len(e.columns))
	for i, slot := range e.columns {
		if slot >= len(c.Row) {
			return dst, false, flinkjson.Misfit(changelog.SchemaMismatch, "the row does not have this column").At(e.codec.Plan.Fields[after].Type.Fields[i].Name).Err()
		}
		row[i] = c.Row[slot]
	}
	envelope := [envelopeFields]changelog.Value{after: changelog.RowValue(row), op: changelog.StringValue("c")}
	if !c.Kind.Adds() {
		envelope = [envelopeFields]changelog.Value{before: changelog.RowValue(row), op: changelog.StringValue("d")}
	}
	out, f := e.w.Value(out, e.codec.Plan, changelog.RowValue(envelope[:]))
	if f != nil {
		return dst, false, f.Err()
	}
	return out, false, nil
}
