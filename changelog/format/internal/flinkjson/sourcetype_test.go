package flinkjson

import (
	"math"
	"math/big"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

func TestSourceDate(t *testing.T) {
	for days, ok := range map[int64]bool{0: true, math.MinInt32: true, math.MaxInt32: true, math.MinInt32 - 1: false, math.MaxInt32 + 1: false, math.MaxInt64: false, math.MinInt64: false} {
		var v changelog.Value
		if f := SourceDate(days, &v); (f == nil) != ok || ok && v.Date() != days {
			t.Errorf("%d: %v, %v", days, v, f)
		}
	}
}

func TestSourceUnit(t *testing.T) {
	for name, want := range map[string][2]int64{ // of a time of day, of a point in time; 0: none
		"io.debezium.time.Time": {1e3, 0}, "io.debezium.time.MicroTime": {1e6, 0}, "io.debezium.time.NanoTime": {1e9, 0}, "org.apache.kafka.connect.data.Time": {1e3, 0},
		"io.debezium.time.Timestamp": {0, 1e3}, "io.debezium.time.MicroTimestamp": {0, 1e6}, "io.debezium.time.NanoTimestamp": {0, 1e9}, "org.apache.kafka.connect.data.Timestamp": {0, 1e3},
		"io.debezium.time.Date": {}, "io.debezium.time.ZonedTime": {}, "io.debezium.time.ZonedTimestamp": {}, "io.debezium.time.MicroDuration": {}, "": {},
	} {
		for i, isTime := range []bool{true, false} {
			if got, ok := SourceUnit(name, isTime); ok != (want[i] != 0) || ok && got != want[i] {
				t.Errorf("%s, of a time of day %v: %d, %v", name, isTime, got, ok)
			}
		}
	}
}

// A date with a zone is the day that it says, not that of its midnight in UTC.
func TestSourceZoned_Date(t *testing.T) {
	date := changelog.Type{Root: changelog.RootDate}
	for text, want := range map[string]int64{
		"1970-01-02Z": 1, "1970-01-02+01:00": 1, "1970-01-02-11:00": 1, "1969-12-31+14:00": -1, "0001-01-01Z": changelog.DaysOf(1, 1, 1), "9999-12-31-01:00": changelog.DaysOf(9999, 12, 31),
	} {
		var v changelog.Value
		if !SourceZoned(&date, text, &v) || v.Date() != want {
			t.Errorf("%s: %d, want %d", text, v.Date(), want)
		}
	}
}

func TestSourceDecimal(t *testing.T) {
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
		v, ok := SourceDecimal(raw, c.scale, &typ)
		if got := string(changelog.AppendDecimal(nil, v)); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%d at scale %d: %s, %v; want %q", c.unscaled, c.scale, got, ok, c.want)
		}
	}
}
