// Package raw reads and writes Flink's format 'raw': one column as its bytes.
//
// # Overview
//
// Text is in the charset of 'charset'; BYTES are as they are; numbers are IEEE 754 or two's complement of the type's size, in the byte
// order of 'endianness'. It agrees with RawFormatDeserializationSchema and RawFormatSerializationSchema of Flink 2.2. Kafka's null is the
// value NULL, both ways; an empty payload is an empty text. Text is written in UTF-16 with a byte order mark, big-endian, unless it is
// empty, as Java does.
//
// # Guesses
//
// Bytes that are no text in the charset (Flink puts U+FFFD there) and a BOOLEAN byte other than 0 and 1 (Flink: TRUE) are an error unless
// the Payload is Lenient. So is, in writing, a character that the charset does not have (Flink: a question mark, in UTF-16 and UTF-32 U+FFFD).
//
// # Not covered
//
// RAW types. Text in those of Java's charsets that are neither Unicode's nor of one byte a character, but for Big5, EUC-KR, GB2312, GBK, Shift_JIS,
// windows-31j, x-windows-949 and x-windows-950: GB18030, which Java 21 has otherwise than Java 17, EUC-JP, EUC-TW, Big5-HKSCS, and those that shift between
// sets of characters (ISO-2022-JP and the like). Tables of others are no way out: compared code by code, golang.org/x/text v0.41 reads EUC-JP in 7 codes and writes it in
// 463 characters otherwise than Java 17, and GB18030 in 2,087 both ways.
package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// Format is Flink's format 'raw'.
type Format struct{}

var _ changelog.Format = Format{}

// Name returns "raw".
func (Format) Name() string { return "raw" }

// Mode returns changelog.Append: the format knows no kinds of change.
func (Format) Mode() changelog.Mode { return changelog.Append }

// NewDecoder returns a *Decoder for p. Errors name the option or the column; all contradictions are joined in one error.
func (Format) NewDecoder(p changelog.Payload) (changelog.PayloadDecoder, error) {
	c, err := newCodec(p)
	if err != nil {
		return nil, err
	}
	return &Decoder{c}, nil
}

// NewEncoder returns an *Encoder for p. Errors are as those of NewDecoder.
func (Format) NewEncoder(p changelog.Payload) (changelog.PayloadEncoder, error) {
	c, err := newCodec(p)
	if err != nil {
		return nil, err
	}
	return &Encoder{c, p.Table.Schema.Columns[c.column].Name}, nil
}

// codec is what both ways need to know of a payload.
type codec struct {
	column  int
	typ     *changelog.Type
	size    int // of the type's values in bytes; 0 for text and bytes
	charset coding
	order   byteOrder
	lenient bool
}

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

func newCodec(p changelog.Payload) (codec, error) {
	if err := p.Validate(); err != nil {
		return codec{}, fmt.Errorf("raw: %w", err)
	}
	d := codec{charset: utf8Charset, order: binary.BigEndian, lenient: p.Lenient}
	var errs []error
	names := make([]string, 0, len(p.Options))
	for name := range p.Options {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v := p.Options[name]
		switch name {
		case "charset":
			// Of other types than text the charset plays no part.
			if c, err := codingOf(v); err != nil {
				errs = append(errs, fmt.Errorf("raw: %w", err))
			} else if c != nil {
				d.charset = c
			} else if holdsText(p) {
				errs = append(errs, fmt.Errorf("raw: option 'charset' is %q, which is none that this format knows; those are Java's of one byte a character, such as ISO-8859-15, windows-1252 and KOI8-R, UTF-8, UTF-16, UTF-32, "+
					"Big5, EUC-KR, GB2312, GBK, Shift_JIS, windows-31j, x-windows-949 and x-windows-950, by Java's names", v))
			}
		case "endianness":
			switch strings.ToLower(v) {
			case "big-endian":
			case "little-endian":
				d.order = binary.LittleEndian
			default:
				errs = append(errs, errors.New("raw: option 'endianness' must be 'big-endian' or 'little-endian'"))
			}
		case "line-delimiter":
			errs = append(errs, errors.New("raw: option 'line-delimiter' came with Flink 2.1.3 and is not supported here; drop it if each message is one row"))
		default:
			errs = append(errs, fmt.Errorf("raw: unknown option '%s'; the format has 'charset' and 'endianness'", name))
		}
	}
	if len(p.Columns) != 1 {
		errs = append(errs, fmt.Errorf("raw: the format takes a single column, and the payload has %d: %s", len(p.Columns), strings.Join(p.Names, ", ")))
		return codec{}, errors.Join(errs...)
	}
	d.column = p.Columns[0]
	c := &p.Table.Schema.Columns[d.column]
	d.typ = &c.Type
	switch d.typ.Root {
	case changelog.RootChar, changelog.RootVarchar, changelog.RootBinary, changelog.RootVarbinary:
	case changelog.RootBoolean, changelog.RootTinyInt:
		d.size = 1
	case changelog.RootSmallInt:
		d.size = 2
	case changelog.RootInt, changelog.RootFloat:
		d.size = 4
	case changelog.RootBigInt, changelog.RootDouble:
		d.size = 8
	default:
		errs = append(errs, fmt.Errorf("raw: column %s: the format has no type %s", c.Name, c.Type))
	}
	if err := errors.Join(errs...); err != nil {
		return codec{}, err
	}
	return d, nil
}

