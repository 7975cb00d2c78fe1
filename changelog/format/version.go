package format

import (
	"maps"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
)

// since is the first Flink that has an option, for those that Flink 1.17 does not have. Flink itself was asked for its supported options.
var since = map[string]map[string]changelog.FlinkVersion{
	"json": {"encode.ignore-null-fields": changelog.Flink1_20, "decode.json-parser.enabled": changelog.Flink2_1},
	"csv": {
		"allow-trailing-comma": changelog.Flink2_3, "empty-string-as-null": changelog.Flink2_3, "fail-on-missing-columns": changelog.Flink2_3,
		"ignore-trailing-unmappable": changelog.Flink2_3, "trim-spaces": changelog.Flink2_3,
	},
	"avro":                    {"encoding": changelog.Flink1_19, "timestamp_mapping.legacy": changelog.Flink1_19},
	"avro-confluent":          {"schema": changelog.Flink1_18, "schema-registry.schema": changelog.Flink1_18},
	"debezium-avro-confluent": {"schema": changelog.Flink1_18, "schema-registry.schema": changelog.Flink1_18},
	"debezium-json":           {"encode.ignore-null-fields": changelog.Flink1_20},
	"canal-json":              {"encode.ignore-null-fields": changelog.Flink1_20},
	"maxwell-json":            {"encode.ignore-null-fields": changelog.Flink1_20},
	"ogg-json":                {"encode.ignore-null-fields": changelog.Flink1_20},
}

// tooNew reports options that a Flink of the version does not have: it would refuse the table.
func (r *reader) tooNew(c *connector, version changelog.FlinkVersion) {
	for _, s := range []side{c.key, c.value} {
		if s.format == nil {
			continue
		}
		for _, option := range slices.Sorted(maps.Keys(s.options)) {
			if first, ok := since[s.format.Name()][option]; ok && !version.Since(first) {
				r.errorf("option '%s%s' came with Flink %s, and the table is read as Flink %s does; set Options.FlinkVersion to %s or newer, or drop the option",
					s.prefix, option, first, version, first)
			}
		}
	}
}

// schemaOf returns the table's columns as a Flink of the version has them. From 2.3 on a TIME(p) of a CREATE TABLE is one; before it is TIME(0).
func schemaOf(t *ddl.Table, version changelog.FlinkVersion) *changelog.Schema {
	s := t.Schema()
	if !version.Since(changelog.Flink2_3) {
		return s
	}
	declared := map[string]changelog.Type{}
	for i := range t.Columns {
		if d := t.Columns[i].Declared; d != nil {
			declared[t.Columns[i].Name] = *d
		}
	}
	if len(declared) == 0 {
		return s
	}
	newer := &changelog.Schema{Columns: slices.Clone(s.Columns), Key: s.Key}
	for i := range newer.Columns {
		if d, ok := declared[newer.Columns[i].Name]; ok {
			newer.Columns[i].Type = d
		}
	}
	return newer
}
