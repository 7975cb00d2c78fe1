package debezium

import (
	"errors"
	"math/big"
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

// A date with a zone is the day that it says, not that of its midnight in UTC.
func TestZonedDate(t *testing.T) {
	date := changelog.Type{Root: changelog.RootDate}
	for text, want := range map[string]int64{
		"1970-01-02Z": 1, "1970-01-02+01:00": 1, "1970-01-02-11:00": 1, "1969-12-31+14:00": -1, "0001-01-01Z": changelog.DaysOf(1, 1, 1), "9999-12-31-01:00": changelog.DaysOf(9999, 12, 31),
	} {
		var v changelog.Value
		if !zoned(&date, text, &v) || v.Date() != want {
			t.Errorf("%s: %d, want %d", text, v.Date(), want)
		}
	}
}

func TestExactDecimal(t *testing.T) {
	typ := changelog.Type{Root: changelog.RootDecimal, Precision: 38, Scale: 4}
	for _, c := range []struct {
		unscaled int64
		scale    int64
		want     string // "": it does not fit
	}{
		{0, 0, "0.0000"}, {0, 9, "0.0000"}, {-1, 0, "-1.0000"}, {-128, 2, "-1.2800"}, {12345, 4, "1.2345"}, {123450, 5, "1.2345"}, {123451, 5, ""},
		{5, 5, ""}, {1, -3, "1000.0000"}, {1, -33, "1000000000000000000000000000000000.0000"}, {1, -34, ""}, {100000, 9, "0.0001"},
	} {
		raw := big.NewInt(c.unscaled).Bytes()
		switch {
		case c.unscaled < 0: // in two's complement
			n := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 64), big.NewInt(c.unscaled))
			raw = n.Bytes()
		case len(raw) == 0 || raw[0]&0x80 != 0:
			raw = append([]byte{0}, raw...)
		}
		v, ok := exactDecimal(raw, c.scale, &typ)
		if got := string(changelog.AppendDecimal(nil, v)); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%d at scale %d: %s, %v; want %q", c.unscaled, c.scale, got, ok, c.want)
		}
	}
}
