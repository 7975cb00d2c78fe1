package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"path"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/changelog"
)

// file is an object that is being written: rows to a format, its bytes to a compressor, its bytes to parts.
type file struct {
	c      *committer
	target *target
	folder string
	key    string // where it becomes visible
	at     string // where it is written: key, or a staged name
	token  string
	used   uint64

	rows   int64
	size   int64
	hash   hash.Hash
	format FileWriter // nil: the file was ended
	press  *press     // nil: no compression
	full   [][]byte   // parts that are not yet sent: a format may write many at once, a row group
	part   []byte     // the one that is not full
	upload string     // id; "": none was begun

	mu    sync.Mutex // guards parts, etag and err, which requests under way set
	parts []partReceipt
	etag  string // of a staged object
	err   error
}

// partReceipt is what completing an upload needs of a part.
type partReceipt struct {
	ETag  string `json:"etag"`
	CRC32 string `json:"crc32,omitempty"`
}

// fileFor returns the open file of c.folder, a new one if there is none.
func (c *committer) fileFor(ctx context.Context, tg *target) (*file, error) {
	c.tick++
	oldest := -1
	for i, f := range c.open {
		if f.target == tg && f.folder == string(c.folder) {
			f.used = c.tick
			return f, nil
		}
		if oldest < 0 || f.used < c.open[oldest].used {
			oldest = i
		}
	}
	if len(c.open) >= c.s.o.MaxOpenFiles {
		if err := c.end(ctx, oldest); err != nil {
			return nil, err
		}
	}
	c.seq++
	token := newToken()
	name := c.names.file(c.gen.Partitions, c.gen.ID, c.last+1, c.seq, token[:8], tg.layout.Extension+c.s.o.Compression.extension())
	f := &file{c: c, target: tg, folder: string(c.folder), key: path.Join(c.s.prefix, string(c.folder), name), token: token, used: c.tick, hash: sha256.New()}
	f.at = f.key
	if c.s.o.Mode == Rename {
		f.at = c.names.staged(c.gen.ID, string(c.folder)+name)
	}
	var w io.Writer = (*bytesOf)(f)
	var err error
	if c.s.o.Compression != Uncompressed {
		if f.press, err = newPress(&c.lines, c.s.o.Compression, c.s.o.Level, f.hash); err != nil {
			return nil, err
		}
		w = f.press
	}
	if f.format, err = tg.format.NewFile(w); err != nil {
		return nil, err
	}
	c.open = append(c.open, f)
	return f, nil
}

// bytesOf takes the bytes of a file that is not compressed.
type bytesOf file

func (f *bytesOf) Write(b []byte) (int, error) {
	f.hash.Write(b)
	(*file)(f).add(b)
	return len(b), nil
}

// add cuts bytes into parts. append alone would double the memory of a part that is nearly full; a file that has a full one will mostly fill the next. The last
// part that a file may have takes what is left, so that nothing is cut off.
func (f *file) add(b []byte) {
	f.size += int64(len(b))
	whole := f.c.s.o.PartSize
	for len(b) > 0 {
		n, last := min(len(b), whole-len(f.part)), len(f.parts)+len(f.full) >= f.c.s.maxParts-1
		if last {
			n = len(b)
		}
		if need := len(f.part) + n; need > cap(f.part) {
			size := whole
			switch {
			case need > whole:
				size = 2 * need
			case f.upload == "" && len(f.full) == 0:
				size = min(2*need, whole)
			}
			grown := make([]byte, len(f.part), size)
			copy(grown, f.part)
			f.part = grown
		}
		f.part = append(f.part, b[:n]...)
		if b = b[n:]; !last && len(f.part) == whole {
			f.full = append(f.full, f.part)
			f.part = nil
		}
	}
}

func (f *file) row(c *changelog.Change) error {
	f.rows++
	return f.format.WriteRow(c)
}

// after sends what is full, and ends a file that is long enough. The last part that a file may have is kept for its end, so nothing is cut off.
func (c *committer) after(ctx context.Context, f *file) error {
	o := &c.s.o
	if f.press != nil && f.press.some {
		f.press.take(f.add)
	}
	if err := f.send(ctx); err != nil {
		return err
	}
	if f.size >= o.MaxFileBytes || o.MaxFileRows > 0 && f.rows >= o.MaxFileRows || len(f.parts) >= c.s.maxParts-1 {
		for i := range c.open {
			if c.open[i] == f {
				return c.end(ctx, i)
			}
		}
	}
	return nil
}

