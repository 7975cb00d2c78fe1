package format

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
)

// Encoder encodes the changes of one table as Flink's sink does. It is safe for use by several goroutines, each with its own record.
type Encoder struct {
	table   *changelog.Table
	upsert  bool
	lenient bool

	value      changelog.PayloadEncoder
	key        changelog.PayloadEncoder // nil: records have no key
	keyColumns []int
	metadata   []writer
}

var _ changelog.Encoder = (*Encoder)(nil)

// NewEncoder makes the encoder of t. formats and the table that Table returns are as for [New]. What Flink's sink refuses is refused, beside
// what [New] refuses: METADATA columns that a sink cannot fill and that are not VIRTUAL, several topics, and options of the format that
// only a reader has.
func NewEncoder(t *ddl.Table, formats []changelog.Format, o *Options) (*Encoder, error) {
	if o == nil {
		o = &Options{}
	}
	c, err := readConnector(t, formats, o.FlinkVersion)
	if err != nil {
		return nil, err
	}
	e := &Encoder{
		table:   &changelog.Table{Name: t.Name(), Schema: c.schema, Mode: c.mode()},
		upsert:  c.upsert,
		lenient: o.Lenient,
	}
	e.table.Encoding = encoding(c, o)
	errs := []error{writable(t)}
	var valueErr error
	e.value, valueErr = c.value.format.NewEncoder(changelog.Payload{
		Table: e.table, Columns: c.value.columns, Names: c.value.names, Options: c.value.options, Lenient: o.Lenient, Flink: o.FlinkVersion, Topic: topic(t),
	})
	if valueErr != nil {
		errs = append(errs, fmt.Errorf("format: value, options '%s…': %w", c.value.prefix, valueErr))
	}
	if c.key.format != nil {
		e.keyColumns = c.key.columns
		p := changelog.Payload{Table: e.table, Columns: c.key.columns, Names: c.key.names, Options: c.key.options, Key: true, Lenient: o.Lenient, Flink: o.FlinkVersion, Topic: topic(t)}
		e.key, err = c.key.format.NewEncoder(p)
		if err != nil && valueErr != nil {
			p.Options = nil
			_, types := c.key.format.NewEncoder(p)
			err = untold(err, valueErr, types)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("format: key, options '%s…': %w", c.key.prefix, err))
		}
	}
	for i := range c.schema.Columns {
		col := &c.schema.Columns[i]
		if col.Metadata == "" || col.Virtual {
			continue
		}
		w, err := newWriter(i, col, c.value.format)
		if err != nil {
			errs = append(errs, err)
		} else if w.write != nil {
			e.metadata = append(e.metadata, w)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return e, nil
}

// writable reports options with which Flink makes no sink.
func writable(t *ddl.Table) error {
	var errs []error
	if _, ok := t.Options["topic-pattern"]; ok || strings.Contains(t.Options["topic"], ";") {
		errs = append(errs, errors.New("format: the table has several topics, and records are written to one; set 'topic' to a single topic"))
	}
	if _, keyed := t.Options["key.fields"]; keyed && t.Options["sink.partitioner"] == "round-robin" {
		errs = append(errs, errors.New("format: option 'sink.partitioner' is 'round-robin', which would send changes of one key to several partitions; drop it, or drop 'key.fields'"))
	}
	positive := func(option string) bool { return strings.ContainsAny(t.Options[option], "123456789") }
	if positive("sink.buffer-flush.max-rows") != positive("sink.buffer-flush.interval") {
		errs = append(errs, errors.New("format: options 'sink.buffer-flush.max-rows' and 'sink.buffer-flush.interval' must both be greater than zero, or neither be set"))
	}
	return errors.Join(errs...)
}

// topic returns the topic of a table that has one.
func topic(t *ddl.Table) string {
	list := splitList(t.Options["topic"])
	if len(list) != 1 {
		return ""
	}
	return list[0]
}

// Table returns the table whose rows are encoded.
func (e *Encoder) Table() *changelog.Table { return e.table }

// Encode implements [changelog.Encoder]. On 'upsert-kafka' a -D, and a -U, is a null value under its key; on 'kafka' the value's format says
// what a kind becomes. Where the table has a METADATA column 'timestamp' that is not VIRTUAL and not NULL, it sets r.Timestamp too. An
// error is a *changelog.DataError with the change's own coordinates, or a *changelog.UnavailableError, and what r holds then means nothing.
func (e *Encoder) Encode(r *changelog.Record, c *changelog.Change) error {
	return e.failed(c, e.encode(r, c, false))
}

// EncodeAround is Encode, but for the value: for a change whose value is there already, in the encoding of the table ([changelog.Original]). It leaves r.Value
// alone, and checks of the change what Encode checks before it writes.
func (e *Encoder) EncodeAround(r *changelog.Record, c *changelog.Change) error {
	return e.failed(c, e.encode(r, c, true))
}

// failed gives an error the change's coordinates.
func (e *Encoder) failed(c *changelog.Change, err error) error {
	if err != nil {
		if out, ok := unavailable(err, c.Partition, c.Offset); ok {
			return out
		}
		var de *changelog.DataError
		if !errors.As(err, &de) {
			de = &changelog.DataError{Reason: "cannot be encoded", Err: err}
		}
		de.Partition, de.Offset = c.Partition, c.Offset
		return de
	}
	return nil
}

func (e *Encoder) encode(r *changelog.Record, c *changelog.Change, around bool) error {
	if err := e.check(c); err != nil {
		return err
	}
	r.Headers = nil
	for _, m := range e.metadata {
		if de := m.write(r, c.Row[m.column]); de != nil {
			de.Field = e.table.Schema.Columns[m.column].Name
			return de
		}
	}
	var err error
	if e.key == nil {
		r.Key = nil
	} else if r.Key, err = payload(e.key, r.Key, c, "key"); err != nil {
		return err
	}
	if around {
		return nil
	}
	if e.upsert && !c.Kind.Adds() {
		r.Value = nil
		return nil
	}
	if r.Value, err = payload(e.value, r.Value, c, "value"); err != nil {
		return err
	}
	if r.Value == nil && e.upsert && !e.lenient {
		return dataError(changelog.Missing, "value", "", "the value's format writes this row as null, and on 'upsert-kafka' that is a delete")
	}
	return nil
}

// check reports a change that the table's records cannot say.
func (e *Encoder) check(c *changelog.Change) error {
	switch {
	case len(c.Row) != len(e.table.Schema.Columns):
		return dataError(changelog.SchemaMismatch, "", "", "the row does not have the columns of its table")
	case !e.upsert && !e.table.Mode.Contains(c.Kind):
		return dataError(changelog.UnknownOp, "", "", "the table holds inserts only, and the change is a "+c.Kind.String())
	case c.KeyOnly && !e.upsert:
		return dataError(changelog.Missing, "", "", "the delete knows its key only, and the table's format writes all of the row")
	}
	if !e.upsert || e.lenient {
		return nil
	}
	for _, col := range e.keyColumns {
		if c.Row[col].IsNull() {
			return dataError(changelog.Missing, "key", e.table.Schema.Columns[col].Name, "a column of the PRIMARY KEY is NULL")
		}
	}
	return nil
}

// payload encodes a payload into the memory of dst. nil is Kafka's null, and an empty payload is not nil.
func payload(p changelog.PayloadEncoder, dst []byte, c *changelog.Change, part string) ([]byte, error) {
	out, null, err := p.AppendPayload(dst[:0], c)
	switch {
	case err != nil:
		return dst, inPart(err, part)
	case null:
		return nil, nil
	case out == nil:
		return []byte{}, nil
	}
	return out, nil
}

// writer fills a part of the record from one METADATA column.
type writer struct {
	column int
	write  func(r *changelog.Record, v changelog.Value) *changelog.DataError
}

// newWriter checks the column's key and type (KafkaDynamicSink.WritableMetadata). The topic is the table's, whatever the column says.
func newWriter(column int, c *changelog.Column, value changelog.Format) (writer, error) {
	w := writer{column: column}
	switch c.Metadata {
	case "topic":
	case "timestamp":
		w.write = writeTimestamp
	case "headers":
		w.write = writeHeaders
	case "header-list":
		w.write = writeHeaderList
	default:
		return w, fmt.Errorf("format: column %s: metadata '%s' cannot be written; declare the column VIRTUAL. A sink writes headers, header-list and timestamp", c.Name, c.Metadata)
	}
	_, err := newMetadata(column, c, value)
	return w, err
}

func writeTimestamp(r *changelog.Record, v changelog.Value) *changelog.DataError {
	if v.IsNull() {
		return nil
	}
	if v.Kind() != changelog.KindTimestampLTZ {
		return &changelog.DataError{Class: changelog.WrongType, Reason: "not a TIMESTAMP_LTZ"}
	}
	sec, nsec := v.Timestamp()
	if sec < 0 || sec > 1<<50 {
		return &changelog.DataError{Class: changelog.OutOfRange, Reason: "Kafka's timestamps are milliseconds from 1970 on, and this one is out of their range"}
	}
	r.Timestamp = sec*1000 + int64(nsec)/1e6
	return nil
}

// writeHeaders leaves out headers whose name or value is NULL, as connectors up to 5.0 do.
func writeHeaders(r *changelog.Record, v changelog.Value) *changelog.DataError {
	pairs := v.Elems()
	if !v.IsNull() && (v.Kind() != changelog.KindMap || len(pairs)%2 != 0) {
		return &changelog.DataError{Class: changelog.WrongType, Reason: "not a MAP"}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].IsNull() || pairs[i+1].IsNull() {
			continue
		}
		if de := addHeader(r, pairs[i], pairs[i+1]); de != nil {
			return de
		}
	}
	return nil
}

