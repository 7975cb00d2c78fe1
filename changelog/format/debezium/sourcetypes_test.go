package debezium

import (
	"errors"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// Whatever a message holds, a value of Debezium's own types is read, or is an error that says so.
func FuzzSourceTypes(f *testing.F) {
	for _, s := range []string{
		`{"after":{"id":1,"dt":19737,"tm":45296123456,"ts":1705311296123,"tz":"2024-01-15T10:34:56.5+01:00","de":"BfXo","bo":1,"b":{"wkb":"AQ=="}},"op":"c"}`,
		`{"after":{"id":1,"dt":-999999999999,"tm":-1,"ts":9223372036854775807,"tz":"2024-13-15T10:34:56Z","de":{"scale":-2147483648,"value":"f39/f39/f39/f39/f39/f38="}},"op":"c"}`,
		`{"schema":{"fields":[{"field":"after","fields":[{"field":"ts","name":"io.debezium.time.NanoTimestamp"},{"field":"de","type":"bytes","parameters":{"scale":"99"}}]}]},"payload":{"after":{"ts":-1,"de":"gA=="},"op":"c"}}`,
		`{"schema":[],"payload":{"after":{"ts":1e400},"op":"c"}}`,
		`{"op":"t"}`, `{"op":"m"}`,
	} {
		f.Add([]byte(s))
	}
	var decoders []changelog.PayloadDecoder
	p := payloadOf(f, nil, []int{0}, "id INT", "dt DATE", "tm TIME(3)", "ts TIMESTAMP(6)", "tz TIMESTAMP_LTZ(3)", "de DECIMAL(38, 10)", "bo BOOLEAN", "b BYTES")
	p.Flink = changelog.Flink2_3
	for _, o := range []map[string]string{{}, {"schema-include": "true"}, {"ignore-parse-errors": "true"}} {
		for _, s := range []SourceTypes{{}, {Time: TimeConnect, Decimal: DecimalAsText}} {
			p.Options = o
			decoders = append(decoders, decoderOf(f, Format{SourceTypes: &s, Truncate: EventSkip}, p))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, d := range decoders {
			b := changelog.NewBatch(p.Table)
			err := d.DecodePayload(b, in, nil)
			var de *changelog.DataError
			if err != nil && (!errors.As(err, &de) || de.Reason == "" || b.Len() > 0) {
				t.Fatalf("%d changes, %#v", b.Len(), err)
			}
			for _, c := range b.Changes {
				if v := c.Row[2]; v.Kind() == changelog.KindTime && (v.Time() < 0 || v.Time() >= 86400e9) {
					t.Fatalf("no time of a day: %d", v.Time())
				}
			}
		}
	})
}
