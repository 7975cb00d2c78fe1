package protobuf

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/internal/rowtext"
)

// seeds adds messages that Flink wrote, and those that it was asked about.
func seeds(f *testing.F) {
	met := map[string]bool{}
	add := func(b []byte) {
		if !met[string(b)] {
			met[string(b)] = true
			f.Add(b)
		}
	}
	for _, name := range []string{"protobuf_types", "protobuf_read_defaults", "protobuf_proto2", "protobuf_upsert"} {
		for _, v := range captured(f, name) {
			add(v)
		}
	}
	text, err := os.ReadFile(filepath.Join(flinkDir, "odd", "protobuf.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(text))); dec.More(); {
		var o struct{ Value []byte }
		if err := dec.Decode(&o); err != nil {
			f.Fatal(err)
		}
		add(o.Value)
	}
	for _, s := range []string{
		"0810ffffffff0f1801400330ffffffffffffffffff0159000000000000f87f680172016e", "9201050a016110079201050a01621003", "8a0103070307880103", "aa010408011a00aa01071201781a020805",
		"c201020801c80107c2010312017a", "bb010801bc01bb01120161bc01", "c20c021001c20c020801", "ca0c06080912020805", "b201020801b2010a1a0812067878787878780a", "9a010408011200a2010b080111000000000000f03f",
	} {
		b, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		add(b)
	}
	if len(met) < 35 {
		f.Fatalf("%d messages", len(met))
	}
}

// FuzzDecode holds what a decoder promises whatever comes: one row or an error; what is no guess is the same with leniency; what Google's library parses is
// read alike before and after that library wrote it anew, merged and in order; and a row that was read is read again from what an encoder makes of it.
func FuzzDecode(f *testing.F) {
	seeds(f)
	files := testFiles(f)
	format := Format{Files: files}
	type mode struct {
		p       changelog.Payload
		class   string
		decoder [2]changelog.PayloadDecoder // strict, lenient
		encoder changelog.PayloadEncoder
	}
	var modes []mode
	for _, c := range []struct {
		class   string
		columns []string
	}{{itemClass, itemColumns}, {"wide.Wide", wideColumns}, {"wide.Wide", []string{"nodes ARRAY<ROW<b STRING>>", "right INT"}}, {"flinksink.testbed.OldItem", []string{"id INT", "plain ARRAY<INT>"}}} {
		for _, defaults := range []string{"false", "true"} {
			m := mode{class: c.class, p: payloadOf(f, with(c.class, "read-default-values", defaults), c.columns...)}
			var err error
			if m.encoder, err = format.NewEncoder(m.p); err != nil {
				f.Fatal(err)
			}
			for i := range m.decoder {
				m.p.Lenient = i == 1
				if m.decoder[i], err = format.NewDecoder(m.p); err != nil {
					f.Fatal(err)
				}
			}
			modes = append(modes, m)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for i, m := range modes {
			read := func(d changelog.PayloadDecoder, in []byte) (string, changelog.Row, error) {
				b := changelog.NewBatch(m.p.Table)
				if err := d.DecodePayload(b, in, nil); err != nil {
					if b.Len() != 0 {
						t.Errorf("mode %d: an error and %d rows", i, b.Len())
					}
					return "", nil, err
				}
				if b.Len() != 1 {
					t.Fatalf("mode %d: %d rows", i, b.Len())
				}
				row := b.Changes[0].Row
				return string(rowtext.AppendRow(nil, m.p.Table.Schema, row)), row, nil
			}
			strict, row, strictErr := read(m.decoder[0], in)
			lenient, _, lenientErr := read(m.decoder[1], in)
			if strictErr == nil && (lenientErr != nil || strict != lenient) {
				t.Errorf("mode %d: %s; lenient %s, %v", i, strict, lenient, lenientErr)
			}
			desc, err := find(files, m.class)
			if err != nil {
				t.Fatal(err)
			}
			theirs := dynamicpb.NewMessage(desc)
			err, panicked := unmarshal(in, theirs)
			if panicked {
				continue
			}
			if err == nil && strictErr == nil {
				anew, err := proto.MarshalOptions{Deterministic: true}.Marshal(theirs)
				if err != nil {
					t.Fatal(err)
				}
				if got, _, err := read(m.decoder[0], anew); err != nil || got != strict {
					t.Errorf("mode %d:\n%s\nand merged\n%s, %v", i, strict, got, err)
				}
			} else if err == nil && lenientErr != nil && !allowed(lenientErr) {
				t.Errorf("mode %d: %v, and Google's library reads it", i, lenientErr)
			} else if err != nil && strictErr == nil && !tooLong(in) {
				t.Errorf("mode %d: %s, and Google's library: %v", i, strict, err)
			}
			if strictErr != nil || m.class == itemClass || i%2 == 1 {
				continue // the row says of a oneof's other members that they have their defaults
			}
			out, _, err := m.encoder.AppendPayload(nil, &changelog.Change{Row: row})
			if err != nil {
				if !strings.Contains(err.Error(), "UTF-8") {
					t.Errorf("mode %d: %s cannot be written: %v", i, strict, err)
				}
				continue
			}
			if got, _, err := read(m.decoder[0], out); err != nil || got != strict {
				t.Errorf("mode %d: wrote %s, read %s, %v", i, strict, got, err)
			}
		}
	})
}

// unmarshal is proto.Unmarshal, which panics at the entry of a map whose key is NULL in a way of its own.
func unmarshal(in []byte, m proto.Message) (err error, panicked bool) {
	defer func() { panicked = recover() != nil }()
	return proto.Unmarshal(in, m), false
}

// allowed are errors of messages that protobuf-java refuses and Google's Go library does not.
func allowed(err error) bool {
	for _, s := range []string{"not UTF-8", "nested more than", "a number without a name", "far more memory"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

// tooLong reports an integer, perhaps a tag, that Go's library finds too long and protobuf-java cuts.
func tooLong(in []byte) bool {
	run := 0
	for _, c := range in {
		if run++; c < 0x80 {
			run = 0
		} else if run >= 4 {
			return true
		}
	}
	return false
}
