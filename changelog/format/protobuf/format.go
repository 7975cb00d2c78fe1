package protobuf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// Format is Flink's format 'protobuf'.
type Format struct {
	// Files hold the message types that the option 'message-class-name' may name, in place of Flink's class path: what [Load] or
	// [ParseDescriptorSet] returns, or protoregistry.GlobalFiles. They must not change while the format is in use. Required.
	Files *protoregistry.Files
}

var _ changelog.Format = Format{}

// Name returns "protobuf".
func (Format) Name() string { return "protobuf" }

// Mode returns changelog.Append: the format knows no kinds of change.
func (Format) Mode() changelog.Mode { return changelog.Append }

// optionNames are the options of PbFormatOptions.
var optionNames = []string{"ignore-parse-errors", "message-class-name", "read-default-values", "write-null-string-literal"}

// settings are what the options say.
type settings struct {
	class        string
	ignoreErrors bool
	defaults     bool
	nullText     string
}

func (f Format) settings(m map[string]string) (s settings, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(m)) {
		var err error
		switch value := m[name]; name {
		case "message-class-name":
			s.class = value
		case "ignore-parse-errors":
			s.ignoreErrors, err = flinkjson.Flag(f.Name(), name, value)
		case "read-default-values":
			s.defaults, err = flinkjson.Flag(f.Name(), name, value)
		case "write-null-string-literal":
			s.nullText = value
		default:
			err = flinkjson.UnknownOption(f.Name(), name, optionNames)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if s.class == "" {
		errs = append(errs, fmt.Errorf("%s: option 'message-class-name' is missing: set it to the Java class of the message, or to the message's full name", f.Name()))
	}
	return s, errors.Join(errs...)
}

// plan reads the options, finds the message and lays the table's columns over it. All mistakes are reported, not only the first.
func (f Format) plan(p changelog.Payload) (*message, settings, error) {
	if err := p.Validate(); err != nil {
		return nil, settings{}, fmt.Errorf("%s: %w", f.Name(), err)
	}
	s, err := f.settings(p.Options)
	var desc protoreflect.MessageDescriptor
	if s.class != "" {
		var missing error
		if desc, missing = find(f.Files, s.class); missing != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", f.Name(), missing))
		}
	}
	if err != nil {
		return nil, s, err
	}
	fields := make([]changelog.Field, len(p.Columns))
	for k, i := range p.Columns {
		fields[k] = changelog.Field{Name: p.Names[k], Type: p.Table.Schema.Columns[i].Type}
	}
	b := &builder{
		// ProtoToRowConverter asks the file of the message that is the row, whatever file an inner one is from.
		simpleDefaults: s.defaults || desc.ParentFile().Syntax() == protoreflect.Proto3,
		// Before Flink 1.20 'read-default-values' was always on for proto3.
		defaults: s.defaults || desc.ParentFile().Syntax() == protoreflect.Proto3 && !p.Flink.Since(changelog.Flink1_20),
		plain:    map[protoreflect.FullName]*message{},
		required: map[protoreflect.FullName]bool{},
	}
	m, err := b.message(desc, fields, p.Columns)
	if err != nil {
		return nil, s, fmt.Errorf("%s: message %s: %w", f.Name(), desc.FullName(), err)
	}
	return m, s, nil
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (f Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	m, s, err := f.plan(p)
	if err != nil {
		return nil, err
	}
	return &decoder{root: m, ignoreErrors: s.ignoreErrors, lenient: p.Lenient}, nil
}

// NewEncoder returns an encoder for p. Errors are as those of NewDecoder; a message with a required field that is no column is refused too.
func (f Format) NewEncoder(p changelog.Payload) (changelog.PayloadEncoder, error) {
	m, s, err := f.plan(p)
	if err != nil {
		return nil, err
	}
	if err := writable(m); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return &encoder{root: m, nullText: s.nullText, lenient: p.Lenient}, nil
}