func holdsText(p changelog.Payload) bool {
	for _, i := range p.Columns {
		if r := p.Table.Schema.Columns[i].Type.Root; r == changelog.RootChar || r == changelog.RootVarchar {
			return true
		}
	}
	return false
}

// Decoder decodes payloads of format 'raw'. It is safe for use by several goroutines.
type Decoder struct{ codec }

// DecodeNull appends the row of Kafka's null: the column is NULL.
func (d *Decoder) DecodeNull(b *changelog.Batch, _ *changelog.Record) error {
	b.Append(changelog.Change{Kind: changelog.Insert, Row: b.NewRow()})
	return nil
}

// DecodePayload implements [changelog.PayloadDecoder].
func (d *Decoder) DecodePayload(b *changelog.Batch, p []byte, _ *changelog.Record) error {
	v, class, reason := d.value(b, p)
	if reason != "" {
		return &changelog.DataError{Class: class, Field: b.Table.Schema.Columns[d.column].Name, Reason: reason}
	}
	row := b.NewRow()
	row[d.column] = v
	b.Append(changelog.Change{Kind: changelog.Insert, Row: row})
	return nil
}

func (d *Decoder) value(b *changelog.Batch, p []byte) (v changelog.Value, class changelog.DataClass, reason string) {
	if d.size > 0 && len(p) != d.size {
		return v, changelog.WrongType, fmt.Sprintf("%d bytes where a %s has %d", len(p), d.typ, d.size)
	}
	switch d.typ.Root {
	case changelog.RootBoolean:
		if p[0] > 1 && !d.lenient {
			return v, changelog.WrongType, "a byte that is neither 0 nor 1; Flink would read TRUE"
		}
		return changelog.BoolValue(p[0] != 0), 0, ""
	case changelog.RootTinyInt:
		return changelog.IntValue(int64(int8(p[0]))), 0, ""
	case changelog.RootSmallInt:
		return changelog.IntValue(int64(int16(d.order.Uint16(p)))), 0, ""
	case changelog.RootInt:
		return changelog.IntValue(int64(int32(d.order.Uint32(p)))), 0, ""
	case changelog.RootBigInt:
		return changelog.IntValue(int64(d.order.Uint64(p))), 0, ""
	case changelog.RootFloat:
		return changelog.FloatValue(math.Float32frombits(d.order.Uint32(p))), 0, ""
	case changelog.RootDouble:
		return changelog.DoubleValue(math.Float64frombits(d.order.Uint64(p))), 0, ""
	case changelog.RootBinary, changelog.RootVarbinary:
		return changelog.BytesValue(p), 0, ""
	}
	s, clean := d.charset.decode(b, p)
	if !clean && !d.lenient {
		return v, changelog.Malformed, "bytes that are no text in the charset " + d.charset.String() + "; Flink would put U+FFFD there"
	}
	return changelog.StringBytesValue(s), 0, ""
}
