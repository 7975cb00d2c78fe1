package debeziumavro

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/registry/registrytest"
	"github.com/flinksink/flinksink/internal/rowtext"
	"github.com/twmb/avro"
)

var flinkDir = filepath.Join("..", "..", "..", "testdata", "flink")

// payloadOf makes a payload of the columns given as "a INT".
func payloadOf(t testing.TB, options map[string]string, columns ...string) changelog.Payload {
	t.Helper()
	tab := &changelog.Table{Name: "t", Schema: &changelog.Schema{}, Mode: changelog.Retract}
	p := changelog.Payload{Table: tab, Options: map[string]string{"url": "http://registry"}, Topic: "orders"}
	for k, v := range options {
		p.Options[k] = v
	}
	for i, c := range columns {
		name, typ, _ := strings.Cut(c, " ")
		ty, err := changelog.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tab.Schema.Columns = append(tab.Schema.Columns, changelog.Column{Name: name, Type: ty})
		p.Columns = append(p.Columns, i)
		p.Names = append(p.Names, name)
	}
	return p
}

// decode returns the rows as text, or the error. Unchanged columns are left out.
func decode(t testing.TB, f Format, p changelog.Payload, message []byte) (string, error) {
	t.Helper()
	d, err := f.NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	b := changelog.NewBatch(p.Table)
	if err := d.DecodePayload(b, message, nil); err != nil {
		return "", err
	}
	var out []string
	for _, c := range b.Changes {
		out = append(out, c.Kind.String()+" "+string(rowtext.AppendRow(nil, p.Table.Schema, c.Row)))
	}
	return strings.Join(out, " "), nil
}

type object = map[string]any

