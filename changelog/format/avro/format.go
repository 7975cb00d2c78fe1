package avro

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Format is Flink's format 'avro'.
type Format struct{}

var _ changelog.Format = Format{}

// Name returns "avro".
func (Format) Name() string { return "avro" }

// Mode returns changelog.Append: the format knows no kinds of change.
func (Format) Mode() changelog.Mode { return changelog.Append }

// optionNames are the options of AvroFormatOptions that messages have.
var optionNames = []string{"encoding", "timestamp_mapping.legacy"}

// column is one of the payload.
type column struct {
	plan  flinkavro.Plan
	slot  int    // where in the row its value goes
	name  string // in the table
	field string // in the payload
}

// columns reads the options and checks the types. Every mistake is reported, not only the first.
func (f Format) columns(p changelog.Payload) (out []column, json bool, err error) {
	if err := p.Validate(); err != nil {
		return nil, false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	legacy := true
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(p.Options)) {
		var err error
		switch value := p.Options[name]; name {
		case "encoding":
			switch strings.ToLower(value) {
			case "binary":
			case "json":
				json = true
			default:
				err = fmt.Errorf("%s: option 'encoding' must be 'binary' or 'json'", f.Name())
			}
		case "timestamp_mapping.legacy":
			legacy, err = flinkjson.Flag(f.Name(), name, value)
		default:
			err = flinkjson.UnknownOption(f.Name(), name, optionNames)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	for k, i := range p.Columns {
		c := &p.Table.Schema.Columns[i]
		plan, err := flinkavro.NewPlan(&c.Type, flinkavro.Options{Legacy: legacy, Record: flinkavro.RootName + "_" + p.Names[k]})
		if err := errors.Join(flinkavro.CheckName(p.Names[k]), err); err != nil {
			errs = append(errs, fmt.Errorf("%s: column %s: %w", f.Name(), c.Name, err))
		}
		out = append(out, column{plan, i, c.Name, p.Names[k]})
	}
	return out, json, errors.Join(errs...)
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	columns, json, err := f.columns(p)
	if err != nil {
		return nil, err
	}
	if json {
		return newJSONDecoder(columns, p.Lenient), nil
	}
	return &decoder{columns, p.Lenient}, nil
}

// NewEncoder returns an encoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewEncoder(p changelog.Payload) (changelog.PayloadEncoder, error) {
	columns, json, err := f.columns(p)
	if err != nil {
		return nil, err
	}
	if json {
		return &jsonEncoder{encoder: encoder{columns, flinkavro.Writer{Lenient: p.Lenient}}}, nil
	}
	return &encoder{columns, flinkavro.Writer{Lenient: p.Lenient}}, nil
}
