package s3

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"path"
	"time"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Dead letters are rows of a file of their own, in the sink's own folder: JSON lines, in the sink's compression. Everything that is done to a file of
// rows is done to it, so the letters of a checkpoint are there when its rows are, or not at all, and no bound on memory is another one.
//
//	PREFIX/_flinksink/BRIDGE/SINK/letter/BRIDGE.SINK.p0-7.gGENERATION.cCHECKPOINT.SEQUENCE.RANDOM.jsonl
//
// In a receipt it is the file without a table: a release that knows no letters commits it all the same.

const letterFolder = "letter"

// StoredLetter is one line of a file of dead letters. Bytes are base64; null is Kafka's null, and "" is empty.
type StoredLetter struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Offset    int64          `json:"offset"`
	Index     int32          `json:"index"` // of the refused change in its message; -1: the message as a whole
	Column    string         `json:"column,omitempty"`
	Class     string         `json:"class"`
	Error     string         `json:"error"`
	Timestamp *time.Time     `json:"timestamp"` // of the message, UTC
	Key       []byte         `json:"key"`
	Value     []byte         `json:"value"`
	Headers   []LetterHeader `json:"headers,omitempty"`
	Changes   int            `json:"changes"`
}

// LetterHeader is a header of a message. A key that is no UTF-8 is in KeyBytes.
type LetterHeader struct {
	Key      string `json:"key"`
	KeyBytes []byte `json:"key_bytes,omitempty"`
	Value    []byte `json:"value"`
}

// DeadLetter returns the letter as the bridge gave it.
func (l *StoredLetter) DeadLetter() sink.DeadLetter {
	out := sink.DeadLetter{Partition: changelog.Partition{Topic: l.Topic, Partition: l.Partition}, Offset: l.Offset, Index: l.Index, Column: l.Column, Class: l.Class,
		Error: l.Error, Key: l.Key, Value: l.Value, Changes: l.Changes}
	if l.Timestamp != nil {
		out.Timestamp = *l.Timestamp
	}
	for _, h := range l.Headers {
		key := h.Key
		if h.KeyBytes != nil {
			key = string(h.KeyBytes)
		}
		out.Headers = append(out.Headers, changelog.Header{Key: key, Value: h.Value})
	}
	return out
}

func storedLetter(l *sink.DeadLetter) StoredLetter {
	out := StoredLetter{Topic: l.Topic, Partition: l.Partition.Partition, Offset: l.Offset, Index: l.Index, Column: l.Column, Class: l.Class, Error: l.Error,
		Key: l.Key, Value: l.Value, Changes: l.Changes}
	// JSON's years have four digits, and a producer may set any 64 bits.
	if t := l.Timestamp.UTC(); !t.IsZero() && t.Year() >= 0 && t.Year() <= 9999 {
		out.Timestamp = &t
	}
	for _, h := range l.Headers {
		s := LetterHeader{Key: h.Key, Value: h.Value}
		if !utf8.ValidString(h.Key) {
			s.Key, s.KeyBytes = "", []byte(h.Key)
		}
		out.Headers = append(out.Headers, s)
	}
	return out
}

// letterTarget is where letters go: a table without a name, which no lane has.
func (c *committer) letterTarget() *target {
	if c.letters == nil {
		c.letters = &target{table: &changelog.Table{Schema: &changelog.Schema{}}, format: letterTable{}, eventTime: -1, layout: Layout{Extension: ".jsonl", ContentType: "application/x-ndjson"},
			folder: path.Join(ownFolder, c.names.bridge, c.names.sink, letterFolder) + "/"}
	}
	return c.letters
}

// WriteDeadLetters implements [sink.DeadLetterKeeper].
func (c *committer) WriteDeadLetters(ctx context.Context, letters []sink.DeadLetter) error {
	if c.broken != nil {
		return c.broken
	}
	if err := c.writeLetters(ctx, letters); err != nil {
		return c.spoil(ctx, "write dead letters", err)
	}
	return nil
}

func (c *committer) writeLetters(ctx context.Context, letters []sink.DeadLetter) error {
	if !c.opened {
		return errorf(sink.ErrConfig, "WriteDeadLetters before Open: a mistake of the caller")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	tg := c.letterTarget()
	for i := range letters {
		line, err := json.Marshal(storedLetter(&letters[i]))
		if err != nil {
			return errorf(sink.ErrConfig, "a dead letter makes no JSON: a mistake of this package")
		}
		c.folder = append(c.folder[:0], tg.folder...)
		f, err := c.fileFor(ctx, tg)
		if err != nil {
			return err
		}
		if err := f.line(append(line, '\n')); err != nil {
			return err
		}
		if err := c.after(ctx, f); err != nil {
			return err
		}
	}
	return c.failure()
}

// line writes a letter.
func (f *file) line(b []byte) error {
	f.rows++
	_, err := f.format.(*letterFile).w.Write(b)
	return err
}

type letterTable struct{}

func (letterTable) NewFile(w io.Writer) (FileWriter, error) { return &letterFile{w}, nil }

type letterFile struct{ w io.Writer }

func (f *letterFile) WriteRow(*changelog.Change) error {
	return errors.New("a row in a file of letters")
}
func (f *letterFile) Buffered() int { return 0 }
func (f *letterFile) Flush() error  { return nil }
func (f *letterFile) Close() error  { return nil }

// DeadLetters goes through the messages that were set aside by the sink that the options name, or by all under the prefix: by sink, and within it
// roughly by generation and checkpoint. It ends with the first error. Sinks with and without Options.Manifest are read alike.
func (r *Reader) DeadLetters(ctx context.Context) iter.Seq2[*StoredLetter, error] {
	return func(yield func(*StoredLetter, error) bool) {
		stop := errors.New("stop")
		prefix := path.Join(r.prefix, ownFolder) + "/"
		if r.o.Bridge != "" {
			prefix = newNames(r.prefix, r.o.Bridge, r.o.Sink).own(letterFolder) + "/"
		}
		err := r.b.listAll(ctx, prefix, "", func(key string, _ time.Time) error {
			if _, kind, _, ok := ownKey(r.prefix, key); !ok || kind != letterFolder {
				return nil
			}
			return r.lettersOf(ctx, key, func(l *StoredLetter) error {
				if !yield(l, nil) {
					return stop
				}
				return nil
			})
		})
		if err != nil && err != stop {
			yield(nil, wrap(ctx, "read", r.o.Sink, r.o.Bridge, classify(err), err))
		}
	}
}

func (r *Reader) lettersOf(ctx context.Context, key string, f func(*StoredLetter) error) error {
	body, ok, err := r.b.open(ctx, key)
	if err != nil || !ok {
		return err // taken away since the listing
	}
	defer body.Close()
	plain, done, err := decompressed(compressionOf(key), body)
	if err != nil {
		return err
	}
	defer done()
	in := bufio.NewReader(plain)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		l := &StoredLetter{}
		if json.Unmarshal(line, l) != nil { // its text may hold what was read
			return errorf(sink.ErrLost, "the object %s is no file of dead letters, or is damaged", brief(key))
		}
		if err := f(l); err != nil {
			return err
		}
	}
}