// Envelopes with the schemas that Debezium's connectors register, rebuilt from its documentation.
func TestDecode_Debezium(t *testing.T) {
	const unavailable = DefaultUnavailableValue
	postgres := []string{"id INT NOT NULL", "name STRING", "price DECIMAL(10, 2)", "qty INT NOT NULL", "ordered BIGINT", "day DATE", "changed STRING", "doc STRING", "photo BYTES", "tags ARRAY<STRING>"}
	mysql := []string{"id INT NOT NULL", "name STRING", "level STRING", "active SMALLINT", "created TIMESTAMP(3)", "weight DOUBLE"}
	pgSource := object{"version": "3.0.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": int64(1), "snapshot": "false", "db": "shop", "sequence": `["1","2"]`,
		"ts_us": int64(2), "ts_ns": int64(3), "schema": "public", "table": "orders", "txId": int64(4), "lsn": int64(5), "xmin": nil}
	mySource := object{"version": "2.7.0.Final", "connector": "mysql", "name": "shop", "ts_ms": int64(1), "snapshot": "last", "db": "inventory", "sequence": nil, "table": "customers",
		"server_id": int64(1), "gtid": nil, "file": "binlog.1", "pos": int64(3), "row": 0, "thread": nil, "query": nil}
	pgRow := func(change object) object {
		r := object{"id": 1, "name": "ann", "price": []byte{4, 210}, "qty": 3, "ordered": int64(1700000000123456), "day": 19000, "changed": "2024-01-02T03:04:05.6Z", "doc": `{"a":1}`, "photo": []byte{1, 2}, "tags": []any{"x", nil}}
		for k, v := range change {
			r[k] = v
		}
		return r
	}
	const pgText = `{"id":"1","name":"ann","price":"12.34","qty":"3","ordered":"1700000000123456","day":"2022-01-08","changed":"2024-01-02T03:04:05.6Z","doc":"{\"a\":1}","photo":"0102","tags":["x",null]}`
	for _, c := range []struct {
		name    string
		schema  string
		columns []string
		datum   object
		want    string
		lenient string // where it differs
	}{
		{"create", "postgres", postgres, object{"before": nil, "after": pgRow(nil), "source": pgSource, "transaction": object{"id": "t", "total_order": int64(1), "data_collection_order": int64(2)}, "op": "c"}, "+I " + pgText, ""},
		{"snapshot", "postgres", postgres, object{"before": nil, "after": pgRow(nil), "source": pgSource, "op": "r"}, "+I " + pgText, ""},
		{"update", "postgres", postgres[:2], object{"before": pgRow(nil), "after": pgRow(object{"name": "bob"}), "source": pgSource, "op": "u"}, `-U {"id":"1","name":"ann"} +U {"id":"1","name":"bob"}`, ""},
		{"update that left a large value alone", "postgres", []string{"id INT NOT NULL", "qty INT", "doc STRING", "photo BYTES", "tags ARRAY<STRING>"},
			object{"before": pgRow(nil), "after": pgRow(object{"qty": 4, "doc": unavailable, "photo": []byte(unavailable), "tags": []any{unavailable}}), "source": pgSource, "op": "u"},
			`-U {"id":"1","qty":"3","doc":"{\"a\":1}","photo":"0102","tags":["x",null]} +U {"id":"1","qty":"4","doc":"{\"a\":1}","photo":"0102","tags":["x",null]}`,
			`-U {"id":"1","qty":"3","doc":"{\"a\":1}","photo":"0102","tags":["x",null]} +U {"id":"1","qty":"4","doc":"__debezium_unavailable_value","photo":"5f5f646562657a69756d5f756e617661696c61626c655f76616c7565","tags":["__debezium_unavailable_value"]}`},
		{"and that before does not have", "postgres", []string{"id INT NOT NULL", "qty INT", "doc STRING"},
			object{"before": object{"id": 1}, "after": pgRow(object{"qty": 4, "doc": unavailable}), "source": pgSource, "op": "u"},
			`-U {"id":"1","qty":"0"} +U {"id":"1","qty":"4"}`, `-U {"id":"1","qty":"0","doc":null} +U {"id":"1","qty":"4","doc":"__debezium_unavailable_value"}`},
		{"new with the placeholder", "postgres", postgres[:2], object{"before": nil, "after": pgRow(object{"name": unavailable}), "source": pgSource, "op": "c"}, "error: field after.name: the row is new", `+I {"id":"1","name":"__debezium_unavailable_value"}`},
		{"update without before", "postgres", postgres[:2], object{"before": nil, "after": pgRow(nil), "source": pgSource, "op": "u"}, "error: REPLICA IDENTITY", ""},
		{"delete", "postgres", postgres[:2], object{"before": pgRow(nil), "after": nil, "source": pgSource, "op": "d"}, `-D {"id":"1","name":"ann"}`, ""},
		{"truncate", "postgres", postgres[:2], object{"before": nil, "after": nil, "source": pgSource, "op": "t"}, "error: 'op' is 't': the source's table was truncated", ""},
		{"message", "postgres", postgres[:2], object{"before": nil, "after": nil, "source": pgSource, "op": "m"}, "error: 'op' is 'm': a message in the source's log", ""},
		{"microseconds", "postgres", []string{"id INT NOT NULL", "ordered TIMESTAMP(3)"}, object{"before": nil, "after": pgRow(object{"ordered": int64(1000)}), "source": pgSource, "op": "c"},
			"error: field after.ordered: the message was written with long of io.debezium.time.MicroTimestamp", `+I {"id":"1","ordered":"1970-01-01 00:00:01.000"}`},
		{"a column of another name", "postgres", []string{"id INT NOT NULL", "extra STRING"}, object{"before": nil, "after": pgRow(nil), "source": pgSource, "op": "c"}, `+I {"id":"1","extra":null}`, ""},
		{"a column that is missing", "postgres", []string{"id INT NOT NULL", "extra STRING NOT NULL"}, object{"before": nil, "after": pgRow(nil), "source": pgSource, "op": "c"}, "error: field after: the message was written with a schema that lacks the field extra", ""},
		{"mysql", "mysql", mysql, object{"before": nil, "after": object{"id": 7, "name": "Ann", "level": "high", "active": 1, "created": int64(1700000000123), "weight": 1.5}, "source": mySource, "op": "c", "ts_ms": int64(9)},
			`+I {"id":"7","name":"Ann","level":"high","active":"1","created":"2023-11-14 22:13:20.123","weight":"1.5"}`, ""},
		{"mysql, an update of the key's other half", "mysql", mysql[:3], object{"before": object{"id": 7, "name": "Ann", "level": "high", "active": 1}, "after": object{"id": 7, "name": "Ann", "level": "low", "active": 1}, "source": mySource, "op": "u"},
			`-U {"id":"7","name":"Ann","level":"high"} +U {"id":"7","name":"Ann","level":"low"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", c.schema+".avsc"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := avro.Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			g := &registrytest.Registry{}
			id := map[string]byte{"postgres": 200, "mysql": 201}[c.schema]
			g.Put(int(id), registrytest.Schema{Text: string(text)})
			message, err := s.AppendEncode([]byte{0, 0, 0, 0, id}, c.datum)
			if err != nil {
				t.Fatal(err)
			}
			p := payloadOf(t, nil, c.columns...)
			if c.lenient == "" || strings.HasPrefix(c.want, "error") { // else Flink has the placeholder where we have what it stands for
				ask(t, p, c.columns, c.name, int(id), string(text), message)
			}
			for _, p.Lenient = range []bool{false, true} {
				want := c.want
				if p.Lenient && c.lenient != "" {
					want = c.lenient
				}
				got, err := decode(t, Format{HTTP: g.Client()}, p, message)
				if part, isError := strings.CutPrefix(want, "error: "); isError {
					var de *changelog.DataError
					if !errors.As(err, &de) || !strings.Contains(err.Error(), part) {
						t.Errorf("lenient %v: %s, %v; want %s", p.Lenient, got, err, want)
					}
				} else if err != nil || got != want {
					t.Errorf("lenient %v: %s, %v\nwant %s", p.Lenient, got, err, want)
				}
			}
		})
	}
}

// An outage of the registry reaches the caller as one.
func TestDecode_Outage(t *testing.T) {
	p := payloadOf(t, map[string]string{"url": "http://127.0.0.1:1"}, "id INT")
	_, err := decode(t, Format{}, p, []byte{0, 0, 0, 0, 5, 0})
	var out *changelog.UnavailableError
	if !errors.As(err, &out) {
		t.Errorf("%T: %v", err, err)
	}
}

// The schema is that of Flink's envelope, or a given one that has the same types.
func TestEncode_Schema(t *testing.T) {
	const derived = `["null",{"type":"record","name":"record","namespace":"org.apache.flink.avro.generated","fields":[` +
		`{"name":"before","type":["null",{"type":"record","name":"record_before","fields":[{"name":"id","type":["null","int"],"default":null}]}],"default":null},` +
		`{"name":"after","type":["null",{"type":"record","name":"record_after","fields":[{"name":"id","type":["null","int"],"default":null}]}],"default":null},` +
		`{"name":"op","type":["null","string"],"default":null}]}]`
	const own = `["null",{"type":"record","name":"E","fields":[{"name":"before","type":["null",{"type":"record","name":"V","fields":[{"name":"id","type":["int","null"]}]}]},{"name":"after","type":["V","null"]},{"name":"op","type":["null","string"]}]}]`
	for _, c := range []struct {
		options        map[string]string
		schema         string
		insert, remove string
	}{
		{nil, derived, "\x02\x00\x02\x02\x0e\x02\x02c", "\x02\x02\x02\x0e\x00\x02\x02d"},
		{map[string]string{"schema": own}, own, "\x02\x00\x00\x00\x0e\x02\x02c", "\x02\x02\x00\x0e\x02\x02\x02d"},
	} {
		g := &registrytest.Registry{}
		p := payloadOf(t, c.options, "id INT")
		f := Format{HTTP: g.Client()}
		e, err := f.NewEncoder(p)
		if err != nil {
			t.Fatal(err)
		}
		for kind, want := range map[changelog.Kind]string{changelog.Insert: c.insert, changelog.UpdateAfter: c.insert, changelog.UpdateBefore: c.remove, changelog.Delete: c.remove} {
			out, _, err := e.AppendPayload(nil, &changelog.Change{Kind: kind, Row: changelog.Row{changelog.IntValue(7)}})
			if err != nil || string(out) != "\x00\x00\x00\x00\x01"+want {
				t.Errorf("%s: %q, %v; want %q", kind, out, err, want)
			}
			read := "-D"
			if kind.Adds() {
				read = "+I"
			}
			if got, err := decode(t, f, p, out); err != nil || got != read+` {"id":"7"}` {
				t.Errorf("%s, %v", got, err)
			}
		}
		if got := g.Subject("orders-value"); got != c.schema {
			t.Errorf("%s", got)
		}
		if _, _, err := e.AppendPayload(nil, &changelog.Change{Row: changelog.Row{changelog.UnchangedValue()}}); err == nil || !strings.Contains(err.Error(), "field after.id: the value was not sent") {
			t.Errorf("%v", err)
		}
		if _, _, err := e.AppendPayload(nil, &changelog.Change{}); err == nil || !strings.Contains(err.Error(), "field id: the row does not have this column") {
			t.Errorf("%v", err)
		}
	}
	p := payloadOf(t, map[string]string{"schema": `{"type":"record","name":"r","fields":[{"name":"id","type":["null","int"]}]}`}, "id INT")
	if _, err := (Format{}).NewDecoder(p); err == nil || !strings.Contains(err.Error(), "debezium-avro-confluent: option 'schema' must have the types of the table") {
		t.Errorf("%v", err)
	}
}

// Whatever a message holds, a value of Debezium's own types is read, or is an error that says so.
func FuzzSourceTypes(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "sources.avsc"))
	if err != nil {
		f.Fatal(err)
	}
	g := &registrytest.Registry{}
	g.Put(1, registrytest.Schema{Text: string(text)})
	s, err := avro.Parse(string(text))
	if err != nil {
		f.Fatal(err)
	}
	for _, o := range []object{
		{"d": 1, "tm": int64(1), "ts": int64(1), "z": "2024-01-15T09:34:56.1+01:00", "de": []byte{1}, "v": object{"scale": 1, "value": []byte{1}}, "t": "1.5e-3", "x": 0.5, "b": 1},
		{"d": -1 << 31, "tm": int64(-1), "ts": int64(-1 << 63), "z": "", "de": []byte{}, "v": object{"scale": -1 << 31, "value": []byte{255}}, "t": "1e99999", "x": 1e300, "b": 2},
	} {
		m, err := s.AppendEncode(nil, object{"before": nil, "after": o, "op": "c"})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m)
	}
	p := payloadOf(f, nil, "d DATE", "tm TIME(6)", "ts TIMESTAMP(9)", "z TIMESTAMP_LTZ(3)", "de DECIMAL(38, 4)", "v DECIMAL(38, 4)", "t DECIMAL(38, 4)", "x DECIMAL(38, 4)", "b BOOLEAN")
	d, err := Format{HTTP: g.Client(), SourceTypes: true}.NewDecoder(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		b := changelog.NewBatch(p.Table)
		err := d.DecodePayload(b, append([]byte{0, 0, 0, 0, 1}, in...), nil)
		var de *changelog.DataError
		if err != nil && (!errors.As(err, &de) || de.Reason == "" || b.Len() > 0) {
			t.Fatalf("%d changes, %#v", b.Len(), err)
		}
		for _, c := range b.Changes {
			if v := c.Row[1]; v.Kind() == changelog.KindTime && (v.Time() < 0 || v.Time() >= 86400e9) {
				t.Fatalf("no time of a day: %d", v.Time())
			}
			rowtext.AppendRow(nil, p.Table.Schema, c.Row)
		}
	})
}

func FuzzDecode(f *testing.F) {
	g, err := registrytest.Load(flinkDir)
	if err != nil {
		f.Fatal(err)
	}
	for i, name := range []string{"postgres", "mysql"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".avsc"))
		if err != nil {
			f.Fatal(err)
		}
		g.Put(200+i, registrytest.Schema{Text: string(text)})
	}
	for _, name := range []string{"odd/debezium-avro-confluent.jsonl", "debezium_avro_groupby/topic.jsonl", "debezium_avro_join/topic.jsonl", "debezium_avro_topn/topic.jsonl"} {
		file, err := os.Open(filepath.Join(flinkDir, name))
		if err != nil {
			f.Fatal(err)
		}
		defer file.Close()
		for sc := bufio.NewScanner(file); sc.Scan(); {
			var o struct{ Value []byte }
			if err := json.Unmarshal(sc.Bytes(), &o); err != nil {
				f.Fatal(err)
			}
			f.Add(o.Value)
		}
	}
	f.Add([]byte("\x00\x00\x00\x00\xc8\x00\x02\x02\x00\x00\x06\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x00\xc9\x02\x02\x02\x00\x00\x06\x00\x00\x00\x00\x00\x00"))
	type mode struct {
		p       changelog.Payload
		decoder [2]changelog.PayloadDecoder // strict, lenient
		encoder changelog.PayloadEncoder
	}
	var modes []mode
	for _, columns := range [][]string{{"id INT", "name STRING"}, {"cust STRING", "n BIGINT NOT NULL", "total DECIMAL(20, 2)"}, {"id INT", "tags ARRAY<STRING>", "day DATE", "photo BYTES"}} {
		m := mode{p: payloadOf(f, nil, columns...)}
		if m.encoder, err = (Format{HTTP: g.Client()}).NewEncoder(m.p); err != nil {
			f.Fatal(err)
		}
		for i := range m.decoder {
			m.p.Lenient = i == 1
			if m.decoder[i], err = (Format{HTTP: g.Client(), UnavailableValue: NoUnavailableValue}).NewDecoder(m.p); err != nil {
				f.Fatal(err)
			}
		}
		modes = append(modes, m)
	}
	// What a decoder promises whatever comes: rows or an error; what is no guess is the same with leniency; and a row that was read is
	// read again from what an encoder makes of it.
	f.Fuzz(func(t *testing.T, in []byte) {
		for i, m := range modes {
			var results [2]string
			for k, d := range m.decoder {
				b := changelog.NewBatch(m.p.Table)
				var de *changelog.DataError
				if err := d.DecodePayload(b, in, nil); err != nil {
					if !errors.As(err, &de) || b.Len() > 0 {
						t.Fatalf("mode %d: %#v, %d changes", i, err, b.Len())
					}
					results[k] = "error"
					continue
				}
				for c := range b.Changes {
					row := string(rowtext.AppendRow(nil, m.p.Table.Schema, b.Changes[c].Row))
					results[k] += b.Changes[c].Kind.String() + row
					if k > 0 {
						continue
					}
					message, _, err := m.encoder.AppendPayload(nil, &b.Changes[c])
					if err != nil {
						t.Fatalf("mode %d: %v, %s", i, err, row)
					}
					again := changelog.NewBatch(m.p.Table)
					if err := d.DecodePayload(again, message, nil); err != nil || again.Len() != 1 {
						t.Fatalf("mode %d: %v, %s", i, err, row)
					}
					if got := string(rowtext.AppendRow(nil, m.p.Table.Schema, again.Changes[0].Row)); got != row {
						t.Fatalf("mode %d: %s, then %s", i, row, got)
					}
				}
			}
			if results[0] != "error" && results[0] != results[1] {
				t.Fatalf("mode %d: default %s, lenient %s", i, results[0], results[1])
			}
		}
	})
}
