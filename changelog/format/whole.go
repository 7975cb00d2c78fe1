package format

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// WholeDecoder is implemented by payload decoders that can tell whether the changes of a payload hold all that it says. Only then may its bytes stand for its
// changes (see [changelog.Original]): a member that is no column of the table was left out of the table by somebody, perhaps on purpose.
// Only who writes a [changelog.Format] needs it.
type WholeDecoder interface {
	// DecodeWhole is DecodePayload. whole reports that every encoder of the payload's columns, kinds and options would write a payload that says the same; when in
	// doubt it is false.
	DecodeWhole(b *changelog.Batch, payload []byte, r *changelog.Record) (whole bool, err error)
}

// encoding returns what stands for how the values of the table's records are written ([changelog.Table].Encoding), as a hash, since options may hold
// passwords. Options that only a writer or only a reader has are in it too: who sets them for one table and not for the other wants two encodings.
//
// A reader that guesses or passes over what it cannot read has none: what it took for a row is not to be handed on as one. Nor has a format that
// was given settings by the program, which two tables need not share, or a table with columns for the metadata of the value's format, which no writer writes.
func encoding(c *connector, o *Options) string {
	if o.Lenient || strings.EqualFold(c.value.options["ignore-parse-errors"], "true") || !reflect.ValueOf(c.value.format).IsZero() {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%q %s\n", c.value.format.Name(), o.FlinkVersion)
	for _, name := range slices.Sorted(maps.Keys(c.value.options)) {
		fmt.Fprintf(&text, "%q = %q\n", name, c.value.options[name])
	}
	for i, col := range c.value.columns {
		t := c.schema.Columns[col].Type
		t.NotNull = false // a PRIMARY KEY makes it true, and no format writes it
		fmt.Fprintf(&text, "%q %s\n", c.value.names[i], t)
	}
	for i := range c.schema.Columns {
		if strings.HasPrefix(c.schema.Columns[i].Metadata, "value.") {
			return ""
		}
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:16])
}

// FillsOriginals implements [changelog.OriginalDecoder]: the value's format is a [WholeDecoder], and nothing is guessed or passed over.
func (d *Decoder) FillsOriginals() changelog.Decoder {
	if d.whole == nil {
		return nil
	}
	return d
}

// original is what is kept of a record that has changes.
func original(r *changelog.Record, changes int, whole bool) changelog.Original {
	o := changelog.Original{Partition: r.Partition, Offset: r.Offset, Changes: int32(changes)}
	if whole {
		o.Value = r.Value
	}
	return o
}
