package avroconfluent

import (
	"fmt"
	"net/http"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
	"github.com/flinksink/flinksink/changelog/format/internal/registry"
)

// Format is Flink's format 'avro-confluent'. Its zero value is ready for use.
type Format struct {
	// HTTP makes the requests to the registry, e.g. with credentials that change. Defaults to a client that follows the options.
	HTTP *http.Client
	// Timeout bounds a request to the registry and its answer, and so how long a decoder waits. Defaults to ten seconds.
	Timeout time.Duration
}

var _ changelog.Format = Format{}

// Name returns "avro-confluent".
func (Format) Name() string { return "avro-confluent" }

// Mode returns changelog.Append: the format knows no kinds of change.
func (Format) Mode() changelog.Mode { return changelog.Append }

func (f Format) codec(p changelog.Payload) (*registry.Codec, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	t := changelog.Type{Root: changelog.RootRow, NotNull: true}
	for i, col := range p.Columns {
		t.Fields = append(t.Fields, changelog.Field{Name: p.Names[i], Type: p.Table.Schema.Columns[col].Type})
	}
	return registry.NewCodec(f.Name(), p, &t, registry.Extra{Client: f.HTTP, Timeout: f.Timeout})
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error. The registry is
// not asked yet.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	c, err := f.codec(p)
	if err != nil {
		return nil, err
	}
	return &decoder{c, p.Columns, p.Lenient}, nil
}

// NewEncoder returns an encoder for p, as [Format.NewDecoder] does.
func (f Format) NewEncoder(p changelog.Payload) (changelog.PayloadEncoder, error) {
	c, err := f.codec(p)
	if err != nil {
		return nil, err
	}
	if err := c.Writable(); err != nil {
		return nil, err
	}
	return &encoder{c, p.Columns, flinkavro.Writer{Lenient: p.Lenient}}, nil
}

// decoder follows RegistryAvroDeserializationSchema and ConfluentSchemaRegistryCoder.
type decoder struct {
	codec   *registry.Codec
	columns []int
	lenient bool
}

// DecodePayload implements [changelog.PayloadDecoder].
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, _ *changelog.Record) error {
	step, datum, err := d.codec.Read(payload)
	if err != nil {
		return err
	}
	r := flinkavro.NewReader(b, datum, d.lenient)
	row := b.NewRow()
	_, f := r.Row(step, row, d.columns)
	if f == nil {
		f = r.End()
	}
	if f != nil {
		return f.Err()
	}
	b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
	return nil
}

// encoder follows RegistryAvroSerializationSchema.
type encoder struct {
	codec   *registry.Codec
	columns []int
	w       flinkavro.Writer
}

// AppendPayload implements [changelog.PayloadEncoder]. The payload is the row whatever the change's kind; it is never null.
func (e *encoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	if out, err = e.codec.AppendHeader(dst); err != nil {
		return dst, false, err
	}
	for i, slot := range e.columns {
		f := flinkjson.Misfit(changelog.SchemaMismatch, "the row does not have this column")
		if slot < len(c.Row) {
			out, f = e.w.Value(out, &e.codec.Plan.Fields[i], c.Row[slot])
		}
		if f != nil {
			return dst, false, f.At(e.codec.Plan.Type.Fields[i].Name).Err()
		}
	}
	return out, false, nil
}
