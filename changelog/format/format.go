package format

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
)

// Options are the settings of a [Decoder] and of an [Encoder]; nil means the defaults.
type Options struct {
	// Lenient takes Flink's silent guesses instead of errors: see the package comments here and of the formats. Rows that the topic does
	// not say may then reach the sink, and deletes may be lost. Defaults to false.
	Lenient bool
	// FlinkVersion says which Flink's rules are followed where its versions differ: see docs/formats.md. It should be that of the job that
	// writes the topic (an Encoder: that reads it) where that is older than 2.1, or newer than 2.2. Defaults to changelog.DefaultFlinkVersion.
	FlinkVersion changelog.FlinkVersion
}

// NullDecoder is implemented by payload decoders for which Kafka's null is a row: of Flink's formats, that of 'raw'. Only who writes a
// [changelog.Format] needs it.
type NullDecoder interface {
	// DecodeNull appends the row of a null payload.
	DecodeNull(b *changelog.Batch, r *changelog.Record) error
}

// Decoder decodes the records of one table. It is safe for use by several goroutines, each with its own batch.
type Decoder struct {
	table   *changelog.Table
	upsert  bool
	lenient bool

	value        changelog.PayloadDecoder
	whole        WholeDecoder // value, if it is one and its word counts
	valueSkips   bool         // the format has kinds of its own, and a null value means nothing in it
	valueIgnores bool         // the value format's 'ignore-parse-errors'

	key        changelog.PayloadDecoder // nil: the record's key is not read
	keyTable   *changelog.Table         // the key's columns only, in their order in the key
	keyColumns []int                    // where they are in the table
	keyWins    bool                     // the value does not hold the key columns (EXCEPT_KEY)
	keyBatches sync.Pool                // of *changelog.Batch of keyTable

	metadata []metadata
	headers  bool // some metadata column points into the headers
}

var _ changelog.OriginalDecoder = (*Decoder)(nil)

// New makes the decoder of t. formats are those that its options may name; package changelog/format/all lists all of this module. The table that Table returns has the mode that the connector
// and the format give it: Append for 'kafka' with a format without kinds, Upsert for 'upsert-kafka', the format's own
// for 'kafka' with a CDC format.
//
// What Flink refuses is refused: the error names the options and the cure, and joins all contradictions that were found.
func New(t *ddl.Table, formats []changelog.Format, o *Options) (*Decoder, error) {
	if o == nil {
		o = &Options{}
	}
	c, err := readConnector(t, formats, o.FlinkVersion)
	if err != nil {
		return nil, err
	}
	d := &Decoder{
		table:        &changelog.Table{Name: t.Name(), Schema: c.schema, Mode: c.mode()},
		upsert:       c.upsert,
		lenient:      o.Lenient,
		valueSkips:   c.value.format.Mode() != changelog.Append,
		valueIgnores: strings.EqualFold(c.value.options["ignore-parse-errors"], "true"),
		keyWins:      c.exceptKey,
	}
	var errs []error
	var valueErr error
	d.value, valueErr = c.value.format.NewDecoder(changelog.Payload{
		Table: d.table, Columns: c.value.columns, Names: c.value.names, Options: c.value.options, Lenient: o.Lenient, Flink: o.FlinkVersion, Topic: topic(t),
	})
	if valueErr != nil {
		errs = append(errs, fmt.Errorf("format: value, options '%s…': %w", c.value.prefix, valueErr))
	}
	if w, ok := d.value.(WholeDecoder); ok {
		if d.table.Encoding = encoding(c, o); d.table.Encoding != "" {
			d.whole = w
		}
	}
	if c.key.format != nil {
		d.keyColumns = c.key.columns
		d.keyTable = &changelog.Table{Name: d.table.Name, Schema: &changelog.Schema{}, Mode: changelog.Append}
		own := make([]int, len(d.keyColumns))
		for i, col := range d.keyColumns {
			d.keyTable.Schema.Columns = append(d.keyTable.Schema.Columns, c.schema.Columns[col])
			own[i] = i
		}
		p := changelog.Payload{Table: d.keyTable, Columns: own, Names: c.key.names, Options: c.key.options, Key: true, Lenient: o.Lenient, Flink: o.FlinkVersion, Topic: topic(t)}
		d.key, err = c.key.format.NewDecoder(p)
		if err != nil && valueErr != nil {
			p.Options = nil
			_, types := c.key.format.NewDecoder(p)
			err = untold(err, valueErr, types)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("format: key, options '%s…': %w", c.key.prefix, err))
		}
	}
	for i := range c.schema.Columns {
		col := &c.schema.Columns[i]
		if col.Metadata == "" {
			continue
		}
		m, err := newMetadata(i, col, c.value.format)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if m.read != nil {
			d.metadata = append(d.metadata, m)
			d.headers = d.headers || m.headers
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return d, nil
}

// Table returns the table whose rows are decoded.
func (d *Decoder) Table() *changelog.Table { return d.table }
