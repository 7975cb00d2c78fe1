package json

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Format is Flink's format 'json'.
type Format struct{}

var _ changelog.Format = Format{}

// Name returns "json".
func (Format) Name() string { return "json" }

// Mode returns changelog.Append: the format knows no kinds of change.
func (Format) Mode() changelog.Mode { return changelog.Append }

// optionNames are the options of JsonFormatOptions.
var optionNames = []string{
	"decode.json-parser.enabled",
	"encode.decimal-as-plain-number",
	"encode.ignore-null-fields",
	"fail-on-missing-field",
	"ignore-parse-errors",
	"map-null-key.literal",
	"map-null-key.mode",
	"timestamp-format.standard",
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	o, err := flinkjson.ParseOptions(f.Name(), optionNames, p.Options)
	o.Tree = o.Tree || !p.Flink.Since(changelog.Flink1_18) // which brought the other decoder
	d, err2 := flinkjson.NewDecoder(f.Name(), p, o)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return d, nil
}

// NewEncoder returns an encoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewEncoder(p changelog.Payload) (changelog.PayloadEncoder, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	o, err := flinkjson.ParseOptions(f.Name(), optionNames, p.Options)
	e, err2 := flinkjson.NewEncoder(f.Name(), p, o)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return e, nil
}
