package changelog

import (
	"fmt"
	"strings"
)

// FlinkVersion is a release line of Flink, for what its wire formats do otherwise than those of other lines. The zero value means
// [DefaultFlinkVersion]. Lines are in order: v < Flink2_1 says that v is older.
type FlinkVersion uint8

// The lines that were asked. Patch releases of one line read and write alike, but for what docs/formats.md names.
const (
	Flink1_17 FlinkVersion = iota + 1
	Flink1_18
	Flink1_19
	Flink1_20
	Flink2_0
	Flink2_1
	Flink2_2
	Flink2_3

	// DefaultFlinkVersion is the newest line that has a release of the Kafka connector (5.0.0-2.2), and that of the captured topics and answers. 2.3 reads
	// every TIME(p) of a table otherwise, so it has to be asked for: see docs/formats.md.
	DefaultFlinkVersion = Flink2_2
)

var flinkVersions = [...]string{"1.17", "1.18", "1.19", "1.20", "2.0", "2.1", "2.2", "2.3"}

// String returns the line as Flink's releases are numbered: "2.2".
func (v FlinkVersion) String() string {
	if v = v.Or(DefaultFlinkVersion); int(v) <= len(flinkVersions) {
		return flinkVersions[v-1]
	}
	return fmt.Sprintf("FlinkVersion(%d)", uint8(v))
}

// Or returns v, or other where v is the zero value.
func (v FlinkVersion) Or(other FlinkVersion) FlinkVersion {
	if v == 0 {
		return other
	}
	return v
}

// Since reports whether v, or the default where v is the zero value, is first or newer.
func (v FlinkVersion) Since(first FlinkVersion) bool { return v.Or(DefaultFlinkVersion) >= first }

// Valid reports whether v is one of the lines above, or the zero value.
func (v FlinkVersion) Valid() bool { return int(v) <= len(flinkVersions) }

// ParseFlinkVersion reads a line or a release of it: "2.2", "1.20.4". The empty text is the zero value.
func ParseFlinkVersion(s string) (FlinkVersion, error) {
	if s == "" {
		return 0, nil
	}
	for i, line := range flinkVersions {
		if rest, ok := strings.CutPrefix(s, line); ok && (rest == "" || rest[0] == '.') {
			return FlinkVersion(i + 1), nil
		}
	}
	return 0, fmt.Errorf("changelog: Flink version %q is none of %s", s, strings.Join(flinkVersions[:], ", "))
}
