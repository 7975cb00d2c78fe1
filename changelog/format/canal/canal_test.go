package canal

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
	"github.com/flinksink/flinksink/internal/rowtext"
)

func TestNewDecoder_Refuses(t *testing.T) {
	for _, c := range []struct {
		f       Format
		options map[string]string
		columns []string
		want    string // in the error; "" for none
	}{
		{Format{}, map[string]string{"ignore-parse-errors": "true", "timestamp-format.standard": "ISO-8601", "map-null-key.mode": "DROP", "map-null-key.literal": "x",
			"encode.decimal-as-plain-number": "true", "encode.ignore-null-fields": "true", "database.include": "(?i)shop_[0-9]+", "table.include": ""}, []string{"a INT"}, ""},
		{Format{}, map[string]string{"database.includes": "x"}, []string{"a INT"}, "canal-json: unknown option 'database.includes'; the nearest that the format has is 'database.include'"},
		{Format{}, map[string]string{"fail-on-missing-field": "true"}, []string{"a INT"}, "unknown option"},
		{Format{}, map[string]string{"table.include": "a(?=b)"}, []string{"a INT"}, "option 'table.include' is no regular expression"},
		{Format{}, map[string]string{"database.include": "("}, []string{"a INT"}, "option 'database.include'"},
		{Format{MaxRows: -1}, nil, []string{"a INT"}, "Format.MaxRows is -1"},
		{Format{}, nil, []string{"a MAP<INT, INT>"}, "column a"},
		{Format{}, nil, []string{"a INT", "m STRING FROM value.databse"}, "no metadata 'databse'; it has database STRING, table STRING, sql-type MAP<STRING, INT>"},
		{Format{}, nil, []string{"a INT", "m TIMESTAMP_LTZ(6) FROM value.event-timestamp"}, ""},
		{Format{}, nil, []string{"a INT", "m TIMESTAMP(3) FROM value.event-timestamp"}, "must be declared TIMESTAMP_LTZ(3)"},
		{Format{}, nil, []string{"a INT", "m ARRAY<INT> FROM value.pk-names"}, "must be declared ARRAY<STRING>"},
	} {
		_, err := c.f.NewDecoder(formattest.Payload(t, c.options, nil, c.columns...))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %v: error %v, want %q in it", c.options, c.columns, err, c.want)
		}
	}
}

