package s3_test

import (
	"bytes"
	"io"
	"runtime"
	"testing"
	"weak"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3"
)

// burst is a format that writes nothing until a row comes that ends a group, and then all of it in small pieces, as Parquet writes a row group.
type burst struct{ size, piece, rows int }

func (f burst) Layout() s3.Layout                              { return s3.Layout{Extension: ".burst"} }
func (f burst) Table(*changelog.Table) (s3.TableFormat, error) { return f, nil }
func (f burst) NewFile(w io.Writer) (s3.FileWriter, error)     { return &burstFile{burst: f, w: w}, nil }
func (f burst) group() []byte                                  { return bytes.Repeat([]byte("0123456789"), f.size/10) }

type burstFile struct {
	burst
	w    io.Writer
	held int
}

func (f *burstFile) WriteRow(*changelog.Change) error {
	if f.held++; f.held < f.rows {
		return nil
	}
	return f.Flush()
}

func (f *burstFile) Buffered() int { return 0 }

func (f *burstFile) Flush() error {
	if f.held == 0 {
		return nil
	}
	f.held = 0
	for g := f.group(); len(g) > 0; g = g[min(f.piece, len(g)):] {
		if _, err := f.w.Write(g[:min(f.piece, len(g))]); err != nil {
			return err
		}
	}
	return nil
}

func (f *burstFile) Close() error { return f.Flush() }

// A group that is larger than several parts is cut into parts of the size that was asked for, and the last part that a file may have takes what is left.
func TestFiles_PartsOfOneBurst(t *testing.T) {
	const part = 1000
	for _, c := range []struct {
		name               string
		size, piece, limit int
		groups, parts      int
		mode               s3.Mode
	}{
		{"less than a part", 990, 7, 0, 1, 1, s3.Multipart},
		{"a part", 1000, 7, 0, 1, 1, s3.Multipart},
		{"parts and a rest", 5430, 7, 0, 1, 6, s3.Multipart},
		{"in one piece", 5430, 1 << 20, 0, 1, 6, s3.Multipart},
		{"whole parts", 3000, 500, 0, 2, 6, s3.Multipart},
		{"more than the limit of parts", 9000, 7, 4, 1, 4, s3.Multipart},
		{"as much as the limit of parts", 4000, 1000, 4, 1, 4, s3.Multipart},
		{"staged", 5430, 7, 0, 1, 6, s3.Rename},
		{"staged, less than a part", 990, 7, 0, 1, 0, s3.Rename},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFake(t)
			e.fake.MinPart = part
			f := burst{c.size, c.piece, 10}
			w := e.writer(e.sink(&s3.Options{Format: f, Mode: c.mode}).Lower(part, c.limit, 0, 0, 0), events(t))
			w.put(10 * c.groups)
			parts := 0
			for _, r := range e.fake.Requests() {
				if r.Op == "UploadPart" {
					parts++
				}
			}
			if parts != c.parts {
				t.Errorf("%d parts, expected %d", parts, c.parts)
			}
			keys := e.dataKeys()
			if len(keys) != 1 || !bytes.Equal(e.get(keys[0]), bytes.Repeat(f.group(), c.groups)) {
				t.Errorf("%q do not hold what was written", keys)
			}
		})
	}
}

// What a burst of many small pieces costs follows its size: a part that grew with each piece would cost its square.
func TestFiles_BurstMemory(t *testing.T) {
	e := newFake(t)
	const size = 8 << 20
	w := e.writer(e.sink(&s3.Options{Format: burst{size, 1 << 10, 10}}).Lower(1<<20, 0, 0, 0, 0), events(t))
	if err := w.rows(9); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := w.rows(1); err != nil {
		t.Fatal(err)
	}
	w.finish()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16*size { // the server in this process has its part of it
		t.Errorf("%d MiB were allocated for %d", n>>20, size>>20)
	}
}

// remembered is a format that knows its files for as long as somebody holds them.
type remembered struct {
	burst
	files *[]weak.Pointer[burstFile]
}

func (f remembered) Table(*changelog.Table) (s3.TableFormat, error) { return f, nil }

func (f remembered) NewFile(w io.Writer) (s3.FileWriter, error) {
	out := &burstFile{burst: f.burst, w: w}
	*f.files = append(*f.files, weak.Make(out))
	return out, nil
}

// A checkpoint of a lake may end many files. What their formats held of rows goes with each, and not with the checkpoint.
func TestFiles_EndedAreFreed(t *testing.T) {
	e := newFake(t)
	var files []weak.Pointer[burstFile]
	w := e.writer(e.sink(&s3.Options{Format: remembered{burst{10, 10, 1}, &files}, MaxFileRows: 1}), events(t))
	if err := w.rows(20); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	held := 0
	for _, f := range files {
		if f.Value() != nil {
			held++
		}
	}
	if len(files) != 20 || held > 0 {
		t.Errorf("of %d files that were ended %d are held", len(files), held)
	}
	w.finish()
	if n := len(e.dataKeys()); n != 20 {
		t.Errorf("%d files", n)
	}
}