// writeHeaderList keeps headers whose value is NULL.
func writeHeaderList(r *changelog.Record, v changelog.Value) *changelog.DataError {
	if !v.IsNull() && v.Kind() != changelog.KindArray {
		return &changelog.DataError{Class: changelog.WrongType, Reason: "not an ARRAY"}
	}
	for _, h := range v.Elems() {
		f := h.Elems()
		if h.IsNull() || len(f) == 2 && f[0].IsNull() {
			continue
		}
		if h.Kind() != changelog.KindRow || len(f) != 2 {
			return &changelog.DataError{Class: changelog.WrongType, Reason: "an element is no ROW<key STRING, value BYTES>"}
		}
		if de := addHeader(r, f[0], f[1]); de != nil {
			return de
		}
	}
	return nil
}

func addHeader(r *changelog.Record, name, value changelog.Value) *changelog.DataError {
	if name.Kind() != changelog.KindString || !value.IsNull() && value.Kind() != changelog.KindBytes {
		return &changelog.DataError{Class: changelog.WrongType, Reason: "a header is not a STRING with BYTES"}
	}
	h := changelog.Header{Key: name.Str()}
	if !value.IsNull() {
		h.Value = value.Bytes()
	}
	r.Headers = append(r.Headers, h)
	return nil
}
