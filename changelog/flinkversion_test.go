package changelog_test

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

func TestParseFlinkVersion(t *testing.T) {
	for in, want := range map[string]changelog.FlinkVersion{
		"": 0, "1.17": changelog.Flink1_17, "1.20.4": changelog.Flink1_20, "2.0": changelog.Flink2_0, "2.2.0": changelog.Flink2_2, "2.3": changelog.Flink2_3,
	} {
		got, err := changelog.ParseFlinkVersion(in)
		if err != nil || got != want || !got.Valid() {
			t.Errorf("%q: %v, %v", in, got, err)
		}
		if line, _, _ := strings.Cut(in+"x", "x"); in != "" && !strings.HasPrefix(line, got.String()) {
			t.Errorf("%q: %s", in, got)
		}
	}
	for _, in := range []string{"1.1", "1.16", "2.22", "2", "2.4", "v2.2"} {
		if got, err := changelog.ParseFlinkVersion(in); err == nil || !strings.Contains(err.Error(), "1.17, ") {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	var zero changelog.FlinkVersion
	if zero.String() != "2.2" || !zero.Since(changelog.Flink2_2) || zero.Since(changelog.Flink2_3) || !zero.Valid() || changelog.FlinkVersion(99).Valid() {
		t.Error("the zero value is not 2.2")
	}
}