func TestNewEncoder_Refuses(t *testing.T) {
	_, err := Format{}.NewEncoder(formattest.Payload(t, map[string]string{"encode.ignore-null-fields": "maybe"}, nil, "a MAP<INT, INT>"))
	for _, want := range []string{"'encode.ignore-null-fields'", "column a"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestEncode_Kinds(t *testing.T) {
	for _, c := range []struct {
		ignoreNulls string
		kind        changelog.Kind
		want        string
	}{
		{"false", changelog.Insert, `{"data":[{"id":1,"name":null}],"type":"INSERT"}`},
		{"false", changelog.UpdateAfter, `{"data":[{"id":1,"name":null}],"type":"INSERT"}`},
		{"false", changelog.UpdateBefore, `{"data":[{"id":1,"name":null}],"type":"DELETE"}`},
		{"true", changelog.Delete, `{"data":[{"id":1}],"type":"DELETE"}`},
	} {
		e, err := Format{}.NewEncoder(formattest.Payload(t, map[string]string{"encode.ignore-null-fields": c.ignoreNulls}, nil, "id INT", "name STRING"))
		if err != nil {
			t.Fatal(err)
		}
		got, null, err := e.AppendPayload([]byte("x"), &changelog.Change{Kind: c.kind, Row: changelog.Row{changelog.IntValue(1), {}}})
		if err != nil || null || string(got) != "x"+c.want {
			t.Errorf("%s: %s, %v, %v", c.kind, got, null, err)
		}
	}
}

// What Flink answered is checked where records are assembled; here is what a PRIMARY KEY changes, and what is stricter.
func TestDecode_OldRows(t *testing.T) {
	columns := []string{"id INT", "name STRING", "n INT"}
	keyed := formattest.Payload(t, nil, []int{0}, columns...)
	formattest.Check(t, Format{}, keyed, formattest.Messages{
		// Flink reads NULL for the name of 1 and the n of 2: each is named by the other row's change.
		{`{"data":[{"id":1,"name":"a","n":8},{"id":2,"name":"c","n":9}],"old":[{"n":7},{"name":"b"}],"type":"UPDATE"}`,
			`-U {"id":"1","name":"a","n":"7"} +U {"id":"1","name":"a","n":"8"} -U {"id":"2","name":"b","n":"9"} +U {"id":"2","name":"c","n":"9"}`},
		{`{"data":[{"id":1,"name":"a","n":8}],"old":[{"n":null}],"type":"UPDATE"}`, `-U {"id":"1","name":"a","n":null} +U {"id":"1","name":"a","n":"8"}`},
		{`{"data":[{"id":1,"name":"a","n":8}],"old":[{"id":0}],"type":"UPDATE"}`, `-U {"id":"0","name":"a","n":"8"} +U {"id":"1","name":"a","n":"8"}`},
		{`{"data":[{"id":1,"name":"a"}],"old":[{"name":"b"}],"type":"UPDATE"}`, `-U {"id":"1","name":"b"} +U {"id":"1","name":"a","n":null}`},
		{`{"data":[{"id":1}],"old":[{}],"type":"UPDATE"}`, `-U key {"id":"1","name":null,"n":null} +U {"id":"1","name":null,"n":null}`},
		{`{"data":[{"id":1}],"type":"DELETE"}`, `-D key {"id":"1","name":null,"n":null}`},
		{`{"data":[{"id":1,"n":5}],"type":"DELETE"}`, `-D {"id":"1","n":"5"}`},
		{`{"data":[{"id":1,"name":{"x":1},"n":1}],"old":[{"name":{"x":0}}],"type":"UPDATE"}`, `-U {"id":"1","name":"{\"x\":0}","n":"1"} +U {"id":"1","name":"{\"x\":1}","n":"1"}`},
	})
	formattest.Check(t, Format{}, formattest.Payload(t, nil, nil, columns...), formattest.Messages{
		{`{"data":[{"id":1}],"type":"DELETE"}`, "field data[0].name: the old row lacks this column"},
		{`{"data":[{"id":1,"n":2}],"old":[{}],"type":"UPDATE"}`, "field old[0].name: the old row lacks this column"},
	})
	formattest.Check(t, Format{}, formattest.Payload(t, map[string]string{"encode.ignore-null-fields": "true"}, nil, columns...), formattest.Messages{
		{`{"data":[{"id":1}],"type":"DELETE"}`, `-D {"id":"1","name":null,"n":null}`},
	})
	// Who ignores errors does not ask for half of a message.
	ignore := formattest.Payload(t, map[string]string{"ignore-parse-errors": "true"}, nil, columns...)
	formattest.Check(t, Format{}, ignore, formattest.Messages{
		{`{"data":[{"id":1,"name":"a","n":8},{"id":2,"name":"a","n":8}],"old":[{"n":7}],"type":"UPDATE"}`, "[1]: 'old' has fewer rows than 'data'; Flink would read the rows before it"},
		{`{"data":[{"id":1,"name":"a","n":8},null],"type":"INSERT"}`, "[1]: a row of 'data' is null"},
		{`{"data":[null,{"id":1,"name":"a","n":8}],"type":"INSERT"}`, ``},
	})
	ignore.Lenient = true
	formattest.Check(t, Format{}, ignore, formattest.Messages{
		{`{"data":[{"id":1,"name":"a","n":8},null],"type":"INSERT"}`, `+I {"id":"1","name":"a","n":"8"}`},
	})
}

func TestDecode_Types(t *testing.T) {
	p := formattest.Payload(t, nil, nil, "id INT")
	formattest.Check(t, Format{}, p, formattest.Messages{
		{`{"data":null,"type":"TRUNCATE","isDdl":true}`, "'type' is TRUNCATE: the source's table lost all of its rows"},
		{`{"data":null,"type":"ERASE","isDdl":true}`, "'type' is ERASE"},
		{`{"data":null,"type":"ALTER","isDdl":true,"sql":"secret"}`, "canal.Format.SkipDDL passes over it"},
		{`{"data":[{"id":1}],"type":"secret"}`, "'type' is none of INSERT, UPDATE, DELETE and CREATE"},
		{`{"data":[{"id":1}]}`, "the message has no 'type'"},
		{`{"data":null,"type":"CREATE"}`, ``},
	})
	formattest.Check(t, Format{SkipDDL: true}, p, formattest.Messages{
		{`{"data":null,"type":"ALTER","isDdl":true}`, ``},
		{`{"data":null,"type":"QUERY","isDdl":false}`, ``},
		{`{"data":null,"type":"TRUNCATE","isDdl":true}`, "'type' is TRUNCATE"},
	})
	formattest.Check(t, Format{}, formattest.Payload(t, map[string]string{"database.include": "shop.*", "table.include": "item.?"}, nil, "id INT"), formattest.Messages{
		{`{"data":[{"id":1}],"database":"shop1","table":"items","type":"INSERT"}`, `+I {"id":"1"}`},
		{`{"data":[{"id":1}],"database":"ashop","table":"items","type":"INSERT"}`, ``},
		{`{"data":[{"id":"secret"}],"database":"shop","table":"other","type":"ALTER"}`, ``},
		{`{"data":[{"id":1}],"database":null,"table":"items","type":"INSERT"}`, ``},
		{`{"data":[{"id":1}],"table":"items","type":"INSERT"}`, "field database: the member is missing"},
	})
}

func TestDecode_MaxRows(t *testing.T) {
	p := formattest.Payload(t, map[string]string{"ignore-parse-errors": "true"}, nil, "id INT")
	rows := func(n int) string {
		return `{"data":[` + strings.Repeat(`{"id":1},`, n-1) + `{"id":1}],"type":"INSERT"}`
	}
	formattest.Check(t, Format{MaxRows: 3}, p, formattest.Messages{
		{rows(3), `+I {"id":"1"} +I {"id":"1"} +I {"id":"1"}`},
		{rows(4), "field data: the message holds more than 3 rows; canal.Format.MaxRows sets how many it may"},
		{`{"old":` + rows(4)[8:], "field old: the message holds more than 3 rows"},
	})
	b := changelog.NewBatch(p.Table)
	d := formattest.Decoder(t, Format{}, p)
	if err := d.DecodePayload(b, []byte(rows(DefaultMaxRows)), nil); err != nil || b.Len() != DefaultMaxRows {
		t.Errorf("%d rows, %v", b.Len(), err)
	}
	million := rows(1e6)
	odd := `{"\ud83d":0,` + million[1:] // which is read as a tree
	for _, in := range []string{million, odd, strings.ReplaceAll(odd, `{"id":1}`, "1")} {
		payload := []byte(in)
		var before, after runtime.MemStats
		b = changelog.NewBatch(p.Table)
		runtime.ReadMemStats(&before)
		err := d.DecodePayload(b, payload, nil)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "canal.Format.MaxRows") || b.Len() != 0 || b.Bytes() > 32<<20 {
			t.Errorf("%d rows, %d bytes, %v", b.Len(), b.Bytes(), err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%d bytes for a message that is refused", n)
		}
	}
	// Only the array of the message itself holds rows.
	for _, in := range []string{`{"\ud83d":0,"data":[{"id":1,"data":[1,2,3,4]}],"x":{"old":[1,2,3,4]},"type":"INSERT"}`, `{"data":[{"id":1,"data":[1,2,3,4]}],"x":[1,2,3,4],"type":"INSERT"}`} {
		if got := formattest.Decode(t, Format{MaxRows: 3}, p, in); got != `+I {"id":"1"}` {
			t.Errorf("%s: %s", in, got)
		}
	}
}

// A member that is large takes a small multiple of its size, whoever reads it and whether anybody does.
func TestDecode_LargeMemberMemory(t *testing.T) {
	const size = 4 << 20
	p := formattest.Payload(t, nil, nil, "id INT", "s STRING")
	ones := "[1" + strings.Repeat(",1", size/2) + "]"
	for _, in := range []string{
		`{"data":[{"id":1}],"x":` + ones + `,"type":"INSERT"}`,
		`{"data":[{"id":1,"s":` + ones + `}],"type":"INSERT"}`,
		`{"data":[{"id":1,"s":` + strings.Repeat(`{"k":[`, 400) + ones + strings.Repeat("]}", 400) + `}],"type":"INSERT"}`,
	} {
		for _, odd := range []string{"{", `{"\ud83d":0,`} {
			payload := []byte(odd + in[1:])
			var before, after runtime.MemStats
			b := changelog.NewBatch(p.Table)
			d := formattest.Decoder(t, Format{}, p)
			runtime.ReadMemStats(&before)
			err := d.DecodePayload(b, payload, nil)
			runtime.ReadMemStats(&after)
			if err != nil || b.Len() != 1 {
				t.Errorf("%.40s: %d rows, %v", payload, b.Len(), err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 45*size {
				t.Errorf("%.40s: %d bytes", payload, n)
			}
		}
	}
}

// fromDocs are messages in the form that Canal's documentation shows, with values of our own.
func TestDecode_FromCanal(t *testing.T) {
	p := formattest.Payload(t, nil, []int{0}, "id INT", "name STRING", "price DECIMAL(10, 2)", "added TIMESTAMP(0)", "db STRING FROM value.database", "tb STRING FROM value.table",
		"pk ARRAY<STRING> FROM value.pk-names", "st MAP<STRING, INT> FROM value.sql-type", "ts TIMESTAMP_LTZ(3) FROM value.ingestion-timestamp", "es TIMESTAMP_LTZ(0) FROM value.event-timestamp")
	const types = `"mysqlType":{"id":"int","name":"varchar(40)","price":"decimal(10,2)","added":"datetime"},`
	const sqlType = `"sqlType":{"id":4,"name":12,"price":3,"added":93},`
	const meta = `,"db":"shop","tb":"items","pk":["id"],"st":[["added","93"],["id","4"],["name","12"],["price","3"]],`
	formattest.Check(t, Format{SkipDDL: true}, p, formattest.Messages{
		{`{"data":[{"id":"17","name":"kettle","price":"24.90","added":"2024-03-01 10:00:00"},{"id":"18","name":"pot","price":null,"added":"2024-03-01 10:00:01"}],"database":"shop","es":1709287200123,` +
			`"gtid":"","id":5,"isDdl":false,` + types + `"old":null,"pkNames":["id"],"sql":"",` + sqlType + `"table":"items","ts":1709287200456,"type":"INSERT"}`,
			`+I {"id":"17","name":"kettle","price":"24.90","added":"2024-03-01 10:00:00"` + meta + `"ts":"2024-03-01 10:00:00.456","es":"2024-03-01 10:00:00"} ` +
				`+I {"id":"18","name":"pot","price":null,"added":"2024-03-01 10:00:01"` + meta + `"ts":"2024-03-01 10:00:00.456","es":"2024-03-01 10:00:00"}`},
		{`{"data":[{"id":"18","name":"pot","price":"3.5","added":"2024-03-01 10:00:01"}],"database":"shop","es":1709287260000,"id":6,"isDdl":false,` + types + `"old":[{"price":null}],` +
			`"pkNames":["id"],"sql":"",` + sqlType + `"table":"items","ts":1709287260001,"type":"UPDATE"}`,
			`-U {"id":"18","name":"pot","price":null,"added":"2024-03-01 10:00:01"` + meta + `"ts":"2024-03-01 10:01:00.001","es":"2024-03-01 10:01:00"} ` +
				`+U {"id":"18","name":"pot","price":"3.50","added":"2024-03-01 10:00:01"` + meta + `"ts":"2024-03-01 10:01:00.001","es":"2024-03-01 10:01:00"}`},
		{`{"data":null,"database":"shop","es":1709287300000,"id":7,"isDdl":true,"mysqlType":null,"old":null,"pkNames":null,"sql":"alter table items add column c int","sqlType":null,"table":"items","ts":1709287300400,"type":"ALTER"}`, ``},
	})
}

func TestDecode_Bombs(t *testing.T) {
	wide := []string{"s STRING"}
	for i := range 1000 {
		wide = append(wide, fmt.Sprintf("c%d INT", i))
	}
	p := formattest.Payload(t, nil, nil, wide...)
	for name, in := range map[string]string{
		"depth":    `{"data":[` + strings.Repeat(`{"s":`, 1e6),
		"depth2":   `{"z":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `,"data":[],"type":"INSERT"}`,
		"rows":     `{"data":[` + strings.Repeat("{},", 9e4) + `{}],"type":"INSERT"}`,
		"names":    `{"data":[` + strings.Repeat(`{"`, 1e5),
		"exponent": `{"data":[{"c1":1e1000000000}],"type":"INSERT"}`,
	} {
		b := changelog.NewBatch(p.Table)
		if err := formattest.Decoder(t, Format{}, p).DecodePayload(b, []byte(in), nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		if b.Bytes() > 256<<20 {
			t.Errorf("%s: %d bytes", name, b.Bytes())
		}
	}
}

func TestDecode_Concurrent(t *testing.T) {
	p := formattest.Payload(t, nil, []int{0}, "a INT", "s STRING", "tb STRING FROM value.table")
	d := formattest.Decoder(t, Format{}, p)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			b := changelog.NewBatch(p.Table)
			for i := range 300 {
				odd := ""
				if i%3 == 0 {
					odd = `"\uD83D":0,`
				}
				in := fmt.Sprintf(`{%s"data":[{"a":%d,"s":"A%d"}],"old":[{"s":"x"}],"table":"t%d","type":"UPDATE"}`, odd, i, g, i)
				if err := d.DecodePayload(b, []byte(in), nil); err != nil {
					t.Error(err)
					return
				}
			}
			for i := range b.Changes {
				want := []string{"x", fmt.Sprintf("A%d", g)}[i%2]
				if r := b.Changes[i].Row; r[0].Int() != int64(i/2) || r[1].Str() != want || r[2].Str() != fmt.Sprintf("t%d", i/2) {
					t.Errorf("change %d of %d: %s", i, g, rowtext.AppendRow(nil, p.Table.Schema, r))
					return
				}
			}
		})
	}
	wg.Wait()
}
