package s3_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
)

// NewFile writes rows as the sink's own files have them, with the columns of the kind in front, and refuses what the sink refuses.
func TestNewFile(t *testing.T) {
	e := newFake(t)
	big, err := changelog.ParseType("BIGINT NOT NULL")
	if err != nil {
		t.Fatal(err)
	}
	table := &changelog.Table{Name: "t", Mode: changelog.Upsert, Schema: &changelog.Schema{Columns: []changelog.Column{{Name: "id", Type: big}}, Key: []int{0}}}
	at := changelog.Change{Kind: changelog.Delete, Partition: changelog.Partition{Topic: "x", Partition: 1}, Offset: 7, Row: changelog.Row{changelog.IntValue(5)}}
	s, err := s3.New(e.api, e.bucket, "p", &s3.Options{Kind: s3.Changelog})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f, err := s.NewFile(table, &out)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.WriteRow(&at), f.Close()); err != nil {
		t.Fatal(err)
	}
	if want := `{"_op":"-D","_topic":"x","_partition":1,"_offset":7,"_index":0,"id":5}` + "\n"; out.String() != want {
		t.Errorf("%s, want %s", &out, want)
	}
	at.Row = changelog.Row{changelog.UnchangedValue()}
	f, err = s.NewFile(table, &out)
	if err != nil {
		t.Fatal(err)
	}
	var bad *changelog.DataError
	if err := f.WriteRow(&at); !errors.As(err, &bad) || bad.Offset != 7 || bad.Field != "id" {
		t.Errorf("of a column that was not sent: %v", err)
	}
	plain, err := s3.New(e.api, e.bucket, "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.NewFile(table, &out); sink.ClassOf(err) != sink.ErrConfig {
		t.Errorf("of a table that does more than insert: %v", err)
	}
}