// end ends an open file: its last bytes are on their way.
func (c *committer) end(ctx context.Context, i int) error {
	f := c.open[i]
	c.open = append(c.open[:i], c.open[i+1:]...)
	c.done = append(c.done, f)
	if err := f.format.Close(); err != nil {
		return err
	}
	f.format = nil // it may hold the buffers of a row group, and a checkpoint may have many files
	if f.press != nil {
		if err := f.press.Close(); err != nil {
			return err
		}
		f.press.take(f.add)
		f.free()
	}
	if f.upload == "" && len(f.full) == 0 && f.at != f.key {
		return f.put(ctx)
	}
	if len(f.part) > 0 || len(f.parts)+len(f.full) == 0 {
		f.full = append(f.full, f.part)
		f.part = nil
	}
	return f.send(ctx)
}

// hold keeps what formats hold back, row groups, within the lane's byte budget: the largest are written first.
func (c *committer) hold(ctx context.Context) error {
	for {
		sum, most := 0, -1
		for i, f := range c.open {
			n := f.format.Buffered()
			sum += n
			if n > 0 && (most < 0 || n > c.open[most].format.Buffered()) {
				most = i
			}
		}
		if sum <= c.lane.ByteBudget || most < 0 {
			return nil
		}
		f := c.open[most]
		if err := f.format.Flush(); err != nil {
			return err
		}
		if f.format.Buffered() > 0 {
			return nil // it cannot let go of more
		}
		if err := c.after(ctx, f); err != nil {
			return err
		}
	}
}

func (c *committer) endAll(ctx context.Context) error {
	for len(c.open) > 0 {
		if err := c.end(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// send sends the parts that are full.
func (f *file) send(ctx context.Context) error {
	for i, body := range f.full {
		f.full[i] = nil // it is as long in memory as its request
		if err := f.sendPart(ctx, body); err != nil {
			return err
		}
	}
	f.full = f.full[:0]
	return nil
}

func (f *file) sendPart(ctx context.Context, body []byte) error {
	if f.upload == "" {
		if err := f.begin(ctx); err != nil {
			return err
		}
	}
	n := len(f.parts)
	f.mu.Lock()
	f.parts = append(f.parts, partReceipt{})
	f.mu.Unlock()
	return f.c.start(ctx, f, func(ctx context.Context) error {
		p, err := f.c.s.b.uploadPart(ctx, f.at, f.upload, n+1, body)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.parts[n] = p
		return err
	})
}

// begin begins the upload. Where its answer is lost, an upload without parts is left that the next Open finds by its name.
func (f *file) begin(ctx context.Context) error {
	id, err := f.c.s.b.createUpload(ctx, f.at, f.token, f.target.content(f.c.s))
	f.upload = id
	return err
}

// free gives the compressor back.
func (f *file) free() {
	if f.press != nil {
		f.press.drop(&f.c.lines)
		f.press = nil
	}
}

// put writes a staged object that needs no parts.
func (f *file) put(ctx context.Context) error {
	body := f.part
	f.part = nil
	return f.c.start(ctx, f, func(ctx context.Context) error {
		b := &f.c.s.b
		in := &s3.PutObjectInput{Bucket: &b.name, Key: &f.at, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), ContentType: optional(f.target.content(f.c.s)), RequestPayer: b.payer()}
		b.dress(in, f.token)
		out, err := b.api.PutObject(ctx, in)
		if err == nil {
			f.mu.Lock()
			f.etag = aws.ToString(out.ETag)
			f.mu.Unlock()
		}
		return err
	})
}

// staged completes the upload of a staged object, which is nobody's to see.
func (f *file) staged(ctx context.Context) error {
	if f.at == f.key || f.upload == "" {
		return nil
	}
	b := &f.c.s.b
	_, cerr := b.completeUpload(ctx, f.at, f.upload, f.parts)
	o, ok, err := b.head(ctx, f.at)
	if err == nil && (!ok || o.token != f.token || o.size != f.size) {
		if err = cerr; err == nil {
			err = errors.New("a staged object is not there after its upload was completed")
		}
	}
	f.etag = o.etag
	return err
}

// drop frees what the server holds of a file that nobody will commit.
func (f *file) drop(ctx context.Context) {
	f.free()
	b := &f.c.s.b
	if f.upload != "" {
		b.abort(ctx, f.at, f.upload)
	}
	if f.at != f.key {
		b.remove(ctx, f.at)
	}
}

func (f *file) receipt() fileReceipt {
	r := fileReceipt{Table: f.target.table.Name, Key: f.key, Token: f.token, Rows: f.rows, Size: f.size, SHA256: hex.EncodeToString(f.hash.Sum(nil)), ContentType: f.target.content(f.c.s)}
	if f.at != f.key {
		r.Staged, r.ETag = f.at, f.etag
	} else {
		r.Upload, r.Parts = f.upload, f.parts
	}
	return r
}

func (tg *target) content(s *Sink) string {
	switch s.o.Compression {
	case Gzip:
		return "application/gzip"
	case Zstd:
		return "application/zstd"
	}
	return tg.layout.ContentType
}
