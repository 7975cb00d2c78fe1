package flinkjson

import "github.com/flinksink/flinksink/changelog"

// ImageEncoder writes an envelope of 'before', 'after' and what happened, as DebeziumJsonSerializationSchema and OggJsonSerializationSchema do: +I and +U
// are inserts, -U and -D deletes.
type ImageEncoder struct {
	rows           *Encoder
	insert, remove image
}

// image is what stands around a row.
type image struct{ before, after string }

// NewImageEncoder makes the encoder of rows under options. member says what happened: insert or remove.
func NewImageEncoder(rows *Encoder, o Options, member, insert, remove string) *ImageEncoder {
	e := &ImageEncoder{rows, image{`{"before":null,"after":`, ""}, image{`{"before":`, `,"after":null`}}
	if o.IgnoreNulls {
		e.insert.before, e.remove.after = `{"after":`, ""
	}
	e.insert.after += `,"` + member + `":"` + insert + `"}`
	e.remove.after += `,"` + member + `":"` + remove + `"}`
	return e
}

// AppendPayload implements [changelog.PayloadEncoder]. It is never null.
func (e *ImageEncoder) AppendPayload(dst []byte, c *changelog.Change) (out []byte, null bool, err error) {
	around := &e.insert
	if !c.Kind.Adds() {
		around = &e.remove
	}
	if out, err = e.rows.AppendRow(append(dst, around.before...), c.Row); err != nil {
		return dst, false, err
	}
	return append(out, around.after...), false, nil
}
