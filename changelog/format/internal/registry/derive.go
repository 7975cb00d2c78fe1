package registry

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// derived is the schema that Flink registers for a type: AvroSchemaConverter.convertToSchema, as Schema.toString writes it.
func derived(p *flinkavro.Plan) (string, error) {
	d := deriver{names: map[string]bool{}}
	text := d.append(nil, p)
	if d.twice != "" {
		return "", fmt.Errorf("two ROWs would both be the record %s in Avro; rename one of their columns or fields", d.twice)
	}
	return string(text), nil
}

type deriver struct {
	names map[string]bool
	twice string
}

func (d *deriver) append(dst []byte, p *flinkavro.Plan) []byte {
	if p.Type.NotNull {
		return d.inner(dst, p)
	}
	return append(d.inner(append(dst, `["null",`...), p), ']')
}

func (d *deriver) inner(dst []byte, p *flinkavro.Plan) []byte {
	logical := func(base, name string) []byte {
		return append(append(append(append(append(dst, `{"type":"`...), base...), `","logicalType":"`...), name...), `"}`...)
	}
	switch p.Type.Root {
	case changelog.RootDate:
		return logical("int", "date")
	case changelog.RootTime:
		return logical("int", "time-millis")
	case changelog.RootTimestamp:
		return logical("long", "timestamp-millis")
	case changelog.RootDecimal:
		dst = append(dst, `{"type":"bytes","logicalType":"decimal","precision":`...)
		dst = strconv.AppendInt(dst, int64(p.Type.Precision), 10)
		dst = strconv.AppendInt(append(dst, `,"scale":`...), int64(p.Type.Scale), 10)
		return append(dst, '}')
	case changelog.RootArray:
		return append(d.append(append(dst, `{"type":"array","items":`...), p.Elem), '}')
	case changelog.RootMap, changelog.RootMultiset:
		return append(d.append(append(dst, `{"type":"map","values":`...), p.Elem), '}')
	case changelog.RootRow:
		return d.record(dst, p)
	}
	return append(append(append(dst, '"'), p.Branch()...), '"')
}

func (d *deriver) record(dst []byte, p *flinkavro.Plan) []byte {
	if d.names[p.Record] {
		d.twice = p.Record
	}
	d.names[p.Record] = true
	dot := strings.LastIndexByte(p.Record, '.')
	dst = append(dst, `{"type":"record","name":`...)
	dst, _ = flinkjson.AppendString(dst, []byte(p.Record[dot+1:])) // a name of Avro is text
	if p.Record == flinkavro.RootName {                            // what is in it has its namespace
		dst = append(append(append(dst, `,"namespace":"`...), p.Record[:dot]...), '"')
	}
	dst = append(dst, `,"fields":[`...)
	for i := range p.Fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		f := &p.Fields[i]
		dst = append(dst, `{"name":`...)
		dst, _ = flinkjson.AppendString(dst, []byte(p.Type.Fields[i].Name))
		dst = d.append(append(dst, `,"type":`...), f)
		if !f.Type.NotNull {
			dst = append(dst, `,"default":null`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}
