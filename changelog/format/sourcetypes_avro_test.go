package format_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/debeziumavro"
)

// The messages of Debezium's connectors, read by what their schemas say of times and numbers. Flink has no answer to these: the values are those that the cases of the
// messages have, in the source's own terms.
func TestDecode_DebeziumAvroSourceTypes(t *testing.T) {
	g, _, _ := avroSchemas(t)
	stored := avroMessages(t)
	fm := debeziumavro.Format{HTTP: g.Client(), SourceTypes: true}
	for _, c := range []struct {
		message, columns, want string
	}{
		{"0.0", "id INT, total DECIMAL(10, 2), amount DECIMAL(12, 4), opened DATE, tm TIME(6), tm3 TIME(3), ms TIMESTAMP(3), us TIMESTAMP(6), changed TIMESTAMP_LTZ(6), due TIME(6), size SMALLINT, paid BOOLEAN",
			`+I {"id":"1001","total":"3906.32","amount":"123.4560","opened":"2024-01-15","tm":"12:34:56.123456","tm3":"12:34:56.123","ms":"2024-01-15 09:34:56.123","us":"2024-01-15 09:34:56.123456","changed":"2024-01-15 09:34:56.123456","due":"12:34:56.123456","size":"-7","paid":"TRUE"}`},
		{"0.0", "id INT, total DECIMAL(12, 5), ms TIMESTAMP_LTZ(3), us TIMESTAMP_LTZ(6), changed TIMESTAMP(6), place ROW<wkb BYTES, srid INT>, us2 STRING",
			`+I {"id":"1001","total":"3906.32000","ms":"2024-01-15 09:34:56.123","us":"2024-01-15 09:34:56.123456","changed":"2024-01-15 09:34:56.123456","place":{"wkb":"0101","srid":null},"us2":null}`},
		{"0.0", "amount DECIMAL(12, 2)", "field after.amount: more digits than DECIMAL(12, 2) has"},
		{"0.0", "id BOOLEAN", "field after.id: a number that is neither 0 nor 1"},
		{"0.0", "tm TIMESTAMP(6)", "field after.tm: the message was written with long of io.debezium.time.MicroTime, and the column is TIMESTAMP(6); declare it as the schema says"},
		{"0.0", "took TIME(6)", "io.debezium.time.MicroDuration"},
		{"0.0", "us DATE", "written with long of io.debezium.time.MicroTimestamp, and the column is DATE"},
		{"0.0", "meta TIMESTAMP(3)", "field after.meta: no time in ISO form with a zone"},
		{"0.0", "meta DECIMAL(10, 2)", "field after.meta: no number that DECIMAL(10, 2) holds"},
		{"15.0", "id INT, total DECIMAL(10, 2), opened DATE, tm TIME(3), us TIMESTAMP(3), changed TIMESTAMP_LTZ(6)",
			`+I {"id":"1","total":"-0.01","opened":"2024-01-15","tm":"12:34:56.123","us":"2024-01-15 09:34:56.123","changed":"2024-01-15 09:34:56.123456"}`},
		{"17.0", "id INT, total DECIMAL(10, 2), us TIMESTAMP(9)", `+I {"id":"1","total":"12.34","us":"2024-01-15 09:34:56.123456789"}`},
		{"20.0", "id DECIMAL(20, 0), total DECIMAL(10, 2), opened DATE, tm BIGINT, ms TIMESTAMP(3), us TIMESTAMP(6), seen TIMESTAMP_LTZ(3), yr INT, paid BOOLEAN, flag BOOLEAN",
			`+I {"id":"18446744073709551615","total":"3906.32","opened":"2024-01-15","tm":"-3020399000000","ms":"2024-01-15 09:34:56.123","us":"2024-01-15 09:34:56.123456","seen":"2024-01-15 09:34:56.000","yr":"2024","paid":"TRUE","flag":"TRUE"}`},
		{"20.0", "tm TIME(6)", "field after.tm: a number that is no time of a day; a MySQL TIME can be longer: declare the column BIGINT"},
		{"20.0", "yr DATE", "field after.yr: the message was written with int of io.debezium.time.Year, and the column is DATE"},
		{"24.0", "id BIGINT, total DECIMAL(10, 2), opened DATE, tm TIME(3), `at` TIMESTAMP(3), seen TIMESTAMP_LTZ(0)", `+I {"id":"7","total":"12.34","opened":"2024-01-15","tm":"12:34:56.0","at":"2024-01-15 09:34:56.123","seen":"2024-01-15 09:34:56"}`},
		{"25.0", "id BIGINT, total DECIMAL(10, 3), tm TIME(6)", `+I {"id":"7","total":"12.340","tm":"12:34:56.0"}`},
	} {
		with := map[string]string{"connector": "kafka", "format": fm.Name(), fm.Name() + ".url": "http://registry"}
		for _, lenient := range []bool{false, true} {
			d, err := format.New(tableOf(t, c.columns, with), []changelog.Format{fm}, &format.Options{FlinkVersion: changelog.Flink2_3, Lenient: lenient})
			if err != nil {
				t.Fatal(err)
			}
			b := changelog.NewBatch(d.Table())
			err = d.Decode(b, &changelog.Record{Value: stored[c.message]})
			var de *changelog.DataError
			switch {
			case err == nil && changesText(b) == c.want:
			case errors.As(err, &de) && !strings.HasPrefix(c.want, "+I") && c.want != "" && strings.Contains(err.Error(), c.want):
			default:
				t.Errorf("message %s of %s, lenient %v:\n got %s, %v\nwant %s", c.message, c.columns, lenient, changesText(b), err, c.want)
			}
		}
	}
}

func TestNewEncoder_DebeziumAvroSourceTypes(t *testing.T) {
	fm := debeziumavro.Format{SourceTypes: true}
	with := map[string]string{"connector": "kafka", "format": fm.Name(), fm.Name() + ".url": "http://registry", fm.Name() + ".subject": "s"}
	if _, err := format.NewEncoder(tableOf(t, "id INT", with), []changelog.Format{fm}, nil); err == nil || !strings.Contains(err.Error(), "Format.SourceTypes is of reading only") {
		t.Errorf("%v", err)
	}
	with[fm.Name()+".schema"] = `{"type":"record","name":"r","fields":[{"name":"id","type":["null","int"]}]}`
	if _, err := format.New(tableOf(t, "id INT", with), []changelog.Format{fm}, nil); err == nil || !strings.Contains(err.Error(), "option 'schema' has the types of Flink") {
		t.Errorf("%v", err)
	}
}
