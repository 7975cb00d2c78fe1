package debezium

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// metadata fills one METADATA column of the table.
type metadata struct {
	column   int
	member   int    // of the decoder's members
	property string // of the map that the member is; "" for the member itself
	millis   bool   // the value is milliseconds since the Unix epoch
	unit     int64  // milliseconds that the column's precision holds
}

// member is a member of the envelope that metadata is read from. Several columns may share it.
type member struct {
	field  *flinkjson.Field
	name   string
	inRoot bool // of the message, rather than of the payload
}

// metadataTypes lists what the format has, with its types (DebeziumJsonDecodingFormat.ReadableMetadata).
const metadataTypes = "schema STRING, ingestion-timestamp TIMESTAMP_LTZ(3), source.timestamp TIMESTAMP_LTZ(3), source.database STRING, " +
	"source.schema STRING, source.table STRING, source.properties MAP<STRING, STRING>"

// addMetadata makes the reader of a column if it is one of the format's.
func (d *decoder) addMetadata(column int, c *changelog.Column) error {
	key, ok := strings.CutPrefix(c.Metadata, "value.")
	if !ok {
		return nil
	}
	m := metadata{column: column, unit: 1}
	isText := func(t *changelog.Type) bool {
		return t != nil && t.Root == changelog.RootVarchar && t.Length == changelog.MaxLength
	}
	takes, fits := "STRING", isText(&c.Type)
	const properties = "MAP<STRING, STRING>"
	name, typ := "source", properties
	switch key {
	case "schema":
		name, typ = "schema", "STRING"
	case "ingestion-timestamp":
		name, typ, m.millis = "ts_ms", "BIGINT", true
	case "source.timestamp":
		m.property, m.millis = "ts_ms", true
	case "source.database":
		m.property = "db"
	case "source.schema":
		m.property = "schema"
	case "source.table":
		m.property = "table"
	case "source.properties":
		takes, fits = properties, c.Type.Root == changelog.RootMap && isText(c.Type.Key) && isText(c.Type.Elem)
	default:
		return fmt.Errorf("column %s: the format has no metadata '%s'; it has %s, each under 'value.'", c.Name, key, metadataTypes)
	}
	if m.millis {
		takes, fits = "TIMESTAMP_LTZ(3)", c.Type.Root == changelog.RootTimestampLTZ
		for p := c.Type.Precision; p < 3; p++ {
			m.unit *= 10
		}
	}
	if !fits {
		return fmt.Errorf("column %s: metadata 'value.%s' must be declared %s; the column is %s", c.Name, key, takes, c.Type)
	}
	m.member = slices.IndexFunc(d.members, func(mb member) bool { return mb.name == name })
	if m.member < 0 {
		field, err := flinkjson.NewField(name, typ)
		if err != nil {
			return err
		}
		m.member = len(d.members)
		d.members = append(d.members, member{field, name, key == "schema"})
	}
	d.metadata = append(d.metadata, m)
	return nil
}

// readMetadata returns the values of d.metadata. They are NULL where the message has none.
func (d *decoder) readMetadata(b *changelog.Batch, t *flinkjson.Tree, root, body *flinkjson.Node) ([]changelog.Value, *flinkjson.Failure) {
	members := b.NewValues(len(d.members))
	for i := range d.members {
		of := body
		if d.members[i].inRoot {
			of = root
		}
		var f *flinkjson.Failure
		if members[i], f = t.Value(d.members[i].field, of); f != nil {
			return nil, f
		}
	}
	return d.metadataOf(b, members)
}

// metadataOf makes the values of d.metadata of the values of d.members.
func (d *decoder) metadataOf(b *changelog.Batch, members []changelog.Value) ([]changelog.Value, *flinkjson.Failure) {
	if len(d.metadata) == 0 {
		return nil, nil
	}
	values := b.NewValues(len(d.metadata))
	for i := range d.metadata {
		m := &d.metadata[i]
		v := members[m.member]
		if m.property != "" {
			v = entryOf(v, m.property)
		}
		if m.millis && !v.IsNull() {
			millis := v.Int()
			if m.property != "" {
				var err error
				if millis, err = flinkjson.ParseLong(v.Str()); err != nil {
					return nil, flinkjson.Misfit(changelog.WrongType, err.Error()).At(m.property).At("source")
				}
			}
			v = m.timestamp(millis)
		}
		values[i] = v
	}
	return values, nil
}

// entryOf returns the value of a map's key, or NULL.
func entryOf(v changelog.Value, key string) changelog.Value {
	pairs := v.Elems()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].Str() == key {
			return pairs[i+1]
		}
	}
	return changelog.Value{}
}

func (m *metadata) timestamp(millis int64) changelog.Value {
	sec, ms := millis/1000, millis%1000
	if ms < 0 {
		sec, ms = sec-1, ms+1000
	}
	return changelog.TimestampLTZValue(sec, int32(ms-ms%m.unit)*1e6)
}
