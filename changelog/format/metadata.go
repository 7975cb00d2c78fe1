package format

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// metadata fills one METADATA column from the record.
type metadata struct {
	column  int
	headers bool
	read    func(b *changelog.Batch, r *changelog.Record) changelog.Value
}

// metadataTypes lists the keys that the connector can read with their types (KafkaDynamicSource.ReadableMetadata).
const metadataTypes = "topic STRING, partition INT, headers MAP<STRING, BYTES>, header-list ARRAY<ROW<key STRING, value BYTES>>, " +
	"leader-epoch INT, offset BIGINT, timestamp TIMESTAMP_LTZ(3), timestamp-type STRING"

// newMetadata checks the column's key and type. Metadata of the value's format, "value.…", is filled by the format: read is nil then.
func newMetadata(column int, c *changelog.Column, value changelog.Format) (metadata, error) {
	m := metadata{column: column}
	t := &c.Type
	var takes string
	var fits bool
	text := t.Root == changelog.RootVarchar && t.Length == changelog.MaxLength
	switch c.Metadata {
	case "topic":
		takes, fits = "STRING", text
		m.read = func(_ *changelog.Batch, r *changelog.Record) changelog.Value { return changelog.StringValue(r.Topic) }
	case "partition":
		takes, fits = "INT or BIGINT", t.Root == changelog.RootInt || t.Root == changelog.RootBigInt
		m.read = func(_ *changelog.Batch, r *changelog.Record) changelog.Value {
			return changelog.IntValue(int64(r.Partition.Partition))
		}
	case "offset":
		takes, fits = "BIGINT", t.Root == changelog.RootBigInt
		m.read = func(_ *changelog.Batch, r *changelog.Record) changelog.Value { return changelog.IntValue(r.Offset) }
	case "leader-epoch":
		takes, fits = "INT or BIGINT", t.Root == changelog.RootInt || t.Root == changelog.RootBigInt
		m.read = func(_ *changelog.Batch, r *changelog.Record) changelog.Value {
			if r.LeaderEpoch < 0 {
				return changelog.Value{}
			}
			return changelog.IntValue(int64(r.LeaderEpoch))
		}
	case "timestamp":
		takes, fits = "TIMESTAMP_LTZ(3)", t.Root == changelog.RootTimestampLTZ
		unit := int64(1)
		for p := t.Precision; p < 3; p++ {
			unit *= 10
		}
		m.read = func(_ *changelog.Batch, r *changelog.Record) changelog.Value { return timestamp(r.Timestamp, unit) }
	case "timestamp-type":
		takes, fits = "STRING", text
		m.read = func(_ *changelog.Batch, r *changelog.Record) changelog.Value {
			return changelog.StringValue(r.TimestampType.String())
		}
	case "headers":
		takes, fits = "MAP<STRING, BYTES>", t.Root == changelog.RootMap && isText(t.Key) && isBytes(t.Elem)
		m.headers, m.read = true, headerMap
	case "header-list":
		takes = "ARRAY<ROW<key STRING, value BYTES>>"
		fits = t.Root == changelog.RootArray && t.Elem.Root == changelog.RootRow && len(t.Elem.Fields) == 2 &&
			isText(&t.Elem.Fields[0].Type) && isBytes(&t.Elem.Fields[1].Type)
		m.headers, m.read = true, headerList
	default:
		if strings.HasPrefix(c.Metadata, "value.") {
			if value.Mode() != changelog.Append {
				return m, nil
			}
			return m, fmt.Errorf("format: column %s: the value format '%s' has no metadata, so not '%s'", c.Name, value.Name(), c.Metadata)
		}
		return m, fmt.Errorf("format: column %s: the connector has no metadata '%s'; it has %s", c.Name, c.Metadata, metadataTypes)
	}
	if !fits {
		return m, fmt.Errorf("format: column %s: metadata '%s' must be declared %s here; the column is %s", c.Name, c.Metadata, takes, *t)
	}
	return m, nil
}

func isText(t *changelog.Type) bool {
	return t.Root == changelog.RootVarchar && t.Length == changelog.MaxLength
}

func isBytes(t *changelog.Type) bool {
	return t.Root == changelog.RootVarbinary && t.Length == changelog.MaxLength
}

// timestamp cuts milliseconds off to a multiple of unit.
func timestamp(millis, unit int64) changelog.Value {
	sec, ms := millis/1000, millis%1000
	if ms < 0 {
		sec, ms = sec-1, ms+1000
	}
	return changelog.TimestampLTZValue(sec, int32(ms-ms%unit)*1e6)
}

func headerMap(b *changelog.Batch, r *changelog.Record) changelog.Value {
	pairs := b.NewValues(2 * len(r.Headers))[:0]
	at := make(map[string]int, len(r.Headers))
	for _, h := range r.Headers {
		key, value := headerValues(h)
		if i, ok := at[key.Str()]; ok {
			pairs[i+1] = value
			continue
		}
		at[key.Str()] = len(pairs)
		pairs = append(pairs, key, value)
	}
	return changelog.MapValue(pairs)
}

func headerList(b *changelog.Batch, r *changelog.Record) changelog.Value {
	list := b.NewValues(len(r.Headers))
	for i, h := range r.Headers {
		fields := b.NewValues(2)
		fields[0], fields[1] = headerValues(h)
		list[i] = changelog.RowValue(fields)
	}
	return changelog.ArrayValue(list)
}

func headerValues(h changelog.Header) (key, value changelog.Value) {
	name := h.Key
	if !utf8.ValidString(name) {
		name = strings.ToValidUTF8(name, "\uFFFD")
	}
	if h.Value != nil {
		value = changelog.BytesValue(h.Value)
	}
	return changelog.StringValue(name), value
}
