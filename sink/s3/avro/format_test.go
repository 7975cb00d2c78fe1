package avro_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro/ocf"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3/avro"
	"github.com/flinksink/flinksink/sink/s3/internal/filetest"
)

var null changelog.Value

// Another program than the one that wrote them reads each type as it was: fastavro.
func TestFormat_ReadByFastavro(t *testing.T) {
	python := filetest.Python(t, "fastavro, cramjam, backports.zstd", "fastavro cramjam backports.zstd")
	tb, rows, want := filetest.Everything(t, func(pairs ...any) any {
		out := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(string)] = pairs[i+1]
		}
		return out
	})
	for _, codec := range []avro.Codec{avro.Snappy, avro.Zstd, avro.Deflate, avro.Uncompressed} {
		got := filetest.Print(t, python, filetest.Write(t, avro.New(&avro.Options{Codec: codec}), tb, rows...))
		if d := cmp.Diff(filetest.Names(tb), got.Columns); d != "" {
			t.Errorf("codec %d: columns %s", codec, d)
		}
		if d := cmp.Diff(want, got.Rows); d != "" {
			t.Errorf("codec %d: %s", codec, d)
		}
	}
}

// Without Python: the library that wrote it reads it back, which is less of a proof.
func TestFormat_Blocks(t *testing.T) {
	tb := filetest.Table(t, "id BIGINT NOT NULL", "v STRING", "odd-name INT")
	var rows []changelog.Row
	for i := range int64(1000) {
		rows = append(rows, changelog.Row{changelog.IntValue(i), changelog.StringValue(strings.Repeat("x", 100)), null})
	}
	for _, codec := range []avro.Codec{avro.Snappy, avro.Zstd, avro.Deflate, avro.Uncompressed} {
		r, err := ocf.NewReader(bytes.NewReader(filetest.Write(t, avro.New(&avro.Options{Codec: codec, BlockBytes: 1000}), tb, rows...)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(1000) {
			var got map[string]any
			if err := r.Decode(&got); err != nil || got["id"] != i || got["odd_name"] != nil {
				t.Fatalf("codec %d, row %d: %v %v", codec, i, got, err)
			}
		}
		if err := r.Decode(&map[string]any{}); err != io.EOF {
			t.Errorf("codec %d: after the last row: %v", codec, err)
		}
	}
}

func TestFormat_Refuses(t *testing.T) {
	refuse := filetest.Refuse
	filetest.Refuses(t, avro.New(nil),
		refuse("STRING NOT NULL", null, changelog.Missing, "NOT NULL"),
		refuse("STRING", changelog.StringValue("\xff"), changelog.Malformed, "UTF-8"),
		refuse("INT", changelog.IntValue(1<<31), changelog.OutOfRange, "does not hold"),
		refuse("TINYINT", changelog.IntValue(128), changelog.OutOfRange, "does not hold"),
		refuse("STRING", changelog.IntValue(1), changelog.WrongType, "another kind"),
		refuse("STRING", changelog.UnchangedValue(), changelog.Missing, "did not send"),
		refuse("DATE", changelog.DateValue(1<<31), changelog.OutOfRange, "32 bits"),
		refuse("TIMESTAMP(9)", changelog.TimestampValue(changelog.DaysOf(9999, 1, 1)*86400, 0), changelog.OutOfRange, "precision of 6"),
		refuse("TIMESTAMP(3)", changelog.TimestampValue(0, 1), changelog.OutOfRange, "more digits"),
		refuse("TIME(3)", changelog.TimeValue(1), changelog.OutOfRange, "more digits"),
		refuse("MAP<STRING, INT>", changelog.MapValue([]changelog.Value{null, changelog.IntValue(1)}), changelog.Missing, "NULL"),
		refuse("MAP<STRING, INT>", changelog.MapValue([]changelog.Value{changelog.IntValue(1), changelog.IntValue(1)}), changelog.WrongType, "not text"),
		refuse("MAP<STRING, INT>", changelog.MapValue([]changelog.Value{changelog.StringValue("\xff"), changelog.IntValue(1)}), changelog.Malformed, "UTF-8"),
		refuse("MAP<STRING, INT>", changelog.MapValue([]changelog.Value{changelog.StringValue("k")}), changelog.Malformed, "no value"),
		refuse("ROW<a INT, b INT>", changelog.RowValue([]changelog.Value{null}), changelog.SchemaMismatch, "1 fields"),
		refuse("DECIMAL(4, 2)", changelog.DecimalValue(0, 1, 3), changelog.OutOfRange, "another scale"),
	)
}
