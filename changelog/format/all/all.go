// Package all lists every wire format of this module, for programs that take a table's format from its options. A program that
// knows its formats passes those alone, and links no others.
package all

import (
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
	"github.com/flinksink/flinksink/changelog/format/protobuf"
	"github.com/flinksink/flinksink/changelog/format/raw"
)

// Formats returns one value of each format, sorted by name, in a new slice.
func Formats() []changelog.Format {
	return []changelog.Format{avro.Format{}, avroconfluent.Format{}, canal.Format{}, csv.Format{}, debeziumavro.Format{}, debezium.Format{}, json.Format{}, maxwell.Format{}, ogg.Format{}, protobuf.Format{}, raw.Format{}}
}
