package flinkjson

import (
	"errors"
	"fmt"
	"sync"

	"github.com/flinksink/flinksink/changelog"
)

// Decoder decodes payloads that are rows, of the format json. Only its pool changes after it was made.
type Decoder struct {
	Options
	lenient  bool
	flink    changelog.FlinkVersion
	arrays   bool // a message may be an array of rows, and a broken one a null row: Flink 2.1
	row      rowPlan
	width    int       // of the table's rows
	decimals bool      // some column is or holds a DECIMAL: Jackson's trees then have their floats as BigDecimal
	nodes    int       // that a message may have which is read as a tree
	objects  []*Object // of an [Envelope]
	work     sync.Pool
}

// NewDecoder makes a decoder for p, whose options o are, or says which columns JSON cannot hold. format is what errors begin with.
func NewDecoder(format string, p changelog.Payload, o Options) (*Decoder, error) {
	d := &Decoder{Options: o, lenient: p.Lenient, width: len(p.Table.Schema.Columns), flink: p.Flink, nodes: maxNodes, arrays: p.Flink.Since(changelog.Flink2_1)}
	var errs []error
	d.row.index = make(map[string]int, len(p.Columns))
	for i, col := range p.Columns {
		c := &p.Table.Schema.Columns[col]
		f, err := newPlan(&c.Type)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: column %s: %w", format, c.Name, err))
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

// work is the scratch memory of one message.
type work struct {
	plain plain
	exact exact
}

// Values that rows may take beyond the size of their message: a floor, so that small messages of wide tables pass, and a rate, which for
// messages beyond a megabyte falls to a value for each byte: scalars, with what parts them, take two bytes at least. An object of two bytes
// can stand for a row of a thousand NULLs, so without a bound a message of a megabyte could ask for gigabytes.
const (
	roomFloor   = 1 << 20
	roomPerByte = 8
	roomCeiling = 8 << 20 // of what the rate gives
)

// room is how many values the rows of a message of n bytes may take.
func room(n int) int { return roomFloor + max(n, min(roomPerByte*n, roomCeiling)) }

// keptScratch is how many bytes of one kind of scratch memory a decoder keeps for the next message.
const keptScratch = 256 << 10

const tooLarge = "the rows of the message would take far more memory than the message; is it meant for this table?"

// DecodePayload implements [changelog.PayloadDecoder]. A change with a nil Row is Flink's null row: what its parser decoder hands on
// where a message breaks inside an object and 'ignore-parse-errors' is on, and for the element null of an array.
func (d *Decoder) DecodePayload(b *changelog.Batch, payload []byte, r *changelog.Record) error {
	_, err := d.DecodeWhole(b, payload, r)
	return err
}

// DecodeWhole is DecodePayload. whole says that the message is clean JSON of one object with no member that is no column, at any depth, and no number that was rounded. A message that is read in
// the exact way is never said to be whole: it has something odd in it.
func (d *Decoder) DecodeWhole(b *changelog.Batch, payload []byte, _ *changelog.Record) (whole bool, err error) {
	w, _ := d.work.Get().(*work)
	if w == nil {
		w = new(work)
	}
	defer d.work.Put(w)
	start := b.Len()
	if !d.Tree {
		if w.plain.message(d, b, payload) {
			return !w.plain.more && b.Len() == start+1, nil
		}
		b.Truncate(start)
		if w.plain.room < 0 {
			return false, &changelog.DataError{Class: changelog.OutOfRange, Reason: tooLarge} // the exact reader would only take as much again
		}
	}
	if f := w.exact.message(d, b, payload); f != nil {
		b.Truncate(start)
		return false, f.dataError()
	}
	return false, nil
}
