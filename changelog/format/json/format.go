package json

import (
	"errors"
	"fmt"
	"sync"

	"github.com/flinksink/flinksink/changelog"
)

// Format is Flink's format 'json'.
type Format struct{}

var _ changelog.Format = Format{}

// Name returns "json".
func (Format) Name() string { return "json" }

// Mode returns changelog.Append: the format knows no kinds of change.
func (Format) Mode() changelog.Mode { return changelog.Append }

// NewEncoder returns an error: the format is read only so far.
func (Format) NewEncoder(changelog.Payload) (changelog.PayloadEncoder, error) {
	return nil, errors.New("json: writing the format 'json' is not available yet; it can be read")
}

// NewDecoder returns a decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	o, err := parseOptions(p.Options)
	errs := []error{err}
	d := &decoder{options: o, lenient: p.Lenient, width: len(p.Table.Schema.Columns)}
	d.row.index = make(map[string]int, len(p.Columns))
	for i, col := range p.Columns {
		c := &p.Table.Schema.Columns[col]
		f, err := newPlan(&c.Type)
		if err != nil {
			errs = append(errs, fmt.Errorf("json: column %s: %w", c.Name, err))
			continue
		}
		d.row.add(p.Names[i], col, f)
		d.decimals = d.decimals || hasDecimal(&c.Type)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return d, nil
}

// decoder is one payload's decoder. Only the pool changes after it was made.
type decoder struct {
	options
	lenient  bool
	row      rowPlan
	width    int  // of the table's rows
	decimals bool // some column is or holds a DECIMAL: Jackson's trees then have their floats as BigDecimal
	work     sync.Pool
}

// work is the scratch memory of one DecodePayload.
type work struct {
	plain plain
	exact exact
}

// Values that rows may take beyond the size of their message: a floor, so that small messages of wide tables pass, and a rate. An
// object of two bytes can stand for a row of a thousand NULLs, so without a bound a message of a megabyte could ask for gigabytes.
const (
	roomFloor   = 1 << 20
	roomPerByte = 8
)

// keptScratch is how many bytes of one kind of scratch memory a decoder keeps for the next message.
const keptScratch = 256 << 10

const tooLarge = "the rows of the message would take far more memory than the message; is it meant for this table?"

// DecodePayload implements [changelog.PayloadDecoder]. A change with a nil Row is Flink's null row; see the package comment.
func (d *decoder) DecodePayload(b *changelog.Batch, payload []byte, _ *changelog.Record) error {
	w, _ := d.work.Get().(*work)
	if w == nil {
		w = new(work)
	}
	defer d.work.Put(w)
	start := b.Len()
	if !d.tree {
		if w.plain.message(d, b, payload) {
			return nil
		}
		b.Truncate(start)
		if w.plain.room < 0 {
			return &changelog.DataError{Reason: tooLarge} // the exact reader would only take as much again
		}
	}
	if f := w.exact.message(d, b, payload); f != nil {
		b.Truncate(start)
		return &changelog.DataError{Field: f.path, Reason: f.reason}
	}
	return nil
}
