package main

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/avro"
	"github.com/flinksink/flinksink/changelog/format/avroconfluent"
	"github.com/flinksink/flinksink/changelog/format/canal"
	"github.com/flinksink/flinksink/changelog/format/csv"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/changelog/format/debeziumavro"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/changelog/format/maxwell"
	"github.com/flinksink/flinksink/changelog/format/ogg"
	"github.com/flinksink/flinksink/changelog/format/raw"
)

// header is how many bytes a message has before its row where its schema is in a registry.
const header = 5

// group is one wire format with those who read it.
type group struct {
	name   string
	rows   []order
	ours   *ours
	rivals []rival
	want   float64 // rows a second of one core that were set, 0: none
	allocs float64 // the most allocations a row that were set, -1: none
}

// rival decodes messages into orders: an old row before its new one.
type rival struct {
	name   string
	apart  bool // it does another thing, and is shown to compare
	decode func(messages [][]byte, into *[]order) error
}

// groups are their names, in the order in which they are measured.
func groups() []string {
	return []string{"json", "debezium-json", debeziumItself, "canal-json", "maxwell-json", "ogg-json", "avro", "avro-confluent", "debezium-avro-confluent", "csv", "protobuf", "raw"}
}

// debeziumItself is of updates that Debezium wrote: both rows, and where they come from.
const debeziumItself = "debezium-json of Debezium"

// newGroup makes a group of n messages.
func newGroup(name string, n int) (*group, error) {
	g := &group{name: name, allocs: -1}
	for i := range n {
		g.rows = append(g.rows, orderAt(i))
	}
	var err error
	switch name {
	case "json":
		g.want, g.allocs = 1.5e6, 1
		g.rivals, err = g.text(json.Format{}, shape{})
	case "debezium-json":
		g.want = 0.8e6
		g.rivals, err = g.text(debezium.Format{}, shape{row: "after", old: "before"})
	case debeziumItself:
		if g.ours, err = newOurs(debezium.Format{}, columns); err == nil {
			g.ours.changes, g.ours.encoder = 2, nil
			err = g.updates()
			g.rivals = jsonRivals(shape{row: "after", old: "before"})
		}
	case "canal-json":
		g.want = 0.8e6
		g.rivals, err = g.text(canal.Format{}, shape{row: "data", old: "old", many: true})
	case "maxwell-json":
		g.rivals, err = g.text(maxwell.Format{}, shape{row: "data", old: "old"})
	case "ogg-json":
		g.rivals, err = g.text(ogg.Format{}, shape{row: "after", old: "before"})
	case "avro":
		g.want = 1.2e6
		if g.ours, err = newOurs(avro.Format{}, columns); err == nil {
			err = g.ours.write(g.rows)
			g.rivals = avroRivals[avroOrder](0, func() string { return schema })
		}
	case "avro-confluent":
		r := &registry{}
		g.want = 1.2e6
		if g.ours, err = newOurs(avroconfluent.Format{HTTP: r.client()}, columns, "'avro-confluent.url' = 'http://registry'"); err == nil {
			err = g.ours.write(g.rows)
			g.rivals = avroRivals[avroOrder](header, func() string { return r.schema })
		}
	case "debezium-avro-confluent":
		r := &registry{}
		if g.ours, err = newOurs(debeziumavro.Format{HTTP: r.client()}, columns, "'debezium-avro-confluent.url' = 'http://registry'"); err == nil {
			err = g.ours.write(g.rows)
			// The message is a union of null and the envelope; both libraries are spared that, and begin behind its branch.
			g.rivals = avroRivals[avroEnvelope](header+1, func() string { return strings.TrimSuffix(strings.TrimPrefix(r.schema, `["null",`), "]") })
		}
	case "protobuf":
		if g.ours, g.rivals, err = newProtobuf(); err == nil {
			err = g.ours.write(g.rows)
		}
	case "raw": // one column, which is the message; no library does that
		for i := range g.rows {
			g.rows[i] = order{Note: g.rows[i].Note}
		}
		if g.ours, err = newOurs(raw.Format{}, "note STRING"); err == nil {
			g.ours.row = func(o *order) changelog.Row { return changelog.Row{changelog.StringValue(o.Note)} }
			g.ours.back = func(row changelog.Row) order { return order{Note: row[0].Str()} }
			err = g.ours.write(g.rows)
		}
	case "csv":
		g.want = 1.5e6
		if g.ours, err = newOurs(csv.Format{}, columns); err == nil {
			err = g.ours.write(g.rows)
			g.rivals = csvRivals()
		}
	default:
		err = fmt.Errorf("there is no group %q", name)
	}
	return g, err
}

// text makes a group of rows as JSON.
func (g *group) text(f changelog.Format, s shape) ([]rival, error) {
	var err error
	if g.ours, err = newOurs(f, columns); err != nil {
		return nil, err
	}
	return jsonRivals(s), g.ours.write(g.rows)
}

// updates makes messages of updates as Debezium's connector for Postgres writes them without a schema, with REPLICA IDENTITY FULL.
func (g *group) updates() error {
	rows, err := newOurs(json.Format{}, columns)
	if err != nil {
		return err
	}
	if err := rows.write(g.rows); err != nil {
		return err
	}
	news := g.rows
	g.rows = nil
	for i, after := range rows.messages {
		k := (i + 1) % len(rows.messages)
		before := rows.messages[k]
		g.rows = append(g.rows, news[k], news[i])
		g.ours.messages = append(g.ours.messages, fmt.Appendf(nil, `{"before":%s,"after":%s,"source":{"version":"3.2.0.Final","connector":"postgresql","name":"shop",`+
			`"ts_ms":1715933350%03d,"snapshot":"false","db":"shop","sequence":"[\"24023119\",\"24023128\"]","ts_us":1715933350%03d123,"ts_ns":1715933350%03d123000,"schema":"public",`+
			`"table":"orders","txId":%d,"lsn":%d,"xmin":null},"transaction":null,"op":"u","ts_ms":1715933350798,"ts_us":1715933350798456,"ts_ns":1715933350798456123}`,
			before, after, i%1000, i%1000, i%1000, 500+i, 24023128+i))
	}
	return nil
}

// textOf is the text that b holds, without a copy; b must not change any more.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
